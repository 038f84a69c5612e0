"""Compiled loops over groups of records: the class of each, and its true cells. Imported where they are called."""

from __future__ import annotations

import math

import numpy as np

from postrand.mixture.chances import (
    add,
    chances,
    draw_class,
    find,
    leaf,
    product,
    put_all,
    slow_chances,
    tables,
    times,
)
from postrand.mixture.truncation import TRIES, impossible, rescue, spread
from postrand.support.jit import compiled


@leaf
def draw_code(packed, theta, k, j, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return a row of variable j, drawn from class k."""
    first, last = packed.offsets[j], packed.offsets[j + 1] - 1
    total = 0.0
    for row in range(first, last + 1):
        total += theta[row, k]
    at = rng.random() * total
    for row in range(first, last):
        at -= theta[row, k]
        if at < 0:
            return row
    return last


@leaf
def draw_member(packed, law, theta, k, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return a true cell of a law whose cells are not all combinations, drawn from class k."""
    start = packed.member_start[packed.partial[law]]
    for _ in range(50):
        index = 0
        for v in range(packed.places_start[law], packed.places_start[law + 1]):
            j = packed.places[v]
            size = packed.offsets[j + 1] - packed.offsets[j]
            index = index * size + draw_code(packed, theta, k, j, rng) - packed.offsets[j]
        cell = packed.member[start + index]
        if cell >= 0:
            return cell
    first, last = packed.cell_start[law], packed.cell_start[law + 1]
    total = 0.0
    for cell in range(first, last):
        total += product(packed, cell, theta, k)
    at = rng.random() * total
    for cell in range(first, last - 1):
        at -= product(packed, cell, theta, k)
        if at < 0:
            return cell
    return last - 1


@leaf
def draw_source(packed, y, theta, k, whole, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return the true cell of released cell y in class k, given that it says something; ``whole`` is its chance."""
    first, last = packed.source_start[y], packed.source_start[y + 1]
    if last == first + 1:
        return packed.source[first]
    at = rng.random() * whole
    for e in range(first, last - 1):
        at -= packed.extra[e] * product(packed, packed.source[e], theta, k)
        if at < 0:
            return packed.source[e]
    return packed.source[last - 1]


@leaf
def draw_record(packed, g, p, total, theta, sums, reached, x, ruled, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw a record of group g: return its class, and whether the release says something of it.

    ``x`` (J,) is filled with rows, -1 where the release says nothing. With rules, all variables in them (``ruled``) are
    drawn, until the record keeps the rules; the class is -1 after too many attempts.
    """
    for _ in range(TRIES):
        k = draw_class(p, total, rng)
        put_all(x, -1)
        says = False
        for e in range(packed.exact_start[g], packed.exact_start[g + 1]):
            says = True
            put(packed, packed.exact[e], x)
        for s in range(packed.seen_start[g], packed.seen_start[g + 1]):
            y = packed.seen[s]
            law = packed.law_of[y]
            partial = packed.partial[law]
            if packed.table[y] >= 0:
                whole = float(reached[packed.table[y], k])
            else:
                e = packed.source_start[y]
                whole = packed.extra[e] * product(packed, packed.source[e], theta, k)
            noise = packed.noise[y] * (1.0 if partial < 0 else float(sums[partial, k]))
            if rng.random() * (whole + noise) < whole:
                cell = draw_source(packed, y, theta, k, whole, rng)
            elif partial >= 0:
                cell = draw_member(packed, law, theta, k, rng)
            else:
                continue
            says = True
            for r in range(packed.row_start[cell], packed.row_start[cell + 1]):
                put(packed, packed.rows[r], x)
        for j in ruled:
            if x[j] < 0:
                x[j] = draw_code(packed, theta, k, j, rng)
        if not packed.boxes.shape[0] or not impossible(packed, x):
            return k, says
    return -1, False


@leaf
def put(packed, row, x):  # type: ignore[no-untyped-def]  # numba finds the types
    """Set the variable of ``row``."""
    x[packed.owner[row]] = row


@compiled
def assign(packed, weights, theta, counts, members, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw class and cells of all records that say something; add them to ``counts`` (rows, K) and ``members`` (K,).

    Returns the log-likelihood of the parameters, without the rules' constant.
    """
    size = weights.size
    p, q = np.empty(size, theta.dtype), np.empty(size, theta.dtype)
    x = np.empty(packed.offsets.size - 1, np.int64)
    partials = packed.member_start.size - 1
    sums, reached = np.empty((partials, size), theta.dtype), np.empty((packed.tabled.size, size), theta.dtype)
    tables(packed, theta, sums, reached, q)
    drawn = np.empty(size, np.int64)
    logs = 0.0
    for g in range(packed.counts.size):
        if packed.simple[g]:
            y = packed.seen[packed.seen_start[g]]
            e = packed.source_start[y]
            cell = packed.source[e]
            first, last = packed.row_start[cell], packed.row_start[cell + 1]
            total = times(p, weights, theta, packed.rows, first, last)
            share, noise = packed.extra[e] * float(total), packed.noise[y]
            logs += packed.counts[g] * math.log(share + noise)
            if packed.counts[g] > 4 * size:
                put_all(drawn, 0)
                spread(p, total, rng.binomial(packed.counts[g], share / (share + noise)), drawn, rng)
                add(members, drawn)
                for r in range(first, last):
                    add(counts[packed.rows[r]], drawn)
                continue
            for _ in range(packed.counts[g]):
                at = rng.random() * (share + noise)
                if at < share:  # then it is uniform below the share
                    k = find(p, np.float32(at / packed.extra[e]))
                    members[k] += 1
                    for r in range(first, last):
                        counts[packed.rows[r], k] += 1
        else:
            total, scale = chances(packed, g, weights, theta, sums, reached, p, q)
            if not total > 1e-30:
                total, scale = slow_chances(packed, g, weights, theta, sums, reached, p)
            logs += packed.counts[g] * (math.log(total) + scale)
            for _ in range(packed.counts[g]):
                k, says = draw_record(packed, g, p, total, theta, sums, reached, x, packed.ruled, rng)
                if says:
                    members[k] += 1
                    for j in range(x.size):
                        if x[j] >= 0:
                            counts[x[j], k] += 1
    return logs


@compiled
def fill(packed, order, group, weights, theta, out, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw a whole true record for each record ``order`` of a group into ``out`` (n, J), codes."""
    size = weights.size
    p, q = np.empty(size, theta.dtype), np.empty(size, theta.dtype)
    x = np.empty(packed.offsets.size - 1, np.int64)
    partials = packed.member_start.size - 1
    sums, reached = np.empty((partials, size), theta.dtype), np.empty((packed.tabled.size, size), theta.dtype)
    tables(packed, theta, sums, reached, q)
    before, total = -1, np.float32(0.0)
    for i in order:
        g = group[i]
        if g != before:
            total, _ = chances(packed, g, weights, theta, sums, reached, p, q)
            if not total > 1e-30:
                total, _ = slow_chances(packed, g, weights, theta, sums, reached, p)
            before = g
        k, _ = draw_record(packed, g, p, total, theta, sums, reached, x, packed.ruled, rng)
        if k < 0:
            rescue(packed, g, x, rng)
        for j in range(x.size):
            row = x[j] if x[j] >= 0 else draw_code(packed, theta, max(k, 0), j, rng)
            out[i, j] = row - packed.offsets[j]
