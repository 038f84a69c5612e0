"""Bistochastic designs of objectives that are not convex: feasible, never beyond the bound, no rival better."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import xlogy

from postrand.designers import design
from postrand.designers.bistochastic.bounds import information_upper, squares_upper, variance_lower
from postrand.designers.bistochastic.columns import _Price, information_upper_by_columns
from postrand.designers.bistochastic.matrix import BistochasticMatrix, _slope
from postrand.designers.bistochastic.search import inside
from postrand.errors import DesignError
from postrand.mechanism.matrix import randomised_response
from postrand.objectives import CustomObjective, EstimatorVariance, ExpectedChanges, MutualInformation
from postrand.privacy import Bistochastic, DifferentialPrivacy

INFORMATION, VARIANCE = MutualInformation(), EstimatorVariance()
SKEWED = np.array([0.55, 0.25, 0.1, 0.06, 0.04])


def rival(seed, size):
    """A bistochastic matrix of any shape, and its β."""
    rng = np.random.default_rng(seed)
    array = np.zeros((size, size))
    for share in rng.dirichlet(np.full(8, 0.3)):
        array[np.arange(size), rng.permutation(size)] += share
    positive = array[array > 0]
    return array, -float(positive @ np.log(positive)) / size / math.log(size)


@given(st.integers(0, 10**9), st.integers(2, 6))
def test_bounds_hold_for_every_law(seed, size):
    array, beta = rival(seed, size)
    beta = max(beta - 1e-12, 0.0)
    p = np.random.default_rng(seed + 1).dirichlet(np.ones(size))
    assert INFORMATION.value(array, p) <= information_upper(p, beta) + 1e-12
    assert VARIANCE.value(array, p) >= variance_lower(p, beta) * (1 - 1e-9)
    assert (array**2).sum() / size <= squares_upper(size, beta) + 1e-12


def grid(size, steps):
    """All distributions over so many categories in steps of 1/steps."""
    if size == 1:
        return np.full((1, 1), steps)
    return np.vstack([np.insert(grid(size - 1, steps - k), 0, k, axis=1) for k in range(steps + 1)])


@settings(max_examples=3)
@given(st.integers(0, 10**9), st.integers(3, 4))
def test_the_bound_by_columns_holds_for_every_law_and_the_best_found(seed, size):
    rng = np.random.default_rng(seed)
    array, beta = rival(seed, size)
    beta = min(max(beta - 1e-12, 0.0), 0.95)
    p = rng.dirichlet(np.full(size, rng.choice([0.3, 1.0, 5.0])))
    bound = information_upper_by_columns(p, beta)
    assert INFORMATION.value(array, p) <= bound + 1e-12
    assert design(p, Bistochastic(beta), INFORMATION, BistochasticMatrix()).value <= bound + 1e-12


@pytest.mark.parametrize("beta", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("p", [(0.6, 0.3, 0.1), (0.86, 0.135, 0.005), (0.4, 0.4, 0.2)])
def test_the_bound_by_columns_is_the_optimum_of_its_programme(p, beta):
    """The programme over a fine grid of columns is a restriction of it: its optimum is no higher, and near."""
    p, columns = np.array(p), grid(3, 60) / 60
    q, logs = columns @ p, xlogy(columns, columns)
    left = xlogy(q, q) - xlogy(columns * p, columns * p).sum(axis=1)
    needed = beta * 3 * math.log(3)
    found = linprog(left, A_ub=logs.sum(axis=1)[None], b_ub=[-needed], A_eq=columns.T, b_eq=np.ones(3))
    restricted = -float(xlogy(p, p).sum()) - found.fun
    assert restricted - 1e-9 <= information_upper_by_columns(p, beta) <= restricted + 0.01


FINE = grid(3, 240) / 240


@settings(max_examples=12)
@example(7543)  # the least price lies between the points of a coarse grid
@example(49525)  # the relaxation's solutions are a segment between two corners
@given(st.integers(0, 10**9))
def test_prices_are_bounded_from_below_on_the_whole_simplex(seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3))
    price = _Price(p, rng.random() - p, rng.normal(size=3))
    values = price.value(FINE)
    bound, points = price.least(1e-4)
    assert bound <= values.min() + 1e-12
    assert bound >= min(values.min(), 0.0) - 0.003
    np.testing.assert_allclose(points.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize(("p", "beta"), [((0.5, 0.5, 0.0), 0.4), ((1.0, 0.0, 0.0), 0.4), ((0.5, 0.3, 0.2), 0.999)])
def test_the_bound_by_columns_at_the_edges(p, beta):
    found = design(p, Bistochastic(beta), INFORMATION, BistochasticMatrix())
    assert -1e-9 <= found.bound - found.value < 0.2
    assert information_upper_by_columns(np.array((0.5, 0.3, 0.2)), 0.0) == pytest.approx(1.0296530140645737)


@pytest.mark.parametrize("seed", [41, 42])
def test_very_skewed_priors_give_laws_that_hold_their_beta(seed):
    """Scaling rows and columns is slow on matrices that nearly fall apart; the law must be exact all the same."""
    rng = np.random.default_rng(seed)
    p = np.maximum(rng.dirichlet(np.full(7, 0.3)), 1e-3)
    best = design(p / p.sum(), Bistochastic(0.3), INFORMATION, BistochasticMatrix())
    assert best.matrix.is_bistochastic
    assert best.matrix.beta >= 0.3
    nearly = np.eye(5) + 1e-7 * rng.random((5, 5))
    nearly[1:3, 1:3] += rng.random((2, 2)) * [[1e6, 1], [1, 1]]
    made = inside(nearly, 0.05)
    np.testing.assert_allclose([made.sum(axis=0), made.sum(axis=1)], 1, atol=1e-14)


@given(st.integers(0, 10**9), st.integers(2, 7))
def test_rows_of_one_entropy_have_bounded_squares(seed, size):
    """The hull in squares_upper, against mixtures of distributions of the shape (a, b, ..., b) where it is tight."""
    rng = np.random.default_rng(seed)
    a = 1 / size + (1 - 1 / size) * rng.random(2)
    b, w = (1 - a) / (size - 1), rng.random()
    squares, entropy = a**2 + (size - 1) * b**2, -a * np.log(a) - (size - 1) * b * np.log(b)
    mixed = w * entropy[0] + (1 - w) * entropy[1]
    assert w * squares[0] + (1 - w) * squares[1] <= squares_upper(size, mixed / math.log(size)) + 1e-10


@pytest.mark.parametrize("objective", [INFORMATION, VARIANCE, EstimatorVariance(((1.0, 2, 0, 0, -1),))])
def test_slopes_equal_finite_differences(objective):
    M, step = inside(np.random.default_rng(0).random((5, 5)) + 2 * np.eye(5), 0.1), 1e-6
    find = _slope(objective, SKEWED)
    assert find is not None
    slope = find(M)
    sign = -1 if objective.maximise else 1
    for u, v in ((0, 0), (1, 3), (4, 2)):
        moved = np.zeros((5, 5))
        moved[u, v] = step
        difference = objective.value(M + moved, SKEWED) - objective.value(M - moved, SKEWED)
        if objective.maximise:  # the function is the mutual information of rows that sum to 1: compare along the row
            moved[u, (v + 1) % 5] = -step
            difference = objective.value(M + moved, SKEWED) - objective.value(M - moved, SKEWED)
            expected = slope[u, v] - slope[u, (v + 1) % 5]
        else:
            expected = slope[u, v] + _drift(objective, M, v, u)
        assert sign * difference / (2 * step) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def _drift(objective, M, v, u):
    """The slope leaves out ``-|Qp|²``, constant where columns of the inverse transform λ to p; off it, by hand."""
    A, queries = np.linalg.inv(M.T), objective.matrix(5)
    mean = queries @ A @ (SKEWED @ M)
    shift = queries @ A[:, v] * SKEWED[u] - queries @ A[:, v] * (A @ (SKEWED @ M))[u]
    return -2 * float(mean @ shift)


@pytest.mark.parametrize("objective", [INFORMATION, VARIANCE, ExpectedChanges()])
@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
def test_designs_are_exact_and_beat_the_paper_s_parameterisations(objective, beta):
    best = design(SKEWED, Bistochastic(beta), objective, BistochasticMatrix())
    assert Bistochastic(beta).check([best.matrix]).holds
    sign = 1 if objective.maximise else -1
    assert sign * (best.bound - best.value) >= 0
    epsilons = np.linspace(0.05, 8, 200)
    laws = [randomised_response(5, e) for e in epsilons]
    rivals = [objective.value(M.array, SKEWED) for M in laws if M.beta >= beta]
    assert sign * best.value >= max(sign * value for value in rivals) - 1e-9


@pytest.mark.parametrize("objective", [INFORMATION, VARIANCE])
def test_for_a_uniform_prior_the_optimum_is_proven(objective):
    best = design(np.full(4, 0.25), Bistochastic(0.4), objective, BistochasticMatrix())
    assert best.status == "optimal"
    if objective is INFORMATION:
        assert best.value == pytest.approx(0.6 * math.log(4), rel=1e-9)


@settings(max_examples=5)
@given(st.integers(0, 10**9))
def test_three_categories_against_a_search_of_the_whole_polytope(seed):
    """400 random laws of 3 categories, moved onto the boundary: none is better than the one found."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3))
    best = design(p, Bistochastic(0.5), INFORMATION, BistochasticMatrix())
    values = [INFORMATION.value(inside(rng.random((3, 3)) ** 6 + 1e-9, 0.5), p) for _ in range(400)]
    assert max(values) <= best.value + 1e-6


