"""The compiled loops of releases and risk: of ``_loops.c`` where it was compiled, else the same ones by numba or numpy.

Both take the same arguments and give the same results. The first load at once and take no memory to speak of; numba is
a compiler, so it is imported when a loop is first called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from postrand.support._loops import Block as Block
    from postrand.support._loops import (
        copy_texts,
        draw,
        end_texts,
        fill_tables,
        join_digits,
        leverage,
        look_up,
        match_draws,
        match_texts,
        move_codes,
        permanents,
        scale_and_sum,
        shuffle_runs,
        sum_products,
        weigh_cells,
        wildcard_matches,
    )

__all__ = [
    "copy_texts",
    "draw",
    "end_texts",
    "fill_tables",
    "join_digits",
    "leverage",
    "look_up",
    "match_draws",
    "match_texts",
    "move_codes",
    "permanents",
    "scale_and_sum",
    "shuffle_runs",
    "sum_products",
    "weigh_cells",
    "wildcard_matches",
]

ROWS, ONE_ROW, STAY_OR_MOVE = range(3)
"""The kinds of law that ``draw`` knows: tables of all rows, one row for all, and none; ``_loops.c`` has the same."""

COMPILED = True
"""Whether the loops are those in C; those of texts are in C alone."""

try:
    from postrand.support._loops import (
        copy_texts,
        draw,
        end_texts,
        fill_tables,
        join_digits,
        leverage,
        look_up,
        match_draws,
        match_texts,
        move_codes,
        permanents,
        scale_and_sum,
        shuffle_runs,
        sum_products,
        weigh_cells,
        wildcard_matches,
    )
except ImportError:  # installed where there was no C compiler
    COMPILED = False

    def __getattr__(name: str) -> Any:
        """Return a loop that numba compiles."""
        if name not in __all__:
            raise AttributeError(name)
        if name == "look_up":
            from postrand.support import plain_loops  # nothing for those who have the extension

            return plain_loops.look_up
        from postrand.support import numba_loops  # a second and 100 MB, only for those who have no extension

        return getattr(numba_loops, name)
