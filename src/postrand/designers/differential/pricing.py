"""The pricing problem of the staircase programme: the set of categories with the largest reduced cost.

    maximise r(A) = g(p(A)) - c(A) over sets A, for a concave g and costs c (S,) of any sign.

For a given mass the cheapest *fractional* set is a prefix of the categories sorted by ``c/p`` and a part of the next
one: a bound in O(log S), tight where many light categories can fill up any mass. Where a set holds few categories of
much the same mass it is not; there ``g(P) <= g(P') + g'(P') (P - P')`` with the number of categories held fixed is. A
depth-first search that cuts by both, one number of categories at a time, finds the maximum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Sets = NDArray[np.bool_]

_COUNTED = 12  # sets of more categories than this are searched together
_TRIALS = 12  # random pairs of moves tried on each set
_MASSLESS = 1e-30


@dataclass(frozen=True, slots=True)
class Gain:
    """The concave ``g(P) = (ε λ P - m ln m) / unit``, ``m = 1 + (λ-1) P``, ``λ = e^ε``.

    With a divisible mass q at a rate ρ, it is ``max g(P + t) - ρ t`` over ``0 <= t <= q`` instead: concave as well.
    """

    epsilon: float
    unit: float
    divisible: float = 0.0
    rate: float = 0.0

    @property
    def extra(self) -> float:
        """``λ - 1``."""
        return math.expm1(self.epsilon)

    @property
    def flat(self) -> float:
        """The mass where ``g / m`` is largest: with it alone the closed bound would be attained."""
        return (self.epsilon / -math.expm1(-self.epsilon) - 1) / self.extra

    def __call__(self, mass: Floats) -> Floats:
        """Return the gain at each mass, the best part of the divisible mass added."""
        at = mass + self.filled(mass)
        return self.plain(at) - self.rate * (at - mass)

    def plain(self, mass: Floats) -> Floats:
        """Return ``g`` at each mass."""
        m = 1 + self.extra * mass
        return (self.epsilon * math.exp(self.epsilon) * mass - m * np.log(m)) / self.unit

    def filled(self, mass: Floats) -> Floats:
        """Return the best part ``t`` of the divisible mass."""
        if not self.divisible:
            return np.zeros_like(mass)
        return np.clip(self._inverse_slope(np.array(self.rate)) - mass, 0, self.divisible)

    def slope(self, mass: Floats) -> Floats:
        """Return the derivative at each mass."""
        at = mass + self.filled(mass)
        slope = (self.epsilon * math.exp(self.epsilon) - self.extra * (np.log1p(self.extra * at) + 1)) / self.unit
        inner = (at > mass) & (at < mass + self.divisible)
        return np.where(inner, self.rate, slope)

    def peak(self, slope: Floats) -> Floats:
        """Return the mass where the derivative is ``slope``."""
        return self._inverse_slope(slope) - np.where(slope > self.rate, self.divisible, 0.0)

    def numbers(self) -> Floats:
        """Return what the compiled loops need of it."""
        peak = float(self._inverse_slope(np.array(self.rate)))
        first = self.epsilon * math.exp(self.epsilon) / self.unit
        return np.array([first, self.extra, self.unit, self.rate, peak, self.divisible])

    def _inverse_slope(self, slope: Floats) -> Floats:
        log_m = (self.epsilon * math.exp(self.epsilon) - slope * self.unit) / self.extra - 1
        return np.expm1(np.clip(log_m, -700, 700)) / self.extra


def price_all(gain: Gain, p: Floats, cost: Floats, count: int) -> tuple[Sets, Floats]:
    """Evaluate all 2^S sets; return the ``count`` best, best first, and their values."""
    value = gain(sums_of_sets(p)) - sums_of_sets(cost)
    best = np.argpartition(-value, min(count, value.size - 1))[:count]
    best = best[np.argsort(-value[best])]
    return members(best, p.size), value[best]


def sums_of_sets(values: Floats) -> Floats:
    """Return the sum over each of the 2^S sets, set number k holding the categories whose bits k has.

    >>> sums_of_sets(np.array([1.0, 2.0, 4.0])).tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    """
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums, sums + value])
    return sums


def members(numbers: NDArray[np.int64], size: int) -> Sets:
    """Return which categories the sets of these numbers hold, shape (K, S)."""
    held: Sets = (numbers[:, None] >> np.arange(size) & 1).astype(bool)
    return held


def price_greedily(
    gain: Gain, p: Floats, cost: Floats, count: int, generator: np.random.Generator
) -> tuple[Sets, Floats]:
    """Return good sets, at most ``count``, distinct and best first, and their values.

    Each is a prefix of the categories sorted by ``c/p`` with some noise, improved by moves of one and two categories.
    """
    ratio = cost / np.maximum(p, _MASSLESS)
    spread = np.abs(np.median(ratio)) * generator.choice([0.001, 0.01, 0.1, 1.0], (count, 1))
    orders = np.argsort(ratio + spread * generator.normal(size=(count, p.size)), axis=1)
    mass, spent = np.cumsum(p[orders], axis=1), np.cumsum(cost[orders], axis=1)
    length = (gain(mass) - spent).argmax(axis=1)
    return polish(gain, p, cost, np.argsort(orders, axis=1) <= length[:, None], generator)


def polish(gain: Gain, p: Floats, cost: Floats, sets: Sets, generator: np.random.Generator) -> tuple[Sets, Floats]:
    """Move categories in or out of each set, one or two at a time, while that raises its value.

    Returns the distinct sets, best first, and their values.
    """
    rows = np.arange(len(sets))
    for _ in range(20):
        value, gained, best = _best_move(gain, p, cost, sets)
        better = gained > value + 1e-15
        if not better.any():
            break
        sets[rows[better], best[better]] ^= True
    for first in generator.integers(p.size, size=(_TRIALS, len(sets))):
        value = gain(sets @ p) - sets @ cost
        sets[rows, first] ^= True
        _, gained, best = _best_move(gain, p, cost, sets)
        better = gained > value + 1e-15
        sets[rows[better], best[better]] ^= True
        sets[rows[~better], first[~better]] ^= True
    sets = np.unique(sets, axis=0)
    value = gain(sets @ p) - sets @ cost
    order = np.argsort(-value)
    return sets[order], value[order]


def _best_move(gain: Gain, p: Floats, cost: Floats, sets: Sets) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Return the value of each set, and the best one after moving a single category, and which."""
    sign = np.where(sets, -1.0, 1.0)
    mass, spent = sets @ p, sets @ cost
    moved = gain(np.clip(mass[:, None] + sign * p, 0, 1)) - sign * cost
    best = moved.argmax(axis=1)
    return gain(mass) - spent, moved[np.arange(len(sets)), best] - spent, best


