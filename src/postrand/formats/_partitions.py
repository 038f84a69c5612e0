"""Columns that the names of folders hold (``year=2020/region=1/x.parquet``), as Hive and Spark write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from postrand.codebook import Codebook
from postrand.codebook.coding import arrow_type, is_text, value_type
from postrand.errors import DataError, SpecificationError, raise_all, sentence
from postrand.formats.base import BATCH_ROWS, Source, WrappedSource, first, select

Held = tuple[tuple[str, str | None], ...]
"""Columns that the names of a file's folders hold, as text, None for a missing value."""
_MISSING = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class PartitionedSource(WrappedSource):
    """The records of a file, each with what the names of its folders hold; see :class:`postrand.formats.base.Source`.

    ``held`` are columns of text, None for a missing value; ``types`` what they are in.
    """

    held: Held
    types: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        """The columns of the file, then those of its folders."""
        own: pa.Schema = self.source.schema
        return pa.schema([*own, *self.types], own.metadata)

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the records in file order."""
        names, held = select(self.schema, columns, self.path), dict(self.held)
        own = [name for name in names if name not in held]
        for batch in self.source.batches(own or select(self.source.schema, None, self.path)[:1], batch_size):
            arrays = [
                repeated(held[name], self.types.field(name).type, batch.num_rows)
                if name in held
                else batch.column(batch.schema.get_field_index(name))
                for name in names
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=names)


def repeated(text: str | None, of: pa.DataType, rows: int) -> pa.Array:
    """Return a column in which every record has the value that a folder's name holds as text.

    >>> repeated("7", pa.int64(), 2).to_pylist(), repeated(None, pa.string(), 1).to_pylist()
    ([7, 7], [None])

    Raises
    ------
    DataError
        If the text is no value of this type.
    """
    try:
        value = pa.array([text], pa.string()).cast(value_type(of))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        what, fix = (
            "the name of a folder does not contain a value of the column's type",
            "correct 'type' in the codebook",
        )
        raise DataError(sentence(what, wanted=of, fix=fix)) from None
    indices = pa.repeat(pa.scalar(0, pa.int32()), rows)
    return pa.DictionaryArray.from_arrays(indices, value) if is_text(of) else value.take(indices)


def held_by(folders: Sequence[str]) -> dict[str, str | None]:
    """Return the columns that the names of folders hold.

    >>> held_by(["survey", "year=2020", "town=St.%20Gallen", "x=__HIVE_DEFAULT_PARTITION__"])
    {'year': '2020', 'town': 'St. Gallen', 'x': None}
    """
    pairs = [folder.partition("=") for folder in folders if "=" in folder]
    return {unquote(name): None if text == _MISSING else unquote(text) for name, _, text in pairs if name}


def with_folders(
    files: Sequence[Path], held: Sequence[Mapping[str, str | None]], parts: Sequence[Source], codebook: Codebook | None
) -> tuple[Source, ...]:
    """Return the files' sources with the columns that are in the names of their folders only, typed by the codebook.

    Without a codebook they are text. What a file holds is in the file, whatever its folders are called.

    Raises
    ------
    DataError
        If a file's folders do not hold a column that those of others hold.
    """
    names = only_in_folders(held, parts[0].schema.names)
    if not names:
        return tuple(parts)
    missing = [
        sentence(f"column {name!r} is in the folder names of other files, but not of this file", where=str(file))
        for file, found in zip(files, held, strict=True)
        for name in names
        if name not in found
    ]
    raise_all(DataError, first(missing))
    types = pa.schema([(name, _type_of(name, codebook)) for name in names])
    return tuple(
        PartitionedSource(part, tuple((name, found[name]) for name in names), types)
        for part, found in zip(parts, held, strict=True)
    )


def only_in_folders(held: Sequence[Mapping[str, str | None]], own: Sequence[str]) -> list[str]:
    """Return the columns that the names of folders hold, and the files do not."""
    return [name for name in dict.fromkeys(name for found in held for name in found) if name not in own]


def _type_of(name: str, codebook: Codebook | None) -> pa.DataType:
    if codebook is None or name not in codebook:
        return pa.string()
    try:
        return value_type(arrow_type(codebook[name].type))
    except SpecificationError:
        return pa.string()
