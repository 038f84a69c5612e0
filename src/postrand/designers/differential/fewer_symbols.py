"""Matrices of small variance for linear queries: as few released symbols as categories, and a bound of every channel's.

The best channel may need up to twice as many symbols as there are categories
(:mod:`postrand.designers.differential.least_variance`); a matrix has as many as categories at most. Of one
query, symbols are left out one at a time and the answers of the others moved downhill. Of several, symbols with much
the same answers are merged, and the matrix then moves downhill.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.designers.differential.least_variance import Grouped, Relaxed, master, reduced_costs, relaxed
from postrand.designers.differential.variance_pricing import sets_for
from postrand.errors import DesignError
from postrand.objectives import EstimatorVariance

Floats = NDArray[np.float64]
Sets = NDArray[np.bool_]

ALL_SETS = 14
"""Up to here all 2^S sets are priced for several queries; beyond, their bound is the sum of the single queries'."""

MAX_GROUPS = 60
"""Beyond as many different values of the queries the programme takes minutes: the other matrices remain."""

_ROWS = 60  # of the programme for several queries
_LARGEST_EPSILON = 12.0
"""Beyond it randomised response is as good as the truth, and e^ε out of the solvers' range."""
_MOST_SINGLE = 24  # queries whose own optima add up to a bound
_MOVED, _MATRIX = 16, 16  # groups up to which answers, and matrices, are moved
_STARTS = 3  # random choices of answers, where groups are few
_FEW = 6
_STEPS = 30
_CALLS = 20
_DEPENDENT = 1e-7  # least singular value of columns of length 1


def least_variance(
    prior: Floats, epsilon: float, objective: EstimatorVariance, known: Sequence[Floats]
) -> tuple[list[Floats], float]:
    """Return channels (S, K), K <= S, that may have the least variance, and a lower bound of every ε-DP channel's.

    ``known``: matrices of other structures; the search starts from them too.
    """
    queries = objective.matrix(prior.size)
    spread = queries - (queries @ prior)[:, None]
    bound = max(objective.least(prior, epsilon), float((spread**2 @ prior).sum()))  # the true values have the last one
    problem = Grouped.of(queries, prior, epsilon)
    size = problem.p.size
    channels = [c[problem.labels] for c in two_symbols(problem)]
    if size == 1 or epsilon > _LARGEST_EPSILON or size > MAX_GROUPS:
        return channels, bound * (1 - 1e-12)
    if problem.single:
        found = relaxed(problem)
        bound = max(bound, found.bound)
        channels += [c[problem.labels] for c in thinned(problem, found)]
    elif size <= ALL_SETS and size * (1 + len(queries)) <= _ROWS:
        found = relaxed(problem)
        bound = max(bound, found.bound)
        channels.append(merged(problem, found)[problem.labels])
    elif len(queries) <= _MOST_SINGLE:
        bound = max(bound, math.fsum(_single(query, prior, epsilon) for query in queries))
    if not problem.single and size == prior.size <= _MATRIX:
        order = np.argsort(problem.labels)
        starts = [a[order] for a in (*channels, *known) if a.shape[1] == size]
        channels += [downhill(problem, a)[problem.labels] for a in starts]
    return channels, bound * (1 - 1e-12)


def _single(query: Floats, prior: Floats, epsilon: float) -> float:
    problem = Grouped.of(query[None], prior, epsilon)
    return relaxed(problem).bound if problem.p.size > 1 else 0.0


def two_symbols(problem: Grouped) -> list[Floats]:
    """Return the textbook channel (G, 2Q), if it has no more symbols than there are groups.

    A query is drawn, in proportion to its range, and answered by one of two symbols, with a chance linear in its value
    (Duchi, Jordan & Wainwright 2018).
    """
    ranges = np.ptp(problem.queries, axis=1)
    asked = np.flatnonzero(ranges > 0)
    if not asked.size or 2 * asked.size > problem.p.size:
        return []
    high = 1 / (1 + math.exp(-problem.epsilon))
    columns = []
    for q in asked:
        up = (1 - high) + (2 * high - 1) * (problem.queries[q] - problem.queries[q].min()) / ranges[q]
        columns += [ranges[q] * up, ranges[q] * (1 - up)]
    return [np.array(columns).T / ranges[asked].sum()]


