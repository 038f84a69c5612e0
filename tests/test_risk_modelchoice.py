"""Errors of tau and the choice of the model: derivatives, simulation, and samples from known populations."""

import numpy as np
import pytest

from postrand.errors import DataError, UsageError
from postrand.risk import assess
from postrand.risk.cells import CellTable, KeyCodes, table
from postrand.risk.loglinear import LogLinearFit, fit
from postrand.risk.modelchoice import choose, minimum_error
from postrand.risk.tau import estimate, exprel, exprel_slopes, inverse_variance

NAMES, SHAPE, PI = tuple("abcd"), (10, 9, 12, 8), 0.05


def cell_probabilities(seed, strength):
    """Main effects, and interactions of ``a*b`` and ``c*d`` of the given strength."""
    rng = np.random.default_rng(seed)
    log = sum(rng.normal(0, 0.8, s).reshape([-1 if k == j else 1 for k in range(4)]) for j, s in enumerate(SHAPE))
    log = log + strength * rng.normal(size=(10, 9, 1, 1)) + strength * rng.normal(size=(1, 1, 12, 8))
    p = np.exp(log)
    return p / p.sum()


def draw(p, size, rng):
    """Return population and sample counts of every cell: a Bernoulli sample of a Poisson population."""
    population = rng.poisson(p * size)
    return population, rng.binomial(population, PI)


def cells_of(sample):
    codes = np.repeat(np.indices(SHAPE).reshape(4, -1), sample.ravel(), axis=1)
    return table(KeyCodes(NAMES, SHAPE, tuple(codes)))


def test_slopes_and_variance_against_sums():
    x = np.array([1e-9, 1e-4, 0.0099, 0.0101, 0.5, 3.0, 40.0])
    h = 1e-5 * np.maximum(x, 1e-2)
    first, second = exprel_slopes(x)
    np.testing.assert_allclose(
        first, (exprel(x + h) - exprel(np.maximum(x - h, 0))) / (x + h - np.maximum(x - h, 0)), rtol=1e-4
    )
    slope = lambda at: exprel_slopes(at)[0]  # noqa: E731
    np.testing.assert_allclose(second, (slope(x + h) - slope(x)) / h, rtol=2e-3, atol=1e-5)
    for value, found in zip(x, inverse_variance(x), strict=True):
        chance = np.exp(-value) * np.cumprod(np.r_[1.0, value / np.arange(1, 200)])
        f = np.arange(1, 201)
        exact = (chance / f**2).sum() - (chance / f).sum() ** 2
        assert found == pytest.approx(exact, rel=1e-3, abs=1e-6)


def test_b1_has_its_published_form():
    _, sample = draw(cell_probabilities(0, 0.5), 40_000, np.random.default_rng(0))
    cells = cells_of(sample)
    found = fit(cells, "independence")
    mu = np.zeros(SHAPE)
    mu[tuple(found.cells.T)] = found.mu
    lam, f = mu / PI, sample
    inner = (f - mu) + (1 - PI) * ((f - mu) ** 2 - f) / (2 * PI)
    expected = (lam * np.exp(-lam) * (1 - PI) * inner).sum()
    assert minimum_error(found, cells, PI).b1 == pytest.approx(expected, rel=1e-10)


@pytest.mark.statistical
def test_b1_is_the_error_of_a_model_near_the_truth_and_many_times_that_of_a_wrong_one():
    """Known λ, no fitting: the mean of B over 400 samples against ``Σ P(f=1) [h(λ^) − h(λ)]``, alpha 1e-6.

    Model means that are off by 3% of 1/(1−π) are near: B is the error, to second order. Under independence, with
    strong interactions, the statistic is more than ten times the error.
    """
    rng = np.random.default_rng(3)
    size, draws = 60_000, 400
    mu = size * cell_probabilities(2, 1.0).ravel() * PI
    x, margin = mu / PI * (1 - PI), np.sign(rng.normal(size=mu.size))
    codes = np.stack(np.unravel_index(np.arange(mu.size), SHAPE), axis=1).astype(np.int16)
    near = mu * (1 + 0.03 * margin / np.maximum(x, 1.0))
    far = np.full(SHAPE, size * PI)
    for j in range(4):
        axes = tuple(k for k in range(4) if k != j)
        far = far * mu.reshape(SHAPE).sum(axis=axes, keepdims=True) / mu.sum()
    ratios = []
    for fitted in (near, far.ravel()):
        model = LogLinearFit(NAMES, SHAPE, ((0, 1, 2, 3),), codes, fitted, 1, 0.0, converged=True)
        found = np.zeros((draws, 2))
        for d in range(draws):
            sample = rng.poisson(mu)
            held = sample > 0
            cells = CellTable(NAMES, SHAPE, codes[held].astype(np.int32), sample[held], np.zeros(0, int))
            error = minimum_error(model, cells, PI)
            found[d] = error.b1, error.b2
        y = fitted / PI * (1 - PI)
        chance = mu * np.exp(-mu)
        true = np.array([(chance * (h(y) - h(x))).sum() for h in (lambda v: np.exp(-v), exprel)])
        ratios.append((found.mean(axis=0), true, found.std(axis=0) / np.sqrt(draws)))
    (mean, true, error), (wrong, off, _) = ratios
    assert (np.abs(mean - true) < 4.9 * error + 0.05 * np.abs(true)).all()
    assert (wrong / off > 10).all()


