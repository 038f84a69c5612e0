"""Errors that take each record as drawn by itself: said where persons or households have several, and only there."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand import Block, Mechanism, Units, estimate, randomised_response
from postrand.cli import main
from postrand.codebook import Codebook, Variable
from postrand.codebook.not_released import NOT_RELEASED
from postrand.codebook.survey_design import SurveyDesign
from postrand.estimate.alike import drawn_alone
from postrand.mechanism import Split
from postrand.report.captions import alike_words
from postrand.workflow.pipeline import run
from tests.unit_case import KEY, planned, survey

BOOK = Codebook(
    (Variable("hid", "household", type="int64"), Variable("sex", "key", ("F", "M")), Variable("w", "other"))
)
SEX = [Block(("sex",), randomised_response(2, 1.0))]
HOMES, PERSONS = Units(household="hid", largest_household=6), Units(person="pid", most_records=6)
PERSON = [
    ('name = "hid"\nrole = "household"', 'name = "hid"\nrole = "drop"'),
    (
        'household = "hid"\nhousehold_variables = ["region", "tenure"]\nlargest_household = 6',
        'person = "pid"\nmost_records = 6',
    ),
]
MEMBER = [
    ('household_variables = ["region", "tenure"]\n', ""),
    (
        '[[blocks]]\nvariables = ["region"]\n[[blocks]]\nvariables = ["tenure"]\n[[blocks]]\nvariables = ["sex"]\n',
        '[split]\nunit = "household"\nvariables = ["region", "sex"]\n',
    ),
    ('name = "tenure"\nrole = "sensitive"', 'name = "tenure"\nrole = "drop"'),
    (
        'categories = ["F", "M"]\n',
        'categories = ["F", "M"]\n[[variables]]\nname = "age"\nrole = "other"\ntype = "double"\n',
    ),
]


def law(units: Units | None = None, book: Codebook = BOOK, split: Split | None = None) -> Mechanism:
    return Mechanism([] if split else SEX, book, split=split, units=units)


def test_persons_are_told_where_they_can_have_several_records():
    alone = Codebook(BOOK.variables[1:])
    told = drawn_alone(law(PERSONS, alone), ["sex"])
    assert "a person has up to 6 records" in told
    assert "often larger" in told
    assert "cannot show by how much" in told
    assert "--psu" not in told
    assert drawn_alone(law(book=alone), ["sex"]) == ""
    assert drawn_alone(law(Units(person="pid", most_records=1), alone), ["sex"]) == ""
    assert drawn_alone(law(PERSONS, alone), ["sex"], SurveyDesign(psu="w")) == ""


def test_households_are_told_unless_one_member_of_each_counts():
    assert drawn_alone(law(HOMES), ["sex"]).endswith("--psu hid takes that into account")
    assert drawn_alone(law(HOMES), ["sex"], psu="").endswith("often larger")
    member = law(HOMES, split=Split.of([1.0], [Block(("sex",), randomised_response(2, 1.0), unit="household")]))
    assert drawn_alone(member, ["w"]).endswith("--psu hid takes that into account")
    assert drawn_alone(member, ["sex", "w"]) == ""


def test_captions_say_it_too():
    said = alike_words(law(PERSONS, Codebook(BOOK.variables[1:])))
    assert said(["sex"]).startswith(" Standard errors take each record as drawn by itself; a person has up to 6")
    assert "'postrand estimate --psu hid'" in alike_words(law(HOMES))(["sex"])
    once = Mechanism([Block(("sex",), randomised_response(2, 1.0), unit="household")], BOOK, units=HOMES)
    assert alike_words(once)(["sex"]) == ""  # the page counts households there


def test_the_command_and_the_page_of_a_release_of_persons_tell_it(tmp_path: Path):
    table = survey(60)
    persons = table.set_column(1, "pid", pa.array(np.arange(table.num_rows) // 3))
    run(planned(tmp_path, *PERSON, table=persons), tmp_path / "release", release_key=KEY)
    for question in (["--table", "sex"], ["--independence", "sex,tenure"]):
        told = CliRunner().invoke(main, ["estimate", str(tmp_path / "release"), *question])
        assert told.exit_code == 0, told.output
        assert "a person has up to 6 records, which are alike" in told.stdout
    assert "a person has up to 6 records" in (tmp_path / "release" / "report.html").read_text("utf-8")
    assert pr.verify(tmp_path / "release").verdict == "verified"


@pytest.mark.parametrize(
    "question", [["--table", "sex,region"], ["--mean", "age", "--by", "sex"], ["--independence", "sex,region"]]
)
def test_what_one_member_of_each_household_shows_needs_no_design(tmp_path: Path, question: list[str]):
    table = survey(120, size=3)
    table = table.append_column("age", pa.array(np.arange(table.num_rows) % 2 + 0.5))
    run(planned(tmp_path, *MEMBER, table=table), tmp_path / "release", release_key=KEY)

    def told(*asked: str) -> str:
        found = CliRunner().invoke(main, ["estimate", str(tmp_path / "release"), *asked])
        assert found.exit_code == 0, found.output
        return found.stdout

    assert "drawn by itself" not in told(*question)
    assert told("--mean", "age").endswith("--psu hid takes that into account\n")
    assert "drawn by itself" not in (tmp_path / "release" / "report.html").read_text("utf-8")


@pytest.mark.parametrize("weighted", [True, False])
def test_the_weight_of_a_member_who_stands_for_all_is_told_for_every_software(tmp_path: Path, weighted: bool):
    table = survey(120, size=3).slice(0, 300)
    table = table.append_column("age", pa.array(1.0 + np.arange(table.num_rows) % 7))
    role = [('name = "age"\nrole = "other"', 'name = "age"\nrole = "weight"')] * weighted
    release = run(planned(tmp_path, *MEMBER, *role, table=table), tmp_path / "release", release_key=KEY)
    readme = " ".join((release.path / "README.txt").read_text("utf-8").split())
    needed = "age times the number of records with its hid, which no column of data.parquet has."
    assert needed.removeprefix("age times " * (not weighted)) in readme
    assert ("age times" in readme) is weighted
    told = CliRunner().invoke(main, ["estimate", str(release.path), "--table", "sex"]).stdout
    counts = "Note: one member of each household shows values, and counts as often as the household has records"
    assert (f"{counts}; for figures of the population, weight the records: --weight age" in told) is weighted
    assert "every record counts once" not in told
    if weighted:
        told = CliRunner().invoke(main, ["estimate", str(release.path), "--table", "sex", "--weight", "age"]).stdout
        assert f"{counts}, each time with age" in told


def test_a_member_counts_with_its_weight_times_the_records_of_its_household():
    """By hand: the inverse of the matrix, on sums of these products."""
    matrix = randomised_response(2, 1.0)
    member = law(HOMES, split=Split.of([1.0], [Block(("sex",), matrix, unit="household")]))
    shown = ["F", None, "M", None, None, "F", None, "M"]
    columns = {
        "hid": [1, 1, 2, 3, 3, 3, 4, 4],
        "sex": [one or NOT_RELEASED for one in shown],
        "w": [2.0, 9.0, 3.0, 9.0, 9.0, 4.0, 9.0, 5.0],
    }
    found = estimate.table(pa.table(columns), ["sex"], member, weights="w")
    sums = np.array([2.0 * 2 + 4.0 * 3, 3.0 * 1 + 5.0 * 2])
    np.testing.assert_allclose(found.value, np.linalg.solve(matrix.array.T, sums / sums.sum()), atol=1e-9)
