"""The records on which unperturbed columns are measured: one pass, exact counts of values, a fixed sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from postrand.codebook import Codebook, coding
from postrand.data.households import identities
from postrand.engines.wants import Piece, numbered
from postrand.errors import PostrandError
from postrand.formats import Source

MAX_RECORDS = 100_000
"""So many records are compared with each other; of a larger file a sample, the same one at every call."""
MAX_VALUES = 4_000_000
"""Different values of one column that are counted exactly; beyond, the sample serves."""
MOST_MEMBERS = 10
"""A column whose values have more records on average numbers no households or persons, whatever its name."""
_MERGE = 1 << 20
_SEED = 0x9E3779B97F4A7C15
_NULL = -1
_Part = tuple[pa.Table, list[NDArray[np.uint64]], dict[str, pa.Table | None], pa.Table]


@dataclass(frozen=True, slots=True)
class Grouped:
    """Name a column that is not released and numbers households, or persons of several records, by its name."""

    name: str
    whom: Literal["households", "persons"] = "households"


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """Hold the sampled records by column, the number of ``records`` of the file, and what each value counts exactly.

    ``alone[name]`` is the number of records of the whole file whose value of a column no other record has; None where
    the column has too many values to count. Missing values are one value. ``ranges`` are the least and the largest
    number of the whole file, of columns of numbers for which they were wanted. Whole households are sampled where
    ``household`` names one, or else ``grouped``, a column that is not released, of ``MOST_MEMBERS`` records a value at
    most. ``first`` are the first records in the order of the file, where they were wanted.
    """

    table: pa.Table
    records: int
    alone: dict[str, int | None]
    household: str | None = None
    grouped: Grouped | None = None
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    first: pa.Table | None = None

    @property
    def numbering(self) -> str | None:
        """The column that tells which records belong together, released or not."""
        return self.household if self.grouped is None else self.grouped.name

    @property
    def is_whole(self) -> bool:
        """Whether the sample is the file."""
        return bool(self.table.num_rows == self.records)

    @property
    def largest_household(self) -> int:
        """The most sampled records with one household number; 0 without one."""
        if self.household is None or not self.table.num_rows:
            return 0
        counts = pc.value_counts(self.table.column(self.household).drop_null())
        return max(counts.field("counts").to_pylist(), default=0)

    def share_alone(self, name: str) -> float:
        """Return the share of the records that a column singles out alone: of the sample, where it was not counted."""
        found = self.alone.get(name)
        if found is not None:
            return found / max(self.records, 1)
        codes, size = self.codes(name)
        return float((np.bincount(codes, minlength=size) == 1).sum() / max(codes.size, 1))

    def codes(self, name: str) -> tuple[NDArray[np.int64], int]:
        """Return the place of each sampled record's value among those that occur, and how many do.

        Missing comes first if it occurs, and then the values as they come.
        """
        return codes_of(self.table.column(name))


@dataclass(frozen=True, slots=True)
class Sample:
    """Want the columns ``names`` of ``most`` records, and how many values of those ``counted`` one record has.

    ``ranged`` are those counted whose least and largest number are wanted too. ``first`` are columns of which the first
    ``most`` records are wanted besides, in the order of the file; none where it is empty.
    Of a larger file those records are kept whose number, or whose household's, has the smallest keyed hash under a
    public seed: the same ones at every call. ``grouped`` serves where no household does and its values have few
    records, so that the sample is not one of a few large groups. See :class:`postrand.engines.wants.Want`; the answer
    is a ``Sampled``.
    """

    names: tuple[str, ...]
    counted: tuple[str, ...]
    household: str | None = None
    most: int = MAX_RECORDS
    grouped: Grouped | None = None
    ranged: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    numbered = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read."""
        return tuple(dict.fromkeys([*self._kept, *self.first]))

    @property
    def _kept(self) -> tuple[str, ...]:
        """The columns of the sample."""
        return tuple(dict.fromkeys([*self.names, *self.counted, *filter(None, self._ranked)]))

    @property
    def _ranked(self) -> list[str | None]:
        """The columns whose values share a rank; None for records one by one, beside ``grouped`` too."""
        return [self.household] if self.household is not None or self.grouped is None else [self.grouped.name, None]

    def check(self, source: Source, codebook: Codebook) -> None:
        """Nothing can be wrong."""

    def part(self, piece: Piece) -> _Part:
        """Return the records, their ranks, and how often each value of the counted columns occurs among them.

        The ranks are those of households, or of ``grouped`` and of the records one by one, or of these alone. With them
        those that are among the first of the file.
        """
        records = pa.Table.from_batches([piece.batch.select(list(self._kept))])
        counts = {name: _value_counts(piece.column(name)) for name in self.counted}
        left = max(self.most - piece.first, 0) if self.first else 0
        first = pa.Table.from_batches([piece.batch.slice(0, left).select(list(self.first))])
        return records, [_ranks(piece.batch, piece.first, name) for name in self._ranked], counts, first

    def tally(self, source: Source, codebook: Codebook | None = None) -> _Sampling:
        """Return what keeps the records of the smallest ranks."""
        return _Sampling(self, source.schema)


