"""The design of a regression over distinct clear covariates v and true cells x, in factors where it has any.

A column that is a product ``d_j(v, x) = b_k(v) a_j(x)`` is held as its two factors, and few b are distinct: 1 and
each clear
number, as a rule. Sums over the V by X table are then products of small matrices, and no V by X by p array is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from postrand.errors import EstimationError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.latent import Index
from postrand.estimate.regression_data import MAX_DESIGN, Data
from postrand.estimate.regression_linear import groups_of, place_of
from postrand.estimate.regression_moments import Records

SEPARABLE = 1e-12
"""A column is a product if it differs from one by at most this share of its largest entry."""


class Design(Protocol):
    """A design d of shape (V, X, p); ``rows`` are slices of V, ``at`` (c,) places in V of cases."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers V of rows, X of cells and p of columns."""

    def predictors(self, theta: Array, rows: slice) -> Array:
        """Return ``d θ'``, shape (v, X, m), θ of shape (m, p)."""

    def summed(self, values: Array, rows: slice) -> Array:
        """Return ``Σ_vx values[v, x] d[v, x]'``, shape (m, p), values of shape (v, X, m)."""

    def gram(self, values: Array, rows: slice) -> Array:
        """Return ``Σ_vx values[v, x] d d'``, shape (p, p), values of shape (v, X)."""

    def gathered(self, values: Array, at: Index) -> Array:
        """Return ``Σ_x values[c, x] d[at[c], x]'``, shape (c, m, p), values of shape (c, X, m)."""

    def bent(self, values: Array, left: Array, right: Array, at: Index) -> Array:
        """Return ``Σ_x values[c, x] (d l)(d r)`` for columns l and r of two (p, q) arrays, shape (c, q)."""

    def along(self, axis: int, shape: tuple[int, ...]) -> Array:
        """Return an array, one row for each cell of one axis of the cells: equal rows where all columns agree."""


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """Hold ``d_j(v, x) = clear[v, k_j] true[x, j]``: ``clear`` (V, k), ``true`` (X, p), ``factor`` (p,) the k of j."""

    clear: Array
    true: Array
    factor: Index

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers V of rows, X of cells and p of columns."""
        return len(self.clear), *self.true.shape

    def predictors(self, theta: Array, rows: slice) -> Array:
        """Return the linear predictors."""
        parts = np.stack([self.true[:, c] @ theta[:, c].T for c in self._columns()])
        return np.tensordot(self.clear[rows], parts, axes=1)

    def summed(self, values: Array, rows: slice) -> Array:
        """Return the sums over rows and cells."""
        held = np.tensordot(self.clear[rows], values, axes=(0, 0))
        return np.asarray(np.einsum("xj,jxm->mj", self.true, held[self.factor], optimize=True))

    def gram(self, values: Array, rows: slice) -> Array:
        """Return the weighted cross products."""
        clear, out = self.clear[rows], np.empty((len(self.factor),) * 2)
        for k, left in enumerate(self._columns()):
            held = (clear * clear[:, [k]]).T @ values
            for other, right in enumerate(self._columns()):
                out[np.ix_(left, right)] = self.true[:, left].T @ (held[other][:, None] * self.true[:, right])
        return out

    def gathered(self, values: Array, at: Index) -> Array:
        """Return the sums over cells."""
        return np.asarray(np.matmul(values.transpose(0, 2, 1), self.true) * self.clear[at][:, None, self.factor])

    def bent(self, values: Array, left: Array, right: Array, at: Index) -> Array:
        """Return the weighted products of two linear functions."""
        clear, out = self.clear[at], np.zeros((len(at), left.shape[1]))
        one = [self.true[:, c] @ left[c] for c in self._columns()]
        two = [self.true[:, c] @ right[c] for c in self._columns()]
        for k, a in enumerate(one):
            for other, b in enumerate(two):
                out += (clear[:, k] * clear[:, other])[:, None] * (values @ (a * b))
        return out

    def along(self, axis: int, shape: tuple[int, ...]) -> Array:
        """Return the columns' factors by cell of the axis."""
        return np.moveaxis(self.true.reshape(*shape, -1), axis, 0).reshape(shape[axis], -1)

    def _columns(self) -> list[Index]:
        return [np.flatnonzero(self.factor == k).astype(np.intp) for k in range(self.clear.shape[1])]


