"""Plans beside a file with suppressed values: the same measures of risk and of loss, against counts by hand."""

import dataclasses
import itertools
import json
import shutil

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.stats import nbinom

from postrand.alternatives.claims import Claims
from postrand.cli import main
from postrand.codebook import Variable
from postrand.errors import DataError, ReleaseError, UsageError
from postrand.plan import load_plan
from postrand.plan.infer import load_codebook
from postrand.risk.reveals import UnperturbedWarning
from postrand.support import warned
from postrand.support.measure_names import OF_ESTIMATES
from postrand.workflow.alternative_files import microaggregate_file, suppress_file
from postrand.workflow.beside import compared

N, KEYS = 400, ("sex", "age", "area")
ROLES = ("--keys", "sex,age,area", "--weight", "w", "--sensitive", "health", "--other", "pay")


def records() -> pd.DataFrame:
    rng = np.random.default_rng(8)
    age = rng.integers(15, 75, N).astype(str)
    return pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], N),
            "age": age,
            "area": rng.choice(["n", "s", "w", "x"], N, p=[0.6, 0.25, 0.13, 0.02]),
            "health": rng.choice(["good", "fair"], N),
            "pay": rng.choice(["low", "high"], N),
            "w": np.full(N, 30),
        }
    )


def run(*words: object) -> str:
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert not result.exit_code, result.output
    return result.output


def bands(frame: pd.DataFrame) -> pd.DataFrame:
    labels = ["0-29", "30-49", "50+"]
    return frame.assign(age=pd.cut(frame["age"].astype(int), [0, 30, 50, 200], right=False, labels=labels).astype(str))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("beside")
    records().to_csv(found / "people.csv", index=False)
    run("init", found / "people.csv", "--recode", "age=bands:0,30,50", *ROLES, "--out", found / "plan")
    return found


@pytest.fixture(scope="module")
def suppressed(folder):
    out, book = folder / "suppressed", load_codebook(folder / "plan" / "codebook.toml")
    suppress_file(folder / "people.csv", out, KEYS, 5, codebook=book, seconds=5)
    return out


@pytest.fixture(scope="module")
def found(folder, suppressed):
    return compared([load_plan(folder / "plan" / "plan.toml"), suppressed], ["plan", "suppressed"])


def test_risks_are_those_of_the_classes_that_are_released(found, suppressed):
    plan, own = found.plans
    held = pd.read_csv(suppressed / "data.csv", dtype=str).fillna("suppressed")
    sizes = held.groupby([*KEYS])["sex"].transform("size").to_numpy()
    assert own.risk("correct_matches").after == pytest.approx((1 / sizes).sum())
    assert own.risk("individual_risk").after == pytest.approx((1 / sizes).mean())
    assert own.risk("individual_risk_largest").after == pytest.approx(1 / sizes.min())
    assert own.risk("k").after == sizes.min() >= 5
    for k in (2, 3, 5, 10):
        assert own.risk(f"below_{k}").after == pytest.approx((sizes < k).mean())

    # of a class with f records of weight 30: E(1/F | f), F − f negative binomial; f draws of chance 1/30
    def inverse(f: int) -> float:
        more = np.arange(20_000)
        return float((nbinom.pmf(more, f, 1 / 30) / (f + more)).sum())

    classes = {size: inverse(size) for size in {*sizes}}
    assert own.risk("register_matches").after == pytest.approx(sum(classes[size] for size in sizes), rel=1e-6)
    for one in plan.risks:
        same = own.risk(one.code)
        assert (same.before, same.measure, same.unit) == (one.before, one.measure, one.unit)
    assert (own.risk("tau1").after, own.risk("tau2").after) == (0, 0)  # no record is alone in what is released
    assert own.risk("household_risk").after is None
    assert own.risk("correct_matches_uniques").after is None
    assert own.risk("correct_matches_uniques").why


def test_worth_is_what_the_records_give_that_show_a_table(found, suppressed):
    own = found.plans[1]
    true, held = bands(records()), pd.read_csv(suppressed / "data.csv", dtype=str)
    told = {one.variables: one.effective_records for one in (*own.one_way, *own.two_way)}
    assert {*told} == {*((name,) for name in KEYS), *itertools.combinations(KEYS, 2)}
    for names, worth in told.items():
        shown = held.dropna(subset=[*names])
        p, q = (one.groupby([*names]).size() / len(one) for one in (true, shown))
        assert {*q.index} <= {*p.index}
        squares = ((p - q.reindex(p.index, fill_value=0)) ** 2).sum()
        assert worth == pytest.approx(1 / (1 / N + squares / (1 - (p**2).sum())))
    assert min(told.values()) < 0.9 * N
    assert max(told.values()) <= N


