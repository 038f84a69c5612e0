"""A plan's budgets scaled together until its release meets a risk limit."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand.errors import UsageError
from postrand.plan import load_plan
from postrand.privacy import DifferentialPrivacy
from postrand.workflow import draft
from postrand.workflow.tuning import scaled, tune_plan
from tests.test_cli import answer, call


@pytest.fixture
def plan(tmp_path):
    rng = np.random.default_rng(0)
    n, sizes = 3000, {"age": 9, "area": 12, "job": 8}
    table: dict[str, Any] = {k: [f"{k}{v:02d}" for v in rng.geometric(0.35, n).clip(1, s)] for k, s in sizes.items()}
    table |= {"pay": rng.normal(size=n), "w": np.full(n, 20.0)}
    pq.write_table(pa.table(table), tmp_path / "survey.parquet")
    draft.initialise(tmp_path / "survey.parquet", tmp_path, {"key": tuple(sizes), "other": ("pay",), "weight": ("w",)})
    text = (tmp_path / "plan.toml").read_text(encoding="utf-8")
    head, _ = text.split("[[blocks]]", 1)
    lines = [
        '[[blocks]]\nvariables = ["age", "job"]\nprivacy = {model = "differential", epsilon = 2.0}\n',
        '[[blocks]]\nvariables = ["area"]\nprivacy = {model = "differential", epsilon = 1.0}\n',
    ]
    head = head.replace("epsilon = 3.0", "epsilon = 3.0").replace("uniform-off-diagonal", "symmetric")
    (tmp_path / "plan.toml").write_text(head + "\n".join(lines), encoding="utf-8")
    return tmp_path / "plan.toml"


def test_budgets_keep_their_ratios_and_the_rest_stays(plan):
    loaded = load_plan(plan)
    twice = scaled(loaded, 6.0)
    assert twice.privacy == DifferentialPrivacy(6.0)
    assert [b.privacy.epsilon for b in twice.blocks] == [4.0, 2.0]
    assert [(b.variables, b.structure, b.prior) for b in twice.blocks] == [
        (b.variables, b.structure, b.prior) for b in loaded.blocks
    ]


def test_a_plan_is_tuned_as_it_would_be_released(plan):
    found = tune_plan(load_plan(plan), "tau2 <= 10", draws=4)
    assert found.needed
    assert found.mechanism is not None
    by_level = {p.level: p for p in found.points}
    assert by_level[found.level].meets(10)
    assert [b.variables for b in found.mechanism.blocks] == [("age", "job"), ("area",)]
    levels = [b.matrix.epsilon for b in found.mechanism.blocks]
    assert levels == pytest.approx([found.level * 2 / 3, found.level / 3], rel=1e-6)
    above = [p for p in found.points if np.isfinite(p.level) and p.level > found.level]
    assert not any(p.meets(10) for p in above)
    same = tune_plan(load_plan(plan), "tau2 <= 10", draws=4, sampling_fraction=0.05)
    assert same.level == pytest.approx(found.level)  # every weight is 20


def test_the_command_takes_a_plan_or_a_file_and_weights(plan):
    survey = plan.parent / "survey.parquet"
    code, found = answer("tune", "--plan", plan, "--limit", "tau2 <= 10", "--draws", "3")
    assert code == 0
    assert found["needed"]
    assert 0 < found["level"] < 30
    code, found = answer("tune", survey, "--keys", "age,area,job", "--limit", "tau2 <= 100000", "--weight", "w")
    assert (code, found["needed"], found["level"]) == (0, False, None)
    result = call("tune", survey, "--keys", "age,area,job", "--limit", "tau2 <= 100000", "--weight", "w")
    assert "no perturbation is needed for this limit" in result.output
    code, found = answer("tune", "--plan", plan, "--limit", "correct matches <= 100", "--draws", "2")
    assert (code, found["measure"]) == (0, "correct_matches")
    both = ("--limit", "tau2 <= 10", "--limit", "correct matches <= 100")
    for asked in (("--plan", plan), (survey, "--keys", "age,area,job", "--weight", "w")):
        code, found = answer("tune", *asked, *both, "--draws", "2")
        assert (code, found["level"]) == (0, found["others"][0]["level"])
        assert {found["measure"], found["others"][0]["measure"]} == {"tau2", "correct_matches"}
    for words in (
        ["--limit", "tau2 <= 10"],
        [survey, "--plan", plan, "--limit", "tau2 <= 10"],
        [survey, "--keys", "age", "--limit", "tau2 <= 10"],
        [survey, "--keys", "age", "--limit", "tau2 <= 10", "--weight", "w", "--sampling-fraction", "0.1"],
    ):
        assert call("tune", *words).exit_code == 2


def test_a_plan_without_a_budget_is_refused(plan):
    loaded = load_plan(plan)
    text = plan.read_text(encoding="utf-8")
    rows = [[1 / 12 for _ in range(12)] for _ in range(12)]
    plan.write_text(text + f"matrix = {rows}\n", encoding="utf-8")
    with pytest.raises(UsageError, match="given matrix has no budget"):
        tune_plan(load_plan(plan), "tau2 <= 10")
    with pytest.raises(UsageError, match="not of the form that is wanted"):
        tune_plan(loaded, "tau9 <= 10")
