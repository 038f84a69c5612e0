"""Contingency tables of codes: dense arrays if they are small, otherwise sorted occupied cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.errors import SpecificationError, UsageError, nearest, raise_all, sentence

DENSE_CELLS = 1 << 22
"""Tables of more cells than this are stored as their occupied cells."""

_MAX_CELLS = 2**63 - 1
_PENDING_CELLS = 1 << 20
_DENSER = 8


@dataclass(frozen=True, slots=True, eq=False)
class ContingencyTable:
    """Hold the count of each combination of codes; checked when created.

    Parameters
    ----------
    variables
        The names, one for each axis.
    shape
        The number of codes of each variable.
    counts
        Dense: an array of that shape, in C order. Sparse: shape (C,), the counts of ``cells``. Integers, or float64
        if records are weighted.
    cells
        None if dense; otherwise the C-order index of each stored cell, ascending, int64, shape (C,).
    omitted
        The number (or weight) of records that are left out because a value is missing and kept (code -1).

    Raises
    ------
    SpecificationError
        If the parts do not match each other, or a count is negative or not finite.

    Examples
    --------
    >>> codes = [np.array([0, 1, 1, 1]), np.array([2, 0, 0, 1])]
    >>> table = tally(("sex", "area"), (2, 3), [(codes, None)])
    >>> table.dense().tolist(), table.uniques(), table.project(["sex"]).dense().tolist()
    ([[0, 0, 1], [2, 1, 0]], 2, [1, 3])
    """

    variables: tuple[str, ...]
    shape: tuple[int, ...]
    counts: NDArray[Any]
    cells: NDArray[np.int64] | None = None
    omitted: float = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "variables", tuple(self.variables))
        object.__setattr__(self, "shape", tuple(int(s) for s in self.shape))
        for name in ("counts", "cells"):
            if (array := getattr(self, name)) is not None:
                array = np.array(array)  # a copy: nobody else can change it
                array.setflags(write=False)
                object.__setattr__(self, name, array)
        raise_all(SpecificationError, _problems(self))

    def __repr__(self) -> str:  # of no count: tables of the confidential file are held here too
        sizes = " × ".join(f"{name} ({size})" for name, size in zip(self.variables, self.shape, strict=True))
        return f"ContingencyTable({sizes}, {'dense' if self.is_dense else 'sparse'})"

    @property
    def is_dense(self) -> bool:
        """Whether ``counts`` contains every cell."""
        return self.cells is None

    @property
    def size(self) -> int:
        """The number of cells, occupied or not."""
        return math.prod(self.shape)

    @property
    def total(self) -> int | float:
        """The sum of the counts: records, or their weight."""
        return self.counts.sum().item()  # type: ignore[no-any-return]

    def uniques(self) -> int:
        """Return the number of cells with exactly one record (of an unweighted table: the sample uniques)."""
        return int((self.counts == 1).sum())

    def occupied(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the codes, shape (C, J), and the counts, shape (C,), of the cells above 0, in C order."""
        index, counts = _sparse(self)
        codes = np.stack(np.unravel_index(index, self.shape), axis=1) if self.shape else np.zeros((index.size, 0))
        return codes.astype(np.int64, copy=False), counts

    def dense(self) -> NDArray[Any]:
        """Return the counts as an array of the table's shape.

        Raises
        ------
        UsageError
            If the table has too many cells for a dense array.
        """
        if self.cells is None:
            return self.counts
        if self.size > 1 << 28:
            what = "the table is too large for a dense array"
            raise UsageError(sentence(what, got=f"{self.size} cells", wanted=f"<= {1 << 28}", fix="use occupied()"))
        full = np.zeros(self.size, dtype=self.counts.dtype)
        full[self.cells] = self.counts
        return full.reshape(self.shape)

    def project(self, names: Iterable[str]) -> ContingencyTable:
        """Return the marginal table of these variables, axes in the given order.

        Raises
        ------
        UsageError
            If a name is not an axis of the table, or is repeated.
        """
        names = tuple(names)
        raise_all(UsageError, _name_problems(names, self.variables))
        axes = [self.variables.index(name) for name in names]
        shape = tuple(self.shape[a] for a in axes)
        if self.cells is None:
            others = tuple(a for a in range(len(self.shape)) if a not in axes)
            kept = [a for a in range(len(self.shape)) if a in axes]
            counts = self.counts.sum(axis=others).transpose([kept.index(a) for a in axes])
            return ContingencyTable(names, shape, counts, omitted=self.omitted)
        codes, counts = self.occupied()
        index = np.ravel_multi_index(tuple(codes[:, a] for a in axes), shape) if axes else np.zeros(len(counts), int)
        return _of_cells(names, shape, index, counts, self.omitted)


