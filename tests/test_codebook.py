"""Codebooks: checked as a whole, round trip as plain data."""

import datetime

import pytest

from postrand.codebook import Codebook, Variable
from postrand.errors import SpecificationError

SEX = Variable("sex", role="key", categories=("Female", "Male"), labels=("Women", "Men"), missing="category")
AGE = Variable("age", role="key", categories=(1, 2, 3), type="int64", ordered=True, missing_codes=(3,))
INCOME = Variable("income", role="sensitive", type="double")


def test_round_trip_through_plain_data():
    book = Codebook((SEX, AGE, INCOME))
    assert Codebook.from_dict(book.to_dict()) == book


def test_codes_and_labels():
    assert SEX.size == 3
    assert SEX.code_labels == ("Women", "Men", "(missing)")
    assert AGE.code_labels == ("1", "2", "3")
    assert not INCOME.is_categorical
    assert Codebook((SEX, AGE)).with_role("key") == (SEX, AGE)
    assert Codebook((SEX, AGE)).select(["age"]).names == ("age",)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"role": ""}, "the role is missing"),
        ({"role": "kee"}, r"did you mean 'key'\?"),
        ({"missing": "keeep"}, r"did you mean 'keep'\?"),
        ({"categories": ("a", "a")}, "'a' is listed twice"),
        ({"categories": ("a", 1)}, "several types"),
        ({"categories": (1.0, float("nan"))}, "not a finite number"),
        ({"labels": ("one",)}, "the numbers of labels and categories differ"),
        ({"missing_codes": ("z",)}, "missing code 'z' is not a category"),
        ({"categories": (), "missing": "category"}, "needs categories"),
        ({"categories": tuple(range(100_001))}, "too many categories"),
        ({"name": ""}, "has no name"),
    ],
)
def test_each_invariant_of_a_variable_is_enforced(fields, message):
    with pytest.raises(SpecificationError, match=message):
        Variable(**{"name": "x", "role": "key", "categories": ("a", "b"), **fields})


def test_all_problems_of_a_codebook_are_reported_at_once():
    data = {
        "variables": [
            {"name": "sex", "role": ""},
            {"name": "age", "role": "key", "catgories": [1]},
            {"role": "key"},
            "region",
            {"name": "area", "role": "key", "categories": 3},
        ]
    }
    with pytest.raises(SpecificationError) as caught:
        Codebook.from_dict(data)
    text = str(caught.value)
    assert len(caught.value.problems) == 5
    for expected in (
        "variables without a role: sex;",
        "mean 'categories'?",
        "the name is missing",
        "not a table",
        "is not a list",
    ):
        assert expected in text


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ((), "no variables"),
        ((SEX, SEX), "'sex' is named twice"),
        ((Variable("a", role="weight"), Variable("b", role="weight")), "several variables have the role"),
    ],
)
def test_each_invariant_of_a_codebook_is_enforced(variables, message):
    with pytest.raises(SpecificationError, match=message):
        Codebook(variables)
    with pytest.raises(SpecificationError, match=message):
        Codebook.from_dict({"variables": [{"name": v.name, "role": v.role} for v in variables]})


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(SpecificationError, match="did you mean 'sex'"):
        Codebook((SEX,))["sexe"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"categories": "ab"}, "categories is not a list; got 'ab'"),
        ({"categories": 0.5}, "categories is not a list"),
        ({"categories": {"a": 1}}, "categories is not a list"),
        ({"categories": (["a"], ["b"])}, "contains an invalid category; wanted texts, numbers or truth values"),
        ({"categories": (datetime.date(2026, 1, 1),)}, "write dates as text"),
        ({"categories": (10**400, 1)}, "not a finite number"),
        ({"labels": "ab"}, "labels is not a list"),
        ({"labels": (1, 2)}, "a label is not text"),
        ({"missing_codes": "a"}, "missing_codes is not a list"),
        ({"missing_codes": (["a"],)}, "contains an invalid category"),
        ({"categories": (1, 2), "missing_codes": (True,)}, "missing code True is not a category"),
        ({"type": 5}, "'type' is not text; got 5"),
        ({"label": ["Sex"]}, "'label' is not text"),
        ({"ordered": "yes"}, "'ordered' is not true or false; got 'yes'"),
        ({"role": ["key"]}, "unknown role"),
        ({"missing": {}}, "unknown missing policy"),
        ({"name": 5}, "has no name"),
        ({"name": "a\nb"}, "control character, such as a line break. Next: rename"),
        ({"name": "a\0"}, "control character"),
        ({"name": "a\u2028b"}, "control character"),
        ({"name": "a\x85b"}, "control character"),
    ],
)
def test_each_field_of_a_variable_has_its_type(fields, message):
    with pytest.raises(SpecificationError, match=message) as caught:
        Variable(**{"name": "x", "role": "key", "categories": ("a", "b"), **fields})
    assert len(caught.value.problems) == 1 or "missing_codes" in str(caught.value)


def test_a_name_is_compared_exactly_blanks_included():
    names = (" age ", "naïve é", "می\u200cرود")
    book = Codebook(tuple(Variable(name, role="other") for name in names))
    assert book.names == names
    with pytest.raises(SpecificationError, match="did you mean ' age '"):
        book["age"]


VARIABLE = {"name": "a", "role": "key", "categories": [1, 2]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"variables": 5}, "the variables are not a list of tables"),
        ({"variables": {"name": "a"}}, "the variables are not a list of tables"),
        ({"variables": [VARIABLE], "rules": 0.5}, r"the rules are not a list of tables.*\[\[rules\]\]"),
        ({"variables": [VARIABLE], "rules": [5]}, "a rule is not a table"),
        ({"variables": [VARIABLE], "rules": [{"a": []}]}, "a variable without a category"),
    ],
)
def test_a_codebook_is_lists_of_tables(data, message):
    with pytest.raises(SpecificationError, match=message):
        Codebook.from_dict(data)
