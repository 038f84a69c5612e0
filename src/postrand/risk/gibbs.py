"""Compiled Gibbs sampler of the latent class model; imported only where it is called."""

from __future__ import annotations

import numpy as np

from postrand.support.jit import compiled


@compiled
def chain(cells, counts, edges, classes, sweeps, rules, unsampled, uniques, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Run one chain; return traces (sweeps, 7): τ1, τ2, α, occupied classes, augmented records, E τ1 and E τ2.

    The last two are expectations given the parameters, the first two drawn from them.

    ``cells`` (C, J) and ``counts`` (C,) are the occupied cells, ``edges`` (J+1,) the offsets of the variables'
    categories, ``rules`` (R, J) the forbidden combinations with -1 for any value, ``unsampled`` the units outside the
    sample.
    """
    total, keys, levels = counts.sum(), cells.shape[1], edges[-1]
    psi, cumulative = np.empty((levels, classes)), np.empty((classes, levels))
    members, tallies = np.zeros(classes, np.int64), np.zeros((levels, classes), np.int64)
    weights, alpha = np.empty(classes), 1.0
    trace = np.zeros((sweeps, 7))
    for h in range(classes):  # start from classes drawn at random from the data: each begins at one cell
        cell = cells[rng.integers(0, cells.shape[0])]
        members[h] = 1
        for j in range(keys):
            tallies[edges[j] + cell[j], h] += 1
    for sweep in range(sweeps):
        _draw_classes(weights, members, alpha, rng)
        alpha = rng.gamma(0.25 + classes - 1) / (0.25 - np.log(max(weights[classes - 1], 1e-300)))
        _draw_profiles(psi, cumulative, tallies, edges, rng)
        members[:] = 0
        tallies[:] = 0
        _assign(cells, counts, edges, weights, psi, members, tallies, rng)
        occupied = (members > 0).sum()
        augmented = 0
        if rules.shape[0]:
            augmented = _augment(total, edges, weights, cumulative, rules, members, tallies, rng)
        feasible = total / (total + augmented)
        trace[sweep, 0], trace[sweep, 1], trace[sweep, 5], trace[sweep, 6] = _uniques(
            cells, edges, weights, psi, uniques, unsampled, feasible, rng
        )
        trace[sweep, 2], trace[sweep, 3], trace[sweep, 4] = alpha, occupied, augmented
    return trace


@compiled
def _draw_classes(weights, members, alpha, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw the stick-breaking weights given the members of each class."""
    rest, after = 1.0, members.sum()
    for h in range(weights.size - 1):
        after -= members[h]
        x, y = rng.gamma(1.0 + members[h]), rng.gamma(alpha + after)
        share = x / (x + y)
        weights[h] = rest * share
        rest *= 1 - share
    weights[-1] = rest


@compiled
def _draw_profiles(psi, cumulative, tallies, edges, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw each class's category probabilities from Dirichlet(1 + tallies)."""
    for h in range(psi.shape[1]):
        for j in range(edges.size - 1):
            mass = 0.0
            for level in range(edges[j], edges[j + 1]):
                psi[level, h] = rng.gamma(1.0 + tallies[level, h])
                mass += psi[level, h]
            running = 0.0
            for level in range(edges[j], edges[j + 1]):
                psi[level, h] /= mass
                running += psi[level, h]
                cumulative[h, level] = running


@compiled
def _assign(cells, counts, edges, weights, psi, members, tallies, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw the class of every record; records of one cell share their probabilities."""
    chance = np.empty(weights.size)
    for c in range(cells.shape[0]):
        chance[:] = weights
        for j in range(cells.shape[1]):
            row = psi[edges[j] + cells[c, j]]
            for h in range(chance.size):
                chance[h] *= row[h]
        for h in range(1, chance.size):
            chance[h] += chance[h - 1]
        for _ in range(counts[c]):
            h = min(np.searchsorted(chance, rng.random() * chance[-1], side="right"), chance.size - 1)
            members[h] += 1
            for j in range(cells.shape[1]):
                tallies[edges[j] + cells[c, j], h] += 1


@compiled
def _augment(total, edges, weights, cumulative, rules, members, tallies, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw from the unrestricted mixture until ``total`` feasible records came; keep the others as data, return them.

    These are the records in forbidden cells that complete the data (Manrique-Vallier and Reiter 2014): their
    number is
    negative binomial, and no decomposition of overlapping rules is needed. At most 20 times ``total``.
    """
    keys = edges.size - 1
    values, ladder = np.empty(keys, np.int64), np.cumsum(weights)
    kept = augmented = 0
    while kept < total and augmented < 20 * total:
        h = min(np.searchsorted(ladder, rng.random() * ladder[-1], side="right"), weights.size - 1)
        for j in range(keys):
            u, level = rng.random(), edges[j]
            while level < edges[j + 1] - 1 and cumulative[h, level] <= u:
                level += 1
            values[j] = level - edges[j]
        if _forbidden(values, rules):
            augmented += 1
            members[h] += 1
            for j in range(keys):
                tallies[edges[j] + values[j], h] += 1
        else:
            kept += 1
    return augmented


@compiled
def _forbidden(values, rules):  # type: ignore[no-untyped-def]  # numba finds the types
    for r in range(rules.shape[0]):
        matches = True
        for j in range(values.size):
            if rules[r, j] >= 0 and rules[r, j] != values[j]:
                matches = False
                break
        if matches:
            return True
    return False


@compiled
def _uniques(cells, edges, weights, psi, uniques, unsampled, feasible, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw ``F − 1 ~ Binomial(N − n, p_j)`` of each sample unique; return its ``τ1``, ``τ2``, and their means.

    ``P(F = 1) = (1−p)^m`` and ``E(1/F) = (1 − (1−p)^(m+1)) / ((m+1) p)``, m = N − n.
    """
    one = inverse = expected_one = expected_inverse = 0.0
    for c in uniques:
        p = 0.0
        for h in range(weights.size):
            share = weights[h]
            for j in range(cells.shape[1]):
                share *= psi[edges[j] + cells[c, j], h]
            p += share
        chance = min(p / feasible, 1.0)
        others = rng.binomial(unsampled, chance)
        one += others == 0
        inverse += 1.0 / (1 + others)
        rest = np.log1p(-chance) if chance < 1.0 else -1e300
        expected_one += np.exp(unsampled * rest) if unsampled else 1.0
        mass = (unsampled + 1) * chance
        expected_inverse += -np.expm1((unsampled + 1) * rest) / mass if unsampled and mass > 1e-12 else 1.0
    return one, inverse, expected_one, expected_inverse
