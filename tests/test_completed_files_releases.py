"""What meets whoever opens a release: README.txt, labels of perturbed columns, and copies of every kind of data."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest

from postrand import completion, formats, load_plan, release, run
from postrand.codebook import Codebook, Variable, coding
from postrand.codebook.not_released import shown_codebook
from postrand.codebook.perturbed_labels import labelled
from postrand.errors import ReleaseError
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import randomised_response
from postrand.ranks import RankBlocks
from postrand.release import fields
from postrand.release.completed_folder import verify_completed
from postrand.workflow.whole_columns import average_columns, permute_columns
from tests.json_schema import problems
from tests.release_case import make, rehash, writer_of
from tests.test_report_completed import require_allowed_styles

QUICK: dict[str, Any] = {"copies": 2, "seed": 3, "classes": 3, "sweeps": 30, "chains": 1}
BOOK = Codebook(
    (
        Variable("home", role="key", categories=("rural", "urban"), label="Place of the home"),
        Variable("age", role="key", categories=("0-14", "15-64", "65+")),
        Variable("pay", role="other", type="double", label="Pay"),
    )
)


def drawn(n: int, epsilon: float) -> tuple[pa.Table, Mechanism]:
    """Return released records of a population of which 14% are urban, and their law."""
    rng = np.random.default_rng(8)
    law = Mechanism({"home": randomised_response(2, epsilon), "age": randomised_response(3, epsilon)}, BOOK)
    true = {"home": rng.random(n) < 0.14, "age": rng.integers(3, size=n)}
    released = {}
    for name, codes in true.items():
        cumulated = law[name].matrix.array.cumsum(axis=1)[codes.astype(int)]
        found = (rng.random(n)[:, None] > cumulated).sum(axis=1).clip(max=BOOK[name].size - 1)
        released[name] = coding.decode(found, BOOK[name])
    return pa.table({**released, "pay": np.arange(n) * 1.0}), law


def readme(root: Path) -> str:
    return " ".join((root / "README.txt").read_text().split())


# -- README.txt --------------------------------------------------------------------------------------------------------


def test_whoever_opens_a_release_is_told_how_wrong_the_data_alone_are(tmp_path: Path) -> None:
    table, law = drawn(4000, 1.0)
    root = make(tmp_path / "r", table, mechanism=law, claims=(), data_writer=writer_of(table)).path
    text = readme(root)
    share = np.mean(np.array(table["home"].to_pylist()) == "urban")
    other = law["home"].matrix.array[0, 1]
    true = (share - other) / (1 - 2 * other)  # the two-by-two matrix, inverted by hand
    error = np.sqrt(share * (1 - share) / (4000 - 1)) / (1 - 2 * other)
    assert "THE DATA ALONE ARE PERTURBED" in text
    assert f"{100 * share:.1f}% of the released values, but an estimated {100 * true:.1f}% of the true ones" in text
    assert f"(standard error {100 * error:.1f}%)" in text
    assert f"home: {100 * other:.0f}% of the values" in text or f"home: about {100 * other:.0f}% of the values" in text
    assert "Not changed: pay." in text
    assert "postrand complete" in text


def test_a_split_says_how_many_records_show_a_variable(tmp_path: Path) -> None:
    blocks = [Block(("home", "age"), randomised_response(6, 2.0)), Block(("age",), randomised_response(3, 2.0))]
    law = Mechanism([], BOOK, split=Split.of([0.25, 0.75], blocks))
    rng = np.random.default_rng(2)
    shown = rng.random(400) < 0.25
    columns = {
        "home": [h if s else "(not released)" for h, s in zip(rng.choice(["rural", "urban"], 400), shown, strict=True)],
        "age": rng.choice(["0-14", "15-64", "65+"], 400).tolist(),
        "pay": np.arange(400) * 1.0,
    }
    book = shown_codebook(BOOK, ["home", "age"])
    arrays = {n: pa.array(columns[n]) for n in book.names}
    table = pa.table(
        {n: arrays[n].cast(pa.string()).dictionary_encode() if n != "pay" else arrays[n] for n in book.names}
    )
    root = tmp_path / "r"
    release.write(root, data_writer=writer_of(table), data_name="data.csv", mechanism=law)
    text = readme(root)
    assert "home: about 25% of the records show it" in text
    assert "age: 100% of the records show it" in text
    assert "(not released): the record does not show this variable" in text
    assert release.verify(root).verdict == "verified"


def test_a_changed_readme_is_refused(tmp_path: Path) -> None:
    root = make(tmp_path / "r").path
    path = root / "README.txt"
    path.write_text(path.read_text().replace("PERTURBED:", "TRUE:"))
    rehash(root)
    with pytest.raises(ReleaseError, match=r"README.txt: this file does not follow"):
        release.verify(root)


@pytest.mark.parametrize("form", ["permute", "average"])
def test_folders_of_columns_say_what_was_done(form: str, tmp_path: Path) -> None:
    table = pa.table({"pay": np.arange(40) * 1.5, "sex": ["F", "M"] * 20})
    file = tmp_path / "people.csv"
    table.to_pandas().to_csv(file, index=False)
    if form == "permute":
        permute_columns(file, tmp_path / "r", ["pay"], RankBlocks(5), b"k" * 32)
    else:
        average_columns(file, tmp_path / "r", ["pay"], RankBlocks(5))
    text = readme(tmp_path / "r")
    assert "the values of pay were" in text
    assert "data.csv" in text
    assert release.verify(tmp_path / "r").verdict == "verified"
    path = tmp_path / "r" / "README.txt"
    path.write_text(path.read_text().replace("pay", "nothing"))
    rehash(tmp_path / "r")
    with pytest.raises(ReleaseError, match=r"README.txt: this page does not follow from the certificate"):
        release.verify(tmp_path / "r")
    path.unlink()
    rehash(tmp_path / "r")
    assert release.verify(tmp_path / "r").verdict == "verified"  # as it was made before


# -- labels ------------------------------------------------------------------------------------------------------------


def labelled_release(folder: Path, suffix: str, labels: dict[str, str]) -> Path:
    """Write a release whose columns have these labels in the data file."""
    table, law = drawn(300, 1.0)
    held = labelled(table.schema, {name: {b"label": text.encode()} for name, text in labels.items()})

    def write(path: Path) -> None:
        with formats.open_writer(path, held) as writer:
            writer.write(table.to_batches()[0])

    return release.write(folder, data_writer=write, data_name=f"data{suffix}", mechanism=law).path


MARKED = {"home": "Place of the home (perturbed)", "age": "(perturbed)"}


@pytest.mark.parametrize("suffix", [".sav", ".dta"])
@pytest.mark.parametrize("labels", [{}, {"home": "Place of the home"}, MARKED])
def test_labels_with_and_without_the_mark_verify(suffix: str, labels: dict[str, str], tmp_path: Path) -> None:
    """Releases made before have no marks."""
    assert release.verify(labelled_release(tmp_path / "r", suffix, labels)).verdict == "verified"


@pytest.mark.parametrize("suffix", [".sav", ".dta"])
@pytest.mark.parametrize(
    "labels",
    [
        {"home": MARKED["home"]},  # not all: which ones could tell something
        {**MARKED, "pay": "Pay (perturbed)"},  # nothing perturbs it
        {**MARKED, "age": "Age (perturbed)"},  # not the codebook's label
    ],
)
def test_labels_that_a_release_does_not_have_are_refused(suffix: str, labels: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(Exception, match="metadata that the codebook does not give"):
        labelled_release(tmp_path / "r", suffix, labels)


def test_parquet_data_have_no_marks(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="metadata that the codebook does not give"):
        labelled_release(tmp_path / "r", ".parquet", MARKED)


# -- copies of every kind of data --------------------------------------------------------------------------------------

PLAN = """
[source]
{source}
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 4.0
[release]
completed = 2
as_is = ["pay"]
{more}
[[blocks]]
variables = ["home"]
[[blocks]]
variables = ["age"]
"""
CODEBOOK = """
[[variables]]
name = "home"
role = "key"
categories = ["rural", "urban"]
label = "Place of the home"
[[variables]]
name = "age"
role = "key"
categories = ["0-14", "15-64", "65+"]
[[variables]]
name = "pay"
role = "other"
type = "double"
"""


def made_of(folder: Path, source: str, more: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run a plan with few sweeps and return its release."""
    usual = completion.complete
    quick = {name: value for name, value in QUICK.items() if name != "copies"}
    monkeypatch.setattr(completion, "complete", lambda *a, **k: usual(*a, **{**quick, **k}))
    (folder / "codebook.toml").write_text(CODEBOOK)
    (folder / "plan.toml").write_text(PLAN.format(source=source, more=more))
    return run(load_plan(folder / "plan.toml"), folder / "release", release_key=b"k" * 32).path


