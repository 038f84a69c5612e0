"""How far the numerical columns of a plan typically move, computed on its file: internal."""

from __future__ import annotations

from postrand.columns.source import numbers, whole_column
from postrand.ranks.moves import Move, typical_move
from postrand.workflow.known import Known


def moves_of(known: Known | None) -> tuple[Move, ...]:
    """Return how far the values of each numerical column move; raises DataError where values are not numbers."""
    if known is None:
        return ()
    planned = [(entry, name) for entry in known.plan.numerical for name in entry.variables]
    return tuple(
        typical_move(name, numbers(whole_column(known.held, name), name), entry.method, entry.form)
        for entry, name in planned
    )
