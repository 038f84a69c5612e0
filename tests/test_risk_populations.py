"""The two estimates of the register attacker, of which every page shows the larger, and a limit goes by it."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from postrand import Codebook, Mechanism, Variable, randomised_response, risk
from postrand.cli import main
from postrand.risk import loglinear, populations
from postrand.risk.cells import KeyCodes, table
from postrand.risk.exposure import TrueFile
from postrand.risk.household_limits import HouseholdLimit
from postrand.risk.informed import Spread
from postrand.risk.law import KeyLaw
from postrand.risk.weights import individual_risk
from postrand.support.measure_names import OF_ESTIMATES, OF_WEIGHTS
from postrand.support.showing import outward
from postrand.workflow.comparison_risk import RiskFigure, attackers, exposure_figures

KEYS = ("job", "age", "area")


@pytest.fixture(scope="module")
def survey():
    """A sample of one in a hundred, whose rare combinations are rare in the population too."""
    rng = np.random.default_rng(11)
    codes = {
        name: rng.geometric(share, 1500).clip(1, 12) - 1 for name, share in zip(KEYS, (0.5, 0.4, 0.4), strict=True)
    }
    home = np.arange(1500) // 2
    return KeyCodes(KEYS, (12, 12, 12), tuple(codes.values())), np.full(1500, 100.0), home


def test_a_rare_combination_has_the_risk_of_the_model(survey):
    keys, weights, home = survey
    found = TrueFile(keys, weights, home).exposure()
    each = [one(table(keys), weights) for one in populations.ByModel().estimates(keys, weights)]
    alone, by_model = each[0].max(), each[1].max()
    assert alone < 0.05 < 0.25 < by_model  # one in twenty at most, by the weights alone
    assert found.of_estimates
    assert (found.register.largest, found.register_expected) == (by_model, max(one.sum() for one in each))
    assert found.register_some.largest >= found.register.largest  # a household is found where a member is
    assert found.register_joint.largest >= found.register_some.largest


def test_after_a_release_both_are_multiplied_by_the_chance_to_stay(survey):
    keys, weights, home = survey
    laws = {name: randomised_response(12, 2.0) for name in KEYS}
    book = Codebook(tuple(Variable(name, "key", tuple("abcdefghijkl")) for name in KEYS))
    truth, stay = TrueFile(keys, weights, home), randomised_response(12, 2.0).array[0, 0] ** 3
    before, after = truth.exposure(), truth.exposure(Mechanism(laws, book))
    assert after.register.largest == pytest.approx(stay * before.register.largest)
    assert after.register_expected == pytest.approx(stay * before.register_expected)


def test_a_limit_on_households_goes_by_the_same_figure(survey):
    keys, weights, home = survey
    found = TrueFile(keys, weights, home).exposure()
    for measure, spread in (
        ("register_household_risk", found.register_some),
        ("register_joint_household_risk", found.register_joint),
    ):
        assert HouseholdLimit(measure, keys, weights, home).unperturbed()[0] == pytest.approx(spread.largest)


def test_assess_has_the_figures_of_the_other_pages(survey, tmp_path):
    keys, weights, home = survey
    frame = pd.DataFrame({name: [f"v{k:02}" for k in c] for name, c in zip(KEYS, keys.codes, strict=True)})
    frame["w"], frame["home"] = weights, home
    report = risk.assess(frame, KEYS, weight="w", household="home")
    found = TrueFile(keys, weights, home).exposure()
    register = report.readings.register
    assert (register.highest, register.average) == pytest.approx((found.register.largest, found.register.mean))
    assert report.households.some.largest == pytest.approx(found.register_some.largest)
    assert report.households.joint.largest == pytest.approx(found.register_joint.largest)
    assert OF_ESTIMATES in str(report)
    frame.to_csv(tmp_path / "s.csv", index=False)
    asked = ("--keys", ",".join(KEYS), "--weight", "w", "--household", "home", "--drop", "*", "--out", tmp_path / "p")
    for words in (("init", tmp_path / "s.csv", *asked), ("explain", tmp_path / "p" / "plan.toml")):
        done = CliRunner().invoke(main, [str(word) for word in words])
        assert not done.exit_code, done.output
    links = outward(found.register_expected)
    assert f"register attacker     {links} correct matches of all records" in str(report)
    assert f"is right for {links} of 1,500 persons" in done.output


def test_where_the_model_is_too_large_the_weights_stand_alone_and_it_is_said(survey, monkeypatch):
    keys, weights, home = survey
    monkeypatch.setattr(loglinear, "MAX_BYTES", 100)
    found = TrueFile(keys, weights, home).exposure()
    assert found.register == Spread.of(individual_risk(table(keys), weights))
    assert not found.of_estimates
    assert OF_WEIGHTS in attackers(tuple(exposure_figures(found, None, "")))
    law = KeyLaw.of(None, KEYS, keys.shape)
    limit = HouseholdLimit("register_household_risk", keys, weights, home)
    assert limit.unperturbed()[0] == limit._risk(law) == found.register_some.largest


def test_what_the_figures_rest_on_is_said_of_the_register_attacker_alone():
    one = RiskFigure("register_matches", "", 3.0, 1.0, "records", of_two=True)
    assert attackers([one]) == (OF_ESTIMATES,)
    assert attackers([dataclasses.replace(one, of_two=False)]) == (OF_WEIGHTS,)
    assert attackers([dataclasses.replace(one, before=None, after=None)]) == ()
