"""The entry point of design: it takes a problem and returns a matrix with its proof."""

from __future__ import annotations

import math

from numpy.typing import ArrayLike

from postrand.designers.differential.uniform_offdiagonal import UniformOffDiagonal
from postrand.designers.problem import OPTIMAL_GAP, Design, Prior, Solution, Status, as_prior
from postrand.designers.rounding import round_inside
from postrand.designers.suitability import Structure, require
from postrand.errors import DesignError, sentence, shown
from postrand.mechanism.matrix import TransitionMatrix
from postrand.objectives import MutualInformation, Objective, value_of
from postrand.privacy import PrivacyModel, require_size

_ROUNDING = 1e-12
"""A bound may lie so much on the wrong side of the value, in the objective's unit, by rounding alone."""

_WANTED: dict[type, str] = {
    PrivacyModel: "name, traits, check and constraints, as of DifferentialPrivacy(1.0)",
    Objective: "name, traits, maximise and value, as of MutualInformation()",
    Structure: "name, traits and solve, as of General()",
}


def design(
    prior: Prior | ArrayLike,
    privacy: PrivacyModel,
    objective: Objective | None = None,
    structure: Structure | None = None,
) -> Design:
    """Return the matrix of ``structure`` that is best for ``objective`` among those that meet ``privacy``.

    Parameters
    ----------
    prior
        Category probabilities, shape (S,), summing to 1; a :class:`Prior` also says where they came from.
    privacy
        The guarantee; the returned *exact law* meets it, by exact comparison of integers.
    objective
        What to keep or save; default :class:`MutualInformation`.
    structure
        The family of matrices searched; default :class:`UniformOffDiagonal`.

    Raises
    ------
    DesignError
        If the prior is not a distribution, or the structure has no algorithm for this combination
        (:func:`postrand.designers.suitability` says so beforehand), or none converged.
    PrivacyError
        If ε is outside what exact laws of S categories can hold.

    Examples
    --------
    >>> from postrand.privacy import DifferentialPrivacy
    >>> d = design([0.5, 0.3, 0.2], privacy=DifferentialPrivacy(1.0))
    >>> d.status, d.bound >= d.value > 0.08, d.matrix.epsilon <= 1.0
    ('optimal', True, True)
    """
    prior = as_prior(prior)
    objective = MutualInformation() if objective is None else objective
    structure = UniformOffDiagonal() if structure is None else structure
    for part, kind in ((privacy, PrivacyModel), (objective, Objective), (structure, Structure)):
        if not isinstance(part, kind) or isinstance(part, type):
            raise DesignError(sentence(f"not a {kind.__name__}", got=shown(part, repr), wanted=_WANTED[kind]))
    require_size(privacy, prior.size)
    require(structure, privacy, objective, prior.size)
    solution = structure.solve(prior.p, privacy, objective)
    return _finish(solution, prior, privacy, objective)


def _finish(solution: Solution, prior: Prior, privacy: PrivacyModel, objective: Objective) -> Design:
    """Round, evaluate the exact law, and say what is proven about it."""
    found = solution.array
    matrix = found if isinstance(found, TransitionMatrix) else round_inside(found, privacy)
    finding = privacy.check([matrix])
    if not finding.holds:
        raise DesignError(sentence("the designed matrix does not meet its privacy model", got=finding.sentence))
    value = value_of(objective, matrix, prior.p)
    # The bound is proven for real numbers; a value above it can only be rounding in the last digits of either.
    beyond = value - solution.bound if objective.maximise else solution.bound - value
    bound = max(solution.bound, value) if objective.maximise else min(solution.bound, value)
    if beyond > OPTIMAL_GAP * abs(value) + _ROUNDING:  # a bound that its own matrix beats proves nothing
        bound = math.inf if objective.maximise else -math.inf
    status, message = _verdict(value, bound, objective)
    if prior.p.max() == 1:
        message += " The prior puts all mass on one category: there is nothing to learn, so information is 0."
    message = " ".join([message, *solution.details.get("notes", ())])
    return Design(matrix, value, bound, status, message, solution.details, prior.provenance)


def _verdict(value: float, bound: float, objective: Objective) -> tuple[Status, str]:
    gap = abs(bound - value)
    if not math.isfinite(bound):
        return "local", "No bound is known for this combination: other matrices can be better."
    if gap <= OPTIMAL_GAP * abs(value) or gap == 0:
        return "optimal", "No matrix of this structure is better."
    share = f"{gap / abs(value):.1e} relative" if value else f"{gap:.1e}"
    side = "above" if objective.maximise else "below"
    return "bounded", f"The best matrix of this structure is at most {share} {side} this one."
