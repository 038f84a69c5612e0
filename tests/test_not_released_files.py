"""What is not released, in files of each format: read back by the package, and by programs that know nothing of it."""

import csv
import functools
import json
import subprocess
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyreadstat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postrand import formats
from postrand.codebook import Codebook, Variable, not_released
from postrand.codebook.not_released import NOT_RELEASED, released_field, released_variable, shown_codebook
from postrand.engines import LocalEngine
from postrand.engines.base import FolderSink
from postrand.engines.frame import perturb
from postrand.errors import DataError, SpecificationError
from postrand.formats._partly import Rule
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import randomised_response
from postrand.support.randomness import ReleaseKey
from postrand.testing.engines import Memory

KEY = ReleaseKey.from_seed(8)
BOOK = Codebook(
    (
        Variable("sex", role="key", categories=("F", "M"), labels=("female", "male"), label="Sex of the person"),
        Variable("age", role="key", categories=(10, -9, 30), type="int16", missing="category", label="Age"),
        Variable("area", role="key", categories=("NR", "é north", "south"), missing="keep", missing_codes=("NR",)),
        Variable("works", role="key", categories=(False, True), type="bool"),
        Variable("pay", role="key", categories=(0.5, 1.5), type="double", missing="keep", labels=("low", "high")),
        Variable("town", role="other", categories=(1, 2), type="int64"),
    )
)
PARTLY = ("sex", "age", "area", "works", "pay")
RECORDS = 300
SUFFIXES = tuple(dict.fromkeys(suffix for entry in formats.formats() for suffix in entry.written))


def mechanism() -> Mechanism:
    laws = [
        Block(("sex", "age", "works"), randomised_response(16, 2.0)),
        Block(("area",), randomised_response(3, 2.0)),
        Block(("pay",), randomised_response(2, 2.0)),
    ]
    return Mechanism([Block(("town",), randomised_response(2, 1.0))], BOOK, split=Split.of([0.5, 0.3, 0.2], laws))


def records() -> pa.Table:
    rng = np.random.default_rng(3)
    columns = {}
    for v in BOOK.variables:
        values = [*v.categories, *([None] if v.missing != "error" else [])]
        columns[v.name] = pa.array([values[k] for k in rng.integers(0, len(values), RECORDS)], v.type)
    return pa.table(columns)


@pytest.fixture(scope="module")
def released() -> pa.Table:
    """The same release as a table in memory: the oracle of all files."""
    return perturb(records(), mechanism(), KEY)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = tmp_path_factory.mktemp("files")
    for suffix in SUFFIXES:
        sink = functools.partial(formats.open_writer, made / f"data{suffix}")
        LocalEngine(batch_rows=70).perturb(Memory(records()), mechanism(), KEY, sink, shuffle=False)
    return made


def texts(released: pa.Table, name: str) -> list[Any]:
    return list(released[name].to_pylist())


def whole(folder: Any, suffix: str) -> pa.Table:
    source = formats.read(folder / f"data{suffix}", shown_codebook(BOOK, PARTLY))
    return pa.Table.from_batches(list(source.batches(batch_size=41)))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_is_read_back_as_the_release_in_memory(suffix: str, folder: Any, released: pa.Table) -> None:
    found = whole(folder, suffix)
    for v in BOOK.variables:
        assert found[v.name].to_pylist() == texts(released, v.name)
        if v.name in PARTLY:
            codes = not_released.encode(found[v.name], v)
            assert codes.tolist() == not_released.encode(released[v.name], v).tolist()
            assert {NOT_RELEASED, *([None] if v.missing != "error" else [])} <= set(found[v.name].to_pylist())


