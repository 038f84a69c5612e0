"""Convergence: R-hat and effective draws against series whose answer is known."""

import dataclasses

import numpy as np
import pytest

from postrand.completion.convergence import bulk_effective, convergence, split_r_hat
from postrand.mixture import Draw, Evidence, Fit, Settings


def series(rho, chains, n, seed=1):
    rng = np.random.default_rng(seed)
    x = np.empty((chains, n))
    x[:, 0] = rng.normal(size=chains)
    for t in range(1, n):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * rng.normal(size=chains)
    return x


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, -0.4])
def test_effective_draws_of_an_autoregression_are_known(rho):
    """An AR(1) series of N draws is worth N (1 − ρ)/(1 + ρ); the estimate of 8 x 4,000 draws errs by a few per cent."""
    x = series(rho, 8, 4_000)
    assert bulk_effective(x) == pytest.approx(x.size * (1 - rho) / (1 + rho), rel=0.12)


def test_ranks_make_both_blind_to_the_scale():
    x = series(0.5, 4, 500)
    assert split_r_hat(np.exp(3 * x)) == pytest.approx(split_r_hat(x), abs=0.01)
    assert bulk_effective(np.exp(3 * x)) == pytest.approx(bulk_effective(x), rel=1e-12)


def test_r_hat_by_hand():
    """Four halves of two draws: ranks 1..8, their normal scores, and the formula written out."""
    trace = np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    from scipy.stats import norm

    z = norm.ppf((np.arange(1, 9) - 0.375) / 8.25).reshape(4, 2)
    within = np.mean([(a - b) ** 2 / 2 for a, b in z])
    means = z.mean(axis=1)
    between = sum((m - means.mean()) ** 2 for m in means) / 3
    assert split_r_hat(trace) == pytest.approx(np.sqrt((within / 2 + between) / within))


def test_what_has_to_be_found():
    x = series(0.3, 4, 1_000)
    assert split_r_hat(x) < 1.01
    shifted = x + np.array([[0.0], [0.0], [0.0], [0.8]])
    assert split_r_hat(shifted) > 1.05
    spread = x * np.array([[1.0], [1.0], [1.0], [4.0]])  # only the folded ranks see it
    assert split_r_hat(spread) > 1.05
    drift = x + np.linspace(0, 2, 1_000)
    assert split_r_hat(drift) > 1.05


def made(traces, occupied, classes=10):
    nothing = np.zeros((0, 1), np.int32)
    evidence = Evidence(
        ("a",), (2,), nothing, np.zeros(1, np.int64), nothing[:, 0], nothing[:, 0], (), np.zeros((0, 1, 2), bool)
    )
    draw = Draw(np.full(classes, 1 / classes), (np.full((classes, 2), 0.5),))
    return Fit(evidence, Settings(), 1, (draw,), traces, ("a[0]", "a[1]"), occupied)


def test_a_fit_that_converged_and_one_that_did_not():
    traces = np.stack([series(0.2, 2, 600, seed) for seed in (1, 2)], axis=2)
    found = convergence(made(traces, np.full((2, 600), 4)))
    assert found.converged
    assert not found.truncated
    assert (found.occupied, found.classes, found.chains, found.sweeps) == (4, 10, 2, 600)
    traces[0, :, 1] += 3
    found = convergence(made(traces, np.full((2, 600), 10)))
    assert not found.converged
    assert found.traced[found.worst] == "a[1]"
    assert found.truncated


def test_a_trace_that_never_moves_is_no_failure():
    traces = np.stack([series(0.2, 2, 600), np.full((2, 600), 0.25)], axis=2)
    found = convergence(made(traces, np.full((2, 600), 4)))
    assert found.converged
    assert found.r_hat[1] == 1


def test_more_sweeps_are_asked_for_by_the_option_and_from_the_number_that_was_used():
    fit = made(np.stack([series(0.2, 2, 600)] * 2, axis=2), np.full((2, 600), 4))
    found = convergence(dataclasses.replace(fit, settings=Settings(sweeps=900)))
    assert found.more == "ask for more sweeps: this fit had 900, so for example --sweeps 3600"
    few = dataclasses.replace(found, asked=6000, effective=np.full(2, 13.0))
    assert few.more.endswith("--sweeps 60000")  # one step, not 24000 first and 96000 then
    none = dataclasses.replace(found, asked=6000, effective=np.full(2, 0.5))
    assert none.more.endswith("--sweeps 120000")
