"""Signals that end a run become exceptions, so that unfinished files are removed; no run goes on long after one.

Python raises such an exception between two steps of its own. A solver or a compiled loop is one step, of seconds or
minutes. So the command line also has a watcher, a thread that hears of the signal at once. If the process is still
there after :data:`GRACE`, it removes the unfinished files (:func:`unfinished`) and ends the process.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
GRACE = 0.4
"""Seconds that a run has to end by itself after a signal."""

_PATIENCE = 5.0
_unfinished: list[Path] = []


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


@contextmanager
def unfinished(*paths: Path) -> Iterator[None]:
    """Name the files and folders of the block that must not outlive it, for a process that ends inside the block.

    Whoever wrote them removes them in every other case.
    """
    _unfinished.extend(paths)
    try:
        yield
    finally:
        for path in paths:
            _unfinished.remove(path)


@contextmanager
def scratch_folder(prefix: str, place: Path | None = None) -> Iterator[Path]:
    """Yield a new folder in ``place`` (the system's folder for such files) that does not outlive the block."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place) as made, unfinished(Path(made)):
        yield Path(made)


def watch() -> None:
    """End this process when a signal has asked to stop and :data:`GRACE` is over, whatever it computes then.

    For a process that is ours: the watcher stays until it ends. A library that takes over Python's wake-up descriptor,
    as an event loop does, also takes over the signals.
    """
    heard, told = os.pipe()
    if hasattr(os, "set_blocking"):
        os.set_blocking(told, False)
    with suppress(RuntimeError):  # no more threads: a signal then waits for the end of a long call
        threading.Thread(target=_wait, args=(heard,), daemon=True, name="postrand-signals").start()
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)


def _wait(heard: int) -> None:
    number = 0
    while number not in SIGNALS:
        number = os.read(heard, 1)[0]
    if "logging" in sys.modules:  # a library that is interrupted in a call to another process logs a traceback
        sys.modules["logging"].disable()
    time.sleep(GRACE)
    for _ in range(2):  # a thread that still writes may have filled a folder while it was removed
        for path in tuple(_unfinished):
            with suppress(OSError):
                path.unlink() if path.is_file() else shutil.rmtree(path, ignore_errors=True)
    say(Stopped(number))
    os._exit(128 + number)


def leave(code: object) -> NoReturn:
    """End the process now, with what is registered for its end: to free every module takes long, and nobody needs it.

    A signal that arrives now changes nothing, unless what is registered takes longer than :data:`GRACE`.
    """
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):  # a reader that is gone
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


_said = threading.Lock()


def say(stopped: Stopped) -> None:
    """Tell the terminal, once, that the process was stopped."""
    if _said.acquire(blocking=False):
        with suppress(OSError, ValueError):
            sys.stderr.write(f"postrand: stopped by {stopped.name}\n")
            sys.stderr.flush()
