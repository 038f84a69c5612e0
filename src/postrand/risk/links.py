"""The best links of many targets to many released cells: weights that are products over groups of keys."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.risk.cells import FloatArray, IntArray, ravel
from postrand.support import loops

TARGETS = 64
"""Target types that are linked side by side: their weights of all parts of cells stay in the processor's cache."""
CELLS = 2048
"""Released cells that are weighed at a time, about."""
TIED = 1 - 1e-9
PAIRS = 1 << 15
"""Pairs of a target and a cell that are weighed at a time, about what the processor's cache holds."""
MERGED = 1 << 16
"""Tables of neighbouring groups are multiplied out up to this size: one look-up instead of several."""


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """The best links of target types: their cell, weight, tied records, and the sum of weights over all records."""

    at: IntArray
    best: FloatArray
    tied: FloatArray
    total: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What the attacker sees: matrices, the types of the targets, and the released cells, by groups of keys.

    The weight of target x and released cell z is the product of ``table_b[x_b, z_b]`` over groups, times ``scale[z]``.
    The groups are cut in two, so that a cell is a pair of a head and a tail: weights are computed once for each head
    and each tail, and cells of one head share its factor.
    """

    tables: Sequence[FloatArray]
    rows: IntArray
    columns: IntArray
    counts: IntArray

    def links(self, scale: FloatArray) -> Links:
        """Return the best links of every type, ``scale`` (m,) being positive.

        ``tied`` counts the records of all cells within 1e-9 of the largest weight, and ``at`` is the first of them, -1
        where no cell has a weight.

        Examples
        --------
        >>> law = np.array([[0.75, 0.25], [0.25, 0.75]])
        >>> view = View([law, law], np.array([[0, 0], [0, 1]]), np.array([[0, 0], [1, 1]]), np.array([2, 1]))
        >>> found = view.links(np.ones(2))
        >>> found.best.tolist(), found.tied.tolist(), found.at.tolist(), found.total.tolist()
        ([0.5625, 0.1875], [2.0, 3.0], [0, 0], [1.1875, 0.5625])
        """
        halves, found = _Halves.of(self.columns, self.tables), []
        weights = scale[halves.order]
        records = self.counts[halves.order]
        for head, tail in self._factors(halves):
            most, sums = halves.weigh(tail, weights, weights * records)
            best = (head * most).max(axis=0, initial=0.0)
            at, tied = _ties(head, tail, halves, weights, records, most, best)
            found.append((at, best, tied, (head * sums).sum(axis=0)))
        return Links(*map(np.concatenate, zip(*found, strict=True)))

    def totals(self, scale: FloatArray) -> FloatArray:
        """Return the sum of weights over all records for every type, as :meth:`links` does."""
        halves = _Halves.of(self.columns, self.tables)
        weights = (scale * self.counts)[halves.order]
        factors = self._factors(halves)
        return np.concatenate([(h * halves.weigh(t, weights, weights)[1]).sum(axis=0) for h, t in factors])

    def reach(self, targets: IntArray, cells: IntArray, scale: FloatArray, least: FloatArray) -> NDArray[np.bool_]:
        """Tell of pairs whether their weight is at least ``least`` (X,) of the target.

        Pair i is the target ``targets[i]``, a position in ``rows``, and the cell ``cells[i]``.

        >>> law = np.array([[0.75, 0.25], [0.25, 0.75]])
        >>> view = View([law, law], np.array([[0, 0], [0, 1]]), np.array([[0, 0], [1, 1]]), np.array([2, 1]))
        >>> view.reach(np.array([0, 1, 1]), np.array([0, 0, 1]), np.ones(2), np.array([0.5, 0.19])).tolist()
        [True, False, False]
        """
        found = np.empty(targets.size, dtype=bool)
        merged = [(table.ravel(), rows * table.shape[1], columns) for table, rows, columns in self._merged()]
        for start in range(0, found.size, PAIRS):
            x, z = targets[start : start + PAIRS], cells[start : start + PAIRS]
            weight = scale.take(z)
            for table, rows, columns in merged:
                weight *= table.take(rows.take(x) + columns.take(z))
            found[start : start + PAIRS] = weight >= least.take(x)
        return found

    def _merged(self) -> Iterator[tuple[FloatArray, IntArray, IntArray]]:
        """Yield tables with their rows and columns, neighbours multiplied out while that is a small table."""
        table, rows, columns = self.tables[0], self.rows[:, 0].astype(np.intp), self.columns[:, 0].astype(np.intp)
        for b, further in enumerate(self.tables[1:], 1):
            if table.size * further.size > MERGED:
                yield table, rows, columns
                table, rows, columns = np.ones((1, 1)), np.zeros_like(rows), np.zeros_like(columns)
            table = np.kron(table, further).astype(np.float64, copy=False)
            rows = rows * further.shape[0] + self.rows[:, b]
            columns = columns * further.shape[1] + self.columns[:, b]
        yield table, rows, columns

    def _factors(self, halves: _Halves) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield the factors of heads (P, X) and of tails (S, X) for some types of target after the others."""
        for start in range(0, max(self.rows.shape[0], 1), TARGETS):
            rows = self.rows[start : start + TARGETS]
            yield (
                _factor(self.tables[: halves.cut], rows[:, : halves.cut], halves.head_cells),
                _factor(self.tables[halves.cut :], rows[:, halves.cut :], halves.tail_cells),
            )


