"""Least L2 loss under security against spontaneous recognition (CHR §3, §4), alone or with other conditions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from postrand.design.l2_curvature import MoveLoss
from postrand.design.l2_interior import minimise
from postrand.design.l2_linear import cheapest
from postrand.design.l2_programme import (
    Cells,
    Moves,
    Pairs,
    Rows,
    diagonal_rows,
    invariant_rows,
    ratio_rows,
    recognition_rows,
    stack,
)
from postrand.design.problem import Design, Prior, Solution, refuse
from postrand.design.rounding import round_inside
from postrand.design.solve import design
from postrand.errors import DesignError, SpecificationError, sentence, shown
from postrand.matrix import MAX_CONDITION, TransitionMatrix, randomised_response
from postrand.objectives import Objective
from postrand.objectives.l2 import L2Loss
from postrand.plain import finite, is_names, real_array
from postrand.privacy import DifferentialPrivacy, KeyTypes, PrivacyModel, SpontaneousRecognition, Together

Vector = NDArray[np.float64]

FLOORS = (0.9, 0.75, 0.6, 0.45, 0.3, 0.15, 0.0)
"""Smallest diagonals tried in turn, each from the last one's solution (CHR: start again with a smaller γ)."""

MANY_MOVES = 10_000
"""Beyond so many moves (K = 100 types that all occur), ``auto`` takes the restricted variant: 2 s become hours."""

_INSIDE = 1e-8  # α is taken so much smaller, relative: room for the solver's tolerance and for rounding
_TOLERANCE = 1e-8  # a condition or reduced cost missed by less is met, in records
_ROUNDS = 40


@dataclass(frozen=True, slots=True)
class LeastLoss:
    """Search the matrix of least L2 loss under C1, with ε-DP and invariant margins in the same programme if asked.

    The L2 loss is not convex and is the same for every relabelling of the released categories, so what is found is a
    best local optimum near the identity: starting from the fewest expected changes (a linear programme), the smallest
    diagonal allowed is lowered step by step. ``details["stationarity"]`` is the most that any feasible direction could
    still gain to first order, relative: a linear programme over *all* conditions and *all* moves of types that occur.

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
        A transition matrix to start from, row by row, instead of the fewest changes: for a search from elsewhere.

    Raises
    ------
    DesignError
        If an option is out of range, or the start is not a transition matrix that can be inverted.

    Examples
    --------
    >>> from postrand.privacy import SpontaneousRecognition
    >>> model = SpontaneousRecognition(alpha=0.1, subsets=2).on([[400, 90], [6, 120]])
    >>> d = least_loss(model)
    >>> d.matrix.array.round(4).tolist()[0], model.check([d.matrix]).holds
    ([0.9934, 0.0, 0.0066, 0.0], True)
    """

    name: ClassVar[str] = "least-loss"
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
        if not isinstance(objective, L2Loss):
            raise refuse(self, objective, "take objective L2Loss()")
        model, epsilon = _conditions(self, privacy)
        if prior.size != model.file.size:
            what = "the prior does not fit the key types"
            raise DesignError(sentence(what, got=prior.size, wanted=model.file.size))
        unchanged = TransitionMatrix.identity(prior.size)
        if privacy.check([unchanged]).holds:
            return Solution(
                unchanged, 0.0, {"notes": ("Nothing has to change: every combination is frequent enough.",)}
            )
        structure, notes = _settled(self, model, epsilon)
        problem = Problem(model, prior * model.file.records, structure, epsilon)
        best = _search(problem)
        law = _round(best.matrix, privacy, problem)
        scale = 1 / (model.file.records * objective.records)
        return Solution(law, best.bound * scale, _details(best, problem, notes))


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Hold what a search needs: the model on its file, expected records of each type, and the further conditions."""

    model: SpontaneousRecognition
    weights: Vector
    structure: LeastLoss
    epsilon: float | None

    @property
    def types(self) -> KeyTypes:
        """The key types of the file."""
        return self.model.file

    @property
    def unit(self) -> Vector:
        """``u_i`` of the programme."""
        return np.maximum(self.weights, 1.0)

    def cells(self, inside: float = _INSIDE) -> Cells:
        """Return the cells (π, k0), with α a little inside (or outside, where ``inside`` is negative)."""
        members = self.types.incidence(self.model.key_sets)
        return Cells(self.types, members, float(self.model.limit) * (1 - inside))

    @property
    def moves(self) -> Moves:
        """Every move that may be used."""
        everyone = np.arange(self.types.size)
        if self.epsilon is not None:
            return Moves.among(everyone, everyone)
        if self.structure.reach == "all":
            return Moves.among(self.types.occurring, everyone)
        limit = self.model.limit
        frequent = self.types.counts * limit.numerator >= limit.denominator
        return Moves.among(np.flatnonzero(frequent), np.flatnonzero(~frequent))

    def rows(self, moves: Moves, cells: Cells, pairs: Pairs, floor: float) -> dict[str, Rows]:
        """Return the named conditions on these moves."""
        named = {"recognition": recognition_rows(cells, moves, pairs, self.unit)}
        named["diagonal"] = diagonal_rows(moves, self.unit, floor)
        if self.structure.invariant:
            kept = self.types.incidence(self.types.key_sets(self.structure.invariant))
            named["invariant"] = invariant_rows(kept, self.types.counts, moves, self.unit)
        if self.epsilon is not None:
            named["differential"] = ratio_rows(moves, self.unit, math.exp(self.epsilon) * (1 - 1e-9))
        return named


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A local optimum: its matrix, ``n² l2``, what a feasible direction could still gain, and the proven bound."""

    matrix: NDArray[np.float64]
    value: float
    stationarity: float
    bound: float
    changes_bound: float
    pairs: Pairs
    iterations: int


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


