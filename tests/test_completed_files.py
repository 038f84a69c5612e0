"""The stacked file of completed copies: what it holds in every format, and that other files are refused."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyreadstat
import pytest

from postrand import formats
from postrand.codebook import Codebook, Variable
from postrand.codebook.rules import Rule
from postrand.completion import complete
from postrand.completion.files import Stacked, check_stacked, copies_problems, write_stacked
from postrand.data.frames import to_arrow
from postrand.errors import DataError, ReleaseError, SpecificationError
from postrand.estimate.pooling_files import COPY, RECORD
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import randomised_response
from tests.release_case import LAW, make, released_table, without_missing, writer_of

COPIES = 2
DRAWN = ["sex", "region", "work", "hours", "town"]
SUFFIXES = [".parquet", ".arrow", ".csv", ".sav", ".dta", ".xpt"]


def copies_of(table: pa.Table) -> list[pa.Table]:
    """Return copies that differ: the records of each variable, moved on by the number of the copy."""
    moved = [np.roll(np.arange(table.num_rows), number) for number in range(1, COPIES + 1)]
    columns = [
        {n: table[n].take(pa.array(rows)) if n in DRAWN else table[n] for n in table.column_names} for rows in moved
    ]
    return [pa.table(each) for each in columns]


def case(folder: Path, suffix: str) -> tuple[Path, Stacked, Mechanism, pa.Table]:
    """Release the case in a format and write its copies in the same; CSV, SPSS, Stata and SAS hold no missing text."""
    holds = suffix in (".parquet", ".arrow")
    table, law = (released_table(), LAW) if holds else without_missing()
    made = make(folder / "release", data_name=f"data{suffix}", mechanism=law, data_writer=writer_of(table))
    frame = made.frame()
    form = Stacked.of(formats.read(made.data_path, made.codebook).schema, made.mechanism, suffix)
    path = folder / f"completed{suffix}"
    write_stacked(path, form, frame, copies_of(frame))
    return path, form, made.mechanism, frame


def read_plainly(path: Path) -> pd.DataFrame:
    """Read a file as analysts do."""
    readers: dict[str, Callable[[Path], Any]] = {
        ".parquet": pd.read_parquet,
        ".arrow": pd.read_feather,
        ".csv": pd.read_csv,
        ".sav": lambda p: pyreadstat.read_sav(str(p))[0],
        ".dta": lambda p: pd.read_stata(p).assign(sex=lambda f: f["sex"].astype(object).str[:1]),
        ".xpt": lambda p: pyreadstat.read_xport(str(p))[0],
    }
    frame: pd.DataFrame = readers[path.suffix](path)
    return frame


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_any_software_reads_the_copies(suffix: str, tmp_path: Path) -> None:
    path, form, law, frame = case(tmp_path, suffix)
    read, n = read_plainly(path), frame.num_rows
    assert list(read.columns) == [COPY, RECORD, *frame.column_names]
    assert read[COPY].tolist() == [float(k) for k in range(COPIES + 1) for _ in range(n)]
    assert read[RECORD].tolist() == list(range(1, n + 1)) * (COPIES + 1)
    none = read.loc[read[COPY] == 0, DRAWN]
    assert (none.isna() | (none == "")).all(axis=None)
    for number, wanted in enumerate(copies_of(frame), 1):
        part = read[read[COPY] == number]
        assert part["weight"].tolist() == frame["weight"].to_pylist()
        for name in DRAWN:
            texts = [None if pd.isna(v) or v == "" else str(int(v)) if name == "work" else str(v) for v in part[name]]
            assert texts == [None if v is None else str(v) for v in wanted[name].to_pylist()]
    assert check_stacked(path, form, law, frame, COPIES) == []


def test_stata_gets_numbers_with_labels(tmp_path: Path) -> None:
    _, meta = pyreadstat.read_dta(str(case(tmp_path, ".dta")[0]))
    assert meta.variable_value_labels["sex"] == {1: "Female", 2: "Male"}
    assert meta.variable_value_labels["hours"] == {1: "none", 2: "part", 3: "full"}
    assert meta.column_names_to_labels["sex"] == "Sex"
    assert meta.readstat_variable_types["hours"] != "string"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_copies_have_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    path, form, _, frame = case(tmp_path, suffix)
    again = tmp_path / f"again{suffix}"
    pieces = pa.Table.from_batches(frame.to_batches(max_chunksize=7))
    write_stacked(again, form, pieces, iter(copies_of(pieces)))
    assert again.read_bytes() == path.read_bytes()


def forged(path: Path, form: Stacked, change: Any) -> Path:
    """Write another file of the form's columns, whose values are changed."""
    table = pa.Table.from_batches(list(formats.read(path, form.codebook).batches()))
    columns = {name: table[name].to_pylist() for name in table.column_names}
    change(columns)
    other = path.with_name("forged.parquet")
    types = [(f.name, f.type) for f in form.schema]
    arrays = [pa.array(columns[name], of.value_type if pa.types.is_dictionary(of) else of) for name, of in types]
    with formats.open_writer(other, form.schema) as writer:
        writer.write(pa.RecordBatch.from_arrays(arrays, names=list(columns)))
    return other


