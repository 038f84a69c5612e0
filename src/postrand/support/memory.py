"""Memory that is no longer used, given back to the system: a server that waits for a person should hold little."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import pyarrow as pa


def give_back() -> None:
    """Return free memory of Arrow and of the C library to the system; it takes some milliseconds at most.

    Both keep what was freed for later, and pieces of it lie between what is used: after a large file, hundreds of
    megabytes.
    """
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """Return the function of the GNU C library that does it; None where there is another library."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # musl, macOS, Windows
        return None
    return found
