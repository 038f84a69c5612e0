"""One small file, its codebook and a plan with a split, and the release of it that tests read and forge."""

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import postrand as pr
from postrand.plan import load_plan
from postrand.support.randomness import ReleaseKey
from postrand.workflow import pipeline
from tests.conftest import ROOT

KEPT = ROOT / "tests" / "fixtures" / "releases" / "3" / "split"
UNIT = 2**53
KEY = ReleaseKey.from_seed(3)
NAMES = ("sex", "age", "ill", "area")
BOOK = """
rules = [{ age = 10, ill = true }]
[[variables]]
name = "id"
role = "record_key"
type = "int64"
[[variables]]
name = "sex"
role = "key"
categories = ["F", "M"]
label = "Sex"
[[variables]]
name = "age"
role = "key"
type = "int64"
categories = [10, 20, 30]
missing = "category"
[[variables]]
name = "ill"
role = "sensitive"
type = "bool"
categories = [false, true]
[[variables]]
name = "area"
role = "key"
categories = ["a", "b", "c"]
[[variables]]
name = "town"
role = "other"
categories = ["x", "y"]
[[variables]]
name = "weight"
role = "weight"
type = "double"
"""
PLAN = """
[source]
file = "survey.parquet"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 3.0
[split]
variables = ["sex", "age", "ill", "area"]
epsilon = 2.0
max_cells = 16
[[blocks]]
variables = ["town"]
[release]
as_is = ["weight"]
"""


def survey(rows: int = 3000) -> pa.Table:
    rng = np.random.default_rng(8)

    def pick(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array([values[i] for i in rng.integers(0, len(values), rows)], kind)

    table = pa.table(
        {
            "id": pa.array(rng.permutation(rows)),
            "sex": pick(["F", "M", "M", "M", "M", "M"], pa.string()),
            "age": pick([10, *[20] * 8, 30, None], pa.int64()),
            "ill": pick([False, False, False, False, True], pa.bool_()),
            "area": pick([*"aaaaaaaaabc"], pa.string()),
            "town": pick(["x", "y"], pa.string()),
            "weight": pa.array(rng.permutation(rows) / 8),
        }
    )
    bad = np.array([a == 10 and i for a, i in zip(table["age"].to_pylist(), table["ill"].to_pylist(), strict=True)])
    return table.filter(pa.array(~bad))


def load_book() -> pr.Codebook:
    return pr.Codebook.from_dict(tomllib.loads(BOOK))


def count(table: pa.Table, book: pr.Codebook, names: tuple[str, ...]) -> np.ndarray:
    found = np.zeros([book[name].size for name in names])
    places = [{**{v: k for k, v in enumerate(book[n].categories)}, None: len(book[n].categories)} for n in names]
    for row in zip(*(table[name].to_pylist() for name in names), strict=True):
        found[tuple(place[value] for place, value in zip(places, row, strict=True))] += 1
    return found


def law_of(root: Path) -> dict[str, Any]:
    return json.loads((root / "mechanism.json").read_text())


def make_release(root: Path) -> Path:
    """Write a release of the plan, with the tables of the file as prior, and return the folder with all its inputs."""
    pq.write_table(survey(), root / "survey.parquet")
    (root / "codebook.toml").write_text(BOOK)
    (root / "plan.toml").write_text(PLAN.replace("max_cells = 16", 'max_cells = 16\nprior = "file"'))
    (root / "key").write_text(bytes(range(32)).hex())
    (root / "key").chmod(0o600)
    pipeline.run(load_plan(root / "plan.toml"), root / "release", release_key=bytes(range(32)))
    return root
