"""Amplification by shuffling: what a file of perturbed records reveals once order and ids are gone.

Theorem (Feldman, McMillan & Talwar 2021, Theorem 3.2 and its proof). Let each of n records pass an ε0-DP local
randomiser, and the results be shuffled. For any two files that differ in one record, the pair of output laws is a
post-processing of the pair

    (A + Δ, C - A + 1 - Δ)   and   (A + 1 - Δ, C - A + Δ),
    C ~ Binomial(n-1, e^-ε0),   A ~ Binomial(C, 1/2),   Δ ~ Bernoulli(e^ε0 / (e^ε0 + 1)).

So the hockey-stick divergence of that pair is a δ(ε) for the shuffled file. It is summed numerically here, rounded
up: the closed form of the same paper is several times looser, and that of the 2023 sequel has an erratum.

It covers the released file only if the rows are in random order, no ids are released, and no variable that identifies
a record is released unperturbed. Otherwise records can be told apart and nothing is amplified.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import binom

from postrand.errors import PrivacyError, sentence, shown
from postrand.plain import finite, is_whole

_TAIL = 1e-18
_MOST = 10**12
_SLACK = 1e-11  # of the positive part: more than the rounding of the binomial tails


def shuffled_delta(local_epsilon: float, records: int, epsilon: float) -> float:
    """Return an upper bound of δ(ε) for ``records`` shuffled outputs of ε0-DP randomisers, neighbours differing in one.

    Raises
    ------
    PrivacyError
        If ε0 is not positive and finite, ε is negative, or there is no record.

    Examples
    --------
    >>> shuffled_delta(1.0, 10_000, 0.1) < 1e-6
    True
    >>> shuffled_delta(1.0, 10_000, 1.0)  # shuffling never costs privacy
    0.0
    """
    _check(local_epsilon, records)
    if not finite(epsilon) >= 0:
        raise PrivacyError(sentence("epsilon is not a number >= 0", got=shown(epsilon, repr), wanted=">= 0"))
    if epsilon >= local_epsilon:
        return 0.0
    same = 1 / (1 + math.exp(-local_epsilon))
    clones = binom(records - 1, math.exp(-local_epsilon))
    low, high = int(clones.ppf(_TAIL)), int(clones.isf(_TAIL))
    c = np.arange(max(low - 1, 0), min(high + 1, records - 1) + 1)
    # P/Q grows with the first count a, and exceeds e^ε where a/(c+1) is above this share.
    share = (math.exp(epsilon) * same - (1 - same)) / ((2 * same - 1) * (1 + math.exp(epsilon)))
    least = np.floor(share * (c + 1)) + 1
    at_least_less_one, at_least = binom.sf(least - 2, c, 0.5), binom.sf(least - 1, c, 0.5)
    gained = same * at_least_less_one + (1 - same) * at_least
    paid = math.exp(epsilon) * ((1 - same) * at_least_less_one + same * at_least)
    weight = clones.pmf(c)
    outside = max(float(clones.cdf(c[0] - 1)), 0.0) + max(float(clones.sf(c[-1])), 0.0)
    total = float(weight @ np.maximum(gained - paid, 0)) + _SLACK * float(weight @ gained) + outside
    return min(total, 1.0)


def shuffled_epsilon(local_epsilon: float, records: int, delta: float) -> float:
    """Return an ε for which the shuffled file is (ε, δ)-DP: the feasible end of a bisection, at most ε0.

    Raises
    ------
    PrivacyError
        If δ is not in (0, 1), or as for :func:`shuffled_delta`.

    Examples
    --------
    >>> 0.05 < shuffled_epsilon(1.0, 10_000, 1e-6) < 0.1
    True
    """
    _check(local_epsilon, records)
    if not 0 < finite(delta) < 1:
        raise PrivacyError(sentence("delta is not a probability", got=shown(delta, repr), wanted="0 < delta < 1"))
    low, high = 0.0, local_epsilon
    for _ in range(50):
        middle = (low + high) / 2
        if shuffled_delta(local_epsilon, records, middle) <= delta:
            high = middle
        else:
            low = middle
        if high - low < 1e-9 * high:
            break
    return high


def _check(local_epsilon: float, records: int) -> None:
    if not finite(local_epsilon) > 0:
        raise PrivacyError(sentence("the local epsilon is not a positive number", got=shown(local_epsilon, repr)))
    if not is_whole(records, 1) or records > _MOST:
        wanted = f"1..{_MOST:,} records"
        raise PrivacyError(
            sentence("there is no record to shuffle, or too many", got=shown(records, repr), wanted=wanted)
        )
