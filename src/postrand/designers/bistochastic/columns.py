"""A bound on the information of bistochastic laws, column by column: a linear programme whose columns are priced.

With ``m`` a column of P (a distribution over true categories) and ``q = p·m``, ``I(X;Z) = H(p) - Σ g(m)`` over the
columns, ``g(m) = q ln q - Σ_u p_u m_u ln (p_u m_u)`` being q times the entropy of the truth given the release. Relaxed:
columns of total weight S, in place of S columns, with ``Σ w m = 1`` and ``Σ w H(m) >= β S ln S``. Any prices ``a`` of
categories and ``μ >= 0`` of entropy give ``Σ w g(m) >= Σ a + μ β S ln S + S min(0, min_m F)``, where
``F(m) = g(m) - a·m - μ H(m)``. This is weak duality: the bound holds however well the programme was solved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.objectives.information import entropy

Array = NDArray[np.float64]

MAX_PRICED = 12
"""Beyond this size pricing takes longer than the search whose result it judges."""
_ROUNDS = 60
_BOXES = 2000
_TOLERANCE = 1e-4
"""Of H(p): how far the bound may stay above that of the best prices."""
_FLOOR = 1e-14
_ROUNDING = 1e-11


def information_upper_by_columns(prior: Array, beta: float) -> float:
    """Return a bound on ``I(X;Z)`` in nats over bistochastic laws with ``H(P) >= β ln S``; at most H(p).

    >>> p = np.array([0.8, 0.1, 0.1])
    >>> from postrand.designers.bistochastic.bounds import information_upper
    >>> information_upper_by_columns(p, 0.8) < 0.6 * information_upper(p, 0.8)
    True
    """
    size, needed = prior.size, beta * prior.size * math.log(prior.size)
    most = entropy(prior)
    if most <= _ROUNDING:
        return most
    slack = _TOLERANCE * most / size
    columns, best = _first_columns(size), most
    for _ in range(_ROUNDS):
        price, gained, used = _prices(columns, prior, needed)
        better = price.descend(used)
        better = better[price.value(better) < -slack]
        if not better.size:
            least, better = price.least(slack)
            best = min(best, most - gained - size * min(0.0, least - _ROUNDING))
            better = np.vstack([better, price.descend(better)])
            better = better[price.value(better) < -slack / 10]
            if least >= -2 * slack or not better.size:
                break
        columns = np.vstack([columns, better])
    return best * (1 + 1e-12)


def _first_columns(size: int) -> Array:
    """Return all mixtures of one category with the uniform distribution, at some shares."""
    return np.vstack([(1 - d) * np.eye(size) + d / size for d in (0.0, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0)])


def _prices(columns: Array, prior: Array, needed: float) -> tuple[_Price, float, Array]:
    """Return the best prices for these columns, ``Σ a + μ needed``, and the columns to descend from."""
    q, entropies = columns @ prior, -scipy.special.xlogy(columns, columns).sum(axis=1)
    left = scipy.special.xlogy(q, q) - scipy.special.xlogy(columns * prior, columns * prior).sum(axis=1)
    found = scipy.optimize.linprog(
        left, A_ub=-entropies[None], b_ub=[-needed], A_eq=columns.T, b_eq=np.ones(prior.size)
    )
    a, mu = found.eqlin.marginals, max(-float(found.ineqlin.marginals[0]), 0.0)
    starts = np.vstack([columns[found.x > 1e-9], 0.9 * np.eye(prior.size) + 0.1 / prior.size])
    return _Price(prior, mu - prior, scipy.special.xlogy(prior, prior) + a), float(a.sum()) + mu * needed, starts


@dataclass(frozen=True, slots=True, eq=False)
class _Price:
    """The function ``F(m) = Σ_u curve_u m_u ln m_u - cost·m + q ln q`` on the simplex, ``q = prior·m``; all (S,).

    Where ``curve = μ - p`` is not positive F is concave in m_u; else it is convex, and so is ``q ln q``.
    """

    prior: Array
    curve: Array
    cost: Array

    def value(self, m: Array) -> Array:
        """Return F of each row of m (K, S)."""
        q = m @ self.prior
        found: Array = scipy.special.xlogy(m, m) @ self.curve - m @ self.cost + scipy.special.xlogy(q, q)
        return found

    def descend(self, starts: Array) -> Array:
        """Return points no worse than the starts: multiplicative steps against the slope of F."""
        m = np.maximum(starts, 1e-9)
        m = m / m.sum(axis=1, keepdims=True)
        step = 0.5 / (np.abs(self.curve).max() + 1e-9)
        for _ in range(200):
            logs, q = np.log(np.maximum(m, _FLOOR)), (m @ self.prior)[:, None]
            power = logs - step * (self.curve * (logs + 1) - self.cost + self.prior * (np.log(q) + 1))
            m = np.exp(power - power.max(axis=1, keepdims=True))
            m /= m.sum(axis=1, keepdims=True)
        return np.where((self.value(m) < self.value(starts))[:, None], m, starts)

    def least(self, slack: float) -> tuple[float, Array]:
        """Return a bound from below on F over the simplex, and points where it is small: branch and bound.

        Boxes ``low <= m <= high`` are cut in the concave coordinate whose relaxation misses most; those whose bound is
        within ``slack`` of 0, or of the least value seen, are closed.
        """
        size = self.prior.size
        low, high = np.zeros((1, size)), np.ones((1, size))
        closed, seen, points, count = math.inf, 0.0, [np.full((1, size), 1 / size)], 1
        while low.size:
            bounds, x = self.relax(low, high)
            points.append(x / x.sum(axis=1, keepdims=True))
            seen = min(seen, float(self.value(points[-1]).min()))
            missed = self._missed(low, high, x)
            # The relaxation may have other solutions than x, which may be a corner of the box, where nothing is missed.
            corner = missed.max(axis=1, keepdims=True) < slack / size
            x = np.where(corner, (low + high) / 2, x)
            missed = np.where(corner, self._missed(low, high, x), missed)
            rows, at = np.arange(len(x)), missed.argmax(axis=1)
            open_ = (bounds < seen - slack) & (missed[rows, at] > 0) & (count < _BOXES)
            closed = min(closed, float(bounds[~open_].min(initial=math.inf)))
            rows, at = rows[open_], at[open_]
            margin = 0.1 * (high - low)[rows, at]
            cut = np.clip(x[rows, at], low[rows, at] + margin, high[rows, at] - margin)
            below, above = high[open_], low[open_]
            below[np.arange(len(at)), at] = above[np.arange(len(at)), at] = cut
            low, high = np.vstack([low[open_], above]), np.vstack([below, high[open_]])
            held = (low.sum(axis=1) <= 1) & (high.sum(axis=1) >= 1)
            low, high, count = low[held], high[held], count + int(held.sum())
        return closed, np.vstack(points)

    def _missed(self, low: Array, high: Array, x: Array) -> Array:
        """Return how far chords lie below the concave terms of F at x (K, S)."""
        return np.where(self.curve <= 0, self.curve * (scipy.special.xlogy(x, x) - _chord(low, high, x)), 0.0)

    def relax(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Return bounds from below on F within boxes (K, S) of the simplex, and points (K, S) of the relaxation.

        For any multipliers, ``F >= λ - e^(t-1) + Σ_u min_x [curve_u x ln x - (cost_u - t p_u + λ) x]``, since
        ``Σ m = 1`` and ``q ln q >= t q - e^(t-1)``. Both are found by halving: λ until the minimisers sum to 1, t until
        ``e^(t-1)`` is their q.
        """
        wide = np.abs(self.cost).max() + 30 + 60 * np.abs(self.curve).max()
        cold, hot = (np.full(len(low), 1 + math.log(max(end, _FLOOR))) for end in (self.prior.min(), self.prior.max()))
        best, point = np.full(len(low), -math.inf), low
        for _ in range(25):
            t = (cold + hot) / 2
            few, many = np.full(len(low), -wide), np.full(len(low), wide)
            for _ in range(44):
                lam = (few + many) / 2
                over = self._minimisers(low, high, lam, t)[0].sum(axis=1) > 1
                few, many = np.where(over, few, lam), np.where(over, lam, many)
            (x, one), (y, other) = self._minimisers(low, high, few, t), self._minimisers(low, high, many, t)
            gap = (y - x).sum(axis=1)
            share = np.clip(np.where(gap > 0, (1 - x.sum(axis=1)) / np.where(gap > 0, gap, 1), 0), 0, 1)
            mixed, value = x + (y - x) * share[:, None], np.maximum(one, other)
            point, best = np.where((value > best)[:, None], mixed, point), np.maximum(value, best)
            down = mixed @ self.prior < np.exp(t - 1)
            cold, hot = np.where(down, cold, t), np.where(down, t, hot)
        return best, point

    def _minimisers(self, low: Array, high: Array, lam: Array, t: Array) -> tuple[Array, Array]:
        slope = self.cost - t[:, None] * self.prior + lam[:, None]
        bent = np.where(self.curve > 0, self.curve, 1.0)
        inner = np.clip(np.exp(np.minimum(slope / bent - 1, 1.0)), low, high)
        ends = np.where(
            self.curve * (scipy.special.xlogy(high, high) - scipy.special.xlogy(low, low)) < slope * (high - low),
            high,
            low,
        )
        x = np.where(self.curve > 0, inner, ends)
        return x, (self.curve * scipy.special.xlogy(x, x) - slope * x).sum(axis=1) + lam - np.exp(t - 1)


def _chord(low: Array, high: Array, x: Array) -> Array:
    """Return the chord of ``x ln x`` between the ends of boxes."""
    wide = np.where(high > low, high - low, 1.0)
    share = np.where(high > low, (x - low) / wide, 0.0)
    found: Array = (
        scipy.special.xlogy(low, low) + (scipy.special.xlogy(high, high) - scipy.special.xlogy(low, low)) * share
    )
    return found
