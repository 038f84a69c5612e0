"""Survey designs in estimates: beside R's survey package on unperturbed records, beside enumeration on others."""

import itertools
import json
import shutil
import subprocess
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import scipy

import postrand as pr
from postrand import Codebook, Variable, estimate, randomised_response
from postrand.errors import DataError, EstimationError, PostrandError, UsageError
from postrand.estimate import SurveyDesign
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix
from postrand.testing import estimators
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
    for family, formula in REGRESSIONS.items() if name not in ("fay", "jk1", "jkn", "bootstrap") else ():
        same(estimate.regression(formula, TABLE, KEPT, family, design=design), golden[family], family)
    if not design.replicates:  # R's replicates of a logistic regression are not those of the delta method
        odds = estimate.odds_ratio(TABLE, "sex", "ill", KEPT, design=design)
        wanted = golden["odds"]["value"][1], golden["odds"]["covariance"][1][1] ** 0.5
        agree([np.log(odds.value), odds.log_standard_error], wanted, "odds ratio")


def test_design_effects_are_those_of_r_survey():
    table = estimate.table(TABLE, ["sex", "area"], KEPT, design=DESIGNS["linear"])
    agree(table.design_effect.ravel(), GOLDEN["effect"]["table"], "table")
    found = estimate.mean(TABLE, "y", KEPT, design=DESIGNS["linear"]).design_effect
    assert float(found) == pytest.approx(GOLDEN["effect"]["mean"], rel=1e-10)


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


def test_the_test_of_independence_is_near_that_of_r_survey():
    """The same reference; the statistic is of the same first order (a score test here, Pearson's of shares there)."""
    found = estimate.independence_test(TABLE, "sex", "area", KEPT, design=DESIGNS["linear"])
    assert "Rao–Scott" in found.method
    assert found.p_value == pytest.approx(GOLDEN["independence"]["p"], abs=0.002)
    naive = estimate.independence_test(TABLE, "sex", "area", KEPT, weights="w")
    assert abs(naive.p_value - found.p_value) > 0.05


@pytest.mark.parametrize("options", [{}, {"fpc": "units"}, {"replicates": ["r1", "r2", "r3"], "method": "jk1"}])
def test_expected_variance_over_all_perturbations_is_that_of_sampling_and_perturbation(options):
    """Every one of the 2^7 releases of a file, with its probability: no formula of the estimator is used again."""
    stay = np.array([[0.8, 0.2], [0.3, 0.7]])
    true = np.array([0, 1, 1, 0, 0, 1, 0])
    fixed = {
        "h": [0, 0, 0, 0, 1, 1, 1],
        "psu": [0, 0, 1, 2, 0, 1, 1],
        "w": [1.0, 2, 3, 1, 2, 2, 1],
        "units": [6, 6, 6, 6, 4, 4, 4],
        "y": [3.0, 1, 4, 1, 5, 9, 2],
    }
    fixed |= {f"r{i}": np.roll([1.0, 2, 3, 1, 0, 2, 3], i) for i in (1, 2, 3)}
    book = Codebook(
        (Variable("sex", role="key", categories=(0, 1), type="int64"), Variable("y", "other", type="double"))
    )
    law = Mechanism({"sex": TransitionMatrix.from_array(stay)}, book)
    kept = Mechanism({"sex": TransitionMatrix.identity(2)}, book)
    replicated = "replicates" in options
    design = SurveyDesign(weights="w", **({} if replicated else {"strata": "h", "psu": "psu"}), **options)

    def ask(sex, mechanism):
        return estimate.total(pa.table({"sex": sex, **fixed}), "y", mechanism, by="sex", design=design)

    mean, second, stated, parts = np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2)
    for released in itertools.product((0, 1), repeat=len(true)):
        chance = stay[true, list(released)].prod()
        found = ask(list(released), law)
        mean, second = mean + chance * found.value, second + chance * found.value**2
        stated = stated + chance * np.diag(found.covariance)
        parts = parts + chance * np.diag(found.perturbation)
    plain = ask(true.tolist(), kept)
    np.testing.assert_allclose(mean, plain.value, rtol=1e-12)
    np.testing.assert_allclose(parts, second - mean**2, rtol=1e-10)
    if not replicated:
        np.testing.assert_allclose(stated, np.diag(plain.covariance) + second - mean**2, rtol=1e-10)
        return
    # Replicates have no perturbation that is known to be whole: theirs is that of their own weights.
    deviation = np.array([fixed[f"r{i}"] for i in (1, 2, 3)]) * fixed["y"]
    deviation -= deviation.mean(axis=0)
    inverse = np.linalg.inv(stay)
    spread = (stay[true] @ inverse**2) - (stay[true] @ inverse) ** 2
    np.testing.assert_allclose(
        stated, np.diag(plain.covariance) + 2 / 3 * ((deviation**2).sum(axis=0) @ spread), rtol=1e-10
    )


