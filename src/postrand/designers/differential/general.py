"""All ε-DP matrices: the most informative one, and what it costs the analyst."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.designers.differential.circulant import EXHAUSTIVE_SIZE, Circulant
from postrand.designers.differential.fewer_symbols import least_variance
from postrand.designers.differential.fewest_changes import most_agreement
from postrand.designers.differential.polytope import MAX_SEARCHED
from postrand.designers.differential.staircase import EXACT_SIZE, Staircase, best_staircase
from postrand.designers.differential.symmetric import Symmetric
from postrand.designers.differential.uniform_offdiagonal import UniformOffDiagonal
from postrand.designers.differential.whole_record import best_channel
from postrand.designers.problem import DesignWarning, Solution
from postrand.designers.suitability import Structure, StructureTraits, require
from postrand.errors import DesignError, sentence
from postrand.mechanism.matrix import TransitionMatrix
from postrand.objectives import EstimatorVariance, ExpectedChanges, MutualInformation, Objective, WholeRecord
from postrand.privacy import DifferentialPrivacy, PrivacyModel
from postrand.support.warned import warn

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
    Expected changes: an exact linear programme. A user's objective is refused.
    Estimator variance is a convex programme over channels of any number of released symbols: its optimum is the bound,
    of one query up to 60 different values and ε = 12, of several up to 14 and 60 / (queries + 1); beyond, weaker
    bounds. The matrix has S symbols at most: the best of those found near the optimum, of a two-symbol mechanism for
    each query (Duchi, Jordan & Wainwright 2018), and of the circulant and uniform off-diagonal ones. With few queries
    it is often singular: the queries can then be estimated (:func:`postrand.estimate.quantities`), single frequencies
    cannot.

    ``details`` has ``rank``, ``condition`` (2-norm) and ``distinct_columns``. A singular or ill-conditioned matrix
    warns (:class:`DesignWarning`) and names the most informative invertible alternative.

    Examples
    --------
    >>> from postrand.designers import design
    >>> d = design([0.3, 0.25, 0.2, 0.15, 0.1], DifferentialPrivacy(3.0), structure=General())
    >>> d.status, d.details["rank"]
    ('optimal', 5)
    """

    name: ClassVar[str] = "general"
    traits: ClassVar[StructureTraits] = StructureTraits(
        "Any matrix: the most information, but some categories can be merged in the release.",
        models=(DifferentialPrivacy,),
        objectives=(MutualInformation, WholeRecord, EstimatorVariance, ExpectedChanges),
        most=MAX_SIZE,
        rank=40,
        instead="structure 'uniform-off-diagonal', 'symmetric' or 'circulant'",
    )

    def solve(self, prior: NDArray[np.float64], privacy: PrivacyModel, objective: Objective) -> Solution:
        """Return the optimum over all ε-DP matrices, as floats."""
        model = require(self, privacy, objective, prior.size)
        return _ALGORITHMS[type(objective)](prior, model, objective)

    def stand_in(self, objective: Objective, size: int) -> Structure:
        """Return a part of it in which the best matrix is found in a moment, whatever the objective."""
        every = size <= EXHAUSTIVE_SIZE and not getattr(objective, "queries", ())
        return Circulant() if every else Symmetric()


def _fewest_changes(prior: NDArray[np.float64], privacy: DifferentialPrivacy, objective: Objective) -> Solution:
    """Return the optimum of a linear programme."""
    array, bound = most_agreement(prior, privacy.epsilon)
    return Solution(array, bound, describe(array))


def _most_information(prior: NDArray[np.float64], privacy: DifferentialPrivacy, objective: Objective) -> Solution:
    """Return the staircase that keeps most."""
    # The relative gap aimed at; rounds of the linear programme take seconds where S is large.
    tolerance = 1e-12 if prior.size <= EXACT_SIZE else 5e-7 if prior.size <= _LARGE else 8e-6
    return _staircase(prior, privacy, objective, lambda epsilon: best_staircase(prior, epsilon, tolerance))


