"""What ``postrand advise`` says of the questions that a plan's release answers, against what the estimators do."""

import dataclasses
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand import estimate
from postrand.cli import main
from postrand.codebook import Codebook, Variable
from postrand.codebook.survey_design import SurveyDesign
from postrand.data.frames import TableSource
from postrand.engines.database import open_records
from postrand.errors import DataError, EstimationError, UsageError
from postrand.estimate import expected_precision
from postrand.plan import load_plan
from postrand.plan.analyses import Model
from postrand.report.table_worth import EQUAL
from postrand.workflow.advice import advise
from postrand.workflow.advice_choice import designed
from postrand.workflow.advice_models import unfit
from postrand.workflow.advice_needs import needs_from
from postrand.workflow.advice_text import next_steps
from postrand.workflow.advice_uses import Estimated, verdicts
from postrand.workflow.draft import start
from postrand.workflow.explanation import explain
from postrand.workflow.plan_figures import figures_of
from tests.plan_case import written
from tests.unit_case import KEY

CODEBOOK = """
[[variables]]
name = "sex"
role = "key"
categories = ["F", "M"]
[[variables]]
name = "ward"
role = "key"
categories = ["a", "b", "c"]
[[variables]]
name = "hours"
role = "key"
type = "int64"
categories = [0, 20, 40]
missing = "category"
[[variables]]
name = "kids"
role = "key"
type = "int64"
categories = [0, 1, 2]
[[variables]]
name = "pay"
role = "other"
type = "double"
[[variables]]
name = "village"
role = "other"
type = "int64"
"""
PLAN = """
[source]
file = "s.parquet"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 6.0
[release]
as_is = ["pay", "village"]
"""
SPLIT = '[split]\nvariables = ["sex", "ward", "hours", "kids"]\n'
SURVEY = '[survey]\npsu = "village"\n'


