"""What a ledger would say of a plan before its release is made, and limits that are stated at a δ."""

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

from postrand.certification.series import Level
from postrand.cli import main
from postrand.errors import PrivacyError, SpecificationError
from postrand.mechanism.matrix import randomised_response
from postrand.plan.ledger_plan import ledger_of
from postrand.plan.policy import load_policy
from postrand.privacy import DifferentialPrivacy
from postrand.privacy.levels import zcdp
from postrand.release.ledger import Ledger, LedgerWarning, Terms
from postrand.release.ledger_report import outlook_lines
from postrand.release.ledger_terms import left_of
from postrand.workflow.explanation import explain
from postrand.workflow.pipeline import run
from postrand.workflow.plan_figures import figures_of
from postrand.workflow.policy_check import check_policy
from tests.test_series import WAVE, entry, ledger_of_three
from tests.unit_case import KEY, planned, survey

LEDGER = ("[unit]", '[ledger]\nfile = "p.ledger"\npopulation = "persons 2024"\n{}\n[unit]')


def with_ledger(folder, more, table):
    return planned(folder, (LEDGER[0], LEDGER[1].format(more)), table=table)


@pytest.mark.filterwarnings("ignore::postrand.SharedDrawsWarning")  # of the risks, which are not asked here
def test_design_check_and_explain_say_what_protect_will_do(tmp_path):
    """A second release with the first one's key, whose content is not known before, is refused in the same words."""
    table, folder = survey(20), tmp_path / "w"
    made = run(with_ledger(folder, "limit = 7", table), tmp_path / "one", release_key=KEY)
    level = made.certificate["series"]["total"]["epsilon"]
    plan, before = with_ledger(folder, 'limit = 7\nkind = "wave"', table), (folder / "p.ledger").read_bytes()
    with pytest.raises(PrivacyError) as refused:
        run(plan, tmp_path / "two")
    shown = CliRunner().invoke(main, ["design", "--plan", str(folder / "plan.toml"), "--json"], catch_exceptions=False)
    told = json.loads(shown.stdout)["ledger"]
    assert (told["allowed"], told["before"]["epsilon"], told["total"]["epsilon"]) == (False, level, 2 * level)
    assert told["sentences"][-1] == f"'postrand protect' would refuse the release: {refused.value.problems[0]}"
    assert "The same content with the same key" in told["sentences"][2]
    house = json.loads(before.splitlines()[1])["levels"]["household"]["epsilon"]
    assert told["units"] == {"household": pytest.approx(2 * house)}
    figures = figures_of(plan, name="plan.toml")
    (folder / "policy.toml").write_text("[[rules]]\nmeasure = 'epsilon'\nat_most = 9\n")
    checked, explained = check_policy(figures, load_policy(folder / "policy.toml")), explain(plan, figures)
    assert figures.to_dict()["ledger"] == checked.to_dict()["ledger"] == told
    assert checked.is_met  # the ledger is not part of the policy
    for page in (str(figures), str(checked), str(explained)):
        assert all(text in page for text in told["sentences"])
    assert (folder / "p.ledger").read_bytes() == before


def test_a_ledger_that_is_not_there_yet_is_looked_at_and_not_made(tmp_path):
    ledger = Ledger(tmp_path / "p.ledger")
    found = ledger.outlook(entry(1, 2.0), Terms(population="p", limit=3.0))
    assert outlook_lines(found) == (
        "The ledger of p would charge a record ε 2 for this release: so far 0, together 2.",
        "The limit, ε = 3, allows it.",
    )
    assert not ledger.path.exists()


def test_a_limit_above_that_of_an_earlier_release_is_said_and_both_are_shown(tmp_path):
    ledger = Ledger(tmp_path / "p.ledger")
    ledger.add(entry(1, 2.0), Terms(population="p", limit=3.0))
    narrow = Terms(population="p", kind="wave", limit=9.0)
    bound = "stated the limit ε = 3, and all together have ε = 4; the limit of this plan is ε = 9"
    (refused,) = ledger.outlook(entry(2, 2.0), narrow).problems
    assert bound in refused
    assert 'raise_limit = "reason" below [ledger]' in refused
    with pytest.raises(PrivacyError, match=bound):
        ledger.charge(entry(2, 2.0), narrow)
    with pytest.raises(PrivacyError, match="the limit of this plan is none"):
        ledger.charge(entry(2, 2.0), Terms(population="p", kind="wave"))
    wider = Terms(population="p", kind="wave", limit=9.0, raised="decided by the board")
    said = "stated the limit ε = 3, and all together have ε = 4; the limit of this plan is ε = 9"
    assert said in outlook_lines(ledger.outlook(entry(2, 2.0), wider))[-1]
    with pytest.warns(LedgerWarning, match=said):
        ledger.charge(entry(2, 2.0), wider)
    ledger.add(entry(2, 2.0), wider)
    shown = CliRunner().invoke(main, ["ledger", "show", str(ledger.path)]).stdout
    assert "Limit of all together, as release 1 stated it: ε = 3\n" in shown
    assert "Limit of all together, as release 2 stated it: ε = 9, raised: decided by the board\n" in shown
    later = dataclasses.replace(wider, raised="")  # the limit of the first binds no more, that of the second does
    assert ledger.outlook(entry(3, 2.0), later).problems == ()
    (refused,) = ledger.outlook(entry(3, 6.0), dataclasses.replace(later, limit=20.0)).problems
    assert "stated the limit ε = 9" in refused


