"""What an attacker takes the other released records to be: a mixture of products, fitted to the release alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from postrand.risk.cells import FloatArray, IntArray, KeyCodes, table
from postrand.risk.links import distinct, middle

CLASSES = 8
PRIOR = 10.0
STEPS = 80
MOST_CELLS = 10_000
"""Fit to so many of the released cells at most, drawn at random: the law has few parameters."""


@dataclass(frozen=True, slots=True, eq=False)
class Others:
    """Hold ``q(z) = Σ_c s_c Π_b θ_cb(z_b)`` of a released record: ``shares`` (C,) and ``laws[b]`` (C, S_b)."""

    shares: FloatArray
    laws: tuple[FloatArray, ...]

    def density(self, rows: IntArray) -> FloatArray:
        """Return ``q`` of released cells, shape (m, B) → (m,)."""
        return _Cells.of(rows, [law.shape[1] for law in self.laws]).joint(self.shares, self.laws).sum(axis=1)

    def draw(self, size: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Draw ``size`` records independently from the distribution; return the cells (m, B) and how many are in each.

        Where there are fewer cells than records, the counts of all of them are drawn at once: they are multinomial.
        """
        sizes = tuple(law.shape[1] for law in self.laws)
        if math.prod(sizes) <= size:
            cells = np.ascontiguousarray(np.indices(sizes, dtype=np.int32).reshape(len(sizes), -1).T)
            chances = self.density(cells)
            counts = rng.multinomial(size, chances / chances.sum())
            found = np.flatnonzero(counts)
            return cells[found], counts[found]
        rows = self._records(size, rng)
        drawn = table(KeyCodes(tuple(map(str, range(len(sizes)))), sizes, tuple(rows.T)))
        return drawn.codes, drawn.counts

    def _records(self, size: int, rng: np.random.Generator) -> IntArray:
        """Return records one by one, shape (size, B)."""
        member = rng.choice(self.shares.size, size, p=self.shares)
        rows = np.empty((size, len(self.laws)), dtype=np.int32)
        held = [np.flatnonzero(member == c) for c in range(self.shares.size)]
        for b, law in enumerate(self.laws):
            ends = np.cumsum(law, axis=1)
            for c, here in enumerate(held):
                rows[here, b] = np.searchsorted(ends[c, :-1], rng.random(here.size), side="right")
        return rows


def others(rows: IntArray, counts: IntArray, sizes: Sequence[int], *, classes: int = CLASSES, seed: int = 0) -> Others:
    """Fit the law of a released record to released cells ``rows`` (m, B) with ``counts`` (m,) by the EM algorithm.

    A product of independent blocks turns a mixture of products into one, so that no matrix is needed. Each law of a
    class has a Dirichlet prior worth ``PRIOR`` records with the block's own margin: it is positive wherever a record
    is, and follows chance less. A fixed number of steps: the density settles long before the parameters do.

    Examples
    --------
    >>> law = others(np.array([[0], [1]]), np.array([3, 1]), [2])
    >>> law.density(np.array([[0], [1]])).round(6).tolist()
    [0.75, 0.25]
    """
    rng = np.random.default_rng(seed)
    margins = [np.bincount(rows[:, b], weights=counts, minlength=s) / counts.sum() for b, s in enumerate(sizes)]
    if rows.shape[0] > MOST_CELLS:
        some = rng.choice(rows.shape[0], MOST_CELLS, replace=False)
        rows, counts = rows[some], counts[some]
    laws = [m * rng.gamma(5.0, 0.2, (classes, m.size)) for m in margins]
    laws = [law / law.sum(axis=1, keepdims=True) for law in laws]
    shares, starts = np.full(classes, 1 / classes), np.cumsum([0, *sizes])
    steps = STEPS if len(sizes) > 1 and classes > 1 else 0
    if steps:
        held = (np.ones(rows.size), (rows + starts[:-1]).ravel(), np.arange(0, rows.size + 1, len(sizes)))
        of_category = csr_array(held, shape=(rows.shape[0], starts[-1])).T.tocsr()
    cells, ones = _Cells.of(rows, sizes), np.ones(classes)
    for _ in range(steps):
        member = cells.joint(shares, laws)
        total = member @ ones
        member *= np.divide(counts, total, out=np.zeros(total.size), where=total > 0)[:, None]
        shares = (member.sum(axis=0) + 1) / (member.sum() + classes)
        sums = of_category @ member
        laws = [sums[a:b].T + PRIOR * m for a, b, m in zip(starts, starts[1:], margins, strict=False)]
        laws = [law / law.sum(axis=1, keepdims=True) for law in laws]
    if not steps:
        laws = [np.tile(m, (classes, 1)) for m in margins]
    return Others(shares, tuple(laws))


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Released cells as pairs of a head and a tail: what a class gives is a product of two numbers, not of B."""

    halves: tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]
    cut: int

    @classmethod
    def of(cls, rows: IntArray, sizes: Sequence[int]) -> _Cells:
        """Cut the groups of cells (m, B) where there are about as many heads as tails."""
        cut = middle(sizes)
        return cls((distinct(rows[:, :cut]), distinct(rows[:, cut:])), cut)

    def joint(self, shares: FloatArray, laws: Sequence[FloatArray]) -> FloatArray:
        """Return ``s_c Π_b θ_cb(z_b)``, shape (m, C)."""
        (heads, head), (tails, tail) = self.halves
        first, second = np.tile(shares, (len(heads), 1)), np.ones((len(tails), shares.size))
        for b, law in enumerate(laws):
            if b < self.cut:
                first *= law.T[heads[:, b]]
            else:
                second *= law.T[tails[:, b - self.cut]]
        found: FloatArray = first[head]
        found *= second[tail]
        return found