def _conditions(structure: LeastLoss, privacy: PrivacyModel) -> tuple[SpontaneousRecognition, float | None]:
    models = privacy.models if isinstance(privacy, Together) else (privacy,)
    recognition = [m for m in models if isinstance(m, SpontaneousRecognition)]
    differential = [m.epsilon for m in models if isinstance(m, DifferentialPrivacy)]
    if len(recognition) != 1 or len(recognition) + len(differential) < len(models):
        raise refuse(structure, privacy, "take SpontaneousRecognition, or Together with DifferentialPrivacy")
    return recognition[0], min(differential, default=None)


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
                "with differential privacy every type may become every other, and these are many",
                got=f"{types.size} types",
                wanted=f"up to {math.isqrt(MANY_MOVES)}",
                fix="coarsen or leave out a key; reach = 'all' tries it all the same, for hours",
            )
        )
    note = (
        f"With {types.size} types only frequent ones change, and only into rarer ones (reach = 'cover'); "
        "reach = 'all' with min_diagonal = 0.9 may lose a few percent less, in minutes."
    )
    return dataclasses.replace(structure, reach="cover"), (note,)


def _search(problem: Problem) -> Found:
    """Lower the smallest diagonal step by step and keep the best (``cover`` is convex, ε-DP far from I: one step)."""
    if not len(problem.moves):
        raise DesignError(
            sentence(
                "no combination is frequent enough to change into the rare ones",
                got="reach 'cover', and every combination with fewer than 1/alpha records",
                fix="coarsen a key, or set reach = 'all' with min_diagonal = 0.9 (minutes to hours)",
            )
        )
    least = problem.structure.min_diagonal
    floors = [f for f in FLOORS if f > least] + [least]
    if problem.epsilon is not None or problem.structure.reach == "cover":
        floors = [least]
    best: Found | None = None
    trouble: DesignError | None = None
    for floor in floors:
        try:
            found = _local(problem, floor, best)
        except DesignError as error:
            trouble = error
            continue
        best = found if best is None or found.value < best.value else best
        if best.matrix.diagonal().min() > floor + 1e-3:
            break
    if best is None:
        raise trouble or DesignError(sentence("no design was found"))
    return best


