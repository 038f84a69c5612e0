"""What ``postrand advise`` says of the questions that a plan's release answers, against what the estimators do."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import postrand as pr
from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.codebook.survey_design import SurveyDesign
from postrand.errors import DataError, UsageError
from postrand.workflow.advice_uses import verdicts
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
    assert str(totals).startswith("totals: NOT met (of and by the variables of the split they are refused")
    assert "multiply the mean by a published number of persons" in str(totals)
    done = pr.run(made, tmp_path / "r", release_key=KEY)
    frame, design = done.frame(), made.codebook.survey
    with pytest.raises(UsageError, match="a total of a split does not take a survey design"):
        estimate.total(frame, "pay", done.mechanism, by="sex", design=design)
    estimate.mean(frame, "pay", done.mechanism, by="sex", design=design)
    estimate.ratio_of_totals(frame, "pay", "kids", done.mechanism, by="sex", design=design)
    assert [one.what for one in verdicts(plan(tmp_path, SPLIT), ["means"])] == ["means"]


def test_models_are_judged_by_the_responses_that_they_can_have(tmp_path: Path) -> None:
    (told,) = verdicts(plan(tmp_path, SPLIT), ["models"])
    assert not told.is_met
    assert str(told).startswith("models: NOT met for hours (no linear or Poisson one can have hours as its response")
    assert 'because missing is a category: set missing = "keep" in the codebook' in str(told)
    assert "linear and Poisson ones of kids, pay, village" in str(told)
    assert "logistic ones of sex; multinomial ones of ward, hours" in str(told)
    kept = CODEBOOK.replace('missing = "category"', 'missing = "keep"')
    alone = "".join(f'[[blocks]]\nvariables = ["{name}"]\n' for name in ("sex", "ward", "kids", "hours"))
    (told,) = verdicts(plan(tmp_path, alone, codebook=kept), ["models"])
    assert told.is_met
    assert "linear and Poisson ones of hours, kids, pay, village" in str(told)
    ranked = '[[numerical]]\nvariables = ["pay"]\nmethod = {model = "rank-band", width = 20}\n'
    as_is = PLAN.replace('["pay", "village"]', '["village"]')
    (told,) = verdicts(plan(tmp_path, alone, ranked, start=as_is), ["models"])
    assert str(told).startswith("models: NOT met for pay, hours (no regression can have pay, whose values move:")


@pytest.mark.parametrize(
    ("changes", "cause", "way_out"),
    [
        ({"missing": "category"}, "missing is a category of hours", "write missing = 'keep'"),
        ({"missing_codes": (40,)}, "categories of hours mean no answer: 40", "write a recode that makes them missing"),
        (
            {"categories": ("few", "many", "most"), "type": "string"},
            "categories of hours are no numbers",
            "multinomial",
        ),
    ],
)
def test_a_response_that_is_refused_names_the_cause_and_the_way_out(
    changes: dict[str, Any], cause: str, way_out: str
) -> None:
    hours = Variable("hours", "key", **({"categories": (0, 20, 40), "type": "int64"} | changes))
    book = Codebook((hours, Variable("sex", "key", ("F", "M"))))
    law = pr.Mechanism({"sex": pr.randomised_response(2, 3.0)}, book)
    values = [hours.categories[i % 3] for i in range(90)]
    frame = pa.table({"hours": values, "sex": ["F", "M", "M", "F", "F"] * 18})
    with pytest.raises(DataError) as error:
        estimate.regression("hours ~ sex", frame, law, "linear")
    assert cause in str(error.value)
    assert way_out in str(error.value)
    assert "use family 'multinomial', or ask for means by group" in str(error.value)
