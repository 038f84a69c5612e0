"""Perturb batches of records: values to codes, codes to released codes, released codes to values.

Every engine runs this on its batches, so what is released cannot depend on the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook, Variable, coding, not_released
from postrand.codebook.clear_columns import carried
from postrand.codebook.encoded import encoded
from postrand.data.households import Renumbering
from postrand.engines.cells import Cells
from postrand.engines.content import Content, ContentReader
from postrand.engines.split_records import SplitDraws
from postrand.engines.unit_members import Chosen
from postrand.engines.units import BlockDraws, units_of
from postrand.mechanism import Mechanism
from postrand.support.randomness import ReleaseKey, StreamKeys, derive, words


@dataclass(frozen=True, slots=True)
class Perturber:
    """Hold what a mechanism and a release key need to perturb any batch; threads can share it."""

    codebook: Codebook
    columns: tuple[str, ...]
    cells: tuple[Cells, ...]
    draws: BlockDraws
    keys: StreamKeys
    reader: ContentReader
    fresh: Renumbering | None = None
    split: SplitDraws | None = None

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        key: ReleaseKey,
        columns: Sequence[str],
        content: Content,
        fresh: Renumbering | None = None,
        members: Chosen | None = None,
    ) -> Perturber:
        """Prepare a mechanism that is bound to its codebook; ``columns`` are the released ones, in order.

        ``content`` is that of all records that are perturbed, batch by batch: the words are bound to it. ``fresh``
        draws household numbers anew. ``members`` are who was chosen, see :mod:`postrand.engines.unit_members`.
        """
        codebook = mechanism.require_codebook()
        reader, tag = ContentReader.of(mechanism, key), content.tag()
        keys, chosen = derive(key, mechanism.digest(), tag), members or Chosen()
        # A block of which nothing is released keeps its place, so that the others keep their words.
        return cls(
            codebook,
            tuple(columns),
            reader.cells,
            BlockDraws.of(mechanism, key, keys.draw, tag, chosen.ones),
            keys,
            reader,
            fresh,
            SplitDraws.of(mechanism, reader.split, chosen.split),
        )

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns to read: the released ones, the other variables of blocks or split, and what names units."""
        needed = (*(v.name for v in self.reader.variables), *self.reader.units.values())
        return tuple(dict.fromkeys((*self.columns, *needed)))

    def release(self, batch: pa.RecordBatch, record_keys: NDArray[np.uint64]) -> tuple[pa.RecordBatch, Content]:
        """Return the released columns of a batch as codes (categorical variables) and values (all others).

        With them comes the content of the batch, so that what was read when the words were bound is what is drawn for.

        Raises
        ------
        DataError
            If a record does not fit the codebook or is not a feasible combination of a joint block.
        """
        codes: dict[str, NDArray[Any]] = {}
        values: dict[str, pa.Array] = {}
        for name in self.inputs:
            if name not in self.columns and name in self.reader.units.values():
                continue  # it only tells which records belong together
            variable, column = self.codebook[name], batch.column(name)
            if variable.is_categorical:
                codes[name] = encoded(column, self.codebook, name)
            elif self.fresh is not None and name == self.fresh.name:
                values[name] = carried(self.fresh.numbers(column), variable)
            else:
                values[name] = carried(column, variable)
        positions = [cells.positions(codes) for cells in self.cells]
        units = units_of(self.reader.units, batch.column)
        content = self.reader.of_positions(positions, record_keys, self.reader.split.digits(codes), units)
        shown = {} if self.split is None else self.split.released(self.keys.draw, record_keys, codes)
        released = self.draws.draw(record_keys, units, positions)
        for cells, drawn in zip(self.cells, released, strict=True):
            codes.update(cells.codes(drawn))
        codes.update(shown)
        arrays = [coding.from_numpy(codes[name]) if name in codes else values[name] for name in self.columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns)), content

    def values(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of :meth:`release` with its codes decoded."""
        variables = [self.codebook[name] for name in self.columns]
        arrays = [self._decoded(column, v) for v, column in zip(variables, batch.columns, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))

    def _decoded(self, column: pa.Array, variable: Variable) -> pa.Array:
        if not variable.is_categorical:
            return column
        decode = not_released.decode if variable.name in self.reader.split.shown else coding.decode
        return decode(coding.to_numpy(column), variable)

    def order(self, record_keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the two words, shape (n, 2), by which records are put in order: a keyed permutation of all keys."""
        return words(self.keys.order, record_keys, 0)
