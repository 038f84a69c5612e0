"""Compiled loops over classes: the chances of one group of records. Imported where they are called.

``theta`` (rows, K) and ``weights`` (K,) are single precision, classes contiguous, so that the chances of several
classes are computed at once.
"""

from __future__ import annotations

import math

import numpy as np

from postrand.support.jit import compiled, compiled_with

# Without the counting of references, which takes most of the time of short functions that read many arrays: these
# make no arrays, and whoever calls them holds those that they read.
leaf = compiled_with(_nrt=False)
quick = compiled_with(_nrt=False, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")


@quick
def _one(p, before, theta, a):  # type: ignore[no-untyped-def]  # numba finds the types
    total = np.float32(0.0)
    for k in range(p.size):
        value = before[k] * theta[a, k]
        p[k] = value
        total += value
    return total


@quick
def _two(p, before, theta, a, b):  # type: ignore[no-untyped-def]  # numba finds the types
    total = np.float32(0.0)
    for k in range(p.size):
        value = before[k] * (theta[a, k] * theta[b, k])
        p[k] = value
        total += value
    return total


@quick
def _four(p, before, theta, a, b, c, d):  # type: ignore[no-untyped-def]  # numba finds the types
    total = np.float32(0.0)
    for k in range(p.size):
        value = (before[k] * theta[a, k]) * (theta[b, k] * theta[c, k]) * theta[d, k]
        p[k] = value
        total += value
    return total


@quick
def times(p, before, theta, rows, first, last):  # type: ignore[no-untyped-def]  # numba finds the types
    """Set ``p`` (K,) to ``before`` times the rows of ``theta`` from ``first`` to ``last``; return its sum."""
    at, total = first, np.float32(0.0)
    if at == last:
        for k in range(p.size):
            p[k] = before[k]
            total += p[k]
        return total
    if at + 4 <= last:
        total = _four(p, before, theta, rows[at], rows[at + 1], rows[at + 2], rows[at + 3])
        at += 4
    elif at + 2 <= last:
        total = _two(p, before, theta, rows[at], rows[at + 1])
        at += 2
    else:
        total = _one(p, before, theta, rows[at])
        at += 1
    while at + 2 <= last:
        total = _two(p, p, theta, rows[at], rows[at + 1])
        at += 2
    if at < last:
        total = _one(p, p, theta, rows[at])
    return total


@quick
def put_all(out, value):  # type: ignore[no-untyped-def]  # numba finds the types
    """Set all of ``out`` to ``value``: a loop compiles much faster than an assignment of arrays."""
    for k in range(out.size):
        out[k] = value


@quick
def add(out, more):  # type: ignore[no-untyped-def]  # numba finds the types
    """Add ``more`` to ``out``."""
    for k in range(out.size):
        out[k] += more[k]


@quick
def total_of(p):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return the sum."""
    total = np.float32(0.0)
    for k in range(p.size):
        total += p[k]
    return total


@quick
def tables(packed, theta, sums, reached, q):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill what one draw of the parameters gives all records.

    ``sums`` (laws whose cells are not all combinations, K): the probability of their cells. ``reached`` (released
    cells with several sources, K): ``Σ_c extra_yc Π_j θ_kj(c_j)``.
    """
    for law in range(packed.partial.size):
        if packed.partial[law] >= 0:
            out = sums[packed.partial[law]]
            put_all(out, 0.0)
            for cell in range(packed.cell_start[law], packed.cell_start[law + 1]):
                put_all(q, 1.0)
                times(q, q, theta, packed.rows, packed.row_start[cell], packed.row_start[cell + 1])
                add(out, q)
    for number in range(packed.tabled.size):
        y = packed.tabled[number]
        out = reached[number]
        put_all(out, 0.0)
        for e in range(packed.source_start[y], packed.source_start[y + 1]):
            cell = packed.source[e]
            put_all(q, packed.extra[e])
            times(q, q, theta, packed.rows, packed.row_start[cell], packed.row_start[cell + 1])
            add(out, q)


@leaf
def product(packed, cell, theta, k):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return ``Π_j θ_kj(c_j)`` of one true cell."""
    q = 1.0
    for r in range(packed.row_start[cell], packed.row_start[cell + 1]):
        q *= theta[packed.rows[r], k]
    return q


@quick
def chances(packed, g, weights, theta, sums, reached, p, q):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill ``p`` (K,) with ``w_k P(evidence of group g | class k)``; return its sum and the logarithm of its scale."""
    times(p, weights, theta, packed.exact, packed.exact_start[g], packed.exact_start[g + 1])
    scale = 0.0
    for s in range(packed.seen_start[g], packed.seen_start[g + 1]):
        y = packed.seen[s]
        partial, noise = packed.partial[packed.law_of[y]], np.float32(packed.noise[y])
        if packed.table[y] >= 0:
            put_all(q, 0.0)
            add(q, reached[packed.table[y]])
        else:
            e = packed.source_start[y]
            cell = packed.source[e]
            put_all(q, packed.extra[e])
            times(q, q, theta, packed.rows, packed.row_start[cell], packed.row_start[cell + 1])
        if partial >= 0:
            for k in range(p.size):
                p[k] *= q[k] + noise * sums[partial, k]
        else:
            for k in range(p.size):
                p[k] *= q[k] + noise
    return total_of(p), scale


@compiled
def slow_chances(packed, g, weights, theta, sums, reached, p):  # type: ignore[no-untyped-def]  # numba finds the types
    """Do what :func:`chances` does with logarithms, for products that are too small for single precision."""
    logs, largest = np.empty(p.size), -np.inf
    for k in range(p.size):
        total = math.log(max(float(weights[k]), 1e-300))
        for e in range(packed.exact_start[g], packed.exact_start[g + 1]):
            total += math.log(max(float(theta[packed.exact[e], k]), 1e-300))
        for s in range(packed.seen_start[g], packed.seen_start[g + 1]):
            y = packed.seen[s]
            partial = packed.partial[packed.law_of[y]]
            if packed.table[y] >= 0:
                q = float(reached[packed.table[y], k])
            else:
                e = packed.source_start[y]
                q = packed.extra[e] * product(packed, packed.source[e], theta, k)
            q += packed.noise[y] * (1.0 if partial < 0 else float(sums[partial, k]))
            total += math.log(max(q, 1e-300))
        logs[k] = total
        largest = max(largest, total)
    for k in range(p.size):
        p[k] = math.exp(logs[k] - largest)
    return total_of(p), largest


@leaf
def find(p, at):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return the class in which ``at``, between 0 and the sum of ``p``, falls."""
    for k in range(p.size):
        at -= p[k]
        if at < 0:
            return k
    k = p.size - 1  # by rounding: the last one that has a chance
    while k > 0 and p[k] == 0:
        k -= 1
    return k


@leaf
def draw_class(p, total, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return a class with chances proportional to ``p``, whose sum is ``total``."""
    return find(p, rng.random() * total)
