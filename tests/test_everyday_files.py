"""Files as people bring them: what is read keeps every law of reading, and what a file has is found out and said."""

import csv
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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postrand import formats
from postrand.codebook import Codebook, Variable
from postrand.codebook.coding import is_text
from postrand.errors import DataError, SpecificationError, UsageError
from postrand.formats import ReadSettings
from postrand.support.warned import heard
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
    "xl/styles.xml": f"<styleSheet {SHEET}><fonts><font/></fonts><fills><fill><patternFill/></fill></fills><borders>"
    "<border/></borders>"
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


def put(folder, name, content, encoding="utf-8"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


FOUND = {
    "commas": ("a,b\n1,x\n", {"separator": ",", "encoding": "utf-8", "decimal": "."}),
    "semicolons": ("a;b\n1,5;x,y\n2,25;z\n", {"separator": ";", "encoding": "utf-8", "decimal": ","}),
    "a tab": ("a\tb\n1\tx\n", {"separator": "\t", "encoding": "utf-8", "decimal": "."}),
    "bars": ("a|b\n1|x\n", {"separator": "|", "encoding": "utf-8", "decimal": "."}),
    "one column": ("a\n1\n", {"separator": ",", "encoding": "utf-8", "decimal": "."}),
    "quoted line breaks": ('a;b\n1;"x\n;y"\n', {"separator": ";", "encoding": "utf-8", "decimal": "."}),
    "thousands": (
        "a;b\n1.234,5;x\n12.345.678,0;y\n",
        {"separator": ";", "encoding": "utf-8", "decimal": ",", "thousands": "."},
    ),
    "blanks": ("a;b\n1 234,5;x\n", {"separator": ";", "encoding": "utf-8", "decimal": ",", "thousands": " "}),
    "English": ('a,b\n"1,234.5",x\n', {"separator": ",", "encoding": "utf-8", "decimal": ".", "thousands": ","}),
    "blanks around numbers": ("a;b\n 12,5;x\n100,25 ;y\n", {"separator": ";", "encoding": "utf-8", "decimal": ","}),
    "blanks and no decimals": (
        "a;b\n1 234;x\n12;y\n",
        {"separator": ";", "encoding": "utf-8", "decimal": ",", "thousands": " "},
    ),
    "blanks and decimals between commas": (
        "a,b\n1 234.5,x\n",
        {"separator": ",", "encoding": "utf-8", "decimal": ".", "thousands": " "},
    ),
    "numbers beside a word for none": (
        "a;b\n" + "".join(f"{k},5;x\n" for k in range(40)) + "keine;y\n",
        {"separator": ";", "encoding": "utf-8", "decimal": ","},
    ),
    "shares are no thousands": ("a;b\n0.125;x\n1.250;y\n", {"separator": ";", "encoding": "utf-8", "decimal": "."}),
    "dates are no numbers": ("a;b\n31.12.2020;1,5\n", {"separator": ";", "encoding": "utf-8", "decimal": ","}),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_a_text_file_shows_is_found(name, tmp_path):
    text, wanted = FOUND[name]
    assert formats.detected(put(tmp_path, "x.csv", text)).to_dict() == wanted


def test_what_a_text_file_may_mean_otherwise_is_said(tmp_path):
    with pytest.warns(UserWarning, match="a are read with a decimal point.* give --decimal , --thousands . instead"):
        found = formats.detected(put(tmp_path, "x.csv", "a,b\n1.234,x\n"))
    assert found.to_dict() == {"separator": ",", "encoding": "utf-8", "decimal": "."}
    with pytest.warns(UserWarning, match="a: numbers with different signs before decimals"):
        formats.detected(put(tmp_path, "y.csv", "a;b\n1 234,5;x\n12.5;y\n"))


def test_blanks_around_a_number_are_no_part_of_it(tmp_path):
    path = put(tmp_path, "x.csv", "pay;code\n 1 234,5;01 \n12,25  ; 02\n")
    book = Codebook((Variable("pay", "other", type="double"), Variable("code", "other", type="string")))
    table = pa.Table.from_batches(formats.read(formats.File(path, formats.detected(path)), book).batches())
    assert table.to_pylist() == [{"pay": 1234.5, "code": "01 "}, {"pay": 12.25, "code": " 02"}]


ENCODINGS = {
    "utf-8": "Zoë;Łódź",
    "utf-8-sig": "a;ü",
    "utf-16": "Zoë;Łódź",
    "utf-16-le": "many words;of Latin text",
    "utf-16-be": "many words;of Latin text",
    "windows-1252": "Müller;Größe é",
    "mac-roman": "Müller Straße;été",
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_encodings_that_a_file_shows_are_found(encoding, tmp_path):
    text = f"name;town\n{ENCODINGS[encoding]}\n"
    found = formats.detected(put(tmp_path, "x.txt", text, encoding))
    assert found.encoding == {"utf-8-sig": "utf-8"}.get(encoding, encoding)
    table = pa.Table.from_batches(formats.read(formats.placed(tmp_path / "x.txt", found)).batches())
    assert [*table.to_pylist()[0].values()] == ENCODINGS[encoding].split(";")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name;x\nseñor;1\n".encode("cp1252"), "windows-1252 reads ñ; windows-1250 reads ń.*--encoding NAME"),
        ("name;x\nПривет;1\n".encode("cp1251"), "does not show which encoding it has; got windows-1251 reads П"),
        (b"a,b;c\n1,2;3\n", "by which sign its columns are separated; got ',' or ';'.*--separator"),
        (
            b"a;b\n1.234;x\n",
            "decimal '.' or decimal ',', '.' between thousands.*--decimal . or --decimal , --thousands .,",
        ),
        (b"a;b\n1.5;2,5\n", "columns 'a' and 'b' have different decimal signs"),
        (b"sep=;\na;b\n1;2\n", "the first line names a separator.*remove this line"),
    ],
)
def test_what_a_file_does_not_show_is_refused_with_the_candidates(content, message, tmp_path):
    with pytest.raises(DataError, match=message):
        formats.detected(put(tmp_path, "x.csv", content))


def test_what_is_given_of_numbers_settles_the_rest(tmp_path):
    path = put(tmp_path, "x.csv", "a;b\n1.234;x\n2.345;y\n")
    assert formats.detected(path, ReadSettings(decimal=",")).thousands == "."
    assert formats.detected(path, ReadSettings(decimal=".")).thousands == ""
    mixed = put(tmp_path, "y.csv", "a;b\n1.5;2,5\n")
    with pytest.warns(UserWarning, match="the numbers of a are written in another way, so these columns stay text"):
        assert formats.detected(mixed, ReadSettings(decimal=",")).to_dict()["decimal"] == ","
    english = put(tmp_path, "z.csv", "a;b\n1,234;x\n")
    assert formats.detected(english, ReadSettings(thousands=",")).decimal == "."


def test_what_is_given_is_not_looked_for(tmp_path):
    path = put(tmp_path, "x.csv", "a,b;c\n1,2;1.234\nseñor,3;4\n".encode("cp1252"))
    given = ReadSettings(separator=";", encoding="windows-1252", decimal=".")
    assert formats.detected(path, given) == given
    with pytest.raises(DataError, match="line 3: text is not valid utf-8"):
        formats.detected(path, ReadSettings(encoding="utf-8"))


def test_numbers_are_read_by_their_signs_and_nothing_else_is_a_number(tmp_path):
    settings = ReadSettings(separator=";", decimal=",", thousands=".")
    book = Codebook((Variable("pay", "other", type="double"), Variable("n", "other", type="int64")))
    path = put(tmp_path, "x.csv", "pay;n\n1.234,50;1.000\n-0,5;7\n")
    table = pa.Table.from_batches(formats.read(formats.File(path, settings), book).batches())
    assert table.to_pylist() == [{"pay": 1234.5, "n": 1000}, {"pay": -0.5, "n": 7}]
    for text in ("1.5", "12.34,5", "1.2345", "1,234,567", "1.234,5.6"):
        put(tmp_path, "y.csv", f"pay;n\n{text};1\n")
        with pytest.raises(
            DataError, match="column 'pay' has text that is not exactly a value of type double"
        ) as caught:
            list(formats.read(formats.File(tmp_path / "y.csv", settings), book).batches())
        assert text not in str(caught.value)


def test_all_ragged_rows_are_named_by_their_lines_and_never_shown(tmp_path):
    lines = "".join(f"{'secret' if row % 2 else 'secret;x'}\n" for row in range(30))
    path = formats.File(put(tmp_path, "x.csv", "a;b\n" + lines), ReadSettings(separator=";"))
    with pytest.raises(DataError, match="line 3: the row has too many or too few fields") as caught:
        list(formats.read(path).batches())
    assert len(caught.value.problems) == 11
    assert caught.value.problems[-1] == "... and 5 more of this kind."
    assert "secret" not in str(caught.value)


BAD = {
    "cut.csv.gz": (gzip.compress(b"a,b\n" + b"secret,2\n" * 99)[:-30], "not a readable compressed file"),
    "cut.zip": (zipped(b"a,b\n1,2\n")[:-40], "not a readable compressed file"),
    "two.zip": (zipped(b"a,b\n1,2\n", ("x.csv", "y.csv")), "exactly one file; got 2 files"),
    "none.zip": (zipped(b"", ()), "exactly one file; got 0 files"),
    "other.zip": (zipped(b"", ("x.sav",)), "the archive does not hold a text file"),
    "old.xlsx": (b"\xd0\xcf\x11\xe0" + b"x" * 99, "protected by a password, or of Excel 97"),
    "text.xlsx": (b"a,b\n1,2\n", "not a readable Excel file"),
    "macros.xlsx": (zipped(b"", ("xl/vbaProject.bin",)), "has macros.*save it as .xlsx, without them"),
}


@pytest.mark.parametrize("name", BAD)
def test_damaged_and_protected_files_are_refused_with_a_next_step(name, tmp_path):
    content, message = BAD[name]
    with pytest.raises(DataError, match=message) as caught:
        list(formats.read(put(tmp_path, name, content)).batches())
    assert "Next: " in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_wrong_encoding_is_told_by_its_line(tmp_path):
    path = put(tmp_path, "x.csv", b"a,b\n1,2\nsecret,\x81\n")
    with pytest.raises(DataError, match=r"line 3: text is not valid windows-1252.*name the encoding"):
        list(formats.read(formats.File(path, ReadSettings(encoding="windows-1252"))).batches())


def test_settings_are_checked_where_they_are_made_and_where_they_are_used(tmp_path):
    with pytest.raises(SpecificationError) as caught:
        ReadSettings(separator="x", encoding="utf-9", decimal=";", thousands="_")
    assert len(caught.value.problems) == 4
    with pytest.raises(SpecificationError, match="the same sign"):
        ReadSettings(thousands=".")
    path = put(tmp_path, "x.csv", "a,b\n1,2\n")
    with pytest.raises(UsageError, match=r"CSV files have no setting 'sheet'.*remove sheet"):
        formats.read(formats.File(path, ReadSettings(sheet="S")))


def book_with(tmp_path, fill):
    book = openpyxl.Workbook()
    fill(book)
    book.save(tmp_path / "x.xlsx")
    return tmp_path / "x.xlsx"


def test_columns_of_a_sheet_have_the_types_of_their_cells(tmp_path):
    day, moment = datetime.date(2020, 2, 29), datetime.datetime(2020, 2, 29, 12, 30)

    def fill(book):
        book.active.append(["id", "sex", "born", "seen", "code", "share", "flag", "at", "none"])
        book.active.append([1, "F", day, moment, "NA", 0.5, True, datetime.time(8, 15)])
        book.active.append([None] * 5)
        book.active.append([2, None, None, day, 3, 2, False, None])

    source = formats.read(book_with(tmp_path, fill))
    assert [str(of) for of in source.schema.types] == [
        "int64", "string", "date32[day]", "timestamp[us]", "string", "double", "bool", "time64[us]", "string",
    ]  # fmt: skip
    rows = pa.Table.from_batches(source.batches()).to_pylist()
    assert source.num_rows == len(rows) == 2
    assert rows[0]["born"] == day
    assert [row["code"] for row in rows] == ["NA", "3"]
    assert rows[1]["seen"] == datetime.datetime(2020, 2, 29)


def test_everything_to_mend_in_a_sheet_is_told_at_once_by_its_cells(tmp_path):
    def fill(book):
        book.active.append(["id", "sex", "pay"])
        book.active.append([1, "=1+1", 2, "beyond"])
        book.active.append([2, "#N/A", 3])
        book.active.merge_cells("A1:B1")
        book.active.merge_cells("C2:C3")

    with pytest.raises(DataError) as caught:
        formats.read(book_with(tmp_path, fill))
    text = str(caught.value)
    for words in ("first row are merged; got A1:B1", "cells are merged; got C2:C3", "formulas have no values; got B2"):
        assert words in text
    assert "errors such as #N/A; got B3" in text
    assert "beyond the last column with a name; got D2" in text
    assert "if row" not in text


def test_names_below_a_title_are_told_from_cells_without_a_name(tmp_path):
    def fill(book):
        for row in (["A survey"], [], ["sex", "age", "area", "job"], [1, 2, 3, 4]):
            book.active.append(row)

    with pytest.raises(DataError, match="if row 3 has the names of the columns, delete the rows above it"):
        formats.read(book_with(tmp_path, fill))


def test_the_sheet_is_chosen_by_its_name(tmp_path):
    def fill(book):
        book.active.title = "Notes"
        sheet = book.create_sheet("Persons")
        sheet.append(["id", "sex"])
        sheet.append([1, "F"])

    path = book_with(tmp_path, fill)
    with pytest.raises(DataError, match=r"several sheets; wanted 'Notes' or 'Persons'.*--sheet"):
        formats.detected(path)
    with pytest.raises(DataError, match=r"no sheet 'Person' \(did you mean 'Persons'\?\)"):
        formats.read(formats.File(path, ReadSettings(sheet="Person")))
    with pytest.raises(DataError, match="sheet 'Notes': the sheet is empty"):
        formats.read(formats.File(path, ReadSettings(sheet="Notes")))
    found = formats.detected(path, ReadSettings(sheet="Persons"))
    assert formats.read(formats.placed(path, found)).schema.names == ["id", "sex"]


@pytest.mark.parametrize(("name", "step"), [("x.xls", "save it as .xlsx"), ("x.xlsm", "without its macros")])
def test_files_that_are_not_read_have_a_next_step(name, step, tmp_path):
    with pytest.raises(UsageError, match=step):
        formats.read(put(tmp_path, name, b"x"))


def test_a_folder_that_is_no_source_names_the_files_that_are(tmp_path):
    for name in ("plan.toml", "b one.csv", "a.csv", "s.sav"):
        (tmp_path / name).write_text("")
    with pytest.raises(UsageError, match="the files are not of one format") as said:
        formats.detected(tmp_path)
    assert str(said.value).endswith(f"give what is to be read, such as '{tmp_path}/*.csv', {tmp_path}/s.sav.")
    (tmp_path / "inner").mkdir()
    with pytest.raises(UsageError, match=f"contains folders. Next: give what is to be read, such as '{tmp_path}/"):
        formats.detected(tmp_path)


def test_a_large_recoded_file_is_read_in_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("postrand.formats.csv._BLOCK", 1 << 12)
    monkeypatch.setattr("postrand.formats._streams.BLOCK", 1 << 10)
    rows = [f"{i};ü{i % 7}" for i in range(20_000)]
    path = formats.File(put(tmp_path, "x.csv", "i;x\n" + "\n".join(rows), "utf-16"), ReadSettings(";", "utf-16"))
    batches = list(formats.read(path).batches())
    assert max(batch.num_rows for batch in batches) < 5_000
    table = pa.Table.from_batches(batches)
    assert table["i"].to_pylist() == [str(i) for i in range(20_000)]
    assert np.unique(table["x"].to_pylist()).size == 7


AWKWARD = st.text(st.sampled_from('ab,;|\t"\n 1.5é\r'), max_size=6)


@given(st.lists(st.tuples(AWKWARD, AWKWARD, AWKWARD), min_size=1, max_size=8), st.sampled_from(",;|\t"))
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_is_found_is_right_or_refused(tmp_path, rows, separator):
    """A separator and a decimal sign are never guessed wrong: what is found reads the rows as they were written."""
    path = tmp_path / "x.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, delimiter=separator, quoting=csv.QUOTE_NONNUMERIC)
        lines.writerows([("a", "b;", "c,d"), *rows])
    refusal = ""
    try:
        with heard():
            found = formats.detected(path)
    except DataError as error:
        refusal = str(error)
    if refusal:
        assert "--" in refusal  # the option that decides
        return
    assert found.separator == separator
    table = pa.Table.from_batches(formats.read(formats.placed(path, found)).batches())
    assert [tuple(row.values()) for row in table.to_pylist()] == rows


def test_a_large_file_is_known_by_its_beginning(tmp_path, monkeypatch):
    monkeypatch.setattr("postrand.formats._detection.SAMPLE", 5_000)
    path = put(tmp_path, "x.csv", "a;b\n" + '1,5;"x\ny, ""z"" and more"\n' * 3_000)
    assert formats.detected(path).to_dict() == {"separator": ";", "encoding": "utf-8", "decimal": ","}


WESTERN = ("cp1252", "iso-8859-15", "cp850", "mac-roman", "cp437")
WORDS = {
    "Łódź żółć gęślą jaźń Kraków Poznań święto": ("cp1250", "iso-8859-2", "cp852"),
    "Plzeň žluťoučký kůň příliš Ústí dělník": ("cp1250", "iso-8859-2"),
    "Győr árvíztűrő tükörfúrógép Székesfehérvár": ("cp1250", "iso-8859-2"),
    "Şişli ığdır çocuk öğrenci İstanbul güneş": ("cp1254",),
    "Rīga Liepāja ģimene šķūnis ūdens": ("cp1257",),
    "Αθήνα Θεσσαλονίκη άνδρας γυναίκα": ("cp1253", "iso-8859-7"),
    "Москва женщина мужчина область": ("cp1251", "koi8-r", "cp866", "iso-8859-5"),
    "ירושלים אישה גבר": ("cp1255",),
    "القاهرة امرأة رجل": ("cp1256",),
    "東京 女性 男性 カタカナ": ("shift-jis", "euc-jp"),
    "北京 女性 男性 上海": ("gbk", "big5"),
    "서울 여자 남자": ("euc-kr",),
    "Müller Größe Äpfel Straße über": WESTERN,
    "été garçon déjà Noël cœur où": ("cp1252", "iso-8859-15", "mac-roman"),
    "señor niño acción España": WESTERN,
    "São João coração mãe não": ("cp1252", "iso-8859-15", "cp850", "mac-roman"),
    "Malmö Ångström sjö": WESTERN,
    "København Ærø blåbær": ("cp1252", "iso-8859-15", "cp850", "mac-roman"),
    "Þór Reykjavík Ísland": ("cp1252", "iso-8859-15", "cp850"),
}


@pytest.mark.parametrize("words", WORDS)
def test_the_encoding_of_a_language_is_found_right_or_refused(words, tmp_path):
    for encoding in WORDS[words]:
        content = ("a;b\n" + "".join(f"{word};1\n" for word in words.split())).encode(encoding)
        found = refusal = ""
        try:
            found = formats.detected(put(tmp_path, "x.csv", content)).encoding
        except DataError as error:
            refusal = str(error)
        assert "--encoding NAME" in refusal if refusal else content.decode(found) == content.decode(encoding)
