"""Records whose units have one value of each variable that describes them, differing values settled by a public rule.

Of the values of a unit's records the most frequent counts, missing values only where there is no other, and of equally
frequent ones the first of the codebook. It is a function of the unit's own values, whatever their order, so a level of
the unit holds as if the file had come with them. Everything downstream reads the settled values, on every engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook, Variable, coding
from postrand.codebook.encoded import encoded
from postrand.data.households import identities
from postrand.engines.unit_records import UnitRecords
from postrand.formats import BATCH_ROWS, Source, each_part
from postrand.formats.base import WrappedSource, select
from postrand.support.progress import Stage, passing

_WAITING = 1 << 20
Votes = tuple[NDArray[np.uint64], NDArray[Any], NDArray[np.int64]]
"""Units, codes, and how many records of the unit have the code; ascending by unit and code."""


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """Hold the codes of one variable for the units that differ in it; ``names`` are their identities, ascending."""

    column: str
    variable: Variable
    names: NDArray[np.uint64]
    codes: NDArray[Any]

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the variable's settled values, in the type of its column, whether a unit differs or not."""
        column = batch.column(self.variable.name)
        codes = coding.encode(column, self.variable).copy()
        found, there = identities(batch.column(self.column), self.column)
        at = np.searchsorted(self.names, found)
        inside = there & (at < self.names.size)
        inside[inside] = self.names[at[inside]] == found[inside]
        codes[inside] = self.codes[at[inside]]
        values = coding.decode(codes, self.variable)
        kind = coding.value_type(column.type)
        values = values.cast(kind) if not pa.types.is_dictionary(values.type) else values.dictionary_decode().cast(kind)
        return values.dictionary_encode().cast(column.type) if pa.types.is_dictionary(column.type) else values


@dataclass(frozen=True, slots=True, eq=False)
class SettledSource(WrappedSource):
    """The records of a source with settled values; see ``formats.base.Source``."""

    settled: tuple[Settled, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns, as the source has them."""
        return self.source.schema

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the records in file order."""
        names = select(self.schema, columns, Path("records of units"))
        asked = {one.variable.name: one for one in self.settled if one.variable.name in names}
        read = list(dict.fromkeys([*names, *(one.column for one in asked.values())]))
        for batch in self.source.batches(read, batch_size):
            held = [asked[name].of(batch) if name in asked else batch.column(name) for name in names]
            yield pa.RecordBatch.from_arrays(held, names=list(names)) if names else batch


def settled(source: Source, codebook: Codebook, wants: Iterable[UnitRecords]) -> Source:
    """Return the source with one value of each of the wants' variables in all records of a unit.

    One pass over these columns; 20 bytes of memory for each unit and each of its distinct values. A record without the
    number of a unit keeps its values. Several files stay several.

    Raises
    ------
    DataError
        If a column is not there, or a value not in the codebook.
    """
    pairs = [(want.column, codebook[name]) for want in wants for name in want.variables]
    if not pairs:
        return source
    counted, columns = [_Counted() for _ in pairs], list(dict.fromkeys(n for c, v in pairs for n in (c, v.name)))
    for batch in passing(source.batches(columns), Stage.READING, source.num_rows):
        for (column, variable), one in zip(pairs, counted, strict=True):
            found, there = identities(batch.column(column), column)
            codes = encoded(batch.column(variable.name), codebook, variable.name)
            one.add((found[there], codes[there], np.ones(int(there.sum()), dtype=np.int64)))
    made = tuple(
        Settled(column, variable, *winners(one.found(), len(variable.categories)))
        for (column, variable), one in zip(pairs, counted, strict=True)
    )
    return each_part(source, lambda part: SettledSource(part, made))


class _Counted:
    """Adds up votes."""

    def __init__(self) -> None:
        self._held: Votes = (np.zeros(0, np.uint64), np.zeros(0, np.int8), np.zeros(0, np.int64))
        self._waiting: list[Votes] = []

    def add(self, part: Votes) -> None:
        self._waiting.append(_together([part]))
        if sum(one[0].size for one in self._waiting) > max(self._held[0].size, _WAITING):
            self._held, self._waiting = self.found(), []

    def found(self) -> Votes:
        return _together([self._held, *self._waiting])


def _together(parts: Sequence[Votes]) -> Votes:
    """Return one row for each unit and code."""
    names, codes, counts = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.lexsort((codes, names))
    names, codes, counts = names[order], codes[order], counts[order]
    new = np.append(True, (names[1:] != names[:-1]) | (codes[1:] != codes[:-1])) if names.size else np.zeros(0, bool)
    first = np.flatnonzero(new)
    return names[first], codes[first], np.add.reduceat(counts, first) if first.size else counts


def winners(votes: Votes, categories: int) -> tuple[NDArray[np.uint64], NDArray[Any]]:
    """Return the units that have several codes, ascending, and the code that counts for each.

    ``categories`` is the number of values that are not missing: codes below 0, or from it on, are missing.

    >>> names, codes = np.array([3, 5, 5, 9, 9, 9], np.uint64), np.array([1, 0, 2, -1, 1, 2])
    >>> [part.tolist() for part in winners((names, codes, np.array([4, 1, 1, 7, 2, 3])), 3)]
    [[5, 9], [0, 2]]
    """
    names, codes, counts = votes
    _, place, many = np.unique(names, return_inverse=True, return_counts=True)
    differs = many[place] > 1
    names, codes, counts = names[differs], codes[differs], counts[differs]
    missing = (codes < 0) | (codes >= categories)
    order = np.lexsort((codes, -counts, missing, names))
    found, first = np.unique(names[order], return_index=True)
    return found, codes[order][first]
