"""The channel that moves values least under a metric budget: a linear programme with a proven gap.

    minimise Σ_i p_i Σ_j M[i,j] d(i,j)   subject to   M[i,j] <= e^(ε l) M[k,j] on both directions of every edge (i,k,l),
                                                      Σ_j M[i,j] = 1,  M >= 0.

Only the map's edges need constraints: along a path budgets add. The bound does not trust the solver: for any row prices
y and edge prices λ >= 0, reduced costs ``r[i,j] = p_i d(i,j) - y_i + (Dᵀ λ_j)_i`` become feasible once y_i falls
by ``max_j max(0, -r[i,j])``, and then ``Σ y`` is below every channel's value.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.codebook.category_distances import Edges, edge_problems, shortest_paths
from postrand.designers.differential.general import ILL_CONDITIONED, as_array, describe
from postrand.designers.problem import DesignWarning, Solution
from postrand.designers.suitability import StructureTraits, require
from postrand.errors import DesignError, raise_all, sentence
from postrand.objectives import Linear, Objective
from postrand.privacy import MetricPrivacy, PrivacyModel
from postrand.support.warned import warn

Floats = NDArray[np.float64]

Ints = NDArray[np.intp]

MAX_SIZE = 300
_GAP = 2e-5  # relative
_SMALL = 40  # up to here the simplex method ends at a vertex in a moment
_PATIENCE = 4
_THREADS = 2
_MARGIN = 1e-9  # of ε, so that rounding has room


@dataclass(frozen=True, slots=True)
class Metric:
    """Search all matrices that meet a metric budget, by linear programming.

    For the objectives expected distance and expected changes, up to 300 categories. A large map often has categories
    that are hardly ever released: such a matrix warns (:class:`DesignWarning`), since frequencies cannot be estimated.

    Examples
    --------
    >>> from postrand.designers import design
    >>> from postrand.codebook.category_distances import ranks
    >>> from postrand.objectives import ExpectedDistance
    >>> d = design([0.2, 0.3, 0.3, 0.2], MetricPrivacy(1.0, ranks(4)), ExpectedDistance(ranks(4)), Metric())
    >>> d.bound <= d.value < 0.76, d.relative_gap < 1e-6
    (True, True)
    """

    name: ClassVar[str] = "metric"
    traits: ClassVar[StructureTraits] = StructureTraits(
        "All matrices that keep a distance's budgets: the fewest and the shortest moves.",
        models=(MetricPrivacy,),
        objectives=(Linear,),
        most=MAX_SIZE,
        rank=80,
    )

    def solve(self, prior: Floats, privacy: PrivacyModel, objective: Objective) -> Solution:
        """Return the least expected loss over all matrices, as floats, and the proven bound."""
        model = require(self, privacy, objective, prior.size)
        distance = _distance(model, prior.size)
        loss = prior[:, None] * cast("Linear", objective).loss(prior.size)
        array, bound, steps = least_loss(loss, model.edges, model.epsilon * (1 - _MARGIN), distance)
        # A little more than the margin was given away: a bound for the budget itself.
        bound *= 1 - 2 * _MARGIN * model.epsilon * float(distance.max())
        details = {**describe(array), "iterations": steps}
        if details["condition"] > ILL_CONDITIONED:
            other = as_array(Exponential().solve(prior, model, objective))
            text = (
                "The matrix that moves values least is not invertible in practice (condition number "
                f"{details['condition']:.2g}): not all frequencies can be estimated from the release. Structure "
                f"'exponential' has condition number {describe(other)['condition']:.2g}, at {objective.name} "
                f"{objective.value(other, prior):.4g} instead of {objective.value(array, prior):.4g}."
            )
            warn(text, DesignWarning, stacklevel=3)
            details["notes"] = (text,)
        return Solution(array, bound, details)


def _distance(privacy: MetricPrivacy, size: int) -> Floats:
    """Return the distances (S, S); raises DesignError where the edges do not connect these categories."""
    raise_all(DesignError, edge_problems(privacy.edges, size))
    return shortest_paths(privacy.edges, size)


def least_loss(loss: Floats, edges: Edges, epsilon: float, distance: Floats) -> tuple[Floats, float, int]:
    """Return a matrix of nearly the least ``Σ loss * M`` inside all budgets, a proven lower bound, and the iterations.

    An interior-point method that uses the structure: columns meet in the row sums only. With slacks s and prices z of
    the edges, each Newton step solves ``H_j du_j = dy - g_j``, ``H_j = Dᵀ diag(z_j/s_j) D`` (S, S) for every column j,
    and ``(Σ_j H_j^-1) dy`` for the row sums. The matrix stays strictly inside the budgets throughout.

    Raises
    ------
    DesignError
        If the gap does not close.
    """
    size = len(loss)
    rows = _budget_rows(edges, epsilon, size)
    cost, start = loss.T / loss.max(), np.ascontiguousarray(np.exp(_log_exponential(distance, 0.4 * epsilon)).T)
    if size <= _SMALL:
        columns, y, z = _simplex(cost, rows.D)
        return _mixed_inside(columns, start, rows.D).T, _bound(cost, rows.D, y, z) * float(loss.max()), 1
    u, y, z = start, np.zeros(size), 1.0 / (rows.tail.size * size) / -(start @ rows.D.T)
    best, value, bound, steps, stalled = u, math.inf, -math.inf, 0, 0
    while stalled < _PATIENCE:
        found, lower = float((cost * u).sum()), _bound(cost, rows.D, y, z)
        stalled = 0 if found < value * (1 - _GAP / 10) or lower > bound + _GAP / 10 * value else stalled + 1
        best, value, bound = (u, found, max(bound, lower)) if found < value else (best, value, max(bound, lower))
        if value - bound <= _GAP * value:
            break
        try:
            u, y, z = _step(cost, rows, u, y, z)
        except np.linalg.LinAlgError:  # as near the boundary as float64 resolves
            break
        steps += 1
    return best.T, bound * float(loss.max()), steps


@dataclass(frozen=True, slots=True)
class _Rows:
    """``D u <= 0``, D (2E, S), for each column u; row r is 1 at ``tail[r]`` and ``-factor[r]`` at ``head[r]``."""

    D: scipy.sparse.csr_array
    tail: Ints
    head: Ints
    factor: Floats


def _bound(cost: Floats, D: scipy.sparse.csr_array, y: Floats, z: Floats) -> float:
    """Return the proven bound of row prices y (S,) and edge prices z (S, 2E) that are not negative."""
    return math.fsum(y - np.maximum(-(cost - y + z @ D).min(axis=0), 0))


def _step(cost: Floats, rows: _Rows, u: Floats, y: Floats, z: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the next point: Mehrotra's predictor and corrector."""
    s, slack = -(u @ rows.D.T), (cost - y) + z @ rows.D
    inverse = _inverses(z / s, rows, len(u))
    mu = float((s * z).mean())
    du, ds, dy, dz = _newton(rows.D, inverse, u, s, z, slack, np.zeros_like(s))
    affine = float(((s + _length(s, ds) * ds) * (z + _length(z, dz) * dz)).mean())
    target = max((affine / mu) ** 3, 1e-6) * mu - ds * dz
    du, ds, dy, dz = _newton(rows.D, inverse, u, s, z, slack, target)
    primal, dual = 0.99 * _length(s, ds), 0.99 * _length(z, dz)
    u = u + primal * du
    u = u + (1 - u.sum(axis=0)) * u / u.sum(axis=0)  # what float sums lost
    return u, y + dual * dy, z + dual * dz


