"""What every perturbed variable costs and is worth: the same figures as those of every page."""

from __future__ import annotations

import math
from dataclasses import dataclass

from postrand.app.designing import Designed
from postrand.report.table_worth import EQUAL, TableWorth, pairs_of, table_worth
from postrand.support.worth_basis import Basis


@dataclass(frozen=True, slots=True)
class Precision:
    """Hold one perturbed variable: the ε of its block or split, the worth of its table and of its worst table of two.

    ``together`` are the variables that share this ε; ``worst`` is None where the variable is in no table of two.
    """

    name: str
    epsilon: float
    together: tuple[str, ...]
    one: TableWorth
    worst: TableWorth | None

    @property
    def other(self) -> str:
        """The other variable of the worst table."""
        return "" if self.worst is None else next(n for n in self.worst.variables if n != self.name)

    @property
    def basis(self) -> Basis:
        """The frequencies under which the worth was computed."""
        return self.one.basis


def precisions(made: Designed, records: int) -> tuple[Precision, ...]:
    """Return every perturbed variable of a design, that whose table is worth least first."""
    mechanism, book = made.mechanism, made.plan.codebook
    ones = table_worth(mechanism, [(name,) for name in mechanism.variables], records, EQUAL)
    pairs = table_worth(mechanism, pairs_of(mechanism.variables, book), records, EQUAL)

    def about(one: TableWorth) -> Precision:
        (name,) = one.variables
        mine = [pair for pair in pairs if name in pair.variables]
        worst = min(mine, key=_worth, default=None)
        if name in mechanism.partly:
            assert mechanism.split is not None
            return Precision(name, mechanism.split.epsilon, mechanism.partly, one, worst)
        block = mechanism[name]
        return Precision(name, block.epsilon, block.perturbed, one, worst)

    return tuple(sorted(map(about, ones), key=lambda found: _worth(found.one)))


def _worth(one: TableWorth) -> float:
    """Return the effective records to sort by: what cannot be estimated is worth nothing, and not known is last."""
    if one.effective_records is None:
        return math.inf if one.is_shared else 0.0
    return one.effective_records
