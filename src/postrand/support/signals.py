"""Signals that end a run become exceptions, so that unfinished files are removed."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

_PATIENCE = 5.0


class Stopped(SystemExit):
    """The exit that a signal asked for; its code is the shell's: 128 plus the number of the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise :class:`Stopped` in the block when a signal asks to stop; more signals within five seconds are ignored.

    They would interrupt the removal itself. Later signals count again, in case a library has caught the first. Signals
    that were ignored before stay ignored (``nohup``), and SIGKILL and SIGQUIT always end the process at once. Outside
    the main thread nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    asked: list[tuple[int, float]] = []

    def stop(number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if not asked or now - asked[-1][1] > _PATIENCE:
            asked.append((number, now))
            raise Stopped(number)

    handled = {n: signal.getsignal(n) for n in SIGNALS if signal.getsignal(n) not in (signal.SIG_IGN, None)}
    try:
        for number in handled:
            signal.signal(number, stop)
        yield
    except KeyboardInterrupt:  # some libraries handle SIGINT themselves while they work
        raise Stopped(signal.SIGINT) from None
    except Exception:
        if asked:  # during an import or a callback, another exception wraps the exit
            raise Stopped(asked[-1][0]) from None
        raise
    finally:
        for number, before in handled.items():
            signal.signal(number, before)
