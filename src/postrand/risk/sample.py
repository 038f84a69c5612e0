"""The records on which unperturbed columns are measured: one pass, exact counts of values, a fixed sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from postrand.codebook import coding
from postrand.data.households import identities
from postrand.errors import PostrandError
from postrand.formats import Source

MAX_RECORDS = 100_000
"""So many records are compared with each other; of a larger file a sample, the same one at every call."""
MAX_VALUES = 4_000_000
"""Different values of one column that are counted exactly; beyond, the sample serves."""
_MERGE = 1 << 20
_SEED = 0x9E3779B97F4A7C15
_NULL = -1


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """Hold the sampled records by column, the number of ``records`` of the file, and what each value counts exactly.

    ``alone[name]`` is the number of records of the whole file whose value of a column no other record has; None where
    the column has too many values to count. Missing values are one value. Whole households are sampled where
    ``household`` names one.
    """

    table: pa.Table
    records: int
    alone: dict[str, int | None]
    household: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the sample is the file."""
        return bool(self.table.num_rows == self.records)

    def share_alone(self, name: str) -> float:
        """Return the share of the records that a column singles out alone: of the sample, where it was not counted."""
        found = self.alone.get(name)
        if found is not None:
            return found / max(self.records, 1)
        codes, size = self.codes(name)
        return float((np.bincount(codes, minlength=size) == 1).sum() / max(codes.size, 1))

    def codes(self, name: str) -> tuple[NDArray[np.int64], int]:
        """Return the place of each sampled record's value among those that occur, missing among them; and how many."""
        column = self.table.column(name).combine_chunks()
        column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
        held = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        codes = np.where(coding.is_null(held.indices), _NULL, coding.index_values(held.indices).astype(np.int64))
        occurs = np.bincount(codes - _NULL, minlength=1) > 0
        places = np.cumsum(occurs) - 1
        return places[codes - _NULL], int(occurs.sum())


def sampled(
    source: Source, names: Sequence[str], counted: Sequence[str], household: str | None = None, most: int = MAX_RECORDS
) -> Sampled:
    """Read the columns ``names`` once; count the values of those that are ``counted``, and keep ``most`` records.

    Of a larger file those records are kept whose number, or whose household's, has the smallest keyed hash under a
    public seed: the same ones at every call.
    """
    wanted = list(dict.fromkeys([*names, *counted, *([] if household is None else [household])]))
    counts = {name: _Counts() for name in counted}
    parts: list[pa.Table] = []
    ranks: list[NDArray[np.uint64]] = []
    records, limit = 0, np.uint64(2**64 - 1)
    for batch in source.batches(wanted):
        for name, held in counts.items():
            held.add(batch.column(name))
        rank = _ranks(batch, records, household)
        records += batch.num_rows
        kept = np.flatnonzero(rank <= limit)
        parts.append(pa.Table.from_batches([batch.take(coding.from_numpy(kept))]))
        ranks.append(rank[kept])
        if sum(part.num_rows for part in parts) > 2 * most:
            parts, ranks = _smallest(parts, ranks, most)
            limit = ranks[0].max() if ranks[0].size else limit
    parts, ranks = _smallest(parts, ranks, most)
    table = parts[0] if parts else pa.table({n: pa.nulls(0, source.schema.field(n).type) for n in wanted})
    return Sampled(table.unify_dictionaries(), records, {n: c.alone() for n, c in counts.items()}, household)


def _smallest(
    parts: list[pa.Table], ranks: list[NDArray[np.uint64]], most: int
) -> tuple[list[pa.Table], list[NDArray[np.uint64]]]:
    """Keep the records of the ``most`` smallest ranks in file order; households, which share a rank, whole."""
    if not parts:
        return parts, ranks
    table, rank = pa.concat_tables([_decoded(part) for part in parts]), np.concatenate(ranks)
    if rank.size <= most:
        return [table], [rank]
    limit = np.partition(rank, most)[most]
    kept = np.flatnonzero(rank < limit)
    kept = kept if kept.size else np.flatnonzero(rank == limit)[:most]  # one household is larger than the sample
    return [table.take(coding.from_numpy(kept)).combine_chunks()], [rank[kept]]


def _decoded(table: pa.Table) -> pa.Table:
    for place, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(place, table.column_names[place], column.cast(column.type.value_type))
    return table


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


@dataclass(slots=True)
class _Counts:
    """Count the values of one column, batch by batch."""

    waiting: list[pa.Table] = field(default_factory=list)
    is_lost: bool = False

    def add(self, column: pa.Array) -> None:
        if self.is_lost:
            return
        try:
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            found = pc.value_counts(column)
            self.waiting.append(pa.table({"value": found.field(0), "records": found.field(1)}))
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
        if self.waiting and not self.is_lost:
            self._merge()
        if self.is_lost:
            return None
        counts = coding.to_numpy(self.waiting[0]["records"].chunk(0)) if self.waiting else np.zeros(0)
        return int((counts == 1).sum())
