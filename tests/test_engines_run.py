"""From a plan to a release in several files: every engine, verification, forgeries, resumption."""

import json
import os
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand import release
from postrand.cli import main
from postrand.engines import LocalEngine, engine
from postrand.errors import ReleaseError, UsageError
from postrand.release import canonical_json
from tests.test_engines import BOOK, ROWS, Memory, survey

KEY = bytes(range(32))
SPARK = pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.xdist_group("spark")])
ROLES = ["--key", "sex,age,area", "--sensitive", "ill", "--other", "weight", "--drop", "note", "--record-key", "id"]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """Three files, and the plan that the command line writes for them."""
    (tmp_path / "survey").mkdir()
    for n, (start, stop) in enumerate(pairwise((0, 100, 400, ROWS))):
        pq.write_table(survey().slice(start, stop - start), tmp_path / "survey" / f"{n}.parquet")
    done = CliRunner().invoke(main, ["init", str(tmp_path / "survey"), "--out", str(tmp_path), *ROLES])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "plan.toml").read_text()
    budget = next(line for line in text.splitlines() if line.startswith("epsilon"))
    (tmp_path / "plan.toml").write_text(text.replace(budget, "epsilon = 9.0", 1))
    return tmp_path / "plan.toml"


def protect(plan: Path, name: str, *options: str) -> Path:
    (plan.parent / "key").write_text(KEY.hex())
    (plan.parent / "key").chmod(0o600)
    out = plan.parent / name
    given = ["protect", "--plan", str(plan), "--out", str(out), "--key-file", str(plan.parent / "key"), *options]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 0, done.output
    return out


@pytest.mark.filterwarnings("ignore::postrand.release.ledger.LedgerWarning")  # other files, same records
@pytest.mark.parametrize("name", ["local", "duckdb", SPARK])
def test_a_release_in_several_files_verifies_and_holds_the_same_records(plan, name):
    made = pr.read_release(protect(plan, name, "--engine", name))
    parts = sorted(path.name for path in made.data_path.iterdir())
    assert (made.data_path.name, parts[0]) == ("data", "part-00000.parquet")
    assert {f"data/{part}" for part in parts} <= set(made.manifest["files"])
    assert pr.verify(made.path).ok
    if name != "spark":
        sizes = [pq.read_metadata(made.data_path / part).num_rows for part in parts]
        assert sizes == [167, 167, 166]  # not those of the source: they would tell how many each file had
    single = plan.read_text().replace('"survey"', '"one.parquet"')
    pq.write_table(survey(), plan.parent / "one.parquet")
    (plan.parent / "single.toml").write_text(single)
    one = pr.read_release(protect(plan.parent / "single.toml", "one"))
    assert one.data_path.name == "data.parquet"
    assert made.frame().to_pylist() == one.frame().to_pylist()
    listed = json.loads((made.path / "croissant.json").read_text())["distribution"]
    assert [entry["@type"] for entry in listed] == ["cr:FileSet", *["cr:FileObject"] * len(parts)]


BLOCKS = """
[[blocks]]
variables = ["sex"]
given = ["age"]
prior = "file"
privacy = { model = "differential", epsilon = 1.0 }
[[blocks]]
variables = ["ill"]
objective = "whole-record"
prior = "file"
given = ["age"]
privacy = { model = "share" }
"""
SELECTED = """
[[blocks]]
variables = ["age", "sex"]
rarer_than = RARER
privacy = { model = "differential", epsilon = 1.0 }
"""


@pytest.mark.filterwarnings(
    "ignore::postrand.risk.reveals.UnperturbedWarning"
)  # three columns single out some together
@pytest.mark.parametrize("name", ["local", "duckdb", SPARK])
@pytest.mark.parametrize("blocks", [BLOCKS, SELECTED], ids=["strata", "selection"])
def test_strata_and_selected_records_are_the_same_on_every_engine(plan, name, blocks):
    counts = LocalEngine().count(Memory(survey()), BOOK, ["age", "sex"]).dense()
    middle = int(np.median(counts))
    text = plan.read_text()
    plan.write_text(text[: text.index("[[blocks]]")] + blocks.replace("RARER", str(middle)))
    made = pr.read_release(protect(plan, name, "--engine", name))
    assert pr.verify(made.path).ok
    kept = made.mechanism.blocks[0].matrix.weights.diagonal() == 2**53
    assert kept.sum() == ((counts >= middle).sum() if blocks == SELECTED else 0)
    wanted = pr.run(pr.load_plan(plan), plan.parent / "wanted", release_key=KEY)
    assert made.mechanism == wanted.mechanism
    assert made.frame().to_pylist() == wanted.frame().to_pylist()
    certificate = json.loads((made.path / "certificate.json").read_text())
    assert certificate == json.loads((wanted.path / "certificate.json").read_text())
    assert ("which this block reads as it is" in " ".join(made.not_covered)) is (blocks == BLOCKS)


