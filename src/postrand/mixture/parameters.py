"""Compiled loops over classes: weights, profiles and what governs them, given counts. Imported where they are called.

Weights ~ Dirichlet(α/K, ..., α/K), which tends to the Dirichlet process as K grows, and whose classes can be put in any
order. Profiles ``θ_kj ~ Dirichlet(a_j m_j)``, centred on margins m_j. ``log a_j ~ N(0, 2²)``, ``α ~ Gamma(1/4, 1/4)``.
"""

from __future__ import annotations

import math

import numpy as np

from postrand.support.jit import compiled


@compiled
def order(counts, members):  # type: ignore[no-untyped-def]  # numba finds the types
    """Put the classes in order of size, largest first, so that draws among them end early."""
    new = np.argsort(-members)
    members[:] = members[new]
    for row in range(counts.shape[0]):
        counts[row] = counts[row][new]


@compiled
def weights_given(members, alpha, weights, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw the weights from ``Dirichlet(α/K + members)``."""
    total = 0.0
    drawn = np.empty(weights.size)
    for k in range(weights.size):
        shape = alpha / weights.size + members[k]
        drawn[k] = rng.standard_gamma(shape + 1) * rng.random() ** (1 / shape)  # for small shapes more accurate
        total += drawn[k]
    for k in range(weights.size):
        weights[k] = drawn[k] / total


@compiled
def profiles_given(counts, offsets, centre, concentration, theta, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw each ``θ_kj`` from ``Dirichlet(a_j m_j + counts)``."""
    drawn = np.empty(counts.shape[0])
    for k in range(counts.shape[1]):
        for j in range(offsets.size - 1):
            total = 0.0
            for row in range(offsets[j], offsets[j + 1]):
                shape = concentration[j] * centre[row] + counts[row, k]
                drawn[row] = rng.standard_gamma(shape + 1) * rng.random() ** (1 / shape) + 1e-300
                total += drawn[row]
            for row in range(offsets[j], offsets[j + 1]):
                theta[row, k] = drawn[row] / total


@compiled
def log_alpha(alpha, members):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return ``log P(members | α) + log prior(log α)``, but for a constant."""
    each, total = alpha / members.size, members.sum()
    value = math.lgamma(alpha) - math.lgamma(alpha + total) + 0.25 * math.log(alpha) - 0.25 * alpha
    for count in members:
        if count > 0:
            value += math.lgamma(each + count) - math.lgamma(each)
    return value


@compiled
def log_concentration(a, counts, members, first, last, centre):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return ``log P(counts | a) + log prior(log a)`` of a variable, profiles integrated out, but for a constant."""
    value = -(math.log(a) ** 2) / 8
    for k in range(counts.shape[1]):
        if members[k] > 0:
            total = 0
            for row in range(first, last):
                count = counts[row, k]
                total += count
                if count > 0:
                    value += math.lgamma(a * centre[row] + count) - math.lgamma(a * centre[row])
            value += math.lgamma(a) - math.lgamma(a + total)
    return value


@compiled
def alpha_given(alpha, members, step, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Do two Metropolis steps of α on the logarithm; ``step`` (1,) adapts while it is positive."""
    here = log_alpha(alpha, members)
    for _ in range(2):
        new = alpha * math.exp(step * rng.standard_normal())
        there = log_alpha(new, members)
        if math.log(rng.random()) < there - here:
            alpha, here = new, there
    return alpha


@compiled
def concentrations_given(concentration, counts, members, offsets, centre, steps, gain, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Do a Metropolis step of each ``log a_j``; with a ``gain``, step lengths approach an acceptance of 0.44."""
    for j in range(concentration.size):
        a = concentration[j]
        new = a * math.exp(steps[j] * rng.standard_normal())
        new = min(max(new, 1e-4), 1e6)
        here = log_concentration(a, counts, members, offsets[j], offsets[j + 1], centre)
        there = log_concentration(new, counts, members, offsets[j], offsets[j + 1], centre)
        accepted = math.log(rng.random()) < there - here
        if accepted:
            concentration[j] = new
        steps[j] = min(max(steps[j] * math.exp(gain * ((1.0 if accepted else 0.0) - 0.44)), 0.02), 5.0)


@compiled
def shares(weights, theta, first, second, boxes, offsets, out):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill ``out`` with the model's shares of cells: row ``first``, and row ``second`` where it is not -1.

    Under rules they are shares of the possible records: those of the disjoint impossible ``boxes`` are taken out.
    """
    out[:] = 0
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
                    out[c] -= _inside(whole, theta, k, first[c], second[c], boxes[b], offsets, mass)
    for c in range(out.size):
        out[c] = max(out[c], 0.0) / max(rest, 1e-9)


@compiled
def _inside(whole, theta, k, first, second, box, offsets, mass):  # type: ignore[no-untyped-def]  # numba finds the types
    """Return the part of a box of class k that is in a cell."""
    for row in (first, second):
        if row >= 0:
            if not box[row]:
                return 0.0
            whole *= theta[row, k] / mass[np.searchsorted(offsets, row, side="right") - 1]
    return whole
