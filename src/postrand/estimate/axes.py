"""The axes of a released table, and linear maps applied along them one by one.

A released table is a tensor with one axis for each unperturbed variable and one for each whole block. Every linear
estimator here is a product of one small matrix per axis, so no Kronecker product is built, but for the
profile likelihood of small tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from postrand.errors import EstimationError, SpecificationError, sentence

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
MERGE = (
    "merge categories that the perturbation makes alike; in Python, estimate.identified names the groups that can be "
    "estimated"
)
"""The next step where frequencies are not identified."""
Operator = Array | None
"""A matrix of shape (L, K) acting along an axis of length K; None is the identity."""


class Solver(Protocol):
    """Solves with a law M of K true and R released cells."""

    def solve(self, values: Array, /) -> Array:
        """Return b (R, n) with ``M b = values`` (K, n)."""

    def solve_transposed(self, values: Array, /) -> Array:
        """Return π (K, n) with ``Mᵀ π = values`` (R, n)."""


class Transition(Protocol):
    """The law M of what is released: a transition matrix, or more released cells than true ones."""

    @property
    def size(self) -> int:
        """The number R of released cells."""

    @property
    def array(self) -> Array:
        """The probabilities, (K, R), rows true and columns released."""

    def times(self, values: Array, /) -> Array:
        """Return ``M values``, (K, n), values of shape (R, n)."""

    def factor(self) -> Solver:
        """Return what solves with M; raises EstimationError where nothing does."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Describe one axis: an unperturbed variable, or a block perturbed as one.

    Parameters
    ----------
    names
        The variables of the axis, all of the block's, those included that it only reads.
    labels
        A text for each code of each variable.
    matrix
        The block's law over its K cells; None where the axis is unperturbed.
    cells
        The codes of each true cell, shape (K, J).
    kept
        Positions in ``names`` of the variables that the table shows, the others are summed out.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    matrix: Transition | None
    cells: NDArray[np.int32]
    kept: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.matrix is not None and self.matrix.size != len(self.cells):
            raise SpecificationError(
                sentence(
                    "the matrix does not fit the counts",
                    where="*".join(self.names),
                    got=f"{len(self.cells)} counts",
                    wanted=f"{self.matrix.size}",
                )
            )

    @property
    def size(self) -> int:
        """The number R of released cells: K, but for a split."""
        return len(self.cells)

    @property
    def looks(self) -> NDArray[np.intp]:
        """The true cell that each released one looks like, shape (R,)."""
        return np.arange(len(self.cells))

    @property
    def kept_names(self) -> tuple[str, ...]:
        """The variables that the table shows."""
        return tuple(self.names[i] for i in self.kept)

    @property
    def kept_shape(self) -> tuple[int, ...]:
        """The number of codes of each variable shown."""
        return tuple(len(self.labels[i]) for i in self.kept)

    @property
    def projection(self) -> Operator:
        """The 0/1 matrix, shape (L, K), that sums cells into the variables shown; None where it is the identity."""
        shape = self.kept_shape
        if not shape:
            return np.ones((1, len(self.cells)))
        index = np.ravel_multi_index(tuple(self.cells[:, self.kept].T), shape)
        size = math.prod(shape)
        if size == len(index) and np.array_equal(index, np.arange(size)):
            return None
        project = np.zeros((size, len(index)))
        project[index, np.arange(len(index))] = 1.0
        return project

    def unbiased(self) -> Operator:
        """Return ``G (Mᵀ)^-1``, shape (L, K), with G the projection; raises EstimationError where M is singular."""
        if self.matrix is None:
            return self.projection
        try:
            factor = self.matrix.factor()
        except EstimationError as error:
            raise EstimationError(
                sentence(
                    "the release does not identify every frequency",
                    where="*".join(self.names),
                    got="a singular or nearly singular transition matrix",
                    fix=MERGE,
                )
            ) from error
        project = self.projection
        wanted = np.eye(self.size) if project is None else project.T
        return np.ascontiguousarray(factor.solve(wanted).T)


def single(name: str, labels: Sequence[str], matrix: Transition | None) -> Axis:
    """Return the axis of one variable."""
    cells = np.arange(len(labels), dtype=np.int32)[:, None]
    return Axis((name,), (tuple(labels),), matrix, cells, (0,))


def apply(operators: Sequence[Operator], tensor: Array) -> Array:
    """Apply one operator along each axis: ``out[l] = Σ_k Π_a B_a[l_a, k_a] tensor[k]``.

    >>> apply([np.array([[1.0, 1.0]]), None], np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[4., 6.]])
    """
    for axis, operator in enumerate(operators):
        if operator is not None:
            tensor = np.moveaxis(np.tensordot(operator, tensor, axes=(1, axis)), 0, axis)
    return np.ascontiguousarray(tensor)


