"""The compiled loops of pricing subsets. Imported when first used, compiled when first called.

Prices ``c_q``, sums ``p1, p2, u1, pu, u2`` of each question (:class:`precision.Question`), ``masks`` of its variables;
questions in order of their first variable, ``starts`` (n + 1,) says where those of each variable begin.
"""

from __future__ import annotations

import numpy as np

from postrand.support.jit import compiled

_COLLECTED = 100


@compiled
def gain_of(mask, cells, far, starts, masks, prices, sums):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return ``Σ c_q I_q`` of the questions within a subset of so many cells; ``far = e^-ε``."""
    keep = (1 - far) / (1 + (cells - 1) * far)
    rest, gain = 1 - keep, 0.0
    for j in range(starts.size - 1):
        if mask >> np.uint64(j) & np.uint64(1) == 0:
            continue
        for q in range(starts[j], starts[j + 1]):
            if masks[q] & ~mask == 0:
                p1, p2, u1, pu, u2 = sums[q]
                first = keep * p1 + rest * u1
                gain += prices[q] * keep * keep / (first - keep * keep * p2 - 2 * keep * rest * pu - rest * rest * u2)
    return gain


@compiled
def climb(mask, sizes, core, most, far, starts, masks, prices, sums):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return the subset that no adding, leaving out or exchange of one variable improves, and its gain."""
    one = np.uint64(1)
    n = sizes.size
    cells = 1.0
    for j in range(n):
        if mask >> np.uint64(j) & one:
            cells *= sizes[j]
    gain = gain_of(mask, cells, far, starts, masks, prices, sums)
    better = True
    while better:
        better, best, chosen, wide = False, gain, mask, cells
        for j in range(n):
            for k in range(j, n):
                own, other = one << np.uint64(j), one << np.uint64(k)
                flip = own if j == k else own | other
                if flip & core:
                    continue
                if j != k and (mask & own != 0) == (mask & other != 0):
                    continue
                trial, size = mask ^ flip, cells
                size = size / sizes[j] if mask & own else size * sizes[j]
                if j != k:
                    size = size / sizes[k] if mask & other else size * sizes[k]
                if trial == 0 or size > most + 0.5:
                    continue
                found = gain_of(trial, size, far, starts, masks, prices, sums)
                if found > best * (1 + 1e-12):
                    better, best, chosen, wide = True, found, trial, size
        mask, cells, gain = chosen, wide, best
    return mask, gain


@compiled
def fill(order, worth, weights, room):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return the best of a knapsack in which the last item may be cut; ``order``: by worth a unit, falling."""
    total = 0.0
    for j in order:
        if worth[j] <= 0:
            break
        if weights[j] <= room:
            total += worth[j]
            room -= weights[j]
        else:
            return total + worth[j] * (room / weights[j] if weights[j] > 0 else 1.0)
    return total


@compiled
def resort(order, unit):  # type: ignore[no-untyped-def]  # numba finds the types
    """Sort places by falling ``unit``, in place: by insertion, because a node's order is nearly that of its parent."""
    for i in range(1, order.size):
        j, k = order[i], i
        while k > 0 and unit[order[k - 1]] < unit[j]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = j


@compiled
def neighbours(pairs, logs, room):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return, for positions p and variables j >= p, the most that j's pairs with others from p on are worth."""
    n = logs.size
    found = np.zeros((n + 1, n))
    for p in range(n):
        for j in range(p, n):
            worth = pairs[j].copy()
            worth[:p] = 0.0
            worth[j] = 0.0
            order = np.argsort(-worth / logs)
            found[p, j] = fill(order, worth, logs, room - logs[j])
    return found


@compiled
def search(single, pairs, base, sizes, logs, ends, floor, held, cells, budget, far, starts, masks, prices, sums):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return whether the search of a level is complete, the best gain met, and subsets met that are above the floor.

    Complete: no subset of the level gains more than the threshold and the best gain met.

    Variables are in the order of the search. ``single`` (n,) and ``pairs`` (n, n) are at least what each adds at this
    level, ``base`` what the core has; ``held`` is the core, and ``masks`` are of variables in this order. A subset's
    logarithm of cells beyond the core is in ``[least, room]``; ``ends`` are these two and the threshold.
    """
    least, room, threshold = ends
    n = logs.size
    one = np.uint64(1)
    around = neighbours(pairs, logs, room)
    rest = np.zeros(n + 1)
    for p in range(n - 1, -1, -1):
        rest[p] = rest[p + 1] + logs[p]
    depth = np.zeros(n + 2, dtype=np.int64)
    mask = np.zeros(n + 2, dtype=np.uint64)
    worth = np.zeros(n + 2)
    used = np.zeros(n + 2)
    linear = np.zeros((n + 2, n))
    linear[0] = single
    mask[0], worth[0] = held, base
    top, best, count = 1, 0.0, 0
    chosen = np.zeros(_COLLECTED, dtype=np.uint64)
    value, unit, order = np.zeros(n), np.zeros(n), np.arange(n)
    ranked = np.zeros((n + 2, n), dtype=np.int64)
    ranked[0] = order
    while top > 0:
        top -= 1
        budget -= 1
        if budget < 0:
            return False, best, chosen[:count]
        p, at, gain, spent = depth[top], mask[top], worth[top], used[top]
        own = linear[top].copy()
        if p == n:
            if spent < least - 1e-9 or at == 0:
                continue
            width = cells
            for j in range(n):
                if at >> np.uint64(j) & one:
                    width *= sizes[j]
            found = gain_of(at, width, far, starts, masks, prices, sums)
            if found > floor and (found > best or count < _COLLECTED):
                count = min(count + 1, _COLLECTED)
                chosen[count - 1] = at
            best = max(best, found)
            continue
        if spent + rest[p] < least - 1e-9:
            continue
        value[:] = 0.0
        unit[:] = 0.0
        for j in range(p, n):
            if logs[j] <= room - spent + 1e-9:
                value[j] = own[j] + 0.5 * around[p, j]
                unit[j] = value[j] / logs[j]
        order[:] = ranked[top]
        resort(order, unit)
        if gain + fill(order, value, logs, room - spent + 1e-9) <= threshold:
            continue
        depth[top], mask[top], worth[top], used[top] = p + 1, at, gain, spent
        linear[top], ranked[top] = own, order
        top += 1
        if logs[p] <= room - spent + 1e-9:
            depth[top], mask[top] = p + 1, at | one << np.uint64(p)
            worth[top], used[top] = gain + own[p], spent + logs[p]
            for j in range(p + 1, n):
                linear[top, j] = own[j] + pairs[p, j]
            ranked[top] = order
            top += 1
    return True, best, chosen[:count]
