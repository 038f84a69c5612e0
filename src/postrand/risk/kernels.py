"""Compiled loops of the risk measures; imported only where they are called, since importing numba is slow."""

from __future__ import annotations

import numpy as np

from postrand.support.jit import compiled

RUN = 512
"""Released cells of which the largest weight is noted."""


@compiled
def scale_and_sum(mu, index, ratio, next_index, out):  # type: ignore[no-untyped-def]
    """Multiply each cell by the ratio of its margin cell, and sum the result into the next margin, in one pass."""
    out[:] = 0.0
    for i in range(mu.size):
        value = mu[i] * ratio[index[i]]
        mu[i] = value
        out[next_index[i]] += value


@compiled
def wildcard_matches(codes, counts):  # type: ignore[no-untyped-def]
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
def leverage(covariance, index, out):  # type: ignore[no-untyped-def]
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
def best_links(first, second, heads, tails, counts, scale):  # type: ignore[no-untyped-def]
    """Return, for each target, the released cell of largest weight, that weight, its ties, and the sum over records.

    The weight of target x and released cell z is ``first[heads[z], x] * second[tails[z], x] * scale[z]``, with all
    targets of ``first`` (P, X) and ``second`` (S, X) side by side: one cell is tried for all of them at once, in the
    processor's wide registers. ``tied`` counts the records of all cells within 1e-9 of the largest; ``at`` is the first
    of them. They are looked for where a run of cells reaches so much.
    """
    cells, targets = counts.size, first.shape[1]
    at = np.full(targets, -1, dtype=np.int64)
    best, tied, total = np.zeros(targets), np.zeros(targets), np.zeros(targets)
    runs = (cells + RUN - 1) // RUN
    largest = np.zeros((runs, targets))
    for run in range(runs):
        most = largest[run]
        for z in range(run * RUN, min((run + 1) * RUN, cells)):
            head, tail, factor, records = first[heads[z]], second[tails[z]], scale[z], counts[z] * 1.0
            for x in range(targets):
                weight = head[x] * tail[x] * factor
                total[x] += weight * records
                most[x] = weight if weight > most[x] else most[x]
        for x in range(targets):
            best[x] = most[x] if most[x] > best[x] else best[x]
    for run in range(runs):
        for x in range(targets):
            least = best[x] * (1 - 1e-9)
            if best[x] == 0.0 or largest[run, x] < least:
                continue
            for z in range(run * RUN, min((run + 1) * RUN, cells)):
                if first[heads[z], x] * second[tails[z], x] * scale[z] >= least:
                    tied[x] += counts[z]
                    at[x] = z if at[x] < 0 else at[x]
    return at, best, tied, total


@compiled
def mixture_density(rows, shares, laws, offsets, widths):  # type: ignore[no-untyped-def]
    """Return ``Σ_c share_c Π_b law_b[c, row_b]`` of each row."""
    cells, groups = rows.shape
    found = np.zeros(cells)
    for i in range(cells):
        for c in range(shares.size):
            value = shares[c]
            for b in range(groups):
                value *= laws[offsets[b] + c * widths[b] + rows[i, b]]
            found[i] += value
    return found


@compiled
def mixture_step(rows, weights, shares, laws, offsets, widths):  # type: ignore[no-untyped-def]
    """Return the expected records of each class, and of each class and category, laid out as ``laws`` are."""
    cells, groups = rows.shape
    members, sums, value = np.zeros(shares.size), np.zeros(laws.size), np.empty(shares.size)
    for i in range(cells):
        total = 0.0
        for c in range(shares.size):
            value[c] = shares[c]
            for b in range(groups):
                value[c] *= laws[offsets[b] + c * widths[b] + rows[i, b]]
            total += value[c]
        for c in range(shares.size):
            part = weights[i] * value[c] / total if total > 0.0 else 0.0
            members[c] += part
            for b in range(groups):
                sums[offsets[b] + c * widths[b] + rows[i, b]] += part
    return members, sums


@compiled
def match_draws(own, others, expected, single, scale, rng):  # type: ignore[no-untyped-def]
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
