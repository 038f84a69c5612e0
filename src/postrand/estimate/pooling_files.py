"""Completed files on a disk: each copy of a stacked file as a frame, read when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postrand import formats
from postrand.codebook.coding import is_text
from postrand.data import frames
from postrand.errors import DataError, UsageError, sentence
from postrand.formats import Source

COPY, RECORD = "Imputation_", "Record_"
"""The first columns of a stacked file: they number its copies, 0 for the released records, and the records of each.
SPSS knows copies by this name."""
STEM = "completed"
"""The name of a stacked file in its folder, without the suffix; also that of the folder."""
_MOST_CATEGORIES = 1000
"""A column of more different texts than this stays text in a frame."""
_WHOLE, NUMBER = r"^(-?[1-9][0-9]{0,17}|0)$", r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
"""What is a number in a CSV file. 01 is a code: the number 1 would be another one's."""


@dataclass(frozen=True, slots=True)
class CompletedFrames(Sequence[Any]):
    """Hold where the copies of a stacked file are: ``frames[i]`` reads copy i + 1, and iterating reads the file once.

    Frames have the columns of the data, without the numbers of the copy and of the record, and memory holds one of
    them. A column of texts lists the same ``categories`` in every frame. In CSV files, which hold texts only, a column
    of which all values are numbers has the type in ``numbers``.
    """

    path: Path
    kind: frames.Kind
    copies: int
    categories: Mapping[str, tuple[str, ...]]
    numbers: Mapping[str, pa.DataType]

    def __len__(self) -> int:
        return self.copies

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...
    def __getitem__(self, place: int | slice) -> Any:
        """Return one frame, or a list of several."""
        if isinstance(place, slice):
            return [self[i] for i in range(self.copies)[place]]
        wanted = range(1, self.copies + 1)[place]  # raises IndexError, and counts negative places from the end
        return self._frame([batch for number, batch in _by_copy(formats.read(self.path)) if number == wanted])

    def __iter__(self) -> Iterator[Any]:
        held: list[pa.RecordBatch] = []
        current = 1
        for number, batch in _by_copy(formats.read(self.path)):
            if number > current:
                yield self._frame(held)
                held, current = [], number
            if number:
                held.append(batch)
        yield self._frame(held)

    def _frame(self, batches: list[pa.RecordBatch]) -> Any:
        table = pa.Table.from_batches(batches).drop_columns([COPY, RECORD])
        columns = {name: self._column(table.column(name), name) for name in table.column_names}
        return frames.of_arrow(pa.table(columns), self.kind)

    def _column(self, column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
        if name in self.numbers:
            return column.cast(pa.string()).cast(self.numbers[name])
        if not is_text(column.type):
            return column
        plain = column.cast(pa.string())
        if name not in self.categories:
            return plain
        known = pa.array(self.categories[name], pa.string())
        parts = pc.index_in(plain, value_set=known).chunks
        of = pa.dictionary(pa.int32(), pa.string())
        return pa.chunked_array([pa.DictionaryArray.from_arrays(part, known) for part in parts], of)


def completed_frames(path: str | Path, kind: frames.Kind = "arrow") -> CompletedFrames:
    """Return the copies in a completed file, as ``postrand complete`` writes it, or in the folder that contains it.

    ``kind`` is ``"arrow"``, ``"pandas"`` or ``"polars"``. The file is read once now, to find out how many copies there
    are and which categories; copy 0, the released records without their perturbed values, is left out.

    Raises
    ------
    UsageError
        If there is no such file, or the library of the frames is not installed.
    DataError
        If it is not a stacked file of at least one copy, or its copies do not follow one another.
    """
    frames.check_kind(kind)
    file = _file_at(Path(path))
    source = formats.read(file)
    lacking = [name for name in (COPY, RECORD) if name not in source.schema.names]
    if lacking:
        what = f"the file has no column {lacking[0]!r}, so it holds no completed copies"
        raise DataError(sentence(what, where=file.name, fix="make it with postrand complete"))
    texts = {f.name: _Texts() for f in source.schema if is_text(f.type) and f.name not in (COPY, RECORD)}
    copies = _counted(source, texts, file.name)
    untyped = getattr(source, "untyped", False)
    numbers = {name: seen.number for name, seen in texts.items() if untyped and seen.number is not None}
    categories = {name: tuple(sorted(seen.values)) for name, seen in texts.items() if seen.values is not None}
    return CompletedFrames(file, kind, copies, {n: c for n, c in categories.items() if n not in numbers}, numbers)


def _counted(source: Source, texts: Mapping[str, _Texts], name: str) -> int:
    """Return the number of copies, having shown their values to ``texts``; refuse copies that are not all whole."""
    copies, records = 0, dict[int, int]()
    for number, batch in _by_copy(source):
        copies = number
        records[number] = records.get(number, 0) + batch.num_rows
        for column, seen in texts.items():
            seen.add(batch.column(column))
    if sorted(records) not in (list(range(copies + 1)), list(range(1, copies + 1))) or not copies:
        what = f"the copies in {COPY!r} are not numbered 1, 2, ..."
        raise DataError(sentence(what, where=name, fix="make the file again, complete"))
    if len(set(records.values())) > 1:
        what = "the copies do not have the same number of records"
        raise DataError(sentence(what, where=name, fix="the file was cut: copy it again"))
    return copies


def _file_at(path: Path) -> Path:
    """Return the stacked file at a path: the file itself, or the one in the folder."""
    if not path.is_dir():
        return path
    known = {suffix for entry in formats.formats() for suffix in entry.suffixes}
    for folder in (path, path / STEM):
        found = [file for file in sorted(folder.glob(f"{STEM}.*")) if file.suffix.lower() in known]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(sentence("several completed files", where=str(path), fix="name one of them"))
    raise UsageError(
        sentence("no completed file in this folder", where=str(path), wanted=f"{STEM}.csv, {STEM}.sav, ...")
    )


def _by_copy(source: Source) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield pieces of the records with the number of the copy that each belongs to; copies must not go down."""
    last = 0
    for batch in source.batches():
        held = batch.column(source.schema.names.index(COPY))
        try:
            plain = held.cast(pa.string()) if is_text(held.type) else held
            numbers = plain.cast(pa.int64()).to_numpy(zero_copy_only=False)
            ends = np.flatnonzero(np.diff(numbers)) + 1
        except (pa.ArrowInvalid, TypeError):
            raise DataError(sentence(f"{COPY!r} has values that are not whole numbers")) from None
        for start, end in zip([0, *ends], [*ends, len(numbers)], strict=True):
            number = int(numbers[start])
            if number < last:
                fix = f"sort the file by {COPY}, {RECORD}"
                raise DataError(sentence("the copies of the file do not follow one another", fix=fix))
            last = number
            yield number, batch.slice(start, end - start)


class _Texts:
    """What a column of texts has held so far: its values, as long as they are few, and whether all are numbers."""

    def __init__(self) -> None:
        self.values: set[str] | None = set()
        self.whole = self.decimal = True
        self.any = False

    def add(self, column: pa.Array) -> None:
        """Look at one batch."""
        found = pc.unique(column.cast(pa.string())).drop_null()
        self.any |= len(found) > 0
        self.whole = self.whole and bool(pc.all(pc.match_substring_regex(found, _WHOLE), min_count=0).as_py())
        self.decimal = self.decimal and bool(pc.all(pc.match_substring_regex(found, NUMBER), min_count=0).as_py())
        if self.values is not None:
            self.values |= set(found.to_pylist())
            if len(self.values) > _MOST_CATEGORIES:
                self.values = None

    @property
    def number(self) -> pa.DataType | None:
        """The type of the numbers that the texts are; None where one is not a number, or there are none."""
        if not self.any or not self.decimal:
            return None
        return pa.int64() if self.whole else pa.float64()
