"""Parquet files: types, dictionary order, nulls and labels survive."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from postrand.codebook import Codebook
from postrand.codebook.coding import is_text
from postrand.formats._bounds import HELD, UNPACKED, check_unpacked, check_values
from postrand.formats._pages import WRONG, pages_of
from postrand.formats.base import (
    BATCH_ROWS,
    Format,
    Opening,
    Readers,
    bounded,
    conform,
    damaged,
    reading,
    select,
    spelt,
)

ROW_GROUP_ROWS = 1 << 18
_WHAT = "Parquet"


@dataclass(frozen=True, slots=True)
class ParquetSource:
    """A Parquet file, opened anew for each pass over its records."""

    path: Path
    schema: pa.Schema
    num_rows: int
    spelt_out: frozenset[str] = frozenset()
    """Columns that the library does not read as numbers of a dictionary."""
    most: int = BATCH_ROWS
    """Records of which the values fit into memory."""

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the records; see :class:`postrand.formats.base.Source`."""
        names = select(self.schema, columns, self.path)
        # Columns that were dictionaries when written come back as such, with their order, by themselves.
        types = {name: self.schema.field(name).type for name in names}
        repeated = [name for name, of in types.items() if _repeats(of) and name not in self.spelt_out]
        rows = 0
        with reading(self.path, _WHAT), pq.ParquetFile(self.path, read_dictionary=repeated, pre_buffer=False) as file:
            # Dots in a name mean nesting to the reader, so such files are read whole and selected here.
            wanted = None if any("." in name for name in self.schema.names) else names
            pieces = file.iter_batches(max(1, min(batch_size, self.most)), columns=wanted)
            for batch in _encoded(pieces, names) if self.most < batch_size else pieces:
                batch.validate(full=True)  # nothing else checks dictionary indices and text
                rows += batch.num_rows
                yield from bounded(batch.select(names), batch_size)
        if rows != self.num_rows:
            raise damaged(self.path, _WHAT)


def _repeats(of: pa.DataType) -> bool:
    """Whether values are read as numbers of a dictionary: spelt out, one long text in each record fills the memory."""
    is_binary = pa.types.is_binary(of) or pa.types.is_large_binary(of)
    return is_binary or (is_text(of) and not pa.types.is_dictionary(of))


def _encoded(pieces: Iterator[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield small pieces together, their texts as numbers of dictionaries, as far as the memory holds them."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for piece in pieces:
        piece.validate(full=True)
        for part in bounded(piece.select(names), BATCH_ROWS):
            if held and (rows + part.num_rows > BATCH_ROWS or size + part.nbytes > UNPACKED):
                yield _one(held)
                held, rows, size = [], 0, 0
            held.append(part)
            rows, size = rows + part.num_rows, size + part.nbytes
    if held:
        yield _one(held)


def _one(held: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    batch: pa.RecordBatch = pa.Table.from_batches(held).unify_dictionaries().combine_chunks().to_batches()[0]
    return batch


def _read(path: Path, codebook: Codebook | None) -> ParquetSource:
    with reading(path, _WHAT), pq.ParquetFile(path) as file:
        told, schema = file.metadata, spelt(file.schema_arrow)
        rows = [told.row_group(i).num_rows for i in range(told.num_row_groups)]
        try:
            pages = pages_of(path)
            texts = {file.schema.column(n).path: size for n, size in pages.spelt_out.items() if _is_text(file, n)}
        except WRONG:
            raise damaged(path, _WHAT) from None
    if min([told.num_rows, *rows]) < 0 or told.num_rows != sum(rows):
        raise damaged(path, _WHAT)
    check_values(path, max(pages.values, told.num_rows * max(1, told.num_columns)))
    check_unpacked(path, pages.unpacked, path.stat().st_size, HELD)
    width = sum(of.byte_width if pa.types.is_fixed_size_binary(of) else 8 for of in schema.types)
    most = UNPACKED // max(1, width + sum(texts.values()))
    return ParquetSource(path, schema, told.num_rows, frozenset(texts), max(1, most))


def _is_text(file: pq.ParquetFile, number: int) -> bool:
    return bool(file.schema.column(number).physical_type == "BYTE_ARRAY")


@dataclass(slots=True)
class _RowGroups:
    """Collects batches into row groups of one size, so that the bytes do not depend on the batches."""

    file: pq.ParquetWriter
    schema: pa.Schema
    waiting: list[pa.RecordBatch]
    rows: int = 0

    def write(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            piece = batch.slice(0, ROW_GROUP_ROWS - self.rows)
            self.waiting.append(conform(piece, self.schema))
            self.rows += piece.num_rows
            batch = batch.slice(piece.num_rows)
            if self.rows == ROW_GROUP_ROWS:
                self.flush()

    def flush(self) -> None:
        if self.rows:
            # One dictionary for each column: the encoder would drop to plain text where it changes.
            table = pa.Table.from_batches(self.waiting).unify_dictionaries().combine_chunks()
            self.file.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self.waiting, self.rows = [], 0


@contextmanager
def _open_writer(path: Path, schema: pa.Schema, opening: Opening) -> Iterator[_RowGroups]:
    # Text goes to the encoder as dictionaries, never expanded. What a reader sees is the given schema, which is
    # therefore stored by hand, under the key that Arrow readers look for.
    text = pa.dictionary(pa.int32(), pa.string())
    encoded = pa.schema([pa.field(f.name, text if is_text(f.type) else f.type, f.nullable) for f in schema])
    stored = base64.b64encode(schema.serialize().to_pybytes())
    with opening(path) as sink, pq.ParquetWriter(sink, encoded, compression="zstd", store_schema=False) as file:
        groups = _RowGroups(file, encoded, [])
        yield groups
        groups.flush()
        file.add_key_value_metadata({**(schema.metadata or {}), b"ARROW:schema": stored})


FORMAT = Format(
    "Parquet",
    (".parquet", ".pq"),
    _read,
    _open_writer,
    Readers(
        python="pd.read_parquet({})",
        r="as.data.frame(arrow::read_parquet({}))",
        r_values={"arrow": "arrow::read_parquet(path)", "nanoparquet": "nanoparquet::read_parquet(path)"},
    ),
    media_type="application/x-parquet",
    keeps_types=True,
    keeps_labels=True,
)