@dataclass(frozen=True, slots=True, eq=False)
class _Halves:
    """The released cells as pairs of a head and a tail in the order of heads: ``order`` (m,) says which is where.

    ``starts`` (P,) is where the cells of each head begin. The first ``cut`` groups of keys are heads.
    """

    cut: int
    order: IntArray
    heads: IntArray
    tails: IntArray
    head_cells: IntArray
    tail_cells: IntArray
    starts: IntArray

    @classmethod
    def of(cls, columns: IntArray, tables: Sequence[FloatArray]) -> _Halves:
        """Cut the groups so that there are about as many heads as tails."""
        cut = middle([table.shape[1] for table in tables])
        (head_cells, heads), (tail_cells, tails) = distinct(columns[:, :cut]), distinct(columns[:, cut:])
        order = np.argsort(heads, kind="stable")
        starts = np.searchsorted(heads[order], np.arange(len(head_cells)))
        return cls(cut, order, heads[order], tails[order], head_cells, tail_cells, starts)

    def weigh(self, tail: FloatArray, weights: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return of each head and target, (P, X), without the head's own factor: the largest weight, and the sum.

        ``weights`` and ``shares`` (m,) are of the cells in the order of heads: the largest is of ``tail x weight``, the
        sum of ``tail x share``.
        """
        most, total = np.empty((2, self.starts.size, tail.shape[1]))
        loops.weigh_cells(tail, self.tails, weights, shares, self.starts, most, total)
        return most, total

    def pieces(self) -> Iterator[tuple[int, int, slice]]:
        """Yield runs of heads, from the first to before the last, with their cells."""
        ends, first = np.r_[self.starts[1:], self.heads.size], 0
        while first < self.starts.size:
            last = max(int(np.searchsorted(ends, self.starts[first] + CELLS)), first + 1)
            yield first, last, slice(int(self.starts[first]), int(ends[last - 1]))
            first = last


def middle(sizes: Sequence[int]) -> int:
    """Return after how many groups of keys, of these sizes, cells are cut in two parts of about as many combinations.

    >>> middle([3, 4, 9, 2, 6])
    2
    """
    below = np.cumsum(np.log(np.maximum(sizes, 1)))
    return int(np.abs(below - below[-1] / 2).argmin()) + 1


def distinct(columns: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct rows of some groups' columns, (P, B), and the row of each cell, (m,)."""
    if not columns.shape[1]:
        return np.zeros((1, 0), dtype=np.int64), np.zeros(columns.shape[0], dtype=np.int64)
    sizes = tuple(int(size) for size in columns.max(axis=0, initial=0) + 1)
    if math.prod(sizes) >= 1 << 62:
        rows, place = np.unique(columns, axis=0, return_inverse=True)
        return rows, place.reshape(-1)
    found, place = np.unique(ravel(list(columns.T), sizes), return_inverse=True)
    return np.stack(np.unravel_index(found, sizes), axis=1), place


def _factor(tables: Sequence[FloatArray], rows: IntArray, cells: IntArray) -> FloatArray:
    """Return the product of ``table_b[x_b, z_b]`` over groups for each of the cells and targets, shape (P, X)."""
    found = np.ones((cells.shape[0], rows.shape[0]))
    for b, matrix in enumerate(tables):
        wanted = np.ascontiguousarray(matrix.take(rows[:, b], axis=0).T)  # rows that are copied whole: twice as fast
        found *= wanted.take(cells[:, b], axis=0)
    return found


def _ties(
    head: FloatArray,
    tail: FloatArray,
    halves: _Halves,
    weights: FloatArray,
    records: IntArray,
    most: FloatArray,
    best: FloatArray,
) -> tuple[IntArray, FloatArray]:
    """Return the first cell of each target within 1e-9 of its largest weight, and the records of all of them."""
    least = np.where(best > 0, best * TIED, np.inf)
    reached: NDArray[np.bool_] = np.any(
        np.asarray(head * most >= least), axis=1
    )  # heads that have such a cell of some target
    at, tied = np.full(best.size, halves.order.size), np.zeros(best.size)
    for first, last, piece in halves.pieces():
        if not reached[first:last].any():
            continue
        cells = piece.start + np.flatnonzero(reached[halves.heads[piece]])
        found = head[halves.heads[cells]] * (tail[halves.tails[cells]] * weights[cells, None]) >= least
        tied += records[cells] @ found
        at = np.minimum(at, np.where(found, halves.order[cells, None], halves.order.size).min(axis=0))
    return np.where(at < halves.order.size, at, -1), tied
