"""Regression, tests and functionals from completed copies: Rubin's rules by hand, level and power by simulation."""

import functools
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.stats
import statsmodels.formula.api as smf
from click.testing import CliRunner

from postrand import Codebook, Variable, estimate, perturb, randomised_response
from postrand.cli import main
from postrand.completion import Completed, complete
from postrand.errors import DataError, EstimationError, SpecificationError, UsageError
from postrand.estimate import estimators
from postrand.estimate.by_model import FAILED
from postrand.estimate.by_model_tests import joint_wald
from postrand.mechanism import Block, Mechanism, Split
from postrand.release import completed as completed_release
from postrand.support.randomness import ReleaseKey
from postrand.testing.estimators import mechanism, released, survey

from .conftest import ROOT
from .test_complete_estimates import apart, rubin


@cache
def completed() -> Completed:
    return complete(released(survey(800)), mechanism(), copies=4, seed=1, sweeps=30, classes=6)


def test_a_regression_is_that_of_ordinary_software_on_each_copy_pooled() -> None:
    done = completed()
    found = estimate.regression("pay ~ C(area)", done.released, mechanism(), "linear", model=done)
    fits = []
    for frame in done.frames:
        columns = pd.DataFrame({name: frame[name].to_pandas() for name in ("pay", "area")})
        areas = list(map(str, mechanism().require_codebook()["area"].categories))
        columns["area"] = pd.Categorical(columns["area"].astype(str), categories=areas)
        fits.append(smf.ols("pay ~ C(area)", columns).fit(cov_type="HC3"))
    value, total, _ = rubin([f.params.to_numpy() for f in fits], [np.diag(f.cov_params()) for f in fits], 800)
    np.testing.assert_allclose(found.value, value, rtol=1e-8)
    np.testing.assert_allclose(found.standard_error**2, total, rtol=5e-3)  # HC3 and a jackknife
    low, high = found.interval()
    assert (high - low > 2 * 1.96 * found.standard_error).all()  # degrees of freedom of few copies
    assert found.warnings == tuple(f"{FAILED}: {text}" for text in done.diagnostics.problems)
    assert "Rubin's rules over 4 copies" in str(found)


def test_what_a_split_does_not_show_together_is_answered_by_every_estimator() -> None:
    done = apart()
    frame, law = done.released, done.mechanism
    asked: dict[str, Any] = {
        "regression": lambda **more: estimate.regression("pay ~ sex + ill", frame, law, "linear", **more),
        "independence": lambda **more: estimate.independence_test(frame, "sex", "ill", law, **more),
        "quantities": lambda **more: estimate.quantities(frame, ["sex", "ill"], {"both": np.eye(2)}, law, **more),
        "odds ratio": lambda **more: estimate.odds_ratio(frame, "sex", "ill", law, **more),
        "table": lambda **more: estimate.table(frame, ["sex", "ill"], law, **more),
        "mean": lambda **more: estimate.mean(frame, "pay", law, by=["sex", "ill"], **more),
    }
    for name, ask in asked.items():
        with pytest.raises(EstimationError, match="every estimator takes model="):
            ask()
        found = ask(model=done)
        assert found.to_dict()["warnings"][0].startswith("The release alone does not answer this"), name
        assert "does not answer this: the numbers rest on the joint model of" in str(found), name
    with pytest.raises(UsageError, match="needs a fitted model"):
        estimate.independence_test(frame, "sex", "ill", law, method="model")
    with pytest.raises(UsageError, match="needs a fitted model"):
        estimate.regression("pay ~ sex", frame, law, "linear", method="model")
    with pytest.raises(SpecificationError, match="model="):
        estimate.mcsimex("pay ~ sex", frame, law, "linear", np.random.default_rng(1))


