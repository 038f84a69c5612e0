"""The best probabilities of subsets: a convex optimal design, with the bound of the equivalence theorem.

Minimise ``Φ(π) = Σ_t w_t / M_t`` with ``M = Σ_T π_T I_T`` over the simplex. For any a >= 0, ``1/x >= 2a - a² x`` gives

    Φ(π) >= (Σ_t w_t a_t)² / max_T Σ_t w_t a_t² I_{T,t}    for every π,

and at the optimum ``a = 1/M`` makes the two sides equal (Kiefer and Wolfowitz). The bound takes every candidate into
account, not only those that an algorithm has looked at, and it is moved outward by more than sums of floats can lose.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.designers.split.rows import Rows
from postrand.designers.split.subsets import ROUNDING, Columns, Pool, joined, multiplied
from postrand.errors import DesignError, sentence

Floats = NDArray[np.float64]

_LOSS = 5e-11  # of the value, for fewer subsets
_NEWTON = 100
_BOUNDARY = 0.99
_CENTRED = 2e-12  # relative: beyond it rounding grows faster than the gap shrinks
_NEGLIGIBLE = (1e-8, 1e-10, 1e-12)
_DENSE = 1 << 24
_FACTORED = 700  # questions up to which Newton's equations are solved; beyond, steps that need no equation
_STEPS = 10_000
_CROWDED = 3  # columns for each question: beyond it those that are far from gaining are left out
_NEAR = 1 - 1e-4
_LEAST = 1e-3  # of the value, as a bound where there is none


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """Hold subsets with their probabilities, ``Φ`` there, and a proven lower bound of Φ over all candidates.

    ``prices``: c_t, such that ``Σ_t c_t I_{T,t}`` is what a candidate T would gain.
    """

    columns: Columns
    probabilities: Floats
    value: float
    bound: float
    prices: Floats


def optimal(pool: Pool, weights: Floats, worst: bool = False) -> Optimum:
    """Return the best design over a pool, by generating its columns.

    ``worst``: minimise ``max_t w_t / M_t`` in place of the sum: a linear programme, with the bound of its dual.

    Raises
    ------
    DesignError
        If the linear programme fails.
    """
    columns, bound = pool.start(weights), pool.least(weights, worst)
    master = _worst if worst else _mean
    for done in range(1, pool.rounds + 1):
        pi, prices, top = master(columns.rows, weights)
        value = value_of(columns.rows, pi, weights, worst)
        if value - bound <= pool.target * value:
            break
        gains = columns.rows @ prices
        last = done == pool.rounds
        prove = last or done & (done - 1) == 0  # a proof is long: after 1, 2, 4, 8, ... rounds
        within = (value - bound) / max(bound, _LEAST * value)
        best, fresh = pool.price(prices, float(gains.max()), within, prove=prove)
        bound = max(bound, top / best * (1 - ROUNDING))
        known = set(columns.labels())
        new = np.flatnonzero([label not in known for label in fresh.labels()])
        if value - bound <= pool.target * value or not new.size or last:
            break
        if len(gains) > _CROWDED * len(weights):
            columns = columns.take(np.flatnonzero((pi > _NEGLIGIBLE[-1]) | (gains >= _NEAR * gains.max())))
        columns = joined(columns, fresh.take(new))
    pi = pi if worst else _cleaned(columns.rows, pi, weights)
    used = np.flatnonzero(pi > 0)
    pi = pi[used] / pi[used].sum()
    return Optimum(columns.take(used), pi, value_of(columns.rows[used], pi, weights, worst), bound, prices)


def value_of(rows: Rows, pi: Floats, weights: Floats, worst: bool = False) -> float:
    """Return ``Σ_t w_t / M_t``, or the largest term; inf where a question is covered by no subset."""
    total = rows.T @ pi
    if not (total > 0).all():
        return math.inf
    terms = weights / total
    return float(terms.max()) if worst else math.fsum(terms)


def _mean(rows: Rows, weights: Floats) -> tuple[Floats, Floats, float]:
    """Return the best probabilities of some subsets, the prices ``w/M²``, and ``(Σ w/M)²``."""
    pi = _interior(rows, weights) if len(weights) <= _FACTORED else multiplied(rows, weights, _STEPS)
    total = rows.T @ pi
    return pi, weights / total**2, math.fsum(weights / total) ** 2


def _cleaned(rows: Rows, pi: Floats, weights: Floats) -> Floats:
    """Return the probabilities without what an interior point leaves on every subset, where that costs nothing."""
    value = value_of(rows, pi, weights)
    if len(weights) > _FACTORED:
        return pi
    for least in _NEGLIGIBLE:
        kept = np.flatnonzero(pi > least)
        some = _interior(rows[kept], weights) if kept.size else pi[kept]
        if kept.size and value_of(rows[kept], some, weights) <= value * (1 + _LOSS):
            found = np.zeros(pi.size)
            found[kept] = some
            return found
    return pi


def _interior(rows: Rows, weights: Floats) -> Floats:
    """Return the minimiser of ``Σ w / (Aᵀ x) + Σ x`` over x >= 0, scaled to sum to 1, by a primal-dual Newton method.

    Φ is homogeneous of degree -1, so that the minimiser is in proportion to the best π, and no equation is left.
    """
    array = rows.toarray() if math.prod(rows.shape) <= _DENSE else rows
    m = rows.shape[0]
    x, s = np.full(m, 1 / m), np.ones(m)
    x *= math.sqrt((weights / (rows.T @ x)).sum())
    for _ in range(_NEWTON):
        total = array.T @ x
        mu = float(x @ s) / m
        if mu * m <= _CENTRED * x.sum():
            break
        centre = 0.1 * mu
        right = centre / x - 1 + array @ (weights / total**2)
        try:
            dx = _newton(array, 2 * weights / total**3, x / s, right)
        except np.linalg.LinAlgError:  # so near the optimum that floats tell no more directions apart
            break
        ds = centre / x - s - s / x * dx
        step = min(_room(x, dx), _room(s, ds))
        x, s = x + step * dx, s + step * ds
    return np.asarray(x / x.sum())


def _newton(array: Any, curve: Floats, theta: Floats, right: Floats) -> Floats:
    """Solve ``(diag(1/θ) + A diag(curve) Aᵀ) d = right`` in the smaller of the two dimensions."""
    m, q = array.shape
    if m <= q:
        matrix = _gram(array.T, curve)
        scale = np.sqrt(theta)
        matrix *= scale[:, None] * scale
        matrix[np.diag_indices(m)] += 1
        return np.asarray(scale * np.linalg.solve(matrix, scale * right))
    scale = np.sqrt(curve)
    matrix = _gram(array, theta) * (scale[:, None] * scale)
    matrix[np.diag_indices(q)] += 1
    inner = scale * np.linalg.solve(matrix, scale * (array.T @ (theta * right)))
    return np.asarray(theta * (right - array @ inner))


def _gram(array: Any, weights: Floats) -> Floats:
    """Return ``Aᵀ diag(w) A`` of a dense or sparse A."""
    if isinstance(array, np.ndarray):
        return np.asarray(array.T @ (weights[:, None] * array))
    return np.asarray((array.T @ scipy.sparse.diags_array(weights) @ array).toarray())


def _room(x: Floats, direction: Floats) -> float:
    """Return how far to go without leaving the positive numbers, at most 1."""
    falling = direction < 0
    if not falling.any():
        return 1.0
    return min(1.0, _BOUNDARY * float((-x[falling] / direction[falling]).min()))


def _worst(rows: Rows, weights: Floats) -> tuple[Floats, Floats, float]:
    """Return the probabilities that maximise ``z = min_t M_t / w_t`` over some subsets, dual prices ``y/w``, and 1."""
    m, q = rows.shape
    unit = float((rows.T @ np.full(m, 1 / m) / weights).min())
    scaled = -(rows.toarray().T * (1 / weights / unit)[:, None])
    above = scipy.sparse.csr_array(np.column_stack([scaled, np.ones(q)]))
    total = np.append(np.ones(m), 0.0)[None, :]
    cost = np.append(np.zeros(m), -1.0)
    limits = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = scipy.optimize.linprog(cost, above, np.zeros(q), total, [1.0], method="highs", options=limits)
    if found.status != 0:
        raise DesignError(sentence("the linear programme of the worst table found no solution", got=found.message))
    y = np.maximum(-found.ineqlin.marginals, 0)
    pi = np.maximum(found.x[:-1], 0)
    return pi / pi.sum(), y / y.sum() / weights, 1.0


def best_worst(rows: Rows, weights: Floats) -> Floats:
    """Return the probabilities of some subsets, which cover every question, with the least largest ``w_t / M_t``."""
    return _worst(rows, weights)[0]
