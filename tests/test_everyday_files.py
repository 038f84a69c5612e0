"""Files as people bring them: what is read keeps every law of reading, and what a file has is found out and said."""

import datetime
import gzip
import io
import re
import zipfile
from xml.sax.saxutils import escape

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


PACKAGE = "http://schemas.openxmlformats.org/package/2006/"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
SHEET = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{PACKAGE}content-types"><Default Extension="rels" ContentType="application/'
    'vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>'
    '<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.'
    'sheet.main+xml"/><Override PartName="/xl/styles.xml" ContentType="application/vnd.openxmlformats-officedocument.'
    'spreadsheetml.styles+xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{PACKAGE}relationships"><Relationship Id="r1" Type="{OFFICE}/officeDocument"'
    ' Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook {SHEET} xmlns:r="{OFFICE}"><sheets><sheet name="S" sheetId="1" r:id="r1"/></sheets>'
    "</workbook>",
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}relationships"><Relationship Id="r1" Type="{OFFICE}/'
    f'worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="r2" Type="{OFFICE}/styles" Target="styles.xml"/>'
    "</Relationships>",
    "xl/styles.xml": f"<styleSheet {SHEET}><fonts><font/></fonts><fills><fill><patternFill/></fill></fills><borders><border/></borders>"
    '<cellStyleXfs><xf/></cellStyleXfs><cellXfs><xf/><xf numFmtId="14" applyNumberFormat="1"/></cellXfs></styleSheet>',
}


def cell_of(place, value):
    """Return a cell as the standard says (ECMA-376, part 1, 18.3.1.4), written by hand."""
    if value is None:
        return f'<c r="{place}"/>'
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{value:d}</v></c>'
    if isinstance(value, datetime.date):
        return f'<c r="{place}" s="1"><v>{(value - datetime.date(1899, 12, 30)).days}</v></c>'
    if isinstance(value, str):
        spelt = re.sub("[\x00-\x08\r]|_(?=x[0-9A-F]{4}_)", lambda c: f"_x{ord(c[0]):04X}_", value)
        return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(spelt)}</t></is></c>'
    return f'<c r="{place}"><v>{value!r}</v></c>'


def workbook(path, table):
    """Make a workbook without any library."""
    rows = [table.column_names, *zip(*(c.to_pylist() for c in table.columns), strict=True)]
    if any(value == "" for row in rows for value in row):
        raise DataError("a workbook has no empty text")
    lines = [
        f'<row r="{n}">{"".join(cell_of(f"{chr(65 + k)}{n}", value) for k, value in enumerate(row))}</row>'
        for n, row in enumerate(rows, 1)
    ]
    sheet = f"<worksheet {SHEET}><sheetData>{''.join(lines)}</sheetData></worksheet>"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {**PARTS, "xl/worksheets/sheet1.xml": sheet}.items():
            archive.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')


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
