"""Categories of whom a question does not concern: init says where they are the records of another category."""

import numpy as np
import pyarrow as pa
import pytest

from postrand.codebook.no_answer import not_asked
from postrand.workflow.not_asked import not_asked_lines

N = 900
AGE = np.arange(N) % 3
EDUC = {"name": "educ", "role": "key", "categories": [-2, 1, 2], "labels": ["does not apply", "low", "high"]}
BAND = {"name": "age", "role": "key", "categories": ["0-15", "16-64", "65+"]}
HEALTH = {"name": "health", "role": "sensitive", "categories": [1, 2, 9], "labels": ["good", "bad", "9 not asked"]}
SAME = "educ = does not apply and age = 0-15 are the same records"


def told(drafts, educ=None, health=None):
    columns = {
        "educ": np.where(AGE == 0, -2, 1 + np.arange(N) // 3 % 2) if educ is None else educ,
        "age": np.array(BAND["categories"])[AGE],
        "health": np.where(AGE == 0, 9, 1 + np.arange(N) // 7 % 2) if health is None else health,
    }
    return list(not_asked_lines(pa.table(columns), drafts))


def test_the_category_of_another_variable_that_is_the_same_records_is_named():
    (text,) = told([EDUC, BAND])
    assert text.startswith(
        f"{SAME}, so that a regression on two of these variables cannot be fitted at any epsilon. Next: "
    )
    assert "merge all but one of these categories with others" in text
    assert "missing_codes do not help" in text


def test_several_questions_that_were_not_asked_stand_in_one_line():
    (text,) = told([HEALTH, EDUC, BAND])
    assert text.startswith("health = 9 not asked, educ = does not apply and age = 0-15 are the same records")


@pytest.mark.parametrize("other", ["number", "moved", "alone", "dropped", "missing", "nobody"])
def test_nothing_is_said_where_no_terms_repeat_one_another(other):
    """Of amounts, of categories that differ in one record, of one variable alone, and of what is not released."""
    educ = np.where(AGE == 0, -2, 1 + np.arange(N) // 3 % 2)
    if other == "number":
        assert told([EDUC, {**BAND, "categories": [0, 1, 2]}]) == []
    elif other == "moved":
        educ[0] = 1
        assert told([EDUC, BAND], educ) == []
    elif other == "alone":
        assert told([EDUC]) == []
    elif other == "dropped":
        assert told([EDUC, {**BAND, "role": "drop"}]) == []
    elif other == "missing":
        assert told([EDUC, {**BAND, "categories": ["16-64", "65+"]}]) == []
    else:
        assert told([EDUC, BAND], np.ones(N, dtype=int)) == []


def test_two_categories_together_can_be_the_records_and_four_are_not_named():
    for size, said in ((2, "educ = does not apply and age = a0 or a1 are"), (4, "")):
        bands = [f"a{i}" for i in range(size)] + ["old"]
        table = pa.table(
            {
                "educ": np.where(AGE == 0, -2, 1),
                "age": np.where(AGE == 0, np.array(bands)[np.arange(N) // 3 % size], "old"),
            }
        )
        lines = list(not_asked_lines(table, [EDUC, {**BAND, "categories": bands}]))
        assert [text.startswith(said) for text in lines] == [True] * bool(said)


def test_labels_of_those_who_are_not_asked_are_known_in_several_languages():
    assert all(map(not_asked, ("Does not apply", "-2. Not applicable", "Trifft nicht zu", "Sans objet", "No aplica")))
    assert not any(map(not_asked, ("no answer", "refused", "does apply", "-")))