def _local(problem: Problem, floor: float, previous: Found | None) -> Found:
    """Solve on a growing set of moves and conditions until no move improves and no condition is missed."""
    cells, everything, unit = problem.cells(), problem.moves, problem.unit
    rare = problem.model.rare_types()
    pairs = cells.conditions(rare, max(floor, 0.5)) if previous is None else previous.pairs
    cost = problem.weights[everything.rows] / unit[everything.rows]
    y, _, pairs = _linear(problem, cells, cost, everything, pairs, floor)
    start, iterations = _starting_matrix(problem, everything, y, previous), 0
    used = _starting_support(problem, everything, y, start)
    for _ in range(_ROUNDS):
        moves = Moves(everything.rows[used], everything.columns[used])
        loss = MoveLoss(moves, problem.weights, unit)
        point, multipliers, steps = _interior(problem, loss, pairs, floor, start)
        start, iterations = loss.matrix(point), iterations + steps
        missed = _new_pairs(cells.violated(start, rare, _TOLERANCE), pairs)
        rows = problem.rows(everything, cells, pairs, floor)
        A = stack(list(rows.values()), len(everything)).A[:, : len(everything)]
        slope = loss.slope(start, everything)
        better = (slope + A.T @ multipliers[: A.shape[0]] < -1e-6) & ~used
        if not better.any() and not len(missed):
            break
        used, pairs = used | better, np.concatenate([pairs, missed])
    else:
        raise DesignError(sentence("the least-loss search did not settle", got=f"{_ROUNDS} rounds"))
    value = loss.value(point)
    amounts = (unit[:, None] * start)[everything.rows, everything.columns]
    outer = problem.cells(-_INSIDE)  # a superset: its minima are bounds whatever the tolerances
    _, fewest, pairs = _linear(problem, outer, cost, everything, pairs, problem.structure.min_diagonal)
    _, steepest, pairs = _linear(problem, outer, slope, everything, pairs, floor)
    gain = max(float(slope @ amounts) - steepest, 0.0)
    bound = _bound(problem, fewest, value - gain)
    return Found(start, value, gain, bound, fewest, pairs, iterations)


def _linear(
    problem: Problem, cells: Cells, cost: Vector, moves: Moves, pairs: Pairs, floor: float
) -> tuple[Vector, float, Pairs]:
    """Solve the linear programme under *all* conditions of C1, adding those that a solution misses."""
    rare, high = problem.model.rare_types(), problem.unit[moves.rows]
    for _ in range(_ROUNDS):
        y, least = cheapest(cost, high, problem.rows(moves, cells, pairs, floor))
        missed = _new_pairs(cells.violated(moves.matrix(y, problem.unit), rare, 1e-7), pairs)
        if not len(missed):
            break
        pairs = np.concatenate([pairs, missed])
    return y, least, pairs  # fewer conditions only lower the minimum: it stays a bound


def _interior(
    problem: Problem, loss: MoveLoss, pairs: Pairs, floor: float, matrix: NDArray[np.float64]
) -> tuple[Vector, Vector, int]:
    """Run IPOPT on the moves of ``loss`` from a matrix; return moves, multipliers of all rows, and iterations."""
    moves, unit = loss.moves, problem.unit
    high = unit[moves.rows]
    rows = problem.rows(moves, problem.cells(), pairs, floor)
    rows["flows"] = loss.flow_rows()
    programme = stack(list(rows.values()), len(moves))
    y = np.maximum((unit[:, None] * matrix)[moves.rows, moves.columns], 1e-3 * np.minimum(high, 1))
    start = np.concatenate([y, _auxiliaries(problem, loss, pairs, y)])
    point = minimise(loss, programme, high, start)
    return point.x[: len(moves)], point.multipliers, point.iterations


