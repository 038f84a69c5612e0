"""The part of a regression's covariance that the perturbation causes, the records held fixed."""

from __future__ import annotations

import numpy as np
import scipy

from postrand.errors import EstimationError
from postrand.estimate.axes import Array
from postrand.estimate.families import Logistic, Multinomial
from postrand.estimate.regression_data import Data
from postrand.estimate.regression_equations import Solved
from postrand.estimate.regression_grid import Grid, grid_of
from postrand.estimate.split_axis import SplitAxis


def perturbation_part(data: Data, solved: Solved, share: Array | None = None) -> Array | None:
    """Return ``Σ_i (u_i u_iᵀ − J^-1 w_i² Σ_k B[r_i, k] ψ_k ψ_kᵀ J^-1)``, (P, P); None where it is not identified.

    ψ_k is the score at the root θ if the true cell is k, ``u_i`` the influence of a record: the second term is unbiased
    for what is left of the first when the record's cell is known. ``share`` (N,) multiplies the terms of each case. Not
    identified are the squares of a perturbed number as the response, a split, and what a singular matrix merges.
    """
    records = solved.records
    binary = isinstance(records.family, Logistic | Multinomial)
    if any(isinstance(axis, SplitAxis) for axis in data.axes) or not all(f.exact for f in records.factors):
        return None
    if records.response is None and not binary:
        return None
    try:
        grid = grid_of(data, records)[0]
    except EstimationError:  # too many combinations for a grid: a linear regression does without
        return None
    unit = records.count if share is None else records.count * share
    inverse = np.linalg.inv(grid.total(solved.theta)[1])
    seen = solved.influence.T @ (unit[:, None] * solved.influence)
    return np.asarray(seen - inverse @ _squares(grid, solved.theta, unit * records.weight**2) @ inverse.T)


def _squares(grid: Grid, theta: Array, weight: Array) -> Array:
    """Return ``Σ_i weight_i Σ_x B[r_i, x] ψ_x ψ_xᵀ`` over the cases, (P, P)."""
    m, p = grid.fixed.shape[1:]
    records, found = grid.records, np.zeros((m, p, m, p))
    chosen = range(len(records.factors))
    for part in records.parts(grid.table.shape[1] * (1 + m + m * m)):
        row = records.row[part]
        rows = slice(int(row[0]), int(row[-1]) + 1)
        ones = np.ones(len(row))
        sums = scipy.sparse.csr_array(
            (ones, (row - rows.start, np.arange(len(row)))), shape=(rows.stop - rows.start, len(row))
        )

        def summed(values: Array, sums: scipy.sparse.csr_array = sums, part: slice = part) -> Array:
            return np.asarray(sums @ (values * weight[part, None]))

        mean = records.family.moments(grid.design.predictors(theta.reshape(m, p), rows))[0]
        cells, outcome = records.weights(chosen, part), records.outcomes(chosen, part)
        held, first = summed(cells), [summed(outcome[:, :, a]) for a in range(m)]
        for a in range(m):
            for b in range(m):
                if records.response is not None:
                    second = summed(outcome[:, :, a] * records.response[part, None, b])
                else:  # indicators: the product of two different ones is 0
                    second = first[a] if a == b else np.zeros_like(held)
                spread = second - first[a] * mean[..., b] - first[b] * mean[..., a] + held * mean[..., a] * mean[..., b]
                found[a, :, b, :] += grid.design.gram(spread, rows)
    return found.reshape(m * p, m * p)
