"""Calculating with codes that only name categories is answered, and said wherever the answer is."""

import dataclasses
import re
import tomllib
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import postrand as pr
from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.errors import DataError, UsageError
from postrand.estimate.nominal import names_only, nominal_warnings
from postrand.workflow.explanation import _useful

REGION = Variable("region", "key", (1, 2, 3), ("North", "South", "East"), type="int64")


@pytest.mark.parametrize(
    ("codes", "labels", "more", "want"),
    [
        ((1, 2, 3), ("North", "South", "East"), {}, True),
        ((1, 2, 3), ("1. North", "2) South", "3 = East"), {}, True),
        ((1, 2, 3), ("Land 1", "Land 2", "Land 3"), {}, True),
        ((1, 2, 10), ("1 person", "2 persons", "more than 10"), {}, False),
        (("1", "2"), ("male", "female"), {"type": "string"}, True),  # of a CSV file
        ((1, 2, 9), ("1 child", "2 children", "no answer"), {"missing_codes": (9,)}, False),
        ((1, 2, 3), ("never", "rarely", "often"), {"ordered": True}, False),
        ((0, 1), ("no", "yes"), {}, False),
        ((0, 1, 9), ("no", "yes", "refused"), {"missing_codes": (9,)}, False),
        ((0, 18, 85), ("none", "18", "85 and more"), {}, False),
        ((1, 2, 3), (), {}, False),
        (("a", "b"), ("A", "B"), {"type": "string"}, False),
    ],
)
def test_which_numbers_are_names(codes, labels, more, want):
    assert names_only(Variable("v", "key", codes, labels, **{"type": "int64", **more})) == want


def test_every_statistic_of_numbers_says_so():
    sex = Variable("sex", "key", ("f", "m"))
    mechanism = pr.Mechanism(
        {"region": pr.randomised_response(3, 3.0), "sex": pr.randomised_response(2, 3.0)}, Codebook((REGION, sex))
    )
    frame = pa.table({"region": [1, 2, 3, 1] * 50, "sex": ["f", "m", "m", "f", "m"] * 40})
    found: list[Any] = [
        estimate.mean(frame, "region", mechanism, by="sex"),
        estimate.total(frame, "region", mechanism),
        estimate.quantile(frame, "region", mechanism, q=[0.5]),
        estimate.regression("region ~ sex", frame, mechanism, "linear"),
    ]
    for one in found:
        said = [text for text in one.warnings if text.startswith("The numbers of region are codes (1 = North")]
        assert len(said) == 1
        assert said[0] in str(one)
        assert said[0] in one.to_dict()["warnings"]
    for other in (
        estimate.table(frame, ["region"], mechanism),
        estimate.regression("region ~ sex", frame, mechanism, "multinomial"),
        estimate.regression("sex ~ region", frame, mechanism, "logistic"),
    ):
        assert not any("codes" in text for text in other.warnings)


def test_codes_that_can_mean_no_answer_are_told_with_their_labels_where_a_mean_counts_them():
    told = {
        ("very bad", "2", "3", "4", "very good", "no answer", "not asked"): "(6 = no answer, 99 = not asked)",
        (): "(99)",
    }
    for labels, want in told.items():
        scale = Variable("happy", "other", (1, 2, 3, 4, 5, 6, 99), labels, type="int64")
        *names, said = nominal_warnings(Codebook((scale,)), ["happy"])
        assert said.startswith(f"Codes of happy that can mean no answer count as numbers here {want}. ")
        assert [text.split("(")[1].split(")")[0] for text in names] == ["1 = very bad, 5 = very good, ..."] * bool(
            labels
        )
    assert not nominal_warnings(Codebook((dataclasses.replace(scale, missing_codes=(99,)),)), ["happy"])


@pytest.mark.parametrize(("type_", "categories"), [("string", ("1", "2", "3", "9")), ("int64", (1, 2, 3, 9))])
def test_what_the_warning_on_codes_says_to_write_is_accepted_by_the_codebook(type_, categories):
    scale = Variable("happy", "other", categories, type=type_)
    (said,) = nominal_warnings(Codebook((scale,)), ["happy"])
    (line,) = re.findall(r"missing_codes = \[.*?\]", said)
    done = dataclasses.replace(scale, missing_codes=tuple(tomllib.loads(line)["missing_codes"]))
    assert not nominal_warnings(Codebook((done,)), ["happy"])


