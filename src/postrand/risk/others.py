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
        cells = _Cells.of(rows, [law.shape[1] for law in self.laws])
        return cells.density(self.shares, np.concatenate([law.T for law in self.laws]))

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
    shares = np.full(classes, 1 / classes)
    if len(sizes) < 2 or classes < 2:
        return Others(shares, tuple(np.tile(m, (classes, 1)) for m in margins))
    start = [m * rng.gamma(5.0, 0.2, (classes, m.size)) for m in margins]
    cells, group = _Cells.of(rows, sizes), np.repeat(np.arange(len(sizes)), sizes)
    pairs, starts = _Pairs.of(cells, counts), np.cumsum([0, *sizes[:-1]])
    heads, tails = (_of_category(places, group.size) for places in cells.places)
    prior = PRIOR * np.concatenate(margins)[:, None]
    laws = np.concatenate([law.T for law in start])  # (S, C), one group below the other: numpy is asked once a step
    laws /= np.add.reduceat(laws, starts)[group]
    for _ in range(STEPS):
        of_heads, of_tails = pairs.members(*cells.factors(shares, laws))
        shares = (of_heads.sum(axis=0) + 1) / (of_heads.sum() + classes)
        laws = heads @ of_heads + tails @ of_tails + prior
        laws /= np.add.reduceat(laws, starts)[group]
    return Others(shares, tuple(np.ascontiguousarray(law.T) for law in np.split(laws, starts[1:])))


def _of_category(places: IntArray, size: int) -> Any:
    """Return the matrix (size, m) that sums over the cells of each category, whose ``places`` (B, m) are below size.

    A small one is dense: that is as fast, and needs no library of sparse matrices, which takes longer to load.
    """
    groups, cells = places.shape
    if cells * size <= _SMALL:
        dense = np.zeros((size, cells))
        dense[places, np.arange(cells)] = 1.0
        return dense
    held = (np.ones(places.size), places.T.ravel(), np.arange(0, places.size + 1, groups))
    return scipy.sparse.csr_array(held, shape=(cells, size)).T.tocsr()


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """The records of released cells as a matrix of heads and tails: dense where most pairs occur, else sparse."""

    counts: Any
    heads: IntArray | None

    @classmethod
    def of(cls, cells: _Cells, counts: IntArray) -> _Pairs:
        """Return the matrix (P, S) of the records of each cell."""
        (head, tail), (heads, tails) = cells.halves, (places.shape[1] for places in cells.places)
        if heads * tails <= _FULL * counts.size:
            pairs = np.bincount(head * tails + tail, counts, heads * tails)
            return cls(pairs.reshape(heads, tails), None)
        held = scipy.sparse.csr_array((counts.astype(float), (head, tail)), shape=(heads, tails))
        return cls(held, np.repeat(np.arange(heads), np.diff(held.indptr)))

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
    """Released cells as pairs of a head and a tail: what a class gives is a product of two numbers, not of B.

    ``halves`` are the numbers of each cell's head and tail, shape (m,). ``places`` are those of the categories of the
    heads (cut, P) and of the tails (B - cut, T) among the categories of all groups, one group after the other.
    """

    halves: tuple[IntArray, IntArray]
    places: tuple[IntArray, IntArray]

    @classmethod
    def of(cls, rows: IntArray, sizes: Sequence[int]) -> _Cells:
        """Cut the groups of cells (m, B) where there are about as many heads as tails."""
        cut, starts = middle(sizes), np.cumsum([0, *sizes[:-1]])
        (heads, head), (tails, tail) = distinct(rows[:, :cut]), distinct(rows[:, cut:])
        places = [np.ascontiguousarray((heads + starts[:cut]).T), np.ascontiguousarray((tails + starts[cut:]).T)]
        return cls((head, tail), (places[0], places[1]))

    def density(self, shares: FloatArray, laws: FloatArray) -> FloatArray:
        """Return the sum over classes, shape (m,), some cells after the others: of all of them it takes much memory."""
        head, tail = self.halves
        first, second = self.factors(shares, laws)
        found = np.empty(head.size)
        for start in range(0, head.size, _PIECE):
            piece = slice(start, start + _PIECE)
            found[piece] = (first[head[piece]] * second[tail[piece]]).sum(axis=1)
        return found

    def factors(self, shares: FloatArray, laws: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what each class gives a head (P, C), its share within, and a tail (T, C), of laws (S, C)."""
        heads, tails = self.places
        return _product(laws, heads, shares), _product(laws, tails, np.ones(shares.size))


def _product(laws: FloatArray, places: IntArray, start: FloatArray) -> FloatArray:
    """Return the product of start (C,) and the rows of laws (S, C) at the places (B, m) of each cell, shape (m, C)."""
    if not len(places):
        return np.broadcast_to(start, (places.shape[1], start.size))
    found: FloatArray = laws.take(places[0], axis=0)
    found *= start
    for at in places[1:]:
        found *= laws.take(at, axis=0)
    return found
