"""A survey design that the codebook records: it is released, verified, and used by estimates without being told."""

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import postrand as pr
from postrand import Codebook, Variable
from postrand.cli import main
from postrand.codebook.survey_design import SurveyDesign
from postrand.errors import SpecificationError, UsageError
from postrand.estimate import offer
from tests.fixtures.releases.make import write_villages

KEPT = Path(__file__).parent / "fixtures" / "releases" / "3" / "surveyed"
DESIGN = SurveyDesign(weights="weight", strata="area", psu="village")


def asked(*options):
    told = CliRunner().invoke(main, ["estimate", str(KEPT), "--table", "sex", "--json", *options])
    assert told.exit_code == 0, told.output
    return json.loads(told.stdout)


def test_a_release_with_a_design_verifies_and_is_estimated_by_it():
    assert pr.verify(KEPT).verdict == "verified"
    assert json.loads((KEPT / "codebook.json").read_text())["schema"] == "postrand/codebook/3"
    found = pr.read_release(KEPT)
    assert found.codebook.survey == DESIGN
    wanted = pr.estimate.table(found.frame(), ["sex"], found.mechanism, design=found.codebook.survey)
    assert asked()["standard_error"] == pytest.approx(wanted.standard_error.tolist())
    assert "16 primary sampling units in 2 strata" in asked()["includes"]
    assert asked()["notes"] == ["Note: weighted by weight, as the survey design that the release records says"]


def test_what_is_stated_stands_before_what_is_recorded():
    assert "16 primary sampling units in 2 strata" in asked("--weight", "weight")["includes"]
    assert "16 primary sampling units, 15 degrees" in asked("--psu", "village")["includes"]
    assert "primary sampling" not in asked("--method", "likelihood")["includes"]


def test_a_named_weight_replaces_the_weight_alone_and_keeps_clusters_and_strata():
    assert asked("--weight", "weight")["standard_error"] == asked()["standard_error"]
    assert offer._with_own(DESIGN, {"weights": "other"}) == dataclasses.replace(DESIGN, weights="other")


def test_a_named_weight_beside_recorded_replicate_weights_is_refused():
    recorded = SurveyDesign(weights="w", replicates=("a", "b"), method="brr")
    assert offer._with_own(recorded, {"weights": "w"}) == recorded
    with pytest.raises(UsageError, match="leave out --weight and --strata"):
        offer._with_own(recorded, {"weights": "other"})


@pytest.mark.parametrize(("old", "new", "what"), [
    ('psu = "village"', 'psu = "sex"', "'sex' is in the survey design, but it is perturbed"),
    ('psu = "village"', 'psu = "name"', "'name' is in the survey design, but it is dropped"),
    ('psu = "village"', 'psu = "vilage"', "no variable 'vilage' in the codebook.*village"),
    ('psu = "village"', 'village = "village"', "unknown part 'village'"),
    ('psu = "village"', 'rho = 0.5', "'rho' is about replicate weights"),
    ('psu = "village"', 'mse = "yes"', "'mse' is not true or false"),
    ('psu = "village"', 'replicates = {a = 1}', "names a column by a text"),
    ('[survey]', '[[survey]]', "not a table"),
])  # fmt: skip
def test_a_plan_with_a_design_that_does_not_fit_is_refused(tmp_path, old, new, what):
    write_villages(tmp_path)
    book = tmp_path / "villages.toml"
    text = book.read_text()
    assert old in text
    book.write_text(text.replace(old, new))
    with pytest.raises(SpecificationError, match=what):
        pr.load_plan(tmp_path / "villages-plan.toml")


def test_a_codebook_keeps_its_design_where_all_its_columns_are():
    names = ("sex", "area", "village", "weight")
    book = Codebook(tuple(Variable(name, "other", type="double") for name in names), survey=DESIGN)
    assert Codebook.from_dict(book.to_dict()) == book
    assert book.select(["weight", "area", "village"]).survey == DESIGN
    assert book.select(["weight", "area"]).survey is None
    assert "survey" not in Codebook(book.variables).to_dict()
    with pytest.raises(SpecificationError, match="no variable 'psu'"):
        Codebook(book.variables, survey=SurveyDesign(psu="psu"))


def test_the_workbench_keeps_a_recorded_design(tmp_path):
    from postrand.app.documents import codebook_of, codebook_toml
    from postrand.app.plans import open_plan

    write_villages(tmp_path)
    plan = tmp_path / "villages-plan.toml"
    each = '[blocks.privacy]\nmodel = "differential"\nepsilon = 2.0\n'
    plan.write_text(plan.read_text() + each)
    decisions = open_plan(plan, tmp_path)
    assert codebook_of(decisions).survey == DESIGN
    assert 'psu = "village"' in codebook_toml(decisions)
