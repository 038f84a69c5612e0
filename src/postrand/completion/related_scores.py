"""Find scores with which candidates have, on average, the sums of unperturbed columns that a copy has to have.

Regressions of single variables say more than the mixture may be tilted by: what a column says of one variable it says,
through the mixture, of others too. Candidates that are drawn with all their scores would overdo it, and no weights of
them would have the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.completion.raking import Candidates
from postrand.completion.related_weights import Aim, met, sums_of

Array = NDArray[np.float64]
Drawing = Callable[[slice, Array, int], Candidates]
PASSES, FEW = 12, 2
"""Passes over some records each, and candidates of a record that are drawn in one."""
RECORDS = 2_500
"""Records of a pass: every so many, other ones in each."""
DAMPING, FURTHEST = 0.25, 1.0
"""The share of Newton's step that is taken, since variables share what a column says; the most it adds to a score."""
WORSE = 1.5
"""Where so many times as much is missing as at best, the way goes on from there in steps of half the length."""


def settled(
    phi: NDArray[np.float32],
    offsets: NDArray[np.int64],
    aims: Sequence[Aim],
    wanted: Callable[[slice], Array],
    start: Array,
    draw: Drawing,
) -> Array:
    """Return scores (D, rows) with which the candidates of ``draw(records, scores, number)`` have the sums ``wanted``.

    Stochastic approximation (Robbins and Monro 1951) from the scores ``start``: what candidates of some records miss is
    turned into a step by the curvature of each aim. Returned are the scores with which least was missing.
    """
    every = -(-len(phi) // RECORDS)
    scores, best, ahead, least, damping = start, start, np.zeros_like(start), np.inf, DAMPING
    factors: list[tuple[Array, bool]] = []
    for turn in range(PASSES):
        at = slice(turn % every, None, every)
        part, shares = phi[at], _shares(draw(at, scores, FEW), offsets)
        factors = factors or [_factor(aim, part, shares) for aim in aims]
        missing = [aim.of(wanted(at) - sums_of(part, shares)) for aim in aims]
        steps = [scipy.linalg.cho_solve(factor, one) for factor, one in zip(factors, missing, strict=True)]
        left = float(sum(one @ step for one, step in zip(missing, steps, strict=True)))
        step = np.zeros_like(scores)
        for aim, own in zip(aims, steps, strict=True):
            alone = np.zeros_like(scores)
            aim.add(own, alone)
            step += alone * min(1.0, FURTHEST / (damping * float(np.abs(part @ alone).max()) + 1e-12))
        if left < least:
            least, best, ahead = left, scores, step
        if left > WORSE * least:
            damping /= 2
            scores = best + damping * ahead
        else:
            scores = scores + damping * step
    return best


def _factor(aim: Aim, phi: NDArray[np.float32], shares: NDArray[np.float32]) -> tuple[Array, bool]:
    curved = aim.curvature(phi, shares)
    factor: tuple[Array, bool] = scipy.linalg.cho_factor(curved + met(len(phi)) * np.eye(len(curved)))
    return factor


def _shares(drawn: Candidates, offsets: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the share of a record's candidates that have each code, (n, rows)."""
    n, many, variables = drawn.shape
    where = offsets[:-1][None, None, :variables] + drawn + int(offsets[-1]) * np.arange(n)[:, None, None]
    counts = np.bincount(where.ravel(), minlength=n * int(offsets[-1])).reshape(n, -1)
    return np.asarray(counts / many, np.float32)
