"""Records as codes of key variables, and the occupied cells of their cross-classification."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.errors import DataError, UsageError, nearest, raise_all, sentence

IntArray = NDArray[Any]
FloatArray = NDArray[np.float64]

DENSE_CELLS = 1 << 26
"""Tables up to this many cells are counted in one array; larger ones by sorting the cell numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyCodes:
    """Hold the codes of n records on J key variables.

    ``codes`` has one integer array of shape (n,) for each variable, with values ``0 .. shape[j]-1``, or -1 where the
    value is missing and matches every other (a wildcard).

    Raises
    ------
    UsageError
        If there is no variable, or names, shape and codes differ in number.
    DataError
        If a code is outside its variable's range, or the columns differ in length.

    Examples
    --------
    >>> keys = KeyCodes(("sex", "age"), (2, 3), (np.array([0, 1, 1]), np.array([2, 0, 0])))
    >>> keys.records, keys.cells, table(keys).counts.tolist()
    (3, 6, [1, 2])
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    codes: tuple[IntArray, ...]

    def __post_init__(self) -> None:
        if not self.names or not len(self.names) == len(self.shape) == len(self.codes):
            raise UsageError(
                sentence("key variables, their sizes and codes differ in number", fix="name at least one key variable")
            )
        twice = sorted({n for n in self.names if self.names.count(n) > 1})
        raise_all(UsageError, (sentence(f"key variable {n!r} is named twice") for n in twice))
        problems = []
        for name, size, column in zip(self.names, self.shape, self.codes, strict=True):
            if column.shape != self.codes[0].shape or column.ndim != 1:
                problems.append(sentence("the columns differ in length", where=f"variable {name!r}"))
            elif column.size and (column.min() < -1 or column.max() >= size):
                problems.append(
                    sentence(
                        "a code is outside the range of its variable", where=f"variable {name!r}", wanted=f"< {size}"
                    )
                )
        raise_all(DataError, problems)

    def with_column(self, name: str, codes: IntArray, size: int) -> KeyCodes:
        """Return the keys with one more."""
        return KeyCodes((*self.names, name), (*self.shape, size), (*self.codes, codes))

    @property
    def records(self) -> int:
        """The number n of records."""
        return int(self.codes[0].size)

    @property
    def cells(self) -> int:
        """The number K of cells of the cross-classification, occupied or not."""
        return math.prod(self.shape)

    @property
    def has_wildcards(self) -> bool:
        """Whether some value is missing and matches every other."""
        return any(column.size and int(column.min()) < 0 for column in self.codes)

    def position(self, name: str) -> int:
        """Return the position of a key variable; raises UsageError with the nearest name."""
        if name not in self.names:
            hint = nearest(name, self.names)
            raise UsageError(sentence(f"no key variable {name!r}{hint}", wanted=", ".join(self.names)))
        return self.names.index(name)

    def select(self, names: Sequence[str]) -> KeyCodes:
        """Return the codes of these variables, in the order named."""
        at = [self.position(name) for name in names]
        return KeyCodes(tuple(names), tuple(self.shape[j] for j in at), tuple(self.codes[j] for j in at))

    def take(self, records: NDArray[np.bool_] | IntArray) -> KeyCodes:
        """Return the codes of some records: a mask or positions."""
        return KeyCodes(self.names, self.shape, tuple(column[records] for column in self.codes))


@dataclass(frozen=True, slots=True, eq=False)
class CellTable:
    """Hold the C occupied cells, in C order of their codes (the last variable varies fastest).

    ``codes`` has shape (C, J); ``counts`` (C,) are the sample frequencies f_j; ``record_cell`` (n,) is the position
    of each record's cell.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    codes: IntArray
    counts: NDArray[np.int64]
    record_cell: IntArray

    @property
    def uniques(self) -> NDArray[np.bool_]:
        """Which cells contain exactly one record, shape (C,)."""
        unique: NDArray[np.bool_] = self.counts == 1
        return unique