def apply_maps(maps: Sequence[Callable[[Array], Array] | None], tensor: Array) -> Array:
    """Apply one linear map, of columns (K, n) to columns (L, n), along each axis; None is the identity."""
    for axis, linear in enumerate(maps):
        if linear is not None:
            moved = np.moveaxis(tensor, axis, 0)
            mapped = linear(moved.reshape(len(moved), -1))
            tensor = np.moveaxis(mapped.reshape(len(mapped), *moved.shape[1:]), 0, axis)
    return np.ascontiguousarray(tensor)


def kronecker(operators: Sequence[Operator], shape: Sequence[int]) -> Array:
    """Return the product of the operators as one matrix over the cells in C order; for small tables only."""
    product: Array = np.ones((1, 1))
    for operator, size in zip(operators, shape, strict=True):
        product = np.asarray(np.kron(product, np.eye(size) if operator is None else operator), dtype=np.float64)
    return product


def apply_squares(operators: Sequence[Operator], tensor: Array) -> Array:
    """Return the diagonal of ``B diag(tensor) Bᵀ`` as a tensor: the squared operators along each axis."""
    return apply([None if b is None else b * b for b in operators], tensor)


def apply_pairs(operators: Sequence[Operator], tensor: Array, right: Sequence[Operator] | None = None) -> Array:
    """Return ``B diag(tensor) Cᵀ``, shape (L, L) in C order, from products of pairs along each axis.

    ``right`` are the operators of C, of the same shapes as B's; by default C is B.
    """
    sizes = [size if b is None else len(b) for b, size in zip(operators, tensor.shape, strict=True)]
    doubled = tensor
    for axis, (left, other) in enumerate(zip(operators, operators if right is None else right, strict=True)):
        moved = np.moveaxis(doubled, axis, 0)
        b = np.eye(len(moved)) if left is None else left
        c = np.eye(len(moved)) if other is None else other
        flat = moved.reshape(len(moved), -1)
        # Row by row: all pairs of rows at once would take a row's room for each pair.
        pairs = np.concatenate([(c * row) @ flat for row in b]).reshape(-1, *moved.shape[1:])
        doubled = np.moveaxis(pairs, 0, axis)
    doubled = doubled.reshape([s for size in sizes for s in (size, size)])
    order = [*range(0, 2 * len(sizes), 2), *range(1, 2 * len(sizes), 2)]
    total = math.prod(sizes)
    return np.ascontiguousarray(doubled.transpose(order)).reshape(total, total)


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Order the cells of a table: axes as counted, variables as the caller named them, and which are perturbed."""

    axes: tuple[Axis, ...]
    variables: tuple[str, ...]
    perturbed: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of codes of each variable, in the caller's order."""
        return tuple(len(texts) for texts in self.labels)

    @property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """The texts of each variable's codes, in the caller's order."""
        texts = {axis.names[i]: axis.labels[i] for axis in self.axes for i in axis.kept}
        return tuple(texts[name] for name in self.variables)

    @property
    def shared(self) -> tuple[str, ...]:
        """The variables on more than one axis: several blocks read them, or one reads what another perturbs."""
        names = [name for axis in self.axes for name in axis.names]
        return tuple(name for name in self.held if names.count(name) > 1)

    @property
    def held(self) -> tuple[str, ...]:
        """The variables of all axes, those included that the table does not show: a record must miss none of them."""
        return tuple(dict.fromkeys(name for axis in self.axes for name in axis.names))

    def arrange(self, tensor: Array) -> Array:
        """Return a tensor over the axes' kept cells as an array of ``shape``."""
        split = tensor.reshape([size for axis in self.axes for size in axis.kept_shape])
        return np.ascontiguousarray(split.transpose(self._order()))

    def arrange_matrix(self, matrix: Array) -> Array:
        """Reorder the rows and columns of a matrix over the axes' kept cells, in C order of ``shape``."""
        index = self.arrange(np.arange(len(matrix), dtype=np.float64)).ravel().astype(np.intp)
        return matrix[np.ix_(index, index)]

    def scatter(self, values: Array) -> Array:
        """Return an array of ``shape`` as a tensor over the axes' kept cells (the inverse of :meth:`arrange`)."""
        split = values.transpose(np.argsort(self._order()))
        return np.ascontiguousarray(split).reshape([math.prod(axis.kept_shape) for axis in self.axes])

    def _order(self) -> list[int]:
        counted = [name for axis in self.axes for name in axis.kept_names]
        return [counted.index(name) for name in self.variables]
