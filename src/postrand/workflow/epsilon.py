"""What is said of ε wherever a level is proposed or found: the same words, the same bound, the same page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from postrand.privacy.words import LITTLE
from postrand.support.guesses import guesses_in_words

GUIDE = "docs/choosing-epsilon.md"
DEFAULT_EPSILON = 4.0
"""The limit for a record that is proposed where none is stated."""
BOUND = LITTLE
"""Above it somebody who knows which record is whose learns nearly every value that the record shows."""

_UNIT = 10_000  # shares of ε have four decimals, rounded down


def shares(epsilons: Sequence[float], total: float) -> list[float]:
    """Return shares with four decimals whose exact sum is at most the total.

    >>> shares([4 / 3] * 3, 4.0), shares([0.8] * 5, 4.0)
    ([1.3333, 1.3333, 1.3333], [0.7999, 0.8, 0.8, 0.8, 0.8])
    """
    found = [math.floor(epsilon * _UNIT + 1e-6) / _UNIT for epsilon in epsilons]
    while sum(map(Fraction, found)) > Fraction(total):
        most = found.index(max(found))
        found[most] = (round(found[most] * _UNIT) - 1) / _UNIT
    return found


def meaning(epsilon: float) -> str:
    """Return what the ε of a record means for an attacker's guesses, and where to read on.

    >>> meaning(1.0).partition(": ")[2].partition("; see")[0]
    'of 100 guesses between two equally likely records, 50 are right without and at most 74 with the perturbed values'
    """
    if not math.isfinite(epsilon):
        return f"no bound on an attacker's guesses; see {GUIDE}"
    return f"epsilon = {epsilon:.4g} for a record: {guesses_in_words(epsilon, of='records')}; see {GUIDE}"


def above_bound(epsilon: float) -> Iterator[str]:
    """Yield what a sum of epsilons above the stated bound means, and what to do; nothing up to the bound.

    >>> list(above_bound(8.0)), next(above_bound(53.0)).partition(":")[0]
    ([], 'epsilon = 53 for a record is above 8')
    """
    if epsilon > BOUND:
        said = guesses_in_words(epsilon, of="records")
        yield (
            f"epsilon = {epsilon:.4g} for a record is above {BOUND:g}: {said}. 'postrand advise' proposes plans with "
            f"less; see {GUIDE}"
        )
