"""Microaggregation: groups of at least k records that are alike, by the least squared change or by distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def optimal_groups(values: Floats, k: int, units: Ints | None = None) -> Ints:
    """Return the groups, (n,), with the least ``Σ (x_i − mean of its group)²`` of runs of sorted values.

    Each run has at least k values; with ``units``, (n,), such as the household of each value, those of at least k of
    them. Let ``e(i)`` be the first end of such a run from i on. A run that reaches ``e(e(i))`` can be cut at ``e(i)``
    and changes less, so ``D(j) = min_i D(i) + SSE(i, j)`` over ``e(i) <= j < e(e(i))``: k to 2k − 1 values without
    units (Hansen and Mukherjee 2003), where runs are the best of all groups. Time O(nk) for units of few values each.
    There must be k values, or units.

    >>> pay = np.array([1.0, 9.0, 1.5, 2.0, 8.0])
    >>> optimal_groups(pay, 2).tolist()
    [0, 1, 0, 0, 1]
    >>> optimal_groups(pay, 2, np.array([0, 1, 0, 0, 1])).tolist()
    [0, 0, 0, 0, 0]
    """
    n = values.size
    order = np.argsort(values, kind="stable") if units is None else np.lexsort((units, values))
    x = values[order]
    ends = _first_ends(np.arange(n) if units is None else units[order], k)
    best, come = np.full(n + 1, np.inf), np.zeros(n + 1, dtype=np.int64)
    best[0] = 0.0
    sizes = np.arange(1.0, n + 1)
    for i in range(n):
        end = ends[i]
        if end > n or best[i] == np.inf:
            continue
        last = min(ends[end], n + 1) - 1
        run = x[i:last] - x[i]  # from the first of the run, so that no digits are lost in a dense column
        change = (np.cumsum(run * run) - np.cumsum(run) ** 2 / sizes[: run.size])[end - i - 1 :]
        total = best[i] + np.maximum(change, 0.0)
        less = total < best[end : last + 1]
        best[end : last + 1][less], come[end : last + 1][less] = total[less], i
    groups, j, starts = np.zeros(n, dtype=np.int64), n, []
    while j > 0:
        j = int(come[j])
        starts.append(j)
    groups[starts[:-1]] = 1
    groups[order] = np.cumsum(groups)
    return groups


def _first_ends(units: Ints, k: int) -> list[int]:
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
    return [*found, n + 1]


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
