"""Excel workbooks: one sheet of records in, tables of results out.

A release is never a workbook: microdata go out in the formats that keep them exactly.
"""

from __future__ import annotations

import datetime
import io
import math
import re
import zipfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa

from postrand.errors import UsageError, sentence
from postrand.formats import _sheet
from postrand.formats.base import Format, Opening, Readers, writing
from postrand.support.extras import require

MAX_ROWS = 1_048_575
_EPOCH = (1980, 1, 1, 0, 0, 0)


def sheets_of(path: Path) -> list[str]:
    """Return the names of the sheets of a workbook.

    Raises
    ------
    UsageError
        If openpyxl is not installed.
    DataError
        If it is not a workbook that can be read.
    """
    return _sheet.sheets_of(path)


def write_tables(path: str | Path, tables: Mapping[str, pa.Table]) -> None:
    """Write each table on a sheet of its own, with its column names; equal tables give equal bytes.

    Text is never taken for a formula; numbers that are not finite become empty cells.

    Raises
    ------
    UsageError
        If openpyxl is not installed, or a table has more rows than a sheet.
    ReleaseError
        If the file exists, or cannot be written.
    """
    require("openpyxl", "an Excel file needs")
    from openpyxl import Workbook

    book = Workbook()
    book.remove(book.active)
    book.properties.created = book.properties.modified = datetime.datetime(*_EPOCH)
    for title, table in tables.items():
        if table.num_rows > MAX_ROWS:
            raise UsageError(
                sentence("the table has more rows than an Excel sheet can have", got=table.num_rows, wanted=MAX_ROWS)
            )
        sheet = book.create_sheet(re.sub(r"[\[\]:*?/\\]", " ", title)[:31] or "Table")
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        for number, row in enumerate([table.column_names, *rows], 1):
            for at, value in enumerate(row, 1):
                _fill(sheet.cell(number, at), value)
        sheet.freeze_panes = "A2"
    made = io.BytesIO()
    book.save(made)
    with writing(Path(path)) as sink:
        sink.write(_dated(made.getvalue()))


def _fill(cell: Any, value: Any) -> None:
    if isinstance(value, str):
        cell.value = "".join(c if c >= " " or c in "\t\n" else "�" for c in value)[:32_767]
        cell.data_type = "s"  # whatever it begins with, also "="
    elif not (isinstance(value, float) and not math.isfinite(value)):
        cell.value = value


def _dated(data: bytes) -> bytes:
    """Return the workbook with one date on all its parts, since a zip file says when each was written."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "docProps/core.xml":  # the library puts the time of saving there, whatever it is told
                content = re.sub(rb"(<dcterms:modified[^>]*>)[^<]*", rb"\g<1>1980-01-01T00:00:00Z", content)
            new.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _not_written(path: Path, schema: pa.Schema, opening: Opening) -> AbstractContextManager[Any]:
    fix = "write .csv or .parquet"
    raise UsageError(sentence("records are not written to workbooks", where=path.name, fix=fix))


FORMAT = Format(
    "Excel",
    (".xlsx",),
    _sheet.read,
    _not_written,
    Readers(
        python="pd.read_excel({})",
        r="as.data.frame(readxl::read_excel({}))",
        r_values={"readxl": 'as.data.frame(readxl::read_excel(path, col_types = "text"))'},
        python_library="openpyxl",
    ),
    media_type="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    library="openpyxl",
    read_only=(".xlsx",),
    limits="empty text",
    settings=("sheet",),
    detect=_sheet.detected,
)
