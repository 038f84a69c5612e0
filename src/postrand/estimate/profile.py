"""Profile likelihood intervals: the values of a linear functional among the likely distributions of the simplex."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from postrand.estimate.axes import Array

MAX_STEPS = 100
ROOM = 1 << 22
"""Entries of the matrices that are factored at once (32 MB in float64)."""

SHRINK = 0.1
"""Each step aims at this part of the duality gap."""

ACCURACY = 1e-4
"""Ends are found to this part of their distance from the estimate, and rounded outward by it."""


def profile_ends(released: Array, matrix: Array, start: Array, functionals: Array, drops: Array) -> Array:
    """Return the largest ``c'π`` over ``{π in the simplex: ℓ(π) >= ℓ(π^) − drop}``; nan where it is not found.

    ``ℓ(π) = Σ_z n_z ln (Mᵀπ)_z`` is concave, so this is a convex problem; it is solved for many c at once by a
    primal-dual interior-point method that never leaves the set.

    Parameters
    ----------
    released
        The released counts n, shape (Z,).
    matrix
        M, shape (K, Z), rows true and columns released.
    start
        The maximum likelihood estimate π^, shape (K,).
    functionals
        Rows c, shape (P, K).
    drops
        How much of the log-likelihood may be lost, shape (P,), positive.

    Examples
    --------
    >>> drop = np.array([1.92])
    >>> profile_ends(np.array([0.0, 50.0]), np.eye(2), np.array([0.0, 1.0]), np.array([[1.0, 0.0]]), drop).round(4)
    array([0.0377])

    By hand: 50 ln(1 − p) = −1.92 at p = 0.0377.
    """
    pieces = max(1, -(-len(functionals) * start.size**2 // ROOM))
    parts = zip(np.array_split(functionals, pieces), np.array_split(drops, pieces), strict=True)
    with np.errstate(all="ignore"):  # what is not finite is not found
        return np.concatenate([_ends(released, matrix, start, c, drop) for c, drop in parts])


def _ends(released: Array, matrix: Array, best: Array, c: Array, drops: Array) -> Array:
    seen = released > 0
    matrix, counts = matrix[:, seen], released[seen]

    def likelihood(p: Array) -> Array:
        return np.asarray(np.log(p @ matrix) @ counts)

    estimate, scale = c @ best, np.maximum(np.abs(c).max(axis=1), 1e-300)
    floor = likelihood(best) - drops
    p = _inside(best, likelihood, floor, drops)
    slack = likelihood(p) - floor
    price = scale / np.sqrt(counts.sum())  # of one nat, in units of c
    dual = (price * slack)[:, None] / p
    size = p.shape[1]
    ends, left = np.full(len(c), np.nan), np.arange(len(c))
    for _ in range(MAX_STEPS):
        expected = p @ matrix
        slope = (counts / expected) @ matrix.T
        short = np.log(expected) @ counts - floor - slack
        gap = (p * dual).sum(axis=1) + price * slack
        rest = c + price[:, None] * slope + dual  # constant over the cells at the end
        apart = np.ptp(rest, axis=1) + price * np.abs(short)
        distance = np.abs((c * p).sum(axis=1) - estimate)
        done = gap + apart <= ACCURACY * distance + 1e-9 * scale
        if done.any():
            ends[left[done]] = ((c * p).sum(axis=1) + gap + apart)[done]
            if done.all():
                return ends
            keep = ~done
            p, slack, price, dual, left = p[keep], slack[keep], price[keep], dual[keep], left[keep]
            c, floor, estimate, scale = c[keep], floor[keep], estimate[keep], scale[keep]
            expected, slope, short, gap = expected[keep], slope[keep], short[keep], gap[keep]
        barrier = SHRINK * gap / (size + 1)
        # In units of p the system stays well conditioned when cells or prices vanish.
        weighed = (p[:, :, None] * matrix) * np.sqrt(counts * price[:, None] / expected**2)[:, None, :]
        uphill = p * slope
        system = weighed @ weighed.transpose(0, 2, 1)
        system += (price / slack)[:, None, None] * uphill[:, :, None] * uphill[:, None, :]
        system[:, np.arange(size), np.arange(size)] += dual * p
        target = p * c + barrier[:, None] + ((barrier - price * short) / slack)[:, None] * uphill
        try:
            both = p[:, :, None] * np.linalg.solve(system, np.stack([target, p], axis=2))
        except np.linalg.LinAlgError:
            break
        level = (both[:, :, 0].sum(axis=1) + p.sum(axis=1) - 1) / both[:, :, 1].sum(axis=1)
        move = both[:, :, 0] - level[:, None] * both[:, :, 1]
        loosen = (slope * move).sum(axis=1) + short
        turn = (barrier[:, None] - dual * move) / p - dual
        change = (barrier - price * loosen) / slack - price
        length = np.minimum(_longest(p, move), _longest(slack[:, None], loosen[:, None]))
        p, slack = p + length[:, None] * move, slack + length * loosen
        length = np.minimum(_longest(dual, turn), _longest(price[:, None], change[:, None]))
        dual, price = dual + length[:, None] * turn, price + length * change
    return ends


def _inside(best: Array, likelihood: Callable[[Array], Array], floor: Array, drops: Array) -> Array:
    """Return points within the simplex that lose at most half of the permitted loss."""
    mixed = np.full(len(floor), 0.5)
    while True:
        p = (1 - mixed[:, None]) * best + mixed[:, None] / best.size
        lost = likelihood(p) - floor < drops / 2
        if not lost.any():
            return np.asarray(p)
        mixed = np.where(lost, mixed / 2, mixed)


def _longest(value: Array, move: Array) -> Array:
    """Return for each row the largest step up to 1 that keeps 1% of every positive value."""
    ratio = np.divide(value, -move, out=np.full_like(value, np.inf), where=move < 0)
    return np.asarray(np.minimum(1.0, 0.99 * ratio.min(axis=1)))
