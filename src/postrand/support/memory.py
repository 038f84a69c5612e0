"""Memory of many columns in one piece; and what is no longer used, given back to the system by a server that waits."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_MMAP_THRESHOLD, _LARGE = -3, 1 << 20
"""The number of the option in GNU's malloc.h, and the bytes from which an array is taken from the system."""
_ARENA_MAX = -8


def room_for(columns: Sequence[tuple[int, np.dtype[Any]]]) -> list[NDArray[Any]]:
    """Return an array of each of these lengths and types, all in one piece of memory; what they hold is anything.

    The system hands out a large piece in large pages; page by page, new memory takes as long as the draws.

    >>> [(array.size, array.dtype.name) for array in room_for([(3, np.dtype("int8")), (2, np.dtype("int32"))])]
    [(3, 'int8'), (2, 'int32')]
    """
    sizes = [count * of.itemsize for count, of in columns]
    lines = [-(-size // 64) * 64 for size in sizes]  # each begins a line of the cache
    memory, ends = np.empty(sum(lines), dtype=np.uint8), np.cumsum(lines)
    parts = zip(columns, sizes, ends - lines, strict=True)
    return [memory[start : start + size].view(of) for (_, of), size, start in parts]


def hold_little() -> None:
    """Have arrays taken from the system one by one, and given back when they are freed, where the C library can.

    By itself it comes to keep freed arrays of up to 32 MB, and all of them while something small above is still used.
    """
    change = _function("mallopt")
    if change is not None:
        change(_MMAP_THRESHOLD, _LARGE)


def share_heap() -> None:
    """Have all threads take memory from one heap, where the C library can; before a thread has taken any.

    By itself each thread gets a heap of its own, which keeps what was freed in it from the others: a tenth more memory
    for a dossier, and new pages where there were free ones.
    """
    change = _function("mallopt")
    if change is not None:
        change(_ARENA_MAX, 1)


def give_back() -> None:
    """Return free memory of Arrow and of the C library to the system; it takes some milliseconds at most.

    Both keep what was freed for later, and pieces of it lie between what is used: after a large file, hundreds of
    megabytes.
    """
    pa.default_memory_pool().release_unused()
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


@functools.cache
def _function(name: str) -> Callable[..., int] | None:
    """Return a function of the GNU C library; None where there is another library."""
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # musl, macOS, Windows
        return None
    return found
