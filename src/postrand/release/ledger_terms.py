"""What a curator states of a release that a ledger counts, and whether its limit allows a total."""

from __future__ import annotations

import math
from dataclasses import dataclass

from postrand.certification.series import Level


@dataclass(frozen=True, slots=True)
class Terms:
    """What the curator states of a release that is to be counted.

    ``again``: the same key may be used for other content, as the ledger of a key asks. In a population's ledger
    ``population`` names it, ``kind`` says what the release is, ``limit`` is the largest total ε (at ``delta``, where
    one is given), and ``disjoint``, ``exception`` and ``raised`` are reasons: why no record is in an earlier release,
    why no finite level is needed, and why limits that earlier releases stated may be passed.
    """

    again: bool = False
    population: str | None = None
    kind: str = ""
    limit: float | None = None
    delta: float | None = None
    disjoint: str = ""
    exception: str = ""
    raised: str = ""

    def allows(self, total: Level) -> bool:
        """Whether a total is within the limit: at ``delta``, the smaller of the sums of ε and of ρ, converted.

        >>> Terms(limit=7.0).allows(Level(8.0, rho=0.8)), Terms(limit=7.0, delta=1e-5).allows(Level(8.0, rho=0.8))
        (False, True)
        """
        if self.limit is None:
            return True
        if self.delta is None:
            return total.epsilon is not None and total.epsilon <= self.limit
        found = total.at(self.delta)
        return found is not None and found <= self.limit and total.delta <= self.delta

    @property
    def of_key(self) -> bool:
        """Whether these are the terms of a key's own ledger."""
        return self.population is None


def limit_words(limit: float | None, delta: float | None) -> str:
    """Return a limit as text.

    >>> limit_words(7.0, 1e-5), limit_words(None, None)
    ('ε = 7 at δ = 1e-05', 'none')
    """
    return "none" if limit is None else f"ε = {limit:g}" + ("" if delta is None else f" at δ = {delta:g}")


def at_delta(total: Level, terms: Terms) -> str:
    """Return what a total is at the δ of the limit, to follow the total itself; "" without one."""
    found = None if terms.delta is None else total.at(terms.delta)
    return "" if found is None else f", at δ = {terms.delta:g} together {Level(found)}"


def left_of(before: Level, terms: Terms) -> float:
    """Return an ε that a release can have after ``before``, not above the largest one that the limit allows.

    A release of ε has ``ρ <= ε²/2`` (Bun & Steinke 2016).

    >>> left_of(Level(3.0), Terms(limit=7.0)), left_of(Level(8.0, rho=0.5), Terms(limit=7.0, delta=1e-5)) > 0.7
    (4.0, True)
    """
    if terms.limit is None or before.epsilon is None:
        return 0.0
    if terms.delta is None:
        return max(terms.limit - before.epsilon, 0.0)
    low, high = 0.0, terms.limit + math.sqrt(2 * terms.limit)
    for _ in range(60):
        middle = (low + high) / 2
        fits = terms.allows(before + Level(middle, 0.0, middle**2 / 2 * (1 + 1e-15)))
        low, high = (middle, high) if fits else (low, middle)
    return low