def test_what_is_not_told_of_answers_counts_for_no_worth(folder, tmp_path):
    """Records whose value means no answer are missing in the folder, and left out before too."""
    frame = records()
    frame.loc[::4, "area"] = "none"
    frame.to_csv(tmp_path / "people.csv", index=False)
    run("init", tmp_path / "people.csv", "--recode", "age=bands:0,30,50", *ROLES, "--out", tmp_path / "plan")
    book = tmp_path / "plan" / "codebook.toml"
    book.write_text(book.read_text().replace('name = "area"', 'name = "area"\nmissing_codes = ["none"]'))
    run("suppress", tmp_path / "people.csv", "--codebook", book, "--k", 2, "--seconds", 5, "--out", tmp_path / "s")
    _, own = compared([load_plan(tmp_path / "plan" / "plan.toml"), tmp_path / "s"], ["plan", "s"]).plans
    worth = next(one for one in own.one_way if one.variables == ("area",)).effective_records
    assert worth is not None
    assert worth <= N * 3 / 4


def test_plans_beside_a_folder_have_the_worth_of_the_same_frequencies(found):
    plan = found.plans[0]
    text, name = str(found), "  sex "
    line = next(line for line in text.splitlines() if line.startswith(name))
    own = next(one for one in plan.own if one.variables == ("sex",))
    assert f"{own.effective_records:,.0f}" in line
    assert "Worth, in unperturbed records, with this file's own frequencies" in text
    of_plan = text.partition("plan: ")[2]  # not of both
    assert "The informed attacker knows the keys of the person" in of_plan
    assert json.loads(json.dumps(found.to_dict()))["plans"][1]["epsilon"] is None


def test_the_order_of_plans_and_folders_changes_no_figure(folder, suppressed, found):
    plan = load_plan(folder / "plan" / "plan.toml")
    again = compared([suppressed, plan], ["suppressed", "plan"])
    assert [one.to_dict() for one in again.plans] == [one.to_dict() for one in reversed(found.plans)]


def test_it_is_said_how_the_columns_beside_the_keys_leave(folder, found, tmp_path):
    """A list that is the same as the plan's is no setting that differs: the claims have it."""
    beside = "Released as in the file, with no protection of their own: health, pay, w."
    for part in ("Released with some values suppressed: sex, area; age (recoded first).", beside):
        assert f"- {part}" in str(found)
    claims = str(found).partition("\nKeys that the attackers know")[0]
    assert claims.count("Released as in the file, with no protection of their own: ") == len(found.plans)
    assert "not the true values of health, pay, w." in "".join(found.plans[1].attackers)
    frame = records().assign(hours=np.arange(N) % 5 * 12)
    frame.to_csv(tmp_path / "people.csv", index=False)
    bands = ("--recode", "age=bands:0,30,50", "--recode", "hours=bands:0,20,40")
    run("init", tmp_path / "people.csv", *bands, *ROLES[:-1], "pay,hours", "--out", tmp_path / "plan")
    plan, book = tmp_path / "plan" / "plan.toml", load_codebook(tmp_path / "plan" / "codebook.toml")
    left = tuple(one for one in book.recodes if one.variable != "hours")
    held = tuple(Variable("hours", "other", type="int64") if v.name == "hours" else v for v in book.variables)
    before = dataclasses.replace(book, variables=held, recodes=left)
    for name, own in (("recoded", book), ("plain", before)):
        suppress_file(tmp_path / "people.csv", tmp_path / name, KEYS, 5, codebook=own, seconds=2, drop=["pay"])
    told = compared([load_plan(plan), tmp_path / "recoded", tmp_path / "plain"], ["plan", "recoded", "plain"])
    _, recoded, plain = told.plans
    assert "Released as recoded, not perturbed, with no protection of their own: hours." in recoded.claims
    assert "Released as in the file, with no protection of their own: health, w." in recoded.claims
    assert "Released as in the file, with no protection of their own: health, w, hours." in plain.claims
    assert {one.name: one.way for one in plain.ways}["pay"] == "not released"


