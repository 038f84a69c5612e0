"""The search of the least-loss design: several starts, each brought to a local optimum by an interior point method.

Conditions are linear, so whether a matrix exists is settled by linear programmes before anything else (refusal.py),
and a matrix strictly inside them is at hand whenever the interior point method fails from where it was started.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from postrand.designers.recognition.curvature import MoveLoss
from postrand.designers.recognition.interior import NotConverged, minimise
from postrand.designers.recognition.linear import Infeasible, cheapest, roomiest
from postrand.designers.recognition.problem import Matrix, Problem, Vector
from postrand.designers.recognition.programme import Cells, Moves, Pairs, stack
from postrand.designers.recognition.refusal import refusal
from postrand.errors import DesignError, sentence
from postrand.mechanism.matrix import randomised_response

FLOORS = (0.9, 0.75, 0.6, 0.45, 0.3, 0.15, 0.0)
"""Smallest diagonals tried in turn, each from the last one's solution (CHR: start again with a smaller γ)."""

_TOLERANCE = 1e-8  # a condition or reduced cost missed by less is met, in records
_ROUNDS = 40
_INWARD = 0.2  # how far a start is moved towards the roomiest matrix after a failure
_ROOM = 1e-5  # less room than this, in records, is none: the moves in use are too few
_DESCENTS = 30
_PATIENT, _BRIEF = 1000, 150  # steps of the interior point method, from the main start and from the others


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What one start led to: a matrix, its ``n² l2``, the conditions of C1 in use, and the iterations spent."""

    matrix: Matrix
    value: float
    pairs: Pairs
    iterations: int


@dataclass(frozen=True, slots=True, eq=False)
class Proof:
    """What is proven of a matrix: its gain along any feasible direction, a lower bound, and the fewest changes."""

    stationarity: float
    bound: float
    changes: float


@dataclass(frozen=True, slots=True, eq=False)
class _Base:
    """The fewest changes that meet every condition: a vertex to start from, and the conditions that it needs."""

    amounts: Vector
    changes: float
    pairs: Pairs


def search(problem: Problem, start: Matrix | None) -> list[Found]:
    """Return the local optima found from several starts (one where the loss is convex, or under ε-DP).

    Raises
    ------
    DesignError
        If the conditions admit no matrix, with the proof's sentence, or only singular ones.
    """
    if not len(problem.moves):
        raise DesignError(
            sentence(
                "no combination is frequent enough to be changed into rare ones",
                got="reach 'cover', and every combination with fewer than 1/alpha records",
                fix="coarsen a key variable, or set reach = 'all' with min_diagonal = 0.9 (minutes to hours)",
            )
        )
    try:
        base = _base(problem)
    except Infeasible as error:
        raise refusal(problem, error) from None
    found = []
    if start is not None:
        found += _attempt(problem, base, start)
    if problem.epsilon is not None:
        found += _attempt(problem, base, randomised_response(problem.types.size, problem.epsilon).array)
    elif problem.reach == "cover":
        found += _attempt(problem, base, None)
    else:
        found += list(_descents(problem, base))
    if not found:
        found = [_by_linear_programmes(problem, base)]
    return found


def _descents(problem: Problem, base: _Base) -> Iterator[Found]:
    """Yield what the lowered diagonals lead to, then other starts at the last one: the loss is not convex."""
    best = _lowered(problem, base)
    if best is not None:
        yield best
    if problem.floor <= 0.5:  # above, the loss is nearly convex, and its bound says so
        known = base if best is None else replace(base, pairs=best.pairs)
        for start in _others(problem, known, None if best is None else best.matrix):
            yield from _attempt(problem, known, start, limit=_BRIEF)


def _lowered(problem: Problem, base: _Base) -> Found | None:
    """Lower the smallest diagonal step by step, each from the last one's solution; return the best."""
    best = None
    for floor in [f for f in FLOORS if f > problem.floor] + [problem.floor]:
        step = problem.at(floor)
        try:
            stepped = _base(step) if best is None else replace(base, pairs=best.pairs)
            found = _local(step, stepped, None if best is None else best.matrix)
        except (Infeasible, NotConverged):
            continue
        best = found if best is None or found.value < best.value else best
        if best.matrix.diagonal().min() > floor + 1e-3:
            break  # the floor does not bind: lowering it changes nothing
    return best