def plan(folder: Path, *more: str, survey: str = "", codebook: str = CODEBOOK, start: str = PLAN) -> pr.Plan:
    rng, n = np.random.default_rng(1), 400
    held: dict[str, Any] = {"sex": rng.choice(["F", "M"], n), "ward": rng.choice(["a", "b", "c"], n)}
    hours = rng.choice([0, 20, 40, None], n)
    held |= {"hours": hours, "kids": rng.integers(0, 3, n)}
    held |= {"pay": rng.lognormal(7, 1, n), "village": np.arange(n) // 20}
    pa.parquet.write_table(pa.table(held), folder / "s.parquet")
    return written(folder, survey + codebook, start + "\n".join(more))


def test_totals_of_a_split_are_not_promised_beside_a_survey_design(tmp_path: Path) -> None:
    made = plan(tmp_path, SPLIT, survey=SURVEY)
    assert made.codebook.survey == SurveyDesign(psu="village")
    means, totals = verdicts(made, ["tables", "means"])
    assert (means.what, means.is_met) == ("means", True)
    assert str(totals).startswith(
        "totals of and by perturbed variables: NOT met (with the survey design of the codebook, "
        "'postrand estimate' refuses totals of and by sex, ward, hours, kids: multiply the mean by a published "
        "number of persons, or use a ratio)"
    )
    board = str(explain(made, figures_of(made)))
    assert f"- With the survey design of the codebook{totals.why.partition('codebook')[2]}." in board
    done = pr.run(made, tmp_path / "r", release_key=KEY)
    frame, design = done.frame(), made.codebook.survey
    with pytest.raises(UsageError, match="a total of a split does not take a survey design"):
        estimate.total(frame, "pay", done.mechanism, by="sex", design=design)
    estimate.mean(frame, "pay", done.mechanism, by="sex", design=design)
    estimate.ratio_of_totals(frame, "pay", "kids", done.mechanism, by="sex", design=design)
    assert [one.what for one in verdicts(plan(tmp_path, SPLIT), ["means"])] == ["means and totals"]
    assert [*verdicts(made, ["tables"])] == []


def test_a_mean_of_bands_is_said_to_be_that_of_their_numbers(tmp_path: Path) -> None:
    bands = '[[recodes]]\nvariable = "kids"\nbands = [0, 1]\nlabels = ["0", "2"]\n'
    whole = 'type = "int64"\ncategories = [0, 1, 2]'
    made = plan(tmp_path, SPLIT, codebook=CODEBOOK.replace(whole, 'categories = ["0", "2"]') + bands)
    (means,) = verdicts(made, ["means"])
    said = "; kids: in bands or groups, so a mean is that of their numbers, not of the values of the file; "
    assert said in str(means)
    assert "bands" not in str(next(iter(verdicts(plan(tmp_path, SPLIT), ["means"]))))
    (models,) = verdicts(made, ["models"])
    assert re.search(r"linear and Poisson ones of [^;]*kids", str(models))
    assert re.search(r"logistic ones of [^;]*kids", str(models))


def test_the_codes_of_a_hierarchy_are_no_numbers(tmp_path: Path) -> None:
    tree = '[[recodes]]\nvariable = "kids"\nhierarchy = "tree.csv"\nlevel = 1\n'
    (tmp_path / "tree.csv").write_text("0,1\n1,2\n2,3\n")
    whole = 'type = "int64"\ncategories = [0, 1, 2]'
    made = plan(tmp_path, SPLIT, codebook=CODEBOOK.replace(whole, 'categories = ["1", "2", "3"]') + tree)
    means, models = verdicts(made, ["means", "models"])
    assert "kids" not in means.why
    assert re.search(r"multinomial ones of [^;]*kids", models.why)


ASKED: dict[str, Callable[..., Any]] = {
    "tables": lambda frame, law, design: estimate.table(frame, ["sex", "ward"], law, design=design).interval(),
    "means": lambda frame, law, design: estimate.mean(frame, "pay", law, by="sex", design=design).interval(),
    "totals": lambda frame, law, design: estimate.total(frame, "pay", law, by="sex", design=design).interval(),
    "quantiles": lambda frame, law, design: estimate.quantile(frame, "pay", law, 0.5, "sex", design=design),
    "models": lambda frame, law, design: estimate.regression("pay ~ sex", frame, law, "linear", design=design),
    "linear and Poisson regressions": lambda frame, law, design: estimate.regression(
        "kids ~ pay", frame, law, "linear", design=design
    ),
}
BLOCKS = "".join(f'[[blocks]]\nvariables = ["{name}"]\n' for name in ("sex", "ward", "hours", "kids"))


@pytest.mark.parametrize("way", [SPLIT, BLOCKS])
@pytest.mark.parametrize("design", [{"psu": "village"}, {"psu": "village", "fpc": "drawn"}])
def test_what_the_survey_design_makes_estimate_refuse_is_told_before(
    tmp_path: Path, way: str, design: dict[str, str]
) -> None:
    """Every question is asked of a release, and those that are told of are those that are refused."""
    survey = "[survey]\n" + "".join(f'{part} = "{column}"\n' for part, column in design.items())
    drawn = '[[variables]]\nname = "drawn"\nrole = "other"\ntype = "double"\n'
    made = plan(tmp_path, way, survey=survey, codebook=CODEBOOK + drawn)
    held = pa.parquet.read_table(tmp_path / "s.parquet")
    pa.parquet.write_table(held.append_column("drawn", pa.array([0.1] * len(held))), tmp_path / "s.parquet")
    done = pr.run(made, tmp_path / "r", release_key=KEY)
    frame = done.frame()
    refused = set()
    for what, ask in ASKED.items():
        try:
            ask(frame, done.mechanism, made.codebook.survey)
        except (EstimationError, UsageError):
            refused.add(what)
    told = {one.what for one in verdicts(made, ["tables", "means", "models"]) if "postrand estimate" in one.why}
    if "fpc" in design and way == SPLIT:
        assert told == {"tables", "means", "models"}
        assert refused == {*ASKED}
    else:
        assert told == refused


def test_init_says_what_the_survey_design_that_it_proposes_costs(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(1), 400
    held: dict[str, Any] = {name: rng.integers(1, 4, n).astype(str) for name in "abcdef"} | {"w": np.repeat(2.0, n)}
    pa.parquet.write_table(pa.table(held), tmp_path / "s.parquet")
    roles = {"key": [*"abcdef"], "weight": ["w"]}
    told = "'postrand estimate' refuses totals of and by a, b, c, d, e, f"
    made = start(tmp_path / "s.parquet", tmp_path / "made", roles, way="split")
    assert told in str(made.lines("s.parquet", roles))
    assert told not in str(made.lines("s.parquet", roles, ["tables", "models"]))
    made = start(tmp_path / "s.parquet", tmp_path / "blocks", roles, way="blocks")
    assert "add [survey]" in str(made.lines("s.parquet", roles))
    assert told not in str(made.lines("s.parquet", roles))


def test_advice_makes_no_bands_of_postcodes_that_a_zero_leads(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    codes = [f"{code:05d}" for code in range(1001, 11_001, 500)]
    text = "\n".join(["sex,zip", *(f"{rng.choice(['F', 'M'])},{rng.choice(codes)}" for _ in range(800))])
    (tmp_path / "people.csv").write_text(text + "\n", "utf-8")
    done = CliRunner().invoke(
        main, ["advise", str(tmp_path / "people.csv"), "--keys", "sex,zip", "--out", str(tmp_path / "a")]
    )
    assert done.exit_code == 0, done.output
    assert "zip in bands" not in done.output


def test_init_says_what_is_lost_without_the_clusters_that_were_drawn(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(1), 400
    held: dict[str, Any] = {"a": rng.integers(1, 4, n).astype(str), "w": np.repeat(2.0, n), "hh": np.arange(n) // 2}
    pa.parquet.write_table(pa.table(held | {"PSU": np.arange(n) // 40}), tmp_path / "s.parquet")
    roles = {"key": ["a"], "weight": ["w"], "household": ["hh"]}
    said = str(start(tmp_path / "s.parquet", tmp_path / "one", {**roles, "drop": ["PSU"]}).lines("s.parquet", roles))
    assert 'psu = "hh", not_released = ["psu"]' in said
    assert "measures by how much: state it as cluster_effect in place of psu" in said
    assert (
        "PSU seems to number the clusters that were drawn, and is not released: standard errors are then without "
        "these clusters, usually too small"
    ) in said
    said = str(start(tmp_path / "s.parquet", tmp_path / "two", {**roles, "other": ["PSU"]}).lines("s.parquet", roles))
    assert 'psu = "PSU"' in said
    assert "usually too small" not in said
    pa.parquet.write_table(pa.table(held | {"schicht": np.arange(n) // 100}), tmp_path / "h.parquet")
    told = {}
    for role in ("other", "key"):
        own = {**roles, role: [*roles.get(role, ()), "schicht"]}
        told[role] = str(start(tmp_path / "h.parquet", tmp_path / role, own).lines("h.parquet", own))
    assert 'weights = "w", strata = "schicht", psu = "hh"' in told["other"]
    assert "strata = " not in told["key"]  # perturbed


def test_models_are_judged_by_the_responses_that_they_can_have(tmp_path: Path) -> None:
    (told,) = verdicts(plan(tmp_path, SPLIT), ["models"])
    assert told.is_met
    assert str(told).startswith("models: met (")
    assert "linear and Poisson ones of hours, kids, pay, village" in str(told)
    assert "logistic ones of sex; multinomial ones of ward" in str(told)
    alone = "".join(f'[[blocks]]\nvariables = ["{name}"]\n' for name in ("sex", "ward", "kids", "hours"))
    ranked = '[[numerical]]\nvariables = ["pay"]\nmethod = {model = "rank-band", width = 20}\n'
    as_is = PLAN.replace('["pay", "village"]', '["village"]')
    (told,) = verdicts(plan(tmp_path, alone, ranked, start=as_is), ["models"])
    assert str(told).startswith("models: NOT met for pay (no regression can have pay, whose values move:")


def test_a_response_without_numbers_is_refused_with_the_way_out() -> None:
    hours = Variable("hours", "key", ("few", "many", "most"))
    book = Codebook((hours, Variable("sex", "key", ("F", "M"))))
    law = pr.Mechanism({"sex": pr.randomised_response(2, 3.0)}, book)
    frame = pa.table({"hours": [*hours.categories] * 30, "sex": ["F", "M", "M", "F", "F"] * 18})
    with pytest.raises(DataError, match="categories of hours are no numbers") as error:
        estimate.regression("hours ~ sex", frame, law, "linear")
    assert "use family 'multinomial', or ask for a table" in str(error.value)
    with pytest.raises(DataError, match=r"categories of sex are no numbers.*use family 'logistic', or ask for a table"):
        estimate.regression("sex ~ hours", frame, law, "linear")


def worth(law: pr.Mechanism, names: tuple[str, ...], records: int) -> float:
    return expected_precision(law, names, records, EQUAL.law(names)).effective_sample_size


def test_models_of_a_split_are_told_with_what_their_records_are_worth(tmp_path: Path) -> None:
    made = plan(tmp_path, SPLIT)
    law = designed(made)
    (told,) = verdicts(made, ["models"], law, Estimated(4000))
    assert told.is_met
    threes = [worth(law, names, 4000) for names in itertools.combinations(law.variables, 3)]
    assert (
        f"worth {min(threes):,.0f} to {max(threes):,.0f} unperturbed ones" in str(told).partition("with three, by")[2]
    )
    assert "; with four, by" in str(told)
    assert "a table in the workload of [split], as with --use 'model pay ~ sex + age'" in str(told)
    most = max(worth(law, names, 4000) for names in itertools.combinations(law.variables, 2))
    (few,) = verdicts(made, ["models"], law, Estimated(int(99 * 4000 / most)))
    assert not few.is_met
    assert re.match(r"models: NOT met \(on the records .* two perturbed ones, by about .*, of little use; ", str(few))


def test_a_split_is_designed_for_the_regression_that_is_named(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(2), 3000
    held = {name: rng.integers(0, 3, n).astype(str) for name in "abcdefg"}
    pa.parquet.write_table(pa.table(held), tmp_path / "s.parquet")
    book = Codebook(tuple(Variable(name, "key", ("0", "1", "2")) for name in "abcdefg"))
    found = {}
    for use in ("models", "model d ~ C(b) + a*c"):
        needs = needs_from("acquaintance", ["epsilon <= 4"], [use])
        found[use] = advise(tmp_path / "s.parquet", book, needs, tmp_path / use[:6].strip())
    usual, own = (next(one for one in given.plans if one.trial.plan.split) for given in found.values())
    law = designed(load_plan(own.path))
    four = worth(law, ("a", "b", "c", "d"), n)
    assert four > 2 * worth(usual.trial.mechanism, ("a", "b", "c", "d"), n)
    few = advise(
        tmp_path / "s.parquet", book, needs_from("acquaintance", ["epsilon <= 3"], ["models"]), tmp_path / "few"
    )
    split = next(one.trial.mechanism.split for one in few.plans if one.trial.mechanism.split)
    assert all(len(one.variables) < 4 for one in split.subsets)
    assert "; with four, by none (" in few.text()
    assert four > 100
    said = "  Asked: model d ~ b + a + c: met (fitted as a linear regression in 10 of 10 simulated releases, with "
    others = "  Not asked: other models: possible on the records that show all variables of the model ("
    assert re.search(rf"{re.escape(said)}[^\n]*\n{re.escape(others)}", found["model d ~ C(b) + a*c"].text())
    assert "use       model d ~ b + a + c" in found["model d ~ C(b) + a*c"].text()
    assert own.trial.plan.split is not None
    assert {"table": ["a", "b", "c", "d"], "weight": 21.0} in own.trial.data["split"]["workload"]


def test_a_split_for_what_is_named_alone_is_worth_more_for_it_and_says_what_is_lost(tmp_path: Path) -> None:
    """Of ten variables, two tables named. Oracle: the worth of the tables in the written plans."""
    rng, n, names = np.random.default_rng(2), 6000, "abcdefghij"
    pa.parquet.write_table(
        pa.table({name: rng.integers(0, 4, n).astype(str) for name in names}), tmp_path / "s.parquet"
    )
    book = Codebook(tuple(Variable(name, "key", ("0", "1", "2", "3")) for name in names))
    uses = ["table a x b", "mean c by d"]
    found = advise(tmp_path / "s.parquet", book, needs_from("informed", ["epsilon <= 2.5"], uses), tmp_path / "one")
    held = {one.trial.candidate.way: one for one in found.plans}
    own, usual = held["split for what is named"], held["split"]
    assert found.plans[0] is own
    laws = [designed(load_plan(one.path)) for one in (own, usual)]
    for table in (("a", "b"), ("c", "d")):
        mine, other = (worth(law, table, n) for law in laws)
        assert mine > 1.5 * other
    own_law, usual_law = laws
    assert min(worth(own_law, (name,), n) for name in names) > 0.5 * min(worth(usual_law, (name,), n) for name in names)
    text = found.text()
    assert "other tables can have little or nothing left" in text
    assert "Reason: most for what is named: " in text
    assert re.search(r"  Asked: table a x b: met .*\n  Asked: mean c by d: ", text)
    assert re.search(r"  Not asked: other tables: NOT met for \d+ of 45 of two variables \(no estimate\)", text)
    assert "use       tables" not in text
    also = needs_from("informed", ["epsilon <= 2.5"], [*uses, "tables"])
    assert also.stated == ("tables",)
    assert "--use tables --use 'table a x b'" in also.typed


def test_advice_of_completed_files_says_which_variables_no_record_shows_together(tmp_path: Path) -> None:
    """A split for two tables and models: no record shows a with c."""
    rng = np.random.default_rng(2)
    pa.parquet.write_table(
        pa.table({name: rng.integers(0, 4, 6000).astype(str) for name in "abcd"}), tmp_path / "s.parquet"
    )
    book = Codebook(tuple(Variable(name, "key", ("0", "1", "2", "3")) for name in "abcd"))
    needs = needs_from("informed", ["epsilon <= 2.5"], ["table a x b", "table c x d", "models"])
    found = advise(tmp_path / "s.parquet", book, needs, tmp_path / "one")
    (own,) = (one for one in found.plans if one.trial.candidate.way == "split for what is named")
    assert not any({"a", "c"} <= {*one.variables} for one in own.trial.mechanism.split.subsets)
    (why,) = (text for text in own.reasons if "completed = 20" in text)
    assert " But nothing tells how a and c, " in why
    assert why.endswith("go together, which no record shows: there they can fail, or be wrong.")


def test_a_named_regression_with_a_category_without_a_response_is_not_met(tmp_path: Path) -> None:
    """Children have no pay: estimate refuses the model, and only whoever makes the release can merge categories."""
    rng, n = np.random.default_rng(4), 3000
    age, sex = rng.choice(["0-14", "15-64", "65+"], n), rng.choice(["F", "M"], n)
    pay = rng.choice(["low", "middle", "high"], n).astype(object)
    pay[age == "0-14"] = None
    rare = np.flatnonzero(sex == "F")[:12]
    area = np.full(n, "town", dtype=object)
    area[rare] = "isle"
    wage = np.where(age == "0-14", np.nan, rng.normal(size=n))
    held = {
        "pay": pa.array(pay),
        "age": age,
        "sex": sex,
        "area": pa.array(area),
        "wage": pa.array(wage, from_pandas=True),
        "asked": np.where(age == "0-14", "no", rng.choice(["once", "twice"], n)),
    }
    pa.parquet.write_table(pa.table(held), tmp_path / "s.parquet")
    book = Codebook(
        (
            Variable("pay", "key", ("low", "middle", "high"), missing="category"),
            Variable("age", "key", ("0-14", "15-64", "65+")),
            Variable("sex", "key", ("F", "M"), missing="category"),  # which none is: estimate leaves it out
            Variable("area", "key", ("town", "isle")),
            Variable("wage", "other", type="double", missing="keep"),
            Variable("asked", "key", ("no", "once", "twice")),
        )
    )
    source = open_records(tmp_path / "s.parquet", book)
    why = unfit(source, book, Model(("pay", "sex", "age")), is_perturbed=True)
    assert why == ""  # of names, no answer is a category of its own
    said = (
        "no record of age = 0-14 has wage: merge these categories before the release, or the model can hardly be fitted"
    )
    assert unfit(source, book, Model(("wage", "sex", "age")), is_perturbed=True) == said
    both = unfit(source, book, Model(("wage", "age", "area")), is_perturbed=True)
    assert both.startswith(
        "no record of age = 0-14 has wage, and fewer than 20 records of area = isle have wage: merge"
    )
    assert unfit(source, book, Model(("wage", "area")), is_perturbed=False) == ""
    assert unfit(source, book, Model(("wage", "sex")), is_perturbed=True) == ""
    same = (
        "asked = no and age = 0-14 are all but the same records: no epsilon tells the effects of the two variables "
        "apart, so leave one out, or merge one of these categories with another"
    )
    assert unfit(source, book, Model(("pay", "asked", "age")), is_perturbed=True) == same
    assert unfit(source, book, Model(("pay", "asked", "sex")), is_perturbed=True) == ""

    assert needs_from(None, ["epsilon <= 4"], ["wage ~ sex + age"]).models == (Model(("wage", "sex", "age")),)
    needs = needs_from("informed", ["epsilon <= 4"], ["model wage ~ sex + age"])
    found = advise(tmp_path / "s.parquet", book, needs, tmp_path / "out")
    for one in found.plans:
        (told,) = [verdict for verdict in one.verdicts if verdict.what == "model wage ~ sex + age"]
        assert str(told) == f"model wage ~ sex + age: NOT met ({said})"


def test_a_response_of_several_categories_has_records_of_each():
    band = Variable("band", "key", ("low", "middle", "high", "highest"))
    book, sex = Codebook((band, Variable("sex", "key", ("F", "M")))), ["F", "M"] * 50
    source = TableSource(pa.table({"band": ["low"] * 50 + ["middle"] * 45 + ["high"] * 5, "sex": sex}))
    found = unfit(source, book, Model(("band", "sex")), is_perturbed=True)
    assert found.startswith("no record has band = highest, and fewer than 20 records have band = high: merge these")
    assert unfit(source, book, Model(("band", "sex")), is_perturbed=False).startswith("no record has band = highest: ")
    numbers = Codebook((dataclasses.replace(band, categories=("1", "2", "3", "4")), book["sex"]))
    of_numbers = TableSource(pa.table({"band": ["1"] * 100, "sex": sex}))
    assert unfit(of_numbers, numbers, Model(("band", "sex")), is_perturbed=True) == ""  # a mean needs no category


@pytest.mark.parametrize(
    ("use", "said"),
    [
        ("model d ~ log(a)", "a model is not of the form that is wanted; got 'model d ~ log(a)'"),
        ("model d ~ 1", "a model is not of the form that is wanted"),
        ("model d ~ f", "a model has f, which the codebook does not have"),
        ("model d ~ e", "the use 'model d ~ e': not answered: e is not released"),
    ],
)
def test_a_regression_that_no_plan_can_have_is_refused(tmp_path: Path, use: str, said: str) -> None:
    rng, n = np.random.default_rng(2), 300
    pa.parquet.write_table(
        pa.table({name: rng.integers(0, 2, n).astype(str) for name in "ade"}), tmp_path / "s.parquet"
    )
    book = Codebook(tuple(Variable(name, "drop" if name == "e" else "key", ("0", "1")) for name in "ade"))
    with pytest.raises(UsageError, match=re.escape(said)):
        advise(tmp_path / "s.parquet", book, needs_from("list", (), [use]), tmp_path / "out")


def test_tune_is_named_where_a_plan_of_blocks_is_shown(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(2), 1000
    held = {name: rng.integers(0, 3, n).astype(str) for name in "abcde"}
    pa.parquet.write_table(pa.table(held), tmp_path / "s.parquet")
    book = Codebook(tuple(Variable(name, "key", ("0", "1", "2")) for name in "abcde"))
    needs = needs_from("acquaintance", ["epsilon <= 6", "individual_risk <= 0.002"])
    plans = advise(tmp_path / "s.parquet", book, needs, tmp_path / "out").plans
    splits = [one for one in plans if one.trial.plan.split is not None]
    assert 0 < len(splits) < len(plans)
    assert "postrand tune --plan" in " ".join(next_steps(needs, plans))
    told = " ".join(next_steps(needs, splits))
    assert "Or ask for a smaller epsilon" in told
    assert "postrand tune --plan" not in told
