"""The pricing problem of the staircase programme: the set of categories with the largest reduced cost.

    maximise r(A) = g(p(A)) - c(A) over sets A, for a concave g and costs c (S,) of any sign.

For a given mass the cheapest *fractional* set is a prefix of the categories sorted by ``c/p`` and a part of the next
one, so the fractional maximum takes O(S); branching on the category taken in part makes it exact.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Sets = NDArray[np.bool_]

_BATCH = 64


@dataclass(frozen=True, slots=True)
class Gain:
    """The concave ``g(P) = (ε λ P - m ln m) / unit``, ``m = 1 + (λ-1) P``, ``λ = e^ε``."""

    epsilon: float
    unit: float

    @property
    def extra(self) -> float:
        """``λ - 1``."""
        return math.expm1(self.epsilon)

    def __call__(self, mass: Floats) -> Floats:
        """Return ``g`` at each mass."""
        m = 1 + self.extra * mass
        return (self.epsilon * math.exp(self.epsilon) * mass - m * np.log(m)) / self.unit

    def peak(self, slope: Floats) -> Floats:
        """Return the mass where ``g' = slope``: ``ln m = (ε λ - slope unit) / (λ-1) - 1``."""
        log_m = (self.epsilon * math.exp(self.epsilon) - slope * self.unit) / self.extra - 1
        return np.expm1(np.clip(log_m, -700, 700)) / self.extra


def price_all(gain: Gain, p: Floats, cost: Floats, count: int) -> tuple[Sets, Floats]:
    """Evaluate all 2^S sets; return the ``count`` best, best first, and their values."""
    mass, spent = np.zeros(1), np.zeros(1)
    for x in range(p.size):
        mass = np.concatenate([mass, mass + p[x]])
        spent = np.concatenate([spent, spent + cost[x]])
    value = gain(mass) - spent
    best = np.argpartition(-value, min(count, value.size - 1))[:count]
    best = best[np.argsort(-value[best])]
    return (best[:, None] >> np.arange(p.size) & 1).astype(bool), value[best]


def price_greedily(gain: Gain, p: Floats, cost: Floats, orders: NDArray[np.intp]) -> tuple[Sets, Floats]:
    """Return one good set for each order of the categories (B, S), distinct and best first, and their values."""
    mass, spent = np.cumsum(p[orders], axis=1), np.cumsum(cost[orders], axis=1)
    length = (gain(mass) - spent).argmax(axis=1)
    sets = np.unique(_polish(gain, p, cost, np.argsort(orders, axis=1) <= length[:, None]), axis=0)
    value = gain(sets @ p) - sets @ cost
    best = np.argsort(-value)
    return sets[best], value[best]


def _polish(gain: Gain, p: Floats, cost: Floats, sets: Sets) -> Sets:
    """Move single categories in or out of each set while that raises its value."""
    for _ in range(20):
        sign = np.where(sets, -1.0, 1.0)
        mass = sets @ p
        moved = gain(np.clip(mass[:, None] + sign * p, 0, 1)) - sign * cost
        best = moved.argmax(axis=1)
        rows = np.flatnonzero(moved[np.arange(len(sets)), best] > gain(mass) + 1e-15)
        if not rows.size:
            break
        sets[rows, best[rows]] ^= True
    return sets


def price_exactly(
    gain: Gain, p: Floats, cost: Floats, known: float, enough: float, max_nodes: int
) -> tuple[Sets, float]:
    """Return sets better than ``known`` found on the way, and a proven upper bound of every set's value.

    Branching stops once the bound is at most ``enough`` (or attained), or after ``max_nodes``.
    """
    free_gift = (p == 0) & (cost < 0)  # no mass: taken or not, once and for all
    order = np.argsort(np.where(p > 0, cost / np.where(p > 0, p, 1), np.inf))
    order = order[p[order] > 0]
    p, paid, gift = p[order], cost[order], float(cost[free_gift].sum())
    state = np.full((1, p.size), -1, dtype=np.int8)  # -1 free, 0 out, 1 in
    open_: list[tuple[float, int, NDArray[np.int8], int]] = []
    found, count, best = [], 0, known
    while True:
        bound, item, value, prefix = _fractional(gain, p, paid, state)
        for k in range(len(state)):
            count += 1
            if value[k] - gift > best:
                best = float(value[k]) - gift
                found.append(prefix[k])
            if bound[k] > value[k] + 1e-15:
                heapq.heappush(open_, (-float(bound[k]), count, state[k], int(item[k])))
        ceiling = max(-open_[0][0] - gift if open_ else -np.inf, best)
        if not open_ or ceiling <= enough or count >= max_nodes:
            break
        state = _branch(open_, p)
    sets = np.zeros((len(found), cost.size), dtype=bool)
    sets[:, free_gift] = True
    sets[:, order] = np.array(found, dtype=bool).reshape(len(found), order.size)
    return sets, ceiling


def _branch(open_: list[tuple[float, int, NDArray[np.int8], int]], p: Floats) -> NDArray[np.int8]:
    """Take the best open nodes and fix, in and out, the category that each takes in part.

    Of categories with equal mass the cheaper is always the better one to take: those before the branching one go in
    with it, those after it stay out with it.
    """
    children, place = [], np.arange(p.size)
    for _ in range(min(_BATCH, len(open_))):
        _, _, state, item = heapq.heappop(open_)
        alike = (p == p[item]) & (state < 0)
        for value, reach in ((0, place >= item), (1, place <= item)):
            child = state.copy()
            child[alike & reach] = value
            children.append(child)
    return np.array(children)


def _fractional(
    gain: Gain, p: Floats, cost: Floats, state: NDArray[np.int8]
) -> tuple[Floats, NDArray[np.intp], Floats, Sets]:
    """Return, for each node (n, S), the fractional maximum, the category taken in part, and the best prefix.

    Categories are sorted by ``cost/p``. Between two prefixes the cost is linear in the mass and ``g`` concave.
    """
    free = state < 0
    width, price = np.where(free, p, 0.0), np.where(free, cost, 0.0)
    start = ((state == 1) @ p)[:, None] + np.cumsum(width, axis=1) - width
    spent = ((state == 1) @ cost)[:, None] + np.cumsum(price, axis=1) - price
    ratio = cost / p
    at = np.clip(gain.peak(ratio), start, start + width)
    value = gain(at) - spent - ratio * (at - start)
    item = np.where(free, value, -np.inf).argmax(axis=1)
    rows = np.arange(len(state))
    whole = gain(start) - spent
    last = gain(start[:, -1] + width[:, -1]) - spent[:, -1] - price[:, -1]
    length = np.where(last >= whole.max(axis=1), p.size, whole.argmax(axis=1))
    prefix = (state == 1) | (free & (np.arange(p.size) < length[:, None]))
    attained = np.maximum(last, whole.max(axis=1))
    bound = np.maximum(np.where(free.any(axis=1), value[rows, item], -np.inf), attained)
    return bound, item, attained, prefix
