"""Survey designs in estimates: what R's survey package says of unperturbed records, and what simulation says of others."""

import json
import shutil
import subprocess

import numpy as np
import pyarrow.csv
import pytest

from postrand import Codebook, Variable, estimate
from postrand.estimate import SurveyDesign
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix
from tests.conftest import ROOT

FOLDER = ROOT / "tests" / "fixtures" / "survey_design"
GOLDEN = json.loads((FOLDER / "golden.json").read_text("utf-8"))
TABLE = pyarrow.csv.read_csv(FOLDER / "survey.csv")
BOOK = Codebook(
    (
        Variable("sex", role="key", categories=("F", "M")),
        Variable("area", role="key", categories=("east", "north", "west")),
        Variable("ill", role="sensitive", categories=("no", "yes")),
        Variable("side", role="other", categories=("u", "v")),
    )
)
KEPT = Mechanism({name: TransitionMatrix.identity(BOOK[name].size) for name in ("sex", "area", "ill")}, BOOK)
ELSEWHERE = Mechanism({"side": TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])}, BOOK)
LINEAR = {"weights": "w", "strata": "stratum", "psu": "psu"}
REPLICATES = {"weights": "w", "replicates": [f"r{i}" for i in range(1, 9)]}
DESIGNS = {
    "linear": SurveyDesign(**LINEAR),
    "records": SurveyDesign(weights="w"),
    "fpc": SurveyDesign(**LINEAR, fpc="units"),
    "lonely": SurveyDesign(weights="w", strata="lone", psu="psu", lonely="adjust"),
    "post": SurveyDesign(**LINEAR, calibrated=["post"]),
    "margins": SurveyDesign(**LINEAR, calibrated=["post", "side"]),
    "brr": SurveyDesign(**REPLICATES, method="brr"),
    "fay": SurveyDesign(**REPLICATES, method="fay", rho=0.3),
    "jk1": SurveyDesign(**REPLICATES, method="jk1"),
    "jkn": SurveyDesign(**REPLICATES, method="jkn", rscales=np.linspace(0.5, 0.9, 8).tolist()),
    "bootstrap": SurveyDesign(**REPLICATES, method="bootstrap"),
    "mse": SurveyDesign(**REPLICATES, method="jk1", mse=True),
}
REGRESSIONS = {"linear": "y ~ x + C(area)", "logistic": "ill ~ x + C(sex)", "poisson": "visits ~ x + C(sex)"}


def agree(found, wanted, what):
    scale = np.abs(wanted).max() or 1.0
    np.testing.assert_allclose(np.asarray(found) / scale, np.asarray(wanted) / scale, rtol=0, atol=1e-10, err_msg=what)


def same(found, golden, what):
    agree(found.value.ravel(), golden["value"], what)
    if "error" in golden:
        agree(found.standard_error.ravel(), golden["error"], what)
    else:
        agree(found.covariance, golden["covariance"], what)


@pytest.mark.parametrize("name", DESIGNS)
def test_unperturbed_records_give_what_r_survey_gives(name):
    design, golden = DESIGNS[name], GOLDEN[name]
    table = estimate.table(TABLE, ["sex", "area"], KEPT, design=design)
    assert table.degrees_of_freedom == golden["degf"]
    same(table, golden["table"], "table")
    same(estimate.mean(TABLE, "y", KEPT, design=design), {**golden["mean"]}, "mean")
    same(estimate.mean(TABLE, "y", KEPT, by="area", design=design), golden["by"], "mean by area")
    same(estimate.total(TABLE, "y", KEPT, design=design), golden["total"], "total")
    same(estimate.total(TABLE, "y", KEPT, by="area", design=design), golden["totals"], "total by area")
    same(estimate.ratio_of_totals(TABLE, "y", "x", KEPT, design=design), golden["ratio"], "ratio")
    middle = estimate.quantile(TABLE, "y", KEPT, q=[0.25, 0.5], design=design)
    found = np.stack([middle.value, *middle.interval(), middle.standard_error], axis=1)
    agree(found, np.array(golden["quantile"]), "quantile")
    law = ELSEWHERE if name == "fpc" else KEPT
    for family, formula in REGRESSIONS.items():
        same(estimate.regression(formula, TABLE, law, family, design=design), golden[family], family)
    if not design.replicates:  # R's replicates of a logistic regression are not those of the delta method
        odds = estimate.odds_ratio(TABLE, "sex", "ill", KEPT, design=design)
        wanted = golden["odds"]["value"][1], golden["odds"]["covariance"][1][1] ** 0.5
        agree([np.log(odds.value), odds.log_standard_error], wanted, "odds ratio")


def test_design_effects_are_those_of_r_survey():
    table = estimate.table(TABLE, ["sex", "area"], KEPT, design=DESIGNS["linear"])
    agree(table.design_effect.ravel(), GOLDEN["effect"]["table"], "table")
    found = estimate.mean(TABLE, "y", KEPT, design=DESIGNS["linear"]).design_effect
    agree(found, GOLDEN["effect"]["mean"], "mean")


@pytest.mark.r
def test_golden_figures_are_what_r_says_now(tmp_path):
    for name in ("golden.R", "survey.csv"):
        shutil.copy(FOLDER / name, tmp_path)
    done = subprocess.run(["Rscript", "golden.R"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    def leaves(data):
        if isinstance(data, dict | list):
            for one in data.values() if isinstance(data, dict) else data:
                yield from leaves(one)
        else:
            yield float(data)

    found = json.loads((tmp_path / "golden.json").read_text("utf-8"))
    np.testing.assert_allclose(list(leaves(found)), list(leaves(GOLDEN)), rtol=1e-9, atol=1e-12)
