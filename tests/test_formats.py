"""One conformance suite for every file format, and what each does beyond it."""

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand import formats
from postrand.codebook import Codebook, Variable
from postrand.errors import DataError, UsageError
from postrand.formats import arrow, parquet
from postrand.testing import formats as testing

WRITTEN = [f for f in formats.formats() if f.written]
"""The formats of releases; those that are only read are in test_everyday_files."""
SUFFIXES = [f.suffixes[0] for f in WRITTEN]
LABELLED = (".sav", ".dta", ".xpt")  # statistical programs: no empty text, numbers are float64, names are identifiers
AWKWARD = ["a", "", None, " padded ", 'say "hi"', "a,b", "line\nbreak", "carriage\r\nreturn", "é", "007", "NA", "\\N"]
N = len(AWKWARD)
COLUMNS = {
    "text": pa.array(AWKWARD),
    "level": pa.DictionaryArray.from_arrays(
        pa.array([2, 0, None] * (N // 3), pa.int8()), ["low", "unused", "high"], ordered=True
    ),
    "whole": pa.array([None, -(2**63), 2**63 - 1, 0] * (N // 4)),
    "weight": pa.array([None, 0.1, 1e-300, 1e22, -0.5, 123456789.123456789] * (N // 6)),
    "flag": pa.array([True, False, None] * (N // 3)),
    "day": pa.array([datetime.date(2020, 2, 29), None] * (N // 2)),
}
TABLE = pa.table(COLUMNS).cast(
    pa.schema(
        [pa.field(n, c.type, metadata={"label": f"label of {n}"}) for n, c in COLUMNS.items()], metadata={"of": "file"}
    )
)
IDENTIFIERS = {".sav": ("a.b", "é"), ".dta": ("é",), ".xpt": ()}
PLAIN = TABLE.set_column(0, TABLE.schema.field(0), pa.array(["b" if v in ("", " padded ") else v for v in AWKWARD]))
PLAIN = PLAIN.set_column(2, TABLE.schema.field(2), pa.array([None, -(2**53), 2**53, 0] * (N // 4)))
PLAIN = PLAIN.set_column(
    3, TABLE.schema.field(3), pa.array([None, 0.1, 1e-70, 1e22, -0.5, 123456789.123456789] * (N // 6))
)
BOOK = Codebook(tuple(Variable(f.name, role="other", type=str(f.type), missing="keep") for f in TABLE.schema))


def table_of(suffix):
    return PLAIN if suffix in LABELLED else TABLE


def write(path, table, cut=5):
    with formats.open_writer(path, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=cut):
            writer.write(batch)
    return path


def read(path, codebook=None, **kwargs):
    return pa.Table.from_batches(list(formats.read(path, codebook).batches(**kwargs)))


def columns(table):
    return {name: table[name].to_pylist() for name in table.column_names}


@pytest.mark.parametrize("law", testing.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("entry", WRITTEN, ids=lambda entry: entry.name)
def test_every_format_keeps_every_law(entry, law, tmp_path):
    assert law(entry, tmp_path) is None  # it raises what is broken


def test_every_format_is_tried():
    """Each public module is a format that is found, but for the base; all but workbooks are written, too."""
    modules = {path.stem for path in Path(formats.__file__).parent.glob("[!_]*.py")} - {"base"}
    assert len(formats.formats()) == len(modules) == 7
    assert [f.name for f in formats.formats() if f not in WRITTEN] == ["Excel"]


@pytest.mark.parametrize("suffix", SUFFIXES)
class TestEveryFormat:
    @given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=9))
    def test_any_text_comes_back(self, suffix, tmp_path_factory, texts):
        table = pa.table({"x": pa.array(texts, pa.string()), "n": [str(i) for i in range(len(texts))]})
        path = tmp_path_factory.mktemp("any") / f"x{suffix}"
        try:
            write(path, table)
        except DataError:  # what a format cannot hold is refused, never changed
            assert suffix in LABELLED
            assert not path.exists()
        else:
            assert columns(read(path)) == columns(table)

    def test_many_records(self, suffix, tmp_path, monkeypatch):
        monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 1000)
        monkeypatch.setattr(arrow, "_ROWS", 1000)
        values = np.random.default_rng(5).integers(0, 700, 12_345).astype(str)
        table = pa.table({"x": values, "i": np.arange(values.size).astype(str)})
        path = write(tmp_path / f"x{suffix}", table, cut=999)
        assert write(tmp_path / f"y{suffix}", table, cut=4096).read_bytes() == path.read_bytes()
        assert columns(read(path, batch_size=777)) == columns(table)

    def test_no_file(self, suffix, tmp_path):
        with pytest.raises(UsageError, match="no such file"):
            formats.read(tmp_path / f"x{suffix}")

    def test_an_empty_file(self, suffix, tmp_path):
        path = tmp_path / f"x{suffix}"
        path.touch()
        with pytest.raises(DataError, match="the file is empty"):
            formats.read(path)

    def test_no_records(self, suffix, tmp_path):
        with pytest.raises(DataError, match="no records"):
            formats.read(write(tmp_path / f"x{suffix}", table_of(suffix)[:0]))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
class TestTypedFormats:
    def test_types_orders_and_labels_survive(self, suffix, tmp_path):
        path = write(tmp_path / f"x{suffix}", TABLE)
        assert formats.read(path).schema.equals(TABLE.schema, check_metadata=True)
        level = next(formats.read(path).batches(columns=["level"])).column(0)
        assert level.type == TABLE.schema.field("level").type
        assert level.dictionary.to_pylist() == ["low", "unused", "high"]

    @pytest.mark.parametrize(
        "kind", [pa.string(), pa.large_string(), pa.int16(), pa.float32(), pa.timestamp("us", "UTC")]
    )
    def test_every_kind_of_column(self, suffix, tmp_path, kind):
        table = pa.table(
            {"x": pa.array(["1", None, "2"]).cast(kind if kind != pa.timestamp("us", "UTC") else pa.int64())}
        )
        table = table.cast(pa.schema([pa.field("x", kind)]))
        path = write(tmp_path / f"x{suffix}", table)
        assert formats.read(path).schema == table.schema
        assert columns(read(path)) == columns(table)

    def test_the_codebook_has_the_type_of_the_file(self, suffix, tmp_path):
        path = write(tmp_path / f"x{suffix}", pa.table({"a": [1], "b": [1.5], "c": ["x"]}))
        entries = {"a": "string", "b": "double", "c": "large_string"}
        book = Codebook(tuple(Variable(n, role="other", type=t) for n, t in entries.items()))
        with pytest.raises(DataError, match=r"variable 'a'.*got int64; wanted string") as caught:
            formats.read(path, book)
        assert len(caught.value.problems) == 1

    def test_other_programs_read_it(self, suffix, tmp_path):
        path = write(tmp_path / f"x{suffix}", TABLE)
        other = pq.read_table(path) if suffix == ".parquet" else pa.ipc.open_file(path).read_all()
        assert columns(other) == columns(TABLE)
        assert other.schema.field("level").type == TABLE.schema.field("level").type

    def test_a_name_may_not_occur_twice(self, suffix, tmp_path):
        table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
        path = tmp_path / f"x{suffix}"
        if suffix == ".parquet":
            pq.write_table(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write(table)
        with pytest.raises(DataError, match="column 'a' is named twice"):
            formats.read(path)


def test_a_file_of_another_writer_keeps_its_integer_dictionary(tmp_path):
    column = pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int8()), pa.array([30, 10]))
    path = write(tmp_path / "x.arrow", pa.table({"x": column}))
    assert next(formats.read(path).batches()).column(0).equals(column)


def test_damaged_dictionary_indices_are_noticed(tmp_path):
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 64, pa.int64()), ["a", "b"])
    path = write(tmp_path / "x.arrow", pa.table({"x": column}))
    indices = column.indices.to_numpy().tobytes()
    whole = path.read_bytes()
    assert indices in whole
    path.write_bytes(whole.replace(indices, np.full(128, 10**12).tobytes()))
    with pytest.raises(DataError, match="not a readable Arrow IPC file"):
        list(formats.read(path).batches())


class TestCsv:
    def text(self, tmp_path, text):
        path = tmp_path / "x.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def test_every_column_is_text_as_written(self, tmp_path):
        path = self.text(tmp_path, '\ufeffid,x\n007,"NA"\n 1.50,\r\n,""\n1e3,"two\nlines"\n')
        assert columns(read(path)) == {"id": ["007", " 1.50", None, "1e3"], "x": ["NA", None, "", "two\nlines"]}
        assert formats.read(path).schema.types == [pa.string(), pa.string()]

    def test_the_codebook_converts_without_loss(self, tmp_path):
        path = self.text(tmp_path, "n,w,b,d\n12,1.50,true,2020-02-29\n,100,false,\n-7,1e3,,1999-01-01\n")
        types = {"n": "int64", "w": "double", "b": "bool", "d": "date32[day]"}
        book = Codebook(tuple(Variable(n, role="other", type=t, missing="keep") for n, t in types.items()))
        assert columns(read(path, book)) == {
            "n": [12, None, -7],
            "w": [1.5, 100.0, 1000.0],
            "b": [True, False, None],
            "d": [datetime.date(2020, 2, 29), None, datetime.date(1999, 1, 1)],
        }

    @pytest.mark.parametrize(
        ("type_", "text"),
        [
            ("int64", "007"),
            ("int64", "1.0"),
            ("int64", "1 2"),
            ("int64", "+1"),
            ("int64", "9223372036854775808"),
            ("int64", '""'),
            ("double", "0.12345678901234567890"),
            ("double", "9007199254740993"),
            ("double", "1e400"),
            ("double", "x"),
            ("bool", "1"),
            ("bool", "TRUE"),
            ("date32[day]", "2020-13-01"),
        ],
    )
    def test_lossy_conversions_are_refused(self, tmp_path, type_, text):
        path = self.text(tmp_path, f"x,y\n{text},5551\n")
        book = Codebook((Variable("x", role="other", type=type_), Variable("y", role="other")))
        with pytest.raises(DataError, match="column 'x' has text that is not exactly a value") as caught:
            list(formats.read(path, book).batches())
        assert text.strip('" ') not in str(caught.value) or text == '""' or len(text.strip()) < 4

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a,b\n1,secret\n3\n", "line 3: the row has too many or too few fields; got 1 fields; wanted 2"),
            (
                'a,b\n1,"two\nlines"\n\n3,4,secret\n',
                "line 5: the row has too many or too few fields; got 3 fields; wanted 2",
            ),
            (b"a,b\n1,2\n3,secret\xff\n", "line 3: text is not valid UTF-8"),
            (b"\xff,b\n1,2\n", "line 1: text is not valid UTF-8"),
            ('a,b\n1,"secret\n3,4\n', "a double quote is not closed"),
            ("a,secret,secret\n1,2,3\n", "fields 2 and 3 of the first line are the same: a column is named twice"),
            ("secret,17,F\nb,18,M\n", "field 2 of the first line is a number or empty, and not the name of a column"),
            ("secret,b,\n1,2,3\n", "field 3 of the first line is a number or empty, and not the name of a column"),
            ("secret,2001-05-03\n1,2\n", "add one before the first record"),
            ("a,b", "no records"),
            ("\n1,2\n", "the first line is empty"),
            ("a;b\n1;2\n", "separated by ';'"),
        ],
    )
    def test_bad_files(self, tmp_path, text, message):
        with pytest.raises(DataError, match=message) as caught:
            list(formats.read(self.text(tmp_path, text)).batches())
        assert "secret" not in str(caught.value)

    def test_a_first_record_is_never_taken_for_names(self, tmp_path):
        """Whatever the first line holds, nothing of it is in the message unless it names a column of the codebook."""
        book = Codebook(tuple(Variable(name, role="other") for name in ("sex", "job")))
        for line in ("secret one,secret two", "secret,", "secret,secret", "17,secret"):
            with pytest.raises(DataError, match="does not contain any column of the codebook") as caught:
                formats.read(self.text(tmp_path, f"{line}\nx,y\n"), book)
            assert "secret" not in str(caught.value)
            (tmp_path / "x.csv").unlink()
        years = Codebook((Variable("2001", role="other"), Variable("2002", role="other")))
        assert formats.read(self.text(tmp_path, "2001,2002\nx,y\n"), years).schema.names == ["2001", "2002"]

    def test_few_names_of_a_file_are_listed(self, tmp_path):
        path = self.text(tmp_path, ",".join(f"n{k:02}" for k in range(40)) + "\n" + "1," * 39 + "1\n")
        with pytest.raises(DataError, match="29 more of this kind") as caught:
            formats.read(path, Codebook((Variable("n00", role="other"),)))
        assert "n10" in str(caught.value)
        assert "n11" not in str(caught.value)
        with pytest.raises(DataError, match="and 30 more") as caught:
            next(formats.read(path).batches(columns=["zzz"]))
        assert "n10" not in str(caught.value)

    def test_a_ragged_row_is_found_beyond_the_first_block(self, tmp_path, monkeypatch):
        monkeypatch.setattr("postrand.formats.csv._BLOCK", 1 << 12)
        path = self.text(tmp_path, "a,b\n" + "1,2\n" * 5000 + "3\n")
        with pytest.raises(DataError, match="line 5002: the row has too many or too few fields"):
            list(formats.read(path).batches())

    def test_a_field_longer_than_a_block(self, tmp_path, monkeypatch):
        monkeypatch.setattr("postrand.formats.csv._BLOCK", 1 << 12)
        path = self.text(tmp_path, "a,b\n1," + "x" * 200_000 + "\n")
        with pytest.raises(DataError, match="line 2: a field is too long"):
            list(formats.read(path).batches())


def test_suffixes(tmp_path):
    assert formats.format_of("A/B.PARQUET").name == "Parquet"
    known = [s for f in formats.formats() for s in f.suffixes]
    assert len(set(known)) == len(known)
    (tmp_path / "data.xyz").write_text("a\n")
    with pytest.raises(UsageError, match=r"unknown file type '\.xyz'; wanted one of .*\.csv.*\.parquet.*save it as"):
        formats.read(tmp_path / "data.xyz")
    with pytest.raises(UsageError, match="no such file"):
        formats.read(tmp_path / "data.abc")
    with pytest.raises(UsageError, match="unknown file type ''"):
        formats.open_writer("data", TABLE.schema)


def test_the_population_file(shared_data):
    source = formats.read(shared_data / "ny_like_population_953076.parquet")
    assert source.num_rows == 953_076
    assert sum(batch.num_rows for batch in source.batches()) == 953_076
