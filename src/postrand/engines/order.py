"""Put records in the keyed order with bounded memory: sort in memory, or in sorted runs on disk merged part by part."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.errors import ReleaseError, sentence
from postrand.randomness import duplicate_keys

PARTS = 256
"""A part is the records whose first word starts with the same 8 bits; one part of all runs is in memory at a time."""

_WORDS = ("\0first", "\0second")  # no codebook can hold such a name


class KeyedOrder:
    """Take batches with the two words of each record; give them back in ascending order of the words.

    Words are distinct for distinct record keys, so the order is that of the keys alone, whatever the memory limit;
    equal words are the sign of duplicate keys. Use as a context manager: temporary files, in ``directory`` (by default
    the system's), live as long as it does.

    Parameters
    ----------
    limit
        Bytes of records held in memory; beyond, they are sorted and written out.
    """

    def __init__(self, limit: int, directory: Path | None = None) -> None:
        self._limit, self._directory = limit, directory
        self._waiting: dict[str, list[pa.Array]] = {}
        self._bytes = 0
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
        columns = [*batch.columns, *(pa.array(np.ascontiguousarray(column)) for column in words.T)]
        for name, column in zip([*batch.schema.names, *_WORDS], columns, strict=True):
            self._waiting.setdefault(name, []).append(column)
            self._bytes += column.nbytes
        if self._bytes > self._limit:
            self._spill()

    def batches(self, size: int) -> Iterator[pa.RecordBatch]:
        """Yield all records in order, at most ``size`` at a time, without their words.

        Raises
        ------
        DataError
            If two records have the same key; known for certain when the last batch has been taken.
        """
        repeated = 0
        for table in self._parts():
            order, again = _sorted(table)
            repeated += again
            for start in range(0, order.size, size):
                chosen = table.take(pa.array(order[start : start + size])).drop_columns(list(_WORDS))
                yield from chosen.combine_chunks().to_batches()
        if repeated:
            raise duplicate_keys(repeated)

    def _parts(self) -> Iterator[pa.Table]:
        """Yield tables that follow each other in the order, each still to be sorted."""
        if not self._runs:
            if self._waiting:
                yield self._take_waiting()
            return
        if self._waiting:
            self._spill()
        with ExitStack() as stack:
            runs = [
                stack.enter_context(pa.ipc.open_file(stack.enter_context(pa.memory_map(str(p))))) for p in self._runs
            ]
            for part in range(PARTS):
                yield pa.Table.from_batches([run.get_batch(part) for run in runs]).combine_chunks()

    def _take_waiting(self) -> pa.Table:
        # Column by column, so that no more than one column is held twice.
        columns = {name: pa.concat_arrays(self._waiting.pop(name)) for name in list(self._waiting)}
        self._bytes = 0
        return pa.table(columns)

    def _spill(self) -> None:
        """Write what is in memory as one sorted run: a file of PARTS batches."""
        table = self._take_waiting()
        order, _ = _sorted(table)
        first = table.column(_WORDS[0]).to_numpy()[order]
        starts = np.searchsorted(first, np.arange(PARTS, dtype=np.uint64) << np.uint64(56))
        try:
            path = self._scratch() / f"{len(self._runs)}.arrow"
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                for start, stop in zip(starts, [*starts[1:], order.size], strict=True):
                    part = table.take(pa.array(order[start:stop])).combine_chunks()
                    writer.write_batch(part.to_batches()[0] if part.num_rows else _empty(table.schema))
        except OSError as error:
            raise ReleaseError(
                sentence(
                    "records cannot be put aside for sorting",
                    got=error.strerror or "an I/O error",
                    fix="free space beside the output, or raise the memory limit",
                )
            ) from None
        self._runs.append(path)

    def _scratch(self) -> Path:
        if self._folder is None:
            made = tempfile.TemporaryDirectory(prefix=".postrand-", dir=self._directory)
            self._folder = Path(self._stack.enter_context(made))
        return self._folder


def _sorted(table: pa.Table) -> tuple[NDArray[np.int64], int]:
    """Return the order of a table's records, shape (n,), and how many share their words with another."""
    first, second = (table.column(name).to_numpy() for name in _WORDS)
    order = np.argsort(first)
    if not _repeats(first[order]).any():
        return order, 0
    order = np.lexsort((second, first))
    same = _repeats(first[order]) & _repeats(second[order])
    return order, int((np.append(same, False) | np.append(False, same)).sum())


def _repeats(values: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Tell for each value but the last whether the next one equals it."""
    return np.equal(values[1:], values[:-1])


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
