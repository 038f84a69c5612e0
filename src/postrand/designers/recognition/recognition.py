"""Least L2 loss under security against spontaneous recognition (CHR §3, §4), alone or with other conditions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from postrand.designers.problem import Design, Prior, Solution
from postrand.designers.recognition.problem import Problem
from postrand.designers.recognition.search import Found, Proof, judge, search
from postrand.designers.rounding import round_inside
from postrand.designers.solve import design
from postrand.designers.suitability import StructureTraits, refusal, require
from postrand.errors import DesignError, SpecificationError, sentence, shown
from postrand.mechanism.matrix import MAX_CONDITION, TransitionMatrix
from postrand.objectives import Objective
from postrand.objectives.l2 import L2Loss
from postrand.privacy import DifferentialPrivacy, KeyTypes, PrivacyModel, SpontaneousRecognition, models_of
from postrand.support.inputs import finite, is_names, real_array

Vector = NDArray[np.float64]

MANY_MOVES = 10_000
"""Beyond so many moves (K = 100 types that all occur), ``auto`` takes the restricted variant: 2 s become hours."""


@dataclass(frozen=True, slots=True)
class LeastLoss:
    """Search the matrix of least L2 loss under C1, with ε-DP and invariant margins in the same programme if asked.

    The L2 loss is not convex and is the same for every relabelling of the released categories, so what is found is the
    best of several local optima near the identity: starting from the fewest expected changes (a linear programme), the
    smallest diagonal allowed is lowered step by step; then other starts are tried. Conditions are linear: only a
    problem proven infeasible in integers is refused. ``details["stationarity"]`` is the most that any feasible
    direction could still gain to first order, relative: a linear programme over *all* conditions and *all* moves of
    types that occur.

    With ``reach="cover"`` only frequent types (``U0 >= 1/α``) change, and only into types that occur less often (CHR
    §4, for large domains). Types that are changed into are then never changed themselves, so the loss is convex there,
    and ``bound`` is proven: ``f(M) + min ∇f(M)·(N - M)`` over the feasible N.

    Parameters
    ----------
    min_diagonal
        The smallest probability of releasing the truth that is allowed. Above 1/2 a bound is proven too:
        ``n² l2 >= c Σ U0 (1 - M_ii)``, ``c = 1 + (1 - a)²``, ``a = ρ² / (γ (1 - ρ²))``, ``ρ = (1-γ)/γ``.
    reach
        ``"all"`` moves, or ``"cover"``; ``"auto"`` is ``"all"`` on small domains and ``"cover"`` beyond, and says so.
    invariant
        Sets of key variables whose margins keep their expectation, ``U0ᵀM`` summed over the other keys.
    start
        One more matrix to start from, row by row. Where it meets all conditions itself (kept margins within 1e-6
        records), the answer is not worse.

    Raises
    ------
    DesignError
        If an option is out of range, no matrix meets the conditions, or the start is not a transition matrix that can
        be inverted.

    Examples
    --------
    >>> from postrand.privacy import SpontaneousRecognition
    >>> model = SpontaneousRecognition(alpha=0.1, subsets=2).on([[400, 90], [6, 120]])
    >>> d = least_loss(model)
    >>> d.matrix.array.round(4).tolist()[0], model.check([d.matrix]).holds
    ([0.9934, 0.0, 0.0066, 0.0], True)
    """

    name: ClassVar[str] = "least-loss"
    traits: ClassVar[StructureTraits] = StructureTraits(
        "Records of frequent types become records of rare types, as few as are needed to hide the rare types.",
        objectives=(L2Loss,),
        rank=70,
    )
    min_diagonal: float = 0.0
    reach: Literal["auto", "all", "cover"] = "auto"
    invariant: tuple[tuple[str, ...], ...] = ()
    start: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        if self.start is not None:
            rows = real_array(self.start, "the start", DesignError)
            _check_start(rows)
            object.__setattr__(self, "start", tuple(map(tuple, rows.tolist())))
        if not (isinstance(self.invariant, (list, tuple)) and all(map(is_names, self.invariant))):
            raise DesignError(sentence("invariant is not lists of names", got=shown(self.invariant, repr)))
        object.__setattr__(self, "invariant", tuple(tuple(s) for s in self.invariant))
        if not 0 <= finite(self.min_diagonal) < 1:
            got = shown(self.min_diagonal, repr)
            raise DesignError(sentence("min_diagonal is not a probability", got=got, wanted="0 <= γ < 1"))
        object.__setattr__(self, "min_diagonal", finite(self.min_diagonal))
        if not isinstance(self.reach, str) or self.reach not in ("auto", "all", "cover"):
            got = shown(self.reach, repr)
            raise DesignError(sentence("unknown reach", got=got, wanted="'auto', 'all' or 'cover'"))

    def solve(self, prior: Vector, privacy: PrivacyModel, objective: Objective) -> Solution:
        """Return the best matrix found, as an exact law; raises DesignError for another objective or no C1."""
        privacy = require(self, privacy, objective, prior.size)
        model, epsilon = _conditions(privacy)
        if prior.size != model.file.size:
            what = "the prior does not fit the key types"
            raise DesignError(sentence(what, got=prior.size, wanted=model.file.size))
        unchanged = TransitionMatrix.identity(prior.size)
        if privacy.check([unchanged]).holds:
            return Solution(
                unchanged, 0.0, {"notes": ("No record must change: every combination is frequent enough.",)}
            )
        structure, notes = _settled(self, model, epsilon)
        weights = prior * model.file.records
        problem = Problem(model, weights, structure.reach, self.min_diagonal, self.invariant, epsilon)
        start = self._starting_matrix(prior.size)
        laws = [(law, found) for found in search(problem, start) if (law := _round(found.matrix, privacy, problem))]
        if start is not None:
            law = TransitionMatrix.from_array(start)
            if privacy.check([law]).holds and problem.allows(law):  # never left for worse
                laws.append((law, Found(law.array, L2Loss().value(law.array, weights), problem.conditions(), 0)))
        if not laws:
            raise DesignError(
                sentence("no matrix that was found can be rounded within its conditions", fix="weaken one a little")
            )
        law, best = min(laws, key=lambda pair: L2Loss().value(pair[0].array, weights))
        proof = judge(problem, best.matrix, best.pairs)
        scale = 1 / (model.file.records * cast("L2Loss", objective).records)
        return Solution(law, proof.bound * scale, _details(best, proof, problem, notes))

    def refuses(self, privacy: PrivacyModel, objective: Objective, size: int) -> str | None:
        """Ask for one model of recognition, alone or together with differential privacy."""
        kinds = [type(model) for model in models_of(privacy)]
        if kinds.count(SpontaneousRecognition) == 1 and set(kinds) <= {SpontaneousRecognition, DifferentialPrivacy}:
            return None
        fix = "use privacy 'recognition', or a list of it and 'differential'"
        return refusal(self, privacy, f"{SpontaneousRecognition.name!r}", fix)

    def _starting_matrix(self, size: int) -> NDArray[np.float64] | None:
        if self.start is None:
            return None
        if len(self.start) != size:
            raise DesignError(sentence("the start does not fit the key types", got=len(self.start), wanted=size))
        return np.array(self.start)


def least_loss(model: SpontaneousRecognition, **options: Any) -> Design:
    """Return :func:`design` of :class:`LeastLoss` on the file that the model is tied to, the prior its frequencies.

    ``options`` are those of :class:`LeastLoss`; the value is CHR's ``l2``.
    """
    file = model.file
    prior = Prior(file.counts / file.records, provenance="confidential")
    return design(prior, model, L2Loss(records=file.records), LeastLoss(**options))


def by_stratum(model: SpontaneousRecognition, strata: Mapping[str, KeyTypes], **options: Any) -> dict[str, Design]:
    """Return one design for each stratum, each secure on its own records.

    C1 in every stratum implies C1 on the whole file: the sums on its right side only grow.
    """
    return {name: least_loss(model.on(types), **options) for name, types in strata.items()}


def _check_start(start: Vector) -> None:
    try:
        condition = TransitionMatrix.from_array(start).condition
    except SpecificationError as error:
        raise DesignError(sentence("the start is not a transition matrix", got=str(error))) from None
    if not condition <= MAX_CONDITION:
        raise DesignError(
            sentence(
                "the start is singular: its loss is infinite",
                got=f"condition number {condition:.3g}",
                fix="mix it with the identity",
            )
        )


def _conditions(privacy: PrivacyModel) -> tuple[SpontaneousRecognition, float | None]:
    """Return the model of recognition, and the least ε of those beside it."""
    by_kind: dict[type, list[Any]] = {SpontaneousRecognition: [], DifferentialPrivacy: []}
    for model in models_of(privacy):
        by_kind[type(model)].append(model)
    (recognition,) = by_kind[SpontaneousRecognition]
    return recognition, min((model.epsilon for model in by_kind[DifferentialPrivacy]), default=None)


def _settled(
    structure: LeastLoss, model: SpontaneousRecognition, epsilon: float | None
) -> tuple[LeastLoss, tuple[str, ...]]:
    """Return the structure with its reach decided, and what the user is to know of that.

    Raises
    ------
    DesignError
        If the domain is large and its moves cannot be restricted, since ε-DP needs them all.
    """
    if structure.reach != "auto":
        return structure, ()
    types = model.file
    if len(types.occurring) * types.size <= MANY_MOVES:
        return dataclasses.replace(structure, reach="all"), ()
    if epsilon is not None:
        raise DesignError(
            sentence(
                "with differential privacy every type can become every other type, and there are too many types",
                got=f"{types.size} types",
                wanted=f"up to {math.isqrt(MANY_MOVES)}",
                fix="coarsen or leave out a key variable; reach = 'all' tries it anyway, for hours",
            )
        )
    note = (
        f"With {types.size} types only frequent ones change, and only into rarer ones (reach = 'cover'); "
        "reach = 'all' with min_diagonal = 0.9 can lose a few percent less, in minutes."
    )
    return dataclasses.replace(structure, reach="cover"), (note,)


def _round(matrix: NDArray[np.float64], privacy: PrivacyModel, problem: Problem) -> TransitionMatrix | None:
    """Return the exact law: first without the dust that an interior point leaves, else mixed inward; None: neither."""
    whole = np.clip(matrix, 0, None)
    candidates = [whole]
    if problem.epsilon is None:
        clean = np.where(matrix * problem.unit[:, None] < 1e-7, 0, matrix)
        np.fill_diagonal(clean, 0)
        np.fill_diagonal(clean, 1 - clean.sum(axis=1))
        candidates = [clean, whole]
    for candidate in candidates:
        law = TransitionMatrix.from_array(candidate / candidate.sum(axis=1, keepdims=True))
        if privacy.check([law]).holds and problem.allows(law):
            return law
    try:
        law = round_inside(whole, privacy)
    except DesignError:
        return None
    return law if problem.allows(law) else None


def _details(found: Found, proof: Proof, problem: Problem, notes: tuple[str, ...]) -> dict[str, Any]:
    stays = found.matrix.diagonal()[problem.types.occurring]
    changes = float(problem.types.counts @ (1 - found.matrix.diagonal()))
    return {
        "notes": (f"About {changes:.3g} of {problem.types.records:,} records are expected to change.", *notes),
        "algorithm": "interior point on a growing set of moves",
        "expected_changes": changes,
        "reach": problem.reach,
        "fewest_changes": proof.changes,
        "smallest_diagonal": float(stays.min()),
        "stationarity": float(proof.stationarity / found.value) if found.value else 0.0,
        "conditions": len(found.pairs),
        "iterations": found.iterations,
    }
