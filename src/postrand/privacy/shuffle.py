"""Amplification by shuffling: what a file of perturbed records reveals once order and ids are gone.

Theorem (Feldman, McMillan & Talwar 2021, Theorem 3.2 and its proof). Let each of n records pass an ε0-DP local
randomiser, and the results be shuffled. For any two files that differ in one record, the pair of output laws is a
post-processing of the pair

    (A + Δ, C - A + 1 - Δ)   and   (A + 1 - Δ, C - A + Δ),
    C ~ Binomial(n-1, e^-ε0),   A ~ Binomial(C, 1/2),   Δ ~ Bernoulli(e^ε0 / (e^ε0 + 1)).

So the hockey-stick divergence of that pair is a δ(ε) for the shuffled file. Given C = c it is

    δ_c(ε) = g s P(A = l-1) - (e^ε - 1) P(A >= l),   g = 1 - e^(ε-ε0),   s = 1 / (1 + e^-ε0),

with l the least first count that favours the first law: written so, nothing cancels however large ε0 is. One clone more
is post-processing (a fair coin added to the counts), so δ_c falls as c grows, and rounding c *down* to a grid, and
e^-ε0 down, only raises δ. It is summed numerically, rounded up: the closed form of the same paper is several times
looser, and that of the 2023 sequel has an erratum.

This bound knows a mechanism by its ε alone. :mod:`postrand.privacy.blanket` reads the mechanism's own law, and proves
far more for several blocks: of both, :func:`shuffled_levels` states each, and :func:`shuffled_epsilon` the least.

They cover the released file only if the rows are in random order, no ids are released, and no variable that identifies
a record is released unperturbed. Otherwise records can be told apart and nothing is amplified.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.errors import PrivacyError, sentence, shown
from postrand.mechanism import Mechanism
from postrand.privacy.blanket import Choice, Part, blanket_delta, choice_of, parts_of, ratio_of
from postrand.support.exact import log_upper
from postrand.support.inputs import finite, is_whole

_MOST = 10**12
_GRID = 1024
"""Numbers of clones at which δ_c is evaluated; below so many possible values, all of them."""

_UNLIKELY = 100.0
"""Fewer clones than the grid holds occur with a probability of at most e^-100, which counts in full."""

_SLACK = 1e-11
_SLACK_LARGE = 1e-8
"""More than the relative rounding of the binomial laws here: up to 10^6 clones, and up to 10^12."""

_LARGEST_EXPONENT = 700.0


def shuffled_delta(law: float | Mechanism, records: int, epsilon: float) -> float:
    """Return an upper bound of δ(ε) for ``records`` shuffled outputs of one randomiser, neighbours differing in one.

    ``law`` is ε0, the ε of one record, or a mechanism: then the least bound. With ε0, it sums over at most 1,025
    numbers of clones, whatever the number of records.

    Raises
    ------
    PrivacyError
        If ε0 is not positive and finite, ε is negative, or there is no record; or if the mechanism has no finite ε, or
        numerical columns.

    Examples
    --------
    >>> shuffled_delta(1.0, 10_000, 0.1) < 1e-6
    True
    >>> shuffled_delta(1.0, 10_000, 1.0)  # shuffling never costs privacy
    0.0
    """
    if not finite(epsilon) >= 0:
        raise PrivacyError(sentence("epsilon is not a number >= 0", got=shown(epsilon, repr), wanted=">= 0"))
    if isinstance(law, Mechanism):
        parts, choice, local = _law(law)
        if local == 0:
            return 0.0
        own = blanket_delta(parts, records, epsilon, choice=choice)
        return min(own, shuffled_delta(local, records, epsilon))
    local_epsilon = law
    _check(local_epsilon, records)
    if epsilon >= local_epsilon:
        return 0.0
    chance = math.exp(-local_epsilon) * (1 - 1e-15)
    gained: float = -math.expm1(epsilon - local_epsilon) / (1 + chance) * (1 + _SLACK)
    if epsilon > _LARGEST_EXPONENT:
        return min(gained, 1.0)  # no clone at all: the most that δ_c can be
    low, grid = _clones(records - 1, chance)
    levels = _given_clones(grid, epsilon, local_epsilon, gained)
    levels = np.minimum.accumulate(levels)  # each bounds those of more clones, too
    slack = 1 + float(_slack(records))
    fewer = np.minimum(scipy.stats.binom.cdf(grid[1:] - 1, records - 1, chance) * slack, 1.0)
    # Σ_i P(grid_i <= C < grid_i+1) δ_i by parts: every factor is rounded up, none is subtracted.
    total = float(levels[-1] + -np.diff(levels) @ fewer) * slack
    return min(total + (math.exp(-_UNLIKELY) if low > 0 else 0.0), gained, 1.0)


def shuffled_epsilon(law: float | Mechanism, records: int, delta: float) -> float:
    """Return an ε for which the shuffled file is (ε, δ)-DP: the feasible end of a bisection, at most that of a record.

    ``law`` is the ε of one record, or a mechanism: then the least of the bounds of :func:`shuffled_levels` is returned,
    which is far lower if the mechanism has several blocks. Whether the release hides the records, :func:`certify` asks.

    Raises
    ------
    PrivacyError
        If δ is not in (0, 1), or as for :func:`shuffled_delta`; if the mechanism has no finite ε, or numerical columns.

    Examples
    --------
    >>> from postrand.mechanism.matrix import randomised_response
    >>> 0.05 < shuffled_epsilon(1.0, 10_000, 1e-6) < 0.1
    True
    >>> blocks = {name: randomised_response(3, 0.25) for name in ("a", "b", "c", "d")}
    >>> shuffled_epsilon(Mechanism(blocks), 10_000, 1e-6) < 0.03
    True
    """
    if isinstance(law, Mechanism):
        return min(shuffled_levels(law, records, delta).values())
    _check(law, records, delta)
    return _least(lambda epsilon: shuffled_delta(law, records, epsilon) <= delta, law, 1e-9)


Bound = Literal["clones", "blanket"]
"""The proven bounds: by the record's ε alone, and by the mechanism's own law."""


def shuffled_levels(mechanism: Mechanism, records: int, delta: float) -> dict[Bound, float]:
    """Return the ε of the shuffled file by each proven bound; none is above a record's.

    Raises
    ------
    PrivacyError
        If the mechanism has no finite ε, or as for :func:`shuffled_epsilon`.

    Examples
    --------
    >>> from postrand.mechanism.matrix import randomised_response
    >>> law = Mechanism({name: randomised_response(5, 1.0) for name in "abcdefgh"})
    >>> found = shuffled_levels(law, 953_076, 1e-9)
    >>> found["clones"] < 0.63, found["blanket"] < 0.06
    (True, True)
    """
    parts, choice, local = _law(mechanism)
    if local == 0:
        return {"clones": 0.0, "blanket": 0.0}
    general = shuffled_epsilon(local, records, delta)

    def proven(enough: float) -> Callable[[float], bool]:
        return lambda epsilon: blanket_delta(parts, records, epsilon, enough=enough, choice=choice) <= delta

    # The first step alone is quick; the transform then improves what it has found.
    rough = _least(proven(math.inf), local, 1e-2)
    return {"clones": general, "blanket": _least(proven(delta), rough, 5e-4, rough / 2)}


def shuffled_holds(bound: str, mechanism: Mechanism, records: int, epsilon: float, delta: float) -> bool:
    """Return whether a bound of :func:`shuffled_levels` proves that the shuffled file is (ε, δ)-DP."""
    parts, choice, local = _law(mechanism)
    if local == 0 or not epsilon >= 0:
        return bool(epsilon >= 0)
    found: dict[str, Callable[[], float]] = {
        "clones": lambda: shuffled_delta(local, records, epsilon),
        "blanket": lambda: blanket_delta(parts, records, epsilon, enough=delta, choice=choice),
    }
    return bound in found and found[bound]() <= delta


def _law(mechanism: Mechanism) -> tuple[Sequence[Part], Choice, float]:
    """Return the parts of a mechanism, those of which a record shows one, and the ε of a record, rounded up."""
    if mechanism.numerical:
        names = ", ".join(column.variable for column in mechanism.numerical)
        raise PrivacyError(sentence("numerical variables have no ε", where="shuffled", got=names))
    parts, choice = parts_of(mechanism.blocks), choice_of(mechanism)
    if parts is None or choice is None:
        raise PrivacyError(sentence("a released value excludes some true values, so there is no finite ε"))
    return parts, choice, log_upper(ratio_of(parts, choice))


def _least(feasible: Callable[[float], bool], high: float, tolerance: float, low: float = 0.0) -> float:
    """Return a feasible point below ``high``, which is one, close to the least; ``low`` is where the search starts."""
    while low > 0 and feasible(low):
        high, low = low, low / 2
    for _ in range(50):
        middle = (low + high) / 2
        if feasible(middle):
            high = middle
        else:
            low = middle
        if high - low < tolerance * high:
            break
    return high


def _clones(others: int, chance: float) -> tuple[int, NDArray[np.float64]]:
    """Return where the grid of numbers of clones begins, and the grid; the last stands for all larger ones.

    ``P(C <= m - t) <= exp(-t²/2m)`` for a binomial C of mean m (Chernoff).
    """
    mean = others * chance
    spread = math.sqrt(2 * mean * _UNLIKELY)
    low = max(0, math.floor(mean - spread * (1 + 1e-9)) - 1)
    high = min(others, math.ceil(mean + spread + _UNLIKELY))
    step = max(1, -(-(high - low) // _GRID))
    return low, np.arange(low, high + 1, step, dtype=np.float64)


def _given_clones(
    clones: NDArray[np.float64], epsilon: float, local_epsilon: float, gained: float
) -> NDArray[np.float64]:
    """Return an upper bound of δ_c for each number c of clones."""
    paid = math.expm1(epsilon)
    first, second = -math.expm1(epsilon - local_epsilon), paid - math.expm1(-local_epsilon)
    # The first law is the likelier by more than e^ε where a / (c+1) is above this share.
    least = np.minimum(np.floor(second / (first + second) * (clones + 1)), clones) + 1
    slack = _slack(clones)
    at, beyond = scipy.stats.binom.pmf(least - 1, clones, 0.5), scipy.stats.binom.sf(least - 1, clones, 0.5)
    levels: NDArray[np.float64] = np.maximum(gained * at * (1 + slack) - paid * beyond * (1 - slack), 0.0)
    return levels


def _slack(size: float | NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.asarray(size) <= 10**6, _SLACK, _SLACK_LARGE)


def _check(local_epsilon: float, records: int, delta: float = 0.5) -> None:
    if not 0 < finite(delta) < 1:
        raise PrivacyError(sentence("delta is not a probability", got=shown(delta, repr), wanted="0 < delta < 1"))
    if not finite(local_epsilon) > 0:
        raise PrivacyError(sentence("the local epsilon is not a positive number", got=shown(local_epsilon, repr)))
    if not is_whole(records, 1) or records > _MOST:
        wanted = f"1..{_MOST:,} records"
        raise PrivacyError(
            sentence(
                "the number of records to shuffle is too small or too large", got=shown(records, repr), wanted=wanted
            )
        )
