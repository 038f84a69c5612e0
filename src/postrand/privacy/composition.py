"""The δ(ε) of independent blocks together, never below the truth: exact where it can be summed, else by Rényi levels.

Two true records choose a pair of rows in each block. The probabilities of a released value multiply over blocks, so

    δ(ε) = max over choices of  Σ_z max(0, Π_b M_b[i_b, z_b] - e^ε Π_b M_b[k_b, z_b]).

Rows that differ in every block are enough: to forget a block is to process the release, and processing lowers δ. Values
with the same pair of products are counted together, so equal blocks, and laws of few different entries, stay short.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from postrand.mechanism.matrix import UNIT, TransitionMatrix
from postrand.privacy.levels import delta, renyi
from postrand.support.exact import exp_lower

MAX_TERMS = 200_000
"""Terms of the exact sum, over all choices of rows; beyond, Rényi levels bound it."""

_ORDERS = tuple(1 + 2.0**k for k in np.arange(-4, 9, 0.5))
_SLACK = 1 + 1e-12

_Atoms = dict[tuple[int, int], int]
"""How many released values have each pair of weights, under one and the other true value."""


def delta_upper(matrices: Sequence[TransitionMatrix], epsilon: float) -> float:
    """Return an upper bound of δ(ε) of independent blocks; 0 where their ε add up to no more than ``epsilon``.

    It is exact, rounded up, for one block, and for several where the sum has at most 200,000 terms. Beyond, it is the
    least of ``e^((a-1)(D_a - ε)) (1 - 1/a)^(a-1) / a`` over orders a, D_a the sum of the blocks' Rényi levels, rounded
    up (Canonne, Kamath & Steinke 2020, Proposition 12).

    Examples
    --------
    >>> from postrand.mechanism.matrix import randomised_response
    >>> laws = [randomised_response(2, 0.5)] * 20
    >>> delta_upper(laws, 10.0), 0.0006 < delta_upper(laws, 8.0) < 0.0007
    (0.0, True)
    """
    if len(matrices) == 1:
        return delta(matrices[0], epsilon)
    ratios = [matrix.ratio for matrix in matrices]
    if None not in ratios and math.prod((r for r in ratios if r is not None), start=Fraction(1)) <= exp_lower(epsilon):
        return 0.0
    found = _exact(matrices, epsilon)
    return _by_renyi(matrices, epsilon) if found is None else found


def _exact(matrices: Sequence[TransitionMatrix], epsilon: float) -> float | None:
    """Return the largest sum over all choices of rows, rounded up; None where it has too many terms."""
    if any(matrix.size**2 > MAX_TERMS for matrix in matrices):
        return None
    pairs = [_pairs(matrix) for matrix in matrices]
    choices = math.prod(map(len, pairs))
    if choices > MAX_TERMS:
        return None
    grown, unit, left, worst = exp_lower(epsilon), UNIT ** len(matrices), MAX_TERMS, Fraction(0)
    for choice in itertools.product(*pairs):
        atoms = _multiplied(choice, left)
        if atoms is None:
            return None
        left -= len(atoms)
        terms = (n * (a * grown.denominator - b * grown.numerator) for (a, b), n in atoms.items())
        worst = max(worst, Fraction(sum(t for t in terms if t > 0), grown.denominator * unit))
    rounded = float(worst)
    return rounded if Fraction(rounded) >= worst else math.nextafter(rounded, math.inf)


def _pairs(matrix: TransitionMatrix) -> list[_Atoms]:
    """Return the distinct ordered pairs of different rows: the order of released values does not matter."""
    rows = np.unique(matrix.weights, axis=0).tolist()
    found = {frozenset(Counter(zip(own, other, strict=True)).items()) for own, other in itertools.permutations(rows, 2)}
    return [dict(pair) for pair in found] or [{(UNIT, UNIT): 1}]


def _multiplied(choice: Sequence[_Atoms], most: int) -> _Atoms | None:
    """Return the atoms of a product; None where there are more than ``most``."""
    atoms: _Atoms = {(1, 1): 1}
    for part in choice:
        if len(atoms) * len(part) > most:
            return None
        grown: _Atoms = Counter()
        for ((a, b), n), ((c, d), m) in itertools.product(atoms.items(), part.items()):
            grown[a * c, b * d] += n * m
        atoms = grown
    return atoms


def _by_renyi(matrices: Sequence[TransitionMatrix], epsilon: float) -> float:
    best = 1.0
    for order in _ORDERS:
        level = renyi(matrices, order)
        if math.isfinite(level):
            exponent = (order - 1) * (level - epsilon) + (order - 1) * math.log1p(-1 / order) - math.log(order)
            slack = 1e-13 * (order - 1) * (level + epsilon)  # of the exponent: its terms may cancel
            best = min(best, math.exp(min(exponent + slack, 0.0)) * _SLACK)
    return best
