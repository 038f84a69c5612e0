"""A level that the records chose is checked with the figures of the whole plan, which 'explain' computes anew."""

import pytest

from postrand.formats import ReadSettings
from postrand.plan import load_plan
from postrand.workflow.advice import advise
from postrand.workflow.advice_codebook import codebook_for
from postrand.workflow.advice_needs import needs_from
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
    assert not any(is_met for plan in plans for text, _, _, is_met in plan.asked if "individual" in text)