def exact_delta(keep: float, times: int, epsilon: float) -> float:
    """Return the least δ at ε of randomised responses of two values, by summing over all releases of one record."""
    delta = 0.0
    for k in range(times + 1):  # k of them show the true value
        one, two = (math.comb(times, k) * p**k * (1 - p) ** (times - k) for p in (keep, 1 - keep))
        delta += max(one - math.exp(epsilon) * two, 0.0)
    return delta


def test_a_total_at_delta_is_sound_and_counts_where_it_is_smaller():
    """Oracle: the exact δ of 40 releases. Where the sum of ε is smaller, that one counts."""
    law, times, delta = randomised_response(2, 0.3), 40, 1e-6
    one = Level(law.epsilon, rho=zcdp(law))
    total = Level(0.0, 0.0, 0.0)
    for _ in range(times):
        total += one
    found = total.at(delta)
    assert found is not None
    assert total.epsilon is not None
    assert found < total.epsilon
    assert exact_delta(float(law.array[0, 0]), times, found) <= delta
    assert (one + one).at(delta) == (one + one).epsilon


def test_a_limit_at_delta_is_held_and_what_is_left_fits(tmp_path):
    ledger = Ledger(tmp_path / "p.ledger")
    for number, kind in zip(range(1, 20), itertools.chain(["first"], itertools.repeat("wave")), strict=False):
        small = entry(number, 0.5, rho=0.125)
        terms = Terms(population="panel", kind=kind, limit=5.0, delta=0.1)
        before = ledger.read().lines[-1].total if number > 1 else Level(0.0, 0.0, 0.0)
        if not terms.allows(before + small.level):
            break
        ledger.add(small, terms)
    assert before.epsilon is not None
    assert before.epsilon > 5.0  # more than the sum of ε allows
    with pytest.raises(PrivacyError, match=r"at δ = 0.1 together .*wanted at most ε = 5 at δ = 0.1"):
        ledger.charge(small, terms)
    left = left_of(before, terms)
    assert 0 < left < 0.5
    ledger.charge(entry(99, left, rho=left**2 / 2), terms)
    assert not terms.allows(before + Level(left * 1.001, 0.0, (left * 1.001) ** 2 / 2))
    with pytest.raises(PrivacyError, match="would pass the limit"):
        ledger.charge(entry(98, left), terms)  # no ρ is known: the sum of ε counts
    with pytest.raises(PrivacyError, match="would pass the limit"):
        ledger_of_three(tmp_path).charge(entry(4, 0.1, delta=1e-5), Terms("", "panel", "wave", 99.0, 1e-6))


def test_outlook_counts_what_charge_counts(tmp_path):
    ledger = ledger_of_three(tmp_path)
    for terms in (WAVE, Terms(population="panel", kind="wave", disjoint="others", limit=3.0)):
        found, charge = ledger.outlook(entry(9), terms), ledger.charge(entry(9), terms)
        assert (found.after, found.problems) == (charge.line.total, ())


@pytest.mark.parametrize(
    ("more", "words"), [({"delta": 1e-6}, "without the limit"), ({"limit": 3, "delta": 1}, "its range")]
)
def test_a_delta_is_checked(tmp_path, more, words):
    with pytest.raises(SpecificationError, match=words):
        ledger_of({"file": "p", "population": "p", **more}, tmp_path, "plan [ledger]")
    assert np.isfinite(ledger_of({"file": "p", "population": "p", "limit": 3, "delta": 1e-6}, tmp_path, "plan").delta)


def test_a_ledger_without_a_population_has_its_default(tmp_path):
    assert ledger_of({"file": "p.ledger"}, tmp_path, "[ledger]").population == ""


def test_a_level_in_quotes_is_told_to_lose_them():
    with pytest.raises(PrivacyError, match=r"got '4'; wanted a number above 0; .*\. Next: remove the quotes"):
        DifferentialPrivacy("4")


@pytest.mark.filterwarnings("default::postrand.risk.reveals.UnperturbedWarning")
def test_a_release_that_the_ledger_refuses_is_told_alone_without_warnings_of_what_is_not_made(tmp_path):
    rows = [f"{i},{'fm'[i % 2]},{i % 3},{i % 3 if i % 20 else 0}" for i in range(300)]
    (tmp_path / "people.csv").write_text("\n".join(["id,sex,area,near", *rows]) + "\n", "utf-8")
    words = ["--keys", "sex,area", "--other", "near", "--drop", "id", "--out", str(tmp_path)]
    assert CliRunner().invoke(main, ["init", str(tmp_path / "people.csv"), *words]).exit_code == 0
    plan = tmp_path / "plan.toml"
    text = plan.read_text("utf-8").replace("as_is = []", 'as_is = ["near"]')
    plan.write_text(text + '[ledger]\nfile = "p.ledger"\npopulation = "persons"\nlimit = 3\n', "utf-8")
    made = CliRunner().invoke(main, ["protect", "--plan", str(plan), "--out", str(tmp_path / "one")])
    assert (made.exit_code, "unperturbed variables reveal true values of area" in made.stdout) == (0, True), made.output
    refused = CliRunner().invoke(main, ["protect", "--plan", str(plan), "--out", str(tmp_path / "two")])
    assert refused.exit_code == 5
    assert refused.stderr.startswith("postrand: 2 problems:")
    assert "warning" not in refused.stderr
    assert "would pass the limit" in refused.stderr