@pytest.mark.parametrize(
    ("options", "has"),
    [({}, False), ({"missing": "category"}, True), ({"missing_codes": (9,)}, True), ({"type": "string"}, False)],
)
def test_a_number_with_a_value_for_no_answer_is_told_to_be_left_out(options, has):
    categories = ("1", "2") if "type" in options else (1, 2, 9)
    book = pr.Codebook((pr.Variable("score", "key", categories, **{"type": "int64", "labels": (), **options}),))
    plan = SimpleNamespace(codebook=book, perturbed=("score",), numerical=(), blocks=(), split=None)
    none = dict.fromkeys(("one_way", "pairs", "crossed", "own", "of_three", "unperturbed"), ())
    figures = SimpleNamespace(
        named=(), records=0, little="", small="", lacking=(), means={}, least_own=lambda _: None, **none
    )
    assert (
        any(
            "stands for no answer: its means, and linear and Poisson regressions of it, leave out" in text
            for text in _useful(plan, figures)
        )
        == has
    )


IDENTIFIER_QUESTIONS = [
    ("table", "hid"),
    ("table", "region,hid"),
    ("mean", "hid"),
    ("mean", "pay", {"by": "hid"}),
    ("mean", "pay", {"weight": "hid"}),
    ("total", "hid"),
    ("quantile", "hid", {"by": "region"}),
    ("ratio", "pay,hid"),
    ("regression", "hid ~ pay"),
    ("regression", "pay ~ region + hid"),
    ("independence", "region,hid"),
]


@pytest.mark.parametrize("role", ["household", "record_key"])
@pytest.mark.parametrize("asked", IDENTIFIER_QUESTIONS, ids=str)
def test_nothing_is_estimated_from_numbers_that_identify(role, asked):
    book = Codebook((REGION, Variable("hid", role, type="int64"), Variable("pay", "other", type="int64")))
    mechanism = pr.Mechanism({"region": pr.randomised_response(3, 3.0)}, book)
    frame = pa.table({"region": [1, 2, 3, 1] * 50, "hid": [*range(100)] * 2, "pay": [*range(200)]})
    name, question, *options = asked
    with pytest.raises(UsageError, match=r"the numbers of hid only tell .* Next: leave hid out"):
        estimate.estimators()[name].answer(frame, mechanism, question, *options or [{}])
    if role == "household":
        clusters = estimate.mean(frame, "pay", mechanism, design=estimate.SurveyDesign(psu="hid"))
        assert clusters.records == 200


def test_an_answer_names_what_was_asked_and_what_was_missing():
    pay = Variable("pay", "other", type="int64", missing="keep")
    bands = Variable("income", "key", ("0-9", "10+"), ordered=True)
    book = Codebook((REGION, pay, bands))
    mechanism = pr.Mechanism({"region": pr.randomised_response(3, 3.0), "income": pr.randomised_response(2, 3.0)}, book)
    frame = pa.table(
        {"region": [1, 2, 3, 1] * 50, "pay": [None, *range(199)], "income": ["0-9", "10+", "10+", "0-9"] * 50}
    )
    one = estimate.quantile(frame, "pay", mechanism, 0.5)
    assert str(one).splitlines()[-1].startswith("Median of pay, ")
    assert "199 of 200 records, 1 left out (pay is missing); " in one.includes
    assert estimate.quantile(frame, "pay", mechanism, 0.25).includes.startswith("quantile 0.25 of pay, ")
    several = estimate.quantile(frame, "pay", mechanism, [0.5, 0.9], by="region")
    assert several.includes.startswith("quantiles of pay by region, ")
    assert "1 left out (pay or region is missing); " in several.includes
    for line in str(estimate.regression("pay ~ region", frame, mechanism, "linear")).splitlines():
        if "records" in line:
            assert line == "199 of 200 records, 1 left out (pay or region is missing); perturbed: region"
    assert "no variable that is used is perturbed" in estimate.mean(frame, "pay", mechanism).includes
    for ask in (estimate.quantile, estimate.mean):
        with pytest.raises(DataError) as refused:
            ask(frame, "income", mechanism)
        assert "mean" not in str(refused.value)


def test_an_odds_ratio_names_the_categories_it_compares():
    """Oracle: of an unperturbed table the ratio is 40 · 40 / (10 · 10)."""
    book = Codebook((Variable("sex", "key", ("f", "m")), Variable("job", "key", ("yes", "no", "other"))))
    rows = [("f", "yes")] * 40 + [("f", "no")] * 10 + [("m", "yes")] * 10 + [("m", "no")] * 40
    frame = pa.table({"sex": [sex for sex, _ in rows], "job": [job for _, job in rows]})
    law = pr.Mechanism({"sex": pr.TransitionMatrix.identity(2)}, book)
    found = estimate.odds_ratio(frame, "sex", "job", law, columns=("yes", "no"))
    wanted = "Odds ratio of sex and job, (f, yes) and (m, no) against the other combinations: 16 (95% interval "
    assert str(found).startswith(wanted)
