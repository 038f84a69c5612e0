"""The bistochastic law that serves best at a given β (RDF §4)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from postrand.designers.bistochastic.bounds import information_upper, variance_lower
from postrand.designers.bistochastic.columns import MAX_PRICED, information_upper_by_columns
from postrand.designers.bistochastic.rounding import round_bistochastic
from postrand.designers.bistochastic.search import Slope, best_found, inside
from postrand.designers.bistochastic.truthfulness import truthful
from postrand.designers.problem import Solution
from postrand.designers.suitability import ROUNDING, StructureTraits, require
from postrand.mechanism.matrix import TransitionMatrix
from postrand.objectives import EstimatorVariance, ExpectedChanges, MutualInformation, Objective
from postrand.privacy import Bistochastic, PrivacyModel

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BistochasticMatrix:
    """All bistochastic matrices with ``H(P) >= β ln S``.

    Expected changes (truthfulness) are solved to proven optimality. Other objectives are not convex here: the best of
    several starts, improved locally up to 8 categories; with a proven bound for information and variance.

    Examples
    --------
    >>> from postrand.designers import design
    >>> best = design([0.5, 0.3, 0.2], Bistochastic(0.6), ExpectedChanges(), BistochasticMatrix())
    >>> best.status, best.matrix.is_bistochastic, best.matrix.beta >= 0.6, round(best.value, 4)
    ('optimal', True, True, 0.2025)
    """

    name: ClassVar[str] = "bistochastic"
    traits: ClassVar[StructureTraits] = StructureTraits(
        "All matrices whose rows and columns sum to 1: a uniform variable stays uniform.",
        models=(Bistochastic,),
        rank=50,
    )

    def contains(self, array: Array) -> bool:
        """Tell whether the columns of a matrix (S, S) sum to 1 too, up to rounding."""
        return bool((np.abs(array.sum(axis=0) - 1) <= ROUNDING).all())

    def solve(self, prior: Array, privacy: PrivacyModel, objective: Objective) -> Solution:
        """Return the best exact law found; raises DesignError for another privacy model."""
        beta = require(self, privacy, objective, prior.size).beta
        return _ALGORITHMS.get(type(objective), _searched)(prior, beta, objective)


def _truthful(prior: Array, beta: float, objective: Objective) -> Solution:
    best = truthful(prior, beta)
    return Solution(best.matrices[0], 1 - best.bound, {"temperature": best.temperature})


def _searched(prior: Array, beta: float, objective: Objective) -> Solution:
    """Return the best of several starts; the slope of the cost and a bound serve where they are known."""
    sign = -1.0 if objective.maximise else 1.0
    bound = _BOUNDS.get(type(objective))
    found = best_found(lambda M: sign * objective.value(M, prior), _slope(objective, prior), prior, beta)
    notes = ("The problem is not convex: this is the best result of several starts.",)
    proven = -sign * math.inf if bound is None else bound(prior, beta, objective)
    return Solution(_exact(found, beta), proven, {"notes": notes})


def _exact(array: Array, beta: float) -> TransitionMatrix:
    """Return the exact law next to a float matrix, mixed with the uniform one until rounding keeps β."""
    for margin in (0.0, 1e-10, 1e-9, 1e-8, 1e-7):
        law = round_bistochastic(inside(array, min(beta + margin, 1.0)))
        if law.beta >= beta:
            break
    return law


def _beyond(prior: Array, beta: float, objective: Objective) -> float:
    """Return a bound for two categories: of one unknown, ``M[0,0] = M[1,1] = q``, an end just beyond β."""
    beyond = truthful([0.5, 0.5], max(beta - 1e-11, 0.0)).matrices[0].array
    return objective.value(beyond, prior)


def _most_information(prior: Array, beta: float, objective: MutualInformation) -> float:
    if prior.size == 2 and beta < 1:
        return _beyond(prior, beta, objective)
    found = information_upper(prior, beta)
    return min(found, information_upper_by_columns(prior, beta)) if 2 < prior.size <= MAX_PRICED else found


def _least_variance(prior: Array, beta: float, objective: EstimatorVariance) -> float:
    if prior.size == 2 and beta < 1 and not objective.queries:
        return _beyond(prior, beta, objective)
    plain = objective.value(np.eye(prior.size), prior)  # perturbation never helps the analyst
    return plain if objective.queries else max(plain, variance_lower(prior, beta))


def _slope(objective: Objective, prior: Array) -> Slope | None:
    """Return the slope of the cost to be minimised, where it is known in closed form."""
    known = _SLOPES.get(type(objective))
    return None if known is None else known(prior, objective)


def _information_slope(prior: Array, objective: MutualInformation) -> Slope:
    return lambda M: -prior[:, None] * np.log(np.maximum(M, 1e-12) / np.maximum(prior @ M, 1e-300))


def _queries_slope(prior: Array, objective: EstimatorVariance) -> Slope:
    queries = objective.matrix(prior.size)
    return lambda M: _variance_slope(M, prior, queries)


def _variance_slope(M: Array, prior: Array, queries: Array) -> Array:
    """Return ``∂ tr(Q A Λ Aᵀ Qᵀ) / ∂M``: ``p_u |Q A_v|² - 2 [A Λ Aᵀ QᵀQ A]_uv``, ``A = (Mᵀ)^-1``, ``Λ = diag(Mᵀp)``."""
    A = np.linalg.pinv(M.T)
    answers = queries @ A
    slope: Array = np.outer(prior, (answers**2).sum(axis=0)) - 2 * (A * (prior @ M)) @ answers.T @ answers
    return slope


_ALGORITHMS: dict[type, Callable[[Array, float, Any], Solution]] = {ExpectedChanges: _truthful}
"""The objectives that have an exact method; any other is searched."""

_BOUNDS: dict[type, Callable[[Array, float, Any], float]] = {
    MutualInformation: _most_information,
    EstimatorVariance: _least_variance,
}
_SLOPES: dict[type, Callable[[Array, Any], Slope]] = {
    MutualInformation: _information_slope,
    EstimatorVariance: _queries_slope,
}
