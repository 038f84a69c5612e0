"""Search of the uniform off-diagonal family for an objective that no exact method treats: local optima."""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.designers.feasible import FeasibleSet
from postrand.errors import DesignError, sentence
from postrand.objectives import Objective

Floats = NDArray[np.float64]

MAX_SEARCHED = 24
"""Beyond it the 3S(S-1) constraints make a search take longer than some seconds."""

_STARTS = 6
_STEPS = 200
_MARGIN = 1e-9  # how far the solver may step over a ratio of (10); rounding then moves inside


def best_local(prior: Floats, epsilon: float, objective: Objective, seed: int = 0) -> Floats:
    """Return the best diagonal q (S,) that sequential quadratic programming finds in ``C q <= b`` (ABC (11)).

    It starts from randomised response at both ends, and half-way from there to random vertices. The gradient is the
    objective's own where it has one, with every entry of M free; else finite differences.

    Raises
    ------
    DesignError
        If S > 24, or the objective is finite at no start.
    """
    if prior.size > MAX_SEARCHED:
        fix = "use structure Symmetric or Circulant"
        raise DesignError(
            sentence("too many categories to search", got=prior.size, wanted=f"S <= {MAX_SEARCHED}", fix=fix)
        )
    family, sign = FeasibleSet(prior.size, epsilon), -1.0 if objective.maximise else 1.0

    def cost(q: Floats) -> float:
        return sign * float(objective.value(family.matrix(q), prior))

    starts = _starts(family, seed)
    costs = np.array([cost(q) for q in starts])
    if not np.isfinite(costs).any():
        raise DesignError(sentence("the objective is not finite for any matrix of the family", got=objective.name))
    found = [(float(value), q) for value, q in zip(costs, starts, strict=True)]
    for value, q in zip(costs, starts, strict=True):
        if math.isfinite(value):
            found += _descend(family, objective, prior, q, sign, abs(float(value)) or 1.0)
    return min(((v, q) for v, q in found if math.isfinite(v)), key=lambda pair: pair[0])[1]


def _descend(
    family: FeasibleSet, objective: Objective, prior: Floats, start: Floats, sign: float, scale: float
) -> list[tuple[float, Floats]]:
    """Return the local optimum from one start and its cost, or nothing where the solver left the family."""
    gradient, size = getattr(objective, "gradient", None), prior.size

    def cost(q: Floats) -> float:
        value = sign * float(objective.value(family.matrix(q), prior))
        return value / scale if math.isfinite(value) else 1e12

    def slope(q: Floats) -> Floats:
        assert gradient is not None
        free = sign / scale * gradient(family.matrix(q), prior)
        diagonal = free.diagonal()
        along: Floats = diagonal - (free.sum(axis=1) - diagonal) / (size - 1)
        return along

    C, b = family.constraints()
    answer = scipy.optimize.minimize(
        cost,
        start,
        jac=None if gradient is None else slope,
        method="SLSQP",
        constraints=[scipy.optimize.LinearConstraint(C, -np.inf, b)],
        options={"maxiter": _STEPS, "ftol": 1e-13},
    )
    q = np.clip(answer.x, 0, 1)
    return [(cost(q) * scale, q)] if np.isfinite(q).all() and family.contains(q, _MARGIN) else []


def _starts(family: FeasibleSet, seed: int) -> list[Floats]:
    generator, size = np.random.default_rng(seed), family.size
    ends = [np.full(size, 1 / (1 + (size - 1) * math.exp(-e))) for e in (family.epsilon, -family.epsilon)]
    C, b = family.constraints()
    costs = generator.normal(size=(_STARTS, size))
    vertices = [scipy.optimize.linprog(cost, A_ub=C, b_ub=b, bounds=(0, 1), method="highs").x for cost in costs]
    return ends + [(q + ends[0]) / 2 for q in vertices if q is not None]  # none at ε = 36: coefficients of e^36
