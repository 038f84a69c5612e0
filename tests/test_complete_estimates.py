"""Estimates from completed copies: Rubin's rules by hand, Wilson's interval by search, and what they refuse."""

import dataclasses
import functools
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.optimize
from click.testing import CliRunner

from postrand import estimate, perturb, randomised_response
from postrand.cli import main
from postrand.completion import Completed, complete
from postrand.errors import EstimationError, UsageError
from postrand.estimate.by_model_law import Answered, law_of
from postrand.mechanism import Block, Mechanism, Split
from postrand.release import completed as completed_release
from postrand.support.randomness import ReleaseKey
from postrand.testing.estimators import BOOK, elsewhere, mechanism, released, survey

from .conftest import ROOT

KEY = ReleaseKey.from_seed(8)


@cache
def completed() -> Completed:
    return complete(released(survey(1200)), mechanism(), copies=5, seed=1, sweeps=30, classes=8)


@cache
def apart() -> Completed:
    """Return completed copies of a split of which no record shows sex and ill together."""
    blocks = [Block((name, "area"), randomised_response(2 * 3, 4.0)) for name in ("sex", "ill")]
    law = Mechanism([], BOOK, split=Split.of([0.5, 0.5], blocks))
    return complete(perturb(survey(1200), law, KEY), law, copies=4, seed=2, sweeps=30, classes=8)


