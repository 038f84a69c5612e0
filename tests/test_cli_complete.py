"""``postrand complete`` and the verification of completed files, as a person runs them; plans that ask for copies."""

import functools
import hashlib
import json
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from postrand import completion, formats, load_plan, release, run
from postrand.app.documents import plan_toml
from postrand.app.plans import open_plan
from postrand.cli import main
from postrand.codebook import Codebook, Variable
from postrand.errors import ReleaseError, SpecificationError, UncheckedError
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import randomised_response
from postrand.release import completed_files
from postrand.release.completed_files import CompletedWarning
from postrand.release.fields import schema
from tests.json_schema import problems
from tests.release_case import edit, rehash, writer_of

FEW = ("--copies", "2", "--seed", "7", "--sweeps", "40", "--classes", "4", "--chains", "1")
BOOK = Codebook(
    (
        Variable("sex", role="key", categories=("F", "M"), label="Sex"),
        Variable("area", role="key", categories=("n", "e", "s"), missing="category"),
        Variable("weight", role="weight", type="double"),
    )
)

pytestmark = pytest.mark.xdist_group("complete")  # one worker makes the copies that all of these tests read


def call(*arguments: Any) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def released(folder: Path, n: int = 120, epsilon: float = 3.0, weightless: bool = False, **columns: Any) -> Path:
    """Write a small release of two perturbed variables and a weight."""
    rng = np.random.default_rng(3)
    held = {
        "sex": rng.choice(["F", "M"], n),
        "area": rng.choice(["n", "e", "s"], n),
        "weight": rng.integers(1, 4, n) / 2,
    }
    book = BOOK.select(["sex", "area"] if weightless else BOOK.names)
    table = pa.table({**held, **columns}).select(list(book.names))
    law = Mechanism({"sex": randomised_response(2, epsilon), "area": randomised_response(4, epsilon)}, book)
    made = release.write(folder / "release", data_writer=writer_of(table), data_name="data.csv", mechanism=law)
    return made.path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a release, and completed files made from it by the command."""
    folder = tmp_path_factory.mktemp("made")
    done = call("complete", released(folder), "--out", folder / "completed", *FEW)
    assert done.exit_code in (0, 10), done.output
    return folder


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    """Return the same folder, to be changed."""
    return Path(shutil.copytree(made, tmp_path / "made"))


def test_the_folder_has_all_that_an_analyst_needs(made: Path) -> None:
    folder = made / "completed"
    assert {path.name for path in folder.iterdir()} == {"completed.csv", "completed.json", "README.txt", "report.html"}
    read = pd.read_csv(folder / "completed.csv")
    assert list(read.columns) == ["Imputation_", "Record_", "sex", "area", "weight"]
    assert len(read) == 3 * 120
    text, told = (folder / "README.txt").read_text(), json.loads((folder / "completed.json").read_text())
    for wanted in (
        "completed.csv",
        "mice::pool",
        "as if it were 2 x 120 records",
        "a fact about a person",
        "Stata:",
    ):
        assert wanted in " ".join(text.split())
    assert told["seed"] == 7
    assert told["copies"] == 2
    assert told["perturbed"] == ["sex", "area"]
    of = schema("completed", 1)
    assert of is not None
    assert list(problems(told, of, of)) == []
    assert list(problems({**told, "more": 1}, of, of)) == ["$: unknown more"]


def test_a_failed_test_of_the_model_has_an_exit_code_of_its_own_and_marks_the_files(made: Path, tmp_path: Path) -> None:
    told = json.loads((made / "completed" / "completed.json").read_text())
    again = call("complete", made / "release", "--out", tmp_path / "again", *FEW, "--json")
    assert again.exit_code == (10 if told["problems"] else 0)
    assert json.loads(again.stdout)["problems"] == told["problems"]
    poor = call("complete", made / "release", "--out", tmp_path / "poor", *FEW[:4], "--sweeps", "4", "--classes", "2")
    assert poor.exit_code == 10
    assert "THE MODEL FAILED A TEST" in poor.stdout
    assert "THE MODEL FAILED A TEST" in (tmp_path / "poor" / "README.txt").read_text()
    same = (tmp_path / "again" / name for name in ("completed.csv", "completed.json", "README.txt"))
    assert all(path.read_bytes() == (made / "completed" / path.name).read_bytes() for path in same)


@pytest.mark.parametrize("form", ["sav", "dta", "parquet"])
def test_the_same_seed_gives_the_same_copies_in_other_formats(form: str, made: Path, tmp_path: Path) -> None:
    done = call("complete", made / "release", "--out", tmp_path / "copies", *FEW, "--format", form)
    assert done.exit_code in (0, 10), done.output
    read = formats.read(tmp_path / "copies" / f"completed.{form}")
    other = pa.Table.from_batches(list(read.batches())).to_pandas()
    wanted = pd.read_csv(made / "completed" / "completed.csv")
    code = {1.0: "F", 2.0: "M"} if form == "dta" else {}
    assert [code.get(v, v) for v in other["sex"]][120:] == wanted["sex"].tolist()[120:]
    text = (tmp_path / "copies" / "README.txt").read_text()
    assert ("mi import flong, m(Imputation_) id(Record_) imputed(sex area)" in text) == (form == "dta")
    assert ("SPLIT FILE LAYERED BY Imputation_" in text) == (form == "sav")


_OPENED: list[str] | None = None


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if _OPENED is not None and event in ("open", "os.listdir", "os.scandir"):
        _OPENED.append(str(arguments[0]))


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """Note every file and folder that is opened; a hook cannot be removed, so it only listens while it is asked."""
    global _OPENED
    sys.addaudithook(_note)
    _OPENED = []
    yield _OPENED
    _OPENED = None


def test_nothing_but_the_release_is_opened(opened: list[str], copied: Path) -> None:
    (copied / "survey.csv").write_text("sex,area,weight\nF,n,1\n")
    opened.clear()
    done = call("complete", copied / "release", "--out", copied / "again", *FEW)
    assert done.exit_code in (0, 10)
    own = [name for name in opened if name.startswith(str(copied))]
    allowed = (str(copied / "release"), str(copied / ".again."))
    assert any(name.endswith("data.csv") for name in own)
    assert [name for name in own if not name.startswith(allowed) and name != str(copied)] == []


def test_all_that_is_wrong_with_a_call_is_said_at_once(made: Path) -> None:
    call_ = ["complete", made / "nowhere", "--out", made / "release", "--copies", "0", "--seed", "x", "--format", "xyz"]
    done = call(*call_, "--chains", "0")
    assert done.exit_code == 2
    for wanted in (
        "--seed: not a number that can be used; got x",
        "--chains: not a number that can be used; got 0",
        "no such release",
        "the output directory exists",
        "--copies: not a number of copies; got 0",
        "--format: unknown format 'xyz'",
    ):
        assert wanted in done.stderr
    assert "7 problems" in done.stderr or "6 problems" in done.stderr


@pytest.mark.parametrize("copies", ["0", "1", "10000", "1.5", "-2", "many"])
def test_a_number_of_copies_that_cannot_be_is_refused(copies: str, made: Path, tmp_path: Path) -> None:
    done = call("complete", made / "release", "--out", tmp_path / "out", "--copies", copies)
    assert done.exit_code == 2
    assert "--copies" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_totals_are_met_by_every_copy_and_made_again(tmp_path: Path) -> None:
    root = released(tmp_path, weightless=True)
    (tmp_path / "totals.csv").write_text("variable,category,total\nsex,F,70\nsex,M,50\n")
    done = call("complete", root, "--out", tmp_path / "out", *FEW, "--totals", tmp_path / "totals.csv")
    assert done.exit_code in (0, 10), done.output
    read = pd.read_csv(tmp_path / "out" / "completed.csv")
    assert [(read["sex"][read["Imputation_"] == k] == "F").sum() for k in (1, 2)] == [70, 70]
    told = json.loads((tmp_path / "out" / "completed.json").read_text())
    assert told["totals"] == [{"variables": ["sex"], "categories": [["F"], ["M"]], "totals": [70, 50]}]
    assert "meets the totals exactly" in " ".join((tmp_path / "out" / "README.txt").read_text().split())
    again = call("verify", tmp_path / "out", "--release", root, "--redo-completed")
    assert again.exit_code == 0, again.output
    assert "the seed gives these copies" in again.stdout


def test_totals_of_wrong_names_are_refused_together(tmp_path: Path) -> None:
    rows = ("sec,F,70", "sec,M,50", "sex,Female,70", "sex,M,50", "area,n,10")
    (tmp_path / "totals.csv").write_text("\n".join(["variable,category,total", *rows, ""]))
    root = released(tmp_path, weightless=True)
    done = call("complete", root, "--out", tmp_path / "out", *FEW, "--totals", tmp_path / "totals.csv")
    assert done.exit_code == 2
    assert "3 problems" in done.stderr
    for wanted in ("did you mean 'sex'", "a total of what is not a category", "every category needs a total"):
        assert wanted in done.stderr
    assert not (tmp_path / "out").exists()


def test_completed_files_are_never_put_into_a_release(made: Path) -> None:
    done = call("complete", made / "release", "--out", made / "release" / "completed", *FEW)
    assert done.exit_code == 2
    assert "cannot be put into a release" in done.stderr


def test_a_release_that_does_not_verify_is_refused(copied: Path) -> None:
    data = copied / "release" / "data.csv"
    data.write_text(data.read_text().replace('"F"', '"M"'))
    done = call("complete", copied / "release", "--out", copied / "again", *FEW)
    assert done.exit_code == 7
    assert "the release does not verify, so no copies are made from it" in done.stderr
    assert "digests" in done.stderr
    assert not (copied / "again").exists()


@pytest.mark.parametrize(
    ("columns", "n", "epsilon", "code"),
    [
        ({}, 1, 3.0, 4),
        ({"area": pa.array([None] * 50, pa.string())}, 50, 3.0, 0),
        ({}, 50, 1e-12, 0),
    ],
)
def test_releases_with_little_or_nothing_to_learn(
    columns: Any, n: int, epsilon: float, code: int, tmp_path: Path
) -> None:
    """One record is refused; blank columns and a law that hides all leave a model that says how little it knows."""
    root = released(tmp_path, n, epsilon, **columns)
    done = call("complete", root, "--out", tmp_path / "out", *FEW)
    assert done.exit_code == code or (code == 0 and done.exit_code in (8, 10)), done.output
    assert (tmp_path / "out").exists() == (done.exit_code in (0, 10))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert "Traceback" not in done.output


def test_an_interrupted_run_leaves_nothing(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path, *_: Any) -> None:
        path.write_text("Imputation_\n")
        raise KeyboardInterrupt

    monkeypatch.setattr(completed_files, "write_stacked", broken)
    call("complete", made / "release", "--out", tmp_path / "out", *FEW)
    assert list(tmp_path.iterdir()) == []


# -- verification ------------------------------------------------------------------------------------------------------


def test_completed_files_verify_with_their_release(made: Path) -> None:
    done = call("verify", made / "completed", "--release", made / "release", "--redo-completed")
    assert done.exit_code == 0, done.output
    assert "the seed gives these copies" in done.stdout
    said = call("verify", made / "completed", "--release", made / "release")
    assert said.exit_code == 0
    assert "drawn from this release alone, with seed 7, is stated" in said.stdout


def test_completed_files_need_their_release_and_nothing_else(made: Path) -> None:
    done = call("verify", made / "completed")
    assert done.exit_code == 2
    assert "add --release FOLDER" in done.stderr
    done = call("verify", made / "completed", "--release", made / "release", "--file", made / "release" / "data.csv")
    assert done.exit_code == 2
    assert "--file does not go with completed files" in done.stderr


def _other_seed(folder: Path) -> None:
    edit(folder / "completed.json", lambda told: told.update(seed=8))


def _no_problems(folder: Path) -> None:
    edit(folder / "completed.json", lambda told: told.update(problems=[], warnings=["All is well."]))


def _more_copies(folder: Path) -> None:
    edit(folder / "completed.json", lambda told: told.update(copies=3))


def _other_release(folder: Path) -> None:
    edit(folder / "completed.json", lambda told: told["released"]["data"].update({"data.csv": "0" * 64}))


def _other_file(folder: Path) -> None:
    (folder / "more.txt").write_text("more")


def _other_readme(folder: Path) -> None:
    path = folder / "README.txt"
    path.write_text(path.read_text().replace("Never analyse", "Always analyse"))
    content = path.read_bytes()
    said = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    edit(folder / "completed.json", lambda told: told["files"].update({"README.txt": said}))


def _no_number(folder: Path) -> None:
    edit(folder / "completed.json", lambda told: told.update(copies="two"))


def _other_field(folder: Path) -> None:
    edit(folder / "completed.json", lambda told: told.update(more=1))


def _other_table(folder: Path) -> None:
    (folder / "completed.csv").write_text("Imputation_,Record_\n")


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (_other_seed, "the seed gives other copies"),
        (_no_problems, "the tests of the model give other results|README.txt: this page does not follow"),
        (_more_copies, "the numbers of records differ"),
        (_other_release, "the files were made from another release"),
        (_other_file, "'more.txt' is not listed"),
        (_other_readme, "README.txt: this page does not follow"),
        (_no_number, "not a number of copies"),
        (_other_field, "unknown field 'more'"),
        (_other_table, "'completed.csv' is not the file that was made"),
    ],
)
def test_changed_completed_files_fail(change: Any, wanted: str, copied: Path) -> None:
    change(copied / "completed")
    done = call("verify", copied / "completed", "--release", copied / "release", "--redo-completed")
    assert done.exit_code == 7
    assert any(text in done.stderr for text in wanted.split("|"))


def test_another_platform_is_said_and_not_a_failure(copied: Path) -> None:
    edit(copied / "completed" / "completed.json", lambda told: told["platform"].update(machine="another"))
    done = call("verify", copied / "completed", "--release", copied / "release", "--redo-completed")
    assert done.exit_code == 9
    assert "these copies cannot be made again here" in done.stdout


# -- plans -------------------------------------------------------------------------------------------------------------

PLAN = """
[source]
file = "people.csv"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 4.0
[release]
completed = 2
[[blocks]]
variables = ["sex"]
[[blocks]]
variables = ["area"]
"""
CODEBOOK = """
[[variables]]
name = "sex"
role = "key"
categories = ["F", "M"]
[[variables]]
name = "area"
role = "key"
categories = ["n", "e", "s"]
"""


def planned(folder: Path, plan: str = PLAN) -> Path:
    rng = np.random.default_rng(4)
    rows = ["sex,area", *(f"{rng.choice(['F', 'M'])},{rng.choice(['n', 'e', 's'])}" for _ in range(60))]
    (folder / "people.csv").write_text("\n".join([*rows, ""]))
    (folder / "codebook.toml").write_text(CODEBOOK)
    (folder / "plan.toml").write_text(plan)
    return folder / "plan.toml"


def run_loudly(plan: Path, out: Path) -> Path:
    """Run a plan whose copies are made with few sweeps: a plan itself always takes the usual settings."""
    quick = functools.partial(completion.complete, classes=4, sweeps=40, chains=1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(completion, "complete", quick)
        return run(load_plan(plan), out, release_key=b"k" * 32).path


def run_quickly(plan: Path, out: Path) -> Path:
    """Do so without a word on the model: with so few sweeps it fails a test, or just does not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompletedWarning)
        return run_loudly(plan, out)


