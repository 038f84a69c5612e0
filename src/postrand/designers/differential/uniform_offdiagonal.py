"""The uniform off-diagonal family (ABC (8)): ``M[k,k] = q_k``, every other entry of row k ``(1-q_k)/(S-1)``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from postrand.designers.differential.polytope import MAX_SEARCHED, best_local
from postrand.designers.differential.sign_patterns import best_pattern
from postrand.designers.differential.symmetric import Symmetric
from postrand.designers.differential.whole_record import best_vertex
from postrand.designers.feasible import FeasibleSet, corner_values
from postrand.designers.problem import Solution
from postrand.designers.rounding import mixing_weights
from postrand.designers.suitability import ROUNDING, StructureTraits, require
from postrand.errors import DesignError, sentence
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.objectives import ExpectedChanges, MutualInformation, Objective, WholeRecord
from postrand.privacy import DifferentialPrivacy, PrivacyModel


@dataclass(frozen=True, slots=True)
class UniformOffDiagonal:
    """Search ``M[k,k] = q_k``, other entries ``(1-q_k)/(S-1)``, one free ``q_k`` a category (ABC (8)).

    Information is maximised globally, for every S >= 2, ε > 0 and prior: ABC's own optimiser stopped at local optima.
    So is that of the whole record where the vertices can all be tried, about 12 categories; beyond with a bound.
    Expected changes are minimised exactly. Any other objective is searched from several starts, for S <= 24: a local
    optimum, no worse than randomised response; of the estimator's variance with a lower bound over all ε-DP matrices.

    Examples
    --------
    >>> from postrand.designers import design
    >>> d = design([0.606, 0.216, 0.08, 0.058, 0.04], DifferentialPrivacy(1.0), structure=UniformOffDiagonal())
    >>> d.status, d.details["pattern"]
    ('optimal', 'q = 0.0842 (4 categories), q = 0.6223 (1 category)')
    """

    name: ClassVar[str] = "uniform-off-diagonal"
    traits: ClassVar[StructureTraits] = StructureTraits(
        "An answer that changes is equally likely to become any other. Each category has its own probability to stay.",
        models=(DifferentialPrivacy,),
        rank=10,
    )

    def contains(self, array: NDArray[np.float64]) -> bool:
        """Tell whether every row of a matrix (S, S) has one value off the diagonal, up to rounding."""
        off = array[~np.eye(len(array), dtype=bool)].reshape(len(array), -1)
        return bool((np.ptp(off, axis=1) <= ROUNDING).all())

    def solve(self, prior: NDArray[np.float64], privacy: PrivacyModel, objective: Objective) -> Solution:
        """Return the global optimum, rounded inside the family."""
        model = require(self, privacy, objective, prior.size)
        return _EXACT.get(type(objective), _searched)(prior, model, objective)

    def refuses(self, privacy: PrivacyModel, objective: Objective, size: int) -> str | None:
        """Say where the family is too large to search for an objective without an exact method."""
        if type(objective) in _EXACT or size <= MAX_SEARCHED:
            return None
        what, fix = "too many categories to search", "use structure 'symmetric' or 'circulant'"
        return sentence(what, where=f"objective {objective.name!r}", got=size, wanted=f"S <= {MAX_SEARCHED}", fix=fix)

    def stand_in(self, objective: Objective, size: int) -> Symmetric:
        """Return a part of the family in which the best matrix is found in a moment, whatever the objective."""
        return Symmetric()

    def feasible_set(self, size: int, epsilon: float) -> FeasibleSet:
        """Return the diagonals q that ε-DP allows: ``C q <= b`` (ABC Fact 1), vertices, a test."""
        return FeasibleSet(size, epsilon)


def _most_information(prior: NDArray[np.float64], privacy: DifferentialPrivacy, objective: Objective) -> Solution:
    """Return the vertex that keeps most information, of all."""
    if prior.size == 2:
        return _binary(prior, privacy, objective)
    pattern = best_pattern(prior, privacy.epsilon)
    law = round_family(pattern.off, privacy)
    details = {"nodes": pattern.nodes, "pattern": describe(law)}
    return Solution(law, pattern.bound, details)


def _whole_record(prior: NDArray[np.float64], privacy: DifferentialPrivacy, objective: WholeRecord) -> Solution:
    """Return the best vertex for what is kept beyond the clear variables, beside what the usual optimum keeps of it."""
    if prior.size == 2:
        return _binary(prior, privacy, objective)
    found = best_vertex(*objective.classes(prior), prior, privacy.epsilon)
    law = round_family(found.off, privacy)
    note = f"The matrix that is best for information by itself would keep {found.usual:.6g} of this."
    details = {"pattern": describe(law), "tried": found.tried, "usual": found.usual, "notes": (note,)}
    return Solution(law, found.bound, details)


def _binary(prior: NDArray[np.float64], privacy: DifferentialPrivacy, objective: Objective) -> Solution:
    """Return randomised response: of the four vertices, two release a constant and two are it (ABC §3.2.2)."""
    high = 1 / (1 + math.exp(-privacy.epsilon))
    ideal = objective.value(np.array([[high, 1 - high], [1 - high, high]]), prior)
    law = randomised_response(2, privacy.epsilon)
    return Solution(law, ideal * (1 + 1e-14), {"nodes": 0, "pattern": describe(law)})


def _searched(prior: NDArray[np.float64], privacy: DifferentialPrivacy, objective: Objective) -> Solution:
    """Return the best local optimum found, or randomised response where rounding has cost more than the search won."""
    found = round_family((1 - best_local(prior, privacy.epsilon, objective)) / (prior.size - 1), privacy)
    response, sign = randomised_response(prior.size, privacy.epsilon), 1 if objective.maximise else -1
    law = max((found, response), key=lambda law: sign * objective.value(law.array, prior))
    bound = objective.least(prior, privacy.epsilon) if hasattr(objective, "least") else sign * math.inf
    return Solution(law, bound, {"pattern": describe(law)})


def _fewest_changes(prior: NDArray[np.float64], privacy: DifferentialPrivacy, objective: Objective) -> Solution:
    """Return the vertex with the smallest ``Σ p_k (S-1) o_k``: everyone low, and the heaviest category least."""
    size = prior.size
    if size == 2:
        rows = [1 - q for q in FeasibleSet(2, privacy.epsilon).vertices()]
    else:
        rows = []
        for least, _, low, _ in corner_values(size, privacy.epsilon):
            rows.append(np.full(size, low))
            rows[-1][prior.argmax()] = least
    off = min(rows, key=lambda row: float(prior @ row))
    bound = float(prior @ off) * (size - 1) * (1 - 1e-12)
    law = round_family(off, privacy)
    return Solution(law, bound, {"nodes": 0, "pattern": describe(law)})


_EXACT: dict[type, Callable[[NDArray[np.float64], DifferentialPrivacy, Any], Solution]] = {
    MutualInformation: _most_information,
    WholeRecord: _whole_record,
    ExpectedChanges: _fewest_changes,
}
"""The objectives that the family has an exact method for; any other is searched."""


def round_family(off: NDArray[np.float64], privacy: PrivacyModel) -> TransitionMatrix:
    """Return the exact law of the family nearest ``off`` (S,) that meets the model.

    The few distinct values are rounded up or down in all ways; where none holds, all are mixed towards 1/S.

    Raises
    ------
    DesignError
        If even a quarter of mixing does not meet the model.
    """
    size, off = off.size, off.clip(min=0)  # near ε = 33 a small entry is lost in the digits of 1
    for t in mixing_weights():
        values, places = np.unique(((1 - t) * off + t / size) * UNIT, return_inverse=True)
        for up in product((True, False), repeat=len(values)) if len(values) <= 4 else [np.zeros(len(values), bool)]:
            whole = np.where(up, np.ceil(values), np.floor(values)).astype(np.int64)[places]
            stays = UNIT - (size - 1) * whole
            if stays.min() >= 0 and privacy.check([law := TransitionMatrix.constant(stays, whole)]).holds:
                return law
    raise DesignError(sentence("the matrix cannot be rounded inside the privacy model", got=privacy))


def describe(law: TransitionMatrix) -> str:
    """Return the diagonal's values and how many categories take each, smallest first."""
    values, counts = np.unique(law.diagonal.round(4), return_counts=True)
    words = ["category" if n == 1 else "categories" for n in counts]
    return ", ".join(f"q = {v:.4f} ({n} {word})" for v, n, word in zip(values, counts, words, strict=True))