def rubin(values: list[np.ndarray], variances: list[np.ndarray], n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, T and Barnard and Rubin's degrees of freedom as their papers write them."""
    m = len(values)
    within, between = np.mean(variances, axis=0), np.var(values, axis=0, ddof=1)
    total = within + (1 + 1 / m) * between
    gamma = (1 + 1 / m) * between / total
    complete = n - 1
    observed = (complete + 1) / (complete + 3) * complete * (1 - gamma)
    return np.mean(values, axis=0), total, 1 / (gamma**2 / (m - 1) + 1 / observed)


def rejected(x: float, p: float, square: float) -> float:
    return (p - x) ** 2 - square * x * (1 - x)


def test_a_table_is_the_pooled_table_of_the_copies() -> None:
    done = completed()
    found: Any = estimate.table(done.released, ["sex", "area"], mechanism(), model=done)
    shares = []
    for copy in done.frames:
        counts = np.zeros((2, 3))
        for sex, area in zip(copy["sex"].to_pylist(), copy["area"].to_pylist(), strict=True):
            counts["FM".index(sex), ("east", "north", "west").index(area)] += 1
        shares.append(counts / 1200)
    value, total, freedom = rubin(shares, [p * (1 - p) / 1199 for p in shares], 1200)
    np.testing.assert_allclose(found.value, value)
    np.testing.assert_allclose(found.standard_error, np.sqrt(total))
    np.testing.assert_allclose(np.diag(found.covariance).reshape(2, 3), total)
    low, high = found.interval(0.9)
    for at in np.ndindex(2, 3):
        p, unit = value[at], total[at] / (value[at] * (1 - value[at]))
        t = scipy.stats.t.ppf(0.95, freedom[at])
        ends = [scipy.optimize.brentq(rejected, *side, args=(p, t**2 * unit)) for side in ((0, p), (p, 1))]
        np.testing.assert_allclose([low[at], high[at]], ends)


def test_parts_and_margins_of_a_table_fit_together() -> None:
    done = completed()
    found: Any = estimate.table(done.released, ["sex", "area"], mechanism(), model=done)
    np.testing.assert_allclose(found.sampling + found.perturbation, found.covariance)
    alone: Any = estimate.table(done.released, ["area"], mechanism(), model=done)
    margin: Any = found.margin(["area"])
    np.testing.assert_allclose(margin.value, alone.value)
    np.testing.assert_allclose(margin.standard_error, alone.standard_error)
    np.testing.assert_allclose(margin.unbiased_error, alone.unbiased_error)
    ones = np.kron(np.ones((1, 2)), np.eye(3))
    np.testing.assert_allclose(ones @ found.covariance @ ones.T, margin.covariance, atol=1e-12)
    np.testing.assert_allclose(found.counts().standard_error, 1200 * found.standard_error)
    np.testing.assert_allclose(found.counts().unbiased_error, 1200 * found.unbiased_error)


def test_means_totals_ratios_and_quantiles_are_those_of_the_copies_pooled() -> None:
    done = completed()
    groups = ("east", "north", "west")
    pays = [[np.array(c.filter(pa.compute.equal(c["area"], g))["pay"]) for g in groups] for c in done.frames]
    found = estimate.mean(done.released, "pay", mechanism(), by="area", model=done)
    np.testing.assert_allclose(found.value, np.mean([[p.mean() for p in one] for one in pays], axis=0))
    means, errors = ([np.array([f(p) for p in one]) for one in pays] for f in (np.mean, lambda p: p.var() / len(p)))
    _, total, freedom = rubin(means, errors, 1200)
    np.testing.assert_allclose(found.standard_error, np.sqrt(total), rtol=2e-3)
    low, high = found.interval()
    half = scipy.stats.t.ppf(0.975, freedom) * np.sqrt(total)
    np.testing.assert_allclose(high - low, 2 * half, rtol=5e-3)
    np.testing.assert_allclose(np.diag(found.covariance), found.standard_error**2)
    np.testing.assert_allclose(found.sampling + found.perturbation, found.covariance)
    medians = np.mean([[np.quantile(p, 0.5, method="inverted_cdf") for p in one] for one in pays], axis=0)
    found = estimate.quantile(done.released, "pay", mechanism(), by="area", model=done)
    np.testing.assert_allclose(found.value, medians)
    totals = np.mean([[p.sum() for p in one] for one in pays], axis=0)
    np.testing.assert_allclose(estimate.total(done.released, "pay", mechanism(), by="area", model=done).value, totals)
    share = estimate.ratio_of_totals(done.released, "pay", "hours", mechanism(), model=done)
    wanted = [np.array(c["pay"]).sum() / np.array(c["hours"]).sum() for c in done.frames]
    np.testing.assert_allclose(share.value, np.mean(wanted))


def test_a_group_that_a_copy_does_not_have_is_open_and_said_to_be() -> None:
    each = [Answered(np.array([1.0, gap]), np.array([0.5, 0.5]), None, 90, 0, 90.0, None) for gap in (2.0, np.nan)]
    law = law_of(each)
    assert np.isnan(law.value).tolist() == [False, True]
    low, high = law.bounds(law.value, 0.95)
    assert (low[1], high[1]) == (-np.inf, np.inf)
    assert np.isfinite([low[0], high[0]]).all()
    assert np.isnan(law.variance("total")).tolist() == [False, True]
    assert "too few records" in law.warnings[0]


def test_odds_ratios_are_pooled_as_logarithms() -> None:
    done = completed()
    logs, squares = [], []
    for copy in done.frames:
        sex, ill = (np.array(copy[name].to_pylist()) for name in ("sex", "ill"))
        counts = np.array([[((sex == s) & (ill == i)).sum() for i in ("no", "yes")] for s in "FM"])
        logs.append(np.log(counts[0, 0] * counts[1, 1] / counts[0, 1] / counts[1, 0]))
        squares.append((1 / counts).sum() * 1200 / 1199)
    m, between = len(logs), np.var(logs, ddof=1)
    total = np.mean(squares) + (1 + 1 / m) * between
    found = estimate.odds_ratio(done.released, "sex", "ill", mechanism(), model=done)
    assert found.value == pytest.approx(np.exp(np.mean(logs)))
    assert found.log_standard_error == pytest.approx(np.sqrt(total), rel=1e-6)
    half = scipy.stats.t.ppf(0.975, (m - 1) * (total / ((1 + 1 / m) * between)) ** 2) * np.sqrt(total)
    assert found.interval()[1] == pytest.approx(found.value * np.exp(half), rel=1e-6)


def test_weights_and_strata_count_in_every_copy() -> None:
    done = completed()
    options = {"weights": "weight", "strata": "stratum"}
    found: Any = estimate.table(done.released, ["ill"], mechanism(), model=done, **options)
    each = [estimate.table(c, ["ill"], elsewhere(), **options) for c in done.frames]
    value, total, _ = rubin([e.value for e in each], [e.standard_error**2 for e in each], 1200)
    np.testing.assert_allclose(found.value, value)
    np.testing.assert_allclose(found.standard_error**2, total)


def test_what_a_split_does_not_show_together_is_answered_and_said_to_rest_on_the_model() -> None:
    done = apart()
    with pytest.raises(EstimationError, match="no record shows all these variables"):
        estimate.table(done.released, ["sex", "ill"], done.mechanism)
    found: Any = estimate.table(done.released, ["sex", "ill"], done.mechanism, method="model", model=done)
    assert found.value.shape == (2, 2)
    assert found.value.sum() == pytest.approx(1)
    assert (found.rests_on_model == 1).all()
    assert any("does not answer" in text for text in found.warnings)
    assert found.to_arrow()["unbiased_standard_error"].null_count == 4
    assert found.to_dict()["rests_on_model"] == [[1.0, 1.0], [1.0, 1.0]]
    pay = estimate.mean(done.released, "pay", done.mechanism, by=["sex", "ill"], model=done)
    assert np.isfinite(pay.value).all()
    known: Any = estimate.table(done.released, ["sex", "area"], done.mechanism, model=done)
    alone: Any = estimate.table(done.released, ["sex", "area"], done.mechanism)
    np.testing.assert_allclose(known.unbiased_error, alone.standard_error)
    share = 1 - (known.standard_error / alone.standard_error) ** 2
    np.testing.assert_allclose(known.rests_on_model, share.clip(0, 1))
    assert "rests on the model" in known.includes


def test_every_result_says_what_is_wrong_with_the_model() -> None:
    done, problem = completed(), "The chains have not converged."
    wrong = dataclasses.replace(done, diagnostics=dataclasses.replace(done.diagnostics))
    wrong.diagnostics.__dict__["problems"] = (problem,)
    found = estimate.mean(done.released, "pay", mechanism(), by="sex", model=wrong)
    assert found.warnings[0] == f"THE MODEL FAILED A TEST: {problem}"
    assert f"Warning: THE MODEL FAILED A TEST: {problem}" in str(found)


def test_a_clear_table_rests_on_nothing() -> None:
    done = completed()
    found: Any = estimate.table(done.released, ["stratum"], mechanism(), model=done)
    np.testing.assert_allclose(found.value, estimate.table(done.released, ["stratum"], mechanism()).value)
    assert (found.rests_on_model == 0).all()
    assert not found.perturbed
    assert found.warnings == ()


def test_a_model_of_another_release_is_refused() -> None:
    done = completed()
    frame = done.released
    with pytest.raises(UsageError, match="needs a fitted model"):
        estimate.table(frame, ["sex"], mechanism(), method="model")
    with pytest.raises(UsageError, match="another mechanism"):
        estimate.table(frame, ["sex"], apart().mechanism, model=done)
    with pytest.raises(UsageError, match="other records"):
        estimate.table(frame.take(np.arange(1200)[::-1]), ["sex"], mechanism(), model=done)
    with pytest.raises(UsageError, match="unknown method 'models'"):
        estimate.mean(frame, "pay", mechanism(), method="models")
    copy = pa.table(frame.to_pydict())
    assert estimate.table(copy, ["sex"], mechanism(), model=done).value.sum() == pytest.approx(1)


def test_methods_of_a_table() -> None:
    frame = completed().released
    likely = estimate.table(frame, ["sex"], mechanism(), method="likelihood")
    np.testing.assert_allclose(likely.value, estimate.maximum_likelihood(frame, ["sex"], mechanism()).value)
    with pytest.raises(UsageError, match="no prior"):
        estimate.table(frame, ["sex"], mechanism(), prior={"sex": [0.5, 0.5]}, method="likelihood")


def test_the_command_answers_from_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = functools.partial(completed_release.complete, sweeps=40, classes=4, copies=2)
    monkeypatch.setattr(completed_release, "complete", quick)
    folder = ROOT / "tests" / "fixtures" / "releases" / "3" / "split"
    found = CliRunner().invoke(main, ["estimate", str(folder), "--table", "sex,area", "--method", "model", "--json"])
    assert found.exit_code == 10, found.output
    assert "THE MODEL FAILED A TEST: The chains have not converged" in found.output  # of 40 sweeps
    assert "unbiased_standard_error" in found.output