def price_exactly(
    gain: Gain, p: Floats, cost: Floats, fixed: float, enough: float, known: float, budget: int
) -> tuple[Sets, float]:
    """Return sets whose value exceeds ``fixed``, and a proven upper bound of every set's excess over it.

    The bound is at most ``max(enough, 1.1 best)``, best being the largest excess found or the ``known`` one, unless the
    search meets its ``budget`` of nodes: then it grows until the search ends.
    """
    from postrand.designers.differential.pricing_kernel import search, tabulate

    free_gift = (p < _MASSLESS) & (cost < 0)  # no mass: taken or not, once and for all
    fixed += float(cost[free_gift].sum())
    order = np.flatnonzero(p >= _MASSLESS)
    order = order[np.argsort(cost[order] / p[order])]
    p, paid = p[order], cost[order]
    fill = _fractional_fill(gain, p, paid)
    masses = _tangent_masses(gain, fill)
    slopes = gain.slope(masses)
    offsets = gain(masses) - slopes * masses
    most = min(_COUNTED + 1, p.size)
    exact, least = (np.full((slopes.size, p.size + 1, most + 1), -np.inf) for _ in range(2))
    tabulate(p, paid, slopes, most, exact, least)
    sums = [np.concatenate([[0.0], np.cumsum(values)]) for values in (p, paid)]
    best, sets = np.full(p.size, -np.inf), np.zeros((p.size, p.size), dtype=bool)
    # One search for each number of categories, and one for all larger numbers.
    tables = [exact] * (most - 1) + [least]
    roots = [float((offsets + table[:, 0, k]).min()) - fixed for k, table in enumerate(tables, 1)]
    top = max(known, float(gain(np.zeros(1))[0]) - fixed, 0.0)
    peaks = gain.peak(paid / p)
    twin = _previous_alike(p)
    done = False
    while not done:
        done = True
        for k in np.argsort(-np.array(roots)):
            if roots[k] > max(enough, 1.1 * top):
                levels, more = np.array([fixed, enough, top]), tables[k] is least
                counted = (k + 1, more, tables[k], slopes, offsets)
                nodes, top = search(p, paid, peaks, twin, *sums, *counted, gain.numbers(), levels, budget, best, sets)
                done &= nodes > 0
        if not done:
            enough, budget = 4 * max(enough, 1.1 * top, 1e-12), budget // 2
    found = np.zeros(((best > -np.inf).sum(), cost.size), dtype=bool)
    found[:, free_gift] = True
    found[:, order] = sets[best > -np.inf]
    return np.unique(found, axis=0), max(enough, 1.1 * top) + 1e-13


def _previous_alike(p: Floats) -> NDArray[np.int64]:
    """Return for each category the last one before it with the same mass, or -1."""
    order = np.argsort(p, kind="stable")
    same = np.diff(p[order]) == 0
    twin = np.full(p.size, -1)
    twin[order[1:][same]] = order[:-1][same]
    return twin


def _fractional_fill(gain: Gain, p: Floats, cost: Floats) -> float:
    """Return the mass of the best fractional set of the categories, sorted by ``cost/p``."""
    start, spent, ratio = np.cumsum(p) - p, np.cumsum(cost) - cost, cost / p
    at = np.clip(gain.peak(ratio), start, start + p)
    return float(at[(gain(at) - spent - ratio * (at - start)).argmax()])


def _tangent_masses(gain: Gain, fill: float) -> Floats:
    """Return where tangents are drawn: everywhere, closely where good sets are, and more so at the best fill."""
    wide = np.geomspace(gain.flat / 30, 1, 96)
    close = gain.flat * np.exp(np.linspace(-0.8, 0.8, 161))
    steps = 0.5 ** np.arange(2, 16)
    masses = np.concatenate([[1e-9], wide, close, fill * (1 + steps), fill * (1 - steps), [fill]])
    return np.unique(np.clip(masses, 1e-9, 1))
