"""Copies of files whose format is read but not written: the format that stands for it, and refusals before the work."""

import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyreadstat
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand import formats
from postrand.alternatives import frames
from postrand.cli import main
from postrand.codebook import Codebook, Variable
from postrand.errors import DataError
from postrand.formats.excel import write_tables
from postrand.ranks import RankBand
from postrand.recoding import Recode
from postrand.recoding.bands import Bands
from postrand.release.whole_columns import read_table
from postrand.workflow import whole_columns
from postrand.workflow.alternative_files import microaggregate_file, suppress_file
from postrand.workflow.copies import check_fits

COMMANDS = {
    "permute": ("--columns", "pay", "--band", "20"),
    "average": ("--columns", "pay", "--blocks", "5"),
    "anatomise": ("--keys", "sex,area", "--k", "4", "--drop", "pay"),
    "suppress": ("--keys", "sex,area", "--k", "5", "--drop", "pay"),
    "microaggregate": ("--columns", "pay", "--k", "4"),
}
N = 300


def survey():
    rng = np.random.default_rng(8)
    return pa.table(
        {
            "sex": rng.choice(["f", "m"], N),
            "area": rng.choice(list("abcd"), N),
            "kids": rng.integers(0, 4, N),
            "pay": (rng.permutation(N) + 1) ** 2 + 0.25,
        }
    )


def workbook(folder):
    place = folder / "survey.xlsx"
    write_tables(place, {"Read me": pa.table({"about": ["a survey"]}), "Survey": survey()})
    return place, ["--sheet", "Survey"], formats.ReadSettings(sheet="Survey")


def zipped(folder):
    pa.csv.write_csv(survey(), folder / "survey.csv")
    with zipfile.ZipFile(folder / "survey.zip", "w") as made:
        made.write(folder / "survey.csv", "survey.csv")
    return folder / "survey.zip", [], formats.ReadSettings()


def portable(folder):
    pyreadstat.write_por(survey().to_pandas(), folder / "survey.por")
    return folder / "survey.por", [], formats.ReadSettings()


SOURCES = {"xlsx": (workbook, ".csv"), "zip": (zipped, ".csv"), "por": (portable, ".sav")}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", SOURCES)
def test_a_format_that_is_only_read_becomes_the_one_that_stands_for_it(tmp_path, kind, command):
    make, suffix = SOURCES[kind]
    path, reading, settings = make(tmp_path)
    out, asked = tmp_path / "out", [*COMMANDS[command], "--as-is", "kids"]
    if kind == "por":  # whose names are in capitals
        asked = [text if text.startswith("--") else text.upper() for text in asked]
    done = CliRunner().invoke(main, [command, str(path), *asked, *reading, "--out", str(out)])
    assert done.exit_code == 0, done.output
    names = ["keys", "others"] if command == "anatomise" else ["data"]
    assert {file.name for file in out.iterdir() if file.suffix == suffix} == {f"{name}{suffix}" for name in names}
    held = [read_table(out / f"{name}{suffix}") for name in names]
    assert {table.num_rows for table in held} == {N}
    true = survey().column("kids").to_pylist()
    kids = next(table[name] for table in held for name in table.column_names if name.lower() == "kids")
    assert sorted(map(float, kids.to_pylist())) == sorted(true)
    if command in ("suppress", "microaggregate"):
        assert pr.recheck(out).records == N
    else:
        assert pr.verify(out, file=formats.placed(path, settings)).ok


def test_several_files_that_are_only_read_become_one(tmp_path):
    (tmp_path / "parts").mkdir()
    for number in range(2):
        write_tables(tmp_path / "parts" / f"{number}.xlsx", {"Survey": survey().slice(150 * number, 150)})
    whole_columns.permute_columns(tmp_path / "parts", tmp_path / "out", ["pay"], RankBand(20), as_is=["kids"])
    made = read_table(tmp_path / "out" / "data.csv")
    assert sorted(map(float, made["pay"].to_pylist())) == sorted(survey()["pay"].to_pylist())


def never(*_, **__):
    raise AssertionError("work was begun")


@pytest.fixture
def idle(monkeypatch):
    """Let all that computes fail."""
    monkeypatch.setattr(frames, "fewest", never)
    monkeypatch.setattr(frames, "optimal_groups", never)
    for name in ("permutation", "average", "anatomise", "value_level"):
        monkeypatch.setattr(whole_columns, name, never)


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_that_is_there_is_refused_before_anything_is_computed(tmp_path, command):
    path, reading, _ = workbook(tmp_path)
    asked = [command, str(path), *COMMANDS[command], *reading, "--as-is", "kids", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, asked)
    assert "the output directory exists" in done.output
    assert done.exit_code == 7, done.output


@pytest.mark.usefixtures("idle")
def test_what_the_files_cannot_hold_is_refused_before_anything_is_computed(tmp_path):
    long = survey().append_column("note", pa.array(["x" * 40_000] * N))
    with formats.open_writer(tmp_path / "survey.dta", survey().schema) as writer:
        writer.write(survey().to_batches()[0])
    with pytest.raises(DataError, match=r"column 'note': .* cannot hold it: a text is too long"):
        check_fits(long, ".sav")
    check_fits(long, ".csv")
    named = Variable("how many", "key", ("0-1", "2+"))
    own = (
        Variable("sex", "key", ("f", "m")),
        Variable("area", "key", tuple("abcd")),
        Variable("pay", "other", type="float64"),
    )
    recoded = Codebook((*own, named), recodes=(Recode("how many", Bands((0, 2)), "kids"),))
    for call in (
        lambda: suppress_file(tmp_path / "survey.dta", tmp_path / "o", [], 5, as_is=["pay"], codebook=recoded),
        lambda: microaggregate_file(tmp_path / "survey.dta", tmp_path / "o", ["pay"], 5, codebook=recoded),
    ):
        with pytest.raises(DataError, match=r"column 'how many': .* its name has a sign that is not allowed"):
            call()
    assert not (tmp_path / "o").exists()
