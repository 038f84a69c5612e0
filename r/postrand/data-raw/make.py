"""Make the releases in ``inst/extdata``, and the values of ``tests/golden.json``: ``python make.py``.

``survey`` was drawn by villages in strata; sex, region and a joint block of age and job are perturbed. Of ``split``
each record shows two of three variables. ``completed`` are copies of ``survey``.
"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

import postrand as pr
from postrand import estimate
from postrand.release.completed_files import write_folder

PACKAGE = Path(__file__).resolve().parent.parent
EXTDATA, GOLDEN = PACKAGE / "inst" / "extdata", PACKAGE / "tests" / "golden.json"
RECORDS = 480
CODEBOOK = """
[[variables]]
name = "sex"
role = "key"
categories = ["F", "M"]
labels = ["Female", "Male"]
[[variables]]
name = "region"
role = "key"
categories = ["n", "e", "s"]
missing = "category"
[[variables]]
name = "age"
role = "key"
categories = ["child", "adult", "old"]
[[variables]]
name = "job"
role = "sensitive"
categories = ["none", "worker", "lawyer"]
[[variables]]
name = "pay"
role = "other"
type = "double"
missing = "keep"
[[variables]]
name = "ill"
role = "other"
categories = [0, 1]
type = "int64"
[[variables]]
name = "area"
role = "other"
categories = ["town", "country"]
[[variables]]
name = "village"
role = "other"
type = "int64"
[[variables]]
name = "weight"
role = "weight"
type = "double"
[[rules]]
age = "child"
job = ["worker", "lawyer"]
"""
START = """
[source]
file = "people.csv"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 12.0
[release]
as_is = ["pay", "village", "weight", "area", "ill"]
[metadata]
title = "People"
"""
SURVEY = (
    START
    + """
[[blocks]]
variables = ["sex"]
[[blocks]]
variables = ["region"]
[[blocks]]
variables = ["age", "job"]
"""
)
SPLIT = (
    START.replace(', "ill"]', "]")
    + """
[split]
variables = ["sex", "region", "ill"]
epsilon = 6.0
max_cells = 8
workload = [["sex", "region"], ["sex", "ill"]]
[[blocks]]
variables = ["age", "job"]
"""
)
DESIGN = '[survey]\nweights = "weight"\nstrata = "area"\npsu = "village"\n'
ASKED: dict[str, dict[str, Any]] = {
    "survey": {
        "table": ["region", "sex"],
        "joint": ["job", "sex", "area"],
        "mean": ("pay", ["sex"]),
        "linear": "pay ~ sex + area",
        "logistic": "ill ~ sex + pay",
    },
    "split": {
        "table": ["region", "sex"],
        "joint": ["job", "sex"],
        "mean": ("pay", ["sex"]),
        "linear": "pay ~ sex + area",
        "logistic": "ill ~ sex",
    },
}


def people() -> pa.Table:
    """Return the confidential records."""
    rng = np.random.default_rng(7)
    village = np.arange(RECORDS) // 20
    age = rng.integers(3, size=RECORDS)
    job = np.where(age == 0, 0, rng.integers(3, size=RECORDS))
    sex = rng.integers(2, size=RECORDS)
    pay = np.round(20 + 4 * sex + rng.normal(size=24)[village] + 3 * rng.normal(size=RECORDS), 1)
    texts = {"sex": ("F", "M"), "region": ("n", "e", "s", None), "age": ("child", "adult", "old")}
    codes = {"sex": sex, "region": rng.integers(4, size=RECORDS), "age": age}
    columns = {name: pa.array([texts[name][k] for k in codes[name]]) for name in texts}
    columns["job"] = pa.array([("none", "worker", "lawyer")[k] for k in job])
    columns["pay"] = pa.array([None if k % 97 == 5 else float(x) for k, x in enumerate(pay)])
    columns["ill"] = pa.array((rng.random(RECORDS) < 0.2 + 0.3 * sex).astype(int))
    columns["area"] = pa.array([("town", "country")[k % 2] for k in village])
    columns["village"] = pa.array(village + 1)
    columns["weight"] = pa.array(np.array([1.0, 1.5, 2.0, 1.25])[village % 4])
    return pa.table(columns)


def make(out: Path) -> None:
    """Write the releases into a folder; the key is made from a seed, as an example may be."""
    key = pr.ReleaseKey.from_seed(5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pacsv.write_csv(people(), folder / "people.csv")
        for plan, design in (("survey", DESIGN), ("split", "")):
            (folder / "codebook.toml").write_text(CODEBOOK + design, "utf-8")
            (folder / f"{plan}.toml").write_text({"survey": SURVEY, "split": SPLIT}[plan], "utf-8")
            pr.run(pr.load_plan(folder / f"{plan}.toml"), out / plan, release_key=key)
    release = pr.read_release(out / "survey")
    write_folder(out / "completed", release, pr.complete(release, copies=5, seed=1, classes=8, sweeps=300))


def golden() -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return what Python estimates from the releases."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for name, questions in ASKED.items():
        release = pr.read_release(EXTDATA / name)
        frame, law, design = release.frame(), release.mechanism, release.codebook.survey
        answers: dict[str, Any] = {
            kind: estimate.table(frame, questions[kind], law, design=design) for kind in ("table", "joint")
        }
        answers["mean"] = estimate.mean(frame, questions["mean"][0], law, by=questions["mean"][1], design=design)
        for kind in ("linear", "logistic"):
            answers[kind] = estimate.regression(questions[kind], frame, law, kind, design=design)
        found[name] = {
            kind: {"estimate": one.value.ravel().tolist(), "standard_error": one.standard_error.ravel().tolist()}
            for kind, one in answers.items()
        }
    return found


if __name__ == "__main__":
    for kept in ("survey", "split", "completed"):
        shutil.rmtree(EXTDATA / kept, ignore_errors=True)
    make(EXTDATA)
    GOLDEN.write_text(json.dumps(golden(), indent=1) + "\n", "utf-8")