class _Sampling:
    """Keeps the records of the smallest ranks, of each kind of ranks, and adds up the counts of values."""

    def __init__(self, want: Sample, schema: pa.Schema) -> None:
        self._want, self._schema = want, schema
        self._counts = {name: _Counts() for name in want.counted}
        self._ranges = {name: _Range() for name in want.ranged}
        self._kept: list[_Kept] = []
        self._first: list[pa.Table] = []
        self._records = 0

    def add(self, part: _Part) -> None:
        """Add some records."""
        records, ranks, counts, first = part
        for name, held in self._counts.items():
            held.add(counts[name])
        for name, wide in self._ranges.items():
            wide.add(counts[name])
        self._records += records.num_rows
        self._first += [first] if first.num_rows else []
        self._kept = self._kept or [_Kept(self._want.most) for _ in ranks]
        for kept, rank in zip(self._kept, ranks, strict=True):
            kept.add(records, rank)

    def found(self) -> Sampled:
        """Return the sample."""
        want = self._want
        tables = [kept.table() for kept in self._kept]
        tables = tables or [self._empty(want._kept)]
        alone = {name: counts.alone() for name, counts in self._counts.items()}
        grouped = want.grouped if want.household is None else None
        if grouped is not None and not _are_small(tables[0].column(grouped.name)):
            grouped = None
        ranges = {name: held.found for name, held in self._ranges.items() if held.found is not None}
        table, first = tables[-1 if grouped is None else 0], None
        if want.first:
            first = together(self._first) if self._first else self._empty(want.first)
        return Sampled(table, self._records, alone, want.household, grouped, ranges, first)

    def _empty(self, names: Sequence[str]) -> pa.Table:
        return pa.table({name: pa.nulls(0, self._schema.field(name).type) for name in names})


def codes_of(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], int]:
    """Return the place of each value of a column (n,) among those that occur, and how many do; missing comes first.

    >>> codes, size = codes_of(pa.chunked_array([["b", None], ["a", "b"]]))
    >>> codes.tolist(), size
    ([1, 0, 2, 1], 3)
    """
    array = column.combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    held = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    codes = np.where(coding.is_null(held.indices), _NULL, coding.index_values(held.indices).astype(np.int64))
    occurs = np.bincount(codes - _NULL, minlength=1) > 0
    places = np.cumsum(occurs) - 1
    return places[codes - _NULL], int(occurs.sum())


@dataclass(slots=True)
class _Range:
    """Keep the least and the largest number of a column, infinite ones too; none where it has other values."""

    least: float = math.inf
    largest: float = -math.inf
    is_other: bool = False

    def add(self, part: pa.Table | None) -> None:
        values = None if part is None else numbers(part["value"])
        if values is None:
            self.is_other = True
        elif not np.isnan(values).all():
            self.least = min(self.least, float(np.nanmin(values)))
            self.largest = max(self.largest, float(np.nanmax(values)))

    @property
    def found(self) -> tuple[float, float] | None:
        return None if self.is_other or self.least > self.largest else (self.least, self.largest)


