"""The bistochastic law that serves best at a given β (RDF §4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from postrand.designers.bistochastic.bounds import information_upper, variance_lower
from postrand.designers.bistochastic.columns import MAX_PRICED, information_upper_by_columns
from postrand.designers.bistochastic.rounding import round_bistochastic
from postrand.designers.bistochastic.search import Slope, best_found, inside
from postrand.designers.bistochastic.truthfulness import truthful
from postrand.designers.problem import Solution, refuse
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

    def solve(self, prior: Array, privacy: PrivacyModel, objective: Objective) -> Solution:
        """Return the best exact law found; raises DesignError for another privacy model."""
        if not isinstance(privacy, Bistochastic):
            raise refuse(self, privacy, "privacy = bistochastic, with a beta")
        if isinstance(objective, ExpectedChanges):
            best = truthful(prior, privacy.beta)
            return Solution(best.matrices[0], 1 - best.bound, {"temperature": best.temperature})
        sign = -1.0 if objective.maximise else 1.0
        slope = _slope(objective, prior)
        found = best_found(lambda M: sign * objective.value(M, prior), slope, prior, privacy.beta)
        notes = ("Not a convex problem: the best of several starts.",)
        return Solution(_exact(found, privacy.beta), _bound(objective, prior, privacy.beta), {"notes": notes})


def _exact(array: Array, beta: float) -> TransitionMatrix:
    """Return the exact law next to a float matrix, mixed with the uniform one until rounding keeps β."""
    for margin in (0.0, 1e-10, 1e-9, 1e-8, 1e-7):
        law = round_bistochastic(inside(array, min(beta + margin, 1.0)))
        if law.beta >= beta:
            break
    return law


def _bound(objective: Objective, prior: Array, beta: float) -> float:
    plain_variance = isinstance(objective, EstimatorVariance) and not objective.queries
    if prior.size == 2 and (isinstance(objective, MutualInformation) or plain_variance) and beta < 1:
        # One unknown, M[0,0] = M[1,1] = q: both objectives improve as q leaves 1/2, so an end just beyond β is a bound.
        beyond = truthful([0.5, 0.5], max(beta - 1e-11, 0.0)).matrices[0].array
        return objective.value(beyond, prior)
    if isinstance(objective, MutualInformation):
        found = information_upper(prior, beta)
        return min(found, information_upper_by_columns(prior, beta)) if 2 < prior.size <= MAX_PRICED else found
    if isinstance(objective, EstimatorVariance):
        plain = objective.value(np.eye(prior.size), prior)  # perturbation never helps the analyst
        return plain if objective.queries else max(plain, variance_lower(prior, beta))
    return math.inf if objective.maximise else -math.inf


def _slope(objective: Objective, prior: Array) -> Slope | None:
    """Return the slope of the cost to be minimised, where it is known in closed form."""
    if isinstance(objective, MutualInformation):
        return lambda M: -prior[:, None] * np.log(np.maximum(M, 1e-12) / np.maximum(prior @ M, 1e-300))
    if isinstance(objective, EstimatorVariance):
        queries = objective.matrix(prior.size)
        return lambda M: _variance_slope(M, prior, queries)
    return None


def _variance_slope(M: Array, prior: Array, queries: Array) -> Array:
    """Return ``∂ tr(Q A Λ Aᵀ Qᵀ) / ∂M``: ``p_u |Q A_v|² - 2 [A Λ Aᵀ QᵀQ A]_uv``, ``A = (Mᵀ)^-1``, ``Λ = diag(Mᵀp)``."""
    A = np.linalg.pinv(M.T)
    answers = queries @ A
    slope: Array = np.outer(prior, (answers**2).sum(axis=0)) - 2 * (A * (prior @ M)) @ answers.T @ answers
    return slope
