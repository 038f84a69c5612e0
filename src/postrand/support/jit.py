"""Compiled loops: one decorator for all. Numba is imported with the module that contains the loops, never earlier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numba
from numba.core import event

from postrand.support.progress import Stage, Step, again, latest, stage

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
    """Say while loops are compiled: the first run takes longer than all that follow, by minutes on a busy machine."""

    def on_start(self, event: object) -> None:
        """Announce a loop that is compiled, with those that it calls; those loaded from the cache never come here."""
        _BEFORE.append(latest())
        if len(_BEFORE) == 1:
            stage(Stage.COMPILING)

    def on_end(self, event: object) -> None:
        """Tell the stage again in which the loop was needed: what follows is no compilation."""
        step = _BEFORE.pop()
        if not _BEFORE:
            again(step)


_BEFORE: list[Step | None] = []
"""What was told before each compilation that is under way; numba compiles one at a time."""
event.register("numba:compile", _Announcer())  # type: ignore[no-untyped-call]  # numba is not typed