@pytest.mark.parametrize("objective", [INFORMATION, VARIANCE])
@pytest.mark.parametrize("beta", [0.0, 0.1, 0.62, 0.9])
def test_two_categories_are_solved_to_optimality(objective, beta):
    """All bistochastic 2 x 2 matrices have one parameter: the best of a grid of 1,001 is never better."""
    p = np.array([0.8, 0.2])
    best = design(p, Bistochastic(beta), objective, BistochasticMatrix())
    assert best.status == "optimal"
    values = []
    for q in np.linspace(0.5, 1, 1_001)[1:]:
        entropy = -(q * math.log(q) + (1 - q) * math.log(1 - q) if q < 1 else 0.0)
        if entropy >= beta * math.log(2):
            values.append(objective.value(np.array([[q, 1 - q], [1 - q, q]]), p))
    if objective.maximise:
        assert max(values) <= best.bound + 1e-12
    else:
        assert min(values) >= best.bound - 1e-12


def test_other_objectives_are_searched_without_a_bound():
    objective = CustomObjective(lambda M, p: float(M[0, 0] + M[1, 1] - M[0, 1]))
    best = design([0.5, 0.3, 0.2], Bistochastic(0.5), objective, BistochasticMatrix())
    assert best.status == "local"
    assert "several starts" in best.message
    assert best.value > 1.5


def test_a_larger_domain_takes_the_best_start():
    p = np.random.default_rng(1).dirichlet(np.ones(40))
    best = design(p, Bistochastic(0.5), INFORMATION, BistochasticMatrix())
    assert best.matrix.beta >= 0.5
    assert best.value > 0.5 * best.bound


def test_another_privacy_model_is_refused():
    with pytest.raises(DesignError, match="no algorithm for 'differential'"):
        design([0.5, 0.5], DifferentialPrivacy(1.0), ExpectedChanges(), BistochasticMatrix())
