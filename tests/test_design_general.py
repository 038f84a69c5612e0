"""The optimum over all channels: staircases, their pricing, the map to categories, warnings."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postrand.designers import Circulant, DesignWarning, General, UniformOffDiagonal, design
from postrand.designers.differential.general import to_categories
from postrand.designers.differential.pricing import Gain, price_all, price_exactly
from postrand.designers.differential.staircase import best_staircase
from postrand.errors import DesignError
from postrand.objectives import CustomObjective, EstimatorVariance, ExpectedChanges, MutualInformation
from postrand.objectives.information import information_bound
from postrand.privacy import DifferentialPrivacy
from tests import oracles
from tests.test_design_uniform_offdiagonal import SCENARIO_I

KNOWN = [(0.5, 0.0311359840), (1.0, 0.1232712131), (1.5, 0.2723942782), (2.0, 0.4677116466)]


@pytest.mark.parametrize(("epsilon", "value"), KNOWN)
def test_known_optima_of_scenario_i(epsilon, value):
    found = best_staircase(SCENARIO_I, epsilon, 1e-12)
    assert found.value == pytest.approx(value, abs=6e-11)
    assert found.value <= found.bound * (1 + 1e-12) <= found.value * (1 + 1e-9)


@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(2, 7),
    shape=st.sampled_from([0.1, 1.0, 30.0]),
    epsilon=st.floats(0.05, 5),
)
@settings(max_examples=30)
def test_small_problems_equal_the_full_linear_programme(seed, size, shape, epsilon):
    p = np.random.default_rng(seed).dirichlet(np.full(size, shape))
    found = best_staircase(p, epsilon, 1e-12)
    assert found.value == pytest.approx(oracles.staircase(p, epsilon), rel=1e-6, abs=1e-9)
    channel = found.channel(epsilon)
    assert channel.sum(axis=1) == pytest.approx(1, abs=1e-12)
    assert (channel.max(axis=0) <= channel.min(axis=0) * math.exp(epsilon) * (1 + 1e-9)).all()
    assert oracles.information(p[:, None] * channel) == pytest.approx(found.value, rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("size", [4, 5, 10, 20, 40])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_uniform_priors_have_the_closed_optimum(size, epsilon):
    grown, a = math.exp(epsilon), np.arange(1, size) / size
    best = (a * grown * epsilon / (a * grown + 1 - a) - np.log(a * grown + 1 - a)).max()
    found = best_staircase(np.full(size, 1 / size), epsilon, 1e-9)
    assert found.value == pytest.approx(best, rel=1e-9)
    assert found.bound == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize(("size", "threshold"), [(4, 0.822), (5, 1.336), (10, 2.629), (20, 3.701)])
def test_randomised_response_becomes_optimal_at_the_known_epsilon(size, threshold):
    p = np.full(size, 1 / size)

    def lead(epsilon):
        q = 1 / (1 + (size - 1) * math.exp(-epsilon))
        response = oracles.best_of_family(p, np.full((1, size), q))
        return best_staircase(p, epsilon, 1e-10).value / response - 1

    assert lead(threshold - 0.01) > 1e-6
    assert abs(lead(threshold + 0.01)) < 1e-9


@pytest.mark.parametrize("shape", [0.2, 1.0, 50.0])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_large_problems_are_proven(shape, epsilon):
    p = np.random.default_rng(7).dirichlet(np.full(40, shape))
    found = best_staircase(p, epsilon, 1e-6)
    assert found.value <= found.bound <= information_bound(epsilon) * (1 + 1e-12)
    assert found.bound <= found.value * (1 + 1e-6)
    assert oracles.information(p[:, None] * found.channel(epsilon)) == pytest.approx(found.value, rel=1e-9)


def _pricing_case(seed, epsilon, divisible):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(15, generator.choice([0.5, 300.0])))
    p[:2] = [0, p[3]]  # a category without mass, and two of equal mass
    cost = generator.normal(size=15) * p.mean() * generator.choice([0.01, 1.0]) + generator.uniform(0.2, 1) * p
    return p, cost, Gain(epsilon, information_bound(epsilon), divisible, float(generator.uniform(0.1, 1.0)))


@given(seed=st.integers(0, 2**32 - 1), epsilon=st.floats(0.1, 6), divisible=st.sampled_from([0.0, 0.01, 0.2]))
def test_exact_pricing_equals_pricing_every_set(seed, epsilon, divisible):
    p, cost, gain = _pricing_case(seed, epsilon, divisible)
    best = price_all(gain, p, cost, 1)[1][0]
    sets, bound = price_exactly(gain, p, cost, best - 1e-9, 0.0, 0.0, 10**6)
    assert -1e-15 <= bound - 1e-9 <= 1e-9
    found = (gain(sets @ p) - sets @ cost).max(initial=-np.inf)
    nothing = float(gain(np.zeros(1))[0]) - cost[p == 0].clip(max=0).sum()
    assert max(found, nothing) == pytest.approx(best, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("divisible", [0.0, 0.1])
def test_a_pricing_that_stops_early_still_bounds(divisible):
    for seed in range(6):
        p, cost, gain = _pricing_case(seed, 2.0, divisible)
        exact = price_all(gain, p, cost, 1)[1][0]
        for budget in (1, 20, 1000):
            assert price_exactly(gain, p, cost, exact - 0.1, 0.0, 0.0, budget)[1] >= 0.1


def test_a_divisible_rest_is_the_limit_of_ever_finer_categories():
    plain, p = Gain(1.5, information_bound(1.5)), np.full(4000, 0.25 / 4000)
    whole = Gain(1.5, plain.unit, 0.25, 0.7)
    for mass in (0.0, 0.1, 0.3, 0.7):
        filled = np.concatenate([[0.0], np.cumsum(p)])
        best = (plain(mass + filled) - 0.7 * filled).max()
        assert float(whole(np.array([mass]))[0]) == pytest.approx(best, rel=1e-7)
        step = (whole(np.array([mass + 1e-6])) - whole(np.array([mass])))[0] / 1e-6
        assert float(whole.slope(np.array([mass]))[0]) == pytest.approx(step, rel=1e-4)


HARD = [
    ("near uniform", 64, 1.0, 4.0),
    ("near uniform", 30, 0.3, 3.0),
    ("skewed", 64, 1.0, 3.0),
    ("zipf", 300, 1.0, 3.0),
]


@pytest.mark.parametrize(("kind", "size", "spread", "epsilon"), HARD)
def test_priors_that_do_not_attain_the_closed_bound_are_proven(kind, size, spread, epsilon):
    generator = np.random.default_rng(4)
    p = {
        "near uniform": generator.dirichlet(np.full(size, 100 / spread**2)),
        "skewed": generator.dirichlet(np.full(size, 0.1)),
        "zipf": 1 / np.arange(1, size + 1) / (1 / np.arange(1, size + 1)).sum(),
    }[kind]
    found = best_staircase(p, epsilon, 5e-7)
    assert found.value < information_bound(epsilon) * (1 - 1e-5)
    assert found.value <= found.bound <= found.value * (1 + 1e-6)
    assert len(found.theta) <= size
    assert oracles.information(p[:, None] * found.channel(epsilon)) == pytest.approx(found.value, rel=1e-8)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_the_exact_law_keeps_what_the_channel_does(epsilon):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DesignWarning)
        found = design(SCENARIO_I, DifferentialPrivacy(epsilon), structure=General())
    assert found.status == "optimal"
    assert found.value <= found.bound
    assert found.matrix.epsilon <= epsilon
    assert found.value == pytest.approx(oracles.information(SCENARIO_I[:, None] * found.matrix.array), rel=1e-10)


def test_no_structure_beats_the_general_optimum_and_no_channel_the_closed_bound():
    generator = np.random.default_rng(0)
    for size in (3, 6, 11):
        p = generator.dirichlet(np.ones(size))
        for epsilon in (0.2, 1.0, 2.5):
            best = best_staircase(p, epsilon, 1e-12).bound
            assert design(p, DifferentialPrivacy(epsilon)).value <= best * (1 + 1e-12)
            assert best <= information_bound(epsilon) * (1 + 1e-12)


def test_merging_released_values_with_proportional_columns_keeps_all_information():
    p = np.array([0.5, 0.3, 0.2])
    channel = best_staircase(p, 1.0, 1e-12).channel(1.0)
    split = np.concatenate([channel[:, :1] * 0.4, channel[:, :1] * 0.6, channel[:, 1:]], axis=1)
    whole = oracles.information(p[:, None] * channel)
    assert oracles.information(p[:, None] * split) == pytest.approx(whole, rel=1e-12)


def test_singular_optimum_warns_and_names_an_invertible_alternative():
    with pytest.warns(DesignWarning, match="rank 2 of 4.*Best invertible alternative: structure"):
        found = design(np.full(4, 0.25), DifferentialPrivacy(0.5), structure=General())
    assert found.details["rank"] == 2
    assert found.details["distinct_columns"] == 2
    assert found.details["condition"] == math.inf
    assert "Best invertible alternative" in found.message


def test_released_symbols_take_the_categories_they_agree_with_most():
    p, channel = np.array([0.2, 0.5, 0.3]), np.array([[0.1, 0.9], [0.8, 0.2], [0.6, 0.4]])
    square = to_categories(channel, p)
    best = max(p[i] * channel[i, 0] + p[j] * channel[j, 1] for i in range(3) for j in range(3) if i != j)
    assert float(p @ square.diagonal()) == pytest.approx(best)
    assert np.array_equal(np.sort(square.sum(axis=0)), np.sort([0, *channel.sum(axis=0)]))
    with pytest.raises(DesignError, match="more symbols than categories"):
        to_categories(channel.T, np.array([0.5, 0.5]))


@pytest.mark.parametrize("epsilon", [0.4, 1.0, 2.0])
def test_fewest_changes_equals_the_linear_programme_over_all_matrices(epsilon):
    from scipy.optimize import linprog

    p = np.array([0.55, 0.25, 0.15, 0.05])
    limits = DifferentialPrivacy(epsilon).constraints(4)
    rows = np.kron(np.eye(4), np.ones(4))
    answer = linprog(-np.diag(p).ravel(), A_ub=limits.A, b_ub=limits.b, A_eq=rows, b_eq=np.ones(4))
    found = design(p, DifferentialPrivacy(epsilon), ExpectedChanges(), General())
    assert found.value == pytest.approx(1 + answer.fun, abs=1e-8)
    assert found.bound <= found.value
    assert found.matrix.epsilon <= epsilon


def test_too_many_categories_and_other_objectives_are_refused_with_a_way_out():
    with pytest.raises(DesignError, match="use structure 'uniform-off-diagonal', 'symmetric' or 'circulant'"):
        design(np.full(700, 1 / 700), DifferentialPrivacy(1.0), MutualInformation(), General())
    with pytest.raises(DesignError, match="structure 'uniform-off-diagonal', 'symmetric' or 'circulant'"):
        design(np.full(3, 1 / 3), DifferentialPrivacy(1.0), CustomObjective(lambda M, p: 0.0), General())


def test_least_variance_takes_the_best_structure_and_is_bounded_over_all_matrices():
    p = np.full(7, 1 / 7)  # the quadratic residues modulo 7 attain the bound where their size is the best one
    found = design(p, DifferentialPrivacy(0.3), EstimatorVariance(), General())
    assert found.status == "optimal"
    p = np.array([0.4, 0.3, 0.2, 0.1])
    found = design(p, DifferentialPrivacy(1.0), EstimatorVariance(), General())
    assert 0 < found.bound <= found.value
    for structure in (Circulant(), UniformOffDiagonal()):
        assert found.value <= design(p, DifferentialPrivacy(1.0), EstimatorVariance(), structure).value * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [28.0, 31.0, 36.0])
@pytest.mark.parametrize("size", [2, 4, 30])
def test_nearly_no_privacy_keeps_nearly_the_truth(size, epsilon):
    p = np.random.default_rng(size).dirichlet(np.ones(size))
    found = design(p, DifferentialPrivacy(epsilon), structure=General())
    truth = float(-(p * np.log(p)).sum())
    assert found.value <= found.bound <= truth * (1 + 1e-12)
    assert found.value >= truth * (1 - 1e-9)
    assert found.matrix.epsilon <= epsilon
