"""Warnings to a curator: given as Python's own, or heard by whoever asked for the work, in its own thread alone.

Python keeps the filters of warnings, and what shows them, once for all threads. Work that runs beside other work can
therefore not collect its warnings there without losing some. Here a listener belongs to the context of the work, as in
:mod:`postrand.support.progress`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_heard: ContextVar[list[str] | None] = ContextVar("heard", default=None)
_hushed: ContextVar[tuple[type[Warning], ...]] = ContextVar("hushed", default=())


def warn(text: str, kind: type[Warning], stacklevel: int = 2) -> None:
    """Tell a warning to the work's listener; where there is none, warn as :func:`warnings.warn` does."""
    if issubclass(kind, _hushed.get()):
        return
    listener = _heard.get()
    if listener is None:
        warnings.warn(text, kind, stacklevel=stacklevel + 1)
    elif text not in listener:
        listener.append(text)


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect the warnings of the work in the block, each once, in place of giving them.

    >>> with heard() as said:
    ...     warn("the share is small", UserWarning)
    ...     warn("the share is small", UserWarning)
    >>> said
    ['the share is small']
    """
    said: list[str] = []
    token = _heard.set(said)
    try:
        yield said
    finally:
        _heard.reset(token)


@contextmanager
def hushed(*kinds: type[Warning]) -> Iterator[None]:
    """Leave out warnings of these kinds in the block, which say what is said elsewhere.

    >>> with heard() as said, hushed(UserWarning):
    ...     warn("the share is small", UserWarning)
    >>> said
    []
    """
    token = _hushed.set((*_hushed.get(), *kinds))
    try:
        yield
    finally:
        _hushed.reset(token)