def _simplex(cost: Floats, D: scipy.sparse.csr_array) -> tuple[Floats, Floats, Floats]:
    """Return columns, row prices and edge prices of an optimal vertex."""
    size = len(cost)
    A = scipy.sparse.csr_array(scipy.sparse.kron(scipy.sparse.eye_array(size), D))
    sums = scipy.sparse.csr_array(scipy.sparse.kron(np.ones((1, size)), scipy.sparse.eye_array(size)))
    answer = scipy.optimize.linprog(cost.ravel(), A, np.zeros(A.shape[0]), sums, np.ones(size), method="highs-ds")
    if answer.status != 0:
        raise DesignError(sentence("the linear programme failed", got=answer.message))
    prices = np.maximum(-answer.ineqlin.marginals, 0).reshape(size, -1)
    return np.maximum(answer.x, 0).reshape(size, size), answer.eqlin.marginals, prices


def _mixed_inside(columns: Floats, inside: Floats, D: scipy.sparse.csr_array) -> Floats:
    """Return the columns mixed with as little of strictly feasible ones as makes them feasible."""
    for t in [0.0, *(10.0**-k for k in range(13, 0, -1))]:
        mixed: Floats = (1 - t) * columns / columns.sum(axis=0) + t * inside / inside.sum(axis=0)
        if (mixed @ D.T <= 0).all():
            break
    return mixed


