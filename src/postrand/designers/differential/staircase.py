"""The most informative ε-DP channel of all: a staircase (Kairouz, Oh & Viswanath 2016), by column generation.

An optimal channel has columns ``θ_A (1 + (λ-1) 1[x in A])``, ``λ = e^ε``, one for each set A of categories, and

    maximise Σ_A θ_A h(P_A)   subject to   Σ_A θ_A (1 + (λ-1) 1[x in A]) = 1 for every x,   θ >= 0,

with ``P_A = p(A)``, ``h(P) = ε λ P - m ln m``, ``m = 1 + (λ-1) P``. For multipliers y the reduced cost of A is
``h(P_A) - (λ-1) y(A) - y(all)``, and ``Σ y + max(0, its maximum)`` bounds every channel, since ``Σ θ <= 1``.

Many categories: the light ones together are first taken for one that can be divided at will (a finer variable never
keeps less, so the bound stays one). That small programme's multipliers are nearly always optimal for the whole; then
any sets of reduced cost near zero that cover all categories alike make an optimal channel, and non-negative least
squares find one, hundreds of times faster than the linear programme.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.designers.differential.pricing import Gain, polish, price_all, price_exactly, price_greedily
from postrand.errors import DesignError, sentence
from postrand.objectives.information import information_bound

Floats = NDArray[np.float64]
Sets = NDArray[np.bool_]

EXACT_SIZE = 16
"""Up to here every one of the 2^S sets is priced."""

_ROUNDS = 200
_KEPT = 100  # columns added a round
_NEAR, _LEAST = 8, 500  # columns kept for each category, and in all
_PATIENCE = 30  # rounds without progress
_SIMPLEX_SIZE = 100  # beyond it interior points (then a crossover to a vertex) are faster
_MISFIT = 1e-12  # of the row sums
_NODES = 1_000_000  # of one pricing search, at most about 0.1 s
_LIGHT = (0.5, 0.05, 5e-3, 5e-4, 5e-5)  # of the best mass of a set: categories below it are divided, tried in turn
_TRIES = 8  # least squares problems
_MOVES = 30  # towards the mass of a sampled set
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


@dataclass(frozen=True, slots=True)
class _Programme:
    """The masses p (n,), perhaps without those of a divisible rest of mass ``gain.divisible``."""

    p: Floats
    gain: Gain

    @property
    def weights(self) -> Floats:
        """The masses, that of the rest last: the multipliers of the closed bound."""
        return np.append(self.p, self.gain.divisible) if self.gain.divisible else self.p

    def priced(self, y: Floats) -> tuple[Gain, Floats, float]:
        """Return the gain at the rest's price, the costs of the categories, and the fixed cost."""
        cost, rest = self.gain.extra * y, self.gain.divisible
        gain = replace(self.gain, rate=float(cost[-1]) / rest) if rest else self.gain
        return gain, cost[: self.p.size], float(y.sum())

    def columns(self, sets: Sets, y: Floats) -> Floats:
        """Return the sets as columns (K, n + 1), the last entry the best share of the rest."""
        if not self.gain.divisible:
            return sets.astype(float)
        filled = self.priced(y)[0].filled(sets @ self.p)
        return np.column_stack([sets, filled / self.gain.divisible])


@dataclass(frozen=True, slots=True)
class _State:
    """Columns, their weights and value, and the multipliers y with the best bound, in units of the closed bound."""

    columns: Floats
    theta: Floats
    value: float
    bound: float
    y: Floats
    rounds: int


def best_staircase(p: Floats, epsilon: float, tolerance: float, seed: int = 0) -> Staircase:
    """Return the staircase of largest information for ``p`` (S,), and a bound of every ε-DP channel's.

    The search stops when the bound is at most ``tolerance`` relative above the value, or when it makes no progress.
    ``seed`` steers the order in which sets are tried, so that results are reproducible.

    Raises
    ------
    DesignError
        If the linear programme fails.
    """
    # In units of the closed bound: unscaled, small ε leave the solver at a wrong vertex.
    unit = information_bound(epsilon)
    gain, generator = Gain(epsilon, unit), np.random.default_rng(seed)
    start = _State(np.eye(p.size), np.zeros(0), -1.0, 1.0, p, 0)
    found = None
    if p.size > EXACT_SIZE:
        light = np.zeros(p.size, dtype=bool)
        for share in _LIGHT:
            fewer = p <= share * gain.flat
            if found or not p[fewer].sum() > 0:
                break
            if (fewer != light).any():
                light = fewer
                start = _relaxed(p, light, gain, start, tolerance, generator)
                found = _combined(p, gain, start, tolerance, generator)
    found = found or _generate(_Programme(p, gain), start, tolerance, generator)
    used = found.theta > 0
    return Staircase(
        found.columns[used].astype(bool), found.theta[used], found.value * unit, found.bound * unit, found.rounds
    )


