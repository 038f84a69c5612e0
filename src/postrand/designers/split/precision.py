"""How precisely one record that shows a subset answers a question: a table, or the share of one cell.

k-ary randomised response on K cells keeps the true cell with ``λ = (e^ε - 1)/(e^ε + K - 1)``, and else draws one of the
K. On a table within the subset it is the same: kept with λ, else drawn from u, the cells' shares of the K.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.errors import EstimationError
from postrand.mechanism.matrix import TransitionMatrix
from postrand.mechanism.matrix_storage import UNIT
from postrand.objectives import EstimatorVariance

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Hold the sums that the variance of an answer needs, over the cells c that it asks for.

    ``members``: positions of the variables. ``p1 = Σ p_c``, ``p2 = Σ p_c²``, ``u1 = Σ u_c``, ``pu = Σ p_c u_c``,
    ``u2 = Σ u_c²``; the last three are numbers, or arrays with one entry for each subset that covers the question. Many
    questions in one have arrays for all five, one entry for each.
    """

    members: tuple[int, ...]
    p1: Any
    p2: Any
    u1: Any
    pu: Any
    u2: Any

    def information(self, keep: Floats) -> Floats:
        """Return ``I = λ² / Σ_c q_c (1 - q_c)`` with ``q = λ p + (1-λ) u``, for each λ."""
        rest = 1 - keep
        first = keep * self.p1 + rest * self.u1
        second = keep**2 * self.p2 + 2 * keep * rest * self.pu + rest**2 * self.u2
        return np.asarray(keep**2 / np.maximum(first - second, np.finfo(float).tiny))


def table_question(members: Sequence[int], p: Floats, u: Floats) -> Question:
    """Return the question for a whole table, from its shares and those of the noise (both any one shape)."""
    p2, pu, u2 = ((a * b).sum() for a, b in ((p, p), (p, u), (u, u)))
    return Question(tuple(members), 1.0, float(p2), 1.0, float(pu), float(u2))


def cell_question(members: Sequence[int], p: float, u: float) -> Question:
    """Return the question for the share of one cell."""
    return Question(tuple(members), p, p * p, u, p * u, u * u)


def keep_probability(cells: Any, epsilon: float) -> Floats:
    """Return ``λ = (e^ε - 1)/(e^ε + K - 1)`` of k-ary randomised response on K cells.

    >>> round(float(keep_probability(2, math.log(3))), 12)
    0.5
    """
    return np.asarray(-math.expm1(-epsilon) / (1 + (np.asarray(cells, dtype=np.float64) - 1) * math.exp(-epsilon)))


def exact_keep(matrix: TransitionMatrix) -> float:
    """Return ``λ = M[0,0] - M[1,0]`` of randomised response as it is drawn, from its integers."""
    stay = int(matrix.form.diagonal[0])
    return (stay - (UNIT - stay) // (matrix.size - 1)) / UNIT if matrix.size > 1 else 1.0


def matrix_information(matrix: TransitionMatrix, prior: Floats, groups: Sequence[NDArray[np.intp]]) -> Floats:
    """Return I of tables for any matrix on a subset's cells: ``1 / trace Cov`` of one record's unbiased contribution.

    ``prior``: shares of the cells (K,). ``groups``: for each table the cell of it that each of the K cells is in, (K,).
    The contribution ``X`` (K, K_t) has ``M X = P``, P the 0-1 matrix of the group. A table that M does not answer has
    I = 0.
    """
    try:
        factor = matrix.factor()
    except EstimationError:  # singular: it may answer some tables nevertheless
        asked = [EstimatorVariance(tuple(map(tuple, indicator(group).tolist()))) for group in groups]
        variances = [objective.value(matrix.array, prior) for objective in asked]
    else:
        released, variances = prior @ matrix.array, []
        for group in groups:
            wanted = indicator(group).T
            variances.append(float(released @ (factor.solve(wanted) ** 2).sum(axis=1) - ((prior @ wanted) ** 2).sum()))
    return np.array([1 / v if 0 < v < math.inf else 0.0 for v in variances])


def indicator(group: NDArray[np.intp]) -> Floats:
    """Return one row for each cell of a table: which cells of the subset are in it."""
    return np.asarray(group[None, :] == np.unique(group)[:, None], dtype=np.float64)
