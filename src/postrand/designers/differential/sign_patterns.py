"""The global optimum of information over the uniform off-diagonal family, by branch and bound.

In units of the uniform law, an entry is ``M = (1+t)/S``; row k has ``t = τ_k`` off and ``-(S-1) τ_k`` on the diagonal.
With ``θ = Σ p_k τ_k`` and ``e(t) = (1+t) ln(1+t) - t``, the information splits over categories once θ is known:

    I = Σ_k { p_k E(τ_k) - e(θ - S p_k τ_k) / S },   E(τ) = e(-(S-1) τ) / S + (S-1) e(τ) / S.

I is convex in τ, so an optimum lies among the few value combinations of ``corner_values``: every category low or
high, at most one the least and at most one the most. For θ in an interval, each term is at most its tangent (it is
concave in θ), and for any multiplier μ

    I <= max_θ { Σ_k max_v [ term_k(v; θ) - μ p_k τ_v ] + μ θ },

which is convex in θ, so the ends of the interval decide: a bound. Branching halves the interval, or fixes a category.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from postrand.designers.feasible import corner_values
from postrand.objectives.information import entropy_excess

LEAST, MOST, LOW, HIGH = range(4)
Floats = NDArray[np.float64]

_BATCH = 16
_STEPS = 24
_TOLERANCE = 1e-12  # relative; a bound this close to the best value found settles a node
_NOISE = 1e-14  # of the largest term: the rounding of the sums, which matters where their terms cancel


@dataclass(frozen=True, slots=True)
class Node:
    """Part of the search space: one combination of values, who may take which, and an interval of θ."""

    values: Floats  # (4,), the τ of least, most, low, high
    allowed: NDArray[np.bool_]  # (S, 4)
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Pattern:
    """The best off-diagonal entries found, what they keep, and the proven upper bound (nats)."""

    off: Floats
    value: float
    bound: float
    nodes: int


def best_pattern(p: Floats, epsilon: float, max_nodes: int = 20_000) -> Pattern:
    """Return the off-diagonal entries ``o_k`` (S,) of largest information, S >= 3, with a proven upper bound.

    The bound exceeds the value by at most 1e-12 relative, unless ``max_nodes`` ran out. The last answers are kept:
    blocks of one size without figures of the file, and warnings that name an alternative, ask the same again.
    """
    return _best_pattern(np.asarray(p, dtype=np.float64).tobytes(), epsilon, max_nodes)


@functools.lru_cache(maxsize=64)
def _best_pattern(prior: bytes, epsilon: float, max_nodes: int) -> Pattern:
    p = np.frombuffer(prior)
    taus = size_taus(p.size, epsilon)
    noise = _NOISE * max(float(_row_information(values, p.size).max()) for values in taus)
    best, best_tau = -1.0, np.zeros(p.size)
    queue: list[tuple[float, int, Node, Floats]] = []
    fresh, count = [root for values in taus for root in _roots(p, values)], 0
    while fresh:
        for node, (bound, tau, doubt) in zip(fresh, _bounds(p, fresh), strict=True):
            count += 1
            value = information(p, tau)
            if value > best:
                best, best_tau = value, tau
            heapq.heappush(queue, (-bound, count, node, doubt))
        fresh = []
        while queue and len(fresh) < _BATCH and -queue[0][0] > best * (1 + _TOLERANCE) + noise and count < max_nodes:
            _, _, node, doubt = heapq.heappop(queue)
            fresh += _children(p, node, doubt)
    bound = max(-queue[0][0] if queue else best, best)
    off = (1 + best_tau) / p.size
    off.flags.writeable = False  # others get the same array
    return Pattern(off, best, max(bound, best * (1 + _TOLERANCE)) + noise, count)


def size_taus(size: int, epsilon: float) -> list[Floats]:
    """Return the value combinations in units of the uniform law; constant ones are part of others."""
    return [size * row - 1 for row in corner_values(size, epsilon) if row[LEAST] < row[MOST]]


def information(p: Floats, tau: Floats) -> float:
    """Return ``I`` in nats for the rows ``τ`` (S,), in O(S)."""
    size = p.size
    return float(p @ _row_information(tau, size) - entropy_excess(p @ tau - size * p * tau).mean())


def _row_information(tau: Floats, size: int) -> Floats:
    """Return ``E(τ)``, the divergence of a row from the uniform law."""
    return (entropy_excess((1 - size) * tau) + (size - 1) * entropy_excess(tau)) / size


def _roots(p: Floats, values: Floats) -> Iterator[Node]:
    """Yield the whole space of one combination of values, in a few intervals of θ."""
    special = np.array([values[LEAST] < values[LOW], values[MOST] > values[HIGH], True, values[HIGH] > values[LOW]])
    allowed = np.broadcast_to(special, (p.size, 4))
    low, high = _range(p, values, allowed)
    ends = np.linspace(low, high, 4)
    for a, b in pairwise(ends):
        yield Node(values, allowed, float(a), float(b))


def _range(p: Floats, values: Floats, allowed: NDArray[np.bool_]) -> tuple[float, float]:
    """Return an interval that surely holds every ``θ = Σ p τ`` the node allows."""
    reach = []
    for sign in (1.0, -1.0):
        costs = np.where(allowed, sign * p[:, None] * values, np.inf)
        base = costs[:, LOW:].min(axis=1)
        forced = np.isinf(base)
        base = np.where(forced, costs.min(axis=1), base)
        gains = np.where(forced[:, None], 0.0, costs[:, :LOW] - base[:, None]).min(axis=0)
        reach.append(sign * (base.sum() + np.minimum(gains, 0).sum()))
    slack = 1e-14 * (abs(reach[0]) + abs(reach[1]))
    return reach[0] - slack, reach[1] + slack


def _children(p: Floats, node: Node, doubt: Floats) -> Iterator[Node]:
    """Fix the least settled category among those that move θ by more than the interval is wide, or halve it."""
    choices = np.where(node.allowed, node.values, np.nan)
    reach = p * (np.nanmax(choices, axis=1) - np.nanmin(choices, axis=1))
    able = (node.allowed.sum(axis=1) > 1) & (reach >= node.high - node.low)
    if not able.any():
        middle = (node.low + node.high) / 2
        yield Node(node.values, node.allowed, node.low, middle)
        yield Node(node.values, node.allowed, middle, node.high)
        return
    pivot = int(np.where(able, np.minimum(doubt, np.finfo(float).max), np.inf).argmin())
    for value in np.flatnonzero(node.allowed[pivot]):
        allowed = node.allowed.copy()
        if value < LOW:
            allowed[:, value] = False
        allowed[pivot] = np.arange(4) == value
        low, high = _range(p, node.values, allowed)
        low, high = max(low, node.low), min(high, node.high)
        if low <= high:
            yield Node(node.values, allowed, low, high)


def _bounds(p: Floats, nodes: list[Node]) -> Iterator[tuple[float, Floats, Floats]]:
    """Yield each node's upper bound, a member ``τ`` of the family near it, and how settled each category is (S,)."""
    size, n = p.size, len(nodes)
    values = np.array([node.values for node in nodes] * 2)  # tangents at the left ends, then at the right ends
    allowed = np.array([node.allowed for node in nodes] * 2)
    ends = np.array([(node.low, node.high) for node in nodes] * 2)
    at = np.concatenate([ends[:n, 0], ends[n:, 1]])
    gain = _row_information(values, size)
    weight = p[:, None] * values[:, None, :]
    inside = at[:, None, None] - size * weight
    # Every m_z lies between the smallest and largest entry, so tangents need not be taken outside that range.
    entries = np.concatenate([values, (1 - size) * values], axis=1)
    least = np.maximum(entries.min(axis=1), -1 + 2.0**-50)  # at ε = 36 it rounds to -1, where no tangent is
    touch = np.clip(inside, least[:, None, None], entries.max(axis=1)[:, None, None])
    slope = -np.log1p(touch) / size
    term = p[:, None] * gain[:, None, :] - entropy_excess(touch) / size + slope * (inside - touch)
    term = np.where(allowed, term, -np.inf)
    tangents = np.stack([term + slope * (end - at)[:, None, None] for end in ends.T])
    reach = 2 * (_steepest(gain, values) + size * np.abs(slope).max(axis=(1, 2)))
    bound, choice, doubt = _least_bound(tangents, weight, ends.T, reach, allowed)
    for i in range(n):
        side = i if bound[i] <= bound[i + n] else i + n
        yield float(bound[side]), values[side][choice[side]], doubt[side]


