"""Read one sheet of an Excel workbook as records: its first row names the columns, each further row is a record.

Cells have types of their own: numbers, text, truth values, dates. A column of one kind keeps it; a column that mixes
numbers and text is text. A formula counts as the value that the workbook holds for it; hidden rows are read, too. The
rows are read one after the other, but the library holds all different texts of the workbook in memory.
"""

from __future__ import annotations

import datetime
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from postrand.codebook import Codebook
from postrand.codebook.coding import arrow_type, is_text
from postrand.errors import DataError, PostrandError, nearest, raise_all, sentence
from postrand.formats._settings import USUAL, ReadSettings
from postrand.formats._streams import DAMAGED
from postrand.formats.base import BATCH_ROWS, bounded, check_header, select
from postrand.support.extras import require
from postrand.support.refusals import refused
from postrand.support.showing import unshown

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_ROWS = 1 << 14
"""Records that are converted at a time."""
_KEPT = 1 << 24
"""Cells that are kept in memory between passes at most: 128 MB of numbers."""
_UNPACKED, _RATIO = 1 << 26, 100
"""A part of a workbook of more bytes than this and so many times its packed size is made to fill the memory."""
_LAST_ROW = 1 << 20
"""Of a sheet, as spreadsheet programs have it."""
_OLE = b"\xd0\xcf\x11\xe0"
_MIDNIGHT = datetime.time()
_SPELT = re.compile("_x([0-9A-Fa-f]{4})_")
"""How a workbook writes what XML cannot hold: a carriage return is _x000D_."""
_CELL = re.compile(r"([A-Z]+)([0-9]+)")


