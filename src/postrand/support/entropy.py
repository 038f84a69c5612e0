"""Entropy of exact transition matrices, each value rounded to the safe side (RDF (4))."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

_UNIT_BITS = 53
_RELATIVE_ERROR = 1e-13
"""Above the error of sums of non-negative ``-x ln x``: each term is good to 4 units, pairwise sums add log2(n) more."""


def row_entropies(weights: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return ``-Σ_v P[u,v] ln P[u,v]`` in nats for each row u, shape (S,), to about 1e-15 relative.

    >>> row_entropies(np.array([[2**52, 2**52], [0, 2**53]])).round(4).tolist()
    [0.6931, 0.0]
    """
    array = weights / 2.0**_UNIT_BITS
    logs = np.log(array, out=np.zeros_like(array), where=array > 0)  # 0 ln 0 = 0
    entropies: NDArray[np.float64] = -(array * logs).sum(axis=1)
    return np.abs(entropies)  # -0.0 of an unperturbed row


def entropy_rate_lower(weights: NDArray[np.int64]) -> float:
    """Return a float at or below ``H(P) = (1/S) Σ_u H(row u)`` (RDF (4), uniform μ), in nats, within 2e-13 relative.

    The mean of the given rows, shape (R, S); R rows can represent all S.
    """
    return float(row_entropies(weights).mean()) * (1 - _RELATIVE_ERROR)


def beta_lower(laws: Sequence[NDArray[np.int64]]) -> float:
    """Return a float at or below ``Σ_k H(P_k) / Σ_k ln S_k`` (RDF Definitions 1 and 2), within 4e-13 relative.

    Exact and then rounded down if all weights and sizes are powers of two. Returns 1 if every matrix has one category
    only. Each matrix is given by all its rows, or by some that represent all, shape (R, S).

    >>> beta_lower([np.full((2, 2), 2**52)]), beta_lower([np.eye(3, dtype=np.int64) * 2**53])
    (1.0, 0.0)
    """
    most = math.fsum(math.log(law.shape[1]) for law in laws)
    if most == 0:
        return 1.0
    exact = _dyadic_beta(laws)
    if exact is not None:
        return _floor(exact)
    rate = math.fsum(entropy_rate_lower(law) for law in laws)
    return rate / (most * (1 + _RELATIVE_ERROR)) * (1 - _RELATIVE_ERROR)


def format_lower(value: float, digits: int = 6) -> str:
    """Return ``value`` as text with the given number of significant digits, rounded down: "at least" stays true.

    >>> format_lower(0.99999999), format_lower(0.62)
    ('0.999999', '0.62')
    """
    return f"{Context(prec=digits, rounding=ROUND_FLOOR).plus(Decimal(repr(value))).normalize():f}"


def _dyadic_beta(laws: Sequence[NDArray[np.int64]]) -> Fraction | None:
    """Return β as an exact rational if all logarithms to the base 2 are whole numbers; otherwise None."""
    bits, most = Fraction(0), 0
    for law in laws:
        rows, size = law.shape
        used = law[law > 0]
        if size & (size - 1) or (used & (used - 1)).any():
            return None
        powers, counts = np.unique(used, return_counts=True)
        spent = sum(
            int(w) * (_UNIT_BITS - int(w).bit_length() + 1) * int(n) for w, n in zip(powers, counts, strict=True)
        )
        bits += Fraction(spent, rows << _UNIT_BITS)
        most += size.bit_length() - 1
    return bits / most


def _floor(value: Fraction) -> float:
    rounded = float(value)
    return rounded if Fraction(rounded) <= value else math.nextafter(rounded, -math.inf)


def column_excess(weights: NDArray[np.int64]) -> tuple[int, Fraction]:
    """Return the column whose sum is farthest from 1, and by how much, exact (0 where all sums are 1).

    >>> column_excess(np.array([[2**53, 0], [2**52, 2**52]]))
    (0, Fraction(1, 2))
    """
    totals: list[Any] = [sum(map(int, column)) - (1 << _UNIT_BITS) for column in weights.T]
    worst = max(range(len(totals)), key=lambda j: abs(totals[j]))
    return worst, Fraction(totals[worst], 1 << _UNIT_BITS)
