"""Completed files state every setting that they follow from: made again with what they state, they are the same."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from postrand import release
from postrand.codebook import Codebook, Variable
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import randomised_response
from postrand.release import canonical_json
from postrand.release.completed import complete
from postrand.release.completed_files import settings_of
from tests.release_case import writer_of
from tests.test_cli_complete import call

FEW = {"copies": "2", "seed": "7", "sweeps": "30", "classes": "1", "chains": "1"}
BOOK = Codebook(
    (
        Variable("sex", role="key", categories=("F", "M")),
        Variable("area", role="key", categories=("n", "e", "s")),
        Variable("pay", role="other", type="double"),
    )
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a release in which area follows sex, which a model of one class cannot say: its copies are moved."""
    rng = np.random.default_rng(5)
    sex = rng.integers(2, size=900)
    area = np.where(rng.random(900) < 0.8, 2 * sex, 1)
    held = {"sex": np.array(["F", "M"])[sex], "area": np.array(["n", "e", "s"])[area], "pay": rng.normal(size=900)}
    law = Mechanism({"sex": randomised_response(2, 4.0), "area": randomised_response(3, 4.0)}, BOOK)
    folder = tmp_path_factory.mktemp("redone") / "release"
    return release.write(folder, data_writer=writer_of(pa.table(held)), data_name="data.csv", mechanism=law).path


def made(root: Path, out: Path, *more: Any, **settings: str) -> pd.DataFrame:
    options = [part for name, value in {**FEW, **settings}.items() for part in (f"--{name}", value)]
    done = call("complete", root, "--out", out, *options, *more)
    assert done.exit_code in (0, 10), done.output
    return pd.read_csv(out / "completed.csv")


SETTINGS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "usual": ({}, ()),
    "anchor": ({}, ("--no-anchor",)),
    "classes": ({"classes": "3"}, ()),
    "chains": ({"chains": "2"}, ()),
    "sweeps": ({"sweeps": "40"}, ()),
    "copies": ({"copies": "3"}, ()),
    "seed": ({"seed": "8"}, ()),
}


@pytest.mark.parametrize("asked", list(SETTINGS))
def test_every_setting_is_stated_and_gives_the_same_copies_again(asked: str, root: Path, tmp_path: Path) -> None:
    settings, more = SETTINGS[asked]
    found = made(root, tmp_path / "out", *more, **settings)
    if asked != "usual":
        assert not found.equals(made(root, tmp_path / "other"))  # so a setting that is not stated would be found
    done = call("verify", tmp_path / "out", "--release", root, "--redo-completed")
    assert done.exit_code == 0, done.output
    assert "the seed gives these copies" in done.stdout


def test_totals_and_no_anchor_together(root: Path, tmp_path: Path) -> None:
    (tmp_path / "totals.csv").write_text("variable,category,total\nsex,F,460\nsex,M,440\n")
    made(root, tmp_path / "out", "--no-anchor", "--totals", tmp_path / "totals.csv")
    done = call("verify", tmp_path / "out", "--release", root, "--redo-completed")
    assert done.exit_code == 0, done.output
    text = " ".join((tmp_path / "out" / "README.txt").read_text().split())
    assert "--no-anchor --totals TOTALS.csv --format dta" in text  # how to make the same copies for another program


def test_a_file_that_states_no_anchor_was_made_with_the_usual_one(root: Path, tmp_path: Path) -> None:
    made(root, tmp_path / "out")
    shutil.copytree(tmp_path / "out", tmp_path / "before")
    path = tmp_path / "before" / "completed.json"
    told = json.loads(path.read_text())
    assert told["settings"].pop("anchor") is True
    path.write_bytes(canonical_json.dump(told))
    done = call("verify", tmp_path / "before", "--release", root, "--redo-completed")
    assert "the seed gives these copies" in done.stdout


def test_the_settings_are_the_keywords_of_complete(root: Path) -> None:
    first = complete(root, copies=2, seed=1, classes=2, sweeps=20, chains=1, anchor=False)
    again = complete(root, copies=2, seed=1, **settings_of(first))
    assert all(np.array_equal(first.codes(number), again.codes(number)) for number in range(2))
