"""Compiled loops over classes: the chances of one group of records. Imported where they are called.

``theta`` (rows, K) and ``weights`` (K,) are single precision, classes contiguous, so that the chances of several
classes are computed at once.
"""

from __future__ import annotations

import math

import numpy as np

from postrand.support.jit import compiled_with

# Without the counting of references, which takes most of the time of short functions that read many arrays: these
# make no arrays, and whoever calls them holds those that they read.
leaf = compiled_with(_nrt=False)
quick = compiled_with(_nrt=False, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")


@quick
def _two(p, theta, a, b):  # type: ignore[no-untyped-def]  # numba finds the types
    for k in range(p.size):
        p[k] *= theta[a, k] * theta[b, k]


@quick
def _five(p, theta, a, b, c, d, e):  # type: ignore[no-untyped-def]  # numba finds the types
    for k in range(p.size):
        p[k] *= (theta[a, k] * theta[b, k]) * (theta[c, k] * theta[d, k]) * theta[e, k]


@quick
def times(p, theta, rows, first, last):  # type: ignore[no-untyped-def]  # numba finds the types
    """Multiply ``p`` (K,) by the rows of ``theta`` from ``first`` to ``last``, in few passes.

    Several classes are computed at once only where no array that is written is also read under another name.
    """
    at = first
    while at + 5 <= last:
        _five(p, theta, rows[at], rows[at + 1], rows[at + 2], rows[at + 3], rows[at + 4])
        at += 5
    while at + 2 <= last:
        _two(p, theta, rows[at], rows[at + 1])
        at += 2
    if at < last:
        for k in range(p.size):
            p[k] *= theta[rows[at], k]


@quick
def _one_from(p, before, theta, a):  # type: ignore[no-untyped-def]  # numba finds the types
    for k in range(before.size):
        p[k] = before[k] * theta[a, k]


@quick
def _two_from(p, before, theta, a, b):  # type: ignore[no-untyped-def]  # numba finds the types
    for k in range(before.size):
        p[k] = before[k] * (theta[a, k] * theta[b, k])


@quick
def _four_from(p, before, theta, a, b, c, d):  # type: ignore[no-untyped-def]  # numba finds the types
    for k in range(before.size):
        p[k] = before[k] * ((theta[a, k] * theta[b, k]) * (theta[c, k] * theta[d, k]))


@quick
def times_from(p, before, theta, rows, first, last):  # type: ignore[no-untyped-def]  # numba finds the types
    """Set ``p`` to ``before`` (K,), another array, times rows of ``theta``; what ``p`` has beyond K stays."""
    at = first
    if at + 4 <= last:
        _four_from(p, before, theta, rows[at], rows[at + 1], rows[at + 2], rows[at + 3])
        at += 4
    elif at + 2 <= last:
        _two_from(p, before, theta, rows[at], rows[at + 1])
        at += 2
    elif at < last:
        _one_from(p, before, theta, rows[at])
        at += 1
    else:
        copy(p, before)
    times(p[: before.size], theta, rows, at, last)


@quick
def copy(p, before):  # type: ignore[no-untyped-def]  # numba finds the types
    """Set ``p`` to ``before``: a loop compiles much faster than an assignment of arrays."""
    for k in range(before.size):
        p[k] = before[k]


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
def largest_of(p):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return the largest."""
    largest = p[0]
    for k in range(p.size):
        largest = max(largest, p[k])
    return largest


@quick
def averages(packed, theta, sums, reached, q):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill what one draw of the parameters gives laws of some cells only, and released cells with several sources.

    ``sums`` (laws whose cells are not all combinations, K): the probability of their cells. ``reached`` (released
    cells with several sources, K): ``Σ_c extra_yc Π_j θ_kj(c_j)``.
    """
    for law in range(packed.partial.size):
        if packed.partial[law] >= 0:
            out = sums[packed.partial[law]]
            put_all(out, 0.0)
            for cell in range(packed.cell_start[law], packed.cell_start[law + 1]):
                put_all(q, 1.0)
                times(q, theta, packed.rows, packed.row_start[cell], packed.row_start[cell + 1])
                add(out, q)
    for number in range(packed.several.size):
        y = packed.several[number]
        out = reached[number]
        put_all(out, 0.0)
        for e in range(packed.source_start[y], packed.source_start[y + 1]):
            cell = packed.source[e]
            put_all(q, packed.extra[e])
            times(q, theta, packed.rows, packed.row_start[cell], packed.row_start[cell + 1])
            add(out, q)


@quick
def tables(packed, theta, sums, reached, seen, scale):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill what one draw of the parameters gives all records that show a cell.

    ``seen`` (tabled cells, K): P(released y | class k), the largest of each cell 1, and ``scale`` (tabled cells,) the
    logarithm of what it was.
    """
    for y in range(packed.tabled):
        _seen(packed, y, theta, sums, reached, seen[y])
        largest = max(largest_of(seen[y]), np.float32(1e-30))
        scale[y] = math.log(largest)
        for k in range(seen.shape[1]):
            seen[y, k] /= largest


@quick
def _seen(packed, y, theta, sums, reached, out):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill ``out`` (K,) with P(released y | class k)."""
    partial, noise = packed.partial[packed.law_of[y]], np.float32(packed.noise[y])
    if packed.place[y] >= 0:
        put_all(out, 0.0)
        add(out, reached[packed.place[y]])
    else:
        e = packed.source_start[y]
        cell = packed.source[e]
        put_all(out, packed.extra[e])
        times(out, theta, packed.rows, packed.row_start[cell], packed.row_start[cell + 1])
    for k in range(out.size):
        out[k] += noise * (sums[partial, k] if partial >= 0 else np.float32(1.0))


@leaf
def product(packed, cell, theta, k):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return ``Π_j θ_kj(c_j)`` of one true cell."""
    q = 1.0
    for r in range(packed.row_start[cell], packed.row_start[cell + 1]):
        q *= theta[packed.rows[r], k]
    return q


@leaf
def spoken(packed, y, theta, sums, reached, k):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return how likely class k shows cell y because of what is true, and because of the noise."""
    partial = packed.partial[packed.law_of[y]]
    if packed.place[y] >= 0:
        whole = float(reached[packed.place[y], k])
    else:
        e = packed.source_start[y]
        whole = packed.extra[e] * product(packed, packed.source[e], theta, k)
    return whole, packed.noise[y] * (1.0 if partial < 0 else float(sums[partial, k]))


@leaf
def slow_chances(packed, g, weights, theta, sums, reached, p):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill ``p`` (K,) with ``w_k P(evidence of group g | class k)``, but for a factor; return its logarithm.

    By logarithms, for products that are too small for single precision.
    """
    largest = np.float32(-np.inf)
    for k in range(p.size):
        total = math.log(max(float(weights[k]), 1e-300))
        for e in range(packed.exact_start[g], packed.exact_start[g + 1]):
            total += math.log(max(float(theta[packed.exact[e], k]), 1e-300))
        for s in range(packed.seen_start[g], packed.seen_start[g + 1]):
            whole, noise = spoken(packed, packed.seen[s], theta, sums, reached, k)
            total += math.log(max(whole + noise, 1e-300))
        p[k] = total
        largest = max(largest, p[k])
    for k in range(p.size):
        p[k] = math.exp(p[k] - largest)
    return largest


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


LANES, WHOLE = 8, 64
"""A draw among K classes adds up at most 8 sums, and then K / 8 chances; arrays of chances have a multiple of 64."""


@quick
def cumulate(p, lanes, cumulative):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill ``cumulative`` (8,) with running sums of the ``lanes`` (8,), ``Σ_v p[8 v + l]``."""
    for lane in range(LANES):
        lanes[lane] = 0.0
    for start in range(0, p.size, WHOLE):
        for lane in range(LANES):
            k = start + lane
            some = (p[k] + p[k + 8]) + (p[k + 16] + p[k + 24])
            lanes[lane] += some + ((p[k + 32] + p[k + 40]) + (p[k + 48] + p[k + 56]))
    total = np.float32(0.0)
    for lane in range(LANES):
        total += lanes[lane]
        cumulative[lane] = total


@leaf
def find_in(p, cumulative, at):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return the class in which ``at``, between 0 and the sum of ``p``, falls when they are ordered by lanes."""
    lane = 0
    for each in range(LANES - 1):
        lane += at >= cumulative[each]
    if lane > 0:
        at -= cumulative[lane - 1]
    last = lane
    for k in range(lane, p.size, LANES):
        if p[k] > 0:
            at -= p[k]
            last = k
            if at < 0:
                break
    if p[last] == 0:  # by rounding, where ``at`` is the sum of all
        last = p.size - 1
        while last > 0 and p[last] == 0:
            last -= 1
    return last
