"""What executors run: perturb the records of a partition, and write one part of the release.

Records travel between the two steps as Arrow messages, thousands to a row, each bound for the part that holds its
place in the order. A task that runs again, anywhere, makes the same pieces and the same file. No row is made of Python
values, for which Arrow loads pandas in every worker; see :mod:`postrand.support.arrow`.
"""

from __future__ import annotations

import json
import os
import pickle
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from postrand import errors, formats
from postrand.codebook import Codebook, coding
from postrand.columns.recoded import recoded_batch
from postrand.engines.content import Content
from postrand.engines.order import WORDS, cut, pieces_in_order
from postrand.engines.records import Perturber
from postrand.engines.wants import Piece, Want, parts_of
from postrand.formats._partitions import repeated as constant
from postrand.formats._parts import PART_NAME
from postrand.formats.base import cast, reading
from postrand.recoding import Recode
from postrand.support.arrow import from_bytes, from_texts
from postrand.support.randomness import record_keys

_FOUND = [("content", pa.binary()), ("problem", pa.string())]
"""What was drawn for, of all records of a batch of rows in the first of them; or what the task met."""
PIECES = pa.schema([("part", pa.int32()), ("records", pa.binary()), *_FOUND])
RESULTS = pa.schema([("part", pa.int32()), ("records", pa.int64()), ("repeated", pa.int64()), *_FOUND])
COUNTED = pa.schema([("first", pa.int64()), ("parts", pa.binary())])
BATCH_ROWS = 1 << 16
PIECE_ROWS = 1 << 20
"""Records that one task cuts into pieces at a time."""


@dataclass(frozen=True, slots=True)
class Work:
    """Everything an executor needs; it contains the two AES keys of the mechanism, so it is a secret.

    ``inputs`` are the columns that it is given, by place; the position of the record, where it is needed, comes last;
    ``recodes`` what is done to them first.
    ``shuffle``: parts follow the keyed order, else the position in the file, of ``total`` records. ``keys_only``:
    nothing is released, to find equal record keys.
    """

    perturber: Perturber
    inputs: pa.Schema
    record_key: str | None
    shuffle: bool
    total: int
    parts: int
    folder: Path
    suffix: str
    schema: pa.Schema
    recodes: tuple[Recode, ...] = ()
    keys_only: bool = False


@dataclass(frozen=True, slots=True)
class Counting:
    """What an executor needs to answer wants; it can contain the keys of contents, so it is a secret."""

    wants: tuple[Want, ...]
    codebook: Codebook
    inputs: pa.Schema
    recodes: tuple[Recode, ...] = ()


