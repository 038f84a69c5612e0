"""A level that the records chose is checked with the figures of the whole plan, which 'explain' computes anew."""

from types import SimpleNamespace
from typing import Any

import pytest

from postrand.formats import ReadSettings
from postrand.plan import load_plan
from postrand.workflow.advice import _same_blocks, advise
from postrand.workflow.advice_codebook import codebook_for
from postrand.workflow.advice_needs import needs_from
from postrand.workflow.advice_risk import NARROW, within
from postrand.workflow.comparison import figures_of
from tests.test_advice import write

BOUND = 0.2


@pytest.fixture
def found(tmp_path):
    def of(keys):
        file = write(tmp_path / "s.parquet", records=150)
        place, book, _ = codebook_for(file, None, {"key": keys}, ReadSettings())
        needs = needs_from("acquaintance", ["epsilon <= 8", f"individual <= {BOUND}"], look=True)
        return advise(place, book, needs, tmp_path / "advice", named=keys)

    return of


def test_the_limit_is_kept_by_the_plan_as_it_is_written(found):
    plans = found(["sex", "area"]).plans
    said = [plan for plan in plans if any(why.startswith("Checked:") for why in plan.reasons)]
    assert said
    for plan in said:
        anew = figures_of(load_plan(plan.path)).risk("individual_risk_largest")
        assert anew.after is not None
        assert anew.after <= BOUND


def test_where_the_risk_leaves_out_a_key_nothing_is_said_to_be_kept(found):
    plans = found(["sex", "area", "pay"]).plans
    reasons = [why for plan in plans for why in plan.reasons]
    assert not any(why.startswith("Checked:") for why in reasons)
    assert any("Whether the whole plan keeps the limits on risk is not known" in why for why in reasons)
    assert not any(one.is_met for plan in plans for one in plan.asked if "individual" in one.text)


@pytest.mark.parametrize("largest", [0.26, 0.3, 2.47, 7.9])
def test_the_level_that_is_found_is_the_largest_to_within_a_tenth(largest):
    def made(level: float) -> Any:
        return SimpleNamespace(epsilon=level, candidate=SimpleNamespace(has_epsilon=True))

    risks: Any = SimpleNamespace(meets=lambda trial, _: trial.epsilon <= largest)
    found, met = within(made(8.0), (), risks, made)
    assert met
    assert largest / (1 + NARROW) <= found.epsilon <= largest


def test_a_way_that_is_another_one_at_a_lower_level_keeps_its_blocks_there():
    def blocks(*levels):
        return [{"variables": [str(k)], "privacy": {"epsilon": level}} for k, level in enumerate(levels)]

    data = {"source": {}, "design": {}, "release": {}, "privacy": {"epsilon": 8.0}, "blocks": blocks(6.0, 2.0)}
    trial: Any = SimpleNamespace(epsilon=8.0, data=data, candidate=SimpleNamespace(sections=lambda _: {}))
    assert _same_blocks(trial)(2.0) == {"privacy": {"epsilon": 2.0}, "blocks": blocks(1.5, 0.5)}
