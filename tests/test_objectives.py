"""Objectives against the joint table, the covariance matrix, simulation and high precision."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand.errors import DesignError
from postrand.objectives import CustomObjective, EstimatorVariance, ExpectedChanges, MutualInformation
from postrand.objectives.information import entropy, entropy_excess, information_bound
from tests import oracles


def channel(seed, size):
    generator = np.random.default_rng(seed)
    return generator.dirichlet(np.ones(size), size=size), generator.dirichlet(np.ones(size))


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(2, 9))
def test_information_is_that_of_the_joint_table(seed, size):
    matrix, p = channel(seed, size)
    assert MutualInformation().value(matrix, p) == pytest.approx(oracles.information(p[:, None] * matrix), rel=1e-9)


def test_information_is_unchanged_by_relabelling_and_by_categories_that_do_not_occur():
    matrix, p = channel(4, 5)
    order = np.array([3, 0, 4, 1, 2])
    value = MutualInformation().value(matrix, p)
    assert MutualInformation().value(matrix[order], p[order]) == pytest.approx(value, rel=1e-13)
    assert MutualInformation().value(matrix[:, order], p) == pytest.approx(value, rel=1e-13)
    longer = np.zeros((6, 6))
    longer[:5, :5], longer[5, 5] = matrix, 1
    assert MutualInformation().value(longer, np.append(p, 0)) == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("t", [-1.0, -0.999, -0.3, -0.05, -1e-3, -1e-9, 0.0, 1e-12, 1e-5, 0.0499, 0.0501, 2.0, 1e6])
def test_entropy_excess_keeps_its_digits(t):
    with mpmath.workdps(60):
        exact = (1 + mpmath.mpf(t)) * mpmath.log(1 + mpmath.mpf(t)) - t if t > -1 else mpmath.mpf(1)
        assert float(entropy_excess(np.array([t]))[0]) == pytest.approx(float(exact), rel=2e-13)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.5, 1.0, 3.0, 20.0])
def test_closed_bound_is_the_best_ratio_of_staircase_columns(epsilon):
    with mpmath.workdps(40):
        z = epsilon * mpmath.exp(epsilon) / (mpmath.exp(epsilon) - 1)
        assert information_bound(epsilon) == pytest.approx(float(z - 1 - mpmath.log(z)), rel=1e-9)
    mass = np.linspace(1e-6, 1, 20_001)
    m = 1 + math.expm1(epsilon) * mass
    ratio = (epsilon * math.exp(epsilon) * mass - m * np.log(m)) / m
    assert ratio.max() <= information_bound(epsilon) * (1 + 1e-9) + 1e-15


def test_capacity_of_randomised_response():
    q = 1 / (1 + 4 * math.exp(-1))
    matrix = np.full((5, 5), (1 - q) / 4)
    np.fill_diagonal(matrix, q)
    assert MutualInformation().value(matrix, np.full(5, 0.2)) == pytest.approx(0.109215, abs=5e-7)


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(2, 6))
def test_variance_is_the_trace_and_the_quadratic_form_of_the_covariance(seed, size):
    matrix, p = channel(seed, size)
    matrix = 0.5 * np.eye(size) + 0.5 * matrix
    covariance = oracles.covariance(matrix, p)
    assert EstimatorVariance().value(matrix, p) == pytest.approx(np.trace(covariance), rel=1e-8)
    query = tuple(range(size))
    weighted = EstimatorVariance(queries=(query, (1,) * size), weights=(3, 5))
    assert weighted.value(matrix, p) == pytest.approx(3 * np.array(query) @ covariance @ query, rel=1e-8, abs=1e-9)


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(2, 6))
def test_gradient_of_the_variance_is_its_finite_difference(seed, size):
    matrix, p = channel(seed, size)
    matrix = 0.6 * np.eye(size) + 0.4 * matrix
    cost = EstimatorVariance(queries=((1,) + (0,) * (size - 1), tuple(range(size))), weights=(1, 2))
    slope, step = cost.gradient(matrix, p), 1e-6
    for i in range(size):
        for j in range(size):
            moved = [matrix.copy(), matrix.copy()]
            moved[0][i, j] += step
            moved[1][i, j] -= step
            # Off the row sums the squared means move too; the gradient holds them at (C p)².
            second = [((p @ M) @ np.linalg.solve(M, cost.matrix(size).T) ** 2).sum() for M in moved]
            assert slope[i, j] == pytest.approx((second[0] - second[1]) / (2 * step), rel=1e-5, abs=1e-6)


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(2, 6), epsilon=st.floats(0.1, 5))
def test_no_private_matrix_has_less_variance_than_the_bound(seed, size, epsilon):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(size, generator.choice([0.3, 3.0])))
    matrix, parts = np.zeros((size, size)), generator.dirichlet(np.full(3, 0.3))
    for part in parts:  # mixtures of circulant designs with their columns relabelled: every ratio stays within e^ε
        row = np.where(np.arange(size) < generator.integers(1, size), 1.0, math.exp(-epsilon))
        circulant = np.array([np.roll(row, i) for i in range(size)])
        matrix += part * circulant[:, generator.permutation(size)] / row.sum()
    if np.linalg.cond(matrix) > 1e8:
        return
    for cost in (EstimatorVariance(), EstimatorVariance(queries=(tuple(range(size)), (1,) + (0,) * (size - 1)))):
        assert cost.value(matrix, p) >= cost.least(p, epsilon)


@pytest.mark.statistical
def test_variance_matches_simulated_estimates():
    """n = 400 records, 4,000 files; alpha = 1e-6 two-sided for a mean of squares; a trace off by 15 % is rejected."""
    generator = np.random.default_rng(11)
    p, n, files = np.array([0.5, 0.3, 0.2]), 400, 4_000
    matrix = 0.6 * np.eye(3) + 0.4 / 3
    released = generator.multinomial(n, p @ matrix, size=files) / n
    squares = ((released @ np.linalg.inv(matrix) - p) ** 2).sum(axis=1) * n
    error = squares.std() / math.sqrt(files)
    value = EstimatorVariance().value(matrix, p)
    assert abs(squares.mean() - value) < 4.9 * error
    assert abs(squares.mean() - 1.15 * value) > 4.9 * error


def test_singular_matrices_cost_infinity():
    assert EstimatorVariance().value(np.full((3, 3), 1 / 3), np.full(3, 1 / 3)) == math.inf


def test_options_of_objectives_are_checked():
    for wrong in (
        {"queries": ((1, 2), (1,))},
        {"queries": ((1, math.nan),)},
        {"queries": ((1, 2),), "weights": (1, 2)},
        {"queries": ((1, 2),), "weights": (-1,)},
    ):
        with pytest.raises(DesignError):
            EstimatorVariance(**wrong)
    with pytest.raises(DesignError, match="do not fit the prior"):
        EstimatorVariance(queries=((1, 2),)).value(np.eye(3), np.full(3, 1 / 3))
    with pytest.raises(DesignError, match="not a function"):
        CustomObjective(3)
    bad: tuple = (lambda M, p: "much", lambda M, p: math.nan)
    for function in bad:
        with pytest.raises(DesignError, match="did not return a number"):
            CustomObjective(function).value(np.eye(2), np.full(2, 0.5))


def test_expected_changes_and_entropy():
    assert ExpectedChanges().value(np.eye(3), np.full(3, 1 / 3)) == 0
    assert entropy(np.array([0.5, 0.5, 0])) == pytest.approx(math.log(2))
