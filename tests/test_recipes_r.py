"""The recipes for R on the page on completed files run as they stand, and give what `estimate.pool` gives."""

import json
import math
import re
import subprocess

import numpy as np
import pytest
import statsmodels.formula.api as smf

from postrand.estimate import pool
from tests.completed_case import recipe, tables, write
from tests.conftest import ROOT

pytestmark = pytest.mark.r
BLOCKS = re.findall(r"```r\n(.*?)```", (ROOT / "docs" / "completed.md").read_text("utf-8"), re.S)
LOADED = "options(digits = 15, warn = 1)\n"
SAVE = '\nwriteLines(jsonlite::toJSON(list({}), digits = NA, dataframe = "columns"), "out.json")\n'


def fitted(frame):
    return smf.ols("rate_marriage ~ affair + religious", frame.to_pandas()).fit()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("recipes")
    write(made, [".csv", ".sav", ".dta", ".xpt"])
    return made


@pytest.fixture(scope="module")
def pooled():
    return pool(fitted, tables()[1])


def run(folder, script, *what):
    """Run a script, and return the named R objects."""
    code = LOADED + script + SAVE.format(", ".join(what))
    done = subprocess.run(["Rscript", "-e", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "out.json").read_text())


def test_mice(folder, pooled):
    assert "mice::pool" in BLOCKS[0]
    (found,) = run(folder, BLOCKS[0], "pooled")
    low, high = pooled.interval()
    for column, wanted in (
        ("estimate", pooled.value),
        ("std.error", pooled.standard_error),
        ("df", pooled.degrees_of_freedom),
        ("p.value", pooled.p_value),
        ("2.5 %", low),
        ("97.5 %", high),
    ):
        np.testing.assert_allclose(found[column], wanted, rtol=1e-10, atol=1e-12)


def test_mitools_and_survey(folder):
    large, covariance, freedom, missing, means, errors = run(
        folder,
        BLOCKS[1],
        *("coef(large)", "vcov(large)", "large$df", "large$missinfo", "coef(means)", "survey::SE(means)"),
    )
    copies = tables()[1]
    wanted = pool(fitted, copies, complete_freedom=math.inf)
    np.testing.assert_allclose(large, wanted.value, rtol=1e-10)
    np.testing.assert_allclose(covariance, wanted.covariance, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(freedom, wanted.degrees_of_freedom, rtol=1e-10)
    np.testing.assert_allclose(missing, wanted.missing_information, rtol=1e-10)

    def mean(frame):
        columns = np.column_stack([frame.column("religious"), frame.column("age")])
        return columns.mean(axis=0), np.cov(columns, rowvar=False) / len(columns)

    two = pool(mean, copies)
    np.testing.assert_allclose(means, two.value, rtol=1e-10)
    np.testing.assert_allclose(errors, two.standard_error, rtol=1e-10)


def test_base_r(folder, pooled):
    assert "::" not in BLOCKS[2]
    assert len(BLOCKS) == 3
    (found,) = run(folder, BLOCKS[2], "result")
    low, high = pooled.interval()
    for column, wanted in (
        ("estimate", pooled.value),
        ("se", pooled.standard_error),
        ("lower", low),
        ("upper", high),
        ("df", pooled.degrees_of_freedom),
    ):
        np.testing.assert_allclose(found[column], wanted, rtol=1e-10)


@pytest.mark.parametrize(("suffix", "affair"), [("sav", "affair"), ("dta", "factor(affair)")])
def test_files_of_spss_and_stata_by_haven(folder, pooled, suffix, affair):
    reading = f'as.data.frame(haven::zap_labels(haven::read_{suffix}("completed.{suffix}")))'
    page = (ROOT / "docs" / "completed.md").read_text("utf-8")
    assert reading.replace("dta", "sav") in page
    block = BLOCKS[2].replace('read.csv("completed.csv", na.strings = "", stringsAsFactors = TRUE)', reading)
    (found,) = run(folder, block.replace("~ affair", f"~ {affair}"), "result")
    np.testing.assert_allclose(found["estimate"], pooled.value, rtol=1e-10)
    np.testing.assert_allclose(found["se"], pooled.standard_error, rtol=1e-10)


@pytest.mark.parametrize("suffix", ["csv", "sav", "dta", "xpt"])
def test_the_recipe_in_the_readme_of_the_files(folder, suffix):
    """What README.txt says of R, for a file of each program: numbers that are codes of categories count as such."""
    code = recipe(f"completed.{suffix}", "R (")
    assert code.count("y ~ factor(x)") == 1
    code = code.replace("y ~ factor(x)", "rate_marriage ~ factor(affair) + factor(religious)")
    (found,) = run(folder, code.replace("summary(", "result <- summary("), "result")
    wanted = pool(lambda f: smf.ols("rate_marriage ~ affair + C(religious)", f.to_pandas()).fit(), tables()[1])
    np.testing.assert_allclose(found["estimate"], wanted.value, rtol=1e-10)
    np.testing.assert_allclose(found["df"], wanted.degrees_of_freedom, rtol=1e-10)