def test_the_error_of_a_whole_population_is_that_over_its_releases_alone():
    """All 2^7 releases of a fixed file: the estimate varies by exactly what is stated, and the file was not drawn."""
    stay, true = np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([0, 1, 1, 0, 0, 1, 0])
    fixed = {"y": [3.0, 1, 4, 1, 5, 9, 2], "w": [1.0, 2, 3, 1, 2, 2, 1], "all": [1.0] * 7}
    book = Codebook((Variable("sex", "key", (0, 1), type="int64"), Variable("y", "other", type="double")))
    law, whole = Mechanism({"sex": TransitionMatrix.from_array(stay)}, book), SurveyDesign(fpc=1)

    def shares(table):
        return estimate.table(table, ["sex"], law, design=whole)

    def totals(table):
        return estimate.total(table, "y", law, by="sex", design=SurveyDesign(weights="w", fpc="all"))

    for ask in (shares, totals):
        mean, second, stated = np.zeros(2), np.zeros(2), np.zeros(2)
        for released in itertools.product((0, 1), repeat=7):
            chance, found = stay[true, list(released)].prod(), ask(pa.table({"sex": released, **fixed}))
            mean, second = mean + chance * found.value, second + chance * found.value**2
            stated = stated + chance * np.diag(found.covariance)
            np.testing.assert_allclose(found.standard_error_of("sampling"), 0, atol=1e-7)
        np.testing.assert_allclose(stated, second - mean**2, rtol=1e-10)
        assert "those of the perturbation of sex alone: the file is the whole population" in str(found)
    plain = estimate.mean(pa.table({"sex": true, **fixed}), "y", law, design=whole)
    assert plain.standard_error == 0
    assert "standard errors are 0 (no variable that is used is perturbed)" in str(plain)


@pytest.mark.statistical
def test_intervals_of_a_whole_population_cover_the_values_of_the_file():
    """300 releases of one file of 500: tables, means, and coefficients, each pooled over its cells."""
    rng, n, rounds = np.random.default_rng(11), 500, 300
    sex, ill = rng.integers(0, 2, n), rng.random(n) < 0.3
    pay = np.round(rng.gamma(3, 2, n) + 2 * sex, 2)
    stay = np.array([[0.85, 0.15], [0.2, 0.8]])
    book = Codebook(
        (
            Variable("sex", "key", (0, 1), type="int64"),
            Variable("ill", "key", (0, 1), type="int64"),
            Variable("pay", "other", type="double"),
        )
    )
    matrix, whole = TransitionMatrix.from_array(stay), SurveyDesign(fpc=1)
    law, kept = (Mechanism({"sex": one, "ill": one}, book) for one in (matrix, TransitionMatrix.identity(2)))

    def ask(table, mechanism):
        found: list[Any] = [
            estimate.table(table, ["sex", "ill"], mechanism, design=whole),
            estimate.mean(table, "pay", mechanism, by="sex", design=whole),
            estimate.regression("pay ~ C(sex) + C(ill)", table, mechanism, "linear", design=whole),
        ]
        return [(one.value, one.interval(0.95)) for one in found]

    truth = [value for value, _ in ask(pa.table({"sex": sex, "ill": ill.astype(int), "pay": pay}), kept)]
    held = np.zeros((3, rounds))
    for k in range(rounds):
        shown = [(rng.random(n) < stay[code, 1]).astype(int) for code in (sex, ill.astype(int))]
        answers = ask(pa.table({"sex": shown[0], "ill": shown[1], "pay": pay}), law)
        for i, (_, (low, high)) in enumerate(answers):
            held[i, k] = ((low <= truth[i]) & (truth[i] <= high)).mean()
    error = held.std(axis=1) / np.sqrt(rounds)
    assert (np.abs(held.mean(axis=1) - 0.95) < 0.01 + 4 * error).all(), (held.mean(axis=1), error)


