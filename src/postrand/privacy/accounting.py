"""Privacy loss of a product of blocks, by the privacy loss distributions of an accounting library."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from postrand.errors import PrivacyError, sentence, shown
from postrand.mechanism.matrix import UNIT, TransitionMatrix
from postrand.support.extras import require
from postrand.support.inputs import finite, is_whole

MAX_COMBINATIONS = 2_000
MAX_TIMES = 1_000_000
_FINEST = 1e-7

_Pair = tuple[tuple[tuple[int, int], int], ...]
"""The two mass functions of a pair of rows: how many released values have each pair of weights."""


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """Hold the privacy loss distributions of every composed pair of true records; levels are rounded up.

    Two true records choose a pair of rows in each block. The levels are the largest over all such choices, taken
    *after* composition.
    """

    distributions: tuple[Any, ...]
    epsilon_limit: float

    def delta(self, epsilon: float) -> float:
        """Return an upper bound of δ(ε)."""
        if epsilon >= self.epsilon_limit:
            return 0.0
        return min(1.0, max(float(d.get_delta_for_epsilon(epsilon)) for d in self.distributions))

    def epsilon(self, delta: float) -> float:
        """Return an upper bound of the ε at δ, at most the sum of the blocks' ε."""
        return min(self.epsilon_limit, max(float(d.get_epsilon_for_delta(delta)) for d in self.distributions))


def compose(
    matrices: TransitionMatrix | Sequence[TransitionMatrix], times: int = 1, interval: float = 1e-4
) -> PrivacyLoss:
    """Return the privacy loss of independent blocks, the whole product released ``times`` times.

    ``compose(M, n)`` equals ``compose([M] * n)``. Losses are rounded up to multiples of ``interval``. The library's
    shortcut for randomised response is not used: it drops the number of compositions.

    Raises
    ------
    PrivacyError
        If there is nothing to compose, or too many choices of pairs of rows to compose them all.

    Examples
    --------
    >>> M = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    >>> loss = compose(M, 20)
    >>> loss.epsilon(1e-2) < 20 * M.epsilon, loss.delta(0.0) <= 1.0
    (True, True)
    """
    require("dp_accounting", "the privacy loss of several blocks together needs")
    laws = [matrices] if isinstance(matrices, TransitionMatrix) else list(matrices)
    if not laws or not is_whole(times, 1) or times > MAX_TIMES:
        got = f"{len(laws)} blocks, {shown(times, repr)} times"
        raise PrivacyError(sentence("there is nothing to compose", got=got, wanted=f"1..{MAX_TIMES} times"))
    if not _FINEST <= finite(interval) < 1:
        wanted = f"{_FINEST:g} <= interval < 1"
        raise PrivacyError(sentence("the interval is too small or too large", got=shown(interval, repr), wanted=wanted))
    counts = Counter(laws * times)
    choices = [list(_choices(_pairs(law), number)) for law, number in counts.items()]
    total = math.prod(len(options) for options in choices)
    if total > MAX_COMBINATIONS:
        raise PrivacyError(
            sentence(
                "too many combinations of rows to compose",
                got=total,
                wanted=f"<= {MAX_COMBINATIONS}",
                fix="add up the blocks' ε, or account for fewer blocks together",
            )
        )
    built = {pair: _distribution(pair, interval) for law in counts for pair in _pairs(law)}
    composed = (_compose(built, itertools.chain(*choice)) for choice in itertools.product(*choices))
    return PrivacyLoss(tuple(composed), sum(law.epsilon * number for law, number in counts.items()))


def _pairs(matrix: TransitionMatrix) -> list[_Pair]:
    """Return the distinct ordered pairs of different rows: the order of released values does not matter."""
    rows = np.unique(matrix.weights, axis=0)
    found = {
        tuple(sorted(Counter(zip(own.tolist(), other.tolist(), strict=True)).items()))
        for own, other in itertools.permutations(rows, 2)
    }
    return sorted(found) or [(((UNIT, UNIT), 1),)]


def _choices(pairs: list[_Pair], number: int) -> Iterable[tuple[tuple[_Pair, int], ...]]:
    """Yield every way for ``number`` equal blocks to take pairs, as (pair, how often)."""
    if math.comb(len(pairs) + number - 1, number) > MAX_COMBINATIONS:
        return ((),) * (MAX_COMBINATIONS + 1)
    chosen = itertools.combinations_with_replacement(pairs, number)
    return (tuple(Counter(choice).items()) for choice in chosen)


def _distribution(pair: _Pair, interval: float) -> Any:
    """Return the library's distribution for one ordered pair of rows."""
    from dp_accounting.pld import privacy_loss_distribution

    own, other = {}, {}
    for (a, b), number in pair:
        if a:
            own[a, b] = math.log(number * a / UNIT)
        if b:
            other[a, b] = math.log(number * b / UNIT)
    return privacy_loss_distribution.from_two_probability_mass_functions(
        other, own, pessimistic_estimate=True, value_discretization_interval=interval, symmetric=True
    )


def _compose(built: dict[_Pair, Any], choice: Iterable[tuple[_Pair, int]]) -> Any:
    parts = [built[pair].self_compose(number) if number > 1 else built[pair] for pair, number in choice]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part)
    return whole