def values_of(suffix: str) -> dict[str, dict[str, Any]]:
    """Return what stands for each category, by the rules of the documentation, worked out by hand."""
    number = {"10": 10, "-9": -9, "30": 30}
    truth, pay = {"False": 0, "True": 1}, {"0.5": 0.5, "1.5": 1.5}
    if suffix == ".dta":
        return {
            "sex": {"F": 1, "M": 2, NOT_RELEASED: "n"},
            "age": {**number, NOT_RELEASED: "n"},
            "area": {"NR": 1, "é north": 2, "south": 3, NOT_RELEASED: "n"},
            "works": {**truth, NOT_RELEASED: "n"},
            "pay": {**pay, NOT_RELEASED: "n"},
        }
    area = {"NR": "NR", "é north": "é north", "south": "south"}
    return {
        "sex": {"F": "F", "M": "M", NOT_RELEASED: "NR"},
        "age": {**number, NOT_RELEASED: -99},
        "area": {**area, NOT_RELEASED: "NR1"},
        "works": {**truth, NOT_RELEASED: -9},
        "pay": {**pay, NOT_RELEASED: -9},
    }


@pytest.mark.parametrize(("suffix", "read"), [(".dta", pyreadstat.read_dta), (".sav", pyreadstat.read_sav)])
def test_stata_and_spss_declare_it_as_their_own(suffix: str, read: Any, folder: Any, released: pa.Table) -> None:
    path = str(folder / f"data{suffix}")
    seen, meta = read(path, user_missing=True)
    plain, _ = read(path)
    for name in PARTLY:
        held, wanted = values_of(suffix)[name], texts(released, name)
        empty = "" if suffix == ".sav" and name in ("sex", "area") else None
        assert [None if pd.isna(v) else v for v in seen[name]] == [empty if t is None else held[t] for t in wanted]
        blank = held[NOT_RELEASED]
        assert meta.variable_value_labels[name][blank] == NOT_RELEASED
        if suffix == ".dta":
            assert meta.missing_user_values[name] == ["n"]
        else:
            assert {"lo": blank, "hi": blank} in meta.missing_ranges[name]
        declared = {NOT_RELEASED, *(["NR"] if suffix == ".sav" and name == "area" else [])}
        for value, text in zip(plain[name], wanted, strict=True):  # as users see it who ask for nothing
            assert pd.isna(value) == (text in declared or (text is None and empty is None))
    assert meta.column_names_to_labels["sex"] == "Sex of the person"
    labels = meta.variable_value_labels["sex"]
    assert labels == ({1: "F", 2: "M", "n": NOT_RELEASED} if suffix == ".dta" else {
        "F": "female", "M": "male", "NR": NOT_RELEASED})  # fmt: skip
    if suffix == ".sav":
        assert meta.variable_value_labels["pay"] == {0.5: "low", 1.5: "high", -9: NOT_RELEASED}
        assert {"lo": "NR", "hi": "NR"} in meta.missing_ranges["area"]
        assert "(not released) is not a missing value" in meta.notes[0]
    else:
        assert ".n is not a missing value" in meta.file_label


def test_pandas_reads_stata_files_with_their_labels(folder: Any, released: pa.Table) -> None:
    tagged = pd.read_stata(folder / "data.dta", convert_missing=True, convert_categoricals=False)
    labelled = pd.read_stata(folder / "data.dta")
    for name in PARTLY:
        wanted = texts(released, name)
        held: dict[Any, Any] = {**values_of(".dta")[name], NOT_RELEASED: ".n", None: "."}
        found = [v if isinstance(v, int | float) else str(v) for v in tagged[name]]
        assert found == [held[t] for t in wanted]
    for name in ("sex", "area", "works"):
        seen = [None if pd.isna(v) else v for v in labelled[name]]
        assert seen == [None if t == NOT_RELEASED else t for t in texts(released, name)]


