"""A household survey that the tests of units share: a codebook, true records, and a plan in a folder."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from postrand import Plan, ReleaseKey
from tests.plan_case import written

KEY = ReleaseKey.from_seed(21)
CODEBOOK = """
[[variables]]
name = "hid"
role = "household"
type = "int64"
[[variables]]
name = "pid"
role = "drop"
type = "int64"
[[variables]]
name = "region"
role = "key"
categories = ["a", "b", "c", "d"]
[[variables]]
name = "tenure"
role = "sensitive"
categories = ["free", "own", "rent"]
[[variables]]
name = "sex"
role = "key"
categories = ["F", "M"]
"""
PLAN = """
[source]
file = "s.parquet"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 4.0
[unit]
household = "hid"
household_variables = ["region", "tenure"]
largest_household = 6
[[blocks]]
variables = ["region"]
[[blocks]]
variables = ["tenure"]
[[blocks]]
variables = ["sex"]
"""


def survey(households: int = 400, size: int = 0, seed: int = 1) -> pa.Table:
    """Return records of households of 1 to 6 members, or all of one ``size``, members beside each other."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, households) if size == 0 else np.full(households, size)
    of, n = np.repeat(np.arange(households), sizes), int(sizes.sum())

    def fact(labels: list[str]) -> pa.Array:
        return pa.array(np.array(labels)[rng.integers(0, len(labels), households)[of]])

    columns = {"hid": pa.array(of + 7_000), "pid": pa.array(np.arange(n))}
    columns |= {"region": fact(list("abcd")), "tenure": fact(["free", "own", "rent"])}
    return pa.table({**columns, "sex": pa.array(np.array(["F", "M"])[rng.integers(0, 2, n)])})


def planned(folder: Path, *changes: tuple[str, str], table: pa.Table | None = None) -> Plan:
    """Write survey, codebook and a changed plan into a folder, and return the plan."""
    folder.mkdir(exist_ok=True)
    pq.write_table(survey() if table is None else table, folder / "s.parquet")
    texts = {"codebook.toml": CODEBOOK, "plan.toml": PLAN}
    for old, new in changes:
        assert any(old in text for text in texts.values()), old
        texts = {name: text.replace(old, new) for name, text in texts.items()}
    return written(folder, texts["codebook.toml"], texts["plan.toml"])
