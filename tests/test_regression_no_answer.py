"""A regression leaves out who has no answer of its response, as a mean does: unperturbed, and by corrected weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest
from scipy.special import expit, logit

import postrand as pr
from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.errors import DataError, EstimationError
from postrand.estimate.regression_terms import is_measured
from tests.r_cases import run_r

LEFT_OUT = "too few such records count for a coefficient of their own."
ILL = Variable("ill", "key", ("refused", "no", "yes"), missing_codes=("refused",))
KIDS = Variable("kids", "key", (0, 1, 2, 9), type="int64", missing_codes=(9,))
HOURS = Variable("hours", "key", (10, 20, 40), type="int64", missing="category")
SEX = Variable("sex", "key", ("f", "m"))
BOOK = Codebook((ILL, KIDS, HOURS, SEX))


def records(rng: np.random.Generator, n: int) -> pa.Table:
    sex, x = rng.integers(0, 2, n), rng.normal(size=n)
    ill = rng.random(n) < expit(-0.5 + 0.8 * sex + 0.5 * x)
    kids = np.minimum(rng.poisson(0.6 + 0.5 * sex), 2)
    silent = rng.random((3, n)) < np.array([0.1, 0.15, 0.2])[:, None] * (1 + sex)
    hours = np.array([10, 20, 40])[rng.integers(0, 3, n)]
    return pa.table(
        {
            "ill": np.where(silent[0], "refused", np.where(ill, "yes", "no")),
            "kids": np.where(silent[1], 9, kids),
            "hours": pa.array(hours, mask=silent[2]),
            "sex": np.array(["f", "m"])[sex],
            "x": x,
        }
    )


def said(formula: str) -> bool:
    return formula.partition(" ")[0] in ("ill", "kids", "hours")


@pytest.mark.parametrize(
    ("formula", "family"),
    [("ill ~ sex + x", "logistic"), ("kids ~ sex + x", "linear"), ("kids ~ sex", "poisson"), ("hours ~ sex", "linear")],
)
@pytest.mark.parametrize("method", ["equations", "likelihood"])
def test_an_unperturbed_response_is_as_if_who_has_no_answer_were_not_there(formula, family, method):
    frame = records(np.random.default_rng(1), 3000)
    law = pr.Mechanism({"sex": pr.randomised_response(2, 2.0)}, BOOK)
    name = formula.partition(" ")[0]
    column = frame.column(name).to_pylist()
    answers = [value not in ("refused", 9, None) for value in column]
    found = estimate.regression(formula, frame, law, family, method=method)
    alone = estimate.regression(formula, frame.filter(pa.array(answers)), law, family, method=method)
    assert (found.records, found.dropped) == (sum(answers), len(column) - sum(answers))
    np.testing.assert_allclose(found.value, alone.value, rtol=1e-9)
    np.testing.assert_allclose(found.standard_error, alone.standard_error, rtol=1e-9)
    assert any(note.startswith(f"Who has no answer of {name} (") for note in found.warnings)
    why = f"({name} or sex is missing, or {name} is no answer)"
    why = why.replace(f"{name} or sex", f"{name}, sex or x") if " + x" in formula else why
    told = f"{sum(answers):,} of 3,000 records, {3000 - sum(answers):,} left out {why}"
    assert told in found.includes
    assert told in str(found)
    assert found.modelled.partition(";")[0] == ("the probability of ill = yes" if name == "ill" else "")


def released(frame: pa.Table, law: pr.Mechanism, seed: int) -> pa.Table:
    found: pa.Table = pr.perturb(frame, law, pr.ReleaseKey.from_seed(seed))
    return found


@pytest.mark.parametrize("together", [False, True], ids=["blocks", "joint"])
def test_of_a_perturbed_response_the_answers_count_as_in_tables_and_means(together):
    blocks: dict[Any, Any] = {("ill", "sex"): pr.randomised_response(6, 3.0), "kids": pr.randomised_response(4, 2.0)}
    if not together:
        blocks = {v.name: pr.randomised_response(v.size, 2.0) for v in (ILL, KIDS, HOURS, SEX)}
    law = pr.Mechanism([pr.Block((n,) if isinstance(n, str) else n, m) for n, m in blocks.items()], BOOK)
    frame = released(records(np.random.default_rng(2), 6000), law, 5)
    both = dict(zip(("no", "yes"), estimate.table(frame, ["ill"], law).value[1:], strict=True))
    found = estimate.regression("ill ~ 1", frame, law, "logistic")
    assert found.value[0] == pytest.approx(logit(both["yes"] / sum(both.values())))
    said = "Who has no answer of kids (9) is left out; kids is perturbed, so the number of records includes them."
    assert said in estimate.mean(frame, "kids", law).warnings
    assert said in estimate.regression("kids ~ 1", frame, law, "linear").warnings
    cells = estimate.table(frame, ["ill", "sex"], law).value
    found = estimate.regression("ill ~ sex", frame, law, "logistic")
    want = logit(cells[2] / cells[1:].sum(axis=0))
    np.testing.assert_allclose([found.value[0], found.value.sum()], want, rtol=1e-6)
    for formula, mean in (
        ("kids ~ 1", estimate.mean(frame, "kids", law)),
        ("kids ~ sex", estimate.mean(frame, "kids", law, by="sex")),
        *([] if together else [("hours ~ sex", estimate.mean(frame, "hours", law, by="sex"))]),
    ):
        found = estimate.regression(formula, frame, law, "linear")
        np.testing.assert_allclose(np.cumsum(found.value), np.ravel(mean.value), rtol=1e-6)
        first = float(np.ravel(mean.standard_error)[0])
        assert found.standard_error[0] == pytest.approx(first, rel=0.02)  # both errors are first-order


def test_standard_errors_are_those_of_releases_drawn_anew():
    """300 populations and releases: the pooled standard error within 4 of its own Monte-Carlo errors."""
    law = pr.Mechanism({"ill": pr.randomised_response(3, 2.5), "sex": pr.randomised_response(2, 2.0)}, BOOK)
    found, errors, held = [], [], 0
    rng, truth = np.random.default_rng(3), (-0.5, 0.8, 0.5)
    for seed in range(300):
        frame = records(rng, 1500)
        own = estimate.regression("ill ~ sex + x", released(frame, law, seed), law, "logistic")
        found.append(own.value)
        errors.append(own.standard_error)
        low, high = own.interval(0.95)
        held += int(np.sum((low <= truth) & (high >= truth)))
    spread, stated = np.std(found, axis=0), np.sqrt(np.mean(np.square(errors), axis=0))
    assert np.all(np.abs(spread / stated - 1) < 4 / np.sqrt(2 * 300) + 0.03), (spread, stated)
    assert np.all(np.abs(np.mean(found, axis=0) - truth) < 4 * spread / np.sqrt(300) + 0.02)
    assert 0.92 < held / 900 < 0.98


def test_what_cannot_be_left_out_is_refused():
    law = pr.Mechanism({"ill": pr.randomised_response(3, 2.5), "kids": pr.randomised_response(4, 2.0)}, BOOK)
    frame = records(np.random.default_rng(4), 500)
    with pytest.raises(EstimationError, match="does not leave out categories that mean no answer: refused"):
        estimate.regression("ill ~ x", frame, law, "logistic", method="likelihood")
    with pytest.raises(DataError, match="needs two categories that are answers; got 0, 1, 2"):
        estimate.regression("kids ~ x", frame, law, "logistic")


def test_a_multinomial_response_keeps_who_has_no_answer_as_a_category():
    law = pr.Mechanism({"ill": pr.randomised_response(3, 2.5)}, BOOK)
    found = estimate.regression("ill ~ 1", records(np.random.default_rng(5), 2000), law, "multinomial")
    assert [name.partition(":")[0] for name in found.names] == ["yes", "refused"]
    assert not any("left out" in note for note in found.warnings)


@pytest.mark.parametrize("labels", [(), ("none", "1", "2"), ("north", "east", "south")])
def test_numbers_of_a_text_file_enter_a_formula_as_those_of_other_files(labels):
    """Texts are numbers, unless labels name them; both ways have a term of their own by C()."""
    rng = np.random.default_rng(6)
    kids = rng.integers(0, 3, 2000)
    frame = pa.table({"kids": kids, "pay": 3.0 * kids + rng.normal(size=2000)})
    text = frame.set_column(0, "kids", pa.array(kids.astype(str)))
    number = Variable("kids", "key", (0, 1, 2), labels, type="int64")
    book = Codebook((Variable("kids", "key", ("0", "1", "2"), labels),))
    found = estimate.regression(
        "pay ~ kids", frame, pr.Mechanism({"kids": pr.randomised_response(3, 3.0)}, Codebook((number,))), "linear"
    )
    law = pr.Mechanism({"kids": pr.randomised_response(3, 3.0)}, book)
    own = estimate.regression("pay ~ kids", text, law, "linear")
    each = estimate.regression("pay ~ C(kids)", text, law, "linear")
    said = "kids enters as a number; C(kids) compares its categories."
    if "north" in labels:
        assert said in found.warnings
        assert len(own.value) == 3
        np.testing.assert_allclose(own.value, each.value)
        return
    assert own.names == found.names
    np.testing.assert_allclose(own.value, found.value, rtol=1e-12)
    assert said in own.warnings
    assert said not in each.warnings
    assert said not in found.warnings


@pytest.mark.parametrize("codes", [("01", "02", "03"), ("1", "2", "n/a"), ("1.0", "2.0", "3.0")])
def test_texts_that_are_no_plain_numbers_are_categories(codes):
    assert not is_measured(Variable("v", "key", codes))


def test_a_covariate_that_hardly_any_record_has_no_answer_of_is_without_that_category():
    """The equations of the other true cells, by hand; a formula that names the comparison keeps the category."""
    rng, n = np.random.default_rng(6), 4000
    kids, sex = rng.choice([0, 1, 2], n), rng.integers(0, 2, n)
    kids[:25] = 9
    y = np.where(kids == 9, 50.0, kids + 0.5 * sex) + rng.normal(size=n)
    truth = pa.table({"kids": kids, "sex": np.array(["f", "m"])[sex], "y": y, "z": (y > 1).astype(np.int64)})
    law = pr.Mechanism({"kids": pr.randomised_response(4, 4.5), "sex": pr.randomised_response(2, 2.0)}, BOOK)
    frame = released(truth, law, 7)
    codes = {v.name: [v.categories.index(one) for one in frame.column(v.name).to_pylist()] for v in (KIDS, SEX)}
    weights = [np.linalg.inv(law[name].matrix.array)[codes[name]] for name in codes]
    cells = np.einsum("na,nb->nab", weights[0][:, :3], weights[1])  # without 9
    design = np.array([[[1, a == 1, a == 2, b] for b in (0, 1)] for a in range(3)], dtype=np.float64)
    for response, family, mean in (("y", "linear", np.asarray), ("z", "logistic", expit)):
        found = estimate.regression(f"{response} ~ C(kids) + sex", frame, law, family)
        assert found.names == ("Intercept", "C(kids)[T.1]", "C(kids)[T.2]", "sex[T.m]")
        given = frame.column(response).to_numpy()[:, None, None]
        equations = np.einsum("nab,abp->p", cells * (given - mean(design @ found.value)), design)
        np.testing.assert_allclose(equations / n, 0, atol=1e-8)
        assert (
            "Who has no answer of kids (9) is left out: too few such records count for a coefficient of their own."
            in found.warnings
        )
    kept = estimate.regression('y ~ C(kids, Treatment("0"))', frame, law, "linear")
    alone = estimate.regression("y ~ C(kids)", frame, law, "linear")
    assert kept.names[3].endswith("[T.9]")
    np.testing.assert_allclose(kept.value[:3], alone.value, rtol=1e-5)
    np.testing.assert_allclose(kept.standard_error[:3], alone.standard_error, rtol=0.01)


@pytest.mark.parametrize("family", ["linear", "logistic"])
def test_a_number_enters_as_one_where_some_have_no_answer(family):
    """The equations of the cells with a number, by hand; C(kids) compares; unperturbed, records are left out."""
    rng, n = np.random.default_rng(12), 5000
    kids, sex = rng.choice([0, 1, 2, 9], n, p=[0.3, 0.3, 0.25, 0.15]), rng.integers(0, 2, n)
    y = np.where(kids == 9, -1.0, 0.7 * kids + 0.5 * sex - 0.8) + rng.normal(size=n)
    truth = pa.table({"kids": kids, "sex": np.array(["f", "m"])[sex], "y": y, "z": (y > 0).astype(np.int64)})
    law = pr.Mechanism({"kids": pr.randomised_response(4, 3.0), "sex": pr.randomised_response(2, 2.0)}, BOOK)
    frame, response = released(truth, law, 3), "y" if family == "linear" else "z"
    found = estimate.regression(f"{response} ~ kids + sex", frame, law, family)
    assert found.names == ("Intercept", "kids", "sex[T.m]")
    codes = {v.name: [v.categories.index(one) for one in frame.column(v.name).to_pylist()] for v in (KIDS, SEX)}
    weights = [np.linalg.inv(law[name].matrix.array)[codes[name]] for name in codes]
    cells = np.einsum("na,nb->nab", weights[0][:, :3], weights[1])
    design = np.array([[[1, a, b] for b in (0, 1)] for a in range(3)], dtype=np.float64)
    mean = np.asarray if family == "linear" else expit
    given = frame.column(response).to_numpy()[:, None, None]
    equations = np.einsum("nab,abp->p", cells * (given - mean(design @ found.value)), design)
    np.testing.assert_allclose(equations / n, 0, atol=1e-8)
    assert "Who has no answer of kids (9) is left out: it enters as a number." in found.warnings
    own = estimate.regression(f"{response} ~ kids + sex", truth.filter(pa.array(kids != 9)), SEXES, family)
    np.testing.assert_allclose(found.value, own.value, atol=5 * found.standard_error.max())
    clear = estimate.regression(f"{response} ~ kids + sex", truth, SEXES, family)
    np.testing.assert_allclose(clear.value, own.value, rtol=1e-9)
    assert clear.dropped == (kids == 9).sum()
    each = estimate.regression(f"{response} ~ C(kids) + sex", frame, law, family)
    assert each.names[-2:] == ("C(kids)[T.9]", "sex[T.m]")


SEXES = pr.Mechanism({"sex": pr.TransitionMatrix.identity(2)}, BOOK)


def without_hours(seed: int) -> tuple[pa.Table, pr.Mechanism]:
    """Return a release in which who has no answer of hours has none of kids, which are perturbed."""
    frame = records(np.random.default_rng(seed), 4000)
    kids = [
        9 if hours is None else one
        for hours, one in zip(frame["hours"].to_pylist(), frame["kids"].to_pylist(), strict=True)
    ]
    law = pr.Mechanism({"kids": pr.randomised_response(4, 3.0)}, BOOK)
    return released(frame.set_column(1, "kids", pa.array(kids)), law, 9), law


@pytest.mark.r
def test_r_leaves_the_same_records_out(tmp_path: Path):
    frame, law = without_hours(8)
    found = estimate.regression("kids ~ C(hours)", frame, law, "linear")
    pa.csv.write_csv(frame, tmp_path / "data.csv")
    parts = {"manifest": {"schema": "postrand/release/3", "data": "data.csv"}, "mechanism": law.to_dict()}
    for part, value in (parts | {"codebook": {"schema": "postrand/codebook/1", **BOOK.to_dict()}}).items():
        (tmp_path / f"{part}.json").write_text(json.dumps(value), "utf-8")
    script = """
        e <- release_lm(kids ~ factor(hours), read_release(".", check = FALSE))
        told <- list(e$table$estimate, e$table$standard_error, e$records, e$dropped, e$warnings)
        writeLines(jsonlite::toJSON(told, digits = NA), "told.json")
    """
    run_r(tmp_path, script)
    value, error, many, dropped, told = json.loads((tmp_path / "told.json").read_text("utf-8"))
    np.testing.assert_allclose(value, found.value, atol=1e-10)
    np.testing.assert_allclose(error, found.standard_error, atol=1e-10)
    assert (many, dropped) == ([found.records], [found.dropped])
    assert [text for text in found.warnings if text.startswith("Who has no")] == told[: len(found.warnings)]


def test_who_has_no_answer_of_an_unperturbed_covariate_is_left_out_where_hardly_any_has_a_response():
    frame, law = without_hours(8)
    found = estimate.regression("kids ~ C(hours)", frame, law, "linear")
    assert not any("(missing)" in name for name in found.names)
    alone = estimate.regression("kids ~ C(hours)", frame.filter(pc.is_valid(frame["hours"])), law, "linear")
    np.testing.assert_allclose(found.value, alone.value, rtol=1e-9)
    assert (found.records, found.dropped) == (alone.records, 4000 - alone.records)
    told = (
        "Who has no answer of hours (missing) is left out: too few such records count for a coefficient of their own."
    )
    assert told in found.warnings
    often = estimate.regression(
        "ill ~ C(hours)", frame, pr.Mechanism({"ill": pr.randomised_response(3, 3.0)}, BOOK), "logistic"
    )
    assert often.names[-1] == "C(hours)[T.(missing)]"
