"""The exported R files: what they hold, and that base R reproduces the table."""

import csv
import io
import json
import shutil
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.errors import SpecificationError
from postrand.estimate.export import r_files
from postrand.matrix import TransitionMatrix, randomised_response
from postrand.mechanism import Block, Mechanism, weights_form
from postrand.report.html import _r as r_code

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


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed: install r-base-core to run this test")
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
    done = subprocess.run(["Rscript", "-e", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    value, error = np.loadtxt(tmp_path / "out.txt").T
    found = estimate.table(frame(), variables, MECHANISM, weights=weights)
    np.testing.assert_allclose(value, found.value.ravel(), atol=1e-12)
    np.testing.assert_allclose(error, found.standard_error.ravel(), atol=1e-12)


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


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed: install r-base-core to run this test")
@pytest.mark.parametrize("form", LAWS)
def test_the_r_code_of_a_report_reads_every_form_of_a_law(tmp_path, form):
    mechanism = LAWS[form]
    assert weights_form(mechanism.blocks[0]) == form
    (tmp_path / "mechanism.json").write_text(json.dumps(mechanism.to_dict()), "utf-8")
    codes = np.random.default_rng(3).integers(0, 70, 5000) ** 2 // 70
    areas = pa.table({"area": [AREAS["area"].categories[k] for k in codes]})
    pacsv.write_csv(areas, tmp_path / "data.csv")
    script = r_code(mechanism, "data.csv").replace("path/to/release", ".")
    if form == "rows":  # the released column of this example is not at hand: the matrix alone is read
        script = script[: script.index("data <-")]
    script += '\nwriteLines(sprintf("%.17g", as.vector(t(M))), "law.txt")\n'
    if form == "diagonal":
        script += 'writeLines(sprintf("%.17g %.17g", estimate, sqrt(diag(covariance))), "out.txt")\n'
    done = subprocess.run(["Rscript", "-e", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    if "jsonlite" in done.stderr:
        pytest.skip("the R package jsonlite is not installed: install r-cran-jsonlite to run this test")
    assert done.returncode == 0, done.stderr
    matrix = mechanism.blocks[0].matrix
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "law.txt"), matrix.array.ravel())
    if form == "diagonal":
        value, error = np.loadtxt(tmp_path / "out.txt").T
        found = estimate.proportions(areas, "area", mechanism)
        np.testing.assert_allclose(value, found.value, atol=1e-12)
        np.testing.assert_allclose(error, found.standard_error, rtol=1e-3)  # of λλᵀ, over n - 1
