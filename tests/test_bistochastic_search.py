"""Bistochastic designs of objectives that are not convex: feasible, never beyond the bound, no rival better."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postrand.bistochastic.bounds import information_upper, squares_upper, variance_lower
from postrand.bistochastic.search import inside
from postrand.design import design
from postrand.design.bistochastic import BistochasticMatrix, _slope
from postrand.errors import DesignError
from postrand.matrix import randomised_response
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


@settings(max_examples=10)
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