R = """
library(haven)
path <- commandArgs(TRUE)[1]
shown <- function(x) ifelse(is.na(x), "NA", as.character(unclass(x)))
tags <- function(x) ifelse(is.na(na_tag(x)), shown(x), paste0(".", na_tag(x)))
out <- function(d, names) for (n in names) cat(n, tags(d[[n]]), "\\n", sep = "|")
out(read_dta(file.path(path, "data.dta")), c("sex", "age", "works"))
out(read_xpt(file.path(path, "data.xpt")), c("age", "works"))
d <- read_sav(file.path(path, "data.sav"), user_na = TRUE)
for (n in c("sex", "age", "works")) cat(n, shown(d[[n]]), "\\n", sep = "|")
cat(attr(d$age, "na_values"), attr(d$sex, "na_values"), is.na(d$age[1:3]), "\\n", sep = "|")
cat(attr(read_xpt(file.path(path, "data.xpt"))$age, "label"), "\\n", sep = "|")
"""


def test_haven_sees_letters_and_declared_codes(folder: Any, released: pa.Table, tmp_path: Any) -> None:
    """R, by its own build of the library: also that of SAS files, whose letters pyreadstat does not read."""
    script = tmp_path / "read.R"
    script.write_text(R, encoding="utf-8")
    told = subprocess.run(["Rscript", str(script), str(folder)], capture_output=True, text=True, check=True).stdout
    lines = [line.rstrip("|").split("|") for line in told.strip().split("\n")]
    rows = iter(lines)
    for names, held, end in (
        (("sex", "age", "works"), values_of(".dta"), ".n"),
        (("age", "works"), values_of(".dta"), ".n"),
        (("sex", "age", "works"), values_of(".sav"), None),
    ):
        for name in names:
            row, said = next(rows), {**held[name], **({NOT_RELEASED: end} if end else {})}
            wanted = [said.get(t, "NA") if t is not None else "NA" for t in texts(released, name)]
            code = said[NOT_RELEASED]
            if end is None:
                wanted = ["NA" if v == code else v for v in wanted]  # is.na() is true of declared values
            assert row == [name, *map(str, wanted)]
    assert next(rows)[:2] == ["-99", "NR"]
    assert next(rows) == ["Age (.N: not released)"]


def test_sas_files_have_the_letter_byte_by_byte(folder: Any, released: pa.Table) -> None:
    """By the layout that SAS documents, read here without the package: records begin after the last header."""
    data = (folder / "data.xpt").read_bytes()
    mark = b"HEADER RECORD*******OBSV8   HEADER RECORD!!!!!!!"
    start = data.index(mark) + 80
    widths = [14, 8, 14, 8, 8, 8]
    assert int(data[start - 80 + len(mark) :][:15]) == RECORDS
    for row in range(RECORDS):
        record = data[start + row * sum(widths) :][: sum(widths)]
        for place, name in ((1, "age"), (3, "works"), (4, "pay")):
            number = record[sum(widths[:place]) :][:8]
            text = texts(released, name)[row]
            letter = {NOT_RELEASED: b"N", None: b"."}.get(text)
            assert letter is None or number == letter + bytes(7)
        sex = record[:14].decode().rstrip()
        assert sex == texts(released, "sex")[row]
    plain, meta = pyreadstat.read_xport(str(folder / "data.xpt"))
    held = values_of(".dta")["age"]
    wanted = [None if t in (NOT_RELEASED, None) else held[t] for t in texts(released, "age")]
    assert [None if pd.isna(v) else v for v in plain["age"]] == wanted
    assert meta.column_names_to_labels == {
        "sex": "Sex of the person", "age": "Age (.N: not released)", "area": None,
        "works": "(.N: not released)", "pay": "(.N: not released)", "town": None,
    }  # fmt: skip


def test_a_damaged_sas_file_is_refused_or_read(folder: Any, tmp_path: Any) -> None:
    """One byte of the head is another one: no error but ours comes out."""
    data, rng = (folder / "data.xpt").read_bytes(), np.random.default_rng(6)
    head, refused = data.index(b"OBSV8") + 60, 0
    for at in rng.integers(240, head, 200):
        path = tmp_path / "x.xpt"
        path.write_bytes(data[:at] + bytes([rng.integers(0, 256)]) + data[at + 1 :])
        try:
            list(formats.read(path, shown_codebook(BOOK, PARTLY)).batches())
        except DataError:
            refused += 1
    assert refused > 10


