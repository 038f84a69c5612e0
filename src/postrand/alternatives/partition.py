"""Microaggregation: groups of at least k records that are alike, by the least squared change or by distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_BLOCK, _ROOM = 1 << 12, 1 << 20
"""Starts of runs whose changes are computed at a time, and the most changes."""


def optimal_groups(values: Floats, k: int, units: Ints | None = None) -> Ints:
    """Return the groups, (n,), with the least ``Σ (x_i − mean of its group)²`` of runs of sorted values.

    Each run has at least k values; with ``units``, (n,), such as the household of each value, those of at least k of
    them, k >= 2. Let ``e(i)`` be the first end of such a run from i on. A run that reaches ``e(e(i))`` can be cut at
    ``e(i)`` and changes less, so ``D(j) = min_i D(i) + SSE(i, j)`` over ``e(i) <= j < e(e(i))``: k to 2k − 1 values
    without units (Hansen and Mukherjee 2003), where runs are the best of all groups. Time O(nk) for units of few
    different values each. There must be k values, or units.

    >>> pay = np.array([1.0, 9.0, 1.5, 2.0, 8.0])
    >>> optimal_groups(pay, 2).tolist()
    [0, 1, 0, 0, 1]
    >>> optimal_groups(pay, 2, np.array([0, 1, 0, 0, 1])).tolist()
    [0, 0, 0, 0, 0]
    """
    order = np.argsort(values, kind="stable") if units is None else np.lexsort((units, values))
    x = values[order]
    if units is None:
        begins, ends = np.arange(x.size), np.arange(k, x.size + k + 1)
    else:
        begins = _begins(x, units[order])
        ends = _first_ends(units[order][begins], k)
    sizes = np.diff(begins, append=x.size)
    starts = _best_starts(x[begins], sizes.astype(np.float64), np.minimum(ends, begins.size + 1))
    first = np.zeros(begins.size, dtype=np.int64)
    first[starts[1:]] = 1
    groups = np.empty(x.size, dtype=np.int64)
    groups[order] = np.repeat(np.cumsum(first), sizes)
    return groups


def _begins(x: Floats, units: Ints) -> Ints:
    """Return the places of sorted values, (m,), at which runs may begin: of equal values of a unit, at three at most.

    In a run of n others, whose mean is d away, m equal values add ``n m d² / (n + m)`` to the change: concave in m. So
    two runs that share them change least at an end: one has them all, or all but the one that counts the unit.
    """
    new = np.append(True, (np.diff(x) != 0) | (np.diff(units) != 0))
    return np.flatnonzero(new | np.append(False, new[:-1]) | np.append(new[1:], True))


def _best_starts(x: Floats, sizes: Floats, ends: Ints) -> list[int]:
    """Return where the best runs begin, in order; value i stands for ``sizes[i]``, and ``ends`` are the ``e(i)``."""
    n, stops = x.size, np.append(ends, ends[-1])[ends]
    best, come = np.full(n + 1, np.inf), np.zeros(n + 1, dtype=np.int64)
    best[0], at = 0.0, 0
    while at < n and ends[at] <= n:
        most = int((stops[at : at + _BLOCK] - np.arange(at, min(at + _BLOCK, n + 1))).max())
        upto = min(at + max(1, _ROOM // most), at + _BLOCK, n)
        change = _changes(x, sizes, at, upto, most)
        for row, end, stop in zip(range(upto - at), ends[at:upto].tolist(), stops[at:upto].tolist(), strict=True):
            part, least = best[end:stop], change[row, end - at - row - 1 : stop - at - row - 1]
            least += best[at + row]
            np.minimum(part, least, out=part)
        _note(come, best, change, at, ends[at:upto], stops[at:upto])
        at = upto
    starts, j = [], n
    while j > 0:
        j = int(come[j])
        starts.append(j)
    return starts[::-1]


def _note(come: Ints, best: Floats, totals: Floats, first: int, ends: Ints, stops: Ints) -> None:
    """Note at each end that has its least, so far, from one of these starts, which it is: the last of several."""
    places = np.arange(first, first + ends.size)
    fewest = int((ends - places).min())
    reached = places[:, None] + np.arange(fewest, totals.shape[1] + 1)
    least = totals[:, fewest - 1 :] == best[np.minimum(reached, best.size - 1)]
    rows, columns = np.nonzero(least & (reached >= ends[:, None]) & (reached < stops[:, None]))
    come[reached[rows, columns]] = first + rows


def _changes(x: Floats, sizes: Floats, first: int, upto: int, most: int) -> Floats:
    """Return ``SSE(i, i + t + 1)`` for i from ``first`` to ``upto``, (upto − first, most), of any values past the end.

    Values are taken from the first of the run, so that no digits are lost in a dense column.
    """
    places = np.minimum(np.arange(first, upto)[:, None] + np.arange(most), x.size - 1)
    return _from_first(x[places] - x[first:upto, None], sizes[places])


def _from_first(run: Floats, sizes: Floats) -> Floats:
    """Return the sums of squares about their mean of the first 1, 2, … values, along the last axis."""
    total = np.cumsum(sizes * run, axis=-1)
    squares = np.cumsum(sizes * run * run, axis=-1)
    return np.asarray(np.maximum(squares - total * total / np.cumsum(sizes, axis=-1), 0.0))


def _first_ends(units: Ints, k: int) -> Ints:
    """Return the smallest end of a run from each place, (n + 1,), that has k units; n + 1 where there is none."""
    n, end, held = units.size, 0, 0
    own = np.unique(units, return_inverse=True)[1].tolist()
    count, found = [0] * (max(own, default=0) + 1), []
    for start in range(n):
        while held < k and end < n:
            held += not count[own[end]]
            count[own[end]] += 1
            end += 1
        found.append(end if held >= k else n + 1)
        count[own[start]] -= 1
        held -= not count[own[start]]
    return np.array([*found, n + 1])


def mdav_groups(points: Floats, k: int) -> Ints:
    """Return groups, (n,), of k to 2k − 1 records that are near each other in the columns of ``points``, (n, d).

    MDAV: the record farthest from the centre and its k − 1 nearest form a group; so do the record farthest from that
    one, and its nearest; and so on with those that stay (Domingo-Ferrer and Torra 2005). Columns are divided by their
    standard deviations first. Not optimal: the best groups of several columns are hard to find. Time O(n² d / k).

    >>> mdav_groups(np.array([[0.0, 0.0], [5.0, 5.0], [0.1, 0.0], [5.0, 5.1], [0.0, 0.2]]), 2).tolist()
    [1, 0, 1, 0, 1]
    """
    spread = points.std(axis=0)
    scaled = (points - points.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    groups, left, number = np.zeros(len(points), dtype=np.int64), np.arange(len(points)), 0
    while left.size >= 2 * k:
        far = scaled[int(np.argmax(_distances(scaled, scaled.mean(axis=0))))]
        seeds = [far] if left.size < 3 * k else [far, scaled[int(np.argmax(_distances(scaled, far)))]]
        for seed in seeds:
            near = np.argpartition(_distances(scaled, seed), k - 1)[:k]
            groups[left[near]] = number
            stay = np.ones(left.size, dtype=bool)
            stay[near] = False
            left, scaled, number = left[stay], scaled[stay], number + 1
    groups[left] = number
    return groups


def _distances(points: Floats, to: Floats) -> Floats:
    change = points - to
    return np.asarray(np.einsum("ij,ij->i", change, change))


def means_of(values: Floats, groups: Ints) -> Floats:
    """Return the mean of its group for each value, (n,).

    >>> means_of(np.array([1.0, 2.0, 6.0]), np.array([0, 0, 1])).tolist()
    [1.5, 1.5, 6.0]
    """
    return np.asarray((np.bincount(groups, weights=values) / np.bincount(groups))[groups])
