"""All ε-DP matrices: the most informative one, and what it costs the analyst."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from postrand.design.agreement import most_agreement
from postrand.design.circulant import Circulant
from postrand.design.polytope import MAX_SEARCHED
from postrand.design.problem import DesignWarning, Solution, Structure, refuse
from postrand.design.staircase import EXACT_SIZE, Staircase, best_staircase
from postrand.design.symmetric import Symmetric
from postrand.design.uniform_offdiagonal import UniformOffDiagonal
from postrand.design.whole_record import best_channel
from postrand.errors import DesignError, sentence
from postrand.matrix import TransitionMatrix
from postrand.objectives import EstimatorVariance, ExpectedChanges, MutualInformation, Objective, WholeRecord
from postrand.privacy import DifferentialPrivacy, PrivacyModel

MAX_SIZE = 600
ILL_CONDITIONED = 1e6
_LARGE = 100
_LARGEST_EPSILON = 30.0
"""Beyond it e^ε is out of the solvers' range; a matrix for a smaller ε holds the larger."""


@dataclass(frozen=True, slots=True)
class General:
    """Search all ε-DP matrices.

    Information: the staircase optimum, exact to rounding for S <= 16, with a proven gap beyond. Its released symbols
    are matched to the categories so that values agree as often as possible; categories left over are never released.
    So is that of the whole record, for S <= 16.
    Expected changes: an exact linear programme. Estimator variance is not convex: the best circulant or uniform
    off-diagonal matrix, with a lower bound over all ε-DP matrices. A user's objective is refused.

    ``details`` has ``rank``, ``condition`` (2-norm) and ``distinct_columns``. A singular or ill-conditioned matrix
    warns (:class:`DesignWarning`) and names the most informative invertible alternative.

    Examples
    --------
    >>> from postrand.design import design
    >>> d = design([0.3, 0.25, 0.2, 0.15, 0.1], DifferentialPrivacy(3.0), structure=General())
    >>> d.status, d.details["rank"]
    ('optimal', 5)
    """

    name: ClassVar[str] = "general"

    def solve(self, prior: NDArray[np.float64], privacy: PrivacyModel, objective: Objective) -> Solution:
        """Return the optimum over all ε-DP matrices, as floats."""
        if not isinstance(privacy, DifferentialPrivacy):
            raise refuse(self, privacy, "use privacy DifferentialPrivacy")
        if prior.size > MAX_SIZE:
            fix = "use structure UniformOffDiagonal or Circulant"
            raise DesignError(sentence("too many categories", got=prior.size, wanted=f"S <= {MAX_SIZE}", fix=fix))
        if isinstance(objective, ExpectedChanges):
            array, bound = most_agreement(prior, privacy.epsilon)
            return Solution(array, bound, describe(array))
        if isinstance(objective, EstimatorVariance):
            return _least_variance(prior, privacy, objective)
        solved = replace(privacy, epsilon=min(privacy.epsilon, _LARGEST_EPSILON))
        if isinstance(objective, WholeRecord):
            found = best_channel(*objective.classes(prior), solved.epsilon)
        elif isinstance(objective, MutualInformation):
            # The relative gap aimed at; rounds of the linear programme take seconds where S is large.
            tolerance = 1e-12 if prior.size <= EXACT_SIZE else 5e-7 if prior.size <= _LARGE else 8e-6
            found = best_staircase(prior, solved.epsilon, tolerance)
        else:
            raise refuse(self, objective, "use structure UniformOffDiagonal, Symmetric or Circulant")
        truth = float(objective.value(np.eye(prior.size), prior))  # no channel tells more
        bound = min(found.bound, truth) if solved.epsilon == privacy.epsilon else truth
        return _answer(prior, solved, objective, replace(found, bound=bound))


def _answer(
    prior: NDArray[np.float64], privacy: DifferentialPrivacy, objective: Objective, found: Staircase
) -> Solution:
    """Return the staircase as a matrix, with a warning where the analyst could not invert it."""
    array = to_categories(found.channel(privacy.epsilon), prior)
    details = {**describe(array), "rounds": found.rounds}
    if details["condition"] > ILL_CONDITIONED:
        text = _warning_of(details, prior, privacy, objective)
        warnings.warn(text, DesignWarning, stacklevel=4)
        details["notes"] = (text,)
    return Solution(array, found.bound * (1 + 1e-13), details)


def _least_variance(prior: NDArray[np.float64], privacy: DifferentialPrivacy, objective: EstimatorVariance) -> Solution:
    """Return the best of the structured matrices, bounded over all matrices."""
    members: list[Structure] = [Circulant(), Symmetric()]
    if prior.size <= MAX_SEARCHED:
        members.append(UniformOffDiagonal())
    found = {member.name: as_array(member.solve(prior, privacy, objective)) for member in members}
    name = min(found, key=lambda name: objective.value(found[name], prior))
    note = f"It is of structure {name!r}; the bound holds for every matrix."
    bound = objective.least(prior, privacy.epsilon)
    return Solution(found[name], bound, {**describe(found[name]), "notes": (note,)})


def as_array(solution: Solution) -> NDArray[np.float64]:
    """Return the solution's matrix as floats."""
    return solution.array.array if isinstance(solution.array, TransitionMatrix) else solution.array


def to_categories(channel: NDArray[np.float64], prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a square matrix: each column of the channel (S, K), K <= S, goes to the category it agrees with most.

    Raises
    ------
    DesignError
        If the channel has more columns than there are categories.
    """
    size, symbols = channel.shape
    if symbols > size:
        raise DesignError(sentence("the channel has more symbols than categories", got=symbols, wanted=f"<= {size}"))
    category, symbol = linear_sum_assignment(prior[:, None] * channel, maximize=True)
    square = np.zeros((size, size))
    square[:, category] = channel[:, symbol]
    return square


def describe(array: NDArray[np.float64]) -> dict[str, Any]:
    """Return rank, 2-norm condition number and number of distinct columns that are not zero."""
    values = np.linalg.svd(array, compute_uv=False)
    used = array.max(axis=0) > 0
    shapes = array[:, used] / array[:, used].max(axis=0)
    return {
        "rank": int((values > values[0] * 1e-12).sum()),
        "condition": float(values[0] / values[-1]) if values[-1] > values[0] * 1e-16 else math.inf,
        "distinct_columns": len(np.unique(shapes.T.round(9), axis=0)),
    }


def _warning_of(
    details: dict[str, Any], prior: NDArray[np.float64], privacy: DifferentialPrivacy, objective: Objective
) -> str:
    """Say what cannot be estimated, and which invertible structure keeps most."""
    size, state = prior.size, f"condition number {details['condition']:.2g}"
    if details["rank"] < size:
        state = f"rank {details['rank']} of {size}"
    alternatives: list[Structure] = [UniformOffDiagonal(), Circulant()]
    kept = {}
    for structure in alternatives:
        array = as_array(structure.solve(prior, privacy, objective))
        if describe(array)["condition"] <= ILL_CONDITIONED:
            kept[structure.name] = objective.value(array, prior)
    name = max(kept, key=lambda k: kept[k])
    return (
        f"The most informative matrix is not invertible in practice ({state}): not all frequencies can be estimated "
        f"from the release. Best invertible alternative: structure {name!r}, {kept[name]:.6g} nats."
    )
