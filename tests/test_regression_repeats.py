"""Terms that repeat one another are named, where no epsilon helps: a category of one covariate is one of another."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import postrand as pr
from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.errors import EstimationError
from postrand.estimate.regression_repeats import in_words, repeats
from postrand.mechanism import Block
from tests.r_cases import run_r

AGE = Variable("age", "key", ("0-15", "16-44", "45+"))
EDUC = Variable("educ", "key", ("not asked", "low", "high"))
POOR = Variable("poor", "sensitive", ("no", "yes"))
BOOK = Codebook((AGE, EDUC, POOR))
WITH_PAY = Codebook((*BOOK.variables, Variable("pay", "other", type="double")))


def people(n: int, moved: float = 0.0, seed: int = 1) -> pa.Table:
    """Return persons of whom those of 0-15 were not asked; a share ``moved`` of these was, so that terms differ."""
    rng = np.random.default_rng(seed)
    age = rng.choice(3, n, p=[0.2, 0.45, 0.35])
    educ = np.where((age == 0) & (rng.random(n) >= moved), 0, rng.integers(1, 3, n))
    poor = rng.random(n) < 0.15 + 0.1 * (age == 0) + 0.05 * (educ == 1)
    frame = {v.name: np.array(v.categories)[codes] for v, codes in ((AGE, age), (EDUC, educ), (POOR, poor.astype(int)))}
    return pa.table(frame)


def released(table: pa.Table, mechanism: pr.Mechanism) -> pa.Table:
    return pr.perturb(table, mechanism, release_key=pr.ReleaseKey.from_seed(3))


APART = pr.Mechanism({"age": pr.randomised_response(3, 3.0), "educ": pr.randomised_response(3, 3.0)}, BOOK)
JOINT = pr.Mechanism([Block(("age", "educ"), pr.randomised_response(9, 5.0))], BOOK)
AGE_ALONE = pr.Mechanism({"age": pr.randomised_response(3, 3.0)}, BOOK)
SAME = "age = 0-15 and educ = not asked seem to be the same records, so that no epsilon tells their terms apart"


def said(table: pa.Table, mechanism: pr.Mechanism, method="equations") -> str:
    try:
        found = estimate.regression(
            "poor ~ educ + age", released(table, mechanism), mechanism, "logistic", method=method
        )
    except EstimationError as error:
        return str(error)
    return "\n".join(found.warnings)


@pytest.mark.parametrize("mechanism", [APART, JOINT, AGE_ALONE])
def test_terms_that_repeat_one_another_are_named_whether_the_fit_is_refused_or_not(mechanism):
    """Two independent blocks, one joint block, one variable unperturbed: the true file has no unique fit at any ε."""
    text = said(people(8000), mechanism)
    assert SAME in text
    assert "leave one of the two variables out, or merge one of the two categories with another" in text
    assert "higher epsilon" not in text


@pytest.mark.parametrize("mechanism", [APART, JOINT, AGE_ALONE])
def test_terms_that_differ_in_a_third_of_the_records_are_not_named(mechanism):
    assert "same records" not in said(people(8000, moved=0.33), mechanism)


@pytest.mark.parametrize("mechanism", [APART, JOINT, AGE_ALONE])
def test_records_in_both_categories_are_estimated_without_bias(mechanism):
    """Over 40 releases the corrected counts have the true ones as their mean: also within one joint block."""
    from postrand.estimate.regression_data import read
    from postrand.estimate.regression_moments import records_of
    from postrand.estimate.regression_weakest import categories

    table = people(1500, moved=0.4)
    true = np.sum((table.column("age").to_numpy() == "0-15") & (table.column("educ").to_numpy() == "not asked"))
    found = []
    for seed in range(40):
        drawn = pr.perturb(table, mechanism, release_key=pr.ReleaseKey.from_seed(seed))
        data = read("poor ~ educ + age", drawn, mechanism, "logistic", None, None)
        held = records_of(data)
        one, two = (next(c for c in categories(data, held) if (c.name, c.code) == (n, 0)) for n in ("age", "educ"))
        found.append(held.count @ one.together(two, held.answering()))
    error = np.std(found, ddof=1) / np.sqrt(40)
    assert abs(np.mean(found) - true) < 4 * error + 1e-9


@pytest.mark.parametrize("mechanism", [APART, JOINT, AGE_ALONE])
def test_a_likelihood_that_has_no_single_maximum_says_the_same(mechanism):
    text, same = said(people(8000), mechanism, "likelihood"), said(people(8000), mechanism)
    assert text.startswith("the likelihood has no single maximum: terms repeat one another: " + SAME)
    assert text.partition("leave one of")[2] == same.partition("leave one of")[2].partition("\n")[0]


def test_a_weak_release_names_no_pair():
    """At ε = 0.5 nothing is told of two rare categories: the message says that the perturbation is too strong."""
    weak = pr.Mechanism({"age": pr.randomised_response(3, 0.3), "educ": pr.randomised_response(3, 0.3)}, BOOK)
    assert "same records" not in said(people(2000, moved=0.5), weak)


def test_nothing_is_said_without_pairs():
    assert in_words(()) == ""
    assert repeats.__doc__


@pytest.mark.r
@pytest.mark.parametrize("mechanism", [APART, JOINT, AGE_ALONE])
@pytest.mark.parametrize("response", ["poor", "pay"])
def test_r_names_the_same_pairs(mechanism, response, tmp_path):
    """Of a refused logistic regression, or of one with a warning; and of a linear one."""
    table = people(8000)
    table = table.append_column("pay", pa.array(np.random.default_rng(5).normal(size=8000)))
    frame, family = released(table, mechanism), "logistic" if response == "poor" else "linear"
    try:
        wanted = "\n".join(estimate.regression(f"{response} ~ educ + age", frame, mechanism, family).warnings)
    except EstimationError as error:
        wanted = str(error)
    write_release(frame, mechanism, tmp_path)
    fit = "release_glm(poor" if response == "poor" else "release_lm(pay"
    script = f"""
        told <- tryCatch({fit} ~ educ + age, read_release(".", check = FALSE))$warnings, error = conditionMessage)
        writeLines(jsonlite::toJSON(told), "told.json")
    """
    run_r(tmp_path, script)
    told = "\n".join(json.loads((tmp_path / "told.json").read_text("utf-8")))
    assert SAME in told
    assert SAME in wanted
    step = [text.partition("leave one of")[2].partition("\n")[0] for text in (told, wanted)]
    assert step[0] == step[1] != ""


def write_release(frame: pa.Table, mechanism: pr.Mechanism, folder) -> None:
    """Write what R reads of a release."""
    pa.csv.write_csv(frame, folder / "data.csv")
    parts = {"manifest": {"schema": "postrand/release/3", "data": "data.csv"}, "mechanism": mechanism.to_dict()}
    for part, value in (parts | {"codebook": {"schema": "postrand/codebook/1", **WITH_PAY.to_dict()}}).items():
        (folder / f"{part}.json").write_text(json.dumps(value), "utf-8")
