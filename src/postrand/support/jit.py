"""Compiled loops: one decorator for all. Numba is imported with the module that contains the loops, never earlier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numba
from numba.core import event

from postrand.support.progress import Stage, stage

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


class _Announcer(event.Listener):
    """Say once that loops are being compiled: the first run takes seconds longer than all that follow."""

    def on_start(self, event: object) -> None:
        """Announce the first loop that is compiled; those loaded from the cache never come here."""
        if not _ANNOUNCED:
            _ANNOUNCED.append(True)
            stage(Stage.COMPILING)

    def on_end(self, event: object) -> None:
        """Say nothing more."""


_ANNOUNCED: list[bool] = []
event.register("numba:compile", _Announcer())  # type: ignore[no-untyped-call]  # numba is not typed
