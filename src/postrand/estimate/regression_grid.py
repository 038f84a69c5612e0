"""The corrected equations of any family, over the grid of distinct clear covariates and true cells.

``U(θ) = Σ_i w_i Σ_x B[r_i, x] d(x, v_i) (y_i − μ(d(x, v_i)'θ))``. The part with y does not depend on θ, and the part
without it needs only ``W[v, x] = Σ_{i: v_i = v} w_i B[r_i, x]``, signed weights of a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from postrand.errors import EstimationError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.latent import Index
from postrand.estimate.regression_data import MAX_LATENT, Data, design_on, model_of
from postrand.estimate.regression_moments import CHUNK, Records, cells_of, check_identified


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Hold the ``design`` (V, X, p), the signed ``table`` (V, X), and each case's part with y, ``fixed`` (N, m, p)."""

    records: Records
    design: Array
    table: Array
    fixed: Array

    @property
    def parameters(self) -> int:
        """The number P = m p of coefficients, predictor by predictor."""
        return int(self.fixed.shape[1] * self.fixed.shape[2])

    def total(self, theta: Array, convex: bool = False) -> tuple[Array, Array]:
        """Return the equation U (P,) and its negative Jacobian (P, P); ``convex`` takes absolute weights in the latter."""
        m, p = self.fixed.shape[1:]
        pull = np.tensordot(self.records.count * self.records.weight, self.fixed, axes=1)
        slope = np.zeros((m, p, m, p))
        for rows in self._rows(m * m + p):
            d = self.design[rows].reshape(-1, p)
            w = self.table[rows].ravel()
            mean, curve = self.records.family.moments(d @ theta.reshape(m, p).T)
            pull -= (w[:, None] * mean).T @ d
            held = np.abs(w) if convex else w
            for a in range(m):
                for b in range(a, m):
                    block = d.T @ ((held * curve[:, a, b])[:, None] * d)
                    slope[a, :, b, :] = slope[a, :, b, :] + block
                    if a != b:
                        slope[b, :, a, :] = slope[b, :, a, :] + block
        return pull.ravel(), slope.reshape(m * p, m * p)

    def each(self, theta: Array, directions: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Yield each case's part of U, (c, P), and of ``t'Jt`` for the columns t of ``directions``, (c, q)."""
        m, p = self.fixed.shape[1:]
        chosen = range(len(self.records.factors))
        size, family = self.design.shape[1], self.records.family
        turned = directions.reshape(m, p, -1)
        for part in self.records.parts(size * (m * p + m * directions.shape[1])):
            row = self.records.row[part]
            rows = slice(int(row[0]), int(row[-1]) + 1)
            d = self.design[rows]
            mean, curve = family.moments(d @ theta.reshape(m, p).T)
            along = np.tensordot(d, turned, axes=(2, 1))  # (v, X, m, q)
            bent = np.einsum("vxaq,vxab,vxbq->vxq", along, curve, along, optimize=True)
            pull = (mean[..., :, None] * d[..., None, :]).reshape(len(d), size, m * p)
            weights, at = self.records.weights(chosen, part), row - row[0]
            flat = self.fixed[part].reshape(len(weights), -1)
            yield part, flat - _mixed(weights, pull, at), _mixed(weights, bent, at)

    def predictors(self, theta: Array) -> Array:
        """Return the linear predictors over the grid, shape (V, X, m)."""
        m, p = self.fixed.shape[1:]
        return np.asarray(self.design @ theta.reshape(m, p).T)

    def _rows(self, width: int) -> Iterator[slice]:
        step = max(1, CHUNK // (self.design.shape[1] * width))
        return (slice(i, i + step) for i in range(0, len(self.design), step))


def _mixed(weights: Array, values: Array, at: Index) -> Array:
    """Return ``Σ_x weights[c, x] values[at[c], x]``, shape (c, q)."""
    if len(values) == 1:
        return np.asarray(weights @ values[0])
    return np.asarray(np.matmul(weights[:, None, :], values[at])[:, 0])


def grid_of(data: Data, records: Records) -> tuple[Grid, tuple[str, ...]]:
    """Return the equations over the grid, and the names of the design's columns.

    Raises
    ------
    EstimationError
        If the perturbed covariates have more than 2,000 combinations, or a singular matrix does not identify them.
    """
    chosen = range(len(records.factors))
    size, codes = cells_of(records, chosen)
    if size > MAX_LATENT:
        what, fix = "too many combinations of perturbed categories", "use fewer perturbed variables"
        raise EstimationError(sentence(what, got=size, wanted=f"<= {MAX_LATENT}", fix=fix))
    spec = model_of(data)
    design = design_on(data, spec, records.rows, codes, size)
    shape = tuple(f.size for f in records.factors)
    for i, factor in enumerate(records.factors):
        if not factor.exact:
            alike = np.moveaxis(design.reshape(len(design), *shape, -1), i + 1, 0).reshape(factor.size, -1)
            label = np.unique(alike, axis=0, return_inverse=True)[1].ravel()
            classes = (label[:, None] == np.arange(label.max() + 1)).astype(np.float64)
            check_identified(data, factor, classes, classes)
    return made(records, design), tuple(str(n) for n in spec.column_names)


def made(records: Records, design: Array) -> Grid:
    """Sum the cases over the grid."""
    chosen = range(len(records.factors))
    m, (v, size, p) = records.family.predictors, design.shape
    table, fixed = np.zeros((v, size)), np.empty((len(records.count), m, p))
    for part in records.parts(size * max(p, m)):
        row = records.row[part]
        low = int(row[0])
        weighted = records.weights(chosen, part) * (records.count * records.weight)[part, None]
        sums = sparse.csr_array((np.ones(len(row)), (row - low, np.arange(len(row)))))
        table[low : low + sums.shape[0]] += sums @ weighted
        outcomes = records.outcomes(chosen, part)
        if v == 1:
            fixed[part] = np.tensordot(outcomes, design[0], axes=(1, 0))
        else:
            fixed[part] = np.matmul(outcomes.transpose(0, 2, 1), design[row])
    return Grid(records, design, table, fixed)
