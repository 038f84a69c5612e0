"""Progress of long work: its stage, and how much of it is done, told to those who listen.

The work calls :func:`stage`; whoever wants to know wraps it in :func:`listening`. No function between them passes
anything on. A stage ends where the next one begins, so that no stage is complete while it is the last that was told.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, TextIO, TypeVar

Progress = Callable[[int], None]
"""Called with the number of records done since the last call."""


class Stage(StrEnum):
    """The stages of long work, in the order of a release; other commands have some of them."""

    WORKING = "working"
    COMPILING = "compiling loops for this computer, only the first time, for one minute or two"
    READING = "reading and checking"
    COUNTING = "counting"
    DESIGNING = "designing the matrices"
    SINGLING = "measuring the unperturbed variables"
    PERTURBING = "perturbing"
    SUPPRESSING = "searching for the fewest values to suppress"
    GROUPING = "grouping the records"
    WRITING = "writing"
    VERIFYING = "verifying"
    RISK = "measuring the risk"
    CURVES = "comparing structures"
    REPORTS = "writing the reports"
    ESTIMATING = "estimating"
    FITTING = "fitting the model"
    RELATING = "relating the variables to unperturbed columns"
    COPYING = "drawing the copies"
    TRYING = "trying levels of privacy"


@dataclass(frozen=True, slots=True)
class Step:
    """Where work stands: its stage, and how many units of the stage are done; ``total`` is None where nobody knows."""

    stage: str
    done: int = 0
    total: int | None = None
    unit: str = "records"

    @property
    def share(self) -> float | None:
        """The part of the stage that is done, in [0, 1), because an ended stage is followed by another; or None.

        >>> Step("counting", 5, 10).share, Step("counting", 10, 10).share, Step("counting").share
        (0.5, 0.99, None)
        """
        return min(self.done / self.total, 0.99) if self.total else None

    def __str__(self) -> str:
        """Return the step as text.

        >>> print(Step("counting", 500_000, 1_000_000))
        counting: 500,000 of 1,000,000 records (50%)
        """
        if self.share is None:
            return f"{self.stage}: {self.done:,} {self.unit}" if self.done else self.stage
        return f"{self.stage}: {self.done:,} of {self.total:,} {self.unit} ({100 * self.share:.0f}%)"


Listener = Callable[[Step], None]
"""Called at the beginning of each stage and after each part of it, by the thread that works; what it raises ends it."""

_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())
_latest: ContextVar[Step | None] = ContextVar("latest", default=None)
_line: ContextVar[_Line | None] = ContextVar("line", default=None)


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Tell ``listener`` each step of the work in the block, after those who already listen; None changes nothing.

    >>> with listening(print):
    ...     done = stage(Stage.COUNTING, 10)
    ...     done(5)
    counting: 0 of 10 records (0%)
    counting: 5 of 10 records (50%)
    """
    token = _listeners.set(_listeners.get() if listener is None else (*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(token)
        _latest.set(None)


@contextmanager
def unheard() -> Iterator[None]:
    """Tell nobody the steps of the work in the block: it runs beside other work, which tells its own."""
    token = _listeners.set(())
    try:
        yield
    finally:
        _listeners.reset(token)


def stage(name: str, total: int | None = None, unit: str = "records") -> Progress:
    """Begin a stage, and return what to call with the number of units done since the last call."""
    listeners, step = _listeners.get(), Step(name, 0, total, unit)
    if not listeners:
        return silent

    def tell(done: int) -> None:
        nonlocal step
        step = replace(step, done=step.done + done)
        for listener in listeners:
            listener(step)
        _latest.set(step)

    tell(0)
    return tell


def latest() -> Step | None:
    """Return the step that was told last where somebody listens, or None."""
    return _latest.get() if _listeners.get() else None


def again(step: Step | None) -> None:
    """Tell a step once more: what came between, such as compiling, has ended."""
    if step is not None:
        for listener in _listeners.get():
            listener(step)
    _latest.set(step)


class _Sized(Protocol):
    @property
    def num_rows(self) -> int: ...


_Batch = TypeVar("_Batch", bound=_Sized)


def passing(batches: Iterable[_Batch], name: str, total: int | None = None) -> Iterator[_Batch]:
    """Yield batches of records, and tell their pass as a stage; ``total`` is the number of all records, if known."""
    done = stage(name, total)
    for batch in batches:
        yield batch
        done(batch.num_rows)


LOGGED = 10.0
"""Seconds between two lines of progress in a file or a pipe."""


def silent(done: int) -> None:
    """Ignore progress."""


@contextmanager
def shown(quiet: bool = False, stream: TextIO | None = None, after: float = 1.0) -> Iterator[None]:
    """Show the work in the block as one line of a terminal, with its time, from ``after`` seconds on.

    The line is removed at the end. Where ``stream`` (standard error) is a file or a pipe, a line is added every
    ``LOGGED`` seconds; where it is neither, as in a test, nothing is written.
    """
    stream = sys.stderr if stream is None else stream
    if quiet or not (stream.isatty() or _is_open(stream)):
        yield
        return
    line = _Line(stream, after) if stream.isatty() else _Log(stream, LOGGED)
    painter = threading.Thread(target=line.run, daemon=True, name="postrand-progress")
    painter.start()
    token = _line.set(line)
    try:
        with listening(line.hear):
            yield
    finally:
        _line.reset(token)
        line.ended.set()
        painter.join()


@contextmanager
def paused() -> Iterator[None]:
    """Show no progress in the block: a question stands on the terminal, and its time is not the work's."""
    line = _line.get()
    if line is None:
        yield
        return
    with line.writing:
        line.clear()
        began = time.monotonic()
        try:
            yield
        finally:
            line.entered += time.monotonic() - began


@contextmanager
def told(progress: bool | Listener) -> Iterator[None]:
    """Tell the work in the block to a listener, or show it on the terminal (True), or do neither (False)."""
    with shown() if progress is True else nullcontext(), listening(progress if callable(progress) else None):
        yield


def _is_open(stream: TextIO) -> bool:
    try:
        return stream.fileno() >= 0
    except (OSError, ValueError):  # held in memory, or closed
        return False


class _Line:
    """Paint the latest step a few times a second: while a stage computes without a step, its time goes on."""

    def __init__(self, stream: TextIO, after: float) -> None:
        self.stream, self.after, self.ended = stream, after, threading.Event()
        self.writing = threading.Lock()  # of the painter, or of whoever asks a question
        self.latest, self.entered = Step(Stage.WORKING), time.monotonic()

    def hear(self, step: Step) -> None:
        if step.stage != self.latest.stage:
            self.entered = time.monotonic()
        self.latest = step

    def run(self) -> None:
        shown = self.ended.wait(self.after)
        while not shown and not self.ended.wait(0.2):
            with self.writing:
                self.paint(f"{self.latest}, {time.monotonic() - self.entered:.0f} s")
        if not shown:
            self.clear()

    def clear(self) -> None:
        self.paint("")

    def paint(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1  # a line that wraps could not be painted over
        self.stream.write(f"\r\x1b[2K{text[:width]}")
        self.stream.flush()


class _Log(_Line):
    """Add a line every so many seconds, where lines cannot be painted over."""

    def clear(self) -> None:
        """Leave all lines."""

    def run(self) -> None:
        said = False
        while not self.ended.wait(self.after):
            compiles = self.latest.stage == Stage.COMPILING  # again and again in one run: one line says how long
            if not (compiles and said):
                self.stream.write(f"postrand: {self.latest}, {time.monotonic() - self.entered:.0f} s\n")
                self.stream.flush()
            said = said or compiles
