"""Confidence sets by test inversion, for equations whose negative weights make a plain interval too short.

A parameter μ is in the set where the equation ``U(μ) = Σ_i z_i(μ)`` is not far from 0, its variance taken *at* μ. For a
ratio of two sums this is Fieller's set. What "far" is allows for skewed terms, and for few of them.
"""

from __future__ import annotations

import numpy as np
import scipy

from postrand.estimate.axes import Array


def limits(level: float, skew: Array, degrees: Array) -> tuple[Array, Array, Array]:
    """Return the least and the largest value of ``U / sqrt(V)`` that the level allows, and t's quantile.

    With t's quantile q on ``degrees`` degrees of freedom these are the roots of ``t + γ(2t² + 1)/6 + γ²t³/27 = ∓q``, γ
    the skewness of U.

    References
    ----------
    Hall (1992), On the removal of skewness by transformation, J. R. Statist. Soc. B 54, 221-228.

    Examples
    --------
    >>> low, high, _ = limits(0.95, np.array([0.0, 0.3]), np.array([np.inf, np.inf]))
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([-1.96, -2.65], [1.96, 1.63])
    """
    quantile = -scipy.special.stdtrit(degrees, (1 - level) / 2)
    flat = np.abs(skew) < 1e-8
    safe = np.where(flat, 1.0, skew)

    def root(q: Array) -> Array:
        return np.asarray(np.where(flat, q, 3 / safe * (np.cbrt(1 + safe * (q - safe / 6)) - 1)))

    return root(-quantile), root(quantile), quantile


def degrees_of_freedom(variance: Array, fourth: Array, records: int) -> Array:
    """Return Satterthwaite's ``2 V² / Var(V)`` of a sum of squares V, from the sum of fourth powers; at least 1.

    Of n normal terms it is n; a few large terms make it small.
    """
    noise = fourth - variance**2 / records
    safe = np.where(noise > 0, noise, 1.0)
    degrees = np.where(noise > 0, np.maximum(2 * variance**2 / safe, 1.0), np.inf)
    return np.asarray(np.where(variance > 0, degrees, 1.0))


def fieller(score: Array, variance: Array, t: Array, records: int) -> Array:
    """Return the μ with ``U(μ) = t sqrt(V(μ) + U(μ)²/n)``, or ``-sign(t) × inf`` where there is none.

    ``score`` (2, L) are the coefficients of ``U(μ) = A − D μ`` with D > 0, and ``variance`` (3, L) those of V, in
    powers of μ. There is none where D itself is within t standard errors of 0. (If the hypothesis is true U is 0 on
    average, so its square belongs to the variance; for symmetric terms this keeps the tails of the statistic below the
    normal's.)
    """
    above, below = score[0], -score[1]
    share = np.where(t * t < records, t * t / np.where(t * t < records, 1 - t * t / records, 1.0), np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        a = below**2 - share * variance[2]
        half = above * below + share * variance[1] / 2
        c = above**2 - share * variance[0]
        return root_of(a, half, half**2 - a * c, -np.sign(t))


def root_of(lead: Array, half: Array, discriminant: Array, side: Array) -> Array:
    """Return the lower (side −1) or upper (side 1) end of ``{x : lead x² − 2 half x + c <= 0}``, Fieller's set.

    ``discriminant = half² − lead c``, taken for 0 where rounding makes it negative. Without ``lead > 0`` the set is not
    an interval, or has no end: ``side × inf``. A side of 0 is the middle.

    Examples
    --------
    >>> one = np.ones(1)
    >>> root_of(one, 2 * one, 9 * one, -one).tolist(), root_of(-one, one, one, one).tolist()
    ([-1.0], [inf])
    """
    bounded = lead > 0
    end = (half + side * np.sqrt(np.maximum(discriminant, 0.0))) / np.where(bounded, lead, 1.0)
    return np.asarray(np.where(bounded, end, np.copysign(np.inf, side)))
