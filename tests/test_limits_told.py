"""Numbers of a limit that stands for more, such as 30 for 30 and more: what is calculated from them says so."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import postrand as pr
from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.estimate.nominal import limit_warnings
from postrand.estimate.regression_formula import amounts_of
from postrand.recoding import Recode

DAYS = Variable("days", "other", tuple(range(1, 31)), type="int64")
PAY = Variable("pay", "other", type="double")
SEX = Variable("sex", "key", ("f", "m"))
TOP = Recode.from_dict({"variable": "days", "top": 30})
BOTH = Recode.from_dict({"variable": "pay", "bottom": 100, "top": 5000})


def book(*recodes: Recode) -> Codebook:
    return Codebook((SEX, DAYS, PAY), recodes=recodes)


def frame(n: int = 600) -> pa.Table:
    rng = np.random.default_rng(1)
    days, pay = rng.geometric(0.1, n).clip(1, 30), rng.lognormal(7, 1, n).clip(100, 5000)
    return pa.table({"sex": pa.array(rng.choice(["f", "m"], n)), "days": pa.array(days), "pay": pa.array(pay)})


def said(result: Any) -> list[str]:
    return [text for text in result.warnings if "stands for" in text]


def test_means_totals_ratios_and_regressions_say_what_a_limit_stands_for():
    law = pr.Mechanism({"sex": pr.randomised_response(2, 3.0)}, book(TOP))
    data = frame()
    for result, what in (
        (estimate.mean(data, "days", law, by="sex"), "mean"),
        (estimate.total(data, "days", law), "total"),
    ):
        (told,) = said(result)
        assert told.startswith("days: 30 stands for 30 and more (recoded). ")
        assert f"this {what} is that of the recoded numbers, too low if true numbers are higher" in told
        assert "A table of days and quantiles below 30 are not affected" in told
    for other in (
        estimate.ratio_of_totals(data, "pay", "days", law),
        estimate.regression("days ~ C(sex)", data, law, "linear"),
        estimate.regression("days ~ C(sex)", data, law, "poisson"),
        estimate.regression("sex ~ days", data, law, "logistic"),
        estimate.regression("pay ~ C(sex) + np.log(days)", data, law, "linear"),
        estimate.regression("pay ~ C(sex) + days", data, law, "linear", method="likelihood"),
    ):
        (told,) = said(other)
        assert "that of the true numbers can differ" in told
    plain = pr.Mechanism({"sex": pr.randomised_response(2, 3.0)}, book())
    assert not said(estimate.mean(data, "days", plain))
    assert not said(estimate.mean(data, "pay", law))
    assert not said(estimate.table(data, ["days"], law))
    assert not said(estimate.regression("pay ~ C(sex) + C(days > 8)", data, law, "linear"))


def test_a_quantile_is_told_where_it_reaches_the_limit():
    law = pr.Mechanism({"sex": pr.randomised_response(2, 3.0)}, book(TOP))
    data = frame()
    assert not said(estimate.quantile(data, "days", law, q=0.5))
    (told,) = said(estimate.quantile(data, "days", law, q=[0.5, 0.98]))
    assert told.endswith("So a quantile of 30 means 30 or more.")


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({"top": 30}, {30: "more"}),
        ({"bottom": 5, "top": 30}, {5: "less", 30: "more"}),
        ({"steps": [{"top": 27}, {"rounding": 10}]}, {30: "more"}),
        ({"steps": [{"rounding": 10}, {"top": 25}]}, {25: "more"}),
        ({"steps": [{"top": 30}, {"bands": [0, 10, 20]}]}, {}),
        ({"rounding": 10}, {}),
    ],
)
def test_limits_follow_the_steps_of_a_recode(options, want):
    assert Recode.from_dict({"variable": "days", **options}).stand_for_more == want


def test_two_limits_have_no_side():
    (told,) = limit_warnings(book(BOTH), ["pay"], "mean")
    assert told.startswith("pay: 100 stands for 100 and less, 5000 stands for 5000 and more (recoded).")
    assert "can differ. Quantiles above 100 and below 5000 are not affected" in told
    low = Recode.from_dict({"variable": "pay", "bottom": 100})
    assert "too high if true numbers are lower" in limit_warnings(book(low), ["pay"], "total")[0]
    assert limit_warnings(None, ["pay"], "mean") == ()


def test_covariates_by_category_are_no_amounts():
    assert amounts_of("y ~ C(a) + b + np.log(c) + C(d):e") == ["b", "c", "e"]