def test_a_run_whose_copies_fail_a_test_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrand.completion.convergence.MOST_R_HAT", 0.0)
    with pytest.warns(CompletedWarning, match="failed a test"):
        run_loudly(planned(tmp_path), tmp_path / "release")


@pytest.fixture(scope="module")
def of_plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the release of a plan that asks for copies."""
    folder = tmp_path_factory.mktemp("plan")
    return run_quickly(planned(folder), folder / "release")


def test_a_plan_puts_copies_into_the_release(of_plan: Path) -> None:
    listed = json.loads((of_plan / "manifest.json").read_text())["files"]
    assert {"completed.csv", "completed.json", "README.txt"} <= set(listed)
    assert pd.read_csv(of_plan / "completed.csv")["Imputation_"].max() == 2
    found = release.verify(of_plan, redo_completed=True)
    assert found.verdict == "verified"
    assert {"copies", "copies_bytes", "redone"} <= {check.name for check in found.checks if check.ok}
    assert not any("contents of extra files" in text for text in found.stated)
    said = release.verify(of_plan)
    assert any("drawn from this release alone" in text for text in said.stated)
    text = (of_plan / "README.txt").read_text()
    assert text.index("completed.csv") < text.index("data.csv  ")
    assert "Never analyse the stacked file" in text
    assert "completed.csv has 2 copies of the records" in (of_plan / "ddi.xml").read_text()
    files = json.loads((of_plan / "croissant.json").read_text())["distribution"]
    assert [entry["name"] for entry in files] == ["data.csv", "completed.csv"]


def test_the_seed_of_the_copies_is_fresh_and_all_else_follows_from_the_key(of_plan: Path, tmp_path: Path) -> None:
    again = run_quickly(planned(tmp_path), tmp_path / "release")
    seeds = {json.loads((root / "completed.json").read_text())["seed"] for root in (again, of_plan)}
    assert len(seeds) == 2
    plain = run(
        load_plan(planned(tmp_path, PLAN.replace("completed = 2\n", ""))), tmp_path / "plain", release_key=b"k" * 32
    )
    names = {path.name for path in plain.path.iterdir()}
    assert names == {path.name for path in of_plan.iterdir()} - {"completed.csv", "completed.json"}
    for name in names - {"manifest.json", "README.txt", "report.html", "ddi.xml", "croissant.json"}:
        assert (plain.path / name).read_bytes() == (of_plan / name).read_bytes() == (again / name).read_bytes()
    assert "Never analyse all copies as if they were one file" in (of_plan / "report.html").read_text()
    assert "Completed files" not in (plain.path / "report.html").read_text()


def test_copies_of_a_plan_that_are_changed_fail(of_plan: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(of_plan, tmp_path / "release"))
    path, told = root / "completed.csv", root / "croissant.json"
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    lines = path.read_text().splitlines()
    lines[-1] = lines[-1].replace('"F"', '"M"') if '"F"' in lines[-1] else lines[-1].replace('"M"', '"F"')
    path.write_text("\n".join([*lines, ""]))
    with pytest.raises(ReleaseError, match=r"'completed.csv' is not the file that was released"):
        release.verify(root)
    said = {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    edit(root / "completed.json", lambda stated: stated["files"].update({"completed.csv": said}))
    told.write_text(told.read_text().replace(before, str(said["sha256"])))
    rehash(root)
    assert release.verify(root).verdict == "verified"  # as good as any other copy: only the seed tells
    with pytest.raises(ReleaseError, match="the seed gives other copies"):
        release.verify(root, redo_completed=True)


def test_a_release_without_the_stacked_file_or_with_one_that_nothing_describes(of_plan: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(of_plan, tmp_path / "release"))
    (root / "completed.csv").unlink()
    rehash(root)
    with pytest.raises(ReleaseError, match=r"'completed.csv' is not listed"):
        release.verify(root)


def test_another_platform_leaves_a_release_unverified(of_plan: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(of_plan, tmp_path / "release"))
    edit(root / "completed.json", lambda told: told["platform"].update(numpy="0.1"))
    rehash(root)
    with pytest.raises(UncheckedError, match="these copies cannot be made again here"):
        release.verify(root, redo_completed=True)


def test_a_release_without_readme_is_one_that_was_made_before(of_plan: Path, tmp_path: Path) -> None:
    plain = run(
        load_plan(planned(tmp_path, PLAN.replace("completed = 2\n", ""))), tmp_path / "plain", release_key=b"k" * 32
    )
    (plain.path / "README.txt").unlink()
    rehash(plain.path)
    assert release.verify(plain.path).verdict == "verified"


@pytest.mark.parametrize("wrong", ["0", "1", "10000", '"many"', "true", "2.5"])
def test_a_plan_with_a_wrong_number_of_copies_is_refused_with_all_else(wrong: str, tmp_path: Path) -> None:
    plan = planned(tmp_path, PLAN.replace("completed = 2", f'completed = {wrong}\nformat = "xyz"'))
    with pytest.raises(SpecificationError) as caught:
        load_plan(plan)
    assert len(caught.value.problems) == 2
    assert any("completed: not a number of copies" in problem for problem in caught.value.problems)


def test_a_plan_with_a_variable_of_a_taken_name_is_refused(tmp_path: Path) -> None:
    plan = planned(tmp_path, PLAN.replace('"sex"', '"Record_"'))
    (tmp_path / "codebook.toml").write_text(CODEBOOK.replace('"sex"', '"Record_"'))
    with pytest.raises(SpecificationError, match="has the name of a column that numbers copies"):
        load_plan(plan)


def test_the_setting_survives_the_workbench(tmp_path: Path) -> None:
    own = '"]\nprivacy = {model = "differential", epsilon = 2.0}'
    decisions = open_plan(planned(tmp_path, PLAN.replace('"]', own)), tmp_path)
    assert "completed = 2" in plan_toml(decisions, tmp_path)