def test_text_formats_hold_the_category_and_null_is_missing(folder: Any, released: pa.Table) -> None:
    with open(folder / "data.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    frames = {
        "parquet": pl.read_parquet(folder / "data.parquet"),
        "arrow": pl.read_ipc(folder / "data.arrow"),
    }
    for name in PARTLY:
        wanted = texts(released, name)
        assert [row[name] or None for row in rows] == wanted
        for frame in frames.values():
            assert frame[name].cast(pl.String).to_list() == wanted
        column = pd.read_parquet(folder / "data.parquet")[name]
        assert list(column.cat.categories) == [*map(str, BOOK[name].categories), NOT_RELEASED]
        assert [None if pd.isna(v) else v for v in column] == wanted


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_columns_say_what_the_category_means(suffix: str, folder: Any) -> None:
    schema = formats.read(folder / f"data{suffix}").schema
    for name in PARTLY:
        said = schema.field(name).metadata
        assert said[b"not_released"].startswith(b"(not released): the record does not show this variable.")
    assert b"not_released" not in (schema.field("town").metadata or {})
    assert json.loads(schema.field("sex").metadata[b"value_labels"]) == {"F": "female", "M": "male"}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_of_a_folder_and_of_one_process_are_the_same(
    suffix: str, folder: Any, released: pa.Table, tmp_path: Any
) -> None:
    sink = FolderSink(tmp_path / "data", suffix, (100, 150, 50))
    LocalEngine(batch_rows=64).perturb(Memory(records()), mechanism(), KEY, sink, shuffle=False)
    source = formats.read(tmp_path / "data", shown_codebook(BOOK, PARTLY))
    found = pa.Table.from_batches(list(source.batches()))
    assert len(list((tmp_path / "data").iterdir())) == 3
    for name in BOOK.names:
        assert found[name].to_pylist() == texts(released, name)


def test_a_value_that_is_no_category_is_refused(folder: Any) -> None:
    fewer = Variable("age", "key", (10, -9), type="int16", missing="keep")
    other = Codebook(tuple(fewer if v.name == "age" else v for v in BOOK.variables))
    for suffix in (".dta", ".sav", ".xpt"):
        with pytest.raises(DataError, match="not in the codebook"):
            list(formats.read(folder / f"data{suffix}", shown_codebook(other, PARTLY)).batches())


@pytest.mark.parametrize(("categories", "labels"), [(("F", NOT_RELEASED), ()), (("F", "M"), ("x", NOT_RELEASED))])
def test_a_codebook_that_has_the_category_is_refused(categories: Any, labels: Any) -> None:
    book = Codebook((Variable("sex", "key", categories, labels), Variable("area", "key", ("a", "b"))))
    split = Split.of([0.5, 0.5], [Block((n,), randomised_response(2, 1.0)) for n in ("sex", "area")])
    with pytest.raises(SpecificationError, match=r"'\(not released\)', which says .* rename it"):
        Mechanism([], book, split=split)
    beside = Codebook((Variable("area", "key", ("a", "b")), Variable("town", "other", ("a", "b")), book["sex"]))
    split = Split.of([0.5, 0.5], [Block((n,), randomised_response(2, 1.0)) for n in ("area", "town")])
    with pytest.raises(SpecificationError, match=r"variable 'sex': .* rename it"):
        Mechanism([], beside, split=split)


TEXTS = st.one_of(
    st.integers(-200, 200).map(str),
    st.floats(allow_nan=False).map(repr),
    st.sampled_from(["NR", "NR1", ".n", ".N", ".a", ".", "01", "+1", "1e5", "True", "False", "nan", "-0.0", " 1"]),
    st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12),
)
RULES = [Rule(), Rule(".n", letters=True, numbered=65_535), Rule(".N"), Rule(".n", letters=True, numbered=3)]