def test_replicate_weights_of_a_finite_population_have_the_perturbation_whole():
    """All 2^7 releases: jackknife weights whose factors hold 1 − f, with the share drawn, give what clusters give."""
    stay, true = np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([0, 1, 1, 0, 0, 1, 0])
    h, psu, units = np.repeat([0, 1], [4, 3]), np.array([0, 0, 1, 2, 3, 4, 4]), np.repeat([6.0, 4.0], [4, 3])
    fixed = {"h": h, "psu": psu, "units": units, "w": np.array([1.0, 2, 3, 1, 2, 2, 1]), "y": [3.0, 1, 4, 1, 5, 9, 2]}
    drawn = [3, 2]
    for k in range(5):  # leave a unit out, and weigh the others of its stratum more
        inside, m = h == h[psu == k][0], drawn[h[psu == k][0]]
        fixed[f"r{k}"] = fixed["w"] * np.where(psu == k, 0.0, np.where(inside, m / (m - 1), 1.0))
    fixed["share"] = np.repeat([3 / 6, 2 / 4], [4, 3])
    factors = [(1 - m / n) * (m - 1) / m for m, n in ((3, 6), (2, 4)) for _ in range(m)]
    named = {"weights": "w", "replicates": [f"r{k}" for k in range(5)], "method": "jkn", "rscales": factors}
    book = Codebook((Variable("sex", "key", (0, 1), type="int64"), Variable("y", "other", type="double")))
    law = Mechanism({"sex": TransitionMatrix.from_array(stay)}, book)
    designs = (
        SurveyDesign(**named, mse=True, fpc="share"),
        SurveyDesign(weights="w", strata="h", psu="psu", fpc="units"),
        SurveyDesign(**named, mse=True),
    )
    mean, second, stated = np.zeros(2), np.zeros(2), np.zeros((3, 2))
    for released in itertools.product((0, 1), repeat=7):
        chance, table = stay[true, list(released)].prod(), pa.table({"sex": released, **fixed})
        found = [estimate.total(table, "y", law, by="sex", design=design) for design in designs]
        mean, second = mean + chance * found[0].value, second + chance * found[0].value ** 2
        stated += chance * np.array([np.diag(one.covariance) for one in found])
    kept = Mechanism({"sex": TransitionMatrix.identity(2)}, book)
    plain = estimate.total(pa.table({"sex": true, **fixed}), "y", kept, by="sex", design=designs[0])
    np.testing.assert_allclose(stated[0], np.diag(plain.covariance) + second - mean**2, rtol=1e-10)
    np.testing.assert_allclose(stated[1], stated[0], rtol=1e-10)
    assert (stated[2] < 0.95 * stated[0]).all()  # what not stating it would miss


def test_draws_that_a_unit_shares_are_in_its_variance():
    """All 2^5 releases of five households whose members show one draw."""
    stay = np.array([[0.8, 0.2], [0.3, 0.7]])
    true, house = np.array([0, 1, 1, 0, 1]), np.array([0, 0, 0, 1, 2, 2, 3, 4, 4])
    fixed = {"house": house, "y": [3.0, 1, 4, 1, 5, 9, 2, 6, 5]}
    book = Codebook(
        (Variable("sex", role="key", categories=(0, 1), type="int64"), Variable("y", "other", type="double"))
    )
    law = Mechanism({"sex": TransitionMatrix.from_array(stay)}, book)
    design = SurveyDesign(psu="house")

    def ask(sex, mechanism):
        return estimate.total(pa.table({"sex": np.array(sex)[house], **fixed}), "y", mechanism, by="sex", design=design)

    plain = ask(true, Mechanism({"sex": TransitionMatrix.identity(2)}, book))
    every = [(stay[true, list(one)].prod(), ask(one, law)) for one in itertools.product((0, 1), repeat=5)]
    spread = sum(chance * (found.value - plain.value) ** 2 for chance, found in every)
    stated = sum(chance * np.diag(found.covariance) for chance, found in every)
    np.testing.assert_allclose(stated, np.diag(plain.covariance) + spread, rtol=1e-10)