def test_a_test_of_fit_is_the_wald_test_of_rubin_and_one_that_cannot_be_is_refused() -> None:
    done = completed()
    target = [0.45, 0.55]
    found = estimate.goodness_of_fit_test(done.released, "sex", target, mechanism(), model=done)
    shares = [np.mean(done.codes(k)[:, done.modelled.names.index("sex")] == 0) for k in range(4)]
    within, between = 0.45 * 0.55 / 800, np.var(shares, ddof=1)
    statistic = (np.mean(shares) - 0.45) ** 2 / (within + 1.25 * between)  # of one number D1 is t squared
    assert found.statistic == pytest.approx(statistic)
    assert found.degrees_of_freedom == 1
    ratio = 1.25 * between / within
    assert found.p_value == pytest.approx(scipy.stats.f.sf(statistic, 1, 3 * (1 + 1 / ratio) ** 2))
    with pytest.raises(UsageError, match="not a distribution"):
        estimate.goodness_of_fit_test(done.released, "sex", [0.5, 0.6], mechanism(), model=done)


def test_the_level_and_the_power_of_the_test_of_independence_by_simulation() -> None:
    """Copies drawn from the posterior of a table that is seen with error: 400 files, two-sided 4 standard errors."""
    rng = np.random.default_rng(4)
    n, m = 500, 8
    rejected = {0.0: 0, 0.06: 0}
    for effect in rejected:
        true = np.array([[0.3 + effect, 0.2 - effect], [0.3 - effect, 0.2 + effect]])
        for _ in range(400):
            file = rng.multinomial(n, true.ravel()) / n
            extra = rng.normal(size=4) * 0.015  # what is not known of the file, of mean 0 over the cells
            centre = file + (extra - extra.mean())
            noise = rng.normal(size=(m, 4)) * 0.015
            tables = [_Table((centre + e - e.mean()).reshape(2, 2), n) for e in noise]
            rejected[effect] += _p_value(tables) < 0.05
    assert abs(rejected[0.0] - 20) < 4 * np.sqrt(400 * 0.05 * 0.95)
    assert rejected[0.06] > 300


class _Table:
    """A table of one copy."""

    def __init__(self, value: np.ndarray, records: int) -> None:
        self.value, self.records = value, records


def _p_value(tables: list[_Table]) -> float:
    from postrand.estimate.hypotheses import _independence_of

    return joint_wald(tables, *_independence_of((2, 2), True, tables))[2]  # all that it reads


def test_the_command_answers_regressions_and_tests_from_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = functools.partial(completed_release.complete, sweeps=40, classes=4, copies=3)
    monkeypatch.setattr(completed_release, "complete", quick)
    folder = str(ROOT / "tests" / "fixtures" / "releases" / "3" / "split")
    for asked in (
        ("--independence", "sex,area"),
        ("--fit", "sex", "--expected", "0.4,0.6"),
        ("--regression", "sex ~ area", "--family", "logistic"),
    ):
        found = CliRunner().invoke(main, ["estimate", folder, *asked, "--method", "model"])
        assert found.exit_code == (10 if FAILED in found.output else 0), found.output
        assert "completed" in found.output


def test_weights_and_strata_count_in_tests_of_copies() -> None:
    book = Codebook(
        (
            Variable("a", "key", ("0", "1")),
            Variable("b", "key", ("0", "1")),
            Variable("w", role="weight", type="double"),
        )
    )
    rng = np.random.default_rng(2)
    held = {name: rng.integers(0, 2, 600).astype(str).tolist() for name in ("a", "b")}
    frame = pa.table({**held, "w": rng.uniform(0.2, 4, 600)})
    blocks = [Block((name,), randomised_response(2, 3.0)) for name in ("a", "b")]
    law = Mechanism([], book, split=Split.of([0.5, 0.5], blocks))
    shown = perturb(frame, law, ReleaseKey.from_seed(3))
    done = complete(shown, law, copies=3, seed=1, sweeps=30, classes=3)
    plain = estimate.independence_test(shown, "a", "b", law, model=done)
    weighted = estimate.independence_test(shown, "a", "b", law, weights="w", model=done)
    assert weighted.statistic != plain.statistic
    assert 0 <= weighted.p_value <= 1


def test_what_the_release_alone_refuses_is_refused_before_a_model_is_fitted() -> None:
    def fit() -> None:
        raise AssertionError("a model was fitted")

    given = {"family": "logistic", "method": "model"}
    with pytest.raises(DataError, match="logistic response"):
        estimators()["regression"].answer(released(survey(800)), mechanism(), "pay ~ C(area)", given, fit)
