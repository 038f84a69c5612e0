"""Signals that end a run become exceptions, so that what is half done is removed on the way out."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Stopped(SystemExit):
    """The exit that a signal asked for; its code is the shell's: 128 and the number of the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise :class:`Stopped` in the block when a signal asks for the end, the first time; more are then ignored.

    A second one would interrupt the removal itself. Signals that were ignored before stay so (``nohup``), and SIGKILL
    and SIGQUIT always end the process at once. Outside the main thread nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: FrameType | None) -> None:
        for each in handled:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(number)

    handled = {n: signal.getsignal(n) for n in SIGNALS if signal.getsignal(n) not in (signal.SIG_IGN, None)}
    try:
        for number in handled:
            signal.signal(number, stop)
        yield
    except KeyboardInterrupt:  # some libraries take SIGINT over while they work
        raise Stopped(signal.SIGINT) from None
    finally:
        for number, before in handled.items():
            signal.signal(number, before)
