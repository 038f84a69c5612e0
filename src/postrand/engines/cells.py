"""The cells of a block: codes of its variables to positions in its matrix, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook, Variable, coding
from postrand.errors import DataError, sentence
from postrand.mechanism import Block
from postrand.mechanism.block import all_cells

_LOOKUP_CELLS = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Map the codes of a block's variables to positions in its matrix, and back.

    ``lookup`` gives the position of each C-order index of codes (-1: not feasible); where that would be too large,
    ``ravelled``, ascending, is searched, and ``lookup`` gives the position of each of its entries. A block of one
    variable without a list of cells has neither.
    """

    names: tuple[str, ...]
    variables: tuple[Variable, ...]
    shape: tuple[int, ...]
    table: NDArray[np.int32] | None = None
    lookup: NDArray[np.int32] | None = None
    ravelled: NDArray[np.int64] | None = None
    given: tuple[str, ...] = ()

    @classmethod
    def of(cls, block: Block, codebook: Codebook) -> Cells:
        """Prepare the cells of a block."""
        listed = None if block.cells is None else np.array(block.cells, dtype=np.int32)
        return cls.listed(block.variables, codebook, listed, block.given)

    @classmethod
    def listed(
        cls, names: tuple[str, ...], codebook: Codebook, table: NDArray[np.int32] | None, given: tuple[str, ...] = ()
    ) -> Cells:
        """Prepare a block of these variables whose cells are the rows of ``table``; None: every combination."""
        variables = tuple(codebook[name] for name in names)
        shape = tuple(v.size for v in variables)
        if len(variables) == 1 and table is None:
            return cls(names, variables, shape)
        table = all_cells(shape) if table is None else table
        index = ravel(list(table.T), shape)
        if math.prod(shape) > _LOOKUP_CELLS:
            order = np.argsort(index)
            return cls(names, variables, shape, table, order.astype(np.int32), index[order], given)
        lookup = np.full(math.prod(shape), -1, dtype=np.int32)
        lookup[index] = np.arange(index.size, dtype=np.int32)
        return cls(names, variables, shape, table, lookup, given=given)

    @property
    def size(self) -> int:
        """The number of cells of the block, which is that of its matrix."""
        return self.shape[0] if self.table is None else len(self.table)

    @property
    def is_partial(self) -> bool:
        """Whether some combination of codes is in no cell."""
        return self.table is not None and len(self.table) < math.prod(self.shape)

    def find(self, codes: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return the position of each record's cell, shape (n,).

        It is -1 where the combination is not feasible, and for a block of one variable where a missing value is kept.
        """
        if self.table is None or self.lookup is None:
            return codes[self.names[0]]
        index = ravel([codes[name] for name in self.names], self.shape)
        if self.ravelled is None:
            found = self.lookup[index]
            found[index < 0] = -1
            return found
        place = np.searchsorted(self.ravelled, index).clip(max=self.ravelled.size - 1)
        return np.where(self.ravelled[place] == index, self.lookup[place], -1)

    def positions(self, codes: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return what :meth:`find` does; raises DataError where a combination is not feasible."""
        found = self.find(codes)
        if self.table is None:
            return found
        if (found < 0).any():
            raise DataError(
                sentence(
                    "the records contain a combination that the block does not list as feasible",
                    where=f"block {'*'.join(self.names)!r}",
                    fix="add the combination to the block's cells, or correct the records",
                )
            )
        return found.astype(np.min_scalar_type(-len(self.table)))

    def codes(self, positions: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return the codes of each perturbed variable at these positions of the matrix."""
        if self.table is None:
            return {self.names[0]: positions}
        columns = [(v, c) for v, c in zip(self.variables, self.table.T, strict=True) if v.name not in self.given]
        return {v.name: column.astype(coding.code_dtype(v))[positions] for v, column in columns}


def ravel(codes: Sequence[NDArray[Any]], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the C-order index of each combination of codes, shape (n,); -1 where a code is negative.

    >>> ravel([np.array([0, 1, -1]), np.array([2, 0, 1])], (2, 3)).tolist()
    [2, 3, -1]
    """
    index = np.zeros(len(codes[0]), dtype=np.int64)
    for column, size in zip(codes, shape, strict=True):
        index *= size
        index += column
    for column in codes:
        if column.size and column.min() < 0:
            index[column < 0] = -1
    return index