def numbers(column: pa.ChunkedArray) -> NDArray[np.float64] | None:
    """Return a column as numbers, NaN for missing ones; None of text that is none."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        return coding.to_floats(column.cast(pa.float64(), safe=False))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # text that is no number, or a type that has none
        return None


def _are_small(numbers: pa.ChunkedArray) -> bool:
    """Whether the values of a column have few records on average."""
    held = numbers.drop_null()
    return len(held) <= MOST_MEMBERS * len(pc.value_counts(held))


@dataclass(slots=True)
class _Kept:
    """Keep the records of the ``most`` smallest ranks."""

    most: int
    parts: list[pa.Table] = field(default_factory=list)
    ranks: list[NDArray[np.uint64]] = field(default_factory=list)
    limit: np.uint64 = field(default_factory=lambda: np.uint64(2**64 - 1))

    def add(self, records: pa.Table, rank: NDArray[np.uint64]) -> None:
        kept = np.flatnonzero(rank <= self.limit)
        self.parts.append(records.take(coding.from_numpy(kept)))
        self.ranks.append(rank[kept])
        if sum(part.num_rows for part in self.parts) > 2 * self.most:
            self.parts, self.ranks = _smallest(self.parts, self.ranks, self.most)
            self.limit = self.ranks[0].max() if self.ranks[0].size else self.limit

    def table(self) -> pa.Table:
        return _smallest(self.parts, self.ranks, self.most)[0][0].unify_dictionaries()


def sampled(
    source: Source, names: Sequence[str], counted: Sequence[str], household: str | None = None, most: int = MAX_RECORDS
) -> Sampled:
    """Return the answer to a :class:`Sample` of a source, in a pass of its own."""
    return taken(source, Sample(tuple(names), tuple(counted), household, most))


def taken(source: Source, want: Sample) -> Sampled:
    """Return the answer to a want, in a pass of its own."""
    tally = want.tally(source)
    for first, batch in numbered(source.batches(want.columns)):
        tally.add(want.part(Piece(batch, first)))
    return tally.found()


def _smallest(
    parts: list[pa.Table], ranks: list[NDArray[np.uint64]], most: int
) -> tuple[list[pa.Table], list[NDArray[np.uint64]]]:
    """Keep the records of the ``most`` smallest ranks in file order; households, which share a rank, whole."""
    if not parts:
        return parts, ranks
    table, rank = together(parts), np.concatenate(ranks)
    if rank.size <= most:
        return [table], [rank]
    limit = np.partition(rank, most)[most]
    kept = np.flatnonzero(rank < limit)
    kept = kept if kept.size else np.flatnonzero(rank == limit)[:most]  # one household is larger than the sample
    return [table.take(coding.from_numpy(kept)).combine_chunks()], [rank[kept]]


def together(parts: Sequence[pa.Table]) -> pa.Table:
    """Put tables behind each other; text stays in dictionaries, with indices that count the values of all parts."""
    wide = [field.with_type(_wide(field.type)) for field in parts[0].schema]
    return pa.concat_tables([part.cast(pa.schema(wide)) for part in parts]).unify_dictionaries()


def _wide(of: pa.DataType) -> pa.DataType:
    return pa.dictionary(pa.int32(), of.value_type) if pa.types.is_dictionary(of) else of


def _ranks(batch: pa.RecordBatch, first: int, household: str | None) -> NDArray[np.uint64]:
    found = np.arange(first, first + batch.num_rows, dtype=np.uint64)
    if household is not None:
        try:
            numbers, there = identities(batch.column(household), household)
        except PostrandError:  # no numbers: records are sampled one by one
            return _mixed(found)
        found = np.where(there, numbers + np.uint64(_SEED), found)
    return _mixed(found)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the finaliser of SplitMix64 (Steele, Lea and Flood 2014, fig. 17), a bijection of 64-bit numbers."""
    z = values + np.uint64(_SEED)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _value_counts(column: pa.Array) -> pa.Table | None:
    """Return how often each value of a column occurs; None where its type cannot be counted."""
    try:
        found = pc.value_counts(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column)
        return pa.table({"value": found.field(0), "records": found.field(1)})
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return None


