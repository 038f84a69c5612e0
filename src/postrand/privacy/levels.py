"""Privacy levels of exact laws beyond ε, rounded up: δ(ε), Rényi and zero-concentrated DP."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from postrand.errors import PrivacyError, sentence, shown
from postrand.mechanism.matrix import UNIT, TransitionMatrix
from postrand.support.exact import add_upper, exp_lower
from postrand.support.inputs import finite

_ULP = 2.0**-52
_LARGEST_EXPONENT = 600.0
_PRECISION = 1e-6
_NARROW = 1e-9  # orders closer than this are not told apart


def delta(matrix: TransitionMatrix, epsilon: float) -> float:
    """Return ``δ(ε) = max_{i,k} Σ_j max(0, M[i,j] - e^ε M[k,j])``, the smallest δ for (ε, δ)-DP, rounded up.

    Pairs of rows are compared in float64; those that can be the largest are then summed exactly.

    Raises
    ------
    PrivacyError
        If ε is negative or not finite.

    Examples
    --------
    >>> M = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    >>> round(delta(M, 0.5), 10), delta(M, 1.0987)  # max(0, p - e^ε q) for randomised response
    (0.3378196823, 0.0)
    """
    if not finite(epsilon) >= 0:
        raise PrivacyError(sentence("epsilon is not a finite number", got=shown(epsilon, repr), wanted=">= 0"))
    epsilon = finite(epsilon)
    array, grown = matrix.array, math.exp(min(epsilon, 700.0))
    rough = np.array([np.maximum(array[i] - grown * array, 0).sum(axis=1) for i in range(matrix.size)])
    np.fill_diagonal(rough, -1)
    # Each term errs by less than (1 + e^ε M) 2^-50; a pair that far below the largest cannot be it.
    error = matrix.size * (1 + grown) * 2.0**-50
    near = np.argwhere(rough >= rough.max() - 2 * error) if error < 1 else np.argwhere(rough >= 0)
    least = exp_lower(epsilon)
    weights = matrix.weights
    rows = {(tuple(weights[i].tolist()), tuple(weights[k].tolist())) for i, k in near}
    return _upper(max((_excess(own, other, least) for own, other in rows), default=Fraction(0)))


def renyi(matrices: TransitionMatrix | Sequence[TransitionMatrix], order: float) -> float:
    """Return the Rényi level ``max_{i,k} ln(Σ_j M[i,j]^a M[k,j]^(1-a)) / (a-1)``, summed over blocks, rounded up.

    It is inf where a released value excludes some true ones.

    Raises
    ------
    PrivacyError
        If the order a is not above 1 and finite.

    Examples
    --------
    >>> M = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    >>> round(renyi(M, 2.0), 6) == round(math.log(0.75**2 / 0.25 + 0.25**2 / 0.75), 6)
    True
    """
    if not finite(order) > 1:
        got = shown(order, repr)
        raise PrivacyError(sentence("the Rényi order is not above 1", got=got, wanted="1 < order < inf"))
    return add_upper(*(_renyi(matrix, order, matrix.epsilon) for matrix in _as_sequence(matrices)))


def zcdp(matrices: TransitionMatrix | Sequence[TransitionMatrix]) -> float:
    """Return an upper bound of the ρ of zero-concentrated DP, ``ρ = sup_{a>1} D_a / a``.

    ``(a-1) D_a`` is convex in a, so between two orders it lies below its chord, and beyond the last order the ratio is
    at most ``ε / a``: intervals are halved until that settles it. Close to order 1, ``D_a <= D_1 + (a-1) ε²/2`` (a
    variance of log ratios within ±ε is at most ε²). At most ``ε²/2`` (Bun & Steinke 2016, Proposition 3.3).
    Never below ρ; above it by at most 3e-6 of ρ for ε >= 0.05 and 2e-4 for ε >= 0.001.

    Examples
    --------
    >>> M = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    >>> zcdp(M) < M.epsilon**2 / 2
    True
    """
    laws = _as_sequence(matrices)
    own = [matrix.epsilon for matrix in laws]  # each takes a logarithm of 60 digits: not again for every order
    epsilon = add_upper(*own)
    if math.isinf(epsilon) or epsilon == 0:
        return epsilon
    first, spread = sum(_divergence(law) for law in laws), sum(e**2 for e in own) / 2 * (1 + 8 * _ULP)
    known: dict[float, float] = {1.0: first}

    def level(order: float) -> float:
        if order not in known:
            found = add_upper(*(_renyi(law, order, e) for law, e in zip(laws, own, strict=True)))
            known[order] = min(found, epsilon, first + (order - 1) * spread * (1 + 8 * _ULP))
        return known[order]

    orders = [1.0, *(1 + 2.0**k for k in range(-10, 4))]
    attained = max(level(a) / a for a in orders)
    while epsilon / orders[-1] > attained:
        orders.append(2 * orders[-1])
        attained = max(attained, level(orders[-1]) / orders[-1])
    open_ = list(pairwise(orders))
    bound = attained
    while open_:
        low, high = open_.pop()
        most = _on_chord(low, level(low), high, level(high))
        if most <= attained * (1 + _PRECISION) or high - low < _NARROW:
            bound = max(bound, most)
            continue
        middle = (low + high) / 2
        attained = max(attained, level(middle) / middle)
        bound = max(bound, attained)
        open_ += [(low, middle), (middle, high)]
    return min(bound * (1 + 4 * _ULP), epsilon**2 / 2 * (1 + 4 * _ULP))


def _on_chord(low: float, first: float, high: float, last: float) -> float:
    """Return the largest ``D_a / a`` for ``low <= a <= high`` where ``(a-1) D_a`` is at most its chord, rounded up."""
    if low == 1:
        return last
    start, end = low - 1, high - 1
    slope = (end * last - start * first) / (end - start)
    level = start * first - slope * start
    orders = [start, end]
    if level < 0 < slope:  # (level + slope t) / (t (t+1)) is stationary here
        orders.append(min(max((-level + math.sqrt(level * level - level * slope)) / slope, start), end))
    chord = (first * start + (t - start) * slope for t in orders)
    return max(k / (t * (t + 1)) for k, t in zip(chord, orders, strict=True)) * (1 + 64 * _ULP)


def _as_sequence(matrices: TransitionMatrix | Sequence[TransitionMatrix]) -> Sequence[TransitionMatrix]:
    return [matrices] if isinstance(matrices, TransitionMatrix) else matrices


def _renyi(matrix: TransitionMatrix, order: float, epsilon: float) -> float:
    if order * epsilon > _LARGEST_EXPONENT:
        return epsilon  # an upper bound for every order; inf with it
    array = matrix.array[:, matrix.array.max(axis=0) > 0]
    top = array.max(axis=0)
    scaled: NDArray[np.float64] = array / top
    moments = (scaled**order * top) @ (scaled ** (1 - order)).T
    # The sum is at least 1. Its relative rounding enters the logarithm as it is: one ulp for each of S additions, and
    # a ulp of a base to the power a is a of them.
    most = max(float(moments.max()), 1.0) * (1 + (len(array) + array.shape[1] + 4 * order + 16) * _ULP)
    return min(math.log(most) / (order - 1) * (1 + 4 * _ULP), epsilon)


def _divergence(matrix: TransitionMatrix) -> float:
    """Return ``D_1``, the largest Kullback–Leibler divergence of two rows, rounded up (no row with a zero alone)."""
    array = matrix.array[:, matrix.array.max(axis=0) > 0]
    logs = np.log(array)
    own = (array * logs).sum(axis=1)
    error = (array.shape[1] + 8) * _ULP * (np.abs(own)[:, None] + array @ np.abs(logs).T)
    return max(float((own[:, None] - array @ logs.T + error).max()), 0.0)


def _excess(own: tuple[int, ...], other: tuple[int, ...], grown: Fraction) -> Fraction:
    """Return ``Σ_j max(0, own - e^ε other) / 2^53`` with ``e^ε`` rounded down: an upper bound."""
    terms = (a * grown.denominator - b * grown.numerator for a, b in zip(own, other, strict=True))
    return Fraction(sum(t for t in terms if t > 0), grown.denominator * UNIT)


def _upper(value: Fraction) -> float:
    rounded = float(value)
    return rounded if Fraction(rounded) >= value else math.nextafter(rounded, math.inf)