def _generate(programme: _Programme, start: _State, tolerance: float, generator: np.random.Generator) -> _State:
    """Solve the programme by column generation from the columns, bound and multipliers of ``start``."""
    exact = programme.p.size <= EXACT_SIZE and not programme.gain.divisible
    columns, y, bound = start.columns, start.y, start.bound
    reached, stalled = -1.0, 0
    for rounds in range(start.rounds + 1, start.rounds + _ROUNDS + 1):
        theta, value, dual = _master(programme, columns)
        # Between the programme's multipliers, which jump about, and the best so far.
        at = dual if exact or rounds == 1 else (0.7 * dual + 0.3 * y)
        fresh, excess = _price(programme, at, generator, tolerance * value / 4)
        lower = float(at.sum()) + max(0.0, excess)
        stalled = 0 if value > reached * (1 + 1e-12) or lower < bound * (1 - 1e-12) else stalled + 1
        y, bound, reached = (at, lower, value) if lower < bound else (y, bound, value)
        best = _State(columns, theta, value, bound, y, rounds)
        if bound - value <= tolerance * value or (exact and not len(fresh)) or stalled == _PATIENCE:
            break
        # The programme's time grows with its columns: only the most promising stay.
        kept = theta > 0
        kept[np.argsort(-_reduced(programme, columns, dual))[: max(_NEAR * programme.p.size, _LEAST)]] = True
        more = [programme.columns(fresh, at)]
        if not exact:
            gain, cost, fixed = programme.priced(dual)
            sets, values = price_greedily(gain, programme.p, cost, _KEPT, generator)
            more.append(programme.columns(sets[values > fixed + 1e-13], dual))
        columns = np.unique(np.concatenate([columns[kept], *more]), axis=0)
    return best


def _master(programme: _Programme, columns: Floats) -> tuple[Floats, float, Floats]:
    """Solve the programme over the given columns; return θ, its value and the multipliers y."""
    rows = 1 + programme.gain.extra * columns.T
    worth = programme.gain.plain(columns @ programme.weights)
    methods = ("highs-ds", "highs-ipm") if len(rows) <= _SIMPLEX_SIZE else ("highs-ipm", "highs-ds")
    for method, options in product(methods, (_PRECISION, {})):
        answer = scipy.optimize.linprog(-worth, A_eq=rows, b_eq=np.ones(len(rows)), method=method, options=options)
        if answer.status == 0:
            return np.maximum(answer.x, 0), -float(answer.fun), -answer.eqlin.marginals
    raise DesignError(sentence("the linear programme of the staircase failed", got=answer.message))


def _reduced(programme: _Programme, columns: Floats, y: Floats) -> Floats:
    """Return the reduced cost of each column."""
    gain = programme.gain
    cost: Floats = gain.plain(columns @ programme.weights) - gain.extra * (columns @ y) - y.sum()
    return cost


def _price(programme: _Programme, y: Floats, generator: np.random.Generator, enough: float) -> tuple[Sets, float]:
    """Return sets of positive reduced cost, and a proven bound of every set's reduced cost."""
    gain, cost, fixed = programme.priced(y)
    p = programme.p
    if p.size <= EXACT_SIZE and not gain.divisible:
        sets, value = price_all(gain, p, cost, _KEPT)
        return sets[value > fixed + 1e-13], float(value[0]) - fixed
    sets, value = price_greedily(gain, p, cost, _KEPT, generator)
    known = float(value[0]) - fixed
    better, ceiling = price_exactly(gain, p, cost, fixed, enough, known, _NODES)
    return np.concatenate([sets, better]), ceiling


