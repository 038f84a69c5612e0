"""Files whose records are nearly all alone with their keys: the weights do not tell what a register attacker finds."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.plan import load_plan
from postrand.workflow.as_is import NO_REGISTER
from postrand.workflow.comparison_risk import RiskFigure
from postrand.workflow.doubted import certain_share
from postrand.workflow.larger import by_weights, weights_smaller
from postrand.workflow.plan_figures import figures_of

RECODE = "age=born:bands:1940,1960,1980,1990;unit=year;format=%d/%m/%Y"
KEYS = ("--keys", "sex,area,age", "--recode", RECODE, "--drop", "*")
TOO_LOW = "are estimates that can be much too low"


def run(*words: object) -> str:
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert not result.exit_code, result.output
    return result.output


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    """A population of 20,000 in which a birth date, with sex and area, is nearly always one person's."""
    rng = np.random.default_rng(12)
    days = pd.to_datetime("1940-01-01") + pd.to_timedelta(rng.integers(0, 365 * 60, 20_000), unit="D")
    area = rng.integers(1, 20, 20_000)
    return pd.DataFrame({"born": days.strftime("%d/%m/%Y"), "sex": rng.choice(["f", "m"], 20_000), "area": area})


@pytest.fixture(scope="module")
def plan(people, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sparse")
    people.sample(1_000, random_state=1).assign(w=20).to_csv(folder / "s.csv", index=False)
    run("init", folder / "s.csv", *KEYS, "--weight", "w", "--out", folder / "plan")
    return folder / "plan" / "plan.toml"


def test_the_register_attacker_s_figures_of_a_sparse_file_are_not_told(plan, people):
    found = figures_of(load_plan(plan))
    truth = (1 / people.groupby([*people]).born.transform("size")).mean()
    assert truth > 0.98  # who is found by exact values is nearly everybody, where weights of 20 would say 16%
    assert not [code for code in found.as_is if code.startswith("register")]
    assert found.as_is["correct_matches"] > 990
    assert NO_REGISTER in found.risk_notes
    register = found.risk("register_matches")
    assert register is not None
    assert register.before is not None
    assert register.before < 1_000 / 5
    text = run("explain", plan)
    assert "- Tell a board that before recoding the register attacker can find up to all records: " in text
    assert "a register of the population" in text  # of the recoded file


def test_the_register_attacker_of_a_whole_population_knows_who_is_in_the_file(people, tmp_path):
    people[:1_000].to_csv(tmp_path / "s.csv", index=False)
    run("init", tmp_path / "s.csv", *KEYS, "--out", tmp_path / "plan")
    plan = tmp_path / "plan" / "plan.toml"
    found = figures_of(load_plan(plan), fraction=1.0)
    assert found.as_is["register_matches"] == found.as_is["correct_matches"]  # both have the file itself
    assert NO_REGISTER not in found.risk_notes
    text = run("explain", plan, "--sampling-fraction", 1)
    assert "a register of the population, which is the file, and so knows who is in it, and links" in text
    assert "does not know who is in the file" not in text
    assert "Tell a board" not in text


def test_figures_by_weights_are_doubted_where_many_records_are_alone():
    def told(alone: float, tau2: float) -> tuple[str, ...]:
        codes = {"individual_risk": alone, "register_matches": 9.0, "tau2": tau2}
        return by_weights(RiskFigure(code, code, value, 0.1, "") for code, value in codes.items())

    assert TOO_LOW in told(0.5, 4.0)[0]
    assert "Give a board the informed attacker's figures in their place" in told(0.5, 4.0)[0]
    assert told(0.3, 4.0) == ()
    assert told(0.5, 12.0) == ()  # two estimates contradict each other, and that is said
    assert by_weights([RiskFigure("individual_risk", "", 0.9, 0.1, "")]) == ()


@pytest.fixture(scope="module")
def sparse(people, tmp_path_factory):
    """A plan whose recoded keys still leave most records alone: the weights put the register's links far too low."""
    folder = tmp_path_factory.mktemp("alone")
    years = people.assign(year=people.born.str[-4:])[["year", "sex", "area"]]
    small = np.random.default_rng(6).integers(20, 90, len(years))
    rare = years.assign(area=np.where(years.index % 2 == 0, years.area, small))  # half live where few do
    sampled = rare.sample(800, random_state=2)
    sampled.assign(w=25).to_csv(folder / "s.csv", index=False)
    run("init", folder / "s.csv", "--keys", "year,sex,area", "--weight", "w", "--out", folder / "plan")
    text = (folder / "plan" / "plan.toml").read_text()
    (folder / "plan" / "plan.toml").write_text(re.sub(r"epsilon = [0-9.]+", "epsilon = 9.0", text, count=1))
    size = rare.groupby([*rare])["sex"].transform("size")
    return folder / "plan" / "plan.toml", float((1 / size[sampled.index]).sum())


def risk(path: Path, code: str) -> tuple[RiskFigure, RiskFigure]:
    """Return a doubted measure of a plan, and its bound."""
    one = figures_of(load_plan(path)).risk(code)
    assert one is not None
    assert one.bound is not None
    return one, one.bound


def sides(one: RiskFigure) -> tuple[float, float]:
    assert one.before is not None
    assert one.after is not None
    return one.before, one.after


def test_the_upper_bound_of_a_doubted_figure_is_above_what_a_register_finds(sparse):
    path, true = sparse
    register, bound = risk(path, "register_matches")
    (before, after), (_, most) = sides(register), sides(bound)
    assert before < true / 2  # the weights alone are far too low
    assert most >= true * after / before  # the share that a release leaves right is that of both
    assert after < most
    assert register.to_dict()["after_at_most"] == most
    again = RiskFigure.from_dict(json.loads(json.dumps(register.to_dict())))  # as the workbench reads a dossier
    assert (again.to_dict(), again.bound.after) == (register.to_dict(), most)
    links = figures_of(load_plan(path)).risk("correct_matches")
    assert links is not None
    assert links.bound is None


def test_no_limit_is_met_by_a_figure_that_can_be_too_low(sparse, tmp_path):
    path, _ = sparse
    after, most = (sides(one)[1] for one in risk(path, "register_matches"))
    expected = {(after + most) / 2: "not known", 2 * most: "pass", after / 2: "FAIL"}
    for limit, said in expected.items():
        (tmp_path / "policy.toml").write_text(f'[[rules]]\nmeasure = "register_matches"\nat_most = {limit}\n')
        done = CliRunner().invoke(main, ["check", "--plan", str(path), "--policy", str(tmp_path / "policy.toml")])
        line = next(line for line in done.output.splitlines() if "register attacker, all records" in line)
        assert said in line
        assert done.exit_code == (0 if said == "pass" else 11)
        assert ("it is an estimate that can be much too low" in line) == (said == "not known")
        assert (" at most " in line.partition("at most")[2]) == (said == "pass")


def test_shares_above_a_level_are_compared_by_their_bounds(sparse):
    one, bound = risk(sparse[0], "register_risk")
    level = one.shares[0][0]
    assert certain_share(one, level, 1.0) == bound.shares[0][2]
    assert certain_share(dataclasses.replace(one, bound=None), level, 1.0) == one.shares[0][2]


def test_advise_shows_tau2_where_the_register_s_figures_are_doubted(sparse, tmp_path):
    frame = pd.read_csv(sparse[0].parent.parent / "s.csv")
    frame.assign(year="y" + frame.year.astype(str), area="a" + frame.area.astype(str)).to_csv(
        tmp_path / "s.csv", index=False
    )
    words = ("--attacker", "list", "--limit", "epsilon <= 6", "--limit", "register_matches <= 60")
    asked = ("--keys", "year,sex,area", "--weight", "w", *words, "--drop", "*")
    told = run("advise", tmp_path / "s.csv", *asked, "--out", tmp_path / "a")
    assert "(τ2)" in told
    assert "Asked: register_matches <= 60: not known: it is an estimate" in told  # of a split
    assert re.search("Asked: register_matches <= 60: met \\([0-9.]+ at most;", told)


def test_a_risk_is_larger_where_its_figures_are():
    (one,) = weights_smaller([RiskFigure("register_risk", "Mean", 0.36, 0.1, "share")], {"register_risk": 0.34})
    assert one.startswith("Mean: larger in the recoded file")
    assert weights_smaller([RiskFigure("register_risk", "", 0.3401, 0.1, "share")], {"register_risk": 0.34}) == ()


def test_a_recoded_number_that_singles_out_is_not_released_and_every_way_is_tried(tmp_path):
    """Its ranks would be those of the recoded values, so that no plan can move it too."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], 500), "area": rng.integers(1, 5, 500).astype(str)})
    frame["pay"] = np.round(rng.lognormal(8, 0.5, 500), 0).astype(int)
    frame.to_csv(tmp_path / "s.csv", index=False)
    roles = ("--keys", "sex,area", "--other", "pay", "--recode", "pay=top:6000")
    run("init", tmp_path / "s.csv", *roles, "--out", tmp_path / "first")
    told = run("advise", tmp_path / "s.csv", "--codebook", tmp_path / "first/codebook.toml", "--out", tmp_path / "a")
    assert "pay is not released: recoded so, it singles out" in told
    assert "choose wider bands or a coarser rounding" in told


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%Y%m%d"])
def test_the_form_of_dates_that_is_proposed_is_theirs(form, tmp_path):
    days = pd.date_range("1950-01-13", periods=300, freq="41D").strftime(form)
    pd.DataFrame({"born": days, "sex": ["f", "m"] * 150}).to_csv(tmp_path / "s.csv", index=False)
    words = (
        "init",
        tmp_path / "s.csv",
        "--keys",
        "sex",
        "--recode",
        "age=born:bands:1950,1970",
        "--out",
        tmp_path / "o",
    )
    done = CliRunner().invoke(main, [str(word) for word in words])
    numbers = form == "%Y%m%d"  # which are read as numbers, and put into the last band
    assert done.exit_code == (0 if numbers else 4)
    assert numbers or f";format={form}" in done.output.replace("\n", " ")


def test_three_variables_of_a_split_are_told_with_the_records_that_show_them(plan, tmp_path):
    """Counted from the subsets of the plan that is written: each triple's chance is the sum of theirs."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({n: rng.integers(0, 4, 2_000).astype(str) for n in "abcde"})
    frame.to_csv(tmp_path / "s.csv", index=False)
    told = run(
        "advise",
        tmp_path / "s.csv",
        "--keys",
        "a,b,c,d,e",
        "--limit",
        "epsilon <= 4",
        "--use",
        "models",
        "--out",
        tmp_path / "p",
    )
    assert "three perturbed variables are shown together by about" in told
    run("protect", "--plan", tmp_path / "p/plan-1.toml", "--out", tmp_path / "r")
    stated = json.loads((tmp_path / "r/mechanism.json").read_text())["split"]["subsets"]
    law = [({*one["variables"]}, one["weight"] / 2**53) for one in stated]
    triples = [{a, b, c} for a in "abcde" for b in "abcde" for c in "abcde" if a < b < c]
    shares = [sum(p for names, p in law if triple <= names) for triple in triples]
    (share,) = {round(one, 9) for one in shares}
    assert f"together by about {2000 * share:,.0f} of 2,000 records; " in told
    said = re.search("three perturbed variables are shown together by .*", told)
    assert said is not None
    assert f"- T{said[0][1:]}." in run("explain", tmp_path / "p/plan-1.toml")
    pairs = [sum(p for names, p in law if {a, b} <= names) for a in "abcde" for b in "abcde" if a < b]
    on = "models: met on the records that show all variables of the model: with two perturbed ones, by about"
    assert f"  Asked: {on} {2000 * max(pairs):,.0f} of 2,000 records, worth " in told