def _steepest(gain: Floats, values: Floats) -> Floats:
    """Return the largest ``|ΔE / Δτ|`` between two values of a node: multipliers beyond it fix the choice."""
    run = values[:, :, None] - values[:, None, :]
    rise = gain[:, :, None] - gain[:, None, :]
    steepest: Floats = np.abs(np.divide(rise, run, out=np.zeros_like(run), where=run != 0)).max(axis=(1, 2))
    return steepest


def _least_bound(
    tangents: Floats, weight: Floats, ends: Floats, reach: Floats, allowed: NDArray[np.bool_]
) -> tuple[Floats, NDArray[np.intp], Floats]:
    """Bisect on μ for the smallest bound; any μ gives a valid one, so its precision costs tightness only."""
    low, high = -reach, reach
    best, best_mu = np.full(reach.shape, np.inf), np.zeros_like(reach)
    forced, nodes = ~np.asarray(allowed[..., LOW:].any(axis=-1)), np.arange(reach.size)
    # The four values first, so that each is an array of its own without gaps.
    terms, weights = (np.ascontiguousarray(np.moveaxis(array, -1, 0)) for array in (tangents, weight))
    for _ in range(_STEPS):
        mu = (low + high) / 2
        total, theta = _maximise(terms - mu[:, None] * weights[:, None], weights, forced)
        total += mu * ends
        active = (total[1] > total[0]).astype(np.intp)
        bound = total[active, nodes]
        best_mu = np.where(bound < best, mu, best_mu)
        best = np.minimum(bound, best)
        rising = (ends - theta)[active, nodes] > 0
        low, high = np.where(rising, low, mu), np.where(rising, mu, high)
    score = tangents[0] - best_mu[:, None, None] * weight
    return best, *_decode(score, weight, allowed)