@dataclass(frozen=True, slots=True, eq=False)
class Full:
    """Hold all of a design, ``array`` (V, X, p)."""

    array: Array

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers V of rows, X of cells and p of columns."""
        v, x, p = self.array.shape
        return v, x, p

    def predictors(self, theta: Array, rows: slice) -> Array:
        """Return the linear predictors."""
        return np.asarray(self.array[rows] @ theta.T)

    def summed(self, values: Array, rows: slice) -> Array:
        """Return the sums over rows and cells."""
        return np.tensordot(values, self.array[rows], axes=((0, 1), (0, 1)))

    def gram(self, values: Array, rows: slice) -> Array:
        """Return the weighted cross products."""
        flat = self.array[rows].reshape(-1, self.array.shape[2])
        return np.asarray(flat.T @ (values.reshape(-1, 1) * flat))

    def gathered(self, values: Array, at: Index) -> Array:
        """Return the sums over cells."""
        return np.asarray(np.matmul(values.transpose(0, 2, 1), self.array[at]))

    def bent(self, values: Array, left: Array, right: Array, at: Index) -> Array:
        """Return the weighted products of two linear functions."""
        d = self.array[at]
        return np.asarray(np.matmul(values[:, None, :], (d @ left) * (d @ right))[:, 0])

    def along(self, axis: int, shape: tuple[int, ...]) -> Array:
        """Return the columns by cell of the axis."""
        v, _, p = self.array.shape
        return np.moveaxis(self.array.reshape(v, *shape, p), axis + 1, 0).reshape(shape[axis], -1)


def design_of(data: Data, records: Records, spec: Any) -> Design:
    """Return the design over the grid of the records, as products where every column is one.

    Raises
    ------
    EstimationError
        If a column is no product and the whole design would have more than 2^27 entries.
    """
    chosen = range(len(records.factors))
    case = np.searchsorted(records.row, np.arange(len(records.rows)))
    groups = groups_of(data, records, spec)
    size, terms = int(np.prod([f.size for f in records.factors], dtype=np.int64)), len(spec.column_names)
    clear, true = np.empty((len(case), terms)), np.empty((size, terms))
    for group in groups:
        place = place_of(records, chosen, group.factors)
        for j, column in enumerate(group.columns):
            pair = _split(group.design[:, :, j])
            if pair is None:
                return _full(records, groups, case, size, terms)
            clear[:, column], true[:, column] = pair[0][group.row[case]], pair[1][place]
    distinct, factor = np.unique(clear, axis=1, return_inverse=True)
    return Product(np.ascontiguousarray(distinct), true, factor.ravel().astype(np.intp))


def _split(column: Array) -> tuple[Array, Array] | None:
    """Return b (V,) and a (X,) with ``column = b a'``, or None; b has the largest absolute entry 1 where a varies."""
    v, x = np.unravel_index(int(np.abs(column).argmax()), column.shape)
    top = column[v, x]
    if top == 0:
        return np.ones(len(column)), np.zeros(column.shape[1])
    if column.shape[1] == 1:
        return column[:, 0], np.ones(1)
    clear, true = column[:, x] / top, column[v]
    fits = np.abs(column - clear[:, None] * true).max() <= SEPARABLE * abs(top)
    return (clear, true) if fits else None


def _full(records: Records, groups: Sequence[Any], case: Index, size: int, terms: int) -> Full:
    if len(case) * size * terms > MAX_DESIGN:
        raise EstimationError(
            sentence("the design is too large", fix="round numeric covariates, or use fewer perturbed ones")
        )
    array = np.empty((len(case), size, terms))
    for group in groups:
        place = place_of(records, range(len(records.factors)), group.factors)
        array[:, :, group.columns] = group.design[group.row[case]][:, place]
    return Full(array)
