"""Compiled loops over groups of records: the class of each, and its true cells. Imported where they are called."""

from __future__ import annotations

import math

import numpy as np

from postrand.mixture.chances import (
    LANES,
    WHOLE,
    averages,
    copy,
    cumulate,
    find_in,
    leaf,
    product,
    put_all,
    slow_chances,
    spoken,
    tables,
    times,
    times_from,
)
from postrand.mixture.truncation import TRIES, impossible, rescue, spread
from postrand.support.jit import compiled

TINY = 1e-30
"""Sums of chances below this have lost too much in single precision."""


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
def draw_record(packed, g, theta, room, x, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw a record of group g: return its class, and whether the release says something of it.

    ``x`` (J,) is filled with rows, -1 where the release says nothing. With rules, all variables in them are drawn,
    until the record keeps the rules; the class is -1 after too many attempts.
    """
    sums, reached, _, _, _, p, _, cumulative = room
    for _ in range(TRIES):
        k = find_in(p, cumulative, rng.random() * cumulative[LANES - 1])
        put_all(x, -1)
        says = False
        for e in range(packed.exact_start[g], packed.exact_start[g + 1]):
            says = True
            put(packed, packed.exact[e], x)
        for s in range(packed.seen_start[g], packed.seen_start[g + 1]):
            y = packed.seen[s]
            law = packed.law_of[y]
            whole, noise = spoken(packed, y, theta, sums, reached, k)
            if rng.random() * (whole + noise) < whole:
                cell = draw_source(packed, y, theta, k, whole, rng)
            elif packed.partial[law] >= 0:
                cell = draw_member(packed, law, theta, k, rng)
            else:
                continue
            says = True
            for r in range(packed.row_start[cell], packed.row_start[cell + 1]):
                put(packed, packed.rows[r], x)
        for j in packed.ruled:
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
def averaged(packed, theta):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return the arrays that :func:`postrand.mixture.chances.averages` fills."""
    sums = np.empty((packed.member_start.size - 1, theta.shape[1]), theta.dtype)
    reached = np.empty((packed.several.size, theta.shape[1]), theta.dtype)
    averages(packed, theta, sums, reached, np.empty(theta.shape[1], theta.dtype))
    return sums, reached


@compiled
def spaces(packed, theta):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return the tables of one draw of the parameters, and space for chances of classes: those beyond K are 0."""
    size = theta.shape[1]
    sums, reached = averaged(packed, theta)
    seen, scale = np.empty((packed.tabled, size), theta.dtype), np.empty(packed.tabled)
    tables(packed, theta, sums, reached, seen, scale)
    p, lanes = np.zeros(-(-size // WHOLE) * WHOLE, theta.dtype), np.empty(LANES, theta.dtype)
    return sums, reached, seen, scale, np.empty(size, theta.dtype), p, lanes, np.empty(LANES, theta.dtype)


@compiled
def assign(packed, weights, theta, known, shown, members, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw the classes of all records; add them to ``members`` (K,).

    Of records one by one also the true cells are drawn, and added to ``known`` (K, rows); they are left out if the
    release says nothing of them. Of pooled records the released cells are added to ``shown`` (K, tabled cells): what
    they say is drawn by :func:`settle`. Returns the log-likelihood of the parameters, without the rules' constant.
    """
    room = spaces(packed, theta)
    logs = assign_simple(packed, weights, theta, room, known, members, rng)
    logs += assign_pooled(packed, weights, theta, room, known, shown, members, rng)
    return logs + assign_each(packed, weights, theta, room, known, members, rng)


@compiled
def assign_simple(packed, weights, theta, room, known, members, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw the records of groups of one cell with one source; return their part of the log-likelihood."""
    _, _, _, _, _, p, lanes, cumulative = room
    drawn, logs = np.empty(weights.size, np.int64), 0.0
    rows = packed.rows
    for g in range(packed.counts.size):
        if not packed.simple[g]:
            continue
        y, number = packed.seen[packed.seen_start[g]], packed.counts[g]
        extra, noise, cell = (
            packed.extra[packed.source_start[y]],
            packed.noise[y],
            packed.source[packed.source_start[y]],
        )
        first, last = packed.row_start[cell], packed.row_start[cell + 1]
        times_from(p, weights, theta, rows, first, last)
        cumulate(p, lanes, cumulative)
        share = extra * cumulative[LANES - 1]
        logs += number * math.log(share + noise)
        if number > 4 * drawn.size:
            put_all(drawn, 0)
            spread(p[: drawn.size], cumulative[LANES - 1], rng.binomial(number, share / (share + noise)), drawn, rng)
            for k in range(drawn.size):
                members[k] += drawn[k]
                for r in range(first, last):
                    known[k, rows[r]] += drawn[k]
            continue
        for _ in range(number):
            at = rng.random() * (share + noise)
            if at < share:  # then it is uniform below the share
                k = find_in(p, cumulative, at / extra)
                members[k] += 1
                for r in range(first, last):
                    known[k, rows[r]] += 1
    return logs


@leaf
def weigh(packed, g, weights, theta, room):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill chances and running sums in ``room`` with those of the classes of group g; return its log-likelihood."""
    _, _, seen, scale, base, p, lanes, cumulative = room
    copy(base, weights)
    times(base, theta, packed.exact, packed.exact_start[g], packed.exact_start[g + 1])
    times_from(p, base, seen, packed.seen, packed.seen_start[g], packed.seen_start[g + 1])
    cumulate(p, lanes, cumulative)
    log = 0.0
    if not cumulative[LANES - 1] > TINY:
        log = weigh_slowly(packed, g, weights, theta, room)
    for s in range(packed.seen_start[g], packed.seen_start[g + 1]):
        log += scale[packed.seen[s]]
    return log + math.log(cumulative[LANES - 1])


@leaf
def weigh_slowly(packed, g, weights, theta, room):  # type: ignore[no-untyped-def]  # numba finds the types
    """Do it again with logarithms; return that of the factor by which chances are larger than the others."""
    sums, reached, _, scale, _, p, lanes, cumulative = room
    log = slow_chances(packed, g, weights, theta, sums, reached, p[: weights.size])
    cumulate(p, lanes, cumulative)
    for s in range(packed.seen_start[g], packed.seen_start[g + 1]):
        log -= scale[packed.seen[s]]
    return log


@compiled
def assign_pooled(packed, weights, theta, room, known, shown, members, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw the classes of the records of pooled groups; return their part of the log-likelihood.

    The product of the first ``cut`` cells of a group is often that of the group before, and is then used again.
    """
    _, _, table, scale, base, p, lanes, cumulative = room
    drawn, logs = np.empty(weights.size, np.int64), 0.0
    exact, exact_start, seen, seen_start = packed.exact, packed.exact_start, packed.seen, packed.seen_start
    counts, pooled, fresh, cut = packed.counts, packed.pooled, packed.fresh, packed.cut
    for g in range(counts.size):
        if not pooled[g]:
            continue
        number, first, last = counts[g], seen_start[g], seen_start[g + 1]
        middle = min(first + cut, last)
        if fresh[g]:
            copy(base, weights)
            times(base, theta, exact, exact_start[g], exact_start[g + 1])
            times(base, table, seen, first, middle)
        times_from(p, base, table, seen, middle, last)
        cumulate(p, lanes, cumulative)
        if not cumulative[LANES - 1] > TINY:
            logs += number * weigh_slowly(packed, g, weights, theta, room)
        total = float(cumulative[LANES - 1])
        logs += number * math.log(total)
        many = number > 4 * drawn.size
        if many:
            put_all(drawn, 0)
            spread(p[: drawn.size], cumulative[LANES - 1], number, drawn, rng)
        for turn in range(drawn.size if many else number):
            k = turn if many else find_in(p, cumulative, rng.random() * total)
            more = drawn[k] if many else 1
            members[k] += more
            for e in range(exact_start[g], exact_start[g + 1]):
                known[k, exact[e]] += more
            for s in range(first, last):
                shown[k, seen[s]] += more
    for k in range(weights.size):
        for y in range(scale.size):
            logs += shown[k, y] * scale[y]
    return logs


@compiled
def assign_each(packed, weights, theta, room, known, members, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw the records of all other groups one by one; return their part of the log-likelihood."""
    x, logs = np.empty(packed.offsets.size - 1, np.int64), 0.0
    for g in range(packed.counts.size):
        if packed.simple[g] or packed.pooled[g]:
            continue
        logs += packed.counts[g] * weigh(packed, g, weights, theta, room)
        for _ in range(packed.counts[g]):
            k, says = draw_record(packed, g, theta, room, x, rng)
            if says:
                members[k] += 1
                for j in range(x.size):
                    if x[j] >= 0:
                        known[k, x[j]] += 1
    return logs


@compiled
def settle(packed, theta, shown, known, counts, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill ``counts`` (rows, K) with ``known`` (K, rows) and with true cells of the ``shown`` (K, cells), drawn.

    Given the classes they are independent: binomial whether the release says something, then multinomial over sources.
    """
    sums, reached = averaged(packed, theta)
    for row in range(theta.shape[0]):
        for k in range(theta.shape[1]):
            counts[row, k] = known[k, row]
    chance, drawn = np.empty(widest(packed)), np.empty(widest(packed), np.int64)
    for k in range(shown.shape[0]):
        for y in range(shown.shape[1]):
            if shown[k, y] == 0:
                continue
            whole, noise = spoken(packed, y, theta, sums, reached, k)
            says = heads(shown[k, y], whole / max(whole + noise, 1e-300), rng)
            first, last = packed.source_start[y], packed.source_start[y + 1]
            total = 0.0
            for e in range(first, last):
                chance[e - first] = packed.extra[e] * product(packed, packed.source[e], theta, k)
                total += chance[e - first]
                drawn[e - first] = 0
            if last == first + 1:
                drawn[0] = says
            else:
                spread(chance[: last - first], total, says, drawn, rng)
            for e in range(first, last):
                learn(packed, packed.source[e], k, drawn[e - first], counts)
            if packed.partial[packed.law_of[y]] >= 0:
                for _ in range(shown[k, y] - says):
                    learn(packed, draw_member(packed, packed.law_of[y], theta, k, rng), k, 1, counts)


@leaf
def learn(packed, cell, k, more, counts):  # type: ignore[no-untyped-def]  # numba finds the types
    """Add ``more`` records of class k with a true cell."""
    for r in range(packed.row_start[cell], packed.row_start[cell + 1]):
        counts[packed.rows[r], k] += more


@leaf
def widest(packed):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return the most sources of a released cell."""
    most = 1
    for y in range(packed.source_start.size - 1):
        most = max(most, packed.source_start[y + 1] - packed.source_start[y])
    return most


@leaf
def heads(number, chance, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return a binomial draw."""
    if number > 8:
        return rng.binomial(number, min(chance, 1.0))
    found = 0
    for _ in range(number):
        found += rng.random() < chance
    return found


@compiled
def fill(packed, order, group, weights, theta, out, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw a whole true record for each record ``order`` of a group into ``out`` (n, J), codes."""
    room = spaces(packed, theta)
    x, before = np.empty(packed.offsets.size - 1, np.int64), -1
    for i in order:
        g = group[i]
        if g != before:
            if packed.simple[g]:
                weigh_simple(packed, g, weights, theta, room)
            else:
                weigh(packed, g, weights, theta, room)
            before = g
        k, _ = draw_record(packed, g, theta, room, x, rng)
        if k < 0:
            rescue(packed, g, x, rng)
        for j in range(x.size):
            row = x[j] if x[j] >= 0 else draw_code(packed, theta, max(k, 0), j, rng)
            out[i, j] = row - packed.offsets[j]


@leaf
def weigh_simple(packed, g, weights, theta, room):  # type: ignore[no-untyped-def]  # numba finds the types
    """Do what :func:`weigh` does for a group of one cell with one source, which has no row in the table."""
    _, _, _, _, _, p, lanes, cumulative = room
    y = packed.seen[packed.seen_start[g]]
    e, noise = packed.source_start[y], np.float32(packed.noise[y])
    cell, extra = packed.source[e], np.float32(packed.extra[e])
    times_from(p, weights, theta, packed.rows, packed.row_start[cell], packed.row_start[cell + 1])
    for k in range(weights.size):
        p[k] = extra * p[k] + noise * weights[k]
    cumulate(p, lanes, cumulative)