def _auxiliaries(problem: Problem, loss: MoveLoss, pairs: Pairs, y: Vector) -> Vector:
    """Return the auxiliary variables that belong to the moves ``y``, in the order of the programme."""
    M = loss.matrix(y)
    released = problem.types.counts @ M
    parts = [released @ problem.cells().members[:, np.unique(pairs[:, 1])]]
    if problem.epsilon is not None:
        parts.append(M.min(axis=0))
    inflow = problem.weights @ M - problem.weights * M.diagonal()
    return np.concatenate([*parts, 1 - M.diagonal(), inflow])


def _starting_matrix(problem: Problem, moves: Moves, y: Vector, previous: Found | None) -> NDArray[np.float64]:
    """Return the solution before, the start asked for, randomised response under ε-DP, or the fewest changes."""
    size = problem.types.size
    if previous is not None:
        return previous.matrix
    if problem.structure.start is not None:
        if len(problem.structure.start) != size:
            what = "the start does not fit the key types"
            raise DesignError(sentence(what, got=len(problem.structure.start), wanted=size))
        return np.array(problem.structure.start)
    if problem.epsilon is not None:
        return randomised_response(size, problem.epsilon).array
    return moves.matrix(y, problem.unit)


def _starting_support(problem: Problem, moves: Moves, y: Vector, start: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return all moves into the receivers of the fewest changes, and those that the start makes (ε-DP: all)."""
    if problem.epsilon is not None:
        return np.ones(len(moves), dtype=bool)
    receivers = np.unique(moves.columns[y > 1e-9])
    return np.asarray(np.isin(moves.columns, receivers) | (start[moves.rows, moves.columns] > 1e-7))


def _bound(problem: Problem, fewest: float, linearised: float) -> float:
    """Return a proven lower bound of ``n² l2`` over the structure, or -inf."""
    if problem.epsilon is not None:
        return -math.inf
    if problem.structure.reach == "cover":
        return linearised  # convex: a tangent is below
    floor = problem.structure.min_diagonal
    if floor <= 0.5:
        return -math.inf
    rho = (1 - floor) / floor
    spill = rho**2 / (floor * (1 - rho**2))
    return (1 + max(0.0, 1 - spill) ** 2) * fewest


def _new_pairs(found: Pairs, known: Pairs) -> Pairs:
    seen = set(map(tuple, known.tolist()))
    return np.array([pair for pair in found.tolist() if tuple(pair) not in seen], dtype=np.int64).reshape(-1, 2)


def _round(matrix: NDArray[np.float64], privacy: PrivacyModel, problem: Problem) -> TransitionMatrix:
    """Return the exact law: first without the dust that an interior point leaves, else mixed inward."""
    if problem.epsilon is None:
        clean = np.where(matrix * problem.unit[:, None] < 1e-7, 0, matrix)
        np.fill_diagonal(clean, 0)
        np.fill_diagonal(clean, 1 - clean.sum(axis=1))
        for candidate in (clean, np.clip(matrix, 0, None)):
            law = TransitionMatrix.from_array(candidate / candidate.sum(axis=1, keepdims=True))
            if privacy.check([law]).holds:
                return law
    return round_inside(np.clip(matrix, 0, None), privacy)


def _details(found: Found, problem: Problem, notes: tuple[str, ...]) -> dict[str, Any]:
    stays = found.matrix.diagonal()[problem.types.occurring]
    changes = float(problem.types.counts @ (1 - found.matrix.diagonal()))
    return {
        "notes": (f"About {changes:.3g} of {problem.types.records:,} records are expected to change.", *notes),
        "algorithm": "interior point on a growing set of moves",
        "expected_changes": changes,
        "reach": problem.structure.reach,
        "fewest_changes": found.changes_bound,
        "smallest_diagonal": float(stays.min()),
        "stationarity": float(found.stationarity / found.value),
        "conditions": len(found.pairs),
        "iterations": found.iterations,
    }
