"""Compiled loops of a truncated mixture: records that the rules forbid. Imported where they are called."""

from __future__ import annotations

import numpy as np

from postrand.mixture.chances import draw_class, leaf
from postrand.support.jit import compiled

TRIES = 10_000
"""Attempts to draw a record that keeps the rules, before it is left out of a sweep."""


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


@leaf
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


@leaf
def listed(packed, g, x):  # type: ignore[no-untyped-def]  # numba finds the types
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
        if not impossible(packed, x) and listed(packed, g, x):
            return


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
def augment(packed, weights, theta, known, members, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Add the impossible records that complete a truncated mixture to ``known`` (K, rows) and ``members`` (K,).

    With n records that say something and possible share c, their number is negative binomial,
    ``Poisson(Gamma(n) (1 - c) / c)`` (Manrique-Vallier and Reiter 2014).
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
                spread(chance[first:last], inside, number, known[k, first:last], rng)