def _whole_record(prior: NDArray[np.float64], privacy: DifferentialPrivacy, objective: WholeRecord) -> Solution:
    """Return the staircase that keeps most beyond the clear variables."""
    return _staircase(prior, privacy, objective, lambda epsilon: best_channel(*objective.classes(prior), epsilon))


def _staircase(
    prior: NDArray[np.float64],
    privacy: DifferentialPrivacy,
    objective: Objective,
    search: Callable[[float], Staircase],
) -> Solution:
    """Return what ``search`` finds for an ε in the solvers' range, with a bound for the ε asked for."""
    solved = replace(privacy, epsilon=min(privacy.epsilon, _LARGEST_EPSILON))
    found = search(solved.epsilon)
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
        warn(text, DesignWarning, stacklevel=6)
        details["notes"] = (text,)
    return Solution(array, found.bound * (1 + 1e-13), details)


def _least_variance(prior: NDArray[np.float64], privacy: DifferentialPrivacy, objective: EstimatorVariance) -> Solution:
    """Return the best of the matrices searched and of the structured ones, bounded over all channels."""
    members: list[Structure] = [Circulant(), Symmetric()]
    if prior.size <= MAX_SEARCHED:
        members.append(UniformOffDiagonal())
    found = {f"structure {m.name!r}": as_array(m.solve(prior, privacy, objective)) for m in members}
    cost = {name: objective.value(array, prior) for name, array in found.items()}
    usual = min(cost, key=lambda name: cost[name])
    channels, bound = least_variance(prior, privacy.epsilon, objective, list(found.values()))
    for channel in channels:
        array = to_categories(channel, prior)
        name = f"no other structure, with {channel.shape[1]} released values"
        if (value := objective.value(array, prior)) < cost.get(name, math.inf):
            found[name], cost[name] = array, value
    name = min(cost, key=lambda name: cost[name] * (1 if name == usual else 1 + 1e-9))  # of equals, the usual one
    notes: tuple[str, ...] = (f"It is of {name}; the bound holds for every matrix.",)
    details = describe(found[name])
    if name != usual and details["condition"] > ILL_CONDITIONED:
        text = _queries_alone(details, prior.size, usual, cost[usual], cost[name])
        warn(text, DesignWarning, stacklevel=4)
        notes = (*notes, text)
    return Solution(found[name], bound, {**details, "notes": notes})


_ALGORITHMS: dict[type, Callable[[NDArray[np.float64], DifferentialPrivacy, Any], Solution]] = {
    MutualInformation: _most_information,
    WholeRecord: _whole_record,
    EstimatorVariance: _least_variance,
    ExpectedChanges: _fewest_changes,
}


def _queries_alone(details: dict[str, Any], size: int, usual: str, worse: float, best: float) -> str:
    """Say that only the queries can be estimated, how, and what it costs to estimate every frequency too."""
    return (
        f"The matrix of least variance is not invertible in practice ({_state(details, size)}): not all frequencies "
        "can be estimated from the release. The queries asked for can: use estimate.quantities. Best invertible "
        f"alternative: {usual}, variance {worse:.6g} a record instead of {best:.6g}."
    )


def _state(details: dict[str, Any], size: int) -> str:
    if details["rank"] < size:
        return f"rank {details['rank']} of {size}"
    return f"condition number {details['condition']:.2g}"


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
    category, symbol = scipy.optimize.linear_sum_assignment(prior[:, None] * channel, maximize=True)
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
    alternatives: list[Structure] = [UniformOffDiagonal(), Circulant()]
    kept = {}
    for structure in alternatives:
        array = as_array(structure.solve(prior, privacy, objective))
        if describe(array)["condition"] <= ILL_CONDITIONED:
            kept[structure.name] = objective.value(array, prior)
    name = max(kept, key=lambda k: kept[k])
    return (
        f"The most informative matrix is not invertible in practice ({_state(details, prior.size)}): "
        "not all frequencies can be estimated from the release. "
        f"Best invertible alternative: structure {name!r}, {kept[name]:.6g} nats."
    )