def test_a_column_with_other_values_than_the_plan_s_file_is_told(folder, suppressed, tmp_path):
    frame = records().assign(health="unknown")
    frame.to_csv(tmp_path / "people.csv", index=False)
    book = load_codebook(folder / "plan" / "codebook.toml")
    suppress_file(tmp_path / "people.csv", tmp_path / "s", KEYS, 5, codebook=book, seconds=2)
    own = compared([load_plan(folder / "plan" / "plan.toml"), tmp_path / "s"], ["plan", "s"]).plans[1]
    assert any("health (values that are not recognised as those of the plan's file)" in text for text in own.claims)


def test_what_is_not_measured_is_said_in_its_cell(found):
    """A dash, or what a note far below explains, is read as a fault."""
    lines = str(found).splitlines()
    assert next(line for line in lines if "(τ2)" in line).endswith(" 0")
    assert next(line for line in lines if "informed attacker, sample uniques" in line).endswith("not measured")
    assert next(line for line in lines if line.startswith("  sex × health")).endswith("not measured")
    assert any(line.startswith("  not measured: of a file with suppressed values") for line in lines)
    assert "–" not in str(found).partition("Settings that differ")[0]


def test_the_command_shows_both(folder, suppressed):
    text = run("compare", folder / "plan" / "plan.toml", suppressed)
    for part in ("suppressed is a value too", "It is not differential privacy", "Worth of its tables", "k = 5"):
        assert part in text
    assert "recode of age" not in text.partition("Settings that differ")[2]


@pytest.mark.parametrize(
    ("made", "error", "said"),
    [
        ("averages", UsageError, "averages are not compared with plans"),
        ("other keys", UsageError, "keys differ"),
        ("not recoded", DataError, "not those of the plan's codebook"),
        ("other records", DataError, "it has not the records of the plan's file"),
        ("changed", ReleaseError, "the data file is not the one of the claims"),
        ("no folder of suppress", ReleaseError, "name a folder that 'postrand suppress'"),
    ],
)
def test_what_cannot_be_measured_by_the_plan_is_refused(made, error, said, folder, suppressed, tmp_path):
    out, file, book = tmp_path / "out", folder / "people.csv", load_codebook(folder / "plan" / "codebook.toml")
    if made == "averages":
        with warned.hushed(UnperturbedWarning):
            microaggregate_file(file, out, ["w"], 5)
    elif made == "other keys":
        suppress_file(file, out, KEYS[:2], 3, codebook=book)
    elif made == "not recoded":
        suppress_file(file, out, KEYS, 2, seconds=5)
    elif made == "other records":
        records()[: N - 1].to_csv(tmp_path / "fewer.csv", index=False)
        suppress_file(tmp_path / "fewer.csv", out, KEYS, 3, codebook=book)
    elif made == "changed":
        shutil.copytree(suppressed, out)
        (out / "data.csv").write_text((out / "data.csv").read_text() + "\n")
    else:
        out.mkdir()
    with pytest.raises(error, match=said):
        compared([load_plan(folder / "plan" / "plan.toml"), out], ["plan", "out"])


def test_a_folder_needs_a_plan_beside_it(folder, suppressed):
    for places, got in (
        ([suppressed, suppressed], "no plan"),
        ([load_plan(folder / "plan" / "plan.toml")], "one plan"),
    ):
        with pytest.raises(UsageError, match=got):
            compared(places, ["a"] * len(places))


def test_the_least_share_of_suppressed_values_is_called_a_proven_bound():
    made = {"method": "suppression", "k": 3, "classes": (("sex",),), "records": 100, "lost": {"sex": 0.05}}
    assert Claims(**made, at_least=0.04).losses[0] == (
        "5% of the key values are suppressed; no smaller share than 4% can reach these claims (a proven lower bound)."
    )
    assert "fewer are not enough for these claims (proven)" in Claims(**made, at_least=0.05).losses[0]


def test_what_the_register_s_figures_rest_on_is_said_once_of_plans_and_folders(found):
    text = str(found)
    assert text.count(OF_ESTIMATES) == 1
    assert f"  {OF_ESTIMATES}" in text.splitlines()
    assert "a suppressed value counts as a value of its own" in text
