"""The feasible set of the uniform off-diagonal family (ABC Fact 1), for every S >= 2 and ε > 0."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from postrand.errors import DesignError, sentence

MAX_LISTED = 14
"""Vertices number about 2^S: beyond this size they are not listed."""


@dataclass(frozen=True, slots=True)
class FeasibleSet:
    """The diagonals ``q`` for which ``M[k,k] = q_k``, other entries ``(1-q_k)/(S-1)``, is ε-DP (ABC (10), (11)).

    Examples
    --------
    >>> FeasibleSet(2, 1.0).vertices().round(4).tolist()
    [[0.0, 1.0], [0.2689, 0.2689], [0.7311, 0.7311], [1.0, 0.0]]
    """

    size: int
    epsilon: float

    def __post_init__(self) -> None:
        if self.size < 2 or not self.epsilon > 0 or not math.isfinite(self.epsilon):
            raise DesignError(
                sentence("no feasible set", got=f"S={self.size}, ε={self.epsilon}", wanted="S >= 2, 0 < ε < inf")
            )

    def constraints(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return ``C`` (m, S) and ``b`` (m,) with ``C q <= b`` (ABC (11)-(17)): m = 3S(S-1), or 2S(S-1) + 2S for S = 2.

        ABC's (12)-(17) hold for S >= 3. With two categories the two off-diagonal entries share no column, (16) and
        (17) fall away, and ``0 <= q <= 1`` must be said.
        """
        s, grown = self.size, math.exp(self.epsilon)
        rows, bounds = [], []
        for k, other in ((k, i) for k in range(s) for i in range(s) if i != k):
            ratios = [((s - 1.0), grown, grown), (-1.0, -(s - 1) * grown, -1.0)]
            if s > 2:
                ratios.append((-1.0, grown, grown - 1))
            for own, across, bound in ratios:
                row = np.zeros(s)
                row[k], row[other] = own, across
                rows.append(row)
                bounds.append(bound)
        if s == 2:
            rows += [*np.eye(2), *-np.eye(2)]
            bounds += [1.0, 1.0, 0.0, 0.0]
        return np.array(rows), np.array(bounds)

    def matrix(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the matrix (S, S) of the diagonal q (ABC (8))."""
        array = np.repeat(((1 - q) / (self.size - 1))[:, None], self.size, axis=1)
        np.fill_diagonal(array, q)
        return array

    def contains(self, q: NDArray[np.float64], tolerance: float = 0.0) -> bool:
        """Tell whether every ratio of (10) is at most ``e^ε (1 + tolerance)``, in O(S) (float arithmetic)."""
        q = np.asarray(q, dtype=np.float64)
        if q.shape != (self.size,) or q.min() < 0 or q.max() > 1:
            return False
        off = (1 - q) / (self.size - 1)
        grown = math.exp(self.epsilon) * (1 + tolerance)
        order = np.sort(off)
        least = np.where(off == order[0], order[1] if (off == order[0]).sum() == 1 else order[0], order[0])
        most = np.where(off == order[-1], order[-2] if (off == order[-1]).sum() == 1 else order[-1], order[-1])
        between = self.size == 2 or order[-1] <= grown * order[0]
        return bool(between and (q <= grown * least).all() and (most <= grown * q).all())

    def vertices(self) -> NDArray[np.float64]:
        """Return every vertex, one a row, in lexicographic order.

        Raises
        ------
        DesignError
            If S > 14: about 2^S of them.
        """
        if self.size > MAX_LISTED:
            raise DesignError(sentence("too many vertices to list", got=f"S={self.size}", wanted=f"S <= {MAX_LISTED}"))
        if self.size == 2:
            high = 1 / (1 + math.exp(-self.epsilon))
            return np.array([[0, 1], [1 - high, 1 - high], [high, high], [1, 0]])
        candidates = np.unique(np.round(1 - (self.size - 1) * self._candidates(), 12), axis=0)
        C, b = self.constraints()
        tight = np.abs(candidates @ C.T - b) < 1e-10 * np.abs(C).max()
        return candidates[[np.linalg.matrix_rank(C[row], tol=1e-6) == self.size for row in tight]]

    def _candidates(self) -> NDArray[np.float64]:
        """Return off-diagonal vectors that include every vertex: two extremes, the rest at one end of their range."""
        s, points = self.size, []
        for least, most, low, high in corner_values(s, self.epsilon):
            rest = np.array(list(product((low, high), repeat=s - 2)))
            for i, j in ((i, j) for i in range(s) for j in range(s) if i != j):
                block = np.empty((len(rest), s))
                block[:, i], block[:, j] = least, most
                block[:, [k for k in range(s) if k not in (i, j)]] = rest
                points.append(block)
        return np.concatenate(points)


def corner_values(size: int, epsilon: float) -> NDArray[np.float64]:
    """Return off-diagonal values ``(least, most, low, high)``, one combination a row, that reach every vertex (S >= 3).

    Let ``a`` and ``b`` be the smallest and largest off-diagonal entry ``o_k = (1-q_k)/(S-1)``. Given those, (10)
    leaves every other entry the same interval ``[low(a), high(b)]``, whatever the others are:
    ``low = a`` if ``a >= v`` else ``v + κ (v - a)``, with ``v = 1/(S-1+e^ε)``, ``κ = max(e^ε/(S-1), (S-1)/e^ε)``;
    ``high = b`` if ``b <= w`` else ``w - (S-1)e^ε (b - w)``, with ``w = 1/(S-1+e^-ε)``.
    So on each of four cells of the (a, b)-plane the entries are linear in (a, b), and a convex function is largest
    where (a, b) is a corner of the cell and every other entry is low or high. With them Proposition 2 needs no
    condition on S and ε.
    """
    s1, grown = size - 1.0, math.exp(epsilon)
    v, w = 1 / (s1 + grown), 1 / (s1 + 1 / grown)
    kappa, fall = max(grown / s1, s1 / grown), s1 * grown
    found = []
    for below, above in product((False, True), repeat=2):
        # low and high as (constant, slope) on this cell; every constraint as x·a + y·b <= z.
        low = (v + kappa * v, -kappa) if below else (0.0, 1.0)
        high = (w + fall * w, -fall) if above else (0.0, 1.0)
        lines = np.array(
            [
                (1, -1, 0),
                (-grown, 1, 0),
                (s1, 1 / grown, 1),
                (-grown, -s1, -1),
                (1 / grown, s1, 1),
                (-s1, -grown, -1),
                (low[1], -high[1], high[0] - low[0]),
                (1, 0, v) if below else (-1, 0, -v),
                (0, -1, -w) if above else (0, 1, w),
                (-1, 0, 0),
                (0, s1, 1),
            ]
        )
        for a, b in _corners(lines):
            found.append((a, b, low[0] + low[1] * a, high[0] + high[1] * b))
    return _without_repeats(np.array(found))


def _corners(lines: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the corners of ``{x: A x <= c}`` in the plane, ``lines`` holding rows ``(A, c)``."""
    i, j = np.triu_indices(len(lines), 1)
    A, c = lines[:, :2], lines[:, 2]
    scale = np.abs(A).max(axis=1)
    det = A[i, 0] * A[j, 1] - A[i, 1] * A[j, 0]
    cross = np.abs(det) > 1e-14 * scale[i] * scale[j]
    i, j, det = i[cross], j[cross], det[cross]
    x = np.stack([c[i] * A[j, 1] - c[j] * A[i, 1], A[i, 0] * c[j] - A[j, 0] * c[i]], axis=1) / det[:, None]
    size = np.abs(A) @ np.abs(x).T + np.abs(c)[:, None]
    inside: NDArray[np.bool_] = (A @ x.T - c[:, None] <= 1e-13 * size).all(axis=0)
    corners: NDArray[np.float64] = x[inside]
    return corners


def _without_repeats(values: NDArray[np.float64]) -> NDArray[np.float64]:
    kept: list[NDArray[np.float64]] = []
    for row in values:
        if not any((np.abs(row - other) <= 1e-13 * other).all() for other in kept):
            kept.append(row)
    return np.array(kept)