@pytest.mark.filterwarnings("ignore::postrand.release.completed_files.CompletedWarning")
@pytest.mark.parametrize(
    ("form", "name"), [("same", "completed.csv"), ("dta", "completed.dta"), ("sav", "completed.sav")]
)
def test_a_folder_of_files_has_its_copies_in_one_file(
    form: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _ = drawn(60, 1.0)
    (tmp_path / "parts").mkdir()
    for number in range(2):
        table.slice(30 * number, 30).to_pandas().to_csv(tmp_path / "parts" / f"p{number}.csv", index=False)
    root = made_of(tmp_path, 'file = "parts"', f'format = "{form}"', monkeypatch)
    assert sorted(p.suffix for p in (root / "data").iterdir()) == [name[-4:]] * 2
    assert (root / name).is_file()
    found = release.verify(root, redo_completed=True)
    assert {"copies", "copies_bytes", "redone"} <= {check.name for check in found.checks if check.ok}
    told = json.loads((root / "completed.json").read_text())
    assert sorted(told["released"]["data"]) == [f"data/part-0000{k}{name[-4:]}" for k in range(2)]
    if form != "same":
        read = pyreadstat.read_dta if form == "dta" else pyreadstat.read_sav
        for part in (root / "data").iterdir():
            assert read(str(part))[1].column_names_to_labels == {
                "home": MARKED["home"],
                "age": "(perturbed)",
                "pay": None,
            }
        _, meta = read(str(root / name))
        assert meta.column_names_to_labels["home"] == "Place of the home"


@pytest.mark.filterwarnings("ignore::postrand.release.completed_files.CompletedWarning")
def test_a_released_table_has_its_copies_in_a_parquet_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = drawn(60, 1.0)
    pq.write_table(table, tmp_path / "people.parquet")
    target = f'uri = "duckdb:///{tmp_path / "out.duckdb"}"\ntable = "released"'
    root = made_of(tmp_path, 'file = "people.parquet"', target, monkeypatch)
    read = pd.read_parquet(root / "completed.parquet")
    with duckdb.connect(str(tmp_path / "out.duckdb"), read_only=True) as database:
        held = database.sql("SELECT * FROM released").df()
    assert sorted(read["pay"][read["Imputation_"] == 0]) == sorted(held["pay"])
    assert release.verify(root, redo_completed=True).verdict == "verified"


def test_a_release_that_was_changed_does_not_verify_with_its_completed_files(tmp_path: Path) -> None:
    from postrand.release.completed_files import write_folder

    table, law = drawn(60, 1.0)
    made = make(tmp_path / "r", table, mechanism=law, claims=(), data_writer=writer_of(table))
    write_folder(tmp_path / "c", made, completion.complete(made.frame(), made.mechanism, **QUICK))
    assert verify_completed(tmp_path / "c", tmp_path / "r", redo=True).verdict == "verified"
    other = make(tmp_path / "o", table.slice(1), mechanism=law, claims=(), data_writer=writer_of(table.slice(1)))
    with pytest.raises(ReleaseError, match="made from another release"):
        verify_completed(tmp_path / "c", other.path)
    shutil.rmtree(tmp_path / "r")
    with pytest.raises(ReleaseError, match="no such release"):
        verify_completed(tmp_path / "c", tmp_path / "r")


def test_the_first_release_with_copies_is_verified_and_pooled_for_ever() -> None:
    folder = Path(__file__).parent / "fixtures" / "releases" / "3" / "completed"
    found = release.verify(folder)
    assert found.verdict == "verified"
    assert {"copies", "copies_bytes"} <= {check.name for check in found.checks if check.ok}
    told = json.loads((folder / "completed.json").read_text())
    of = fields.schema("completed", 1)
    assert of is not None
    assert list(problems(told, of, of)) == []
    read = pd.read_csv(folder / "completed.csv")
    assert read.groupby("Imputation_").size().tolist() == [240] * 3
    assert read["region"][read["Imputation_"] > 0].dropna().isin(["n", "e", "s"]).all()


@pytest.mark.filterwarnings("ignore::postrand.release.completed_files.CompletedWarning")
def test_copies_do_not_change_the_level_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = drawn(200, 1.0)
    pq.write_table(table.drop_columns(["pay"]), tmp_path / "people.parquet")
    plan = PLAN.replace('as_is = ["pay"]\n', "").replace("epsilon = 4.0", "epsilon = 4.0\ndelta = 1e-4")
    book = CODEBOOK[: CODEBOOK.index('[[variables]]\nname = "pay"')]
    levels = []
    for completed in ("completed = 2\n", ""):
        folder = tmp_path / f"with{len(completed)}"
        folder.mkdir()
        (folder / "people.parquet").symlink_to(tmp_path / "people.parquet")
        monkeypatch.setattr(sys.modules[__name__], "CODEBOOK", book)
        monkeypatch.setattr(sys.modules[__name__], "PLAN", plan.replace("completed = 2\n", completed))
        root = made_of(folder, 'file = "people.parquet"', "", monkeypatch)
        levels.append(json.loads((root / "certificate.json").read_text())["file"])
        page = (root / "report.html").read_text()
        assert ("completed files do not change these levels" in page) == bool(completed)
        if completed:
            require_allowed_styles(page)
    assert levels[0] == levels[1]
    assert levels[0]["epsilon"] < 4
