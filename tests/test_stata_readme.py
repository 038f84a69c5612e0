"""What the README of a split release in Stata's format says of its codes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import postrand as pr
from tests.plan_case import written

BOOK = "".join(f'[[variables]]\nname = "{name}"\nrole = "key"\ncategories = ["a", "b", "c"]\n' for name in "xyz")
PLAN = """
[source]
file = "s.parquet"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 3.0
[release]
format = "FORMAT"
[split]
variables = ["x", "y", "z"]
workload = "pairs"
max_cells = 9
"""


@pytest.mark.parametrize("kind", ["dta", "parquet"])
def test_stata_users_are_told_what_the_codes_are(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(1)
    pa.parquet.write_table(pa.table({n: rng.choice(["a", "b", "c"], 600) for n in "xyz"}), tmp_path / "s.parquet")
    plan = written(tmp_path, BOOK, PLAN.replace("FORMAT", kind))
    pr.run(plan, tmp_path / "r", release_key=pr.ReleaseKey.from_seed(1))
    text = " ".join((tmp_path / "r" / "README.txt").read_text("utf-8").split())
    told = "In Stata it is the missing code with this label, .n as a rule; . alone is a missing value."
    assert (told in text) == (kind == "dta")
    if kind == "dta":
        with pd.read_stata(tmp_path / "r" / "data.dta", iterator=True) as reader:
            assert "(not released)" in str(reader.value_labels())
    assert pr.verify(tmp_path / "r").verdict == "verified"