@given(st.lists(TEXTS, min_size=1, max_size=40, unique=True), st.sampled_from(RULES))
def test_what_stands_for_it_is_never_a_category(own: list[str], rule: Rule) -> None:
    held = rule.held((*own, NOT_RELEASED))
    assert len({*held.values}) == len(own) + 1
    if held.is_number and not held.is_numbered:
        for text, value in zip(own, held.values[:-1], strict=True):
            same = {"True": 1, "False": 0}.get(text, text)
            assert value == same or float(same) == value
            assert text in (str(value), "True", "False")
    elif not held.is_number:
        assert held.values[:-1] == tuple(own)
        if not rule.letter:
            assert len(str(held.mark).encode()) <= 8


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(own=st.lists(TEXTS, min_size=1, max_size=6, unique=True), data=st.data())
def test_any_codebook_comes_back_or_is_refused(own: list[str], data: st.DataObject, tmp_path: Any) -> None:
    variable = Variable("v", "key", tuple(own), missing=data.draw(st.sampled_from(["category", "keep", "error"])))
    lowest = -1 if variable.missing == "keep" else 0
    codes = np.array(data.draw(st.lists(st.integers(lowest, variable.size), min_size=1, max_size=9)), dtype=np.int8)
    shown = released_variable(variable)
    table = pa.table([not_released.decode(codes, variable)], schema=pa.schema([released_field(shown)]))
    for suffix in (".dta", ".sav", ".xpt"):
        path = tmp_path / f"x{suffix}"
        path.unlink(missing_ok=True)
        try:
            with formats.open_writer(path, table.schema) as writer:
                writer.write(table.to_batches()[0])
        except DataError as error:
            assert "cannot hold" in str(error)  # noqa: PT017 -- any codebook may be refused, none may come back as another
            continue
        back = pa.Table.from_batches(list(formats.read(path, Codebook((shown,))).batches()))
        assert not_released.encode(back["v"], variable).tolist() == codes.tolist()


def is_declared(value: Any, declared: list[Any]) -> bool:
    return any(d["lo"] <= value <= d["hi"] if isinstance(d, dict) else value == d for d in declared)


def best_places(categories: list[int], missing: list[int]) -> bool:
    """Whether some free number and all codes have places in SPSS, by trying each: three, or a range and one more."""
    for blank in set(range(min(categories) - 2, max(categories) + 3)) - set(categories):
        codes = sorted([*missing, blank])
        if len(codes) <= 3:
            return True
        for alone in [None, *codes]:
            rest = [code for code in codes if code != alone]
            if [v for v in sorted([*categories, blank]) if rest[0] <= v <= rest[-1] and v != alone] == rest and (
                alone is None or not rest[0] <= alone <= rest[-1]
            ):
                return True
    return False


@given(st.lists(st.integers(-12, 12), min_size=2, max_size=9, unique=True), st.data())
def test_codes_for_no_answer_are_declared_beside_it_wherever_spss_has_room(own: list[int], data: st.DataObject) -> None:
    missing = data.draw(st.lists(st.sampled_from(own), unique=True, max_size=6))
    held = Rule().held((*map(str, own), NOT_RELEASED), [*map(str, missing)])
    declared = held.declared([*map(str, missing)])
    ranges = [d for d in declared if isinstance(d, dict)]
    assert len(declared) + len(ranges) <= 3
    assert len(ranges) <= 1
    assert is_declared(held.mark, declared)
    assert held.mark not in own
    found = {value for value in own if is_declared(value, declared)}
    assert found == (set(missing) if best_places(own, missing) else set())


