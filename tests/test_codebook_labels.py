"""Labels of the codebook in files that can hold them: a text file has none, so its release must get them elsewhere."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest

import postrand as pr
from postrand.codebook.perturbed_labels import labelled, published_labels
from postrand.errors import PostrandError
from postrand.workflow.pipeline import run
from tests.plan_case import written
from tests.unit_case import KEY

pytestmark = pytest.mark.filterwarnings("ignore:the mean of days is")  # which is limited to 3

CODEBOOK = """
[[variables]]
name = "ward"
role = "key"
label = "Ward of the hospital"
categories = ["c", "s"]
labels = ["cardiology", "surgery"]
[[variables]]
name = "severity"
role = "key"
label = "Severity"
type = "int64"
categories = [0, 1, 2]
labels = ["none", "mild", "severe"]
[[variables]]
name = "days"
role = "other"
type = "int64"
categories = [1, 2, 3]
labels = ["1", "2", "3 and more"]
[[variables]]
name = "cost"
role = "other"
label = "Cost in euros"
type = "double"
[[recodes]]
variable = "days"
top = 3
"""
PLAN = """
[source]
file = "s.csv"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 4.0
[release]
format = "{suffix}"
as_is = ["days", "cost"]
{more}
"""
BLOCKS = '[[blocks]]\nvariables = ["ward"]\n[[blocks]]\nvariables = ["severity"]\n'
SPLIT = '[split]\nvariables = ["ward", "severity"]\n'


def planned(folder: Path, suffix: str, more: str = BLOCKS, *changes: tuple[str, str]) -> Any:
    rng = np.random.default_rng(3)
    rows = zip(rng.choice(["c", "s"], 300), rng.integers(0, 3, 300), rng.integers(1, 9, 300), strict=True)
    lines = [f"{ward},{severity},{days},{100 + days}.5" for ward, severity, days in rows]
    (folder / "s.csv").write_text("\n".join(["ward,severity,days,cost", *lines]) + "\n")
    text = CODEBOOK
    for old, new in changes:
        text = text.replace(old, new)
    return written(folder, text, PLAN.format(suffix=suffix, more=more))


def released(folder: Path, suffix: str, more: str = BLOCKS) -> Any:
    """Run the plan, and return what an independent reader finds of labels."""
    plan = planned(folder, suffix, more)
    run(plan, folder / "r", release_key=KEY)
    assert pr.verify(folder / "r").verdict == "verified"
    assert pr.verify(folder / "r", file=plan.source, release_key=KEY)
    read: Any = {"sav": pyreadstat.read_sav, "dta": pyreadstat.read_dta, "xpt": pyreadstat.read_xport}[suffix]
    return read(str(folder / "r" / f"data.{suffix}"))[1]


@pytest.mark.parametrize("suffix", ["sav", "dta"])
def test_labels_of_columns_and_values_are_in_the_file(suffix: str, tmp_path: Path) -> None:
    found = released(tmp_path, suffix)
    assert found.column_names_to_labels == {
        "ward": "Ward of the hospital (perturbed)",
        "severity": "Severity (perturbed)",
        "days": None,
        "cost": "Cost in euros",
    }
    wanted: dict[str, dict[Any, str]] = {"severity": {0: "none", 1: "mild", 2: "severe"}, "days": {3: "3 and more"}}
    if suffix == "sav":  # Stata labels no text
        wanted["ward"] = {"c": "cardiology", "s": "surgery"}
    assert found.variable_value_labels == wanted


@pytest.mark.parametrize("suffix", ["sav", "dta"])
def test_what_is_beside_a_split_has_its_labels_too(suffix: str, tmp_path: Path) -> None:
    found = released(tmp_path, suffix, SPLIT)
    assert found.variable_value_labels["days"] == {3: "3 and more"}
    assert "mild" in found.variable_value_labels["severity"].values()
    assert found.column_names_to_labels["cost"] == "Cost in euros"


def test_a_sas_file_has_labels_of_columns_alone(tmp_path: Path) -> None:
    found = released(tmp_path, "xpt")
    assert found.column_names_to_labels["cost"] == "Cost in euros"
    assert not found.variable_value_labels


def test_other_files_have_none(tmp_path: Path) -> None:
    run(planned(tmp_path, "parquet"), tmp_path / "r", release_key=KEY)
    assert all(not field.metadata for field in pq.read_schema(tmp_path / "r" / "data.parquet"))


@pytest.mark.parametrize(
    ("suffix", "change", "said"),
    [
        ("sav", ('"severe"', f'"{121 * "x"}"'), "the label of a category is too long"),
        ("dta", ('"Cost in euros"', f'"{81 * "x"}"'), "its label is too long"),
        ("dta", ("[0, 1, 2]", "[0, 1, 3000000000]"), "is not a whole number of 32 bits"),
    ],
)
def test_labels_that_the_file_cannot_hold_are_refused_before_a_run(
    suffix: str, change: tuple[str, str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(PostrandError, match=said):
        planned(tmp_path, suffix, BLOCKS, change)


def test_numbers_are_labelled_as_they_are_read_back(tmp_path: Path) -> None:
    """A type of whole numbers has 3, one of fractions 3.0; truth values have no text of their own in these files."""
    book = pr.Codebook(
        (
            pr.Variable("half", "other", (0.5, 1.0), ("few", "many"), type="double"),
            pr.Variable("yes", "other", (False, True), ("no answer", "answer"), type="bool"),
        )
    )
    schema = labelled(pa.schema([("half", pa.float64()), ("yes", pa.bool_())]), published_labels(book))
    assert schema.field("half").metadata[b"value_labels"] == b'{"0.5": "few", "1.0": "many"}'
    assert not schema.field("yes").metadata