def tally(
    variables: Sequence[str],
    shape: Sequence[int],
    batches: Iterable[tuple[Sequence[NDArray[Any]], NDArray[Any] | None]],
) -> ContingencyTable:
    """Count a stream of batches, each the codes of every variable, (n,) each, and the records' weights (or None).

    Records with a code -1 (a missing value that is kept) are left out and counted in ``omitted``. Memory depends on the
    number of occupied cells, not of records.

    Raises
    ------
    UsageError
        If there are more combinations than a 64-bit index can represent.
    """
    tables = TableTally(tuple(variables), tuple(int(s) for s in shape))
    for codes, weights in batches:
        tables.add(table_part(codes, tables.shape, weights))
    return tables.found()


@dataclass(frozen=True, slots=True, eq=False)
class TablePart:
    """Counts of some records: of every cell of the table where ``cells`` is None, else of these, ascending."""

    counts: NDArray[Any]
    cells: NDArray[np.int64] | None
    omitted: int | float


def table_part(codes: Sequence[NDArray[Any]], shape: tuple[int, ...], weights: NDArray[Any] | None) -> TablePart:
    """Count one batch: the codes of every variable, (n,) each, and the records' weights (or None)."""
    index, weights, omitted = _index(codes, shape, weights)
    size = math.prod(shape)
    if size <= _DENSER * index.size:  # an array over every cell takes less time than a sort of the records
        return TablePart(np.bincount(index, weights=weights, minlength=size), None, omitted)
    cells, counts = _merge(index, np.ones(index.size, dtype=np.int64) if weights is None else weights)
    return TablePart(counts, cells, omitted)


class TableTally:
    """Add up parts of one table."""

    def __init__(self, variables: tuple[str, ...], shape: tuple[int, ...]) -> None:
        size = math.prod(shape)
        if size > _MAX_CELLS:
            what = "the variables have more combinations than 2^63"
            raise UsageError(sentence(what, where="*".join(variables), fix="count fewer variables together"))
        self.variables, self.shape = variables, shape
        self._counter = _Dense(size) if size <= DENSE_CELLS else _Sparse()
        self._omitted: int | float = 0

    def add(self, part: TablePart) -> None:
        """Add the records of a part."""
        self._omitted += part.omitted
        self._counter.add(part)

    def found(self) -> ContingencyTable:
        """Return the table of all that was added."""
        cells, counts = self._counter.result()
        counts = counts.reshape(self.shape) if cells is None else counts
        return ContingencyTable(self.variables, self.shape, counts, cells, self._omitted)


class _Dense:
    """Adds up an array over every cell."""

    def __init__(self, size: int) -> None:
        self.counts: NDArray[Any] = np.zeros(size, dtype=np.int64)

    def add(self, part: TablePart) -> None:
        if part.counts.dtype == np.float64 and self.counts.dtype != np.float64:
            self.counts = self.counts.astype(np.float64)
        if part.cells is None:
            self.counts += part.counts
        else:  # touch the records' cells, not every cell
            self.counts[part.cells] += part.counts

    def result(self) -> tuple[None, NDArray[Any]]:
        return None, self.counts