def _set(name: str, place: int, value: Any) -> Any:
    return lambda columns: columns[name].__setitem__(place, value)


def _cut(columns: dict[str, list[Any]]) -> None:
    for values in columns.values():
        del values[-1]


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (_set(COPY, 900, 1), "does not number the copies"),
        (_set(RECORD, 0, 2), "does not number the copies"),
        (_set("weight", 500, 99.0), "variable 'weight': the file has other values than the release"),
        (_set("sex", 3, "F"), "variable 'sex': copy 0 has values of a perturbed variable"),
        (_set("hours", 450, None), "variable 'hours': a copy has a missing value"),
        (_cut, "the numbers of records differ; got 1199; wanted 1200"),
    ],
)
def test_a_changed_file_is_refused(change: Any, wanted: str, tmp_path: Path) -> None:
    path, form, law, frame = case(tmp_path, ".parquet")
    with pytest.raises(DataError, match=wanted):
        check_stacked(forged(path, form, change), form, law, frame, COPIES)


def test_a_value_of_no_category_is_refused_without_being_shown(tmp_path: Path) -> None:
    path, form, law, frame = case(tmp_path, ".csv")
    lines = path.read_text().splitlines()
    lines[700] = lines[700].replace('"F"', '"Zed"').replace('"M"', '"Zed"')
    path.write_text("\n".join([*lines, ""]))
    with pytest.raises(DataError, match="variable 'sex'") as caught:
        check_stacked(path, form, law, frame, COPIES)
    assert "Zed" not in str(caught.value)


def test_other_bytes_with_the_same_records_are_found(tmp_path: Path) -> None:
    path, form, law, frame = case(tmp_path, ".csv")
    path.write_text(path.read_text().replace('"weight"', "weight"))
    (differing,) = check_stacked(path, form, law, frame, COPIES)
    assert "byte for byte" in str(differing)


def test_a_combination_that_a_rule_forbids_is_refused(tmp_path: Path) -> None:
    book = Codebook(
        (
            Variable("age", role="key", categories=("child", "old")),
            Variable("job", role="key", categories=("no", "yes")),
        ),
        (Rule({"age": ["child"], "job": ["yes"]}),),
    )
    cells = ((0, 0), (1, 0), (1, 1))
    law = Mechanism([Block(("age", "job"), randomised_response(3, 1.0), cells=cells)], book)
    released = pa.table({"age": ["old", "child"], "job": ["yes", "no"]})
    form = Stacked.of(released.schema, law, ".csv")
    write_stacked(
        tmp_path / "completed.csv", form, released, [pa.table({"age": ["child", "old"], "job": ["yes", "no"]})]
    )
    with pytest.raises(DataError, match="a combination that a rule of the codebook forbids"):
        check_stacked(tmp_path / "completed.csv", form, law, released, 1)