@dataclass(frozen=True, slots=True)
class SheetSource:
    """The records of a sheet; see :class:`postrand.formats.base.Source`.

    The library takes a second for 100,000 cells, so that a sheet of up to ``_KEPT`` cells is read once, and kept in
    Arrow's columns for further passes.
    """

    path: Path
    schema: pa.Schema
    num_rows: int
    sheet: str
    _kept: list[pa.RecordBatch] = field(default_factory=list, compare=False, repr=False)

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the records; see :class:`postrand.formats.base.Source`."""
        names = select(self.schema, columns, self.path)
        if not self._kept and self.num_rows * len(self.schema) <= _KEPT:
            self._kept.extend([*self._read(self.schema.names)])
        for batch in self._kept or self._read(names):
            yield from bounded(batch.select(names), batch_size)

    def _read(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        places = [self.schema.get_field_index(name) for name in names]
        with _opened(self.path) as book:
            rows = _records(_sized(book[self.sheet]), len(self.schema))
            while held := [row for _, row in zip(range(_ROWS), rows, strict=False)]:
                arrays = [_array([row[at] for row in held], self.schema.field(at), self.path) for at in places]
                yield pa.RecordBatch.from_arrays(arrays, names=list(names))


def read(path: Path, codebook: Codebook | None, settings: ReadSettings = USUAL) -> SheetSource:
    """Open a sheet; one pass finds the types, and everything that a person has to mend, all at once.

    Raises
    ------
    UsageError
        If openpyxl is not installed.
    DataError
        If the workbook is damaged, protected or has macros, the sheet is not there or not named among several, its
        first row does not name the columns, or cells hold errors or formulas without values.
    """
    with _opened(path) as book:
        sheet = _chosen(book, path, settings.sheet)
        header = _header(sheet, path)
        scans, rows = [_Scan() for _ in header], 0
        raise_all(DataError, _faults(path, sheet, len(header)))
        check_header(path, header, codebook)
        for row in _records(sheet, len(header)):
            rows += 1
            for scan, value in zip(scans, row, strict=True):
                scan.add(value)
    known = {v.name: arrow_type(v.type) for v in codebook.variables} if codebook else {}
    fields = [pa.field(name, scan.type(known.get(name))) for name, scan in zip(header, scans, strict=True)]
    if not rows:
        raise DataError(sentence("the file has no records", where=f"{path.name}, sheet {sheet.title!r}"))
    return SheetSource(path, pa.schema(fields), rows, sheet.title)


def detected(path: Path, given: ReadSettings) -> ReadSettings:
    """Return the settings with the name of the sheet; raises DataError with all names if there are several."""
    with _opened(path) as book:
        return ReadSettings(sheet=_chosen(book, path, given.sheet).title)


def sheets_of(path: Path) -> list[str]:
    """Return the names of the sheets of a workbook; raises as :func:`read`."""
    with _opened(path) as book:
        return [sheet.title for sheet in book.worksheets]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a workbook; what cannot be read is a DataError, and shows no cell."""
    require("openpyxl", "an Excel file needs")
    from openpyxl import load_workbook  # heavy

    _check_kind(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of styles and validations that the library leaves out
        try:
            book = load_workbook(path, read_only=True, data_only=True)
            try:
                yield book
            finally:
                book.close()
        except PostrandError:
            raise
        except Exception as error:  # whatever the library's own code meets in a workbook that is not whole
            if refused(error):
                raise
            raise _damaged(path) from None


def _damaged(path: Path) -> DataError:
    fix = "the file is truncated or damaged; copy it again"
    return DataError(sentence("not a readable Excel file", where=path.name, fix=fix))


def _check_kind(path: Path) -> None:
    with path.open("rb") as file:
        if file.read(4) == _OLE:
            what = "the workbook is protected by a password, or of Excel 97"
            raise DataError(sentence(what, where=path.name, fix="save it as .xlsx without a password"))
    try:
        with zipfile.ZipFile(path) as archive:
            names, parts = archive.namelist(), archive.infolist()
    except DAMAGED:
        raise _damaged(path) from None
    if any(part.file_size > max(_UNPACKED, _RATIO * part.compress_size) for part in parts):
        what = f"a part of the workbook unpacks to more than {_RATIO} times its size"
        raise DataError(sentence(what, where=path.name, fix="save it again in a spreadsheet program, or as .csv"))
    if any(name.endswith("vbaProject.bin") for name in names):
        raise DataError(sentence("the workbook has macros", where=path.name, fix="save it as .xlsx, without them"))


def _chosen(book: Any, path: Path, name: str) -> Any:
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    if name and name not in sheets:
        what = f"there is no sheet {name!r}{nearest(name, sheets)}"
        raise DataError(sentence(what, where=path.name, wanted=" or ".join(map(repr, sheets))))
    if not name and len(sheets) != 1:
        what, fix = "the workbook has several sheets", "name one: --sheet NAME, or sheet in [source] of the plan"
        raise DataError(sentence(what, where=path.name, wanted=" or ".join(map(repr, sheets)), fix=fix))
    return _sized(sheets[name] if name else next(iter(sheets.values())))


def _sized(sheet: Any) -> Any:
    """Return the sheet without the size that the file states: a smaller one would hide records."""
    sheet.reset_dimensions()
    return sheet


def _header(sheet: Any, path: Path) -> list[str]:
    """Return the names in the first row, up to the last."""
    rows = _rows(sheet)
    cells = next(rows, ())
    header = ["" if value is None else str(value) for value in cells]
    while header and not header[-1]:
        header.pop()
    if not header:
        empty = not any(any(value is not None for value in row) for row in rows)
        what = "the sheet is empty" if empty else "the first row of the sheet is empty"
        fix = "name another sheet: --sheet NAME" if empty else "put the names of the columns into row 1"
        raise DataError(sentence(what, where=f"{path.name}, sheet {sheet.title!r}", fix=fix))
    return header


def _rows(sheet: Any, min_row: int = 1, max_col: int | None = None) -> Iterator[tuple[Any, ...]]:
    """Yield the rows from one on; the library makes all rows up to the last one that a sheet names, however far."""
    for number, row in enumerate(sheet.iter_rows(min_row=min_row, max_col=max_col, values_only=True), min_row):
        if number > _LAST_ROW:
            what = f"the sheet has a row beyond the last that a sheet can have, {_LAST_ROW:,}"
            raise DataError(sentence(what, where=f"sheet {sheet.title!r}", fix="delete it, or save the file as .csv"))
        yield row


def _records(sheet: Any, width: int) -> Iterator[tuple[Any, ...]]:
    """Yield the cells of each row below the first; a row without a value is none, but where there is one column."""
    for row in _rows(sheet, min_row=2, max_col=width):
        cells = tuple(map(_cell, row))
        if width == 1 or any(value is not None for value in cells):
            yield cells + (None,) * (width - len(cells))


def _cell(value: Any) -> Any:
    """Return the value of a cell: empty text is none, and signs that a workbook spells out are those signs."""
    if not isinstance(value, str):
        return value
    return _SPELT.sub(lambda found: chr(int(found[1], 16)), value) or None


def _faults(path: Path, sheet: Any, width: int) -> list[str]:
    """Return what a person has to mend, by the names of cells: read from the sheet's own text, one element at a time.

    The library shows neither which cells are merged nor if a formula without a value has none.
    """
    from xml.etree.ElementTree import iterparse  # slow to import, and all formats are imported together

    merged, formulas, errors, beyond = list[str](), list[str](), list[str](), list[str]()
    with (
        zipfile.ZipFile(path) as archive,
        archive.open(sheet._worksheet_path) as file,
    ):  # the library's only name for it
        rows = None
        for event, element in iterparse(file, ("start", "end")):
            tag = element.tag.rpartition("}")[2]
            if event == "start":
                rows = element if tag == "sheetData" else rows
            elif tag == "mergeCell":
                merged.append(element.get("ref", ""))
            elif tag == "c":
                _sort_cell(element, width, formulas, errors, beyond)
            elif tag == "row" and rows is not None:
                rows.clear()  # else the whole sheet would stay in memory
    where = f"{path.name}, sheet {sheet.title!r}"
    return list(_sentences(where, merged, formulas, errors, beyond))


def _sort_cell(element: Element, width: int, formulas: list[str], errors: list[str], beyond: list[str]) -> None:
    found = {child.tag.rpartition("}")[2]: child.text for child in element}
    place, kind = element.get("r", ""), element.get("t")
    if "f" in found and not found.get("v") and kind != "str":
        formulas.append(place)
    elif kind == "e":
        errors.append(place)
    elif (found.get("v") or "is" in found) and _column(place) > width:
        beyond.append(place)


def _sentences(
    where: str, merged: Sequence[str], formulas: Sequence[str], errors: Sequence[str], beyond: Sequence[str]
) -> Iterator[str]:
    if heads := [ref for ref in merged if re.match(r"[A-Z]+1:", ref)]:
        fix = "unmerge them, and give each column a name of its own in row 1"
        yield sentence("cells of the first row are merged", where=where, got=_listed(heads), fix=fix)
    if others := [ref for ref in merged if ref not in heads]:
        fix = "unmerge them, and fill in the value of each record"
        yield sentence("cells are merged", where=where, got=_listed(others), fix=fix)
    if formulas:
        fix = "open the workbook in a spreadsheet program, which computes them, and save it"
        yield sentence("formulas have no values", where=where, got=_listed(formulas), fix=fix)
    if errors:
        fix = "correct the formulas, or empty the cells"
        yield sentence("cells hold errors such as #N/A", where=where, got=_listed(errors), fix=fix)
    if beyond:
        fix = f"{_names_below(beyond)}name their columns in row 1, or empty them"
        yield sentence("cells lie beyond the last column with a name", where=where, got=_listed(beyond), fix=fix)


def _names_below(beyond: Sequence[str]) -> str:
    """Return what to do where the first row with cells beyond the names has several: a title stands above the names."""
    row = re.sub(r"[A-Z]+", "", beyond[0])
    several = sum(re.sub(r"[A-Z]+", "", place) == row for place in beyond[:3]) == 3
    if not several:
        return ""
    return (
        f"if row {row} has the names of the columns, delete the rows above it in the workbook and save it (rows cannot "
        "be skipped); else "
    )


def _listed(cells: Sequence[str]) -> str:
    rest = unshown(len(cells), 10)
    return ", ".join(cells[: len(cells) - rest]) + (f", and {rest:,} other cells" if rest else "")


def _column(place: str) -> int:
    """Return the number of a cell's column.

    >>> _column("A1"), _column("AB7")
    (1, 28)
    """
    found, number = _CELL.fullmatch(place), 0
    for letter in found[1] if found else "":
        number = 26 * number + ord(letter) - 64
    return number


@dataclass(slots=True)
class _Scan:
    """Collects what kinds of values a column holds."""

    kinds: set[str] = field(default_factory=set)
    whole: bool = True

    def add(self, value: Any) -> None:
        if value is None:
            return
        kind = _kind(value)
        self.kinds.add(kind)
        self.whole = self.whole and (kind != "number" or _is_whole(value))

    def type(self, declared: pa.DataType | None) -> pa.DataType:
        found = self._found()
        is_number = pa.types.is_integer(found) or pa.types.is_floating(found)
        if declared is None or not self.kinds:
            return found if declared is None else declared
        if is_text(found):
            return declared if is_text(declared) else found
        number = pa.types.is_integer(declared) or pa.types.is_floating(declared)
        dates = pa.types.is_date(found) and pa.types.is_timestamp(declared)
        return declared if (is_number and number) or dates else found

    def _found(self) -> pa.DataType:
        if self.kinds == {"number"}:
            return pa.int64() if self.whole else pa.float64()
        if self.kinds and self.kinds <= {"date", "moment"}:
            return pa.date32() if self.kinds == {"date"} else pa.timestamp("us")
        return {"flag": pa.bool_(), "time": pa.time64("us")}.get("".join(self.kinds), pa.string())


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, datetime.datetime):
        return "date" if value.time() == _MIDNIGHT else "moment"
    return {datetime.date: "date", datetime.time: "time"}.get(type(value), "text")


def _is_whole(value: float) -> bool:
    return float(value).is_integer() and abs(value) <= 1 << 53


def _array(values: Iterable[Any], field: pa.Field, path: Path) -> pa.Array:
    try:
        if is_text(field.type):
            return pa.array([None if v is None else _text(v) for v in values], pa.string())
        if pa.types.is_integer(field.type):
            return pa.array([None if v is None else int(v) if _is_whole(v) else v for v in values], field.type)
        return pa.array(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        what = f"column {field.name!r} has values that are not exactly of type {field.type}"
        raise DataError(sentence(what, where=path.name, fix="correct 'type' in the codebook")) from None


def _text(value: Any) -> str:
    """Return a value of a column that mixes kinds as text: a whole number without decimals, a date as ISO 8601."""
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == _MIDNIGHT else value.isoformat(" ")
    if isinstance(value, float) and _is_whole(value):
        return str(int(value))
    return str(value)
