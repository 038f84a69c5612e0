"""Arrow IPC files (also called Feather 2): everything that Arrow holds survives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from postrand.codebook import Codebook
from postrand.codebook.coding import from_numpy, index_values, is_null, numpy_dtype
from postrand.codebook.not_released import METADATA_KEY
from postrand.formats._bounds import HELD, check_unpacked, check_values
from postrand.formats._buffers import WRONG, unpacked_of
from postrand.formats.base import (
    BATCH_ROWS,
    Format,
    Opening,
    Readers,
    bounded,
    check_schema,
    conform,
    damaged,
    reading,
    select,
    spelt,
)

_ROWS = 1 << 16
_WHAT = "Arrow IPC"


@dataclass(frozen=True, slots=True)
class ArrowSource:
    """An Arrow IPC file, mapped into memory for each pass over its records."""

    path: Path
    schema: pa.Schema
    num_rows: int

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the records; see :class:`postrand.formats.base.Source`."""
        names = select(self.schema, columns, self.path)
        with reading(self.path, _WHAT), pa.memory_map(str(self.path)) as mapped, pa.ipc.open_file(mapped) as file:
            for i in range(file.num_record_batches):
                whole = file.get_batch(i).select(names)
                for start in range(0, whole.num_rows, _ROWS):
                    part = whole.slice(start, _ROWS)
                    part.validate(full=True)  # nothing else checks offsets and dictionary indices
                    yield from bounded(part, batch_size)


def _read(path: Path, codebook: Codebook | None) -> ArrowSource:
    with reading(path, _WHAT), pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as file:
        from pyarrow.dataset import dataset  # heavy

        check_schema(spelt(file.schema), path, None)  # a data set has no name twice, and says so in its own words
        rows = dataset(path, format="ipc").count_rows()  # which unpacks nothing
        check_values(path, rows * len(file.schema))
        try:
            unpacked = unpacked_of(path)
        except WRONG:
            raise damaged(path, _WHAT) from None
        check_unpacked(path, unpacked, path.stat().st_size, HELD)  # a batch is unpacked as a whole
        return ArrowSource(path, file.schema, rows)


@dataclass(slots=True)
class _Batches:
    """Collects records into batches of one size, whose dictionaries only grow: the format knows no other change."""

    file: pa.RecordBatchFileWriter
    schema: pa.Schema
    waiting: list[pa.RecordBatch]
    rows: int = 0

    def write(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            piece = batch.slice(0, _ROWS - self.rows)
            self.waiting.append(_without_hidden(conform(piece, self.schema)))
            self.rows += piece.num_rows
            batch = batch.slice(piece.num_rows)
            if self.rows == _ROWS:
                self.flush()

    def flush(self) -> None:
        if self.rows:
            table = pa.Table.from_batches(self.waiting).unify_dictionaries().combine_chunks()
            whole = table.to_batches()[0]
            self.file.write_batch(whole)
            # Kept, empty, so that the next batch's dictionaries extend these.
            self.waiting, self.rows = [whole.slice(0, 0)], 0


def _without_hidden(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with index 0 under each null of a variable of a split; polars reads no index without a value."""
    columns = [
        _zeroed(c) if c.null_count and METADATA_KEY in (f.metadata or {}) else c
        for f, c in zip(batch.schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _zeroed(column: pa.DictionaryArray) -> pa.DictionaryArray:
    missing = is_null(column.indices)
    indices = np.where(missing, 0, index_values(column.indices)).astype(numpy_dtype(column.indices.type))
    return pa.DictionaryArray.from_arrays(from_numpy(indices, missing), column.dictionary, safe=False)


@contextmanager
def _open_writer(path: Path, schema: pa.Schema, opening: Opening) -> Iterator[_Batches]:
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with opening(path) as sink, pa.ipc.new_file(sink, schema, options=options) as file:
        empty = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
        batches = _Batches(file, schema, [empty])
        yield batches
        batches.flush()


FORMAT = Format(
    "Arrow IPC",
    (".arrow", ".feather"),
    _read,
    _open_writer,
    Readers(
        python="pd.read_feather({})",
        r="as.data.frame(arrow::read_feather({}))",
        r_values={"arrow": "arrow::read_feather(path)"},
    ),
    media_type="application/vnd.apache.arrow.file",
    keeps_types=True,
    keeps_labels=True,
)