def table(keys: KeyCodes) -> CellTable:
    """Count the records of each occupied cell. A wildcard code counts as a category of its own here."""
    shape = tuple(s + 1 for s in keys.shape) if keys.has_wildcards else keys.shape
    columns = tuple(c.astype(np.int64) + 1 for c in keys.codes) if keys.has_wildcards else keys.codes
    index, keyed = cell_numbers(columns, shape)
    size = math.prod(keyed)
    if size <= max(DENSE_CELLS >> 6, min(DENSE_CELLS, 16 * keys.records)):
        dense = np.bincount(index, minlength=size)
        occupied = np.flatnonzero(dense)
        counts = dense[occupied]
        dense[occupied] = np.arange(occupied.size)
        record_cell = dense[index]
    else:
        occupied, record_cell, counts = np.unique(index, return_inverse=True, return_counts=True)
    codes = _codes_of(occupied, columns, keyed, record_cell)
    codes = codes - 1 if keys.has_wildcards else codes
    return CellTable(keys.names, keys.shape, codes, counts.astype(np.int64), record_cell)


def class_sizes(keys: KeyCodes) -> NDArray[np.int64]:
    """Return the sizes of the occupied cells in no stated order: all that k-anonymity needs."""
    index, keyed = cell_numbers(keys.codes, keys.shape)
    size = math.prod(keyed)
    if size <= DENSE_CELLS:
        dense = np.bincount(index, minlength=size)
        return dense[dense > 0]
    index.sort()
    edges = np.flatnonzero(np.diff(index, prepend=-1))
    return np.diff(edges, append=index.size)


def ravel(codes: Sequence[IntArray], shape: Sequence[int]) -> IntArray:
    """Return the number of each record's cell in C order, in int32 where that holds all of them.

    Raises
    ------
    UsageError
        If the table has 2^63 cells or more.
    """
    size = math.prod(shape)
    if size >= 1 << 63:
        raise UsageError(
            sentence(
                "the key variables have too many cells",
                got=f"{size:.3g}",
                wanted="< 2^63",
                fix="use fewer key variables",
            )
        )
    dtype = np.int32 if size < 1 << 31 else np.int64
    index: IntArray = codes[0].astype(dtype)
    for column, levels in zip(codes[1:], shape[1:], strict=True):
        index *= dtype(levels)
        index += column
    return index


def cell_numbers(codes: Sequence[IntArray], shape: Sequence[int]) -> tuple[IntArray, tuple[int, ...]]:
    """Return cell numbers and the shape that they ravel; beyond 2^63 cells, leading keys are first merged."""
    columns, sizes = list(codes), list(shape)
    while math.prod(sizes) >= 1 << 62:
        head = 2
        while head < len(sizes) and math.prod(sizes[: head + 1]) < 1 << 62:
            head += 1
        present, merged = np.unique(ravel(columns[:head], sizes[:head]), return_inverse=True)
        columns[:head], sizes[:head] = [merged], [present.size]
    return ravel(columns, sizes), tuple(sizes)


def _codes_of(
    occupied: IntArray, columns: Sequence[IntArray], keyed: tuple[int, ...], record_cell: IntArray
) -> IntArray:
    if len(keyed) == len(columns):
        codes = np.empty((occupied.size, len(keyed)), dtype=np.int32)
        left = occupied.astype(np.int32) if math.prod(keyed) < 1 << 31 else occupied
        for j in reversed(range(len(keyed))):  # unravel_index would hold all columns as int64, twice
            left, codes[:, j] = np.divmod(left, left.dtype.type(keyed[j]))
        return codes
    first = np.empty(occupied.size, dtype=np.int64)  # any record of a cell shows the cell's codes
    first[record_cell] = np.arange(record_cell.size)
    return np.stack([column[first] for column in columns], axis=1).astype(np.int32)