def thinned(problem: Grouped, found: Relaxed) -> list[Floats]:
    """Return channels of at most G symbols for one query, best last: answers are left out, and the others moved.

    What an answer had goes to its neighbours, drawn without bias; the answer for which that adds least to the variance
    goes first. Where groups are few, random choices of the answers are moved too.
    """
    order = np.argsort(found.answers[:, 0])
    answers, weights = found.answers[order, 0], found.weights[order]
    everything, family = answers, _Answers(problem, found.sets)
    moved = []
    while answers.size > 1:
        if answers.size <= problem.p.size and (one := family.moved(answers)) is not None:
            moved.append(one)
            break
        answers, weights = _one_less(answers, weights)
    if answers.size < everything.size and 2 < problem.p.size <= _FEW:
        generator = np.random.default_rng(0)
        for _ in range(_STARTS):
            inner = generator.choice(everything[1:-1], problem.p.size - 2, replace=False)
            one = family.moved(np.sort(np.concatenate([everything[[0, -1]], inner])))
            moved += [] if one is None else [one]
    return [channel for _, channel in sorted(moved, key=lambda pair: -pair[0])]


def _one_less(answers: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the answers (K,) in order, and their chances, without the one that its neighbours replace best."""
    if answers.size < 3:
        return answers[:1], weights[:1]
    low, middle, high = answers[:-2], answers[1:-1], answers[2:]
    k = int((weights[1:-1] * (middle - low) * (high - middle)).argmin()) + 1
    width = answers[k + 1] - answers[k - 1]
    share = (answers[k + 1] - answers[k]) / width if width > 0 else 0.5
    weights = weights.copy()
    weights[k - 1] += weights[k] * share
    weights[k + 1] += weights[k] * (1 - share)
    return np.delete(answers, k), np.delete(weights, k)


class _Answers:
    """The best channel for given answers to one query, as a function of them; keeps the sets that it has met."""

    def __init__(self, problem: Grouped, sets: Sets) -> None:
        self.problem, self.sets = problem, np.unique(sets, axis=0)
        self.unit = float(np.abs(problem.queries).max()) / problem.step

    def best(self, answers: Floats) -> tuple[float, Floats, Floats] | None:
        """Return the variance, its gradient and the channel (G, K) for answers (K,); None where no channel has them."""
        p, step = self.problem.p, self.problem.step
        target, at = self.problem.queries / (self.unit * step), answers / self.unit
        sets, place = np.repeat(self.sets, at.size, axis=0), np.tile(np.arange(at.size), len(self.sets))
        for _ in range(_STEPS):
            try:
                weights, value, dual = master(target, p, step, sets, at[place][:, None])
            except DesignError:
                return None
            fresh = sets_for(dual, at[:, None], p, step)
            good = np.flatnonzero(reduced_costs(dual, p, step, fresh, at[:, None]) > 1e-10 * value)
            if not good.size:
                break
            sets, place = np.concatenate([sets, fresh[good]]), np.concatenate([place, good])
            weights = np.append(weights, np.zeros(good.size))
        slopes = 2 * weights * (at[place] - dual.worth(sets, p, step)[1][:, 0])
        columns = self.problem.channel(sets, weights)
        channel = np.stack([columns[:, place == k].sum(axis=1) for k in range(at.size)], axis=1)
        self.sets = np.unique(sets[weights > 0], axis=0)
        slope = np.bincount(place, weights=slopes, minlength=at.size) * self.unit
        channel /= channel.sum(axis=1, keepdims=True)
        return value * self.unit**2, slope.astype(np.float64), channel

    def moved(self, start: Floats) -> tuple[float, Floats] | None:
        """Return the least variance met on the way downhill from the answers, and its channel.

        None where the channel at the start is none, or its columns so nearly dependent that the analyst's answers,
        which solve ``M b = c``, would be others.
        """
        first = self.best(start) or self.best(start := start * (1 + 1e-7))  # what the solver's tolerance left out
        if first is None or not _independent(first[2]):
            return None
        found, unit = [first], float(np.abs(start).max())

        def cost(at: Floats) -> tuple[float, Floats]:
            made = self.best(at * unit)
            if made is None:
                return 1e3, np.zeros(at.size)
            found.extend([made] if _independent(made[2]) else [])
            return made[0] / first[0], made[1] * unit / first[0]

        if start.size <= _MOVED:
            scipy.optimize.minimize(cost, start / unit, jac=True, method="L-BFGS-B", options={"maxfun": _CALLS})
        value, _, channel = min(found, key=lambda made: made[0])
        return value, channel


def _independent(channel: Floats) -> bool:
    values = np.linalg.svd(channel / np.linalg.norm(channel, axis=0).clip(1e-300), compute_uv=False)
    return bool(values[-1] > _DEPENDENT)


def merged(problem: Grouped, found: Relaxed) -> Floats:
    """Return a channel of at most G symbols: of the symbols, the two whose merger costs least are merged at a time."""
    columns, answers, weights = problem.channel(found.sets, found.weights), found.answers, found.weights
    while len(weights) > problem.p.size:
        apart = ((answers[:, None] - answers) ** 2).sum(axis=2) * weights * weights[:, None]
        apart = apart / (weights + weights[:, None]) + np.diag(np.full(weights.size, np.inf))
        i, j = np.unravel_index(int(apart.argmin()), apart.shape)
        both = weights[i] + weights[j]
        answers[i] = (weights[i] * answers[i] + weights[j] * answers[j]) / both
        columns[:, i] += columns[:, j]
        weights[i] = both
        columns, answers, weights = np.delete(columns, j, 1), np.delete(answers, j, 0), np.delete(weights, j)
    scaled: Floats = columns / columns.sum(axis=1, keepdims=True)
    return scaled


def downhill(problem: Grouped, start: Floats) -> Floats:
    """Return a square channel (G, G) of no larger variance: each step goes towards the best end of the local slope.

    Not convex: a local optimum. The variance is ``tr(C J^-1 Cᵀ)``, ``J = Σ_j v_j v_jᵀ / (p·v_j)``.
    """
    lower, limits = _ratios(problem)
    at, value = start, _variance(problem, start)
    for _ in range(_STEPS):
        if not math.isfinite(value):
            break
        slope = _slope(problem, at)
        cost = np.concatenate([slope.T.ravel() / np.abs(slope).max(), np.zeros(problem.p.size)])
        answer = scipy.optimize.linprog(
            cost, A_ub=lower, b_ub=np.zeros(lower.shape[0]), A_eq=limits, b_eq=np.ones(problem.p.size)
        )
        if answer.status != 0:
            break
        end = answer.x[: at.size].reshape(at.shape[::-1]).T
        moved, found = _along(problem, at, end)
        if not found < value * (1 - 1e-9):
            break
        at, value = moved, found
    scaled: Floats = at / at.sum(axis=1, keepdims=True)
    return scaled


def _along(problem: Grouped, start: Floats, end: Floats) -> tuple[Floats, float]:
    """Return the best channel found between two, and its variance."""

    def value(share: float) -> float:
        return _variance(problem, start + share * (end - start))

    path = scipy.optimize.minimize_scalar(lambda share: min(value(share), 1e300), bounds=(0, 1), method="bounded")
    share = min((1.0, float(path.x)), key=value)
    return start + share * (end - start), value(share)


def _ratios(problem: Grouped) -> tuple[scipy.sparse.csr_array, scipy.sparse.csr_array]:
    """Return the rows of ``l_j <= M[i,j] <= e^ε l_j`` (<= 0) and of the sums (= 1), over columns one by one, then l."""
    size = problem.p.size
    least = scipy.sparse.kron(scipy.sparse.eye_array(size), np.ones((size, 1)))
    entries = scipy.sparse.eye_array(size * size)
    rows = scipy.sparse.block_array([[-entries, least], [entries * (1 - problem.step), -least]])
    sums = scipy.sparse.block_array(
        [[scipy.sparse.kron(np.ones((1, size)), scipy.sparse.eye_array(size)), scipy.sparse.csr_array((size, size))]]
    )
    return scipy.sparse.csr_array(rows), scipy.sparse.csr_array(sums)


def _variance(problem: Grouped, channel: Floats) -> float:
    """Return the summed variance of a square channel, infinite where it is not invertible in practice."""
    if not np.linalg.cond(channel) <= 1e10:
        return math.inf
    answers = np.linalg.solve(channel, problem.queries.T)
    return float((problem.p @ channel) @ (answers**2).sum(axis=1))


def _slope(problem: Grouped, channel: Floats) -> Floats:
    """Return the derivative of the variance by every entry of a channel, as in ``EstimatorVariance.gradient``."""
    answers = np.linalg.solve(channel, problem.queries.T)  # (G, Q), rows symbols
    z = np.linalg.solve(channel.T, (problem.p @ channel)[:, None] * answers)  # (G, Q)
    slope: Floats = np.outer(problem.p, (answers**2).sum(axis=1)) - 2 * z @ answers.T
    return slope
