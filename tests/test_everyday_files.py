"""Files as people bring them: what is read keeps every law of reading, and what a file has is found out and said."""

import datetime
import gzip
import io
import re
import zipfile

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from postrand import formats
from postrand.codebook import Codebook, Variable
from postrand.codebook.coding import is_text
from postrand.errors import DataError, SpecificationError, UsageError
from postrand.formats import ReadSettings
from postrand.testing import formats as laws
from postrand.testing import reading as testing


def spelt(table, settings):
    """Return the bytes of a text file with these settings, by Arrow's writer."""
    sink = io.BytesIO()
    plain = pa.schema([(f.name, pa.string() if is_text(f.type) else f.type) for f in table.schema])
    table = pa.table([c.cast(f.type) for c, f in zip(table.columns, plain, strict=True)], schema=plain)
    if settings.decimal == ",":
        commas = [
            pa.array([None if v is None else repr(v).replace(".", ",") for v in table[f.name].to_pylist()])
            if pa.types.is_floating(f.type)
            else table[f.name]
            for f in plain
        ]
        table = pa.table(commas, names=plain.names)
    options = pacsv.WriteOptions(delimiter=settings.separator or ",")
    pacsv.write_csv(table, sink, options)
    return sink.getvalue().decode().encode(settings.encoding or "utf-8")


def maker(settings, pack=lambda data: data):
    def make(path, table):
        try:
            data = spelt(table, settings)
        except UnicodeEncodeError:
            raise DataError("the encoding has no such sign") from None
        path.write_bytes(pack(data))

    return make


def zipped(data, names=("x.csv",)):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/._x.csv", b"of the Finder")
        for name in names:
            archive.writestr(name, data)
    return sink.getvalue()


def workbook(path, table):
    """Make a workbook, as spreadsheet programs do: no empty text, and what XML cannot hold is spelt out."""
    book = openpyxl.Workbook()
    sheet = book.active
    rows = [table.column_names, *zip(*(c.to_pylist() for c in table.columns), strict=True)]
    for number, row in enumerate(rows, 1):
        for at, value in enumerate(row, 1):
            if value == "":
                raise DataError("a workbook has no empty text")
            if isinstance(value, str):
                value = re.sub("[\x00-\x08\r]|_(?=x[0-9A-F]{4}_)", lambda c: f"_x{ord(c[0]):04X}_", value)
            cell = sheet.cell(number, at, value)
            cell.data_type = "s" if isinstance(value, str) else cell.data_type  # whatever it begins with
    book.save(path)


CSV, EXCEL = formats.format_of("x.csv"), formats.format_of("x.xlsx")
COMMAS = ReadSettings(separator=";", decimal=",")
FILES = {
    "semicolons and decimal commas": testing.made_elsewhere(CSV, maker(COMMAS), COMMAS, ".csv"),
    "tabs": testing.made_elsewhere(CSV, maker(ReadSettings(separator="\t")), suffix=".tsv"),
    "bars": testing.made_elsewhere(CSV, maker(ReadSettings("|")), ReadSettings("|"), ".txt"),
    "UTF-16": testing.made_elsewhere(
        CSV, maker(ReadSettings(encoding="utf-16")), ReadSettings(encoding="utf-16"), ".csv"
    ),
    "UTF-8 with a mark": testing.made_elsewhere(CSV, maker(ReadSettings(encoding="utf-8-sig")), suffix=".csv"),
    "gzip": testing.made_elsewhere(CSV, maker(ReadSettings(), gzip.compress), suffix=".csv.gz"),
    "Excel": testing.made_elsewhere(EXCEL, workbook),
    "zip": testing.made_elsewhere(CSV, maker(ReadSettings(), zipped), suffix=".zip"),
}


UNSEEN = ("UTF-8 with a mark", laws.check_damaged)
"""The law cuts this text just behind a record, which no reader can see."""


@pytest.mark.parametrize("law", testing.READING, ids=lambda law: law.__name__)
@pytest.mark.parametrize("name", FILES)
def test_what_others_make_keeps_every_law_of_reading(name, law, tmp_path):
    if (name, law) != UNSEEN:
        assert law(FILES[name], tmp_path) is None