@pytest.fixture
def made(plan) -> Path:
    return protect(plan, "made")


def forge_a_part(root: Path) -> None:
    table = pq.read_table(root / "data" / "part-00001.parquet")
    pq.write_table(table.slice(1), root / "data" / "part-00001.parquet")


def forge_one_more(root: Path) -> None:
    shutil.copy(root / "data" / "part-00001.parquet", root / "data" / "part-00009.parquet")


def forge_a_link(root: Path) -> None:
    shutil.copy(root / "data" / "part-00001.parquet", root.parent / "elsewhere.parquet")
    (root / "data" / "part-00001.parquet").unlink()
    os.symlink(root.parent / "elsewhere.parquet", root / "data" / "part-00001.parquet")


def forge_a_folder(root: Path) -> None:
    (root / "data" / "more").mkdir()


def forge_another_folder(root: Path) -> None:
    (root / "extra").mkdir()


def forge_emptiness(root: Path) -> None:
    for path in (root / "data").iterdir():
        path.unlink()


def forge_a_hidden_part(root: Path) -> None:
    """A part that readers of the folder would leave out, consistently listed."""
    (root / "data" / "part-00001.parquet").rename(root / "data" / "_part-00001.parquet")
    manifest = json.loads((root / "manifest.json").read_text())
    manifest["files"]["data/_part-00001.parquet"] = manifest["files"].pop("data/part-00001.parquet")
    (root / "manifest.json").write_bytes(canonical_json.dump(manifest))


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (forge_a_part, "'data/part-00001.parquet' is not the file that was released"),
        (forge_one_more, "'data/part-00009.parquet' is not listed"),
        (forge_a_link, "'data/part-00001.parquet' is not a plain file"),
        (forge_a_folder, "'data/more' is not a plain file"),
        (forge_another_folder, "'extra' is not a plain file"),
        (forge_emptiness, "'data' is not a plain file"),
        (forge_a_hidden_part, "'data/_part-00001.parquet' is not a safe file name"),
    ],
)
def test_forged_folders_fail(made, forge, message):
    assert release.verify(made).ok
    forge(made)
    with pytest.raises(ReleaseError, match=message):
        release.verify(made)


class Broken(RuntimeError):
    pass


def test_an_interrupted_release_continues(plan, monkeypatch):
    whole = protect(plan, "whole")
    store, work = pq.ParquetWriter.write_table, plan.parent / "work"

    def fails(*arguments, **options):
        raise Broken

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fails)
    given = ["protect", "--plan", str(plan), "--out", str(plan.parent / "again"), "--resume", str(work)]
    done = CliRunner().invoke(main, [*given, "--key-file", str(plan.parent / "key")])
    assert isinstance(done.exception, Broken)
    assert list(work.glob("*.arrow"))
    assert not (plan.parent / "again").exists()
    monkeypatch.setattr(pq.ParquetWriter, "write_table", store)
    again = protect(plan, "again", "--resume", str(work))
    assert not work.exists()
    for path in whole.rglob("*"):
        assert path.is_dir() or path.read_bytes() == (again / path.relative_to(whole)).read_bytes()


def test_choices_that_cannot_be_meant(plan):
    loaded = pr.load_plan(plan)
    for options, message in (
        ({"resume": plan.parent / "work"}, "its own release key"),
        ({"engine": "sparc"}, r"unknown engine 'sparc' \(did you mean 'spark'"),
        ({"engine": "spark", "resume": "x", "release_key": KEY}, "keeps no journal"),
    ):
        with pytest.raises(UsageError, match=message):
            pr.run(loaded, plan.parent / "out", **options)
    assert isinstance(engine("local"), LocalEngine)
