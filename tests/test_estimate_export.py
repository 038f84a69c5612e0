"""The exported R files: what they hold, and that base R reproduces the table."""

import csv
import io
import json
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from postrand import estimate, formats
from postrand.codebook import Codebook, Variable
from postrand.codebook.survey_design import SurveyDesign
from postrand.errors import SpecificationError
from postrand.estimate.export import r_files
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.block_data import weights_form
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.report.html import _r as r_code
from postrand.report.html import _r_large

BOOK = Codebook(
    (
        Variable("sex", role="key", categories=("F, or f", 'M "m"')),
        Variable(
            "age",
            role="key",
            categories=(10, 9, 30),
            labels=("ten", "nine", "thirty"),
            type="int64",
            missing="category",
        ),
        Variable("region", role="other", categories=("N", "É")),
        Variable("ill", role="sensitive", categories=(False, True), type="bool", missing="keep"),
        Variable("w", role="weight", type="double"),
    )
)


def joint_law():
    rng = np.random.default_rng(1)
    rows = rng.dirichlet(np.ones(7), 7) * 0.4 + np.eye(7) * 0.6
    return TransitionMatrix.from_array(rows / rows.sum(axis=1, keepdims=True))


CELLS = tuple((a, s) for a in range(4) for s in range(2) if (a, s) != (3, 0))
MECHANISM = Mechanism([Block(("age", "sex"), joint_law(), CELLS), Block(("ill",), randomised_response(2, 1.0))], BOOK)


def frame():
    rng = np.random.default_rng(2)
    age, sex = np.array(CELLS)[rng.integers(0, 7, 500)].T
    return pa.table(
        {
            "sex": [BOOK["sex"].categories[i] for i in sex],
            "age": pa.array([[10, 9, 30, None][i] for i in age], pa.int64()),
            "region": [("N", "É")[i] for i in rng.integers(0, 2, 500)],
            "ill": [(True, False, None)[i] for i in rng.integers(0, 3, 500)],
            "w": rng.uniform(0.5, 2, 500),
        }
    )


