"""ε-privacy for a distance between categories: near values are hard to tell apart, far ones less so."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
import scipy

from postrand.codebook.category_distances import Edges, Points, as_edges, as_points, ranks, shortest_paths
from postrand.errors import PrivacyError, raise_all, sentence, shown
from postrand.mechanism.matrix import TransitionMatrix
from postrand.privacy.base import Finding, LinearConstraints, ModelTraits
from postrand.privacy.differential import EPSILON
from postrand.support.exact import exp_float, exp_lower, log_upper
from postrand.support.guesses import guesses_in_words
from postrand.support.inputs import finite
from postrand.support.wordings import say

_SMALLEST, _LARGEST = 1e-100, 1e6
"""Outside this range, the budget of an edge is too small or too large for weights in units of 2^-53."""


@dataclass(frozen=True, slots=True)
class MetricPrivacy:
    """Ask that ``M[i,j] <= e^(ε d(i,k)) M[k,j]``, d the length of the shortest path along ``edges``.

    ``edges`` are ``(code, code, length)``. It is enough that both directions of every edge hold: along a path the
    ratios multiply and the lengths add. For one block of one variable. All lengths 1 between all pairs: plain ε-DP.

    ``points``, one ``(x, y)`` for each category, are where the report draws them; the claim does not depend on them.

    Raises
    ------
    SpecificationError
        If the edges are not ``(code, code, length)``, or the points not ``(x, y)``.
    PrivacyError
        If ε or a length is not positive, or there are no edges.

    Examples
    --------
    >>> M = TransitionMatrix.from_array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.125, 0.25, 0.625]])
    >>> MetricPrivacy(1.0, ((0, 1, 1.0), (1, 2, 1.0))).check([M]).holds
    True
    """

    name: ClassVar[str] = "metric"
    traits: ClassVar[ModelTraits] = ModelTraits(
        code="claim.metric",
        plain="Near values are hard to tell apart, far ones less so: no released answer becomes more than e^(ε d) "
        "times as likely for a true answer at distance d.",
        level="epsilon",
        whole_blocks=True,
        objective="distance",
        structure="metric",
        rank=40,
    )
    epsilon: float = field(metadata={"range": EPSILON})
    edges: Edges
    points: Points = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", as_edges(self.edges))
        object.__setattr__(self, "points", as_points(self.points))
        raise_all(PrivacyError, self._problems())
        object.__setattr__(self, "epsilon", finite(self.epsilon))

    @classmethod
    def example(cls, counts: np.ndarray) -> MetricPrivacy:
        """Return the model for categories in their order, neighbours at distance 1."""
        return cls(1.0, ranks(len(counts)))

    def __repr__(self) -> str:
        return f"MetricPrivacy(epsilon={self.epsilon!r}, {len(self.edges)} edges)"

    def _problems(self) -> Iterable[str]:
        if not finite(self.epsilon) > 0:
            got = shown(self.epsilon, repr)
            yield sentence("epsilon is not a positive number", got=got, wanted="0 < epsilon < inf")
        if not self.edges:
            yield sentence("there are no edges", fix="give a distance: ranks, adjacency, coordinates or a matrix")
        if any(not length > 0 or i == k for i, k, length in self.edges):
            yield sentence("an edge is a loop, or its length is not positive", wanted="length > 0")
        if self.points and self.edges and len(self.points) != 1 + max(max(e[:2]) for e in self.edges):
            yield sentence("the points are not one for each category", got=len(self.points))
        elif any(not _SMALLEST < finite(self.epsilon) * length < _LARGEST for _, _, length in self.edges):
            wanted = f"{_SMALLEST:g} < ε d < {_LARGEST:g} for every edge"
            yield sentence(
                "epsilon times a length is too small or too large", wanted=wanted, fix="use another unit of length"
            )

    @property
    def widest(self) -> float:
        """The ε that the two farthest values spend, ``ε max d``: that of plain differential privacy."""
        size = 1 + max(max(edge[:2]) for edge in self.edges)
        return self.epsilon * float(shortest_paths(self.edges, size).max())

    @property
    def spent(self) -> float:
        """The ε that a block takes of a record's budget: that of the two farthest values."""
        return self.widest

    def scaled(self, factor: float) -> MetricPrivacy:
        """Return the model with ``factor`` times the budget."""
        return replace(self, epsilon=self.epsilon * factor)

    def promise(self, size: int) -> str:
        """Return what the level means for guesses between two values at distance 1, in words."""
        return f"{guesses_in_words(self.epsilon)}, where the two are at distance 1; far values are protected less"

    def check(self, matrices: Sequence[TransitionMatrix]) -> Finding:
        """Compare the exact ratio of every edge with a directed-rounded ``e^(ε length)``.

        ``level`` is the largest ``ln(ratio) / length``, rounded up. Several blocks, or a matrix with other codes, never
        hold: a distance belongs to one variable.
        """
        fits = len(matrices) == 1 and max(max(e[:2]) for e in self.edges) < matrices[0].size
        if not fits or not self._connects(matrices[0].size):
            return Finding(False, math.inf, "the distance does not belong to this block", 0, "its edges")
        weights, level, holds, entries = matrices[0].weights, 0.0, True, None
        for i, k, length in self.edges:
            ratio, column = _largest_ratio(weights[i], weights[k])
            if ratio is None:
                what = "a released value excludes the neighbour of a true value"
                return Finding(False, math.inf, what, entries=(column, i, k))
            spent = math.nextafter(log_upper(ratio) / length, math.inf) if ratio > 1 else 0.0
            if not (ratio <= 1 or ratio <= _limit(self.epsilon, length)):
                holds = False
            if spent > level:
                level, entries = spent, (column, i, k)
        level = min(level, self.epsilon) if holds else level
        return Finding(holds, level, say("claim.metric", level=level), entries=entries)

    def constraints(self, size: int) -> LinearConstraints:
        """Return ``M[i,j] - e^(ε length) M[k,j] <= 0`` for both directions of every edge and every j: 2ES rows."""
        both = [*self.edges, *((k, i, length) for i, k, length in self.edges)]
        i, k = (np.repeat([e[x] for e in both], size) for x in (0, 1))
        factor = np.repeat([exp_float(self.epsilon * e[2]) for e in both], size)
        j, rows = np.tile(np.arange(size), len(both)), np.arange(len(both) * size)
        values = np.concatenate([np.ones(rows.size), -factor])
        places = (np.concatenate([rows, rows]), np.concatenate([i * size + j, k * size + j]))
        return LinearConstraints(
            scipy.sparse.csr_array(scipy.sparse.coo_array((values, places), (rows.size, size * size))),
            np.zeros(rows.size),
        )

    def _connects(self, size: int) -> bool:
        reached = np.arange(size)
        for i, k, _ in self.edges:
            reached[reached == reached[k]] = reached[i]
        return bool((reached == reached[0]).all())


def _limit(epsilon: float, length: float) -> Fraction:
    return exp_lower(Fraction(epsilon) * Fraction(length))


def _largest_ratio(a: np.ndarray, b: np.ndarray) -> tuple[Fraction | None, int]:
    """Return the largest of ``a/b`` and ``b/a`` over the columns, exactly, and its column; None where infinite."""
    high, low = np.maximum(a, b), np.minimum(a, b)
    endless = np.flatnonzero((low == 0) & (high > 0))
    if endless.size:
        return None, int(endless[0])
    used = np.flatnonzero(high > 0)
    about = high[used] / low[used]
    near = used[about >= about.max() * (1 - 1e-12)]  # float64 orders ratios up to its rounding; the rest is exact
    ratios = [Fraction(int(high[j]), int(low[j])) for j in near]
    best = max(range(len(near)), key=ratios.__getitem__)
    return ratios[best], int(near[best])
