"""Put records in the keyed order with bounded memory: part by part, by the first bits of their words.

Parts follow each other in the order, so each is sorted alone. Records beyond the memory limit wait on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook.coding import from_numpy, to_numpy
from postrand.errors import ReleaseError, sentence
from postrand.support.signals import scratch_folder

PART_BITS = 8
"""Records on disk come back in 2^8 parts, one at a time."""

PART_ROWS = 1 << 16
"""Records in memory come back in parts of about this many, for several threads to sort."""

SPILL_ROWS = 1 << 20
"""Records that are cut into parts at a time on their way to the disk: what that takes comes on top of the limit."""

WORDS = ("\0first", "\0second")  # no codebook can hold such a name


class KeyedOrder:
    """Take batches with the two words of each record; give them back in parts for :func:`in_order`.

    Words are distinct for distinct record keys, so the order is that of the keys alone, whatever the memory limit. Use
    as a context manager: temporary files, in ``directory`` (by default the system's), live as long as it does.

    Parameters
    ----------
    limit
        Bytes of records held in memory; beyond, they are written out.
    """

    def __init__(self, limit: int, directory: Path | None = None) -> None:
        self._limit, self._directory = limit, directory
        self._waiting: dict[str, list[pa.Array]] = {}
        self._bytes = self._rows = 0
        self._runs: list[Path] = []
        self._stack = ExitStack()
        self._folder: Path | None = None

    def __enter__(self) -> KeyedOrder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def add(self, batch: pa.RecordBatch, words: NDArray[np.uint64]) -> None:
        """Take the records of a batch and their words, shape (n, 2)."""
        columns = [*batch.columns, *(from_numpy(column) for column in words.T)]
        for name, column in zip([*batch.schema.names, *WORDS], columns, strict=True):
            self._waiting.setdefault(name, []).append(column)
            self._bytes += column.nbytes
        self._rows += len(words)
        if self._bytes > self._limit:
            self._spill()

    def parts(self) -> Iterator[pa.Table]:
        """Yield tables that follow each other in the order, each still to be sorted by :func:`in_order`."""
        if not self._runs:
            if self._rows:
                yield from self._partition(min(max((self._rows // PART_ROWS).bit_length(), 1), PART_BITS))
            return
        if self._rows:
            self._spill()
        with ExitStack() as stack:
            files = [stack.enter_context(pa.OSFile(str(path))) for path in self._runs]
            runs = [stack.enter_context(pa.ipc.open_file(file)) for file in files]
            for part in range(1 << PART_BITS):
                places = ((run, n) for run in runs for n in range(part, run.num_record_batches, 1 << PART_BITS))
                yield pa.Table.from_batches([run.get_batch(n) for run, n in places])

    def _partition(self, bits: int, batches: int | None = None) -> list[pa.Table]:
        """Return the waiting records, or those of the first batches, in 2^bits parts by their words' first bits."""
        taken = {name: waiting[:batches] for name, waiting in self._waiting.items()}
        for waiting in self._waiting.values():
            del waiting[:batches]
        taken[WORDS[0]] = [pa.concat_arrays(taken[WORDS[0]])]
        first = to_numpy(taken[WORDS[0]][0])
        return cut(taken, (first >> np.uint64(64 - bits)).astype(np.uint8), 1 << bits)

    def _spill(self) -> None:
        """Write what is in memory to a file of its own: one batch for each part, of ``SPILL_ROWS`` at a time."""
        schema = pa.schema([(name, waiting[0].type) for name, waiting in self._waiting.items()])
        try:
            path = self._scratch() / f"{len(self._runs)}.arrow"
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
                while waiting := self._waiting[WORDS[0]]:
                    sizes = np.cumsum([len(column) for column in waiting])
                    for part in self._partition(PART_BITS, 1 + int(np.searchsorted(sizes, SPILL_ROWS))):
                        writer.write_batch(_one_batch(part))
        except OSError as error:
            raise ReleaseError(
                sentence(
                    "records cannot be written to the temporary file for sorting",
                    got=error.strerror or "an I/O error",
                    fix="free space beside the output, or raise the memory limit",
                )
            ) from None
        self._runs.append(path)
        self._bytes = self._rows = 0

    def _scratch(self) -> Path:
        if self._folder is None:
            self._folder = self._stack.enter_context(scratch_folder(".postrand-", self._directory))
        return self._folder


def cut(columns: dict[str, list[pa.Array]], part: NDArray[np.unsignedinteger[Any]], parts: int) -> list[pa.Table]:
    """Return the records of each part, in their order; takes the chunks of the columns away.

    Parts are numbers of 8 or 16 bits, which are sorted by counting.
    """
    order = from_numpy(np.argsort(part, kind="stable"))
    # Column by column, so that no more than one column is held twice.
    table = pa.table({name: pa.concat_arrays(columns.pop(name)).take(order) for name in list(columns)})
    sizes = np.bincount(part, minlength=parts).tolist()
    return [table.slice(stop - size, size) for size, stop in zip(sizes, np.cumsum(sizes).tolist(), strict=True)]


def pieces_in_order(table: pa.Table) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield :func:`in_order` of pieces that follow each other: pieces of ``PART_ROWS`` are sorted in the cache."""
    first = to_numpy(table.column(WORDS[0]).combine_chunks())
    bits = min((len(first) // PART_ROWS).bit_length(), PART_BITS)
    low = first.min()
    shift = max(int(first.max() - low).bit_length() - bits, 0)
    part = ((first - low) >> np.uint64(shift)).astype(np.uint8)
    columns = {name: table.column(name).chunks for name in table.schema.names}
    yield from (in_order(piece) for piece in cut(columns, part, 1 << bits) if piece.num_rows)


def in_order(part: pa.Table) -> tuple[pa.RecordBatch, int]:
    """Return the records of one part in order, without their words, and how many share their words with another.

    Equal words are the sign of equal record keys.
    """
    order, repeated = _sorted(*(to_numpy(part.column(name).combine_chunks()) for name in WORDS))
    return _one_batch(part.drop_columns(list(WORDS)).take(from_numpy(order))), repeated


def _sorted(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> tuple[NDArray[np.int64], int]:
    order = np.argsort(first)
    if not _repeats(first[order]).any():
        return order, 0
    order = np.lexsort((second, first))
    same = _repeats(first[order]) & _repeats(second[order])
    return order, int((np.append(same, False) | np.append(False, same)).sum())


def _repeats(values: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Tell for each value but the last whether the next one equals it."""
    return np.equal(values[1:], values[:-1])


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    arrays = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)