@dataclass(slots=True)
class _Counts:
    """Count the values of one column, batch by batch; numbers, dates and times by sorting, which takes less memory."""

    waiting: list[pa.Table] = field(default_factory=list)
    numbers: _Numbers | None = None
    is_lost: bool = False

    def add(self, part: pa.Table | None) -> None:
        if part is None or self.is_lost:
            self.waiting, self.numbers, self.is_lost = [], None, True
            return
        if self.numbers is None and _is_number(part["value"].type):
            self.numbers = _Numbers()
        try:
            if self.numbers is not None:
                self.numbers.add(part)
                self.is_lost = self.numbers.size > MAX_VALUES
                return
            self.waiting.append(part)
            if sum(part.num_rows for part in self.waiting) > _MERGE + 2 * self.waiting[0].num_rows:
                self._merge()
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            self.is_lost = True

    def _merge(self) -> None:
        # Not group_by, whose library loads pandas if that is installed.
        held = pa.concat_tables(self.waiting)
        if not held.num_rows:
            self.waiting = []
            return
        values = held["value"].dictionary_encode(null_encoding="encode").chunks  # they share one dictionary
        counts = np.zeros(len(values[0].dictionary), dtype=np.int64)
        for value, records in zip(values, held["records"].chunks, strict=True):
            np.add.at(counts, coding.to_numpy(value.indices), coding.to_numpy(records))
        self.waiting = [pa.table({"value": values[0].dictionary, "records": coding.from_numpy(counts)})]
        self.is_lost = counts.size > MAX_VALUES

    def alone(self) -> int | None:
        """Return how many values one record has; None where that is not known."""
        if self.numbers is not None and not self.is_lost:
            return self.numbers.alone()
        if self.waiting and not self.is_lost:
            self._merge()
        if self.is_lost:
            return None
        counts = coding.to_numpy(self.waiting[0]["records"].chunk(0)) if self.waiting else np.zeros(0)
        return int((counts == 1).sum())


def _is_number(of: pa.DataType) -> bool:
    """Whether the values of a type are fixed numbers of bytes, each value one number."""
    types = pa.types
    return any(test(of) for test in (types.is_integer, types.is_floating, types.is_date, types.is_timestamp))


@dataclass(slots=True)
class _Numbers:
    """Hold which numbers of a column one record has, and which several; both sorted, and those that wait to be.

    Floats are compared by their bits, NaN as one value; null is one value.
    """

    once: NDArray[Any] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    often: NDArray[Any] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    nulls: int = 0
    waiting: list[tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How many different values are counted so far."""
        return self.once.size + self.often.size + bool(self.nulls)

    def add(self, part: pa.Table) -> None:
        """Add the values of some records, each once, and how many records have them."""
        value, records = part["value"].combine_chunks(), part["records"].combine_chunks()
        value, records = (c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for c in (value, records))
        held, null = coding.to_numpy(records), coding.is_null(value)
        self.nulls += int(held[null].sum())
        bits, held = _bits(value)[~null], held[~null]
        self.waiting.append((bits[held == 1], bits[held > 1]))
        if sum(one.size + more.size for one, more in self.waiting) > _MERGE + 2 * self.size:
            self._merge()

    def _merge(self) -> None:
        ones, more = zip(*self.waiting, strict=True)
        self.waiting = []
        once = np.concatenate([self.once, *ones])
        once.sort()
        repeated = once[1:] == once[:-1]
        self.often = np.unique(np.concatenate([self.often, *more, once[1:][repeated]]))
        if once.size:
            once = once[~(np.append(repeated, False) | np.append(False, repeated))]
        if self.often.size:
            place = np.minimum(np.searchsorted(self.often, once), self.often.size - 1)
            once = once[self.often[place] != once]
        self.once = once

    def alone(self) -> int | None:
        """Return how many values one record has; None where there are too many to count."""
        if self.waiting:
            self._merge()
        return None if self.size > MAX_VALUES else self.once.size + (self.nulls == 1)


def _bits(values: pa.Array) -> NDArray[Any]:
    """Return numbers as whole numbers of the same width, all NaN as one; under a null is whatever lies there."""
    if not pa.types.is_floating(values.type):
        return coding.index_values(values.view(getattr(pa, f"int{values.type.bit_width}")()))
    held = coding.index_values(values)
    return np.where(np.isnan(held), held.dtype.type(np.nan), held).view(f"i{held.itemsize}")
