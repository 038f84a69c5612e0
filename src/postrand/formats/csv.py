r"""Text files with separated columns: CSV and its relatives, in any encoding, compressed or not; UTF-8 CSV out.

What a plan does not say is usual: commas (a tab in .tsv and .tab), UTF-8, decimal points (:class:`ReadSettings`).
``_detection`` finds what a file has instead. An empty column is missing; a quoted empty one is the empty string. The
writer quotes every text.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from postrand.codebook import Codebook
from postrand.codebook.coding import arrow_type, is_text
from postrand.errors import DataError, sentence
from postrand.formats import _detection, _streams
from postrand.formats._numbers import with_points
from postrand.formats._settings import USUAL, ReadSettings, named, usual_of
from postrand.formats.base import (
    BATCH_ROWS,
    SHOWN,
    Format,
    Opening,
    Readers,
    Source,
    bounded,
    check_header,
    conform,
    first,
    select,
)
from postrand.support.threads import ready_arrow

_BLOCK = 1 << 23
_FORMULA = r"(?s)^[=+\-@\t\r\n]."
_SIGNED = re.compile(r"[+-](\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?%?")
_TEXT = pa.dictionary(pa.int32(), pa.string())


class FormulaWarning(UserWarning):
    """Text would be run as a formula by a spreadsheet that opens the release."""


@dataclass(frozen=True, slots=True)
class CsvSource:
    """A CSV file; its schema says text for every column that a codebook does not give another type."""

    path: Path
    schema: pa.Schema
    num_rows: int | None = None
    untyped: bool = True
    settings: ReadSettings = USUAL

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the records; see :class:`postrand.formats.base.Source`."""
        names = select(self.schema, columns, self.path)
        try:
            if _streams.is_compressed(self.path) or not _streams.is_utf8(self.settings.encoding):
                with _streams.utf8(self.path, self.settings.encoding) as recoded:
                    yield from self._batches(recoded, names, batch_size)
            else:  # the parser reads the file by itself, which is faster
                yield from self._batches(self.path, names, batch_size)
        except (pa.ArrowInvalid, OSError, UnicodeError):
            raise _diagnosis(self.path, self.schema.names, self.settings) from None

    def lossless(self, text: pa.Array, target: pa.DataType) -> pa.Array | None:
        """Return texts of the file as values of another type, or None; see :func:`lossless`."""
        plain = with_points(text, self.settings) if pa.types.is_integer(target) or _is_real(target) else text
        return None if plain is None else lossless(plain, target)

    def _batches(self, file: Any, names: list[str], batch_size: int) -> Iterator[pa.RecordBatch]:
        for batch in self._open(file, names):
            typed = [self._convert(batch.column(n), self.schema.field(n)) for n in names]
            yield from bounded(pa.RecordBatch.from_arrays(typed, names=names), batch_size)

    def _open(self, file: Any, names: list[str]) -> pacsv.CSVStreamingReader:
        ready_arrow()
        return pacsv.open_csv(
            file,
            read_options=pacsv.ReadOptions(block_size=_BLOCK),
            parse_options=pacsv.ParseOptions(
                delimiter=separator_of(self.path, self.settings),
                newlines_in_values=True,
                # An empty line is a missing value where there is but one column.
                ignore_empty_lines=len(self.schema) > 1,
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, _TEXT),
                include_columns=names,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _convert(self, column: pa.Array, field: pa.Field) -> pa.Array:
        """Return a column of text as the field's type, or refuse."""
        if is_text(field.type):
            return column
        values = self.lossless(column.dictionary, field.type)
        if values is None:
            what = f"column {field.name!r} has text that is not exactly a value of type {field.type}"
            fix = "correct the file; or say how it writes numbers, with decimal and thousands in [source] of the plan"
            fix += ". A column that is none of this type has type = 'string' in the codebook"
            raise DataError(sentence(what, where=self.path.name, fix=fix))
        return values.take(column.indices)


def separator_of(path: Path, settings: ReadSettings) -> str:
    """Return the sign between two columns of a file: that of its settings, or the usual one."""
    return settings.separator or usual_of(path).separator


def _read(path: Path, codebook: Codebook | None, settings: ReadSettings = USUAL) -> CsvSource:
    separator = separator_of(path, settings)
    try:
        with _streams.text(path, settings.encoding) as lines:
            header = next(csv.reader(lines, delimiter=separator), [])
            has_records = any(len(header) == 1 or line.strip("\r\n") for line in lines)
    except (UnicodeError, csv.Error):
        raise _diagnosis(path, (), settings) from None
    if not header:
        raise DataError(sentence("the first line is empty", where=path.name, wanted="the names of the columns"))
    if len(header) == 1 and (mark := next((m for m in ",;\t|" if m in header[0]), None)):
        what = f"the columns seem to be separated by {named(mark)}"
        sign = "tab" if mark == "\t" else mark
        fix = f"leave --separator out, or give --separator '{sign}' (separator = \"{sign}\" in [source] of a plan)"
        raise DataError(sentence(what, where=path.name, wanted=named(separator), fix=fix))
    check_header(path, header, codebook)
    if not has_records:
        raise DataError(sentence("the file has no records", where=path.name))
    _check_quotes(path, settings)
    known = {v.name: arrow_type(v.type) for v in codebook.variables} if codebook else {}
    schema = pa.schema([(name, known.get(name, pa.string())) for name in header])
    return CsvSource(path, schema, settings=settings)


def lossless(text: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Return the texts as values of another type, or None where one would come back as another value.

    That is judged by the text, and for floating-point numbers by the exact decimal: "1.50" is 1.5, "007" is not 7.
    """
    try:
        values = text.cast(target)
        back = values.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if back.equals(text):
        return values
    if not pa.types.is_floating(target):
        return None
    changed = (t for t, b in zip(text.to_pylist(), back.to_pylist(), strict=True) if t != b)
    return values if all(_is_exact(t) for t in changed) else None


def _is_exact(text: str) -> bool:
    value = float(text)
    return math.isfinite(value) and Decimal(text) == Decimal(repr(value))


def _is_real(of: pa.DataType) -> bool:
    return bool(pa.types.is_floating(of) or pa.types.is_decimal(of))


def formula_columns(source: Source, columns: Sequence[str]) -> tuple[str, ...]:
    r"""Return the columns of text of which a spreadsheet would run a cell, or their name, as a formula; one pass.

    Spreadsheets do that to text of CSV files that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break (what
    OWASP calls CSV injection). Numbers with a sign are no formulas. Workbooks and the other formats say what is text.

    >>> import tempfile
    >>> from postrand import formats
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "s.csv")
    ...     _ = path.write_text("id,note,gain\n1,=cmd|calc,-3.5\n2,fine,+1e3\n")
    ...     formula_columns(formats.read(path), ["id", "note", "gain"])
    ('note',)
    """
    want = FormulaCells.of(source.schema, columns)
    tally = want.tally(source, None)
    for batch in source.batches(want.columns) if want.columns else ():
        tally.add(want.part(batch))
    return tally.found()


@dataclass(frozen=True, slots=True)
class FormulaCells:
    """Want those of the columns ``texts`` that have a cell which a spreadsheet would run; ``named`` are so by name.

    See :func:`formula_columns` and :class:`postrand.engines.wants.Want`.
    """

    released: tuple[str, ...]
    named: tuple[str, ...]
    columns: tuple[str, ...]
    numbered = False

    @classmethod
    def of(cls, schema: pa.Schema, columns: Sequence[str]) -> FormulaCells:
        """Return the want for these columns of a release."""
        named = tuple(name for name in columns if _runs(name))
        texts = tuple(name for name in columns if name not in named and is_text(schema.field(name).type))
        return cls(tuple(columns), named, texts)

    def check(self, source: Source, codebook: Codebook) -> None:
        """Nothing can be wrong."""

    def part(self, piece: Any) -> set[str]:
        """Return the columns in which some records have such a cell."""
        found = set()
        for name in self.columns:
            column = piece.column(name)
            values = column.dictionary if pa.types.is_dictionary(column.type) else column
            starts = pc.match_substring_regex(values, pattern=_FORMULA)
            if pc.any(starts).as_py() and any(map(_runs, values.filter(starts).to_pylist())):
                found.add(name)
        return found

    def tally(self, source: Source, codebook: Codebook | None) -> _Union:
        """Return what puts the columns together."""
        return _Union(self)


class _Union:
    """Puts columns with formulas together."""

    def __init__(self, want: FormulaCells) -> None:
        self._want, self._found = want, set(want.named)

    def add(self, part: set[str]) -> None:
        self._found |= part

    def found(self) -> tuple[str, ...]:
        """Return the columns, in the order of the release."""
        return tuple(name for name in self._want.released if name in self._found)


def formula_warning(source: Source, columns: Sequence[str], suffix: str) -> str:
    """Return what a curator is warned of where these columns go to a file of this suffix, by names alone; or ''."""
    return formulas_said(formula_columns(source, columns)) if writes_formulas(suffix) else ""


def writes_formulas(suffix: str) -> bool:
    """Return whether a file of this suffix does not say what is text."""
    return suffix in FORMAT.suffixes


def formulas_said(found: Sequence[str]) -> str:
    """Return the warning about these columns; '' of none."""
    if not found:
        return ""
    what = f"cells of {', '.join(map(repr, found))} begin like a formula, and spreadsheets would run them"
    return sentence(what, fix="correct these cells, label such bands, or release as .parquet, which marks them as text")


def _runs(text: str) -> bool:
    return re.match(_FORMULA, text) is not None and not _SIGNED.fullmatch(text)


def _check_quotes(path: Path, settings: ReadSettings) -> None:
    """Refuse a quote that is never closed: the parser would take the rest of the file for one column."""
    try:
        with _streams.utf8(path, settings.encoding) as file:
            quotes = sum(block.count(b'"') for block in iter(lambda: file.read(_BLOCK), b""))
    except UnicodeError:
        raise _diagnosis(path, (), settings) from None
    if quotes % 2:
        what = "a double quote is not closed, or is not doubled inside a field"
        raise DataError(sentence(what, where=path.name, fix="the file may be truncated; copy it again"))


def _diagnosis(path: Path, names: Sequence[str], settings: ReadSettings) -> DataError:
    """Say what is wrong and on which lines, reading the file once more; never what a line holds."""
    encoding = "UTF-8" if _streams.is_utf8(settings.encoding) else settings.encoding
    line = _streams.undecodable_line(path, settings.encoding)
    if line is not None:
        fix = "save the file as UTF-8, or name its encoding" if encoding == "UTF-8" else "name the encoding that it has"
        fix += " (--encoding windows-1252, or encoding in [source] of a plan); 'postrand init' finds it out"
        return DataError(sentence(f"text is not valid {encoding}", where=f"{path.name}, line {line}", fix=fix))
    separator, ragged, wrong, start = separator_of(path, settings), list[str](), 0, 1
    with _streams.text(path, settings.encoding) as lines:
        reader = csv.reader(lines, delimiter=separator)
        try:
            for row in reader:
                if row and len(row) != len(names):
                    wrong += 1
                    if wrong <= SHOWN:  # there can be millions
                        ragged.append(_ragged(f"{path.name}, line {reader.line_num}", len(row), len(names)))
                start = reader.line_num + 1
        except csv.Error:
            what, fix = "a field is too long", "look for a double quote that is not closed before this line"
            return DataError(sentence(what, where=f"{path.name}, line {max(start, reader.line_num)}", fix=fix))
    return DataError(first(ragged, wrong) or sentence("not a readable CSV file", where=path.name))


def _ragged(where: str, got: int, wanted: int) -> str:
    fix = "correct the row; a value that contains the separator needs double quotes around it"
    return sentence("the row has too many or too few fields", where=where, got=f"{got} fields", wanted=wanted, fix=fix)


@dataclass(frozen=True, slots=True)
class _Lines:
    file: pacsv.CSVWriter
    schema: pa.Schema

    def write(self, batch: pa.RecordBatch) -> None:
        self.file.write_batch(conform(batch, self.schema))


@contextmanager
def _open_writer(path: Path, schema: pa.Schema, opening: Opening) -> Iterator[_Lines]:
    plain = pa.schema([(f.name, pa.string() if is_text(f.type) else f.type) for f in schema])
    with opening(path) as sink, pacsv.CSVWriter(sink, plain) as file:
        yield _Lines(file, plain)


_R_VALUES = (
    'read.csv(path, colClasses = "character", na.strings = "", check.names = FALSE, blank.lines.skip = FALSE,'
    ' encoding = "UTF-8")'
)
FORMAT = Format(
    "CSV",
    (".csv", ".tsv", ".tab", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".zip"),
    _read,
    _open_writer,
    Readers(python="pd.read_csv({})", r="read.csv({}, check.names = FALSE)", r_values={"": _R_VALUES}),
    media_type="text/csv",
    read_only=(".tsv", ".tab", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".zip"),
    settings=("separator", "encoding", "decimal", "thousands"),
    detect=_detection.detected,
)
