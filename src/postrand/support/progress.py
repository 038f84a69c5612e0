"""Progress of long work: a bar in a terminal, plain lines elsewhere, nothing for scripts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

Progress = Callable[[int], None]
"""Called with the number of records done since the last call."""


def silent(done: int) -> None:
    """Ignore progress."""


@contextmanager
def reporter(label: str, total: int | None, stream: TextIO | None = None, quiet: bool = False) -> Iterator[Progress]:
    """Yield a progress callable: a bar if ``stream`` (standard error) is a terminal, otherwise a line now and then.

    >>> import io
    >>> out = io.StringIO()
    >>> with reporter("perturb", 10, out) as step:
    ...     step(10)
    >>> print(out.getvalue(), end="")
    perturb: 10 of 10 records
    """
    if quiet:
        yield silent
        return
    stream = sys.stderr if stream is None else stream
    if stream.isatty():
        import click  # only the bar needs it: scripts start faster without it

        with click.progressbar(length=total or 0, label=label, file=stream) as bar:
            yield bar.update
        return
    lines = _Lines(label, total, stream)
    yield lines.step
    lines.close()


def announce(text: str) -> None:
    """Say in one line what takes its time now, if standard error is a terminal: a person waits, a script does not."""
    stream = sys.stderr
    if stream.isatty():
        print(text, file=stream, flush=True)


class _Lines:
    """Print a plain line now and then, and one at the end."""

    def __init__(self, label: str, total: int | None, stream: TextIO) -> None:
        self.text = f"{label}: {{:,}}" + (f" of {total:,}" if total is not None else "") + " records"
        self.stream, self.done, self.last = stream, 0, time.monotonic()

    def step(self, done: int) -> None:
        self.done += done
        if time.monotonic() - self.last > 5:
            self.close()

    def close(self) -> None:
        print(self.text.format(self.done), file=self.stream, flush=True)
        self.last = time.monotonic()
