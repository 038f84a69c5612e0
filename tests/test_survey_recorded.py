"""A survey design that the codebook records: it is released, verified, and used by estimates without being told."""

import dataclasses
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand import Codebook, Variable
from postrand.cli import main
from postrand.codebook.survey_design import SurveyDesign
from postrand.engines.database import open_records
from postrand.errors import SpecificationError, UsageError
from postrand.estimate import offer
from postrand.estimate.survey_design import SurveyWarning, set_aside
from postrand.plan.infer import load_codebook
from postrand.release import rebuild_report
from postrand.report.captions import counted_words
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
    assert asked()["notes"] == ["Note: weighted by weight, as in the survey design of the release"]


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
    ('psu = "village"', 'psu = "sex"', r"'sex' is perturbed, so it cannot be in the survey design \(psu\)"),
    ('strata = "area"', 'strata = "sex"', r"leave strata out of \[survey\] \(standard errors are then without them"),
    ('psu = "village"', 'psu = "name"', "'name' is dropped.*as it is, if it does not give a perturbed variable away"),
    ('psu = "village"', 'psu = "vilage"', "no variable 'vilage' in the codebook.*village"),
    ('psu = "village"', 'village = "village"', "unknown part 'village'"),
    ('psu = "village"', 'rho = 0.5', "'rho' is about replicate weights"),
    ('psu = "village"', 'mse = "yes"', "'mse' is not true or false"),
    ('psu = "village"', 'replicates = {a = 1}', "names a column by a text"),
    ('psu = "village"', 'fpc = 1', "fpc of a codebook names a column; got 1"),
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


UNUSED = (
    "the method {} does not use weights, clusters and strata of the survey design that is stored in the release: "
    "values can be wrong for the population and standard errors can be too small"
)


def test_a_method_that_takes_no_design_says_what_it_leaves_aside_in_the_command_and_in_python():
    assert asked("--method", "likelihood")["notes"] == [
        f"Note: {UNUSED.format('likelihood')}; without --method they are used"
    ]
    notes = asked("--method", "likelihood", "--weight", "weight")["notes"]
    assert (
        "does not use clusters and strata of the survey design that is stored in the release: standard errors"
        in notes[1]
    )
    found = pr.read_release(KEPT)
    frame, law = found.frame(), found.mechanism
    done = pr.complete(found, copies=2, seed=1)
    own = re.escape("; without 'method' and 'model', design=mechanism.codebook.survey uses them")
    for method, ask in (
        ("likelihood", lambda: pr.estimate.maximum_likelihood(frame, ["sex"], law)),
        ("likelihood", lambda: pr.estimate.table(frame, ["sex"], law, method="likelihood")),
        ("likelihood", lambda: pr.estimate.regression("sex ~ area", frame, law, "logistic", method="likelihood")),
        ("model", lambda: pr.estimate.table(frame, ["sex"], law, model=done)),
        ("model", lambda: pr.estimate.independence_test(frame, "sex", "area", law, model=done)),
    ):
        with pytest.warns(SurveyWarning, match=UNUSED.format(method) + own) as told:
            ask()
        assert len([one for one in told if one.category is SurveyWarning]) == 1
    pr.estimate.table(frame, ["sex"], law, design=found.codebook.survey)
    pr.estimate.table(frame, ["sex"], law)  # the unbiased estimate could take one: nothing is left aside by the method


def test_what_is_left_aside_is_what_the_design_records_and_no_option_gives():
    def told(design, **given):
        book = Codebook(tuple(Variable(name, "other", type="double") for name in "whpab"), survey=design)
        return set_aside(SimpleNamespace(codebook=book), "model", **given)

    assert told(SurveyDesign(weights="w"), weights="w") == ""
    assert "use weights of" in told(SurveyDesign(weights="w"))
    assert told(SurveyDesign(weights="w")).endswith("in the release: values can be wrong for the population")
    assert told(SurveyDesign(strata="h")).endswith(
        "strata of the survey design that is stored in the release: standard errors can be too large"
    )
    replicated = SurveyDesign(weights="w", replicates=("a", "b"), method="brr")
    assert "weights and replicate weights of" in told(replicated)
    assert told(replicated, weights="w").endswith("in the release: standard errors can be too small")


