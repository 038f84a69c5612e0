"""The corrected equations of any family, over the grid of distinct clear covariates and true cells.

``U(θ) = Σ_i w_i Σ_x B[r_i, x] d(x, v_i) (y_i − μ(d(x, v_i)'θ))``. The part with y does not depend on θ, and the part
without it needs only ``W[v, x] = Σ_{i: v_i = v} w_i B[r_i, x]``, signed weights of a table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy

from postrand.errors import EstimationError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.regression_data import MAX_DESIGN, MAX_LATENT, Data, model_of
from postrand.estimate.regression_design import Design, Full, design_of
from postrand.estimate.regression_moments import CHUNK, Records, check_identified
from postrand.estimate.regression_terms import terms_of


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Hold the ``design`` (V, X, p), the signed ``table`` (V, X), and each case's part with y, ``fixed`` (N, m, p)."""

    records: Records
    design: Design
    table: Array
    fixed: Array

    @property
    def parameters(self) -> int:
        """The number P = m p of coefficients, predictor by predictor."""
        return int(self.fixed.shape[1] * self.fixed.shape[2])

    def total(self, theta: Array, convex: bool = False) -> tuple[Array, Array]:
        """Return the equation U (P,) and its negative Jacobian (P, P); ``convex``: the latter with absolute weights."""
        m, p = self.fixed.shape[1:]
        pull = np.tensordot(self.records.count * self.records.weight, self.fixed, axes=1)
        slope = np.zeros((m, p, m, p))
        for rows in self.rows():
            w = self.table[rows]
            mean, curve = self.records.family.moments(self.design.predictors(theta.reshape(m, p), rows))
            pull -= self.design.summed(w[..., None] * mean, rows)
            held = np.abs(w) if convex else w
            for a in range(m):
                for b in range(a, m):
                    block = self.design.gram(held * curve[..., a, b], rows)
                    slope[a, :, b, :] += block
                    if a != b:
                        slope[b, :, a, :] += block
        return pull.ravel(), slope.reshape(m * p, m * p)

    def each(self, theta: Array, directions: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Yield each case's part of U, (c, P), and of ``t'Jt`` for the columns t of ``directions``, (c, q)."""
        m, p = self.fixed.shape[1:]
        chosen = range(len(self.records.factors))
        turned = directions.reshape(m, p, -1)
        for part in self.records.parts(self.table.shape[1] * m * m + m * p + directions.shape[1]):
            row = self.records.row[part]
            low, weights = int(row[0]), self.records.weights(chosen, part)
            eta = self.design.predictors(theta.reshape(m, p), slice(low, int(row[-1]) + 1))
            mean, curve = self.records.family.moments(eta)
            pull = self.fixed[part] - self.design.gathered(weights[..., None] * mean[row - low], row)
            bent = np.zeros((len(row), directions.shape[1]))
            for a, b in itertools.product(range(m), repeat=2):
                bent += self.design.bent(weights * curve[row - low, :, a, b], turned[a], turned[b], row)
            yield part, pull.reshape(len(row), m * p), bent

    def predictors(self, theta: Array) -> Array:
        """Return the linear predictors where the table has weight, shape (count, m)."""
        m, p = self.fixed.shape[1:]
        parts = [self.design.predictors(theta.reshape(m, p), rows)[self.table[rows] != 0] for rows in self.rows()]
        return np.concatenate(parts)

    def rows(self) -> Iterator[slice]:
        """Yield slices of the rows, each within a chunk."""
        v, size, p = self.design.shape
        step = max(1, CHUNK // (size * max(p if isinstance(self.design, Full) else 1, self.fixed.shape[1] ** 2)))
        return (slice(i, i + step) for i in range(0, v, step))


def fits(records: Records) -> bool:
    """Whether the perturbed covariates have few enough combinations for a grid."""
    size = math.prod(f.size for f in records.factors)
    return size <= MAX_LATENT and size * len(records.rows) <= MAX_DESIGN


def grid_of(data: Data, records: Records) -> tuple[Grid, tuple[str, ...]]:
    """Return the equations over the grid, and the names of the design's columns.

    Raises
    ------
    EstimationError
        If the perturbed covariates have more than 2,000 combinations, or a singular matrix does not identify them.
    """
    shape = tuple(f.size for f in records.factors)
    if not fits(records):
        what, fix = "too many combinations of perturbed categories", "use fewer perturbed variables"
        raise EstimationError(sentence(what, got=math.prod(shape), wanted=f"<= {MAX_LATENT}", fix=fix))
    spec = model_of(data)
    design = design_of(data, records, spec)
    for i, factor in enumerate(records.factors):
        if not factor.exact:
            label = np.unique(design.along(i, shape), axis=0, return_inverse=True)[1].ravel()
            classes = (label[:, None] == np.arange(label.max() + 1)).astype(np.float64)
            check_identified(data, factor, classes, classes)
    return made(records, design), terms_of(spec, data.names, data.book)


def made(records: Records, design: Design) -> Grid:
    """Sum the cases over the grid."""
    chosen = range(len(records.factors))
    m, (v, size, p) = records.family.predictors, design.shape
    table, fixed = np.zeros((v, size)), np.empty((len(records.count), m, p))
    for part in records.parts(size * (p if isinstance(design, Full) else m) + m * p):
        row = records.row[part]
        low = int(row[0])
        weighted = records.weights(chosen, part) * (records.count * records.weight)[part, None]
        sums = scipy.sparse.csr_array((np.ones(len(row)), (row - low, np.arange(len(row)))))
        table[low : low + sums.shape[0]] += sums @ weighted
        fixed[part] = design.gathered(records.outcomes(chosen, part), row)
    return Grid(records, design, table, fixed)