def _maximise(score: Floats, weight: Floats, forced: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return the largest sum of scores, each special value used at most once, and its ``Σ p τ``; shapes (2, n).

    ``score`` (4, 2, n, S) and ``weight`` (4, n, S) have the values first; ``forced`` (n, S) must take special ones.
    """
    high = score[HIGH] > score[LOW]
    base, taken = np.where(high, score[HIGH], score[LOW]), np.where(high, weight[HIGH], weight[LOW])
    if forced.any():
        most = score[MOST] > score[LEAST]
        base = np.where(forced, np.where(most, score[MOST], score[LEAST]), base)
        taken = np.where(forced, np.where(most, weight[MOST], weight[LEAST]), taken)
    total, theta = base.sum(axis=-1), taken.sum(axis=-1)
    at = np.ix_(*map(np.arange, total.shape))
    for value in (LEAST, MOST):
        gain = np.where(forced, -np.inf, score[value] - base)
        k = gain.argmax(axis=-1)
        largest = gain[(*at, k)]
        moved = weight[value][at[1], k] - taken[(*at, k)]
        total += np.maximum(largest, 0)
        theta += np.where(largest > 0, moved, 0)
    return total, theta


def _decode(score: Floats, weight: Floats, allowed: NDArray[np.bool_]) -> tuple[NDArray[np.intp], Floats]:
    """Return a member of the family that attains the maximum (or nearly), and the margin of each choice, per θ."""
    forced = ~allowed[..., LOW:].any(axis=-1)
    ordinary = np.where(score[..., HIGH] > score[..., LOW], HIGH, LOW)
    special = np.where(score[..., MOST] > score[..., LEAST], MOST, LEAST)
    choice = np.where(forced, special, ordinary)
    base = np.take_along_axis(score, choice[..., None], axis=-1)[..., 0]
    other = score[..., LOW:].min(axis=-1)
    scale = np.abs(weight[..., HIGH] - weight[..., LOW]) + 1e-300
    doubt = np.where(np.isfinite(other), base - other, np.inf) / scale
    rows = np.arange(len(score))
    for value in (LEAST, MOST):
        gain = np.where(forced, -np.inf, score[..., value] - base)
        k = gain.argmax(axis=-1)
        wins = gain[rows, k] > 0
        choice[rows[wins], k[wins]] = value
        doubt[rows[wins], k[wins]] = 0
        base[rows[wins], k[wins]] = np.inf  # taken: the other special value goes elsewhere
    return choice, doubt
