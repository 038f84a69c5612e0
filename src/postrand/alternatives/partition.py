"""Microaggregation: groups of at least k records that are alike, by the least squared change or by distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def optimal_groups(values: Floats, k: int) -> Ints:
    """Return the groups, (n,), of at least k values each with the least ``Σ (x_i − mean of its group)²``.

    Dynamic programming over the sorted values: an optimal group is a run of k to 2k − 1 neighbours, so
    ``D(j) = min_i D(i) + SSE(i, j)`` over ``k <= j − i < 2k`` (Hansen and Mukherjee 2003). O(nk). Needs ``n >= k``.

    >>> optimal_groups(np.array([1.0, 9.0, 1.5, 2.0, 8.0]), 2).tolist()
    [0, 1, 0, 0, 1]
    """
    n, order = values.size, np.argsort(values, kind="stable")
    changes = _changes(values[order], k)
    best, come = np.full(n + 1, np.inf), np.zeros(n + 1, dtype=np.int64)
    best[0] = 0.0
    for j in range(k, n + 1):
        sizes = np.arange(k, min(2 * k, j + 1))
        total = best[j - sizes] + changes[sizes - k, j - sizes]
        at = int(np.argmin(total))
        best[j], come[j] = total[at], j - sizes[at]
    groups, j, ends = np.zeros(n, dtype=np.int64), n, []
    while j > 0:
        ends.append((int(come[j]), j))
        j = int(come[j])
    for number, (start, end) in enumerate(reversed(ends)):
        groups[order[start:end]] = number
    return groups


def _changes(ordered: Floats, k: int) -> Floats:
    """Return the sum of squares about its mean of each run of k to 2k − 1 values, by size and start, (k, n).

    Values are taken from the first of the run, so that no digits are lost in a dense column.
    """
    n = ordered.size
    found, sums, squares = np.full((k, n), np.inf), np.zeros(n), np.zeros(n)
    for size in range(2, min(2 * k, n + 1)):
        steps = ordered[size - 1 :] - ordered[: n - size + 1]
        sums, squares = sums[: steps.size] + steps, squares[: steps.size] + steps**2
        if size >= k:
            found[size - k, : steps.size] = np.maximum(squares - sums**2 / size, 0.0)
    return found


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
