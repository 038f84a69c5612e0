"""Perturb batches of records: values to codes, codes to released codes, released codes to values.

Every engine runs this on its batches, so what is released cannot depend on the engine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand import coding
from postrand.carried import carried
from postrand.codebook import Codebook, Variable
from postrand.errors import DataError, sentence
from postrand.mechanism import Block, Mechanism
from postrand.randomness import ReleaseKey, StreamKeys, derive, words
from postrand.sampling import Sampler, perturb_codes, sampler

_LOOKUP_CELLS = 1 << 22


@dataclass(frozen=True, slots=True)
class Perturber:
    """Hold what a mechanism and a release key need to perturb any batch; threads may share it."""

    codebook: Codebook
    columns: tuple[str, ...]
    cells: tuple[Cells, ...]
    laws: tuple[Sampler, ...]
    keys: StreamKeys

    @classmethod
    def of(cls, mechanism: Mechanism, key: ReleaseKey, columns: Sequence[str]) -> Perturber:
        """Prepare a mechanism that is bound to its codebook; ``columns`` are the released ones, in order."""
        codebook = mechanism.require_codebook()
        # A block of which nothing is released keeps its place, so that the others keep their words.
        return cls(
            codebook,
            tuple(columns),
            tuple(Cells.of(block, codebook) for block in mechanism.blocks),
            tuple(sampler(block.matrix) for block in mechanism.blocks),
            derive(key, mechanism.digest()),
        )

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns to read: the released ones, and the other variables of their blocks."""
        needed = [name for cells in self.cells for name in cells.names if name not in self.columns]
        return (*self.columns, *dict.fromkeys(needed))

    def release(self, batch: pa.RecordBatch, record_keys: NDArray[np.uint64]) -> pa.RecordBatch:
        """Return the released columns of a batch as codes (categorical variables) and values (all others).

        Raises
        ------
        DataError
            If a record does not fit the codebook or is not a feasible combination of a joint block.
        """
        codes: dict[str, NDArray[Any]] = {}
        values: dict[str, pa.Array] = {}
        for name in self.inputs:
            variable, column = self.codebook[name], batch.column(name)
            if variable.is_categorical:
                codes[name] = coding.encode(column, variable)
            else:
                values[name] = carried(column, variable)
        positions = [cells.positions(codes) for cells in self.cells]
        released = perturb_codes(self.laws, self.keys.draw, record_keys, positions)
        for cells, drawn in zip(self.cells, released, strict=True):
            codes.update(cells.codes(drawn))
        arrays = [coding.from_numpy(codes[name]) if name in codes else values[name] for name in self.columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))

    def values(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of :meth:`release` with its codes decoded."""
        arrays = [
            coding.decode(coding.to_numpy(column), variable) if variable.is_categorical else column
            for variable, column in zip((self.codebook[name] for name in self.columns), batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))

    def order(self, record_keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the two words, shape (n, 2), by which records are put in order: a keyed permutation of all keys."""
        return words(self.keys.order, record_keys, 0)


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
        variables = tuple(codebook[name] for name in block.variables)
        shape = tuple(v.size for v in variables)
        if len(variables) == 1 and block.cells is None:
            return cls(block.variables, variables, shape)
        table = block.cell_table(shape)
        index = _ravel(list(table.T), shape)
        if math.prod(shape) > _LOOKUP_CELLS:
            order = np.argsort(index)
            return cls(block.variables, variables, shape, table, order.astype(np.int32), index[order], block.given)
        lookup = np.full(math.prod(shape), -1, dtype=np.int32)
        lookup[index] = np.arange(index.size, dtype=np.int32)
        return cls(block.variables, variables, shape, table, lookup, given=block.given)

    def positions(self, codes: dict[str, NDArray[Any]]) -> NDArray[Any]:
        """Return the position of each record's cell, shape (n,); raises DataError where it is not feasible."""
        if self.table is None or self.lookup is None:
            return codes[self.names[0]]
        index = _ravel([codes[name] for name in self.names], self.shape)
        if self.ravelled is None:
            found = self.lookup[index]
        else:
            place = np.searchsorted(self.ravelled, index).clip(max=self.ravelled.size - 1)
            found = np.where(self.ravelled[place] == index, self.lookup[place], -1)
        if (found < 0).any():
            raise DataError(
                sentence(
                    "a combination that the block does not list as feasible",
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


def _ravel(codes: Sequence[NDArray[Any]], shape: tuple[int, ...]) -> NDArray[np.int64]:
    index = np.zeros(len(codes[0]), dtype=np.int64)
    for column, size in zip(codes, shape, strict=True):
        index *= size
        index += column
    return index
