"""Columns that number persons or households are told by their names, their labels, and their values."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.codebook import Codebook, Variable
from postrand.plan.numbering import dropped_household, is_number_of, may_link, number_note
from postrand.workflow.demo import survey
from postrand.workflow.sample import write_sample

MANY = [*range(100)]


@pytest.mark.parametrize(
    "name", ["patient", "person", "Patient_No", "clientid", "household", "hh", "Haushalt", "ménage"]
)
def test_a_column_that_is_called_a_person_or_a_household_numbers_them(name):
    assert is_number_of(name)
    assert is_number_of(name, MANY)
    assert number_note(name)


@pytest.mark.parametrize("name", ["patients", "household_type", "family_size", "persons", "personality", "hh_income"])
def test_counts_and_types_of_households_number_nobody(name):
    assert not is_number_of(name)


def test_few_or_labelled_categories_number_nobody():
    assert not is_number_of("household", [*range(12)])
    assert not is_number_of("family", MANY, ["a"] * 100)
    assert not is_number_of("v1", [*range(12)], label="Household number")


@pytest.mark.parametrize(
    ("label", "is_one"),
    [
        ("Number of the patient", True),
        ("Household number", True),
        ("ID of the insured (pseudonym)", True),
        ("Unique person identifier", True),
        ("Nummer des Patienten", True),
        ("Patientennummer", True),
        ("Numéro du ménage", True),
        ("Number of patients", False),
        ("Number of persons in the household", False),
        ("Number of household members", False),
        ("Household income", False),
        ("Code of the ward", False),
    ],
)
def test_the_label_of_a_column_says_whom_it_numbers(label, is_one):
    assert is_number_of("v17", label=label) == is_one


def test_a_column_that_is_not_released_and_numbers_patients_can_link_records():
    entries = [
        {"name": "v17", "role": "drop", "type": "int64", "missing": "error", "label": "Number of the patient"},
        {"name": "sex", "role": "key", "categories": ["f", "m"]},
    ]
    book = Codebook.from_dict({"variables": entries})
    assert may_link(book) == ("v17",)
    assert may_link(book, ["v17"]) == ()
    assert dropped_household(book) == ("v17", "persons")


def test_a_number_of_households_that_a_plan_takes_for_persons_stays_one():
    """A rule on households would else pass as one that does not apply."""
    book = Codebook((Variable("no_menage", role="drop", type="int64"), Variable("pid", role="drop", type="int64")))
    assert may_link(book, ["no_menage", "pid"]) == ("no_menage",)
    book = Codebook((Variable("no_menage", role="household", type="int64"),))
    assert may_link(book, ["no_menage"]) == ()


@pytest.fixture
def stays(tmp_path):
    rng = np.random.default_rng(7)
    persons, sex, born = 900, rng.integers(1, 3, 900), rng.integers(1930, 2010, 900)
    of = rng.choice(persons, 1_500)
    area = rng.integers(1, 9, 1_500)
    columns = {"key7": of + 10_000, "sex": sex[of], "born": born[of], "area": area, "cost": rng.integers(1, 700, 1_500)}
    pq.write_table(pa.table(columns), tmp_path / "stays.parquet")
    return tmp_path / "stays.parquet"


def init(file, out, *options):
    return CliRunner().invoke(main, ["init", str(file), "--out", str(out), *options], catch_exceptions=False)


@pytest.mark.parametrize("rest", ["--other", "--drop"])
def test_values_that_repeat_with_what_a_person_keeps_are_told(stays, rest):
    out = stays.parent / "new"
    told = init(stays, out, "--keys", "sex,area", rest, "*")
    assert "key7: its values repeat, and sex, born are the same in all or nearly all records of a value" in told.output
    assert "if it does: --person key7 --most-records N, or --household key7" in told.output
    assert "cost: its values" not in told.output
    book = (out / "codebook.toml").read_text()
    assert "# key7: its values repeat" in book
    assert ('name = "key7"\nrole = ""' in book) == (rest == "--other")


def test_who_has_said_whom_a_column_numbers_is_not_told_again(stays):
    told = init(
        stays, stays.parent / "a", "--keys", "sex,area", "--drop", "*", "--person", "key7", "--most-records", "9"
    )
    assert "its values repeat" not in told.output
    told = init(stays, stays.parent / "b", "--keys", "sex,area", "--drop", "*", "--household", "key7")
    assert "its values repeat" not in told.output


def test_values_that_repeat_with_one_thing_alone_or_by_chance_are_not_told(stays):
    table = pq.read_table(stays)
    rng = np.random.default_rng(8)
    town = rng.integers(0, 700, 1_500)
    ward, area = town % 40, town % 40 % 8  # both follow from the town, and the area from the ward
    columns = {"town": town, "ward": ward, "area": area, "sex": table["sex"], "pay": rng.integers(0, 900, 1_500)}
    pq.write_table(pa.table(columns), stays.parent / "towns.parquet")
    told = init(stays.parent / "towns.parquet", stays.parent / "c", "--keys", "sex,area", "--drop", "*", "--json")
    assert json.loads(told.stdout)["groups"] == []


def test_files_without_numbers_of_persons_raise_no_alarm(tmp_path):
    pq.write_table(survey(), tmp_path / "demo.parquet")
    write_sample(tmp_path / "survey.csv")
    for name in ("demo.parquet", "survey.csv"):
        told = init(tmp_path / name, tmp_path / f"of-{name}", "--json")
        assert json.loads(told.stdout)["groups"] == []
