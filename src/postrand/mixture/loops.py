"""Compiled loops over groups of records: the class of each, and its true cells. Imported where they are called.

``theta`` (rows, K) and ``weights`` (K,) are single precision, classes contiguous, so that a group's chances are
computed for several classes at once; sums over records are exact integers.
"""

from __future__ import annotations

import math

import numpy as np

from postrand.support.jit import compiled, compiled_with

TRIES = 10_000
"""Attempts to draw a record that keeps the rules, before it is left out of a sweep."""

# Without the counting of references, which takes most of the time of short functions that read many arrays: these
# make no arrays, and whoever calls them holds those that they read.
_leaf = compiled_with(_nrt=False)
_quick = compiled_with(_nrt=False, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")


@_quick
def _one(p, before, theta, a):  # type: ignore[no-untyped-def]  # numba finds the types
    total = np.float32(0.0)
    for k in range(p.size):
        value = before[k] * theta[a, k]
        p[k] = value
        total += value
    return total


@_quick
def _two(p, before, theta, a, b):  # type: ignore[no-untyped-def]  # numba finds the types
    total = np.float32(0.0)
    for k in range(p.size):
        value = before[k] * (theta[a, k] * theta[b, k])
        p[k] = value
        total += value
    return total


@_quick
def _four(p, before, theta, a, b, c, d):  # type: ignore[no-untyped-def]  # numba finds the types
    total = np.float32(0.0)
    for k in range(p.size):
        value = (before[k] * theta[a, k]) * (theta[b, k] * theta[c, k]) * theta[d, k]
        p[k] = value
        total += value
    return total


@_quick
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


@_quick
def total_of(p):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return the sum."""
    total = np.float32(0.0)
    for k in range(p.size):
        total += p[k]
    return total


@_leaf
def draw_class(p, total, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return a class with chances proportional to ``p``, whose sum is ``total``."""
    return find(p, rng.random() * total)


@_leaf
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


@_quick
def _set(out, value):  # type: ignore[no-untyped-def]  # numba finds the types
    for k in range(out.size):  # a loop compiles much faster than an assignment of arrays
        out[k] = value


@_quick
def _add(out, more):  # type: ignore[no-untyped-def]  # numba finds the types
    for k in range(out.size):
        out[k] += more[k]


@_quick
def tables(packed, theta, sums, reached, q):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill what one draw of the parameters gives all records.

    ``sums`` (laws whose cells are not all combinations, K): the probability of their cells. ``reached`` (released
    cells with several sources, K): ``Σ_c extra_yc Π_j θ_kj(c_j)``.
    """
    for law in range(packed.partial.size):
        if packed.partial[law] >= 0:
            out = sums[packed.partial[law]]
            _set(out, 0.0)
            for cell in range(packed.cell_start[law], packed.cell_start[law + 1]):
                _set(q, 1.0)
                times(q, q, theta, packed.rows, packed.row_start[cell], packed.row_start[cell + 1])
                _add(out, q)
    for number in range(packed.tabled.size):
        y = packed.tabled[number]
        out = reached[number]
        _set(out, 0.0)
        for e in range(packed.source_start[y], packed.source_start[y + 1]):
            cell = packed.source[e]
            _set(q, packed.extra[e])
            times(q, q, theta, packed.rows, packed.row_start[cell], packed.row_start[cell + 1])
            _add(out, q)


@_quick
def chances(packed, g, weights, theta, sums, reached, p, q):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill ``p`` (K,) with ``w_k P(evidence of group g | class k)``; return its sum and the logarithm of its scale."""
    times(p, weights, theta, packed.exact, packed.exact_start[g], packed.exact_start[g + 1])
    scale = 0.0
    for s in range(packed.seen_start[g], packed.seen_start[g + 1]):
        y = packed.seen[s]
        partial, noise = packed.partial[packed.law_of[y]], np.float32(packed.noise[y])
        if packed.table[y] >= 0:
            _set(q, 0.0)
            _add(q, reached[packed.table[y]])
        else:
            e = packed.source_start[y]
            cell = packed.source[e]
            _set(q, packed.extra[e])
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


@_leaf
def product(packed, cell, theta, k):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return ``Π_j θ_kj(c_j)`` of one true cell."""
    q = 1.0
    for r in range(packed.row_start[cell], packed.row_start[cell + 1]):
        q *= theta[packed.rows[r], k]
    return q


@_leaf
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


@_leaf
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


@_leaf
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


@_leaf
def draw_record(packed, g, p, total, theta, sums, reached, x, ruled, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw a record of group g: return its class, and whether the release says something of it.

    ``x`` (J,) is filled with rows, -1 where the release says nothing. With rules, all variables in them (``ruled``) are
    drawn, until the record keeps the rules; the class is -1 after too many attempts.
    """
    for _ in range(TRIES):
        k = draw_class(p, total, rng)
        _set(x, -1)
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


@_leaf
def put(packed, row, x):  # type: ignore[no-untyped-def]  # numba finds the types
    """Set the variable of ``row``."""
    x[packed.owner[row]] = row


@_leaf
def impossible(packed, x):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return whether a record, known at all variables that are in rules, breaks one."""
    for b in range(packed.boxes.shape[0]):
        inside = True
        for j in packed.ruled:
            if not packed.boxes[b, x[j]]:
                inside = False
                break
        if inside:
            return True
    return False


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
                _set(drawn, 0)
                spread(p, total, rng.binomial(packed.counts[g], share / (share + noise)), drawn, rng)
                _add(members, drawn)
                for r in range(first, last):
                    _add(counts[packed.rows[r]], drawn)
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
def possible(packed, weights, theta):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return the impossible share of each class and box, (B, K), and the possible share of all."""
    shares = np.empty((packed.boxes.shape[0], weights.size))
    rest = 1.0
    for b in range(shares.shape[0]):
        for k in range(weights.size):
            share = float(weights[k])
            for j in packed.ruled:
                inside = 0.0
                for row in range(packed.offsets[j], packed.offsets[j + 1]):
                    if packed.boxes[b, row]:
                        inside += theta[row, k]
                share *= inside
            shares[b, k] = share
            rest -= share
    return shares, max(rest, 1e-9)


@compiled
def augment(packed, weights, theta, counts, members, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Add the impossible records that complete the data of a truncated mixture (Manrique-Vallier and Reiter 2014).

    With n records that say something and possible share c, their number is negative binomial,
    ``Poisson(Gamma(n) (1 - c) / c)``.
    """
    n = 0
    for k in range(members.size):
        n += members[k]
    shares, rest = possible(packed, weights, theta)
    if n == 0:
        return
    rate = rng.standard_gamma(float(n)) / rest
    chance = np.empty(theta.shape[0])
    for b in range(shares.shape[0]):
        for k in range(weights.size):
            number = min(rng.poisson(min(rate * shares[b, k], 1e12)), 1000 * n)
            members[k] += number
            for j in packed.ruled:
                first, last = packed.offsets[j], packed.offsets[j + 1]
                inside = 0.0
                for row in range(first, last):
                    chance[row] = theta[row, k] if packed.boxes[b, row] else 0.0
                    inside += chance[row]
                spread(chance[first:last], inside, number, counts[first:last, k], rng)


@compiled
def spread(p, total, number, out, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Add to ``out`` a multinomial draw of ``number`` with chances proportional to ``p``, whose sum is ``total``."""
    if number <= 4 * p.size:
        for _ in range(number):
            out[draw_class(p, total, rng)] += 1
        return
    rest = float(total)
    for k in range(p.size):
        if number == 0:
            return
        share = p[k] / rest if p[k] < rest else 1.0
        drawn = rng.binomial(number, share) if k < p.size - 1 and share < 1 else number
        out[k] += drawn
        number -= drawn
        rest -= p[k]


@compiled
def rescue(packed, g, x, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Change what is not known of ``x`` (J,) until the record keeps the rules, for one that the model hardly allows.

    Codes are drawn evenly. Where no attempt succeeds, what is known breaks a rule.
    """
    free = np.ones(x.size, np.bool_)
    for e in range(packed.exact_start[g], packed.exact_start[g + 1]):
        free[packed.owner[packed.exact[e]]] = False
    for s in range(packed.seen_start[g], packed.seen_start[g + 1]):
        y = packed.seen[s]
        if packed.noise[y] == 0:
            law = packed.law_of[y]
            for v in range(packed.places_start[law], packed.places_start[law + 1]):
                free[packed.places[v]] = False
    for _ in range(TRIES):
        for j in packed.ruled:
            if free[j]:
                first, last = packed.offsets[j], packed.offsets[j + 1]
                x[j] = min(first + int(rng.random() * (last - first)), last - 1)
        if not impossible(packed, x) and _listed(packed, g, x):
            return


@_leaf
def _listed(packed, g, x):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return whether each law of group g that does not have all combinations has the cell of ``x``."""
    for s in range(packed.seen_start[g], packed.seen_start[g + 1]):
        law = packed.law_of[packed.seen[s]]
        if packed.partial[law] >= 0:
            index = 0
            for v in range(packed.places_start[law], packed.places_start[law + 1]):
                j = packed.places[v]
                index = index * (packed.offsets[j + 1] - packed.offsets[j]) + x[j] - packed.offsets[j]
            if packed.member[packed.member_start[packed.partial[law]] + index] < 0:
                return False
    return True


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