def _budget_rows(edges: Edges, epsilon: float, size: int) -> _Rows:
    both = [*edges, *((k, i, length) for i, k, length in edges)]
    tail, head = (np.array([e[x] for e in both]) for x in (0, 1))
    factor = np.exp(np.minimum(epsilon * np.array([e[2] for e in both]), 700))  # where floats end; tighter is safe
    number = np.arange(len(both))
    places = (np.concatenate([number, number]), np.concatenate([tail, head]))
    D = scipy.sparse.csr_array((np.concatenate([np.ones(number.size), -factor]), places), shape=(number.size, size))
    return _Rows(D, tail, head, factor)


def _inverses(weight: Floats, rows: _Rows, size: int) -> Floats:
    """Return ``(Dᵀ diag(w_j) D)^-1`` of every column j, shape (S, S, S), by way of unit diagonals."""
    from postrand.designers.metric.kernels import invert  # numba takes longer to import than small problems to solve

    H, (tail, head, factor) = np.zeros((len(weight), size, size)), (rows.tail, rows.head, rows.factor)
    np.add.at(H, (slice(None), tail, tail), weight)  # type: ignore[arg-type]
    np.add.at(H, (slice(None), head, head), weight * factor**2)  # type: ignore[arg-type]
    np.add.at(H, (slice(None), tail, head), -weight * factor)  # type: ignore[arg-type]
    np.add.at(H, (slice(None), head, tail), -weight * factor)  # type: ignore[arg-type]
    scale = 1 / np.sqrt(np.einsum("jii->ji", H))
    H *= scale[:, :, None]
    H *= scale[:, None, :]
    halves = np.array_split(H, _THREADS)  # views: the kernel works in place, without the interpreter's lock
    with ThreadPoolExecutor(_THREADS) as pool:
        if not all(pool.map(invert, halves)):
            raise np.linalg.LinAlgError
    H *= scale[:, :, None]
    H *= scale[:, None, :]
    return H


