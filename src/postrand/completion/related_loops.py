"""Compiled loops of the relation to unperturbed columns: candidates, and their weights. Imported where called."""

from __future__ import annotations

import numpy as np

from postrand.mixture.chances import draw_class, put_all
from postrand.mixture.loops import draw_code, put
from postrand.mixture.truncation import impossible
from postrand.support.jit import compiled

TRIES = 50
"""Attempts to draw a candidate that keeps the rules, before the record's own copy is taken."""


@compiled
def candidates(packed, group, weights, theta, tilts, base, out, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill ``out`` (n, C, J) with true records drawn given the evidence, θ of a record tilted by ``tilts`` (n, rows).

    ``P(class, cells) ∝ w_k Π θ_kj(x_j) tilt_i(x_j) P(released | x)``, exactly, class by class.
    """
    classes, variables = weights.size, packed.offsets.size - 1
    bent, totals = np.empty(theta.shape, np.float64), np.empty((variables, classes))
    p, q, full, room = np.empty(classes), np.empty(classes), np.empty(classes), np.empty(classes)
    covered, x = np.empty(variables, np.bool_), np.empty(variables, np.int64)
    for i in range(group.size):
        g = group[i]
        _bend(packed, theta, tilts[i], bent, totals)
        for k in range(classes):
            p[k] = weights[k]
        covered[:] = False
        for e in range(packed.exact_start[g], packed.exact_start[g + 1]):
            covered[packed.owner[packed.exact[e]]] = True
            for k in range(classes):
                p[k] *= bent[packed.exact[e], k]
        for s in range(packed.seen_start[g], packed.seen_start[g + 1]):
            _seen(packed, packed.seen[s], bent, totals, covered, q, full, room)
            for k in range(classes):
                p[k] *= q[k] + full[k]
        for j in range(variables):
            if not covered[j]:
                for k in range(classes):
                    p[k] *= totals[j, k]
        total = p.sum()
        for c in range(out.shape[1]):
            _draw(packed, g, p, total, bent, totals, base[i], x, out[i, c], rng)


@compiled
def _bend(packed, theta, tilt, bent, totals):  # type: ignore[no-untyped-def]  # numba finds the types
    for j in range(totals.shape[0]):
        for k in range(totals.shape[1]):
            totals[j, k] = 0.0
        for row in range(packed.offsets[j], packed.offsets[j + 1]):
            for k in range(totals.shape[1]):
                bent[row, k] = theta[row, k] * tilt[row]
                totals[j, k] += bent[row, k]


@compiled
def _seen(packed, y, bent, totals, covered, q, full, room):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill ``q`` (K,) with what the released cell y has from its sources, ``full`` with what it has from all cells.

    All classes at once, without calls: a call passes every array of ``packed``, which takes longer than the product.
    """
    law, noise = packed.law_of[y], packed.noise[y]
    first, last = packed.places_start[law], packed.places_start[law + 1]
    for k in range(q.size):
        q[k], full[k] = 0.0, 0.0
    for at in range(first, last):
        covered[packed.places[at]] = True
    for e in range(packed.source_start[y], packed.source_start[y + 1]):
        _add_cell(packed.rows, packed.row_start, packed.source[e], packed.extra[e], bent, room, q)
    if packed.partial[law] >= 0:
        for cell in range(packed.cell_start[law], packed.cell_start[law + 1]):
            _add_cell(packed.rows, packed.row_start, cell, noise, bent, room, full)
        return
    for k in range(full.size):
        full[k] = noise
    for at in range(first, last):
        j = packed.places[at]
        for k in range(full.size):
            full[k] *= totals[j, k]


@compiled
def _add_cell(rows, row_start, cell, factor, bent, room, out):  # type: ignore[no-untyped-def]  # numba finds the types
    """Add ``factor`` times the chances (K,) of one true cell to ``out``."""
    for k in range(out.size):
        room[k] = factor
    for r in range(row_start[cell], row_start[cell + 1]):
        row = rows[r]
        for k in range(out.size):
            room[k] *= bent[row, k]
    for k in range(out.size):
        out[k] += room[k]


@compiled
def _chance(rows, row_start, cell, bent, k):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return the chance of one true cell in class k."""
    found = 1.0
    for r in range(row_start[cell], row_start[cell + 1]):
        found *= bent[rows[r], k]
    return found


@compiled
def _all(packed, law, k, bent, totals):  # type: ignore[no-untyped-def]  # numba finds the types
    value = 1.0
    if packed.partial[law] < 0:
        for at in range(packed.places_start[law], packed.places_start[law + 1]):
            value *= totals[packed.places[at], k]
        return value
    value = 0.0
    for cell in range(packed.cell_start[law], packed.cell_start[law + 1]):
        value += _chance(packed.rows, packed.row_start, cell, bent, k)
    return value


@compiled
def _draw(packed, g, p, total, bent, totals, own, x, out, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw one candidate into ``out`` (J,); the record's own copy where none that keeps the rules is found."""
    for _ in range(TRIES):
        k = draw_class(p, total, rng)
        put_all(x, -1)
        for e in range(packed.exact_start[g], packed.exact_start[g + 1]):
            put(packed, packed.exact[e], x)
        for s in range(packed.seen_start[g], packed.seen_start[g + 1]):
            _draw_cell(packed, packed.seen[s], k, bent, totals, x, rng)
        for j in range(x.size):
            if x[j] < 0:
                x[j] = draw_code(packed, bent, k, j, rng)
        if not impossible(packed, x):
            for j in range(x.size):
                out[j] = x[j] - packed.offsets[j]
            return
    out[:] = own


@compiled
def _draw_cell(packed, y, k, bent, totals, x, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw the true cell of a law given its released cell y and the class; full combinations code by code."""
    law = packed.law_of[y]
    full = packed.noise[y] * _all(packed, law, k, bent, totals)
    sources = 0.0
    for e in range(packed.source_start[y], packed.source_start[y + 1]):
        sources += packed.extra[e] * _chance(packed.rows, packed.row_start, packed.source[e], bent, k)
    left = rng.random() * (full + sources)
    for e in range(packed.source_start[y], packed.source_start[y + 1]):
        left -= packed.extra[e] * _chance(packed.rows, packed.row_start, packed.source[e], bent, k)
        if left < 0:
            _set(packed, packed.source[e], x)
            return
    if packed.partial[law] < 0:
        return  # what stays -1 is drawn code by code
    for cell in range(packed.cell_start[law], packed.cell_start[law + 1]):
        left -= packed.noise[y] * _chance(packed.rows, packed.row_start, cell, bent, k)
        if left < 0 or cell == packed.cell_start[law + 1] - 1:
            _set(packed, cell, x)
            return


@compiled
def _set(packed, cell, x):  # type: ignore[no-untyped-def]  # numba finds the types
    for at in range(packed.row_start[cell], packed.row_start[cell + 1]):
        put(packed, packed.rows[at], x)


@compiled
def lean(codes, offsets, base, scores, weights, shares):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill weights (n, C) with ``base`` times ``exp`` of the scores (n, rows) of their codes, one over each record.

    ``shares`` (n, rows) become those of a record's codes. Returned is the sum of the logarithms of what the weights of
    each record summed to before.
    """
    shares[:] = 0.0
    logarithms, own = 0.0, np.empty(codes.shape[1])
    for i in range(codes.shape[0]):
        highest = -np.inf
        for c in range(codes.shape[1]):
            own[c] = 0.0
            for j in range(codes.shape[2]):
                own[c] += scores[i, offsets[j] + codes[i, c, j]]
            if base[i, c] > 0.0:
                highest = max(highest, own[c])
        total = 0.0
        for c in range(codes.shape[1]):
            own[c] = base[i, c] * np.exp(min(own[c] - highest, 0.0))  # a weight of 0 stays 0
            total += own[c]
        logarithms += np.log(total) + highest
        for c in range(codes.shape[1]):
            weights[i, c] = own[c] / total
            for j in range(codes.shape[2]):
                shares[i, offsets[j] + codes[i, c, j]] += weights[i, c]
    return logarithms