def count(work: Counting, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows of ``COUNTED`` for the records of one partition, whose places in the file nobody asks for."""
    from pyspark import TaskContext  # needs the extra "spark"

    context = TaskContext.get()
    first = 0 if context is None else context.partitionId() << 40  # numbers that differ from those of other tasks
    yield from _counted(work, _placed(batches, first))


def count_files(work: Counting, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do the same for the row groups that rows name, whose places are known."""
    read = _read(work.inputs, batches)
    yield from _counted(work, ((int(_position(batch)[0]), batch) for batch in read if batch.num_rows))


def _placed(batches: Iterable[pa.RecordBatch], first: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        yield first, batch
        first += batch.num_rows


def _counted(work: Counting, batches: Iterable[tuple[int, pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    for first, batch in batches:
        parts = parts_of(work.wants, Piece(_typed_batch(work, batch), first, work.codebook))
        sent = [_problem(part) if isinstance(part, errors.PostrandError) else pickle.dumps(part) for part in parts]
        row = [coding.from_numpy(np.array([first], dtype=np.int64)), from_bytes([pickle.dumps(sent)])]
        yield pa.RecordBatch.from_arrays(row, schema=COUNTED)


def parts_in(row: bytes) -> list[Any]:
    """Return the parts of a row, or the errors that they met."""
    return [_error(part) if isinstance(part, str) else pickle.loads(part) for part in pickle.loads(row)]


def perturb(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows of ``PIECES`` for the records of one partition; a problem of the data is a row too."""
    waiting: list[pa.RecordBatch] = []
    drawn = Content()
    try:
        for batch in batches:
            released, content = _released(work, batch)
            waiting.append(released)
            drawn += content
            if sum(part.num_rows for part in waiting) >= PIECE_ROWS:
                yield _pieces(work, waiting, drawn)
                waiting, drawn = [], Content()
        if waiting:
            yield _pieces(work, waiting, drawn)
    except errors.PostrandError as error:
        yield pa.RecordBatch.from_pylist([{"part": 0, "problem": _problem(error)}], PIECES)


def perturb_files(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do the same for the row groups that rows name, (path, row_group, position): read here, not row by row in Java."""
    return perturb(work, _read(work.inputs, batches))


def write(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Sort the pieces of one part, write its file, and yield one row of ``RESULTS``."""
    table = pa.Table.from_batches(batches, PIECES)
    if not table.num_rows:
        return
    rows = table.select(["part", *(name for name, _ in _FOUND)]).to_pylist()
    part, records, repeated = rows[0]["part"], 0, 0
    content = sum((Content.of_tag(row["content"]) for row in rows if row["content"]), Content()).tag()
    problem = min((row["problem"] for row in rows if row["problem"]), default=None)
    if problem is None:
        try:
            pieces = pa.concat_tables(pa.ipc.open_stream(row.as_buffer()).read_all() for row in table.column("records"))
            records = pieces.num_rows
            repeated = _write_part(work, part, pieces)
        except errors.PostrandError as error:
            problem = _problem(error)
    kinds = ((part, np.int32), (records, np.int64), (repeated, np.int64))
    numbers = [coding.from_numpy(np.array([n], dtype=kind)) for n, kind in kinds]
    yield pa.RecordBatch.from_arrays([*numbers, from_bytes([content]), from_texts([problem])], schema=RESULTS)


def raise_problem(text: str) -> None:
    """Raise the error that a task met."""
    raise _error(text)


def _read(inputs: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the records of row groups, each with its position in the whole source as the last column."""
    texts = [f.name for f in inputs if coding.is_text(f.type) and not pa.types.is_dictionary(f.type)]
    for row in (row for batch in batches for row in batch.to_pylist()):
        path, position, held = Path(row["path"]), row["position"], json.loads(row["held"])
        own, text = ([name for name in names if name not in held] for names in (inputs.names, texts))
        with reading(path, "Parquet"), pq.ParquetFile(path, read_dictionary=text, pre_buffer=False) as file:
            # Dots in a name mean nesting to the reader: then it reads all columns.
            wanted = None if not own or any("." in name for name in own) else own
            for batch in file.iter_batches(BATCH_ROWS, row_groups=[row["row_group"]], columns=wanted):
                places = coding.from_numpy(np.arange(position, position + batch.num_rows))
                columns = [
                    constant(held[f.name], f.type, batch.num_rows) if f.name in held else batch.column(f.name)
                    for f in inputs
                ]
                yield pa.RecordBatch.from_arrays([*columns, places], names=[*inputs.names, "position"])
                position += batch.num_rows


def _released(work: Work, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Content]:
    """Return released codes and values, with the two words of their order; and what was drawn for."""
    typed = _typed_batch(work, batch)
    keys = _record_keys(work.record_key, typed, batch)
    released, drawn = (batch.select([]), Content()) if work.keys_only else work.perturber.release(typed, keys)
    if work.shuffle or work.keys_only:
        words = work.perturber.order(keys)
    else:
        position = _position(batch)
        words = np.stack([position, np.zeros_like(position)], axis=1)
    columns = [*released.columns, *(coding.from_numpy(column) for column in words.T)]
    return pa.RecordBatch.from_arrays(columns, names=[*released.schema.names, *WORDS]), drawn


def _typed_batch(work: Work | Counting, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns that a task is given, by place, under their names and in the source's types."""
    typed = [_typed(batch.column(n), field) for n, field in enumerate(work.inputs)]
    plain = pa.RecordBatch.from_arrays(typed, names=work.inputs.names)
    return recoded_batch(plain, work.recodes)


def _record_keys(name: str | None, typed: pa.RecordBatch, batch: pa.RecordBatch) -> NDArray[np.uint64]:
    return _position(batch) if name is None else record_keys(typed.column(name))


def _position(batch: pa.RecordBatch) -> NDArray[np.uint64]:
    """Return the place of each record in the source: the last column."""
    return coding.to_numpy(batch.column(batch.num_columns - 1)).astype(np.uint64)


def _typed(column: pa.Array, field: pa.Field) -> pa.Array:
    return column if pa.types.is_dictionary(column.type) else cast(column, coding.value_type(field.type))


def _pieces(work: Work, batches: list[pa.RecordBatch], drawn: Content) -> pa.RecordBatch:
    """Cut records into one Arrow message for each part; what was drawn for goes with the first."""
    table = pa.Table.from_batches(batches)
    part = _part_of(work, coding.to_numpy(table.column(WORDS[0]).combine_chunks()))
    columns = {name: table.column(name).chunks for name in table.schema.names}
    found = [(n, piece) for n, piece in enumerate(cut(columns, part, work.parts)) if piece.num_rows]
    stops, buffer = [0], pa.BufferOutputStream()
    for _, piece in found:
        with pa.ipc.new_stream(buffer, piece.schema) as stream:
            stream.write_table(piece)
        stops.append(buffer.tell())
    places = pa.py_buffer(np.array(stops, dtype=np.int32).tobytes())
    messages = pa.Array.from_buffers(pa.binary(), len(found), [None, places, buffer.getvalue()])
    tags = from_bytes([drawn.tag(), *[None] * (len(found) - 1)])
    numbers = coding.from_numpy(np.array([number for number, _ in found], dtype=np.int32))
    return pa.RecordBatch.from_arrays([numbers, messages, tags, pa.nulls(len(found), pa.string())], schema=PIECES)


def _part_of(work: Work, first: NDArray[np.uint64]) -> NDArray[np.unsignedinteger[Any]]:
    """Return the part of each record: parts follow each other in the order."""
    parts = np.uint64(work.parts)
    kind = np.uint8 if work.parts <= 1 << 8 else np.uint16 if work.parts <= 1 << 16 else np.uint32
    if work.shuffle or work.keys_only:
        return ((first >> np.uint64(32)) * parts >> np.uint64(32)).astype(kind)
    return (first * parts // np.uint64(work.total)).astype(kind)


def _write_part(work: Work, part: int, records: pa.Table) -> int:
    """Sort records and write them to the part's file; return how many have the record key of another one.

    The file is written under a hidden name, then renamed: either of two attempts at a task can come last.
    """
    if work.keys_only:
        return sum(repeated for _, repeated in pieces_in_order(records))
    name = PART_NAME.format(part) + work.suffix
    hidden, found = work.folder / f".{secrets.token_hex(8)}.{name}", 0
    with formats.open_writer(hidden, work.schema) as writer:
        for batch, repeated in pieces_in_order(records):
            writer.write(work.perturber.values(batch))
            found += repeated
    os.replace(hidden, work.folder / name)
    return found


def _error(text: str) -> errors.PostrandError:
    data = json.loads(text)
    found: errors.PostrandError = getattr(errors, data["kind"])(data["problems"])
    return found


def _problem(error: errors.PostrandError) -> str:
    return json.dumps({"kind": type(error).__name__, "problems": list(error.problems)})