def test_corrected_tables_of_the_report_say_that_they_are_not_weighted(tmp_path):
    """Oracle: the figures are those of the estimate without weights, which are not those of the recorded design."""
    page = " ".join(rebuild_report(KEPT, tmp_path / "page.html").read_text().split())
    (caption,) = re.findall(r"<figcaption>(Shares of .*?)</figcaption>", page)
    assert caption.endswith(
        "with its 95% interval. Figures of the records, not of the population: each record counts once, not by weight, "
        "and standard errors are those of a simple random sample. &#39;postrand estimate&#39; gives those of the "
        "population, by the survey design."
    )
    found = pr.read_release(KEPT)
    plain = pr.estimate.table(found.frame(), ["sex"], found.mechanism)
    weighted = pr.estimate.table(found.frame(), ["sex"], found.mechanism, design=found.codebook.survey)
    shown = [
        f"<strong>{100 * share:.2f}</strong></td><td>{100 * error:.2f}</td>"
        for share, error in zip(plain.value, plain.standard_error, strict=True)
    ]
    assert all(text in page for text in shown)
    assert abs(weighted.value - plain.value).max() > 0.001


def test_the_caption_names_what_is_recorded_and_is_silent_where_nothing_is():
    variables = tuple(Variable(name, "other", type="double") for name in "wh")
    weight = Variable("w", "weight", type="double")
    assert counted_words(Codebook(variables)) == ""
    assert counted_words(Codebook((weight, variables[1]))).endswith("for that, use 'postrand estimate --weight w'.")
    design = SurveyDesign(strata="h")
    assert counted_words(Codebook(variables, survey=design)).startswith(" Standard errors are those of a simple random")


def test_the_report_counts_the_claims_of_its_table_and_what_protect_prints_beside_them(tmp_path):
    for kept, further in (("surveyed", False), ("housed", True)):
        page = rebuild_report(KEPT.parent / kept, tmp_path / f"{kept}.html").read_text()
        found = pr.read_release(KEPT.parent / kept)
        claims, printed = len(found.certificate["claims"]), len(found.certificate_sentences)
        table = page[page.index('aria-label="Privacy claims"') : page.index('id="limits"')]
        assert table[: table.index("</table>")].count('<th scope="row">') == claims
        assert f"<dt>Privacy claims</dt><dd>{claims}</dd>" in page
        said = f"<dt>Further statements of the guarantee</dt><dd>{printed - claims}</dd>"
        assert (said in page) == (printed > claims) == further


def test_a_design_can_name_what_a_recode_makes_and_advice_refuses_it_where_it_is_perturbed(tmp_path):
    rng = np.random.default_rng(1)
    held = {"district": rng.integers(0, 4, 300), "sex": rng.choice(["F", "M"], 300), "w": rng.integers(1, 4, 300)}
    file = tmp_path / "people.parquet"
    pa.parquet.write_table(pa.table(held), file)
    text = '[survey]\nweights = "w"\nstrata = "reg"\n'
    text += '[[variables]]\nname = "reg"\nrole = "key"\ncategories = ["a", "b"]\n'
    text += '[[variables]]\nname = "sex"\nrole = "key"\ncategories = ["F", "M"]\n'
    text += '[[variables]]\nname = "w"\nrole = "weight"\ntype = "int64"\n'
    text += '[[recodes]]\nvariable = "reg"\nfrom = "district"\ngroups = { a = [0, 1], b = [2, 3] }\n'
    book = tmp_path / "codebook.toml"
    book.write_text(text)
    assert {*open_records(file, load_codebook(book)).schema.names} == {"sex", "w", "reg"}
    run = [file, "--codebook", book, "--out", tmp_path / "advice"]
    told = CliRunner().invoke(main, ["advise", *map(str, run)])
    assert told.exit_code == SpecificationError.exit_code
    assert "'reg' is perturbed, so it cannot be in the survey design (strata)" in told.output + told.stderr
    book.write_text(text.replace('role = "key"', 'role = "other"', 1))
    told = CliRunner().invoke(main, ["advise", *map(str, run)])
    assert "the survey design of the codebook stays: w, reg" in told.output, told.output