class _Sparse:
    """Adds up occupied cells; merges when as many are pending as stored: each cell is sorted O(log n) times."""

    def __init__(self) -> None:
        self.cells: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.counts: NDArray[Any] = np.zeros(0, dtype=np.int64)
        self.pending: list[tuple[NDArray[np.int64], NDArray[Any]]] = []

    def add(self, part: TablePart) -> None:
        cells = np.flatnonzero(part.counts) if part.cells is None else part.cells
        self.pending.append((cells, part.counts if part.cells is not None else part.counts[cells]))
        if sum(cells.size for cells, _ in self.pending) > max(_PENDING_CELLS, self.cells.size):
            self.result()

    def result(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        cells, counts = zip((self.cells, self.counts), *self.pending, strict=True)
        self.cells, self.counts = _merge(np.concatenate(cells), np.concatenate(counts))
        self.pending = []
        return self.cells, self.counts


def _merge(index: NDArray[np.int64], counts: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return distinct cells, ascending, with their summed counts."""
    order = np.argsort(index, kind="stable")
    index, counts = index[order], counts[order]
    first = np.flatnonzero(np.concatenate(([True], index[1:] != index[:-1]))) if index.size else np.zeros(0, int)
    return index[first], np.add.reduceat(counts, first) if first.size else counts


def _index(
    codes: Sequence[NDArray[Any]], shape: tuple[int, ...], weights: NDArray[Any] | None
) -> tuple[NDArray[np.int64], NDArray[Any] | None, int | float]:
    """Return the C-order index of each complete record, its weight, and the number (or weight) left out."""
    if not shape:
        raise UsageError(sentence("a table needs at least one variable"))
    index = np.zeros(len(codes[0]), dtype=np.int64)
    kept = np.ones(index.size, dtype=bool)
    for column, size in zip(codes, shape, strict=True):
        if column.size and not (column.min() >= -1 and column.max() < size):
            raise UsageError(sentence("a code is outside its variable's range", wanted=f"-1..{size - 1}"))
        kept &= column >= 0
        index *= size
        index += column
    if kept.all():
        return index, weights, 0
    lost = (~kept).sum() if weights is None else weights[~kept].sum()
    return index[kept], None if weights is None else weights[kept], lost.item()


def _of_cells(
    names: tuple[str, ...], shape: tuple[int, ...], index: NDArray[np.int64], counts: NDArray[Any], omitted: float
) -> ContingencyTable:
    index, counts = _merge(index, counts)
    table = ContingencyTable(names, shape, counts, index, omitted)
    return table if table.size > DENSE_CELLS else ContingencyTable(names, shape, table.dense(), omitted=omitted)


def _sparse(table: ContingencyTable) -> tuple[NDArray[np.int64], NDArray[Any]]:
    flat = table.counts.reshape(-1)
    positive = np.flatnonzero(flat)
    return (positive if table.cells is None else table.cells[positive]), flat[positive]


def _problems(table: ContingencyTable) -> Iterable[str]:
    where = f"table {'*'.join(table.variables)}"
    if len(table.variables) != len(table.shape) or len(set(table.variables)) != len(table.variables):
        yield sentence("a table needs a different name for each axis", where=where)
    if any(s < 1 for s in table.shape) or math.prod(table.shape) > _MAX_CELLS:
        yield sentence("an axis is empty, or there are more than 2^63 cells", where=where)
    elif table.cells is None:
        if table.counts.shape != table.shape:
            yield sentence(
                "the shape of the counts is not the table's shape",
                where=where,
                got=table.counts.shape,
                wanted=table.shape,
            )
    elif table.counts.shape != table.cells.shape or table.cells.ndim != 1:
        yield sentence("the numbers of cells and counts differ", where=where)
    elif table.cells.size and not (
        table.cells[0] >= 0 and table.cells[-1] < math.prod(table.shape) and (np.diff(table.cells) > 0).all()
    ):
        yield sentence("the cells are not ascending indices within the table", where=where)
    if not np.issubdtype(table.counts.dtype, np.number):
        yield sentence("the counts are not numbers", where=where, got=table.counts.dtype)
    elif not (np.isfinite(table.counts).all() and (table.counts >= 0).all()):
        yield sentence("a count is negative or not finite", where=where)


def _name_problems(names: Sequence[str], known: Sequence[str]) -> Iterable[str]:
    for name in sorted({n for n in names if list(names).count(n) > 1}):
        yield sentence(f"variable {name!r} is named twice")
    for name in names:
        if name not in known:
            yield sentence(f"no variable {name!r} in the table{nearest(name, known)}", wanted=", ".join(known))
