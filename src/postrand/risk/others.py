"""What an attacker takes the other released records to be: a mixture of products, fitted to the release alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from postrand.risk.cells import FloatArray, IntArray, KeyCodes, table

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
        from postrand.risk.kernels import mixture_density

        flat, offsets, widths = _flat(self.laws)
        found: FloatArray = mixture_density(rows.astype(np.int32), self.shares, flat, offsets, widths)
        return found

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
    from postrand.risk.kernels import mixture_step

    rng = np.random.default_rng(seed)
    margins = [np.bincount(rows[:, b], weights=counts, minlength=s) / counts.sum() for b, s in enumerate(sizes)]
    if rows.shape[0] > MOST_CELLS:
        some = rng.choice(rows.shape[0], MOST_CELLS, replace=False)
        rows, counts = rows[some], counts[some]
    rows, weights = rows.astype(np.int32), counts.astype(np.float64)
    laws = [m * rng.gamma(5.0, 0.2, (classes, m.size)) for m in margins]
    laws = [law / law.sum(axis=1, keepdims=True) for law in laws]
    shares = np.full(classes, 1 / classes)
    steps = STEPS if len(sizes) > 1 and classes > 1 else 0
    for _ in range(steps):
        flat, offsets, widths = _flat(laws)
        members, sums = mixture_step(rows, weights, shares, flat, offsets, widths)
        shares = (members + 1) / (members + 1).sum()
        pieces = np.split(sums, offsets[1:])
        laws = [p.reshape(classes, -1) + PRIOR * m for p, m in zip(pieces, margins, strict=True)]
        laws = [law / law.sum(axis=1, keepdims=True) for law in laws]
    if not steps:
        laws = [np.tile(m, (classes, 1)) for m in margins]
    return Others(shares, tuple(laws))


def _flat(laws: Sequence[FloatArray]) -> tuple[FloatArray, IntArray, IntArray]:
    """Return all laws in one array, where each starts, and the number of categories of each."""
    offsets = np.cumsum([0, *(law.size for law in laws[:-1])])
    return np.concatenate([law.ravel() for law in laws]), offsets, np.array([law.shape[1] for law in laws])