def test_the_parts_of_a_table_add_up_and_its_margins_agree():
    table, law = estimators.released(estimators.survey(900)), estimators.mechanism()
    frame = table.append_column("psu", pa.array(np.arange(900) // 15))
    design = SurveyDesign(weights="weight", psu="psu")
    both = estimate.table(frame, ["sex", "area"], law, design=design)
    np.testing.assert_allclose(both.covariance, both.sampling + both.perturbation, atol=1e-15)
    plain = estimate.table(frame, ["sex", "area"], law, weights="weight")
    np.testing.assert_allclose(both.perturbation, plain.perturbation, atol=1e-15)
    alone = estimate.table(frame, ["area"], law, design=design)
    np.testing.assert_allclose(both.margin(["area"]).covariance, alone.covariance, atol=1e-13)
    np.testing.assert_allclose(both.counts().standard_error, both.total * both.standard_error, rtol=1e-12)
    units = estimate.table(frame, ["sex"], law, design=SurveyDesign(weights="weight"))
    np.testing.assert_allclose(units.covariance, estimate.table(frame, ["sex"], law, "weight").covariance, rtol=1e-10)
    assert "60 primary sampling units, 59 degrees of freedom" in both.includes
    said = alone.to_dict()
    assert said["degrees_of_freedom"] == 59
    assert said["design_effect"] == alone.design_effect.tolist()
    squares = np.square([said[f"{part}_error"] for part in ("sampling", "perturbation")]).sum(axis=0)
    np.testing.assert_allclose(squares, alone.standard_error**2, rtol=1e-9)
    assert "design_effect" not in plain.to_dict()


@pytest.mark.parametrize("options", [{}, {"fpc": "units"}])
def test_a_regression_on_groups_has_the_parts_of_their_means(options):
    """Coefficients of indicators are means of groups, and of a logistic one logits of shares: laws made elsewhere."""
    rng = np.random.default_rng(5)
    book = Codebook(
        (
            Variable("sex", "key", ("F", "M")),
            Variable("ill", "key", (0, 1), type="int64"),
            Variable("y", "other", type="double"),
        )
    )
    stay = TransitionMatrix.from_array([[0.8, 0.2], [0.1, 0.9]])
    law = Mechanism({"sex": stay, "ill": stay}, book)
    frame = pa.table(
        {
            "sex": np.array(["F", "M"])[rng.integers(0, 2, 300)],
            "ill": rng.integers(0, 2, 300),
            "y": rng.gamma(3, 2, 300),
            "psu": np.arange(300) // 10,
            "w": rng.integers(1, 5, 300) / 2,
            "units": np.full(300, 50),
        }
    )
    design = SurveyDesign(weights="w", psu="psu", **options)
    for family, response in (("linear", "y"), ("logistic", "ill")):
        means = estimate.mean(frame, response, law, by="sex", design=design)
        found = estimate.regression(f"{response} ~ 0 + C(sex)", frame, law, family, design=design)
        slope = np.ones(2) if family == "linear" else 1 / (means.value * (1 - means.value))
        for part in ("total", "sampling", "perturbation"):
            np.testing.assert_allclose(found.standard_error_of(part), slope * means.standard_error_of(part), rtol=1e-7)


def test_a_regression_adds_the_perturbation_of_the_share_that_was_drawn():
    rng = np.random.default_rng(6)
    book = Codebook((Variable("sex", "key", ("F", "M")), Variable("y", "other", type="double")))
    law = Mechanism({"sex": TransitionMatrix.from_array([[0.8, 0.2], [0.1, 0.9]])}, book)
    frame = {"sex": np.array(["F", "M"])[rng.integers(0, 2, 200)], "y": rng.gamma(3, 2, 200), "f": np.full(200, 0.25)}
    frame |= {f"r{k}": np.where(np.arange(200) % 8 == k, 0.0, 8 / 7) for k in range(8)}
    weights = {"replicates": [f"r{k}" for k in range(8)], "method": "jk1", "scale": 0.75 * 7 / 8}
    plain, whole = (
        estimate.regression("y ~ C(sex)", pa.table(frame), law, "linear", design=SurveyDesign(**weights, **more))
        for more in ({}, {"fpc": "f"})
    )
    noise = plain.standard_error_of("perturbation") ** 2
    added = whole.standard_error_of("total") ** 2 - plain.standard_error_of("total") ** 2
    np.testing.assert_allclose(added, 0.25 * noise, rtol=1e-8)


def test_a_split_takes_a_design_where_its_variance_is_known():
    from postrand.engines.frame import perturb
    from postrand.support.randomness import ReleaseKey

    split = estimators.splitting(whole=True)
    survey = estimators.survey(600).append_column("psu", pa.array(np.arange(600) // 15))
    frame = perturb(survey, split, ReleaseKey.from_seed(1))
    frame = frame.append_column("psu", survey["psu"]) if "psu" not in frame.column_names else frame
    design = SurveyDesign(weights="weight", psu="psu")
    found = estimate.mean(frame, "pay", split, by="sex", design=design)
    plain = estimate.mean(survey, "pay", estimators.elsewhere(), by="sex", design=design)
    np.testing.assert_allclose(found.covariance, plain.covariance, rtol=1e-9)
    with pytest.raises(EstimationError, match="not divided"):
        _ = estimate.table(frame, ["sex"], split, design=design).sampling
    with pytest.raises(UsageError, match="a total of a split does not take a survey design"):
        estimate.total(frame, "pay", split, by="sex", design=design)
    with pytest.raises(UsageError, match="a total of a split does not take a survey design"):  # with numbers, too
        estimate.total(frame, "sex", split, design=design)


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        ({"replicates": ["r1"], "method": "brr"}, "2 or more"),
        ({"replicates": ["r1", "r2"]}, "method of the replicate weights is not known"),
        ({"replicates": ["r1", "r2"], "method": "fay"}, "'fay' needs rho"),
        ({"replicates": ["r1", "r2"], "method": "jkn"}, "'jkn' needs rscales"),
        ({"replicates": ["r1", "r2"], "method": "brr", "psu": "psu"}, "already hold the strata"),
        ({"replicates": ["r1", "r1"], "method": "brr"}, "named twice"),
        ({"rho": 0.5}, "'rho' is about replicate weights"),
        ({"lonely": "average"}, "unknown treatment"),
        ({"psu": 3}, "names a column by a text"),
        ({"fpc": True}, "names a column by a text"),
        ({"fpc": 0}, "fpc is not the share that was drawn; got 0; wanted above 0, and 1 at most"),
        ({"fpc": 1.5}, "fpc is not the share that was drawn"),
    ],
)
def test_a_design_that_does_not_fit_is_refused(parts, what):
    with pytest.raises(UsageError, match=what):
        SurveyDesign(**parts)


def test_what_a_file_cannot_answer_is_refused_with_a_way_out():
    def ask(design, law=ELSEWHERE, **more):
        return estimate.table(TABLE, ["sex"], law, design=design, **more)

    holes = TABLE.append_column("hole", pa.array([None, *range(1, TABLE.num_rows)]))
    cases = [
        (
            DataError,
            "hole.*missing for some records",
            lambda: estimate.table(holes, ["sex"], ELSEWHERE, design=SurveyDesign(psu="hole")),
        ),
        (UsageError, "column of psu is perturbed.*side", lambda: ask(SurveyDesign(psu="side"))),
        (UsageError, "beside a survey design", lambda: ask(DESIGNS["linear"], weights="w")),
        (UsageError, "'likelihood' does not take", lambda: ask(DESIGNS["linear"], method="likelihood")),
        (UsageError, "'model' does not take", lambda: ask(DESIGNS["linear"], method="model")),
        (UsageError, "not a survey design", lambda: ask("psu")),
        (EstimationError, "only one primary", lambda: ask(SurveyDesign(strata="lone", psu="psu"))),
        (DataError, "not a share", lambda: ask(SurveyDesign(**REPLICATES, method="brr", fpc="units"))),
        (DataError, "not one positive number", lambda: ask(SurveyDesign(psu="psu", fpc="w"))),
        (DataError, "more primary sampling units", lambda: ask(SurveyDesign(fpc="units", strata="stratum"))),
        (
            EstimationError,
            "no degree of freedom",
            lambda: ask(SurveyDesign(psu="units", strata="units", lonely="adjust")),
        ),
        (PostrandError, "nowhere", lambda: ask(SurveyDesign(psu="nowhere"))),
        (
            EstimationError,
            "on the safe side",
            lambda: estimate.quantile(TABLE, "y", KEPT, by="sex", design=DESIGNS["fpc"]),
        ),
    ]
    for error, what, asked in cases:
        with pytest.raises(error, match=what):
            asked()


def test_a_column_that_is_not_released_is_refused():
    book = Codebook((*BOOK.variables, Variable("village", "drop")))
    law = Mechanism({"sex": TransitionMatrix.identity(2)}, book)
    frame = TABLE.append_column("village", TABLE["psu"])
    with pytest.raises(UsageError, match=r"survey design is not released.*village"):
        estimate.table(frame, ["sex"], law, design=SurveyDesign(psu="village"))


def test_options_of_the_command_line_are_the_design():
    known = estimate.estimators()
    for name, options in {
        "linear": {"weight": "w", "strata": "stratum", "psu": "psu"},
        "fpc": {"weight": "w", "strata": "stratum", "psu": "psu", "fpc": "units"},
        "post": {"weight": "w", "strata": "stratum", "psu": "psu", "calibrated": "post"},
        "lonely": {"weight": "w", "strata": "lone", "psu": "psu", "lonely-psu": "adjust"},
        "fay": {"weight": "w", "replicates": "r1,r2,r3,r4,r5,r6,r7,r8", "replication": "fay", "rho": "0.3"},
    }.items():
        found = known["mean"].answer(TABLE, KEPT, "y", options)
        agree(found.covariance, GOLDEN[name]["mean"]["covariance"], name)
    for one in known.values():
        assert {"psu", "replicates"} <= {option.name for option in one.options}, one.name


@pytest.mark.statistical
def test_intervals_of_rare_cells_hold_with_clusters_as_often_as_they_say():
    """Households in a release at ε = 5, cells below .003: pooled coverage; ``estimate ± t se`` must be rejected.

    360 intervals; alpha 1e-4 (3.7 standard errors of .0115 below .95); the power against the .77 of the mutant is 1.
    """
    rng = np.random.default_rng(7)
    kinds, areas = ("a", "b", "c", "d", "e"), ("n", "s", "w", "x")
    shares, sides = np.array([0.6, 0.25, 0.12, 0.025, 0.005]), np.array([0.5, 0.3, 0.18, 0.02])
    truth = np.outer(shares, sides)
    book = Codebook((Variable("kind", "key", kinds), Variable("area", "key", areas)))
    laws = {"kind": randomised_response(5, 5.0), "area": randomised_response(4, 5.0)}
    law, rare, held, plain, below = Mechanism(laws, book), truth < 0.003, [], [], 0
    for seed in range(60):
        size = rng.choice([1, 2, 3, 4, 6], 800, p=[0.3, 0.3, 0.2, 0.15, 0.05])
        house = np.repeat(np.arange(800), size)
        kind = np.where(
            rng.random(house.size) < 0.5, rng.choice(5, 800, p=shares)[house], rng.choice(5, house.size, p=shares)
        )
        area = rng.choice(4, 800, p=sides)[house]
        people = pa.table({
            "kind": pa.array(np.array(kinds)[kind]), "area": pa.array(np.array(areas)[area]),
            "house": house, "w": rng.gamma(4, 1, 800)[house],
        })  # fmt: skip
        released = pr.perturb(people, law, release_key=pr.ReleaseKey.from_seed(seed))
        found = estimate.table(released, ["kind", "area"], law, design=SurveyDesign(weights="w", psu="house"))
        low, high = found.interval()
        half = -scipy.special.stdtrit(799, 0.025) * found.standard_error  # as many households, less one
        held += [*((low <= truth) & (truth <= high))[rare]]
        plain += [*(abs(found.value - truth) <= half)[rare]]
        below += int((high < 0).sum())
    error = (0.05 * 0.95 / len(held)) ** 0.5
    assert np.mean(held) > 0.95 - 3.7 * error
    assert np.mean(plain) < 0.95 - 3.7 * error
    assert below == 0


def test_without_clusters_a_design_has_the_intervals_of_its_shares_but_for_t():
    """Metamorphic: each record its own cluster, so that only the degrees of freedom, many here, make a difference."""
    frame = estimators.released(estimators.survey(400))
    found, plain = (
        estimate.proportions(frame.append_column("id", pa.array(np.arange(400))), "sex", estimators.mechanism(), **more)
        for more in ({"design": SurveyDesign(psu="id")}, {})
    )
    assert np.stack(found.interval()) == pytest.approx(np.stack(plain.interval()), rel=5e-3)
    assert found.margin(["sex"]).interval()[0] == pytest.approx(found.interval()[0])
