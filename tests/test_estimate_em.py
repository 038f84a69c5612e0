"""Maximum likelihood against direct optimisation, numerical information, and coverage by simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from postrand import estimate
from postrand.errors import EstimationError, UsageError
from postrand.estimate import em
from postrand.mechanism.matrix import TransitionMatrix, randomised_response


def random_matrix(rng, size):
    rows = rng.dirichlet(np.ones(size), size) * 0.6 + np.eye(size) * 0.4
    return TransitionMatrix.from_array(rows / rows.sum(axis=1, keepdims=True))


def direct_maximum(counts, matrix):
    """Maximise the log-likelihood over the simplex by sequential quadratic programming."""
    found = optimize.minimize(
        lambda p: -counts @ np.log(matrix.T @ p) / counts.sum(),
        np.full(len(counts), 1 / len(counts)),
        jac=lambda p: -matrix @ (counts / (matrix.T @ p)) / counts.sum(),
        bounds=[(0, 1)] * len(counts),
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return found.x


@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_maximum_is_that_of_direct_optimisation(seed, size):
    rng = np.random.default_rng(seed)
    matrix = random_matrix(rng, size)
    counts = rng.integers(1, 40, size).astype(float)
    found = em.from_tally_ml(estimate.from_counts(counts, [matrix]))
    best = direct_maximum(counts, matrix.array)
    reached = counts @ np.log(matrix.array.T @ found.value)
    assert reached >= counts @ np.log(matrix.array.T @ best) - 1e-4
    assert found.value.min() >= 0
    assert found.value.sum() == pytest.approx(1)
    np.testing.assert_allclose(found.value, best, atol=2e-2)


@pytest.mark.parametrize("patience", [3, 10**9])
def test_both_accelerations_meet_the_certificate(monkeypatch, patience):
    monkeypatch.setattr(em, "PATIENCE", patience)
    rng = np.random.default_rng(1)
    shape = (3, 4, 3)
    first, second = (randomised_response(s, 1.0) for s in shape[:2])
    counts = rng.multinomial(20_000, rng.dirichlet(np.full(36, 5.0))).reshape(shape).astype(float)
    found = em.from_tally_ml(estimate.from_counts(counts, [first, second, None]), tolerance=1e-6)
    whole = np.kron(np.kron(first.array, second.array), np.eye(3))
    gain = whole @ (counts.ravel() / (whole.T @ found.value.ravel()))
    assert gain.max() - 20_000 <= 1e-6 * 1.01
    assert (found.value < 1e-9).any()


def test_equals_the_unbiased_estimate_inside_the_simplex():
    matrix = randomised_response(3, 1.0)
    counts = np.array([380.0, 330.0, 290.0])
    found, plain = (f(estimate.from_counts(counts, [matrix])) for f in (em.from_tally_ml, estimate.from_tally))
    np.testing.assert_allclose(found.value, plain.value, atol=1e-12)
    np.testing.assert_allclose(found.covariance, plain.covariance * 999 / 1000, rtol=1e-9)
    np.testing.assert_allclose(found.covariance, found.sampling + found.perturbation)
    np.testing.assert_allclose(found.interval(), plain.interval(), atol=1e-4)


def test_covariance_is_the_inverse_of_the_numerical_information():
    rng = np.random.default_rng(2)
    matrix = random_matrix(rng, 3).array
    counts = np.round(1_000 * np.array([0.5, 0.3, 0.2]) @ matrix)
    found = em.from_tally_ml(estimate.from_counts(counts, [TransitionMatrix.from_array(matrix)]))

    def likelihood(free):
        return counts @ np.log(matrix.T @ [free[0], free[1], 1 - free.sum()])

    h, p = 1e-4, found.value[:2]
    steps = np.eye(2) * h
    hessian = np.array(
        [
            [
                (likelihood(p + a + b) - likelihood(p + a - b) - likelihood(p - a + b) + likelihood(p - a - b))
                for b in steps
            ]
            for a in steps
        ]
    )
    np.testing.assert_allclose(found.covariance[:2, :2], np.linalg.inv(-hessian / (4 * h * h)), rtol=1e-5)


def test_boundary_cells_carry_no_variance_and_keep_an_interval():
    found = em.from_tally_ml(estimate.from_counts(np.array([10.0, 45.0, 45.0]), [randomised_response(3, 1.0)]))
    assert found.value[0] < 1e-6
    assert found.standard_error[0] == 0
    low, high = found.interval()
    assert low[0] == 0
    assert high[0] > 0
    assert (low <= found.value).all()
    assert (found.value <= high).all()


def test_joint_tables_project_and_match_margins():
    rng = np.random.default_rng(3)
    counts = rng.integers(20, 60, (3, 4)).astype(float)
    found = em.from_tally_ml(estimate.from_counts(counts, [randomised_response(3, 2.0), randomised_response(4, 2.0)]))
    margin = found.margin(["v1"])
    np.testing.assert_allclose(margin.value, found.value.sum(axis=0))
    np.testing.assert_allclose(margin.covariance, found.covariance.reshape(3, 4, 3, 4).sum(axis=(0, 2)), atol=1e-15)


@pytest.mark.statistical
def test_intervals_cover_at_and_near_the_boundary():
    """1,000 replications: coverage of at least 95% less 4 Monte-Carlo errors (0.7% each); naive intervals fail."""
    rng = np.random.default_rng(4)
    prior, matrix = np.array([0.0, 0.005, 0.295, 0.7]), randomised_response(4, 1.0)
    inside, naive = np.zeros(4), np.zeros(4)
    for counts in rng.multinomial(2_000, prior @ matrix.array, size=1_000):
        found = em.from_tally_ml(estimate.from_counts(counts.astype(float), [matrix]))
        low, high = found.interval()
        inside += (low <= prior) & (prior <= high)
        share = counts / 2_000
        naive += np.abs(share - prior) <= 1.96 * np.sqrt(share * (1 - share) / 2_000)
    assert (inside >= 1_000 * (0.95 - 4 * 0.007)).all()
    assert (inside[2:] <= 1_000 * (0.95 + 4 * 0.007)).all()
    assert (naive < 500).all()


def test_stratified_and_weighted_sandwich_reduces_to_the_unbiased_law_inside():
    rng = np.random.default_rng(5)
    matrix = randomised_response(3, 2.0)
    counts = rng.integers(100, 300, (4, 3)).astype(float)
    base = estimate.from_counts(counts[0], [matrix])
    tally = type(base)(base.layout, counts, 1.7 * counts, counts.sum(axis=1).astype(int), 0, True)
    found, plain = em.from_tally_ml(tally), estimate.from_tally(tally)
    np.testing.assert_allclose(found.value, plain.value, atol=1e-12)
    # They differ by the small-sample factors n/(n - 1) of the strata only.
    np.testing.assert_allclose(found.covariance, plain.covariance, rtol=1e-2)


def test_not_converged_is_an_error():
    counts = np.array([1.0, 45.0, 45.0, 3.0])
    with pytest.raises(EstimationError, match="did not converge"):
        em.from_tally_ml(estimate.from_counts(counts, [randomised_response(4, 1.0)]), max_steps=3)
    with pytest.raises(UsageError, match="tolerance"):
        em.from_tally_ml(estimate.from_counts(counts, [randomised_response(4, 1.0)]), tolerance=0)
    singular = TransitionMatrix.from_array(np.full((4, 4), 0.25))
    with pytest.raises(EstimationError, match="identified"):
        em.from_tally_ml(estimate.from_counts(counts, [singular]))


def test_large_tables_fall_back_to_the_unbiased_standard_errors(monkeypatch):
    monkeypatch.setattr(em, "MAX_INFORMATION", 2)
    counts = np.array([500.0, 300.0, 200.0])
    tally = estimate.from_counts(counts, [randomised_response(3, 1.0)])
    np.testing.assert_allclose(em.from_tally_ml(tally).standard_error, estimate.from_tally(tally).standard_error)
