"""Compiled loops over classes: weights, profiles and what governs them, given counts. Imported where they are called.

Weights ~ Dirichlet(α/K, ..., α/K), which tends to the Dirichlet process as K grows, and whose classes can be put in any
order. ``α ~ Gamma(K, 2)``, so that most classes have records, more than are needed: they share what one larger class
would have, at little cost in precision, while chains with as few classes as the data need can stay for thousands of
sweeps where two kinds of records have one class. Profiles
``θ_kj ~ Dirichlet(a m_j)``: the concentration a of each class and variable is one of a grid, with shares
``~ Dirichlet(1/2)`` learned for each variable; the centre ``m_j ~ Dirichlet(1/2)`` is learned too. A fixed centre that
was estimated from the same release would count its records twice.
"""

from __future__ import annotations

import math

import numpy as np

from postrand.support.jit import compiled


@compiled
def weights_given(members, alpha, weights, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw the weights from ``Dirichlet(α/K + members)``."""
    shape = np.empty(weights.size)
    for k in range(weights.size):
        shape[k] = alpha / weights.size + members[k]
    dirichlet(shape, weights, rng)


@compiled
def profiles_given(counts, offsets, centre, grid, level, theta, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw each ``θ_kj`` from ``Dirichlet(a m_j + counts)``."""
    shape = np.empty(counts.shape[0])
    for j in range(offsets.size - 1):
        first, last = offsets[j], offsets[j + 1]
        for k in range(counts.shape[1]):
            for row in range(first, last):
                shape[row] = grid[level[j, k]] * centre[row] + counts[row, k]
            dirichlet(shape[first:last], theta[first:last, k], rng)


@compiled
def log_alpha(alpha, members):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return ``log P(members | α) + log prior(log α)``, but for a constant."""
    each, total = alpha / members.size, 0
    for count in members:
        total += count
    value = math.lgamma(alpha) - math.lgamma(alpha + total) + members.size * math.log(alpha) - 2 * alpha
    for count in members:
        if count > 0:
            value += math.lgamma(each + count) - math.lgamma(each)
    return value


@compiled
def alpha_given(alpha, members, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Do three Metropolis steps of α on the logarithm."""
    here = log_alpha(alpha, members)
    for _ in range(3):
        new = alpha * math.exp(0.5 * rng.standard_normal())
        there = log_alpha(new, members)
        if math.log(rng.random()) < there - here:
            alpha, here = new, there
    return alpha


@compiled
def dirichlet(shape, out, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill ``out`` with a draw from ``Dirichlet(shape)``, which is overwritten; many shapes are small.

    ``Gamma(s) = Gamma(s + 1) U^(1/s)``.
    """
    total = 0.0
    for i in range(out.size):
        s = shape[i]
        shape[i] = rng.standard_gamma(s + 1) * rng.random() ** (1 / s) + 1e-300
        total += shape[i]
    for i in range(out.size):
        out[i] = shape[i] / total


@compiled
def levels_given(grid, level, share, counts, members, offsets, centre, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw the concentration of each class and variable, ``level`` (J, K) on the ``grid`` (L,), given the counts.

    Then the shares of the levels of each variable, ``share`` (J, L), from ``Dirichlet(1/2 + their number)``, where
    empty classes do not count; these take their levels from the shares.
    """
    chance, number = np.empty(grid.size), np.empty(grid.size)
    base = np.empty((centre.size, grid.size))
    for row in range(centre.size):
        for at in range(grid.size):
            base[row, at] = math.lgamma(grid[at] * centre[row])
    for j in range(offsets.size - 1):
        for at in range(grid.size):
            number[at] = 0.5
        for k in range(members.size):
            if members[k] > 0:
                _level_chances(grid, share[j], counts[:, k], offsets[j], offsets[j + 1], centre, base, chance)
                level[j, k] = _pick(chance, rng)
                number[level[j, k]] += 1
        dirichlet(number, share[j], rng)
        for k in range(members.size):
            if members[k] == 0:
                level[j, k] = _pick(share[j], rng)


@compiled
def _level_chances(grid, share, counts, first, last, centre, base, chance):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill ``chance`` (L,) with ``share P(counts | concentration)``, but for a factor; ``base`` is ``log Γ(a m)``."""
    total = 0
    for row in range(first, last):
        total += counts[row]
    largest = -np.inf
    for at in range(grid.size):
        value = math.log(max(share[at], 1e-300)) + math.lgamma(grid[at]) - math.lgamma(grid[at] + total)
        for row in range(first, last):
            if counts[row] > 0:
                value += math.lgamma(grid[at] * centre[row] + counts[row]) - base[row, at]
        chance[at] = value
        largest = max(largest, value)
    for at in range(grid.size):
        chance[at] = math.exp(chance[at] - largest)


@compiled
def _pick(chance, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return a place drawn with the chances, which need not add up to 1."""
    left = 0.0
    for at in range(chance.size):
        left += chance[at]
    left *= rng.random()
    for at in range(chance.size - 1):
        left -= chance[at]
        if left < 0:
            return at
    return chance.size - 1


@compiled
def tables_of(count, mass, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return a sum of independent Bernoulli(mass / (mass + i)), i = 0 .. count - 1 (Antoniak 1974).

    Candidates are thinned in blocks whose ends double, which takes about ``mass log count`` steps.
    """
    if count == 0:
        return 0
    total, i, end = 1, 1, 2
    while i < count:
        bound = mass / (mass + i)
        u = rng.random()
        gap = math.floor(math.log(max(u, 1e-300)) / math.log1p(-bound))
        if gap >= end - i:
            i, end = end, 2 * end
        else:
            i += int(gap)
            if i < count and rng.random() * bound < mass / (mass + i):
                total += 1
            i += 1
            if i >= end:
                end = 2 * end
    return total


@compiled
def centre_given(grid, level, counts, offsets, centre, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw the centre of each variable from ``Dirichlet(1/2 + tables)``, profiles integrated out (Teh et al. 2006)."""
    for j in range(offsets.size - 1):
        whole = 0.0
        for row in range(offsets[j], offsets[j + 1]):
            number = 0.5
            for k in range(counts.shape[1]):
                number += tables_of(counts[row, k], grid[level[j, k]] * centre[row], rng)
            centre[row] = max(rng.standard_gamma(number), 1e-8)
            whole += centre[row]
        for row in range(offsets[j], offsets[j + 1]):
            centre[row] /= whole


@compiled
def shares(weights, theta, first, second, boxes, offsets, owner, out):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill ``out`` with the model's shares of cells: row ``first``, and row ``second`` where it is not -1.

    Under rules they are shares of the possible records: those of the disjoint impossible ``boxes`` are taken out.
    """
    for c in range(out.size):
        out[c] = 0.0
    rest = 1.0
    mass = np.empty(offsets.size - 1)
    for k in range(weights.size):
        for c in range(out.size):
            out[c] += weights[k] * theta[first[c], k] * (theta[second[c], k] if second[c] >= 0 else 1.0)
        for b in range(boxes.shape[0]):
            whole = float(weights[k])
            for j in range(mass.size):
                mass[j] = 0
                for row in range(offsets[j], offsets[j + 1]):
                    if boxes[b, row]:
                        mass[j] += theta[row, k]
                whole *= mass[j]
            rest -= whole
            if whole > 0:
                for c in range(out.size):
                    out[c] -= _inside(whole, theta, k, first[c], second[c], boxes[b], owner, mass)
    for c in range(out.size):
        out[c] = max(out[c], 0.0) / max(rest, 1e-9)


@compiled
def _inside(whole, theta, k, first, second, box, owner, mass):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return the part of a box of class k that is in a cell."""
    for row in (first, second):
        if row >= 0:
            if not box[row]:
                return 0.0
            whole *= theta[row, k] / mass[owner[row]]
    return whole
