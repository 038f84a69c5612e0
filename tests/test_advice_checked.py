"""A level that the records chose is checked with the figures of the whole plan, which 'explain' computes anew."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import postrand as pr
from postrand.codebook.survey_design import SurveyDesign
from postrand.formats import ReadSettings
from postrand.plan import load_plan
from postrand.risk.split_law import SplitLaw
from postrand.support.measure_names import LEARNS, OF_TWO
from postrand.workflow.advice import _same_blocks, advise
from postrand.workflow.advice_codebook import codebook_for
from postrand.workflow.advice_needs import needs_from
from postrand.workflow.advice_risk import NARROW, within
from postrand.workflow.plan_figures import figures_of
from tests.test_advice import write

BOUND = 0.2


@pytest.fixture
def found(tmp_path):
    def of(keys):
        file = write(tmp_path / "s.parquet", records=150)
        place, book, _ = codebook_for(file, None, {"key": keys}, ReadSettings())
        needs = needs_from("informed", ["epsilon <= 8", f"individual <= {BOUND}"], look=True)
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


@pytest.mark.parametrize("attacker", ["register", "anyone"])
def test_plans_keep_the_survey_design_of_the_codebook(tmp_path, attacker):
    """Its columns stay as they are: also replicate weights, which are numbers that single out every record."""
    random, n = np.random.default_rng(2), 400
    columns = {"sex": random.choice(["f", "m"], n), "area": random.choice(["a", "b", "c"], n)}
    columns |= {"stratum": np.sort(random.integers(0, 4, n)), "village": np.arange(n) // 10}
    columns |= {name: random.lognormal(3, 0.3, n) for name in ("w", "w1", "w2")}
    pq.write_table(pa.table(columns), tmp_path / "s.parquet")
    roles = {"key": ["sex", "area"], "weight": ["w"], "other": ["stratum", "village", "w1", "w2"]}
    place, book, _ = codebook_for(tmp_path / "s.parquet", None, roles, ReadSettings())
    for k, design in enumerate(
        (
            SurveyDesign(weights="w", strata="stratum", psu="village"),
            SurveyDesign(weights="w", replicates=("w1", "w2"), method="jk1"),
        )
    ):
        recorded = dataclasses.replace(book, survey=design)
        found = advise(place, recorded, needs_from(attacker, ["epsilon <= 4"]), tmp_path / f"advice{k}")
        assert any("the survey design of the codebook stays" in note for note in found.notes)
        for plan in found.plans:
            written = load_plan(plan.path)
            assert written.codebook.survey == design
            assert not {*design.columns} & {*written.perturbed, *(v for n in written.numerical for v in n.variables)}
    text = plan.path.read_text().replace("release_ids = false", 'release_ids = false\nas_is = ["w", "w1", "w2"]')
    plan.path.write_text(text)
    pr.run(load_plan(plan.path), tmp_path / "release")
    assert pr.read_release(tmp_path / "release").codebook.survey == design


def test_what_the_informed_attacker_knows_is_said_of_each_plan(tmp_path, monkeypatch):
    """Where one knowledge is tried of a split, and of blocks the larger of two, the notes name the plans."""
    tried = {True: ("matrix",), False: ("matrix", "keys")}
    monkeypatch.setattr("postrand.risk.informed.knowledges", lambda law, *_: tried[isinstance(law, SplitLaw)])
    sizes = {"sex": 2, "area": 8, "work": 9, "edu": 5}
    file = write(tmp_path / "s.parquet", sizes=sizes)
    place, book, _ = codebook_for(file, None, {"key": [*sizes]}, ReadSettings())
    found = advise(place, book, needs_from(None, ["epsilon <= 6"]), tmp_path / "advice")
    splits = {str(k) for k, plan in enumerate(found.plans, 1) if plan.trial.plan.split is not None}
    others = {str(k) for k, plan in enumerate(found.plans, 1)} - splits
    said = {text: [n for n in found.notes if n.endswith(text)] for text in (LEARNS, OF_TWO)}
    for text, numbers in ((LEARNS, splits), (OF_TWO, others)):
        assert len(said[text]) == bool(numbers)
        if splits and others:
            assert {*said[text][0].partition(": ")[0].split(" ", 1)[1].split(", ")} == numbers
    assert splits
    assert others
    assert any("rest on different knowledge" in note for note in found.notes)