def test_a_split_has_its_true_types_back(tmp_path: Path) -> None:
    book = Codebook(
        (
            Variable("age", role="key", type="int64", categories=(1, 2, 3)),
            Variable("sex", role="key", categories=("F", "M")),
        )
    )
    blocks = [Block(("age",), randomised_response(3, 1.0)), Block(("sex",), randomised_response(2, 1.0))]
    law = Mechanism([], book, split=Split.of([0.5, 0.5], blocks))
    shown = pa.table({"age": ["1", "(not released)"], "sex": ["(not released)", "M"]})
    form = Stacked.of(shown.schema, law, ".parquet")
    copy = pa.table({"age": [1, 3], "sex": ["F", "M"]})
    write_stacked(tmp_path / "completed.parquet", form, shown, [copy])
    read = pd.read_parquet(tmp_path / "completed.parquet")
    assert read["age"].tolist()[2:] == [1, 3]
    assert read["age"].isna().tolist() == [True, True, False, False]
    assert form.schema.field("age").type == pa.int64()


def test_names_of_the_first_columns_are_refused() -> None:
    book = Codebook((Variable("imputation_", role="key", categories=("F", "M")),))
    law = Mechanism({"imputation_": randomised_response(2, 1.0)}, book)
    with pytest.raises(SpecificationError, match="'imputation_' has the name of a column that numbers copies"):
        Stacked.of(pa.schema([("imputation_", pa.string())]), law, ".csv")


@pytest.mark.parametrize("wrong", [0, 1, 10_000, -3, 2.0, True, "20", None])
def test_numbers_of_copies(wrong: Any) -> None:
    assert len(copies_problems(wrong, "here")) == 1
    assert copies_problems(2, "here") == copies_problems(1000, "here") == []


def test_one_copy_is_in_memory_at_a_time(tmp_path: Path) -> None:
    """Each copy is asked for when the one before it was written, and none is kept."""
    path, form, _, frame = case(tmp_path, ".parquet")
    alive: list[Any] = []

    def one_by_one() -> Any:
        import weakref

        for copy in copies_of(frame):
            fresh = pa.table({name: pa.concat_arrays(copy[name].chunks) for name in copy.column_names})
            alive.append(weakref.ref(fresh))
            yield fresh
            del fresh

    write_stacked(path.with_name("again.parquet"), form, frame, one_by_one())
    assert len(alive) == COPIES
    assert all(reference() is None for reference in alive)


def test_the_schema_of_completed_json_names_every_field() -> None:
    schema = json.loads((Path(formats.__file__).parents[1] / "release/schemas/completed-1.json").read_text())
    later = {"survey", "stored_as"}  # which earlier files do not have
    assert set(schema["required"]) == set(schema["properties"]) - later
    assert schema["additionalProperties"] is False
    assert dataclasses.is_dataclass(Stacked)


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_copies_of_a_frame_are_written_without_a_release(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    book = Codebook(
        (
            Variable("id", role="record_key", type="int64"),
            Variable("sex", role="key", categories=("F", "M"), label="Sex"),
            Variable("note", role="other"),
        )
    )
    table = pa.table({"sex": rng.choice(["F", "M"], 60), "note": [f"n{k}" for k in range(60)], "more": [1] * 60})
    frames: dict[str, Any] = {"arrow": table, "pandas": table.to_pandas(), "polars": pl.from_arrow(table)}
    law = Mechanism({"sex": randomised_response(2, 3.0)}, book)
    done = complete(frames[kind], law, copies=2, seed=1, classes=2, sweeps=20, chains=1)
    read = pd.read_csv(done.write(tmp_path / "completed.csv"))
    assert list(read.columns) == [COPY, RECORD, "sex", "note"]
    assert read["note"].tolist() == [f"n{k}" for k in range(60)] * 3
    copies = [to_arrow(frame)["sex"].to_pylist() for frame in done.frames]
    assert read["sex"].tolist()[60:] == [*copies[0], *copies[1]]
    with pytest.raises(ReleaseError, match="exists"):
        done.write(tmp_path / "completed.csv")