def _relaxed(
    p: Floats, light: NDArray[np.bool_], gain: Gain, start: _State, tolerance: float, generator: np.random.Generator
) -> _State:
    """Divide the light categories at will: return sets, a bound and multipliers that are nearly those of the whole."""
    heavy, rest = ~light, float(p[light].sum())
    if heavy.any():
        small = _Programme(p[heavy], replace(gain, divisible=rest))
        y = np.append(start.y[heavy], start.y[light].sum())
        known = np.unique(start.columns[:, heavy].astype(bool), axis=0)
        columns = np.concatenate([np.eye(y.size), small.columns(known, y)])
        found = _generate(small, replace(start, columns=columns, y=y), tolerance / 50, generator)
    else:
        found = _State(np.array([[gain.flat / rest]]), np.ones(1), 1.0, 1.0, np.array([1.0]), 0)
    y = np.empty(p.size)
    y[heavy], y[light] = found.y[:-1], found.y[-1] * p[light] / rest
    used = found.theta > 0
    weights = found.theta[used] / found.theta[used].sum()
    sets = [np.eye(p.size, dtype=bool)]
    for column, weight in zip(found.columns[used], weights, strict=True):
        parts = _balanced(p[light], float(column[-1]), math.ceil(3 * p.size * weight) + 3, generator)
        lifted = np.zeros((len(parts), p.size), dtype=bool)
        lifted[:, heavy], lifted[:, light] = column[:-1] > 0, parts
        sets.append(lifted)
    columns = np.unique(np.concatenate(sets), axis=0).astype(float)
    return _State(columns, np.zeros(0), -1.0, found.bound, y, found.rounds)


def _balanced(mass: Floats, share: float, count: int, generator: np.random.Generator) -> Sets:
    """Return sets that hold about ``share`` of the mass, each category in the same share of them.

    Systematic samples of the categories in order of their mass, somewhat disordered; then single moves.
    """
    place = np.argsort(np.argsort(-mass))
    width = generator.choice([1, 3, 10], (count, 1)) / max(share, 1 / mass.size)
    order = np.argsort(place + width * generator.random((count, mass.size)), axis=1)
    steps = np.floor(np.arange(mass.size + 1) * share + generator.random((count, 1)))
    sets = np.zeros((count, mass.size), dtype=bool)
    np.put_along_axis(sets, order, np.diff(steps, axis=1) > 0, axis=1)
    rows = np.arange(count)
    for _ in range(_MOVES if 0 < share < 1 else 0):
        lack = share * mass.sum() - sets @ mass
        left = np.abs(lack[:, None] - np.where(sets, -mass, mass))
        best = left.argmin(axis=1)
        better = left[rows, best] < np.abs(lack)
        sets[rows[better], best[better]] ^= True
    return sets


def _combined(p: Floats, gain: Gain, start: _State, tolerance: float, generator: np.random.Generator) -> _State | None:
    """Return a channel of sets whose reduced cost is nearly zero, so that it attains the bound; None if none is found.

    ``value = Σ y + Σ θ r``: with all ``r >= -slack`` and ``Σ θ <= 1`` the gap is at most the tolerance. Sets that are
    needed rarely may cost more, so the search begins with a larger slack.
    """
    extra, y, total = gain.extra, start.y, float(start.y.sum())
    slack, factor = tolerance * start.bound - (start.bound - total), 30.0
    fresh = start.columns.astype(bool)
    fresh = np.concatenate([fresh, polish(gain, p, extra * y, fresh.copy(), generator)[0]])
    pool = np.zeros((0, p.size), dtype=bool)
    for _ in range(_TRIES):
        pool = np.unique(np.concatenate([pool, fresh]), axis=0)
        good = pool[gain(pool @ p) - extra * (pool @ y) - total >= -factor * slack]
        if len(good) < p.size:
            return None
        rows = 1 + extra * good.T
        try:
            theta, misfit = scipy.optimize.nnls(rows, np.ones(p.size))
        except RuntimeError:  # it went round in circles
            return None
        value = float(theta @ gain(good @ p))
        if misfit >= _MISFIT:
            # Categories that are not covered enough become cheaper.
            lack = 1 - rows @ theta
            tilt = slack / extra / np.abs(lack).max() * generator.choice([0.3, 3.0, 30.0])
            fresh, _ = price_greedily(gain, p, extra * (y - tilt * lack), 2 * p.size, generator)
        elif start.bound - value > tolerance * value:
            factor, fresh = factor / 3, pool[:0]
        else:
            return _State(good.astype(float), theta, value, max(start.bound, value), y, start.rounds)
    return None
