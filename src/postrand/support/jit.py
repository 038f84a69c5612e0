"""Compiled loops: one decorator for all. Numba is imported with the module that contains the loops, never earlier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numba

Loop: TypeAlias = Callable[..., Any]


def compiled(function: Loop) -> Loop:
    """Compile ``function`` without the interpreter's lock; keep the result on disk if a cache folder is writable."""
    return compiled_with()(function)


def compiled_with(**options: Any) -> Callable[[Loop], Loop]:
    """Return :func:`compiled` with options of numba, for example ``fastmath={"contract"}``."""

    def compile_it(function: Loop) -> Loop:
        try:
            made: Loop = numba.njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # the package and the user's cache directory are both read-only
            made = numba.njit(nogil=True, **options)(function)
        return made

    return compile_it