def test_three_codes_for_no_answer_stay_missing_in_spss(tmp_path: Any) -> None:
    """As the General Social Survey has them: 0 not asked, 8 does not know, 9 no answer."""
    shown = released_variable(Variable("v", "key", (0, 1, 2, 8, 9), type="int64", missing_codes=(0, 8, 9)))
    texts = ["0", "1", "2", "8", "9", NOT_RELEASED]
    with formats.open_writer(tmp_path / "x.sav", pa.schema([released_field(shown)])) as writer:
        writer.write(pa.record_batch({"v": texts}))
    plain, _ = pyreadstat.read_sav(str(tmp_path / "x.sav"))
    assert [None if pd.isna(v) else v for v in plain["v"]] == [None, 1, 2, None, None, None]
    seen, meta = pyreadstat.read_sav(str(tmp_path / "x.sav"), user_missing=True)
    assert seen["v"].tolist() == [0, 1, 2, 8, 9, 10]
    assert meta.missing_ranges["v"] == [{"lo": 8, "hi": 10}, {"lo": 0, "hi": 0}]
    assert meta.variable_value_labels["v"] == {10: NOT_RELEASED}
    assert formats.values_of("data.sav", shown) == (0, 1, 2, 8, 9, 10)
    back = pa.Table.from_batches(list(formats.read(tmp_path / "x.sav", Codebook((shown,))).batches()))
    assert back["v"].to_pylist() == texts


@pytest.mark.parametrize("size", [127, 128, 40_000, 65_535, 65_536, 99_999])
def test_long_lists_of_categories(size: int, tmp_path: Any) -> None:
    variable = Variable("v", "key", tuple(f"category {k}" for k in range(size)), missing="category")
    codes = np.array([0, size - 1, size, size + 1, 3], dtype=np.int32)
    shown = released_variable(variable)
    table = pa.table([not_released.decode(codes, variable)], schema=pa.schema([released_field(shown)]))
    for suffix in (".dta", ".sav", ".xpt", ".parquet"):
        with formats.open_writer(tmp_path / f"x{suffix}", table.schema) as writer:
            writer.write(table.to_batches()[0])
        back = pa.Table.from_batches(list(formats.read(tmp_path / f"x{suffix}", Codebook((shown,))).batches()))
        assert not_released.encode(back["v"], variable).tolist() == codes.tolist()
    seen, meta = pyreadstat.read_dta(str(tmp_path / "x.dta"), user_missing=True)
    assert seen["v"][3] == ("n" if size <= 65_535 else NOT_RELEASED)
    assert len(meta.variable_value_labels.get("v", {})) == (size + 1 if size <= 65_535 else 0)


def test_long_labels_are_cut_where_a_program_holds_no_longer_ones(tmp_path: Any) -> None:
    shown = released_variable(Variable("v", "key", (1, 2), type="int64", label="é" * 300))
    table = pa.table([pa.array(["1", NOT_RELEASED])], schema=pa.schema([pa.field("v", pa.string())]))
    schema, labels = pa.schema([released_field(shown)]), {}
    for suffix, read in ((".dta", pyreadstat.read_dta), (".xpt", pyreadstat.read_xport)):
        with formats.open_writer(tmp_path / f"x{suffix}", schema) as writer:
            writer.write(table.to_batches()[0])
        labels[suffix] = read(str(tmp_path / f"x{suffix}"))[1].column_names_to_labels["v"]
        source = formats.read(tmp_path / f"x{suffix}", Codebook((shown,)))
        assert source.schema.field("v").metadata[b"label"].decode() == "é" * 300
    assert labels == {".dta": "é" * 80, ".xpt": "é" * 237 + " (.N: not released)"}


def test_numbers_that_a_program_changes_are_refused_by_name(tmp_path: Any) -> None:
    """SAS has other floating-point numbers, of which the library misses this one."""
    shown = released_variable(Variable("v", "key", (0.0, 9.046256971665328e74), type="double"))
    schema = pa.schema([released_field(shown), ("w", pa.string())])
    with (
        pytest.raises(DataError, match="SAS transport file cannot hold the values of 'v' exactly"),
        formats.open_writer(tmp_path / "x.xpt", schema) as writer,
    ):
        writer.write(pa.record_batch({"v": shown.categories, "w": ["a", "b", "c"]}))
    assert not (tmp_path / "x.xpt").exists()