def _newton(
    D: scipy.sparse.csr_array, inverse: Floats, u: Floats, s: Floats, z: Floats, slack: Floats, target: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the steps of u, s, y and z towards ``s z = target`` and vanishing slack of the dual."""
    g = slack + (target / s - z) @ D
    moved = (inverse @ g[:, :, None])[:, :, 0]
    lacking = 1 - u.sum(axis=0)
    dy = np.linalg.solve(inverse.sum(axis=0), lacking + moved.sum(axis=0))
    du = inverse @ dy - moved
    ds = -(du @ D.T)
    return du, ds, dy, target / s - z - z / s * ds


def _length(value: Floats, change: Floats) -> float:
    """Return the longest step, at most 1, that keeps ``value + step * change`` from going below zero."""
    ratio = np.where(change < 0, -value / np.where(change < 0, change, -1), np.inf)
    return float(min(1.0, ratio.min()))


@dataclass(frozen=True, slots=True)
class Exponential:
    """Take ``M[i,j] = e^(-t d(i,j)) / Σ_k e^(-t d(i,k))`` with the largest t that the budget allows: fast, any size.

    ``t = ε/2`` always meets it; how much more does is found by bisection on the edges. With ranks this is the geometric
    mechanism cut off at both ends, in a form whose rows are renormalised.

    Examples
    --------
    >>> from postrand.designers import design
    >>> from postrand.codebook.category_distances import ranks
    >>> from postrand.objectives import ExpectedDistance
    >>> d = design([0.2, 0.3, 0.3, 0.2], MetricPrivacy(1.0, ranks(4)), ExpectedDistance(ranks(4)), Exponential())
    >>> d.status, d.value < 1.1
    ('local', True)
    """

    name: ClassVar[str] = "exponential"
    traits: ClassVar[StructureTraits] = StructureTraits(
        "The probability of an answer decreases with its distance from the true one, for any map; it is fast.",
        models=(MetricPrivacy,),
        rank=90,
    )

    def solve(self, prior: Floats, privacy: PrivacyModel, objective: Objective) -> Solution:
        """Return the closed form, as floats; no bound is known."""
        model = require(self, privacy, objective, prior.size)
        distance = _distance(model, prior.size)
        ends = np.array([e[:2] for e in model.edges])
        budget = model.epsilon * (1 - _MARGIN) * np.array([e[2] for e in model.edges])
        low, high = model.epsilon / 2 * (1 - _MARGIN), model.epsilon
        for _ in range(50):
            middle = (low + high) / 2
            log = _log_exponential(distance, middle)
            meets = (np.abs(log[ends[:, 0]] - log[ends[:, 1]]).max(axis=1) <= budget).all()
            low, high = (middle, high) if meets else (low, middle)
        array = np.exp(_log_exponential(distance, low))
        worst = math.inf if objective.maximise else -math.inf
        return Solution(array / array.sum(axis=1, keepdims=True), worst, {"rate": low})


def _log_exponential(distance: Floats, rate: float) -> Floats:
    log = -rate * distance
    normal: Floats = log - np.log(np.exp(log).sum(axis=1, keepdims=True))
    return normal


@dataclass(frozen=True, slots=True)
class Geometric:
    """Take the geometric mechanism on ranks, what falls beyond either end gathered there: fast, exactly ε d.

    With ``a = e^-ε``: ``M[i,j] = (1-a)/(1+a) a^|i-j|`` inside, ``a^|i-j| / (1+a)`` for j at an end.

    Examples
    --------
    >>> from postrand.designers import design
    >>> from postrand.codebook.category_distances import ranks
    >>> from postrand.objectives import ExpectedDistance
    >>> design([0.5, 0.5], MetricPrivacy(1.0, ranks(2)), ExpectedDistance(ranks(2)), Geometric()).status
    'local'
    """

    name: ClassVar[str] = "geometric"
    traits: ClassVar[StructureTraits] = StructureTraits(
        "The probability of an answer decreases by one factor with each step from the true one: for ordered answers.",
        models=(MetricPrivacy,),
        rank=100,
    )

    def solve(self, prior: Floats, privacy: PrivacyModel, objective: Objective) -> Solution:
        """Return the closed form, as floats; no bound is known."""
        model = require(self, privacy, objective, prior.size)
        size = prior.size
        steps = {tuple(sorted(e[:2])) for e in model.edges}
        if steps != {(i, i + 1) for i in range(size - 1)} or len({e[2] for e in model.edges}) > 1:
            raise DesignError(sentence("the geometric mechanism needs ranks", fix="use structure 'exponential'"))
        a = math.exp(-model.epsilon * model.edges[0][2])
        gap = np.abs(np.arange(size)[:, None] - np.arange(size))
        array = a**gap * (1 - a) / (1 + a)
        array[:, [0, -1]] = a ** gap[:, [0, -1]] / (1 + a)
        worst = math.inf if objective.maximise else -math.inf
        return Solution(array, worst)
