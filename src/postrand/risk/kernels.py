"""Compiled loops of the risk measures; imported only where they are called, since importing numba is slow."""

from __future__ import annotations

import numpy as np

from postrand.support.jit import compiled


@compiled
def scale_and_sum(mu, index, ratio, next_index, out):  # type: ignore[no-untyped-def]  # numba finds the types
    """Multiply each cell by the ratio of its margin cell, and sum the result into the next margin, in one pass."""
    out[:] = 0.0
    for i in range(mu.size):
        value = mu[i] * ratio[index[i]]
        mu[i] = value
        out[next_index[i]] += value


@compiled
def wildcard_matches(codes, counts):  # type: ignore[no-untyped-def]  # numba finds the types
    """Sum the counts of the cells that agree with each cell, a code of -1 agreeing with every code."""
    cells, keys = codes.shape
    matches = counts.copy()
    for a in range(cells):
        for b in range(a + 1, cells):
            agree = True
            for j in range(keys):
                x, y = codes[a, j], codes[b, j]
                if x != y and x >= 0 and y >= 0:
                    agree = False
                    break
            if agree:
                matches[a] += counts[b]
                matches[b] += counts[a]
    return matches


@compiled
def leverage(covariance, index, out):  # type: ignore[no-untyped-def]  # numba finds the types
    """Write ``z_j' A z_j`` of each cell, ``z_j`` having a one in each column that its row of ``index`` names."""
    cells, margins = index.shape
    for i in range(cells):
        total = 0.0
        for a in range(margins):
            first = index[i, a]
            total += covariance[first, first]
            for b in range(a):
                total += 2.0 * covariance[first, index[i, b]]
        out[i] = total


@compiled
def sum_products(index, mu, matrix):  # type: ignore[no-untyped-def]  # numba finds the types
    """Add each cell's ``mu`` to every pair of the columns that its row of ``index`` names, the earlier margin first."""
    cells, margins = index.shape
    for i in range(cells):
        value = mu[i]
        for a in range(margins):
            first = index[i, a]
            for b in range(a, margins):
                matrix[first, index[i, b]] += value


@compiled
def match_draws(own, others, expected, single, scale, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Draw the matches of a released file, ``Σ 1[keys stayed]/F``, or ``Σ 1[keys stayed, F = 1]`` where ``single``.

    Record i kept its keys with probability ``own[i]`` and then shares them with Poisson(``others[i]``) units; if so it
    adds ``expected[i]`` on average. The expectation of draw d is ``scale[d]`` times as large: by larger ``own`` up to
    1, and what is left by the sum.
    """
    found, whole = np.zeros(scale.size), (own * expected).sum()
    for d in range(scale.size):
        held = 0.0
        for i in range(own.size):
            chance = min(own[i] * scale[d], 1.0)
            held += chance * expected[i]
            if rng.random() < chance:
                more = rng.poisson(others[i])
                found[d] += (more == 0) if single else 1.0 / (1.0 + more)
        if held > 0.0:
            found[d] *= scale[d] * whole / held
    return found
