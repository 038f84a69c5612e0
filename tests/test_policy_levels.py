"""The figures that stand beside the limits of a policy: no rounding makes one seem to keep a limit that it misses."""

import dataclasses
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand.plan import load_plan
from postrand.plan.policy import policy_from_dict
from postrand.risk.informed import LEVELS, THRESHOLD, Spread
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.plan_figures import figures_of
from postrand.workflow.policy_check import Verdict, check_policy

CODEBOOK = """
[[variables]]
name = "hid"
role = "household"
type = "int64"
[[variables]]
name = "age"
role = "key"
categories = ["0", "1", "2", "3", "4", "5", "6", "7"]
[[variables]]
name = "area"
role = "key"
categories = ["a", "b", "c", "d"]
"""
PLAN = """
[source]
file = "people.parquet"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 4.0
[[blocks]]
variables = ["age"]
[[blocks]]
variables = ["area"]
"""


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> PlanFigures:
    folder, rng, n = tmp_path_factory.mktemp("levels"), np.random.default_rng(4), 900
    held = {"hid": np.arange(n) // 2, "age": rng.integers(0, 8, n).astype(str), "area": rng.choice([*"abcd"], n)}
    pq.write_table(pa.table(held), folder / "people.parquet")
    (folder / "codebook.toml").write_text(CODEBOOK)
    (folder / "plan.toml").write_text(PLAN)
    return figures_of(load_plan(folder / "plan.toml"))


def verdict(figures: PlanFigures, **rule: object) -> Verdict:
    [found] = check_policy(figures, policy_from_dict({"rules": [rule]})).verdicts
    return found


def test_a_figure_stands_on_its_own_side_of_the_limit(figures: PlanFigures) -> None:
    after = figures.risk("correct_matches")
    assert after is not None
    for value, shown in ((29.9988, "30"), (30.004, "30.1"), (150.4, "151")):
        limit = round(value)
        one = dataclasses.replace(after, after=value)
        changed = dataclasses.replace(
            figures, risks=tuple(one if risk.code == one.code else risk for risk in figures.risks)
        )
        found = verdict(changed, measure="correct_matches", at_most=limit)
        assert (found.after, found.is_met) == (shown, value <= limit)
    for value, shown in ((29.9988, "30"), (30.0004, "30.01")):
        changed = dataclasses.replace(figures, unit_epsilon={"household": value})
        found = verdict(changed, measure="household_epsilon", at_most=30)
        assert (found.after, found.is_met) == (shown, value <= 30)


def test_what_tables_are_worth_is_not_rounded_up_to_the_limit(figures: PlanFigures) -> None:
    least = min(one.effective_records for one in figures.one_way if one.effective_records is not None)
    found = verdict(figures, measure="effective_records", at_least=round(least + 0.5), tables="one-way")
    assert not found.is_met
    assert float(found.after.partition(" ")[0].replace(",", "")) < round(least + 0.5)
    just = float(f"{least + 0.01:.2f}")
    found = verdict(figures, measure="effective_records", at_least=just, tables="one-way")
    assert not found.is_met
    assert float(found.after.partition(" ")[0].replace(",", "")) < just


def test_any_risk_with_three_decimals_is_counted_as_persons_above_it() -> None:
    rng = np.random.default_rng(6)
    risk = np.concatenate([rng.random(2000), 1 / rng.integers(1, 40, 500), LEVELS[::7], [0.0, 1.0, 1e-9]])
    found = Spread.of(risk)
    assert found.shares == tuple(float((risk > level).mean()) for level in LEVELS)
    assert found.above == found.shares[LEVELS.index(THRESHOLD)]
    assert LEVELS[149] == 0.15


@pytest.mark.parametrize("limit", [0.15, 0.041, 0.333])
def test_a_rule_on_a_risk_takes_any_threshold(figures: PlanFigures, limit: float) -> None:
    """Before the plan the chance of a person is one over those with the same keys, counted here anew."""
    rng, n = np.random.default_rng(4), 900
    keys = list(zip(rng.integers(0, 8, n).astype(str), rng.choice([*"abcd"], n), strict=True))
    many = Counter(keys)
    share = np.mean([1 / many[key] > limit for key in keys])
    found = verdict(figures, measure="individual_risk", at_most=limit, share_above=0.5)
    assert found.limit == f"at most {100 * limit:g}% for all but 50%"
    assert float(found.before.partition("%")[0]) == pytest.approx(100 * share, rel=5e-3)
    risk = figures.risk("individual_risk")
    assert risk is not None
    after = next(one[2] for one in risk.shares if one[0] == limit)
    assert after is not None
    assert verdict(figures, measure="individual_risk", at_most=limit, share_above=after).is_met
    assert after == 0 or not verdict(figures, measure="individual_risk", at_most=limit, share_above=after * 0.99).is_met


def test_a_reason_with_a_next_step_of_its_own_has_no_other(figures: PlanFigures) -> None:
    known = figures.risk("correct_matches")
    assert known is not None
    one = dataclasses.replace(known, after=None, why="block 'a': of keys and others. Next: name all as keys.")
    changed = dataclasses.replace(figures, risks=tuple(one if r.code == one.code else r for r in figures.risks))
    found = verdict(changed, measure="correct_matches", at_most=30)
    assert found.row()["Result"] == "FAIL: it is not known: block 'a': of keys and others. Next: name all as keys"
