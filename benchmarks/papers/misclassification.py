"""Reproduce Shlomo and Skinner (2012, §4): recoding, swapping and invariant PRAM as matrices, with their ε or none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, sparse

from postrand.designers.rounding import round_inside
from postrand.errors import DesignError, UsageError, sentence
from postrand.mechanism.matrix import TransitionMatrix, check_epsilon
from postrand.privacy import DifferentialPrivacy
from postrand.risk.cells import FloatArray

MAX_COLUMNS = 16
MAX_OUTCOMES = 2_000_000


@dataclass(frozen=True, slots=True)
class Misclassification:
    """A method of disclosure control as a matrix; ``epsilon`` is exact, rounded up, and inf for the ``reason``."""

    method: str
    matrix: TransitionMatrix
    epsilon: float
    reason: str


def describe(method: str, matrix: TransitionMatrix) -> Misclassification:
    """Return the matrix, kept verbatim, with its exact ε: finite if and only if no used column has a zero (SS §4)."""
    zero = (matrix.weights == 0) & (matrix.weights.max(axis=0) > 0)
    if not zero.any():
        return Misclassification(method, matrix, matrix.epsilon, "every category can become every released one")
    i, j = (int(k) for k in np.argwhere(zero)[0])
    share = f"{int(zero.sum())} of {matrix.size**2} entries are 0"
    reason = f"no finite epsilon: category {i} is never released as {j}, so that seeing {j} rules it out; {share}"
    return Misclassification(method, matrix, math.inf, reason)


def recoding(groups: Sequence[Sequence[int]], size: int) -> Misclassification:
    """Return global recoding: every category of a group is released as the group's first.

    Raises
    ------
    UsageError
        If a category is outside 0..size-1 or in two groups.

    Examples
    --------
    >>> recoding([[0, 1]], 3).matrix.array.tolist()
    [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    named = [c for group in groups for c in group]
    if len(set(named)) != len(named) or not all(0 <= c < size for c in named) or not all(groups):
        raise UsageError(sentence("groups must hold each category at most once", wanted=f"0..{size - 1}"))
    target = np.arange(size)
    for group in groups:
        target[list(group)] = group[0]
    return describe("recoding", TransitionMatrix.from_array(np.eye(size)[target]))


def swapping(counts: ArrayLike, share: float = 1.0) -> Misclassification:
    """Return random data swapping of a ``share`` of the records: the law of one record's released value.

    A record that is swapped takes the value of one of the ``n−1`` others: ``f_j/(n−1)`` off the diagonal and
    ``(f_i−1)/(n−1)`` on it. SS print the joint law of an unordered pair, ``f_i f_j / C(n,2)`` and
    ``C(f_i,2)/C(n,2)``,
    whose rows do not sum to 1; given one value of the pair it is this matrix. The ε is that of a single record:
    swapped
    records are not independent.

    Raises
    ------
    UsageError
        If a category has no records (its row is not defined), or the share is outside (0, 1].
    """
    f = np.asarray(counts, dtype=np.float64)
    if f.ndim != 1 or (f < 1).any() or f.sum() < 2 or not 0 < share <= 1:
        raise UsageError(sentence("swapping needs records in every category, and a share in (0, 1]"))
    moved = (np.tile(f, (f.size, 1)) - np.eye(f.size)) / (f.sum() - 1)
    return describe("swapping", TransitionMatrix.from_array((1 - share) * np.eye(f.size) + share * moved))


def invariant_two_stage(matrix: TransitionMatrix, prior: ArrayLike) -> Misclassification:
    """Return ``M Q`` with ``Q[j,i] = p_i M[i,j] / Σ_k p_k M[k,j]``: invariant PRAM, ``p (MQ) = p``.

    (Gouweleeuw et al. 1998.) Its ε is at most that of ``M``: the second stage sees the released value only.
    """
    p = _distribution(prior, matrix.size)
    joint = (p[:, None] * matrix.array).T
    mass = joint.sum(axis=1, keepdims=True)
    back = np.divide(joint, mass, out=np.tile(p, (p.size, 1)), where=mass > 0)
    product = matrix.array @ back
    return describe(
        "invariant PRAM, two stages", TransitionMatrix.from_array(product / product.sum(axis=1, keepdims=True))
    )


def invariant_direct(prior: ArrayLike, epsilon: float) -> Misclassification:
    """Return the ε-differentially private matrix with ``pM = p`` that changes the fewest records in expectation.

    A linear programme over ``M`` and ``m_j <= M[i,j] <= e^ε m_j``. The exact law is rounded inside ε; ``pM = p``
    then holds to about 1e-9.

    Raises
    ------
    DesignError
        If the programme has no solution.
    """
    p = np.asarray(prior, dtype=np.float64)
    p = _distribution(p, p.size)
    check_epsilon(epsilon, p.size)
    size = p.size
    grown = math.exp(epsilon) * (1 - 1e-12)
    cells = np.arange(size * size)
    pick = sparse.csr_array((np.ones(cells.size), (cells, cells % size)), shape=(cells.size, size))
    one = sparse.eye_array(cells.size)
    upper = sparse.vstack([sparse.hstack([one, -grown * pick]), sparse.hstack([-one, pick])])
    rows = sparse.kron(sparse.eye_array(size), np.ones((1, size)))
    kept = sparse.kron(p[None, :], sparse.eye_array(size))
    equal = sparse.hstack([sparse.vstack([rows, kept]), sparse.csr_array((2 * size, size))])
    cost = np.concatenate([-(np.eye(size) * p[:, None]).ravel(), np.zeros(size)])
    found = optimize.linprog(
        cost, A_ub=upper.tocsr(), b_ub=np.zeros(2 * cells.size), A_eq=equal.tocsr(), b_eq=np.r_[np.ones(size), p]
    )
    if found.status != 0:
        raise DesignError(sentence("no invariant matrix was found", got=found.message, fix="raise epsilon"))
    array = np.maximum(found.x[: cells.size].reshape(size, size), 0.0)
    law = round_inside(array / array.sum(axis=1, keepdims=True), DifferentialPrivacy(epsilon))
    return describe("invariant PRAM, direct", law)


def bad_outcome_probability(matrix: TransitionMatrix, counts: ArrayLike) -> tuple[float, float]:
    """Return lower and upper bounds, equal where exact, on the probability that a released table is bad (SS §4).

    The table of n records is bad when for some j with a zero, ``f~_j = n − Σ_{k: M[k,j]=0} f_k``: every record
    that can
    become j did. Columns that nothing, or no record at hand, can reach do not count: no neighbouring file is then
    ruled out. Exact by
    inclusion and exclusion up to 16 columns with zeros, else the largest single probability and the sum of all.
    """
    f = _table(counts, matrix.size)
    M = matrix.array
    free = M > 0
    columns = [j for j in range(matrix.size) if free[:, j].any() and not free[:, j].all() and f[free[:, j]].sum() > 0]
    single = [_all_in(M, free, f, (j,)) for j in columns]
    if not columns:
        return 0.0, 0.0
    if len(columns) > MAX_COLUMNS:
        return max(single), min(1.0, math.fsum(single))
    terms = [
        (-1) ** (k + 1) * _all_in(M, free, f, subset)
        for k in range(1, len(columns) + 1)
        for subset in itertools.combinations(columns, k)
    ]
    exact = min(max(math.fsum(terms), 0.0), 1.0)
    return exact, exact


def _all_in(M: FloatArray, free: NDArray[np.bool_], f: FloatArray, subset: tuple[int, ...]) -> float:
    """Return the probability that for each j of the subset every record that can become j does."""
    log = 0.0
    for k in np.flatnonzero(f):
        into = [j for j in subset if free[k, j]]
        if len(into) > 1:
            return 0.0
        if into:
            log += f[k] * math.log(M[k, into[0]])
    return math.exp(log)


def simulated_bad_outcomes(
    matrix: TransitionMatrix, counts: ArrayLike, samples: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the share of bad tables among simulated ones, and its standard error (at least ``1/samples``)."""
    f = _table(counts, matrix.size).astype(np.int64)
    free = matrix.array > 0
    limit = f @ free
    watched = free.any(axis=0) & ~free.all(axis=0) & (limit > 0)
    released = np.zeros((samples, matrix.size), dtype=np.int64)
    for k in np.flatnonzero(f):
        released += rng.multinomial(f[k], matrix.array[k], size=samples)
    share = float((released == limit)[:, watched].any(axis=1).mean())
    return share, max(math.sqrt(share * (1 - share) / samples), 1 / samples)


def table_law(matrix: TransitionMatrix, counts: ArrayLike) -> dict[tuple[int, ...], float]:
    """Return the probability of every table ``f~`` that can be released, by adding one record at a time.

    Raises
    ------
    UsageError
        If there are more than two million outcomes.
    """
    f = _table(counts, matrix.size).astype(np.int64)
    if math.comb(int(f.sum()) + matrix.size - 1, matrix.size - 1) > MAX_OUTCOMES:
        raise UsageError(sentence("too many tables to list", fix="use bad_outcome_probability"))
    law = {(0,) * matrix.size: 1.0}
    for k in np.repeat(np.arange(matrix.size), f):
        grown: dict[tuple[int, ...], float] = {}
        for outcome, chance in law.items():
            for j in np.flatnonzero(matrix.array[k]):
                added = (*outcome[:j], outcome[j] + 1, *outcome[j + 1 :])
                grown[added] = grown.get(added, 0.0) + chance * float(matrix.array[k, j])
        law = grown
    return law


def good_outcome_epsilon(matrix: TransitionMatrix, counts: ArrayLike) -> tuple[float, float]:
    """Return ``(ε, δ)`` of probabilistic differential privacy at one small table: δ the chance of a bad outcome.

    ε is the largest ``|ln P(f~|f) − ln P(f~|f')|`` over good outcomes and over neighbours ``f'`` with one record moved.
    An outcome is bad when some neighbour cannot release it.
    """
    f = _table(counts, matrix.size).astype(np.int64)
    law = table_law(matrix, f)
    neighbours = []
    for a, b in itertools.permutations(range(matrix.size), 2):
        if f[a] > 0:
            moved = f.copy()
            moved[a], moved[b] = moved[a] - 1, moved[b] + 1
            neighbours.append(table_law(matrix, moved))
    good = [outcome for outcome in law if all(outcome in other for other in neighbours)]
    delta = 1 - math.fsum(law[outcome] for outcome in good)
    ratios = [abs(math.log(law[o] / other[o])) for o in good for other in neighbours]
    return max(ratios, default=0.0), max(delta, 0.0)


def _distribution(prior: ArrayLike, size: int) -> FloatArray:
    p = np.asarray(prior, dtype=np.float64)
    if p.shape != (size,) or (p < 0).any() or abs(p.sum() - 1) > 1e-9:
        raise UsageError(sentence("not a distribution over the categories", wanted=f"{size} numbers that sum to 1"))
    return p


def _table(counts: ArrayLike, size: int) -> FloatArray:
    f = np.asarray(counts, dtype=np.float64)
    if f.shape != (size,) or (f < 0).any() or (f != np.floor(f)).any():
        raise UsageError(sentence("counts must be one whole number >= 0 for each category", wanted=size))
    return f