@pytest.mark.slow
@pytest.mark.statistical
def test_intervals_cover_the_truth_under_the_right_model():
    """120 populations and samples, alpha 1e-6: 95% intervals cover in at least 99 of them.

    The mutant, half the width and no correction of the bias, covers about half and must be rejected. The corrected
    estimate is also nearer to the truth on average.
    """
    rng = np.random.default_rng(12)
    p = cell_probabilities(3, 0.7)
    hits, mutant, plain, corrected = np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2)
    for _ in range(120):
        population, sample = draw(p, 100_000, rng)
        cells = cells_of(sample)
        unique = sample == 1
        truth = ((population[unique] == 1).sum(), (1 / population[unique]).sum())
        found = estimate(fit(cells, [("a", "b"), ("c", "d")], tolerance=1e-4), cells, PI)
        for i, (tau, true) in enumerate(zip(found, truth, strict=True)):
            assert tau.interval is not None
            assert tau.bias is not None
            assert tau.standard_error is not None
            hits[i] += tau.interval[0] <= true <= tau.interval[1]
            mutant[i] += abs(tau.value - true) <= tau.standard_error * 0.98
            plain[i] += tau.value - true
            corrected[i] += tau.value - tau.bias - true
    assert hits.min() >= 99
    assert mutant.max() < 99
    assert (np.abs(corrected) < np.abs(plain) / 2).all()


@pytest.mark.statistical
def test_minimum_error_scores_are_standard_under_the_right_model_only():
    """40 samples: independence overstates and every score says so; the right model's scores are near 0.

    Their mean is below 0 by up to about 1, for the fit has followed the data.
    """
    rng = np.random.default_rng(5)
    p = cell_probabilities(1, 0.8)
    scores, wrong = [], []
    for _ in range(40):
        _, sample = draw(p, 100_000, rng)
        cells = cells_of(sample)
        scores.append(minimum_error(fit(cells, [("a", "b"), ("c", "d")], tolerance=1e-4), cells, PI).z1)
        wrong.append(minimum_error(fit(cells, "independence"), cells, PI).z1)
    assert -1.5 < np.mean(scores) < 0.5
    assert min(wrong) > 1.96
    assert np.std(scores) < 1.7  # alpha 1e-6: 1 + 4.9/sqrt(80) = 1.55


def test_search_finds_the_interactions():
    _, sample = draw(cell_probabilities(2, 1.0), 150_000, np.random.default_rng(8))
    found = choose(cells_of(sample), PI)
    assert found.steps[0].error.z1 > 1.96
    pairs = {tuple(NAMES[j] for j in m) for m in found.chosen.margins if len(m) == 2}
    assert pairs >= {("a", "b"), ("c", "d")}
    assert abs(found.chosen.error.z1) == min(abs(s.error.z1) for s in found.steps)
    assert found.fit.converged


def test_report_with_search_and_structural_zeros():
    population, sample = draw(cell_probabilities(4, 0.8), 60_000, np.random.default_rng(9))
    population[2, 3], sample[2, 3] = 0, 0
    codes = np.repeat(np.indices(SHAPE).reshape(4, -1), sample.ravel(), axis=1)
    frame = {name: [f"{name}{v}" for v in column] for name, column in zip(NAMES, codes, strict=True)}
    zeros = [{"a": "a2", "b": "b3"}, {"a": "a2", "b": "unheard of"}]
    report = assess(frame, list(NAMES), sampling_fraction=PI, model="search", structural_zeros=zeros)
    unique = sample == 1
    truth = (population[unique] == 1).sum()
    assert report.tau1 == pytest.approx(truth, rel=0.35)
    assert "*" in str(report.model)
    with pytest.raises(DataError, match="cannot occur"):
        assess(frame, list(NAMES), sampling_fraction=PI, structural_zeros=[{"a": "a0", "b": "b0"}])
    with pytest.raises(UsageError, match="no key variable 'z'"):
        assess(frame, list(NAMES), sampling_fraction=PI, structural_zeros=[{"z": "a0"}])


def test_population_sized_samples_and_closed_independence():
    full = cells_of(np.ones(SHAPE, dtype=int))
    with pytest.raises(UsageError, match=r"\(0, 1\)"):
        minimum_error(fit(full, "independence"), full, 1.0)
    rng = np.random.default_rng(0)
    wide = KeyCodes(tuple("abcdef"), (100,) * 6, tuple(rng.integers(0, 100, 3000) for _ in range(6)))
    found = fit(table(wide), "independence")
    first = table(wide).codes[0]
    expected = 3000 * np.prod([np.mean(c == v) for c, v in zip(wide.codes, first, strict=True)])
    assert found.at(first[None]).tolist() == pytest.approx([expected], rel=1e-12)
    assert not found.complete
    huge = KeyCodes(wide.names, (10_000,) * 6, tuple(c * 100 for c in wide.codes))  # 1e24 cells
    np.testing.assert_allclose(fit(table(huge), "independence").at(table(huge).codes), found.mu, rtol=1e-12)
    tau1, _ = estimate(found, table(wide), 0.1)
    assert tau1.standard_error is None
