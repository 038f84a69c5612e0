"""The most informative ε-DP channel of all: a staircase (Kairouz, Oh & Viswanath 2016), by column generation.

An optimal channel has columns ``θ_A (1 + (λ-1) 1[x in A])``, ``λ = e^ε``, one for each set A of categories, and

    maximise Σ_A θ_A h(P_A)   subject to   Σ_A θ_A (1 + (λ-1) 1[x in A]) = 1 for every x,   θ >= 0,

with ``P_A = p(A)``, ``h(P) = ε λ P - m ln m``, ``m = 1 + (λ-1) P``. For multipliers y the reduced cost of A is
``h(P_A) - (λ-1) y(A) - y(all)``, and ``Σ y + max(0, its maximum)`` bounds every channel, since ``Σ θ <= 1``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, nnls

from postrand.design.pricing import Gain, price_all, price_exactly, price_greedily
from postrand.errors import DesignError, sentence
from postrand.objectives.information import information_bound

Floats = NDArray[np.float64]
Sets = NDArray[np.bool_]

EXACT_SIZE = 16
"""Up to here every one of the 2^S sets is priced."""

_ROUNDS = 200
_KEPT = 200  # columns added a round
_NEAR = 12  # columns kept for each category; a third beyond _SIMPLEX_SIZE, where a round takes seconds
_PATIENCE = 30  # rounds without progress
_SIMPLEX_SIZE = 100  # beyond it interior points (then a crossover to a vertex) are faster
_MISFIT = 1e-12  # of the row sums
_NODES = 4000
_PRECISION = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True, slots=True)
class Staircase:
    """Hold sets (K, S), their weights θ (K,), and a proven upper bound of the information (nats) over all channels."""

    sets: Sets
    theta: Floats
    value: float
    bound: float
    rounds: int

    def channel(self, epsilon: float) -> Floats:
        """Return the channel (S, K), rows true; rows sum to 1 to the solver's precision and are scaled to it."""
        array = (1 + math.expm1(epsilon) * self.sets.T) * self.theta
        scaled: Floats = array / array.sum(axis=1, keepdims=True)
        return scaled


def best_staircase(p: Floats, epsilon: float, tolerance: float, seed: int = 0) -> Staircase:
    """Return the staircase of largest information for ``p`` (S,), and a bound of every ε-DP channel's.

    The search stops when the bound is at most ``tolerance`` relative above the value, or when it makes no progress.
    With many categories, balanced sets of the best mass often attain the closed bound: a non-negative least squares
    problem tells, hundreds of times faster than the linear programme.
    ``seed`` steers the order in which sets are tried, so that results are reproducible.

    Raises
    ------
    DesignError
        If the linear programme fails.
    """
    # In units of the closed bound: unscaled, small ε leave the solver at a wrong vertex.
    unit = information_bound(epsilon)
    gain, generator = Gain(epsilon, unit), np.random.default_rng(seed)
    offered, ceiling, reached, stalled = _first_sets(gain, p, generator), 1.0, -1.0, 0
    if p.size > EXACT_SIZE:
        theta, misfit = nnls(1 + gain.extra * offered.T, np.ones(p.size))
        value, used = float(theta @ gain(offered @ p)), theta > 0
        if misfit < _MISFIT and 1.0 - value <= tolerance:
            return Staircase(offered[used], theta[used], value * unit, unit, 0)
    for rounds in range(1, _ROUNDS + 1):
        theta, value, y = _master(gain, p, offered)
        fresh, excess = _price(gain, p, y, generator, tolerance * value)
        lower = min(ceiling, float(y.sum()) + max(0.0, excess))
        stalled = 0 if value > reached * (1 + 1e-12) or lower < ceiling * (1 - 1e-12) else stalled + 1
        ceiling, reached = lower, value
        used = theta > 0
        best = Staircase(offered[used], theta[used], value * unit, ceiling * unit, rounds)
        if ceiling - value <= tolerance * value or not len(fresh) or stalled == _PATIENCE:
            break
        # The programme's time grows with its columns: only the most promising stay.
        near = _NEAR if p.size <= _SIMPLEX_SIZE else _NEAR // 3
        kept = used.copy()
        kept[np.argsort(-_reduced(gain, p, offered, y))[: near * p.size]] = True
        offered = np.unique(np.concatenate([offered[kept], fresh]), axis=0)
    return best


def _master(gain: Gain, p: Floats, sets: Sets) -> tuple[Floats, float, Floats]:
    """Solve the programme over the given sets; return θ, its value and the multipliers y."""
    rows = 1 + gain.extra * sets.T
    method = "highs-ds" if p.size <= _SIMPLEX_SIZE else "highs-ipm"
    answer = linprog(-gain(sets @ p), A_eq=rows, b_eq=np.ones(p.size), method=method, options=_PRECISION)
    if answer.status != 0:
        raise DesignError(sentence("the linear programme of the staircase failed", got=answer.message))
    return np.maximum(answer.x, 0), -float(answer.fun), -answer.eqlin.marginals


def _reduced(gain: Gain, p: Floats, sets: Sets, y: Floats) -> Floats:
    """Return the reduced cost of each set."""
    cost: Floats = gain(sets @ p) - gain.extra * (sets @ y) - y.sum()
    return cost


def _first_sets(gain: Gain, p: Floats, generator: np.random.Generator) -> Sets:
    """Return the single categories (always feasible), and sets that are good for the closed bound's multipliers p."""
    single = np.eye(p.size, dtype=bool)
    if p.size <= EXACT_SIZE:
        return single
    orders = np.argsort(generator.random((3 * p.size, p.size)), axis=1)
    return np.unique(np.concatenate([single, price_greedily(gain, p, gain.extra * p, orders)[0]]), axis=0)


def _price(gain: Gain, p: Floats, y: Floats, generator: np.random.Generator, enough: float) -> tuple[Sets, float]:
    """Return sets of positive reduced cost, and a proven bound of every set's reduced cost."""
    cost, fixed = gain.extra * y, float(y.sum())
    if p.size <= EXACT_SIZE:
        sets, value = price_all(gain, p, cost, _KEPT)
        return sets[value > fixed + 1e-13], float(value[0]) - fixed
    count, ratio = max(_KEPT, p.size), cost / np.maximum(p, 1e-300)
    spread = np.std(ratio[p > 0]) * generator.choice([0, 0.1, 1, 10], (2 * count, 1))
    orders = np.argsort(ratio + spread * generator.normal(size=(2 * count, p.size)), axis=1)
    sets, value = price_greedily(gain, p, cost, orders)
    good = sets[:count][value[:count] > fixed + 1e-13]
    known = float(value[0]) - fixed
    better, ceiling = price_exactly(gain, p, cost, fixed + max(known, 0.0), fixed + max(enough, 1.1 * known), _NODES)
    return np.concatenate([good, better]), ceiling - fixed
