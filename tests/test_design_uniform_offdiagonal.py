"""The uniform off-diagonal family (ABC (8)): feasible set, global optimum, exact law."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand.designers import DesignWarning, FeasibleSet, Prior, UniformOffDiagonal, design
from postrand.designers.differential.sign_patterns import best_pattern
from postrand.errors import DesignError, PrivacyError
from postrand.mechanism.matrix import UNIT, TransitionMatrix
from postrand.objectives import CustomObjective, EstimatorVariance, ExpectedChanges
from postrand.objectives.information import information_bound
from postrand.privacy import DifferentialPrivacy
from tests import oracles

SCENARIO_I = np.array([0.3, 0.1, 0.2, 0.08, 0.02, 0.04, 0.06, 0.1, 0.01, 0.09])
SCENARIO_II = np.array([0.0336, 0.1059, 0.1697, 0.0962, 0.0180, 0.0062, 0.1097, 0.0005, 0.1233, 0.3369])
SCENARIO_IV = np.array([0.05, *[0.95 / 29] * 29])

KNOWN = [
    (SCENARIO_I, 0.5, 0.0132828544),
    (SCENARIO_I, 1.0, 0.0661886917),
    (SCENARIO_I, 1.5, 0.1780890955),
    (SCENARIO_I, 2.0, 0.3591376054),
    (SCENARIO_II, 0.5, 0.0128992519),
    (SCENARIO_II, 1.0, 0.0640336905),
    (SCENARIO_II, 1.5, 0.1715649498),
    (SCENARIO_II, 2.0, 0.3444133498),
    (SCENARIO_IV, 0.5, 0.0055015805),
]


@pytest.mark.parametrize(("p", "epsilon", "value"), KNOWN)
def test_known_optima_of_the_papers_scenarios(p, epsilon, value):
    found = design(p, DifferentialPrivacy(epsilon))
    assert found.value == pytest.approx(value, abs=6e-11)
    assert found.status == "optimal"
    assert np.unique(found.matrix.array.diagonal().round(9)).size == 1  # all v_ε


def test_one_v_max_beats_all_v_epsilon_for_a_skewed_prior():
    p, epsilon = np.array([0.606, 0.216, 0.08, 0.058, 0.04]), 1.0
    everyone = oracles.best_of_family(p, np.full((1, 5), math.e / (math.e + 4)))
    found = design(p, DifferentialPrivacy(epsilon))
    assert found.value > 1.05 * everyone
    assert found.matrix.array[0, 0] == pytest.approx(math.e / (1 / math.e + 4), rel=1e-9)  # v_max


@pytest.mark.parametrize(("size", "epsilon"), [(2, 0.7), (3, 0.3), (3, 2.0), (4, 0.5), (4, 3.0)])
def test_vertices_equal_the_solutions_of_every_square_subsystem(size, epsilon):
    family = FeasibleSet(size, epsilon)
    listed = np.unique(family.vertices().round(9), axis=0)
    assert listed == pytest.approx(oracles.vertices(*family.constraints()), abs=2e-9)


@pytest.mark.parametrize(("size", "epsilon"), [(5, 0.9), (7, 1.2), (10, 2.0)])
def test_vertices_are_those_of_proposition_2_where_it_applies(size, epsilon):
    assert epsilon <= math.log(size + math.sqrt(size * (size - 4)) - 2) - math.log(2)
    listed, patterns = FeasibleSet(size, epsilon).vertices(), oracles.sign_patterns(size, epsilon)
    # All sign patterns but the 2S with exactly one of a kind, and S with a v_min, S with a v_max.
    assert len(listed) == 2**size
    assert all(np.abs(patterns - q).max(axis=1).min() < 1e-9 for q in listed)


@given(
    size=st.integers(2, 6),
    epsilon=st.floats(0.01, 6),
    values=st.lists(st.floats(0, 1), min_size=6, max_size=6),
)
def test_membership_equals_the_constraints_and_the_exact_ratio(size, epsilon, values):
    q = np.array(values[:size])
    family = FeasibleSet(size, epsilon)
    C, b = family.constraints()
    margin = (C @ q - b).max()
    if abs(margin) < 1e-9:  # rounding decides on the boundary itself
        return
    assert family.contains(q) == (margin < 0)
    matrix = TransitionMatrix.from_array(oracles.uniform_offdiagonal(q))
    if abs(matrix.epsilon - epsilon) > 1e-9:
        assert family.contains(q) == (matrix.epsilon < epsilon)


def priors(size):
    """Priors of many shapes: flat, skewed, with zeros, nearly a point."""
    shapes = st.sampled_from([0.05, 0.3, 1.0, 20.0])
    return st.builds(
        lambda seed, shape, zeros: _prior(size, seed, shape, zeros),
        st.integers(0, 2**32 - 1),
        shapes,
        st.integers(0, size - 2),
    )


def _prior(size, seed, shape, zeros):
    p = np.random.default_rng(seed).dirichlet(np.full(size, shape))
    p[:zeros] = 0
    return p / p.sum() if p.sum() > 0 else np.full(size, 1 / size)


@given(data=st.data(), size=st.integers(3, 6), epsilon=st.floats(0.02, 6))
def test_optimum_equals_enumeration_of_all_vertices(data, size, epsilon):
    p = data.draw(priors(size))
    best = oracles.best_of_family(p, FeasibleSet(size, epsilon).vertices())
    found = best_pattern(p, epsilon)
    # vertices() carries 12 decimals, which limits this oracle.
    assert found.value == pytest.approx(best, rel=1e-9, abs=2e-12)
    assert found.value <= found.bound <= found.value * (1 + 1e-9) + 1e-13


@pytest.mark.parametrize("size", [8, 10, 12])
@pytest.mark.parametrize("shape", [0.1, 1.0])
def test_optimum_equals_enumeration_up_to_twelve_categories(size, shape):
    p = _prior(size, size, shape, 1)
    for epsilon in (0.3, 1.2):  # within Proposition 2
        best = oracles.best_of_family(p, oracles.sign_patterns(size, epsilon))
        found = best_pattern(p, epsilon)
        assert found.value == pytest.approx(best, rel=1e-11, abs=1e-12)
        assert found.bound >= best * (1 - 1e-13)


CASES = [(size, shape, eps) for size in (3, 4, 5, 7, 9) for shape in (0.1, 1.0, 50.0) for eps in (0.1, 1.0, 3.0)]


@pytest.mark.parametrize(("size", "shape", "epsilon"), [*CASES, (12, 0.1, 1.0), (12, 1.0, 3.0)])
def test_optimum_equals_complete_enumeration_in_high_precision(size, shape, epsilon):
    """On both sides of Proposition 2; an absolute 3e-16 for priors so concentrated that the value is below 1e-8."""
    p = _prior(size, size, shape, 0)
    listed = FeasibleSet(size, epsilon).vertices()
    best = oracles.best_of_family_exactly(p, epsilon, listed)
    found = best_pattern(p, epsilon)
    assert found.value == pytest.approx(best, rel=1e-12, abs=3e-16)
    assert best <= found.bound <= best * (1 + 3e-12) + 2e-14


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 5.0])
def test_two_categories_are_randomised_response(epsilon):
    found = design([0.9, 0.1], DifferentialPrivacy(epsilon))
    q = 1 / (1 + math.exp(-epsilon))
    joint = np.diag([0.9, 0.1]) @ [[q, 1 - q], [1 - q, q]]
    assert found.value == pytest.approx(oracles.information(joint), rel=1e-11)
    assert found.status == "optimal"


def test_abc_interval_for_sex_in_the_new_york_file():
    found = design([0.48, 0.52], DifferentialPrivacy(0.05))
    assert found.matrix.array[0, 0] == pytest.approx(0.5125, abs=5e-5)


@pytest.mark.parametrize("size", [2, 3, 10, 200])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_value_is_that_of_the_exact_law_and_the_bound_is_above_it(size, epsilon):
    p = _prior(size, 5, 1.0, 0)
    found = design(p, DifferentialPrivacy(epsilon))
    assert found.value == pytest.approx(oracles.information(p[:, None] * found.matrix.array), rel=1e-9, abs=1e-13)
    assert found.value <= found.bound <= information_bound(epsilon) * (1 + 1e-9)
    assert found.relative_gap < 1e-9
    assert DifferentialPrivacy(epsilon).check([found.matrix]).holds


def test_the_law_moved_outside_by_one_unit_is_refused():
    model = DifferentialPrivacy(1.0)
    weights = design(SCENARIO_I, model).matrix.weights
    moved = 0
    for i in range(10):
        for j in range(10):
            if i == j:
                continue
            pushed = weights.copy()
            pushed[i, i] += 9
            pushed[i, np.arange(10) != i] -= 1
            assert pushed[i].sum() == UNIT
            moved += not model.check([TransitionMatrix(pushed)]).holds
    assert moved == 90


def test_permuting_the_categories_permutes_the_matrix():
    order = np.random.default_rng(3).permutation(10)
    first, second = (design(p, DifferentialPrivacy(1.5)) for p in (SCENARIO_II, SCENARIO_II[order]))
    assert second.value == pytest.approx(first.value, rel=1e-12)
    assert np.array_equal(second.matrix.weights, first.matrix.weights[np.ix_(order, order)])


def test_all_mass_on_one_category_keeps_nothing_and_says_so():
    found = design([0.0, 1.0, 0.0], DifferentialPrivacy(1.0))
    assert found.value == 0
    assert "all mass on one category" in found.message


@pytest.mark.parametrize(
    ("prior", "text"),
    [
        ([0.5, 0.6], "does not sum to 1"),
        ([1.5, -0.5], "is negative"),
        ([1.0], "at least two"),
        ([0.5, math.nan], "not finite"),
        ([[0.5, 0.5]], "at least two"),
    ],
)
def test_bad_priors_are_explained(prior, text):
    with pytest.raises(DesignError, match=text):
        design(prior, DifferentialPrivacy(1.0))


def test_prior_reports_every_problem_at_once():
    with pytest.raises(DesignError) as caught:
        Prior(np.array([0.9, -0.2]), provenance="publik")
    assert len(caught.value.problems) == 3
    assert "did you mean 'public'" in str(caught.value)


@pytest.mark.parametrize("epsilon", [37.0, 700.0])
def test_epsilon_beyond_the_exact_law_is_refused(epsilon):
    with pytest.raises(
        PrivacyError,
        match=r"epsilon is too large for an exact matrix.*choose a smaller epsilon: this one is no protection",
    ):
        design([0.5, 0.3, 0.2], DifferentialPrivacy(epsilon))


def test_epsilon_below_what_the_exact_law_expresses_is_refused():
    with pytest.raises(PrivacyError, match="too small for a matrix"):
        design([0.5, 0.3, 0.2], DifferentialPrivacy(1e-12))
    assert design([0.5, 0.3, 0.2], DifferentialPrivacy(1e-8)).matrix.epsilon <= 1e-8


def test_feasible_set_refuses_what_has_none():
    with pytest.raises(DesignError, match="no feasible set"):
        FeasibleSet(1, 1.0)
    with pytest.raises(DesignError, match="too many vertices"):
        FeasibleSet(20, 1.0).vertices()
    assert not FeasibleSet(3, 1.0).contains(np.array([0.5, 0.5]))


def test_search_that_runs_out_is_not_called_optimal():
    p = np.random.default_rng(1).dirichlet(np.ones(8))
    short, whole = best_pattern(p, 0.01, max_nodes=1), best_pattern(p, 0.01)
    assert short.bound > short.value * (1 + 1e-9)
    assert short.bound >= whole.value


def test_fewest_changes_equals_the_linear_programme_over_the_feasible_set():
    p = np.array([0.5, 0.25, 0.15, 0.1])
    for epsilon in (0.5, 1.0, 3.0):
        found = design(p, DifferentialPrivacy(epsilon), ExpectedChanges())
        best = min(float(p @ (1 - q)) for q in FeasibleSet(4, epsilon).vertices())
        assert found.value == pytest.approx(best, rel=1e-9)
        assert found.status == "optimal"
    assert design([0.9, 0.1], DifferentialPrivacy(1.0), ExpectedChanges()).value == pytest.approx(0.1)


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_searched_objectives_are_no_worse_than_a_grid_of_the_feasible_set(size, epsilon):
    p = _prior(size, 9, 1.0, 0)
    family, generator = FeasibleSet(size, epsilon), np.random.default_rng(0)
    grid = generator.dirichlet(np.full(len(family.vertices()), 0.1), size=300) @ family.vertices()
    for objective in (EstimatorVariance(), CustomObjective(lambda M, p: float(p @ np.diag(M) ** 2))):
        sign = 1 if objective.maximise else -1
        found = design(p, DifferentialPrivacy(epsilon), objective, UniformOffDiagonal())
        best = max(sign * objective.value(oracles.uniform_offdiagonal(q), p) for q in grid)
        assert sign * found.value >= best - 1e-8 * abs(best)
        assert DifferentialPrivacy(epsilon).check([found.matrix]).holds
        assert found.status == ("local" if objective.maximise else "bounded")


def test_a_smooth_objective_is_followed_to_its_optimum_inside():
    target = np.array([0.4, 0.3, 0.35, 0.3])
    aim = CustomObjective(lambda M, p: float(((np.diag(M) - target) ** 2).sum()), maximise=False)
    found = design(np.full(4, 0.25), DifferentialPrivacy(2.0), aim, UniformOffDiagonal())
    assert found.matrix.array.diagonal() == pytest.approx(target, abs=1e-5)


def test_what_cannot_be_searched_is_refused():
    with pytest.raises(DesignError, match="too many categories to search"):
        design(np.full(50, 0.02), DifferentialPrivacy(1.0), EstimatorVariance(), UniformOffDiagonal())
    with pytest.raises(DesignError, match="not finite for any matrix"):
        design(SCENARIO_I, DifferentialPrivacy(1.0), CustomObjective(lambda M, p: math.inf), UniformOffDiagonal())
    with pytest.raises(DesignError, match="not a Structure"):
        design(SCENARIO_I, DifferentialPrivacy(1.0), structure=UniformOffDiagonal)
    assert issubclass(DesignWarning, UserWarning)


@pytest.mark.parametrize("epsilon", [30.0, 33.0, 35.0])
@pytest.mark.parametrize("size", [3, 4, 5])
def test_entries_that_are_lost_in_the_digits_of_1_are_rounded_inside_all_the_same(size, epsilon):
    p = np.full(size, 1 / size)
    found = design(p, DifferentialPrivacy(epsilon), structure=UniformOffDiagonal())
    assert found.matrix.epsilon <= epsilon
    assert found.value == pytest.approx(np.log(size), rel=1e-9)