def _others(problem: Problem, base: _Base, best: Matrix | None) -> Iterator[Matrix]:
    """Yield starts between the best and the identity, and between the best and matrices that keep every margin."""
    if best is None:
        yield (problem.moves.matrix(base.amounts, problem.unit) + np.eye(problem.types.size)) / 2
        return
    yield (best + np.eye(len(best))) / 2
    keys = tuple((name,) for name in problem.types.variables if name not in problem.types.given)
    if not problem.invariant:
        with suppress(Infeasible):
            kept = _base(replace(problem, invariant=keys))
            yield (best + problem.moves.matrix(kept.amounts, problem.unit)) / 2


def _attempt(problem: Problem, base: _Base, start: Matrix | None, limit: int = _PATIENT) -> list[Found]:
    try:
        return [_local(problem, base, start, limit)]
    except NotConverged:
        return []


def _base(problem: Problem) -> _Base:
    """Return the fewest changes under all conditions; raises Infeasible."""
    amounts, changes, pairs = _linear(problem, problem.cells(), _changes(problem), problem.conditions())
    return _Base(amounts, changes, pairs)


def _changes(problem: Problem) -> Vector:
    """Return what a move costs in expected changes."""
    return np.asarray(problem.weights[problem.moves.rows] / problem.unit[problem.moves.rows])


def _local(problem: Problem, base: _Base, start: Matrix | None, limit: int = _PATIENT) -> Found:
    """Solve on a growing set of moves and conditions until no move improves and no condition is missed."""
    cells, everything, unit = problem.cells(), problem.moves, problem.unit
    matrix = everything.matrix(base.amounts, unit) if start is None else start
    pairs, iterations = base.pairs, 0
    used = _starting_support(problem, everything, base.amounts, matrix)
    for _ in range(_ROUNDS):
        used, point, multipliers, steps = _interior(problem, used, pairs, matrix, limit)
        loss = MoveLoss(Moves(everything.rows[used], everything.columns[used]), problem.weights, unit)
        matrix, iterations = loss.matrix(point), iterations + steps
        missed = problem.missed(matrix, cells, pairs, _TOLERANCE)
        A = stack(list(problem.rows(everything, cells, pairs).values()), len(everything)).A[:, : len(everything)]
        slope = loss.slope(matrix, everything)
        better = (slope + A.T @ multipliers[: A.shape[0]] < -1e-6) & ~used
        if not better.any() and not len(missed):
            break
        used, pairs = used | better, np.concatenate([pairs, missed])
    else:
        raise NotConverged(sentence("the least-loss search did not converge", got=f"{_ROUNDS} rounds"))
    return Found(matrix, loss.value(point), pairs, iterations)


def judge(problem: Problem, matrix: Matrix, pairs: Pairs) -> Proof:
    """Return what a feasible direction could still gain to first order, over all conditions, and what is proven."""
    moves = problem.moves
    loss = MoveLoss(moves, problem.weights, problem.unit)
    slope = loss.slope(matrix, moves)
    amounts = (problem.unit[:, None] * matrix)[moves.rows, moves.columns]
    _, fewest, pairs = _linear(problem, problem.outer(), _changes(problem), pairs)
    _, steepest, pairs = _linear(problem, problem.outer(), slope, pairs)
    gain = max(float(slope @ amounts) - steepest, 0.0)
    return Proof(gain, _bound(problem, fewest, loss.value(amounts) - gain), fewest)


def _linear(problem: Problem, cells: Cells, cost: Vector, pairs: Pairs) -> tuple[Vector, float, Pairs]:
    """Solve the linear programme under *all* conditions of C1, adding those that a solution misses."""
    moves = problem.moves
    high = problem.unit[moves.rows]
    for _ in range(_ROUNDS):
        y, least = cheapest(cost, high, problem.rows(moves, cells, pairs))
        missed = problem.missed(moves.matrix(y, problem.unit), cells, pairs, 1e-7)
        if not len(missed):
            break
        pairs = np.concatenate([pairs, missed])
    return y, least, pairs  # fewer conditions only lower the minimum: it stays a bound


