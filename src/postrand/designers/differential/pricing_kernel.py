"""The compiled loops of the pricing problem. Imported when first used, compiled when first called."""

from __future__ import annotations

import math

import numpy as np

from postrand.support.jit import compiled


@compiled
def tabulate(p, cost, slopes, most, exact, least):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill ``[j, i, r]`` with the largest ``Σ (slope_j p - cost)`` over r (``exact``), or more, of the items from i.

    Both tables are (J, n+1, most+1) and hold -inf where the items do not suffice.
    """
    n, top = p.size, np.empty(most)
    for j in range(slopes.size):
        exact[j, n, 0] = least[j, n, 0] = 0.0
        held, positive, gain = 0, 0, 0.0
        for i in range(n - 1, -1, -1):
            value = slopes[j] * p[i] - cost[i]
            if value > 0:
                positive += 1
                gain += value
            if held < most or value > top[held - 1]:
                k = held if held < most else most - 1
                while k > 0 and top[k - 1] < value:
                    top[k] = top[k - 1]
                    k -= 1
                top[k] = value
                held = min(held + 1, most)
            exact[j, i, 0], least[j, i, 0], total = 0.0, gain, 0.0
            for r in range(1, held + 1):
                total += top[r - 1]
                exact[j, i, r] = total
                least[j, i, r] = gain if positive >= r else total


@compiled
def gain_at(mass, at, gain):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return ``g(at) - rate (at - mass)``; ``gain`` holds (ε e^ε / unit, e^ε - 1, unit, rate, ...)."""
    m = 1 + gain[1] * at
    return gain[0] * at - m * math.log(m) / gain[2] - gain[3] * (at - mass)


@compiled
def stretched(mass, gain):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return the gain at ``mass`` with the best part of the divisible mass; ``gain[4:]`` holds (peak, divisible)."""
    return gain_at(mass, min(max(gain[4], mass), mass + gain[5]), gain)


@compiled
def search(  # type: ignore[no-untyped-def]  # numba finds the types
    p, cost, peaks, twin, cum_p, cum_cost, count, more, table, slopes, offsets, gain, levels, budget, best, sets
):
    """Visit all sets of ``count`` items (or ``more``) whose value may exceed the level, depth first.

    The level is ``fixed + max(enough, 1.1 known)`` with ``levels = (fixed, enough, known)``; ``known`` rises with what
    is found. Items are sorted by cost/p. Two bounds cut: tangents for the number of items, and the fractional fill.
    Of items with equal p the cheaper is always the better one to take: item i only after its ``twin[i]`` (-1: none).
    ``best`` (n,) and ``sets`` (n, n) receive the best set found for each item that it holds. Returns the nodes visited
    (negative where the budget ran out) and the best excess over ``fixed``.
    """
    n, last = p.size, slopes.size - 1
    state = np.zeros(n + 1, np.int8)  # 0 fresh, 1 taken, 2 left out
    hint = np.full(n + 1, last // 2)
    taken = np.zeros(n, np.bool_)
    # By depth, not added to and taken from: rounding errors would pile up.
    counts, masses, costs = np.zeros(n + 1, np.int64), np.zeros(n + 1), np.zeros(n + 1)
    i, nodes, top = 0, 0, levels[2]
    level = levels[0] + max(levels[1], 1.1 * top)
    while i >= 0:
        if state[i] == 0:
            nodes += 1
            if nodes > budget:
                return -nodes, top
            mass, paid = masses[i], costs[i]
            need = max(count - counts[i], 0)
            go = i < n and (need > 0 or more)
            if go:
                j = hint[i]
                bound = offsets[j] + slopes[j] * mass + table[j, i, need]
                for step in (1, -1):  # convex in the slope
                    while 0 <= j + step <= last:
                        other = offsets[j + step] + slopes[j + step] * mass + table[j + step, i, need]
                        if other >= bound:
                            break
                        bound, j = other, j + step
                hint[i] = j
                go = bound - paid > level
            if go:
                low, high = i, n - 1
                while low < high:
                    t = (low + high) // 2
                    if mass + cum_p[t + 1] - cum_p[i] >= peaks[t]:
                        high = t
                    else:
                        low = t + 1
                start = mass + cum_p[low] - cum_p[i]
                at = min(max(peaks[low], start), start + p[low])
                bound = stretched(at, gain) - (cum_cost[low] - cum_cost[i]) - cost[low] / p[low] * (at - start)
                go = bound - paid > level
            if not go:
                i -= 1
                continue
            if twin[i] >= 0 and not taken[twin[i]]:
                state[i] = 2
                counts[i + 1], masses[i + 1], costs[i + 1] = counts[i], mass, paid
                i += 1
                state[i], hint[i] = 0, hint[i - 1]
                continue
            state[i], taken[i] = 1, True
            counts[i + 1], masses[i + 1], costs[i + 1] = counts[i] + 1, mass + p[i], paid + cost[i]
            if counts[i + 1] >= count:
                value = stretched(masses[i + 1], gain) - costs[i + 1]
                if value > levels[0]:
                    if value - levels[0] > top:
                        top = value - levels[0]
                        level = levels[0] + max(levels[1], 1.1 * top)
                    for x in range(i + 1):
                        if taken[x] and value > best[x]:
                            best[x] = value
                            sets[x] = taken
        elif state[i] == 1:
            state[i], taken[i] = 2, False
            counts[i + 1], masses[i + 1], costs[i + 1] = counts[i], masses[i], costs[i]
        else:
            i -= 1
            continue
        i += 1
        state[i], hint[i] = 0, hint[i - 1]
    return nodes, top
