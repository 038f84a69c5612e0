"""Why no matrix meets the conditions of a least-loss design: an exact proof, and what could be met.

All conditions are linear in M. Multipliers ``λ >= 0`` of C1, ``μ`` of kept margins and ``ν >= 0`` of the ratios of ε-DP
make one condition of them all, ``Σ W[l,k] M[l,k] <= -(terms of the ratios)`` (Farkas). If its left side exceeds the
right one for *every* matrix with the diagonal asked for, no matrix meets them. The multipliers come from a linear
programme in floating point; the comparison is made in integers, so a proof is one whatever the programme's tolerances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.designers.recognition.linear import Infeasible, cheapest, programme
from postrand.designers.recognition.problem import Problem, Vector
from postrand.designers.recognition.programme import Cells, Pairs
from postrand.errors import DesignError, sentence
from postrand.support.exact import exp_upper

_DIGITS = 1 << 40  # multipliers are rounded to so many parts
_ROUNDS = 40
_CHEAP = 10_000  # moves: up to here the smallest alpha is searched
_STEPS = 12  # of the bisection: the answer is given to two decimals, which tell little of the file


@dataclass(frozen=True, slots=True, eq=False)
class Multipliers:
    """Hold the weights of C1 (one for each pair), of the kept margins, and of both sides of the ratios, (K, K)."""

    pairs: Pairs
    recognition: Vector
    invariant: Vector
    above: NDArray[np.float64]
    below: NDArray[np.float64]


def refusal(problem: Problem, error: Infeasible) -> DesignError:
    """Return the error for a problem whose linear programme has no solution: proven, or only without room to round."""
    parts = " + ".join(error.parts)
    if not proven(problem, multipliers(problem)):
        return DesignError(
            sentence(
                "these conditions leave no room for rounding, if a matrix can meet them at all",
                got=parts,
                fix="weaken one of them by a millionth",
            )
        )
    return DesignError(
        sentence(
            "no matrix meets these conditions together", got=parts, fix=f"drop or weaken one of them{_way(problem)}"
        )
    )


def multipliers(problem: Problem) -> Multipliers:
    """Return the multipliers of the programme that misses the conditions least (never the diagonal)."""
    cells, moves, pairs = problem.cells(0.0), problem.moves, problem.conditions()
    for _ in range(_ROUNDS):
        found, duals = _least_missed(problem, cells, pairs)
        missed = problem.missed(moves.matrix(found, problem.unit), cells, pairs, 1e-7)
        if not len(missed):
            break
        pairs, before = np.concatenate([pairs, missed]), pairs
    else:
        pairs = before
    R, K, V = len(pairs), problem.types.size, len(moves)
    recognition, rest = duals[:R], duals[R + K :]
    above, below = np.zeros((K, K)), np.zeros((K, K))
    if problem.epsilon is not None:
        for side, part in ((above, rest[: V + K]), (below, rest[V + K : 2 * (V + K)])):
            side[moves.rows, moves.columns] = part[:V]
            np.fill_diagonal(side, part[V:])
        rest = rest[2 * (V + K) :]
    return Multipliers(pairs, recognition, rest[: len(rest) // 2] - rest[len(rest) // 2 :], above, below)


def proven(problem: Problem, weights: Multipliers) -> bool:
    """Tell whether the multipliers prove, in exact arithmetic, that no matrix meets the conditions."""
    types, limit = problem.types, problem.model.limit
    members = problem.cells(0.0).members.toarray() > 0
    K = types.size
    counts = types.counts.astype(object)
    W: NDArray[Any] = np.zeros((K, K), dtype=object)
    paid: NDArray[Any] = np.zeros(K, dtype=object)
    for (m, c), weight in zip(weights.pairs, _whole(weights.recognition), strict=True):
        if weight > 0:
            W[m, members[:, c]] += limit.denominator * weight
            paid[members[:, c]] += limit.numerator * weight
    W -= counts[:, None] * paid[None, :]
    if problem.invariant:
        gained = (problem.kept.toarray() > 0).astype(object) @ _whole(weights.invariant) * limit.denominator
        W += counts[:, None] * (gained[None, :] - gained[:, None])
    total = Fraction(0)
    if problem.epsilon is not None:
        above, below = (np.maximum(_whole(part), 0) * limit.denominator for part in (weights.above, weights.below))
        W += above - below
        grown = exp_upper(problem.epsilon)
        lows = zip(below.sum(axis=0), above.sum(axis=0), strict=True)
        total += sum(min(Fraction(0), low - grown * high) for low, high in lows)
    return total + _least(problem, W) > 0


def _least(problem: Problem, W: NDArray[Any]) -> Fraction:
    """Return the smallest ``Σ W[l,k] M[l,k]`` over every matrix with these moves and this diagonal."""
    allowed = np.eye(len(W), dtype=bool)
    allowed[problem.moves.rows, problem.moves.columns] = True
    floor = Fraction(problem.floor)
    own = W.diagonal()
    best = [min(row[mask]) for row, mask in zip(W, allowed, strict=True)]
    return sum((floor * int(o) + (1 - floor) * int(b) for o, b in zip(own, best, strict=True)), Fraction(0))


def _least_missed(problem: Problem, cells: Cells, pairs: Pairs) -> tuple[Vector, Vector]:
    """Return moves that miss C1, ratios and margins least, and the multipliers: C1, diagonal, ratios, margins twice."""
    moves = problem.moves
    named = problem.rows(moves, cells, pairs)
    kept = named.pop("invariant", None)
    arguments = programme(np.zeros(len(moves)), problem.unit[moves.rows], named)
    A, size = arguments["A_ub"], len(arguments["c"])
    slack = np.full(A.shape[0], -1.0)
    slack[len(pairs) : len(pairs) + problem.types.size] = 0  # the diagonal is kept, all else may be missed
    right = arguments["b_ub"]
    if kept is not None:
        wide = scipy.sparse.hstack([kept.A, scipy.sparse.csr_array((kept.A.shape[0], size - len(moves)))])
        A = scipy.sparse.vstack([A, wide, -wide])
        slack, right = (np.append(old, np.full(2 * wide.shape[0], new)) for old, new in ((slack, -1.0), (right, 0.0)))
    equal = arguments["A_eq"]
    found = scipy.optimize.linprog(
        np.append(np.zeros(size), 1.0),
        A_ub=scipy.sparse.hstack([A, scipy.sparse.csr_array(slack[:, None])]),
        b_ub=right,
        A_eq=scipy.sparse.hstack([equal, scipy.sparse.csr_array((equal.shape[0], 1))]),
        b_eq=arguments["b_eq"],
        bounds=np.append(arguments["bounds"], [[0, np.inf]], axis=0),
        method="highs",
    )
    if found.status != 0:
        raise DesignError(sentence("the linear programme was not solved", got=found.message))
    return np.asarray(found.x[: len(moves)]), -np.asarray(found.ineqlin.marginals)


def _way(problem: Problem) -> str:
    """Return what could be met, to two decimals: the largest diagonal, else the smallest alpha, where it is cheap."""
    if len(problem.moves) > _CHEAP:
        return ""
    largest = _largest_floor(problem) if problem.floor else -1.0
    if largest >= 0:
        return f": min_diagonal = {math.floor(100 * largest - 1e-6) / 100:.2f} can be met"
    alpha = math.ceil(100 * _smallest_alpha(problem)) / 100
    return f": alpha = {alpha:.2f} can be met" if alpha < 1 else ""


def _largest_floor(problem: Problem) -> float:
    """Return the largest diagonal that the other conditions allow, or -1 where they conflict without it."""
    low, high = 0.0, problem.floor
    if not _feasible(problem.at(0.0), float(problem.model.limit)):
        return -1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        met = _feasible(problem.at(middle), float(problem.model.limit))
        low, high = (middle, high) if met else (low, middle)
    return low


def _smallest_alpha(problem: Problem) -> float:
    low, high = float(problem.model.limit), 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _feasible(problem, middle) else (middle, high)
    return high


def _feasible(problem: Problem, alpha: float) -> bool:
    """Tell whether the linear programme has a solution, every condition of C1 included."""
    inside = problem.cells()
    cells, moves, pairs = Cells(inside.types, inside.members, alpha), problem.moves, problem.conditions()
    high = problem.unit[moves.rows]
    for _ in range(_ROUNDS):
        try:
            y, _ = cheapest(np.zeros(len(moves)), high, problem.rows(moves, cells, pairs))
        except Infeasible:
            return False
        missed = problem.missed(moves.matrix(y, problem.unit), cells, pairs, 1e-7)
        if not len(missed):
            return True
        pairs = np.concatenate([pairs, missed])
    return False


def _whole(weights: NDArray[np.float64]) -> NDArray[Any]:
    """Return the weights in units of 2^-40, as Python integers."""
    return np.array([round(float(w) * _DIGITS) for w in weights.ravel()], dtype=object).reshape(weights.shape)