def _interior(
    problem: Problem, used: NDArray[np.bool_], pairs: Pairs, matrix: Matrix, limit: int
) -> tuple[NDArray[np.bool_], Vector, Vector, int]:
    """Run IPOPT from a matrix; after a failure from inside the conditions, and then with every move.

    Returns the moves used, their amounts, the multipliers of all rows, and iterations.
    """
    problems: list[str] = []
    for mask, inward in _trials(problem, used, pairs, limit == _PATIENT):
        moves = Moves(problem.moves.rows[mask], problem.moves.columns[mask])
        amounts = (problem.unit[:, None] * matrix)[moves.rows, moves.columns]
        if inward:
            inside, room = roomiest(problem.unit[moves.rows], problem.rows(moves, problem.cells(), pairs))
            if room < _ROOM:
                continue
            amounts = (1 - inward) * amounts + inward * inside
        try:
            return (mask, *_solved(problem, moves, pairs, amounts, limit))
        except NotConverged as error:
            problems += error.problems
    raise NotConverged(problems)


def _trials(
    problem: Problem, used: NDArray[np.bool_], pairs: Pairs, patient: bool
) -> Iterator[tuple[NDArray[np.bool_], float]]:
    """Yield the moves to use and how far to go inside: as started, inside, inside with more moves, with all moves."""
    yield used, 0.0
    if not patient:
        return
    yield used, _INWARD
    moves = problem.moves
    inside, _ = roomiest(problem.unit[moves.rows], problem.rows(moves, problem.cells(), pairs), share=0.0)
    yield used | (inside > _ROOM), _INWARD
    yield np.ones_like(used), 1.0


def _solved(problem: Problem, moves: Moves, pairs: Pairs, amounts: Vector, limit: int) -> tuple[Vector, Vector, int]:
    loss, high = MoveLoss(moves, problem.weights, problem.unit), problem.unit[moves.rows]
    rows = problem.rows(moves, problem.cells(), pairs)
    rows["flows"] = loss.flow_rows()
    y = np.maximum(amounts, 1e-3 * np.minimum(high, 1))
    start = np.concatenate([y, _auxiliaries(problem, loss, pairs, y)])
    point = minimise(loss, stack(list(rows.values()), len(moves)), high, start, limit=limit)
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


def _starting_support(problem: Problem, moves: Moves, y: Vector, start: Matrix) -> NDArray[np.bool_]:
    """Return all moves into the receivers of the fewest changes, and those that the start makes (ε-DP: all)."""
    if problem.epsilon is not None:
        return np.ones(len(moves), dtype=bool)
    receivers = np.unique(moves.columns[y > 1e-9])
    return np.asarray(np.isin(moves.columns, receivers) | (start[moves.rows, moves.columns] > 1e-7))


def _by_linear_programmes(problem: Problem, base: _Base) -> Found:
    """Return the best of a few steps of conditional gradients: where the interior point method fails from everywhere.

    Every step stays a mixture of feasible matrices, so what is returned is feasible, only further from an optimum.
    """
    moves, unit, pairs = problem.moves, problem.unit, base.pairs
    loss = MoveLoss(moves, problem.weights, unit)
    inside, _ = roomiest(unit[moves.rows], problem.rows(moves, problem.cells(), pairs))
    mixed = [(1 - t) * base.amounts + t * inside for t in (0.0, 0.05, 0.3, 1.0)]
    y = min(mixed, key=loss.value)
    if not math.isfinite(loss.value(y)):
        raise DesignError(
            sentence(
                "only singular matrices were found that meet these conditions: the loss is infinite",
                fix="raise alpha a little, or drop or weaken another condition",
            )
        )
    for _ in range(_DESCENTS):
        vertex, _, pairs = _linear(problem, problem.cells(), loss.gradient(y), pairs)
        trials = [(1 - t) * y + t * vertex for t in np.geomspace(1e-4, 0.5, 20)]
        best = min(trials, key=loss.value)
        if not loss.value(best) < loss.value(y) * (1 - 1e-9):
            break
        y = best
    return Found(loss.matrix(y), loss.value(y), pairs, 0)


def _bound(problem: Problem, fewest: float, linearised: float) -> float:
    """Return a proven lower bound of ``n² l2`` over the structure, or -inf."""
    if problem.epsilon is not None:
        return -math.inf
    if problem.reach == "cover":
        return linearised  # convex: a tangent is below
    floor = problem.floor
    if floor <= 0.5:
        return -math.inf
    rho = (1 - floor) / floor
    spill = rho**2 / (floor * (1 - rho**2))
    return (1 + max(0.0, 1 - spill) ** 2) * fewest
