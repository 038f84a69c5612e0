"""A key without categories that leaves as it is: no figure of risk has it, so a plan must decide."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import postrand as pr
from postrand.errors import SpecificationError
from postrand.plan.infer import ALL_MISSING
from postrand.workflow.draft_decisions import decision_notes
from postrand.workflow.unperturbed import findings

BOOK = """
[[variables]]
name = "sex"
role = "key"
categories = ["F", "M"]
[[variables]]
name = "born"
role = "key"
type = "int64"
"""
PLAN = """
[source]
file = "s.parquet"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 3.0
[[blocks]]
variables = ["sex"]
"""


def plan(folder: Path, more: str = "") -> pr.Plan:
    rng = np.random.default_rng(1)
    held = {"sex": rng.choice(["F", "M"], 4_000), "born": rng.integers(1930, 2010, 4_000)}
    pa.parquet.write_table(pa.table(held), folder / "s.parquet")
    (folder / "codebook.toml").write_text(BOOK)
    (folder / "plan.toml").write_text(PLAN + more)
    return pr.load_plan(folder / "plan.toml")


def test_a_key_without_categories_that_leaves_as_it_is_must_be_decided(tmp_path: Path) -> None:
    made = plan(tmp_path)
    assert findings(made).undecided == ("born",)
    told = r"keys without categories are released unperturbed, and no figure of risk has them: born\. Next: put each "
    told += r"into bands .* or name it in \[release\] as_is = \[\"born\"\]"
    with pytest.raises(SpecificationError, match=told):
        pr.run(made, tmp_path / "r", release_key=pr.ReleaseKey.from_seed(1))
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    "decision",
    [
        '[release]\nas_is = ["born"]\n',
        '[[numerical]]\nvariables = ["born"]\nmethod = { model = "rank-blocks", k = 200 }\n',
    ],
)
def test_one_that_is_decided_leaves(tmp_path: Path, decision: str) -> None:
    made = plan(tmp_path, decision)
    assert not findings(made).undecided
    pr.run(made, tmp_path / "r", release_key=pr.ReleaseKey.from_seed(1))
    assert pr.verify(tmp_path / "r").verdict == "verified"


def test_the_first_plan_says_what_can_be_decided() -> None:
    drafts: list[dict[str, Any]] = [
        {"name": "born", "role": "key", "notes": []},
        {"name": "sex", "role": "key", "categories": ["F"], "notes": []},
    ]
    notes = "\n".join(decision_notes({}, {}, drafts))
    assert notes.startswith("Keys without categories are released unperturbed, and no figure of risk has them.")
    assert notes.endswith("To decide: born.")
    assert "Keys without" not in "\n".join(decision_notes({"born": 0.5}, {}, drafts))
    empty = [{**drafts[0], "notes": [ALL_MISSING]}]
    assert decision_notes({}, {}, empty) == []