def run_r(folder, script):
    done = subprocess.run(["Rscript", "-e", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_matrices_are_read_back_exactly():
    files = r_files(MECHANISM)
    assert list(files) == ["postrand.R", "r_categories.csv", "r_matrix_1.csv", "r_matrix_2.csv"]
    rows = list(csv.reader(io.StringIO(files["r_matrix_1.csv"])))
    assert rows[0][:3] == ["age", "sex", "p1"]
    np.testing.assert_array_equal(np.array([r[2:] for r in rows[1:]], dtype=float), joint_law().array)
    np.testing.assert_array_equal(np.array([r[:2] for r in rows[1:]], dtype=int), CELLS)
    assert ["age", "", "(missing)", "number", "yes"] in list(csv.reader(io.StringIO(files["r_categories.csv"])))
    with pytest.raises(SpecificationError, match="no codebook"):
        r_files(Mechanism({"ill": randomised_response(2, 1.0)}))


@pytest.mark.r
@pytest.mark.parametrize("variables", [["sex"], ["region", "sex", "age"], ["age", "ill"]])
@pytest.mark.parametrize("weights", [None, "w"])
def test_base_r_reproduces_the_table(tmp_path, variables, weights):
    for name, text in r_files(MECHANISM).items():
        (tmp_path / name).write_text(text, "utf-8")
    pacsv.write_csv(frame(), tmp_path / "data.csv")
    names = ", ".join(f'"{n}"' for n in variables)
    script = f"""
        source("postrand.R", encoding = "UTF-8")
        data <- read.csv("data.csv", colClasses = "character", na.strings = "", encoding = "UTF-8")
        out <- postrand_table(data, c({names}), postrand_read("."), weights = {"NULL" if weights is None else '"w"'})
        writeLines(sprintf("%.17g %.17g", out$estimate, out$standard_error), "out.txt")
    """
    run_r(tmp_path, script)
    value, error = np.loadtxt(tmp_path / "out.txt").T
    found = estimate.table(frame(), variables, MECHANISM, weights=weights)
    np.testing.assert_allclose(value, found.value.ravel(), atol=1e-12)
    np.testing.assert_allclose(error, found.standard_error.ravel(), atol=1e-12)


@pytest.mark.r
@pytest.mark.parametrize("recorded", [True, False])
def test_the_r_script_says_that_it_uses_no_survey_design(tmp_path, recorded):
    variables = MECHANISM.require_codebook().variables
    law = Mechanism(MECHANISM.blocks, Codebook(variables, survey=SurveyDesign(weights="w") if recorded else None))
    for name, text in r_files(law).items():
        (tmp_path / name).write_text(text, "utf-8")
    code = 'source("postrand.R", encoding = "UTF-8"); release <- postrand_read(".")'
    done = subprocess.run(["Rscript", "-e", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ("records a survey design" in done.stderr) is recorded


AREAS = Codebook((Variable("area", role="key", categories=tuple(f"area {k}" for k in range(70))),))
PAIRS = Codebook(
    (
        Variable("east", role="key", categories=tuple(range(8)), type="int64"),
        Variable("north", role="key", categories=tuple(range(9)), type="int64"),
    )
)


def near():
    """A law on 64 of 72 cells that moves to few others: written by its usual entry and the rest."""
    steps = np.eye(64, k=1) + np.eye(64, k=-1)
    rows = 0.5 * np.eye(64) + 0.25 * steps / steps.sum(axis=1, keepdims=True) + 0.25 / 64
    cells = tuple((k // 8, k % 8) for k in range(64))
    return Mechanism([Block(("east", "north"), TransitionMatrix.from_array(rows), cells)], PAIRS)


def off_diagonal():
    """A law that is constant off the diagonal, its rows different: written as two lists."""
    off = 2**53 // np.arange(100, 170)
    return Mechanism({"area": TransitionMatrix.constant(2**53 - 69 * off, off)}, AREAS)


LAWS = {"diagonal": off_diagonal(), "usual": near(), "rows": Mechanism({"ill": randomised_response(2, 1.0)}, BOOK)}


@pytest.mark.r
@pytest.mark.parametrize("form", LAWS)
def test_the_r_code_of_a_report_reads_every_form_of_a_law(tmp_path, form):
    mechanism = LAWS[form]
    assert weights_form(mechanism.blocks[0]) == form
    (tmp_path / "mechanism.json").write_text(json.dumps(mechanism.to_dict()), "utf-8")
    codes = np.random.default_rng(3).integers(0, 70, 5000) ** 2 // 70
    areas = pa.table({"area": [AREAS["area"].categories[k] for k in codes]})
    pacsv.write_csv(areas, tmp_path / "data.csv")
    script = "\n".join(['folder <- "."', *_r_large(mechanism)])
    if form == "rows":  # the released column of this example is not at hand: the matrix alone is read
        script = script[: script.index("values <-")]
    script = 'data <- read.csv("data.csv", colClasses = "character")\n' + script
    script += '\nwriteLines(sprintf("%.17g", as.vector(t(M))), "law.txt")\n'
    if form == "diagonal":
        script += 'writeLines(sprintf("%.17g %.17g", estimate, sqrt(diag(covariance))), "out.txt")\n'
    run_r(tmp_path, script)
    matrix = mechanism.blocks[0].matrix
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "law.txt"), matrix.array.ravel())
    if form == "diagonal":
        value, error = np.loadtxt(tmp_path / "out.txt").T
        found = estimate.proportions(areas, "area", mechanism)
        np.testing.assert_allclose(value, found.value, atol=1e-12)
        np.testing.assert_allclose(error, found.standard_error, rtol=1e-3)  # of λλᵀ, over n - 1


CODED = Codebook(
    (
        Variable("region", role="key", categories=(1, 2, 99), labels=("north", "south", "refused"), type="int64"),
        Variable("sex", role="key", categories=("F", "É"), missing="category"),
        Variable("why", role="sensitive", categories=("1", "2", ".a"), labels=("one", "two", "no answer")),
        Variable("w", role="weight", type="double"),
    )
)
CODED_LAW = Mechanism(
    {"region": randomised_response(3, 1.0), "sex": randomised_response(3, 1.5), "why": randomised_response(3, 2.0)},
    CODED,
)


def coded():
    """Released records with codes for "no answer": SPSS declares 99 missing, Stata has the letter .a."""
    rng = np.random.default_rng(4)
    columns = {
        "region": pa.array([(1, 2, 99)[i] for i in rng.integers(0, 3, 400)]),
        "sex": pa.array([("F", "É", None)[i] for i in rng.integers(0, 3, 400)]),
        "why": pa.array([("1", "2", ".a")[i] for i in rng.integers(0, 3, 400)]),
        "w": pa.array(rng.integers(1, 9, 400) / 4),
    }
    said = {"region": {"missing_codes": '["99"]', "value_labels": '{"1": "north", "99": "refused"}'}}
    said["why"] = {"lettered_missing": "yes", "missing_codes": '[".a"]'}
    fields = [pa.field(name, column.type, metadata=said.get(name)) for name, column in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


READ_BY_R = ["data.csv", "data.sav", "data.zsav", "data.dta", "data.xpt", "data/part-00001.csv", "data/part-00001.sav"]


@pytest.mark.r
@pytest.mark.parametrize("name", READ_BY_R)
def test_the_report_s_r_code_reads_every_format_codes_for_no_answer_included(tmp_path, name):
    for file, text in r_files(CODED_LAW).items():
        (tmp_path / file).write_text(text, "utf-8")
    table, folder = coded(), "/" in name
    if not name.endswith(".dta"):  # only Stata has letters for missing values
        table = table.set_column(2, pa.field("why", pa.string()), table["why"])
    (tmp_path / name).parent.mkdir(exist_ok=True)
    cuts = {name: (0, 150), name.replace("00001", "00002"): (150, 250)} if folder else {name: (0, 400)}
    for file, (start, rows) in cuts.items():
        with formats.open_writer(tmp_path / file, table.schema) as writer:
            for batch in table.slice(start, rows).to_batches():
                writer.write(batch)
    code = r_code(CODED_LAW, name.partition("/")[0]).replace("path/to/release", ".").split("\n")
    assert [line.partition("(")[0] for line in code[-3:]] == ["postrand_table"] * 3
    code += ['postrand_table(data, "why", release, weights = as.numeric(data$w))']
    code[-4:] = [f"out{n} <- {line}" for n, line in enumerate(code[-4:])]
    show = 'writeLines(sprintf("%.17g %.17g", out{0}$estimate, out{0}$standard_error), "out{0}.txt")'
    run_r(tmp_path, "\n".join([*code, *(show.format(n) for n in range(4))]))
    asked = ((["region"], None), (["region", "sex"], None), (["region"], "w"), (["why"], "w"))
    for n, (variables, weights) in enumerate(asked):
        value, error = np.loadtxt(tmp_path / f"out{n}.txt").T
        found = estimate.table(coded(), variables, CODED_LAW, weights=weights)
        np.testing.assert_allclose(value, found.value.ravel(), atol=1e-12)
        np.testing.assert_allclose(error, found.standard_error.ravel(), atol=1e-12)


@pytest.mark.r
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('postrand_table(data, "sex", release, weights = 1:3)', "one number for each record"),
        ('postrand_table(data, "sex", release, weights = "none")', "the data do not have a column 'none'"),
        ('postrand_data(".", "data.parquet")', "no data found at"),
        (
            'file.create("data.parquet"); postrand_data(".", "data.parquet")',
            "install the R package arrow or nanoparquet",
        ),
        ('postrand_data("..")', "must contain exactly one data file"),
    ],
)
def test_the_r_script_says_what_is_wrong(tmp_path, script, said):
    (tmp_path / "in").mkdir()
    for file, text in r_files(CODED_LAW).items():
        (tmp_path / "in" / file).write_text(text, "utf-8")
    pacsv.write_csv(coded(), tmp_path / "in" / "data.csv")
    ready = 'source("postrand.R", encoding = "UTF-8"); release <- postrand_read("."); data <- postrand_data(".");'
    bare = 'assignInNamespace("requireNamespace", function(...) FALSE, "base");'
    done = subprocess.run(
        ["Rscript", "-e", bare + ready + script], cwd=tmp_path / "in", capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert "subscript" not in done.stderr
