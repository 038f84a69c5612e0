"""Codebooks: checked as a whole, round trip as plain data."""

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
        ({"role": ""}, "no role is given"),
        ({"role": "kee"}, r"did you mean 'key'\?"),
        ({"missing": "keeep"}, r"did you mean 'keep'\?"),
        ({"categories": ("a", "a")}, "'a' is listed twice"),
        ({"categories": ("a", 1)}, "several types"),
        ({"categories": (1.0, float("nan"))}, "not a finite number"),
        ({"labels": ("one",)}, "differ in number"),
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
    for expected in ("'sex': no role", "did you mean 'categories'?", "no name", "not a table", "a list is wanted"):
        assert expected in text


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ((), "no variables"),
        ((SEX, SEX), "'sex' is named twice"),
        ((Variable("a", role="weight"), Variable("b", role="weight")), "given to several"),
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
