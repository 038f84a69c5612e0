"""What an attacker takes the other released records to be: a mixture of products, fitted to the release alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from postrand.risk.cells import FloatArray, IntArray, KeyCodes, table
from postrand.risk.links import distinct, middle

CLASSES = 8
PRIOR = 10.0
STEPS = 80
_PIECE = 1 << 14
_FULL = 8  # pairs of a head and a tail for each cell, up to which a dense matrix is faster
_SMALL = 1 << 16  # numbers of a matrix that sums over categories, up to which it is dense
MOST_CORRECTED = 500
"""Target types over which the attacker's correction is averaged, drawn at random where there are more."""
MOST_CELLS = 10_000
"""Fit to so many of the released cells at most, drawn at random: the law has few parameters."""


@dataclass(frozen=True, slots=True, eq=False)
class Others:
    """Hold ``q(z) = Σ_c s_c Π_b θ_cb(z_b)`` of a released record: ``shares`` (C,) and ``laws[b]`` (C, S_b)."""

    shares: FloatArray
    laws: tuple[FloatArray, ...]

    def density(self, rows: IntArray) -> FloatArray:
        """Return ``q`` of released cells, shape (m, B) → (m,)."""
        return _Cells.of(rows, [law.shape[1] for law in self.laws]).density(self.shares, self.laws)

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
        """Return records one by one, shape (size, B), in the smallest type: there are as many as in the file."""
        member = rng.choice(self.shares.size, size, p=self.shares)
        smallest = np.min_scalar_type(-max(law.shape[1] for law in self.laws))
        rows = np.empty((size, len(self.laws)), dtype=smallest, order="F")
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
    if len(sizes) > 1 and classes > 1:
        cells = _Cells.of(rows, sizes)
        pairs = _Pairs.of(cells, counts)
        heads, tails = (
            _of_category(half, part) for half, part in zip(cells.distinct, cells.parts(starts), strict=True)
        )
        for _ in range(STEPS):
            of_heads, of_tails = pairs.members(*cells.factors(shares, laws))
            shares = (of_heads.sum(axis=0) + 1) / (of_heads.sum() + classes)
            sums = np.concatenate([heads @ of_heads, tails @ of_tails])
            laws = [sums[a:b].T + PRIOR * m for a, b, m in zip(starts, starts[1:], margins, strict=False)]
            laws = [law / law.sum(axis=1, keepdims=True) for law in laws]
    else:
        laws = [np.tile(m, (classes, 1)) for m in margins]
    return Others(shares, tuple(laws))


def _of_category(rows: IntArray, starts: IntArray) -> Any:
    """Return the matrix that sums over the cells (m, B) of each category, those of group b from starts[b] on.

    A small one is dense: that is as fast, and needs no library of sparse matrices, which takes longer to load.
    """
    if rows.shape[0] * starts[-1] <= _SMALL:
        dense = np.zeros((starts[-1], rows.shape[0]))
        dense[rows + starts[:-1], np.arange(rows.shape[0])[:, None]] = 1.0
        return dense
    held = (np.ones(rows.size), (rows + starts[:-1]).ravel(), np.arange(0, rows.size + 1, rows.shape[1]))
    return scipy.sparse.csr_array(held, shape=(rows.shape[0], starts[-1])).T.tocsr()


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """The records of released cells as a matrix of heads and tails: dense where most pairs occur, else sparse."""

    counts: Any
    heads: IntArray | None

    @classmethod
    def of(cls, cells: _Cells, counts: IntArray) -> _Pairs:
        """Return the matrix (P, S) of the records of each cell."""
        (heads, head), (tails, tail) = cells.halves
        if len(heads) * len(tails) <= _FULL * counts.size:
            pairs = np.bincount(head * len(tails) + tail, counts, len(heads) * len(tails))
            return cls(pairs.reshape(len(heads), len(tails)), None)
        held = scipy.sparse.csr_array((counts.astype(float), (head, tail)), shape=(len(heads), len(tails)))
        return cls(held, np.repeat(np.arange(len(heads)), np.diff(held.indptr)))

    def members(self, first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return how many records of each head and of each tail are expected in a class, (P, C) and (S, C).

        ``n_z f_hc g_tc / Σ_c f_hc g_tc`` of a cell z = (h, t) is summed over its tails, or heads: two products of
        matrices.
        """
        if self.heads is None:
            share = _shares(self.counts, first @ second.T)
        else:
            total = np.einsum("zc,zc->z", first[self.heads], second[self.counts.indices])
            held = (_shares(self.counts.data, total), self.counts.indices, self.counts.indptr)
            share = scipy.sparse.csr_array(held, shape=self.counts.shape)
        return first * (share @ second), second * (share.T @ first)


def _shares(counts: FloatArray, total: FloatArray) -> FloatArray:
    found: FloatArray = np.divide(counts, total, out=np.zeros(total.shape), where=total > 0)
    return found


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

    @property
    def distinct(self) -> tuple[IntArray, IntArray]:
        """The heads (P, cut) and the tails (S, B - cut)."""
        return self.halves[0][0], self.halves[1][0]

    def parts(self, starts: IntArray) -> tuple[IntArray, IntArray]:
        """Return the first numbers of the categories of each head's groups, and of each tail's, and where they end."""
        return starts[: self.cut + 1], starts[self.cut :] - starts[self.cut]

    def density(self, shares: FloatArray, laws: Sequence[FloatArray]) -> FloatArray:
        """Return the sum over classes, shape (m,), some cells after the others: of all of them it takes much memory."""
        (_, head), (_, tail) = self.halves
        first, second = self.factors(shares, laws)
        found = np.empty(head.size)
        for start in range(0, head.size, _PIECE):
            piece = slice(start, start + _PIECE)
            found[piece] = (first[head[piece]] * second[tail[piece]]).sum(axis=1)
        return found

    def factors(self, shares: FloatArray, laws: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Return what each class gives a head (P, C), its share within, and a tail (S, C)."""
        (heads, _), (tails, _) = self.halves
        first, second = np.tile(shares, (len(heads), 1)), np.ones((len(tails), shares.size))
        for b, law in enumerate(laws):
            if b < self.cut:
                first *= np.ascontiguousarray(law.T).take(heads[:, b], axis=0)
            else:
                second *= np.ascontiguousarray(law.T).take(tails[:, b - self.cut], axis=0)
        return first, second
