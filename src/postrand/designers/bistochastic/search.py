"""Objectives that are not convex: the best law found at a given β, from several starts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.designers.bistochastic.truthfulness import truthful

MAX_SEARCHED = 8
"""Up to this size the starts are improved by a local solver with S² unknowns; beyond it the best start is returned."""

_LEAST = 1e-12
_MARGIN = 1e-11

Cost = Callable[[NDArray[np.float64]], float]
Slope = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def best_found(cost: Cost, slope: Slope | None, prior: NDArray[np.float64], beta: float) -> NDArray[np.float64]:
    """Return the bistochastic float matrix of least ``cost`` found with ``H(P) >= β ln S``, shape (S, S).

    Starts: the most truthful law for the prior; the same for a uniform prior (equal diagonals); and the rarest
    categories mixed while all others stay, for the fewest that suffice. Nothing is drawn at random.
    """
    candidates = list(_starts(prior, beta))
    if prior.size <= MAX_SEARCHED:
        candidates += [_improve(cost, slope, start, beta) for start in list(candidates) if np.isfinite(cost(start))]
    feasible = [inside(array, beta) for array in candidates]
    return min(feasible, key=cost)


def inside(array: NDArray[np.float64], beta: float) -> NDArray[np.float64]:
    """Balance rows and columns, then mix towards the uniform law, which has most entropy, just until β is held."""
    size = array.shape[0]
    array = np.asarray(np.clip(array, 0, 1), dtype=np.float64)
    for _ in range(200):
        array = array / array.sum(axis=0)
        array = array / array.sum(axis=1, keepdims=True)
    # Scaling is slow where a matrix nearly falls apart into blocks: what is left over goes where sums fall short.
    array = array / np.maximum(array.sum(axis=0), 1)
    rows, columns = (np.maximum(1 - array.sum(axis=axis), 0) for axis in (1, 0))
    array = array + np.outer(rows, columns) / max(rows.sum(), columns.sum(), 1e-300)
    needed = min(beta + _MARGIN, 1.0) * math.log(size)

    def excess(t: float) -> float:
        return _entropy((1 - t) * array + t / size) - needed

    if excess(0.0) >= 0:
        return array
    t: float = scipy.optimize.brentq(excess, 0.0, 1.0, xtol=1e-15) if excess(1.0) > 0 else 1.0
    mixed: NDArray[np.float64] = (1 - t) * array + t / size
    return mixed


def _starts(prior: NDArray[np.float64], beta: float) -> Iterator[NDArray[np.float64]]:
    size = prior.size
    yield truthful(prior, beta).matrices[0].array
    yield truthful(np.full(size, 1 / size), beta).matrices[0].array
    order, mixed = np.argsort(prior, kind="stable"), 1
    while mixed < size and mixed * math.log(mixed) < beta * size * math.log(size):
        mixed += 1
    # Within the mixed categories only as much as is needed: the rest of β that fewer of them would leave open.
    inner = min(beta * size * math.log(size) / (mixed * math.log(mixed)), 1 - 1e-9) if mixed > 1 else 0.0
    array = np.eye(size)
    array[np.ix_(order[:mixed], order[:mixed])] = truthful(np.full(mixed, 1 / mixed), inner).matrices[0].array
    yield array


def _improve(cost: Cost, slope: Slope | None, start: NDArray[np.float64], beta: float) -> NDArray[np.float64]:
    """Descend from ``start`` by sequential quadratic programming; its last point is as good as any other candidate."""
    size = start.shape[0]
    sums = np.vstack([np.kron(np.eye(size), np.ones(size)), np.kron(np.ones(size), np.eye(size))[:-1]])
    needed = beta * math.log(size)
    constraints = [
        {"type": "eq", "fun": lambda x: sums @ x - 1, "jac": lambda x: sums},
        {
            "type": "ineq",
            "fun": lambda x: _entropy(x.reshape(size, size)) - needed,
            "jac": lambda x: -(np.log(np.maximum(x, _LEAST)) + 1) / size,
        },
    ]
    found = scipy.optimize.minimize(
        lambda x: cost(x.reshape(size, size)),
        np.clip(0.999 * start + 0.001 / size, _LEAST, 1).ravel(),
        jac=None if slope is None else lambda x: slope(x.reshape(size, size)).ravel(),
        method="SLSQP",
        bounds=[(_LEAST, 1.0)] * size**2,
        constraints=constraints,
        options={"maxiter": 100, "ftol": 1e-12},
    )
    return np.asarray(found.x, dtype=np.float64).reshape(size, size) if np.isfinite(found.x).all() else start


def _entropy(array: NDArray[np.float64]) -> float:
    return float(-scipy.special.xlogy(array, array).sum() / array.shape[0])
