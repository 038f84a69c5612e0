"""What no bistochastic law of a given β can exceed: information kept, and variance of the unbiased estimator."""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.objectives.information import entropy

_SAFETY = 1e-12
"""Relative; above the error of root finding and of float sums."""


def information_upper(prior: NDArray[np.float64], beta: float) -> float:
    """Return a bound on ``I(X;Z)`` in nats over bistochastic laws with ``H(P) >= β ln S``.

    ``I = H(Z) - Σ_u p_u H(row u)`` is at most ``H(p)``; and at most ``ln S (1 - κ)``, where κ is the least
    ``Σ p_u h_u`` over ``0 <= h <= 1``, ``Σ h_u >= β S``: entropy put on the rarest categories. For a uniform prior the
    second is attained by every law with ``H(P) = β ln S``.

    >>> round(information_upper(np.full(4, 0.25), 0.5) / math.log(4), 6)
    0.5
    """
    rarest, rows = np.sort(prior), beta * prior.size
    whole = min(int(rows), prior.size - 1)
    kappa = float(rarest[:whole].sum() + (rows - whole) * rarest[whole])
    return min(math.log(prior.size) * (1 - kappa), entropy(prior)) * (1 + _SAFETY) + 1e-15


def variance_lower(prior: NDArray[np.float64], beta: float) -> float:
    """Return a bound on ``tr[(Mᵀ)^-1 (diag λ - λλᵀ) M^-1]``, n times the total variance of the unbiased estimator.

    Column v of ``(Mᵀ)^-1`` sums to 1 and has product 1 with column ``m_v`` of M, so its square length is at least
    ``1/S + (1-1/S)² / (|m_v|² - 1/S)``. The λ_v are majorised by p, and ``Σ_v |m_v|² <= S F``, F being the largest mean
    of squares that β leaves (:func:`squares_upper`). By Cauchy and Schwarz the variance is at least
    ``1/S - Σp² + (1-1/S)² (Σ√p)² / (S F - 1)``, and no less than without perturbation.

    >>> round(variance_lower(np.full(4, 0.25), 0.0), 6)
    0.75
    """
    size = prior.size
    squares = float(prior @ prior)
    room = size * squares_upper(size, beta) - 1
    plain = 1 - squares
    if room <= 0:
        return math.inf
    spread = float(np.sqrt(prior).sum()) ** 2
    return max(plain, 1 / size - squares + (1 - 1 / size) ** 2 * spread / room * (1 - _SAFETY)) - 1e-15


def squares_upper(size: int, beta: float) -> float:
    """Return a bound on ``(1/S) Σ P[u,v]²`` where ``H(P) >= β ln S``.

    Of all distributions with one entropy, ``(a, b, ..., b)``, a > b, has the largest sum of squares. Along that curve
    the slope of squares against entropy is ``-2 L(a, b)`` with the logarithmic mean L, which is concave in a: the curve
    is concave from 0 nats up to one point and convex beyond, so its concave hull ends in a tangent to ``(ln S, 1/S)``.

    >>> squares_upper(3, 0.0) >= 1, round(squares_upper(3, 1.0), 6)
    (True, 0.333333)
    """
    top, least = math.log(size), 1 / size

    def curve(a: float) -> tuple[float, float, float]:
        b = (1 - a) / (size - 1)
        entropy = -a * math.log(a) - (1 - a) * math.log(b)
        return entropy, a * a + (1 - a) * b, (a - b) / (math.log(a) - math.log(b))

    def above_tangent(a: float) -> float:
        entropy, squares, mean = curve(a)
        return squares - least + 2 * mean * (entropy - top)

    low, high = least + 1e-3 * (1 - least), 1 - 1e-12
    needed = beta * top
    touch = scipy.optimize.brentq(above_tangent, low, high, xtol=1e-14) if size > 2 and above_tangent(low) < 0 else low
    at, squares, _ = curve(touch)
    if needed >= at and size > 2:
        value = squares + (needed - at) / (top - at) * (least - squares)
    elif needed <= curve(high)[0]:
        value = 1.0
    elif needed >= curve(least * (1 + 1e-9))[0]:
        value = curve(least * (1 + 1e-4))[1]
    else:
        value = curve(scipy.optimize.brentq(lambda a: curve(a)[0] - needed, least * (1 + 1e-9), high, xtol=1e-15))[1]
    return value * (1 + _SAFETY)
