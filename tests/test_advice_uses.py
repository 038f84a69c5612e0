"""What ``postrand advise`` says of the questions that a plan's release answers, against what the estimators do."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import postrand as pr
from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.codebook.survey_design import SurveyDesign
from postrand.errors import DataError, EstimationError, UsageError
from postrand.workflow.advice_uses import verdicts
from postrand.workflow.comparison import figures_of
from postrand.workflow.draft import start
from postrand.workflow.explanation import explain
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
