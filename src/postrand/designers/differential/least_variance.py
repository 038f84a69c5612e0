"""The ε-DP channel of least variance for linear queries: the programme of ``variance_pricing`` by column generation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.designers.differential.variance_pricing import Multipliers, price_all, price_one
from postrand.errors import DesignError, sentence

Floats = NDArray[np.float64]
Sets = NDArray[np.bool_]

_ROUNDS, _SEVERAL = 120, 40  # of one query, of several
_GAP = 1e-9
_KEPT = 8  # columns kept for each row
_PRECISION = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True, slots=True)
class Relaxed:
    """Hold pairs (A, b) of positive weight, their summed variance, and a lower bound of every channel's."""

    sets: Sets
    answers: Floats
    weights: Floats
    value: float
    bound: float


@dataclass(frozen=True, slots=True)
class Grouped:
    """The queries with their mean taken off, (Q, G), and the masses (G,), of categories that no query tells apart.

    Rows of the matrix may be taken alike in a group: their mean has the same cost. ``labels`` (S,) name the groups.
    """

    queries: Floats
    p: Floats
    labels: NDArray[np.intp]
    epsilon: float

    @classmethod
    def of(cls, queries: Floats, prior: Floats, epsilon: float) -> Grouped:
        """Group the categories of queries (Q, S), by what they are asked for."""
        centred = queries - (queries @ prior)[:, None]
        columns, labels = np.unique(centred, axis=1, return_inverse=True)
        labels = labels.ravel()
        return cls(columns, np.bincount(labels, weights=prior).astype(np.float64), labels, epsilon)

    @property
    def single(self) -> bool:
        """Whether there is one query."""
        return len(self.queries) == 1

    @property
    def step(self) -> float:
        """``1 - e^-ε``: columns are ``1 - step`` outside their set and 1 inside, but for a factor."""
        return -math.expm1(-self.epsilon)

    def channel(self, sets: Sets, weights: Floats) -> Floats:
        """Return the columns of pairs for the groups (G, N), rows not yet made to sum to 1."""
        step = self.step
        columns: Floats = (1 - step + step * sets.T) * (weights / (1 - step + step * (sets @ self.p)))
        return columns


def relaxed(problem: Grouped) -> Relaxed:
    """Solve the programme over pairs (A, b) by column generation.

    Raises
    ------
    DesignError
        If the linear programme fails.
    """
    queries, p, step = problem.queries, problem.p, problem.step
    unit = float(np.abs(queries).max())
    target = queries / unit
    sets, answers = _starts(problem, unit)
    bound, best = -math.inf, None
    for _ in range(_ROUNDS if problem.single else _SEVERAL):
        weights, value, dual = master(target, p, step, sets, answers)
        at = dual if best is None or len(queries) == 1 else dual.mixed(best, 0.7)
        fresh, given, excess = _price(at, p, step)
        lower = at.y0 + float((at.z * target).sum()) - max(0.0, excess) - 1e-15 * at.scale()
        if lower > bound:
            bound, best = lower, at
        if value - bound <= _GAP * value:
            break
        kept = weights > 0
        reduced = reduced_costs(dual, p, step, sets, answers)
        kept[np.argsort(-reduced)[: _KEPT * (p.size * (1 + len(queries)))]] = True
        if at is not dual:
            more, said, _ = _price(dual, p, step)
            fresh, given = np.concatenate([fresh, more]), np.concatenate([given, said])
        if not len(fresh):
            break
        sets, answers = np.concatenate([sets[kept], fresh]), np.concatenate([answers[kept], given])
        weights = np.concatenate([weights[kept], np.zeros(len(fresh))])
    used = weights > 1e-13
    scale = (unit / step) ** 2
    return Relaxed(sets[used], answers[used] * unit / step, weights[used], value * scale, max(bound, 0.0) * scale)


def _price(at: Multipliers, p: Floats, step: float) -> tuple[Sets, Floats, float]:
    if len(at.z0) == 1:
        return price_one(at, p, step)
    return price_all(at, p, step, 4 * p.size + 60)


def reduced_costs(at: Multipliers, p: Floats, step: float, sets: Sets, answers: Floats) -> Floats:
    """Return the reduced cost of pairs (N,): positive ones would lower the variance."""
    worth, best = at.worth(sets, p, step)
    reduced: Floats = worth - ((answers - best) ** 2).sum(axis=1)
    return reduced


def master(target: Floats, p: Floats, step: float, sets: Sets, answers: Floats) -> tuple[Floats, float, Multipliers]:
    """Solve the programme over the given pairs: weights, value and multipliers.

    Raises
    ------
    DesignError
        If it has no solution, or none is found.
    """
    mass = sets @ p
    over = ((sets - mass[:, None]) / (1 - step + step * mass)[:, None]).T  # (G, N)
    count, size = target.shape
    rows = np.concatenate([np.ones((1, len(sets))), over, answers.T, *(over * b for b in answers.T)])
    limits = np.concatenate([[1.0], np.zeros(size + count), target.ravel()])
    cost = (answers**2).sum(axis=1)
    unit = float(np.median(cost[cost > 0]))
    for method in ("highs-ds", "highs-ipm"):
        for options in (_PRECISION, {}):
            answer = scipy.optimize.linprog(cost / unit, A_eq=rows, b_eq=limits, method=method, options=options)
            if answer.status == 0:
                d = answer.eqlin.marginals * unit
                z0, z = d[1 + size : 1 + size + count], d[1 + size + count :].reshape(count, size)
                weights: Floats = np.maximum(answer.x, 0)
                return weights, float(weights @ cost), Multipliers(float(d[0]), d[1 : 1 + size], z0, z)
    raise DesignError(sentence("the linear programme of the least variance failed", got=answer.message))


def _thresholds(query: Floats) -> Sets:
    """Return the sets of the largest values of a query, of every number of groups, and their complements."""
    order = np.argsort(np.argsort(-query, kind="stable"))
    sets = order < np.arange(query.size + 1)[:, None]
    return np.concatenate([sets, ~sets])


def _starts(problem: Grouped, unit: float) -> tuple[Sets, Floats]:
    """Return pairs that answer all queries without bias: one query in turn by two symbols; randomised response."""
    queries, step, size = problem.queries / unit, problem.step, problem.p.size
    sets, answers = [], []
    for q, query in enumerate(queries):
        chosen = _thresholds(query)
        middle, half = (query.max() + query.min()) / 2, (query.max() - query.min()) / 2
        signs = np.repeat([1.0, -1.0], size + 1)
        given = np.zeros((len(chosen), len(queries)))
        given[:, q] = len(queries) * (step * middle + signs * half * (2 - step))
        sets.append(chosen)
        answers.append(given)
    sets.append(np.eye(size, dtype=bool))
    answers.append((step + size * (1 - step)) * queries.T - (1 - step) * queries.sum(axis=1))
    return np.concatenate(sets), np.concatenate(answers)
