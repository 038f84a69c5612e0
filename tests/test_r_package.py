"""The R package estimates from every kind of release what Python does, values and standard errors to 1e-10."""

import importlib.util
import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import statsmodels.formula.api as smf
from benchmarks.papers.pages import place

import postrand as pr
from postrand import Codebook, Mechanism, Variable, estimate
from postrand.errors import DataError, UsageError
from postrand.estimate.nominal import limit_warnings
from postrand.estimate.regression_formula import amounts_of
from postrand.estimate.regression_result import Regression
from postrand.estimate.regression_terms import amount_notes, answers_first, is_measured, reference_notes
from postrand.estimate.result import SHOWING
from postrand.mechanism import Block, Split
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.recoding import Recode
from tests import r_page
from tests.conftest import ROOT
from tests.r_cases import (
    EXTDATA,
    KEPT,
    LAWS,
    NEAR,
    PACKAGE,
    PAIR,
    QUESTIONS,
    Compared,
    Files,
    ask_r,
    compare_all,
    in_r,
    make_releases,
    rough,
    run_r,
)


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Files]:
    return make_releases(tmp_path_factory.mktemp("releases"))


@pytest.fixture(scope="module")
def answers(releases: dict[str, Files], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return ask_r(releases, tmp_path_factory.mktemp("answers"))


@pytest.fixture(scope="module")
def compared(releases: dict[str, Files], answers: list[dict[str, Any]]) -> list[Compared | None]:
    return compare_all(releases, answers)


def _small(found: re.Match[str]) -> str:
    """Return a truth value as R has it from the codebook."""
    return found[0].lower()


@pytest.mark.r
def test_answers_are_those_of_python(compared: list[Compared | None], answers: list[dict[str, Any]]) -> None:
    for one, each, answer in zip(QUESTIONS, compared, answers[:-1], strict=True):
        if each is None:
            assert "Next: " in answer["refused"][0], one
            continue
        assert each.apart < NEAR, one
        assert f"; {answer['counted'][0]}; standard errors include" in each.found.includes, one
        assert "".join(answer["modelled"]) == re.sub("True|False", _small, getattr(each.found, "modelled", "")), one
        absent = [text for text in answer["warnings"] if text.startswith("Who has no")]
        assert absent == [text for text in each.found.warnings if text.startswith("Who has no")], one
        assert each.shared == any("share one draw" in text for text in answer["warnings"]), one
    assert compared.count(None) == 4
    assert any("missing, or score is no answer" in text for each in answers[:-1] for text in each.get("counted", ()))


@pytest.mark.r
def test_labels_and_warnings_are_those_of_python(releases: dict[str, Files], answers: list[dict[str, Any]]) -> None:
    asked = {
        (one.release, one.kind, str(one.what)): answer for one, answer in zip(QUESTIONS, answers[:-1], strict=True)
    }
    labels = asked["singles", "table", "['region', 'sex', 'area']"]["labels"]
    found = estimate.table(releases["singles"].frame, ["region", "sex", "area"], LAWS["singles"])
    shown = [column.to_pylist() for column in found.to_arrow().columns[:3]]
    assert [labels[name] for name in ("region", "sex", "area")] == shown
    assert any("(missing)" in column for column in shown)
    few = [
        answer
        for (name, kind, _), answer in asked.items()
        if (name, kind) == ("joint", "mean") and "Inf" in answer["error"]
    ]
    assert [text[:11] for answer in few for text in answer["warnings"]] == ["Too few rec"]


@pytest.mark.r
def test_shares_are_of_known_categories_that_are_among_the_others(tmp_path: Path) -> None:
    script = f"""
        release <- read_release({in_r((EXTDATA / "survey").as_posix())})
        said <- function(...) tryCatch(release_share(release, "region", ...), error = conditionMessage)
        both <- list(release_share(release, "sex", "Female")$table, release_share(release, "sex", "F")$table)
        told <- list(said(of = "n", among = "e"), said(of = "q"), said(of = character()),
                     identical(both[[1]], both[[2]]))
        writeLines(jsonlite::toJSON(told), "told.json")
    """
    run_r(tmp_path, script)
    apart, unknown, none, alike = (one[0] for one in json.loads((tmp_path / "told.json").read_text("utf-8")))
    assert apart.startswith("'region': a share is of categories that are among the others, and these are not: n. Next:")
    assert unknown == "'region': no category 'q'. Next: use one of n, e, s, (missing)."
    assert none.startswith("'region': no category is named. Next:")
    assert alike


@pytest.mark.r
def test_no_answer_is_no_reference_as_in_python(tmp_path: Path) -> None:
    """Where codes for no answer are first: with labels, without, beside a missing category, and of a quantity."""
    codes, labels = (-9, -8, 1, 2), ("refused", "don't know", "low", "high")
    book = Codebook(
        (
            Variable("educ", "key", codes, labels, type="int64", missing_codes=(-9, -8)),
            Variable("job", "key", codes, type="int64", missing="category", missing_codes=(-9,)),
            Variable("sex", "key", (1, 2), type="int64", missing="category"),
            Variable("pay", "other", type="double"),
        )
    )
    (tmp_path / "book.json").write_text(json.dumps(book.to_dict()), "utf-8")
    script = """
        variables <- lapply(jsonlite::read_json("book.json")$variables, variable_of)
        names(variables) <- vapply(variables, function(v) v$name, "")
        release <- list(variables = variables)
        told <- list(reference_notes(release, names(variables)),
                     lapply(c("educ", "job", "sex"), function(name) answers_first(variables[[name]]) - 1),
                     levels(model_values(release, "job", 0:4)))
        writeLines(jsonlite::toJSON(told), "told.json")
    """
    run_r(tmp_path, script)
    notes, orders, levels = json.loads((tmp_path / "told.json").read_text("utf-8"))
    assert notes == list(reference_notes("y ~ educ + job + sex + pay", book, book.names))
    assert [text.split(", the first")[0] for text in notes] == [
        "Terms of educ compare with low",
        "Terms of job compare with -8",
    ]
    assert orders == [answers_first(book[name]).tolist() for name in ("educ", "job", "sex")]
    assert levels == ["-8", "1", "2", "-9", "(missing)"]


@pytest.mark.r
def test_which_texts_are_amounts_is_said_as_in_python(tmp_path: Path) -> None:
    book = Codebook(
        (
            Variable("kids", "key", ("0", "1", "2.5", "-3", "100000")),
            Variable("share", "key", ("0", "1")),
            Variable("zip", "key", ("01", "02", "03")),
            Variable("female", "key", ("0", "1"), ("man", "woman")),
            Variable("mood", "key", ("1", "2", "3"), ("low", "middling", "high"), ordered=True),
            Variable("area", "key", ("1", "2", "3"), ("North", "South", "East")),
            Variable("rooms", "key", ("1", "2", "3"), ("1", "2", "3 or more")),
            Variable("educ", "key", ("1", "2", "9"), missing_codes=("9",)),
            Variable("job", "key", ("1", "2", "none")),
            Variable("age", "key", (1, 2, 3), type="int64"),
        )
    )
    (tmp_path / "book.json").write_text(json.dumps(book.to_dict()), "utf-8")
    formula = f"y ~ {' + '.join(book.names)} + C(kids)"
    script = f"""
        variables <- lapply(jsonlite::read_json("book.json")$variables, variable_of)
        names(variables) <- vapply(variables, function(v) v$name, "")
        release <- list(variables = variables)
        measured <- vapply(names(variables), function(name) is_measured(release, name), TRUE)
        told <- list(names(variables)[measured], amount_notes({formula.replace("C(", "factor(")}, release))
        writeLines(jsonlite::toJSON(told), "told.json")
    """
    run_r(tmp_path, script)
    measured, notes = json.loads((tmp_path / "told.json").read_text("utf-8"))
    assert (
        measured
        == [v.name for v in book.variables if is_measured(v)]
        == ["kids", "share", "mood", "rooms", "educ", "age"]
    )
    wanted = [text.replace("C(", "factor(") for text in amount_notes(formula, book)]
    assert notes == wanted
    assert len(wanted) == 4


@pytest.mark.r
def test_numbers_of_households_are_refused_as_in_python(releases: dict[str, Files], tmp_path: Path) -> None:
    given = releases["households"]
    script = f"""
        release <- read_release({in_r(given.path.as_posix())}, check = FALSE)
        said <- function(code) tryCatch(code, error = conditionMessage)
        told <- c(said(release_table(release, c("region", "house"))), said(release_mean(release, "house")),
                  said(release_mean(release, "pay", by = "house")), said(release_lm(pay ~ house, release)),
                  said(release_lm(house ~ region, release)), said(release_mean(release, "pay", weights = "house")))
        writeLines(jsonlite::toJSON(told), "told.json")
    """
    run_r(tmp_path, script)
    with pytest.raises(UsageError) as refused:
        estimate.mean(given.frame, "house", given.mechanism)
    assert json.loads((tmp_path / "told.json").read_text("utf-8")) == [str(refused.value)] * 6


LIMITED: list[dict[str, Any]] = [
    {"top": 85},
    {"bottom": 0.5},
    {"bottom": 0, "top": 100_000_000},
    {"missing": [99]},
    {"bands": [0, 18]},
    {"steps": [{"top": 5400}, {"rounding": 1000}]},
    {"steps": [{"bottom": 0.26, "top": 9.5}, {"rounding": 0.1}]},
    {"steps": [{"bottom": 1, "top": 4}, {"rounding": 10}]},
    {"steps": [{"top": 90}, {"bottom": 5, "top": 80}]},
    {"steps": [{"top": 85}, {"bands": [0, 18]}]},
]


@pytest.mark.r
def test_recoded_limits_are_told_as_python_does(tmp_path: Path) -> None:
    """Each recode, of a variable with and without categories; and results of a release with a top coding."""
    recodes = tuple(Recode.from_dict({"variable": f"v{k}", **one}) for k, one in enumerate(LIMITED))
    variables = [
        Variable(one.variable, "key", ("0-17", "18+")) if "bands" in str(LIMITED[k]) else
        Variable(one.variable, "key", (1, 2, 3, 80) if k % 2 else (), type="double", missing="keep")
        for k, one in enumerate(recodes)
    ]  # fmt: skip
    book = Codebook(tuple(variables), recodes=recodes)
    (tmp_path / "book.json").write_text(json.dumps(book.to_dict()), "utf-8")
    folder = KEPT / "3" / "recoded"
    script = f"""
        book <- jsonlite::read_json("book.json")
        variables <- lapply(book$variables, variable_of)
        names(variables) <- vapply(variables, function(v) v$name, "")
        told <- lapply(c("mean", "regression"), function(what) {{
          limit_warnings(list(variables = variables, recodes = book$recodes), names(variables), what)
        }})
        release <- read_release({in_r(folder.as_posix())})
        told <- c(told, list(release_mean(release, "weight", by = "grown")$warnings,
                             release_lm(weight ~ grown, release)$warnings,
                             amounts_of(y ~ factor(area) + log(pay) + age:factor(sex))))
        writeLines(jsonlite::toJSON(told), "told.json")
    """
    run_r(tmp_path, script)
    kept = pr.read_release(folder)
    given = (kept.frame(), kept.mechanism)
    answers: list[Any] = [
        estimate.mean(given[0], "weight", given[1], by=["grown"]),
        estimate.regression("weight ~ grown", *given, "linear"),
    ]
    wanted = [list(limit_warnings(book, book.names, what)) for what in ("mean", "regression")]
    wanted += [list(limit_warnings(kept.codebook, ["weight"], what)) for what in ("mean", "regression")]
    assert [len(one) for one in wanted] == [7, 7, 1, 1]
    assert [[note for note in one.notes if "stands for" in note] for one in answers] == wanted[2:]
    *told, amounts = json.loads((tmp_path / "told.json").read_text("utf-8"))
    assert told == wanted
    assert sorted(amounts) == amounts_of("y ~ C(area) + np.log(pay) + age:C(sex)")


@pytest.mark.r
def test_a_column_that_was_recoded_is_named_by_its_result(tmp_path: Path) -> None:
    """In the fixture age became grown and region area; of a column that nothing was made of, all names are told."""
    folder = KEPT / "3" / "recoded"
    script = f"""
        release <- read_release({in_r(folder.as_posix())})
        said <- function(name) tryCatch(release_table(release, name), error = conditionMessage)
        writeLines(jsonlite::toJSON(vapply(c("age", "region", "none"), said, "")), "told.json")
    """
    run_r(tmp_path, script)
    told = json.loads((tmp_path / "told.json").read_text("utf-8"))
    made = [("age", "grown"), ("region", "area")]
    assert told[:2] == [
        f"the release has no column '{old}': it was recoded into {new}. Next: ask for {new}." for old, new in made
    ]
    assert told[2].startswith("the release has no column 'none'. Next: use one of")
    kept = pr.read_release(folder)
    for old, new in made:
        said = f"^no column '{old}' in the data: it was recoded into {new}. Next: ask for {new}.$"
        with pytest.raises(DataError, match=said):
            estimate.table(kept.frame(), [old], kept.mechanism)
        with pytest.raises(DataError, match=said):
            estimate.regression(f"weight ~ {old}", kept.frame(), kept.mechanism, "linear")
    with pytest.raises(DataError, match=r"^no column 'none' in the data; wanted"):
        estimate.table(kept.frame(), ["none"], kept.mechanism)


@pytest.mark.r
def test_a_coefficient_without_information_has_the_cure_of_python(tmp_path: Path) -> None:
    nan = np.full((1, 1), np.nan)
    given: Any = {"covariance": nan, "pivot": SimpleNamespace(bounds=lambda value, level: (-np.inf, np.inf))}
    given |= {"log_likelihood": None, "records": 1234, "dropped": 0, "perturbed": ("sex",)}
    script = """
        records <- list(list(split = FALSE, kept = 1:1234), list(split = TRUE, kept = 1:1234))
        writeLines(jsonlite::toJSON(lapply(records, cure_of), auto_unbox = TRUE), "told.json")
    """
    run_r(tmp_path, script)
    told = json.loads((tmp_path / "told.json").read_text("utf-8"))
    for method, cure in zip(("equations", f"equations, {SHOWING}"), told, strict=True):
        found = Regression("y ~ sex", "linear", ("sex",), np.zeros(1), method=method, **given)
        assert found.warnings[0].endswith(f"too wide to use. {cure}")


@pytest.mark.r
def test_completed_copies_are_combined_as_python_does(answers: list[dict[str, Any]]) -> None:
    def fitted(frame: Any) -> Any:
        return smf.ols("pay ~ sex + weight", frame).fit()

    wanted = estimate.pool(fitted, EXTDATA / "completed", kind="pandas", complete_freedom=math.inf)
    parts = {"value": wanted.value, "error": wanted.standard_error, "freedom": wanted.degrees_of_freedom}
    for part, values in parts.items():
        np.testing.assert_allclose(answers[-1][part], values, rtol=NEAR)


def golden_script() -> Any:
    """Return the module that makes the releases of the package."""
    spec = importlib.util.spec_from_file_location("make", PACKAGE / "data-raw" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_values_of_the_package_s_own_tests_are_those_of_python() -> None:
    kept = json.loads((PACKAGE / "tests" / "golden.json").read_text("utf-8"))
    for name, answers in golden_script().golden().items():
        for kind, found in answers.items():
            for part, values in found.items():
                np.testing.assert_allclose(values, kept[name][kind][part], rtol=1e-10, atol=1e-12)


def test_the_releases_of_the_package_verify() -> None:
    for name in ("survey", "split"):
        assert pr.verify(EXTDATA / name).verdict == "verified"


@pytest.mark.r
def test_every_form_of_a_matrix_is_read_exactly(tmp_path: Path) -> None:
    """Rows, one weight on and one off the diagonal, the usual one of each row, and randomised response of a subset."""
    many = Codebook((Variable("v", "key", tuple(range(70)), type="int64"), Variable("u", "key", ("a", "b"))))
    near = np.where(np.abs(np.subtract.outer(range(70), range(70))) <= 1, 0.2, 0.4 / 68)
    band = TransitionMatrix.from_array(near / near.sum(axis=1, keepdims=True))
    blocks = [Block(("u",), rough(2, 1)), Block(("v",), randomised_response(70, 3.0))]
    laws = [Mechanism(blocks, many), Mechanism([Block(("v",), band, cells=tuple((k,) for k in range(70)))], many)]
    laws.append(Mechanism([], many, split=Split.of([1.0], [Block(("u", "v"), randomised_response(140, 2.0))])))
    held: list[dict[str, Any]] = []
    for law in laws:
        found = law.to_dict()
        held += [*found["blocks"], *found.get("split", {"subsets": []})["subsets"]]
    assert [[*one["weights"]] for one in held[1:]] == [["diagonal", "off"], ["usual", "columns", "weights"], [*PAIR]]
    (tmp_path / "held.json").write_text(json.dumps(held), "utf-8")
    script = """
        for (one in jsonlite::read_json("held.json")) {
          cat(is_exact(one$weights), sprintf("%.0f", t(block_of(one)$weights)), "\\n")
        }
    """
    lines = run_r(tmp_path, script).splitlines()
    matrices = [block.matrix for law in laws for block in law.every_block]
    for line, matrix in zip(lines, matrices, strict=True):
        exact, *weights = line.split()
        assert exact == "TRUE"
        np.testing.assert_array_equal(np.array(weights, dtype=np.int64), matrix.weights.ravel())


@pytest.mark.r
def test_earlier_releases_are_read(tmp_path: Path) -> None:
    """A release of each schema, those of whole columns refused in a sentence."""
    paths = [path for version in "123" for path in sorted((KEPT / version).iterdir()) if path.is_dir()]
    script = """
        for (path in paths) cat(tryCatch(nrow(read_release(path)$data), error = conditionMessage), "\\n")
    """
    told = run_r(tmp_path, f"paths <- {in_r([path.as_posix() for path in paths])}\n{script}").splitlines()
    for path, text in zip(paths, told, strict=True):
        laws = (path / "mechanism.json").exists()
        assert text.strip() == "240" if laws else "unknown schema. Next: " in text, (path, text)


@pytest.mark.r
def test_the_page_prints_what_it_shows(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "r.md").read_text("utf-8")
    blocks = re.findall(r"```r\n(.*?)```(?:\n\n```text\n(.*?)```)?", page, re.S)
    for name in ("survey", "split", "completed"):
        (tmp_path / name).symlink_to(EXTDATA / name)
    mark = "-- next --"
    told = run_r(tmp_path, f'\ncat("{mark}\\n")\n'.join(code for code, _ in blocks)).split(f"{mark}\n")
    assert [text.rstrip() for text in told] == [text.rstrip() for _, text in blocks]
    assert len(blocks) > 5


@pytest.mark.r
def test_the_table_of_the_page_holds(compared: list[Compared | None], answers: list[dict[str, Any]]) -> None:
    """Numbers as they are shown; of the differences, which are the machine's, that they are no larger by far."""
    wanted = place(r_page.PAGE.read_text("utf-8"), r_page.NAME)
    found = r_page.table(compared, answers)
    assert [line.rpartition(" | ")[0] for line in found] == [line.rpartition(" | ")[0] for line in wanted], r_page.HOW
    assert all(r_page.last(line) <= 100 * r_page.last(held) for line, held in zip(found[2:], wanted[2:], strict=True))


@pytest.mark.r
def test_numbers_of_a_statistical_program_are_the_texts_of_the_codebook(tmp_path: Path) -> None:
    """Its files have 3 for the category "3.0"; a code such as "01" is no number."""
    script = """
    v <- list(name = "flc", categories = c("1.5", "3.0"), kind = "text", missing = "keep", size = 2)
    stopifnot(identical(codes_of(c(3, 1.5, NA), v, FALSE), c(1, 0, NA)))
    stopifnot(identical(codes_of(c("3.0", "1.5"), v, FALSE), c(1, 0)))
    v$categories <- c("01", "02")
    cat(class(try(codes_of(c(1, 2), v, FALSE), TRUE)))
    """
    assert run_r(tmp_path, script) == "try-error"
