"""Metric privacy: exact checks on edges, the linear programme against brute force, closed forms, bad distances."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from postrand.codebook import Variable
from postrand.codebook.category_distances import (
    coordinates,
    edge_problems,
    edges_from,
    from_matrix,
    ranks,
    shortest_paths,
)
from postrand.designers import DesignWarning, design
from postrand.designers.metric.metric import Exponential, Geometric, Metric
from postrand.errors import DesignError, PostrandError, PrivacyError, SpecificationError
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.objectives import ExpectedChanges
from postrand.objectives.distance import ExpectedDistance
from postrand.privacy import DifferentialPrivacy, MetricPrivacy

may_be_singular = pytest.mark.filterwarnings("ignore::postrand.designers.DesignWarning")
RING = ((0, 1, 1.0), (1, 2, 0.5), (2, 3, 1.5), (0, 3, 2.0), (3, 4, 1.0))
REGION = Variable("region", role="key", categories=("N", "E", "S"))


def random_map(size, generator):
    """A tree with some further edges of random length."""
    tree = [(int(generator.integers(i)), i) for i in range(1, size)]
    more = {(int(min(p)), int(max(p))) for p in generator.integers(size, size=(size, 2)) if p[0] != p[1]}
    return tuple((i, k, float(generator.uniform(0.3, 2))) for i, k in sorted(more | set(tree)))


def lp_oracle(prior, edges, epsilon, loss):
    """The dense programme over all pairs, not only the edges."""
    size = len(prior)
    d = shortest_paths(edges, size)
    rows = []
    for i in range(size):
        for k in range(size):
            for j in range(size if i != k else 0):
                row = np.zeros((size, size))
                row[i, j], row[k, j] = 1, -math.exp(epsilon * d[i, k])
                rows.append(row.ravel())
    sums = np.kron(np.eye(size), np.ones(size))
    answer = linprog((prior[:, None] * loss).ravel(), np.array(rows), np.zeros(len(rows)), sums, np.ones(size))
    return answer.fun


@may_be_singular
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("objective", [None, ExpectedChanges()])
def test_the_programme_on_edges_is_the_programme_on_all_pairs(seed, objective):
    generator = np.random.default_rng(seed)
    size = int(generator.integers(2, 7))
    edges = random_map(size, generator)
    prior, epsilon = generator.dirichlet(np.ones(size)), float(generator.uniform(0.2, 3))
    asked = objective or ExpectedDistance(edges)
    loss = shortest_paths(edges, size) if objective is None else 1 - np.eye(size)
    found = design(prior, MetricPrivacy(epsilon, edges), asked, Metric())
    best = lp_oracle(prior, edges, epsilon, loss)
    assert found.bound <= best * (1 + 1e-9) + 1e-12
    assert found.value == pytest.approx(best, rel=1e-5, abs=1e-9)
    assert found.relative_gap < 1e-5


@may_be_singular
def test_a_larger_map_is_solved_with_a_proven_gap():
    generator = np.random.default_rng(1)
    edges = random_map(45, generator)
    found = design(generator.dirichlet(np.ones(45)), MetricPrivacy(1.0, edges), ExpectedDistance(edges), Metric())
    assert found.relative_gap <= 1e-4
    fast = design(generator.dirichlet(np.ones(45)), MetricPrivacy(1.0, edges), ExpectedDistance(edges), Exponential())
    assert fast.status == "local"


def test_a_matrix_that_cannot_be_inverted_warns_and_names_one_that_can():
    edges = random_map(12, np.random.default_rng(0))
    prior, model, asked = np.full(12, 1 / 12), MetricPrivacy(0.5, edges), ExpectedDistance(edges)
    with pytest.warns(DesignWarning, match="not all frequencies can be estimated.*'exponential'") as caught:
        found = design(prior, model, asked, Metric())
    assert found.details["condition"] > 1e6
    assert str(caught[0].message) in found.message
    other = design(prior, model, asked, Exponential())
    assert f"at distance {other.value:.4g} instead of {found.value:.4g}" in found.message
    assert np.linalg.cond(other.matrix.array) < 1e4


def test_values_go_to_near_categories():
    line = ranks(9)
    matrix = design(np.full(9, 1 / 9), MetricPrivacy(1.0, line), ExpectedDistance(line), Metric()).matrix.array
    for i in range(9):
        assert (np.diff(matrix[i, i:]) <= 1e-9).all()
        assert (np.diff(matrix[i, : i + 1]) >= -1e-9).all()


@given(st.integers(2, 6), st.floats(0.1, 3), st.integers(0, 10**6))
def test_the_exact_check_is_the_definition_on_all_pairs(size, epsilon, seed):
    generator = np.random.default_rng(seed)
    edges = random_map(size, generator)
    law = design(np.full(size, 1 / size), MetricPrivacy(epsilon, edges), ExpectedDistance(edges), Exponential()).matrix
    finding = MetricPrivacy(epsilon, edges).check([law])
    assert finding.holds
    assert finding.level <= epsilon
    d = shortest_paths(edges, size)
    for i in range(size):
        for k in range(size):
            for j in range(size):
                ratio = Fraction(int(law.weights[i, j]), int(law.weights[k, j]))
                assert float(ratio) <= math.exp(epsilon * d[i, k]) * (1 + 1e-12)


def test_a_few_units_beyond_the_budget_is_refused():
    law = randomised_response(2, 1.0)
    weights = law.weights + np.array([[4, -4], [0, 0]])  # more than the rounding inward leaves
    assert MetricPrivacy(1.0, ((0, 1, 1.0),)).check([law]).holds
    assert not MetricPrivacy(1.0, ((0, 1, 1.0),)).check([TransitionMatrix(weights)]).holds
    assert not MetricPrivacy(1.0, ((0, 1, 0.999),)).check([law]).holds


def test_the_complete_graph_is_plain_differential_privacy():
    law = randomised_response(4, 1.0)
    edges = tuple((i, k, 1.0) for i in range(4) for k in range(i + 1, 4))
    assert MetricPrivacy(1.0, edges).check([law]).level == pytest.approx(DifferentialPrivacy(1.0).check([law]).level)
    rows = MetricPrivacy(1.0, edges).constraints(4)
    assert rows.A.shape == DifferentialPrivacy(1.0).constraints(4).A.shape
    assert rows.excess(law.array) <= 1e-12


def test_zeros_and_blocks_it_does_not_fit_never_hold():
    model = MetricPrivacy(5.0, ranks(3))
    assert not model.check([TransitionMatrix.identity(3)]).holds
    assert not model.check([randomised_response(2, 0.1)]).holds
    assert not model.check([randomised_response(3, 0.1)] * 2).holds
    assert not model.check([randomised_response(4, 0.1)]).holds  # category 3 is connected to nothing


def test_the_geometric_mechanism_is_its_formula_and_exact():
    line, epsilon = ranks(5), 0.7
    law = design(np.full(5, 0.2), MetricPrivacy(epsilon, line), ExpectedDistance(line), Geometric()).matrix
    a = math.exp(-epsilon)
    assert law.array[2, 1] == pytest.approx(a * (1 - a) / (1 + a), rel=1e-9)
    assert law.array[0, 0] == pytest.approx(1 / (1 + a), rel=1e-9)
    assert MetricPrivacy(epsilon, line).check([law]).level == pytest.approx(epsilon, rel=1e-9)
    assert law.weights.sum(axis=1).tolist() == [UNIT] * 5


def test_the_best_channel_is_no_worse_than_the_closed_forms():
    line, prior = ranks(6), np.array([0.3, 0.1, 0.1, 0.1, 0.1, 0.3])
    values = [
        design(prior, MetricPrivacy(1.0, line), ExpectedDistance(line), s).value
        for s in (Metric(), Geometric(), Exponential())
    ]
    assert values[0] <= min(values[1:]) + 1e-9


def test_distances_are_shortest_paths_and_need_few_edges():
    np.testing.assert_allclose(shortest_paths(ranks(4), 4), np.abs(np.subtract.outer(range(4), range(4))))
    d = shortest_paths(RING, 5)
    assert {frozenset(e[:2]) for e in from_matrix(d)} <= {frozenset(e[:2]) for e in RING}
    np.testing.assert_allclose(shortest_paths(from_matrix(d), 5), d)
    points = np.random.default_rng(2).random((8, 2))
    euclid = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.testing.assert_allclose(shortest_paths(coordinates(points), 8), euclid, rtol=1e-8)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0, 1], [2, 0]], "not symmetric"),
        ([[0, 1, 5], [1, 0, 1], [5, 1, 0]], "triangle inequality"),
        ([[0, 0], [0, 0]], "the distance between two categories is not positive"),
        ([[1, 1], [1, 0]], "the distance of a category to itself is not zero"),
        ([[0, math.inf], [math.inf, 0]], "not finite"),
        ([[0, 1]], "must be square"),
    ],
)
def test_what_is_no_metric_is_refused(matrix, message):
    with pytest.raises(SpecificationError, match=message):
        from_matrix(matrix)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"kind": "adjacency", "edges": [["N", "E"]]},
            "the part of 'S': the map has 2 parts that are not connected by edges",
        ),
        ({"kind": "adjacency", "edges": []}, "has 3 parts that are not connected by edges"),
        (
            {"kind": "matrix", "rows": [[0, 1, 5], [1, 0, 1], [5, 1, 0]]},
            "from 'N' to 'S' through 'E': the triangle inequality is not met",
        ),
        (
            {"kind": "matrix", "rows": [[0, 1, 2], [2, 0, 1], [2, 1, 0]]},
            "categories 'N' and 'E': the distance is not symmetric",
        ),
        ({"kind": "coordinates", "points": [["N", 0], ["E", 1], ["S", 1]]}, "categories 'E' and 'S'"),
        ({"kind": "ranks", "missing": 2.0}, "'missing' out of the distance"),
        ({"kind": "adjacency", "edges": [["N", "X"]]}, "'X' is not a category"),
        ({"kind": "adjacency", "edges": [["N", "E", -1], ["E", "S"]]}, "length of an edge is not positive"),
        ({"kind": "adjacency", "edges": [["N", "E"], ["E", "N"], ["E", "S"]]}, "listed twice"),
        ({"kind": "adjacent"}, r"did you mean 'adjacency'\?"),
        ({"kind": "coordinates", "points": [["N", 0, 0]]}, "'E' has no coordinates"),
        ({"kind": "matrix", "rows": [[0, 1], [1, 0]]}, "does not fit the categories"),
        ({"kind": "adjacency"}, "is not valid"),
        (7, "block of one variable"),
    ],
)
def test_distances_in_plans_are_checked(data, message):
    with pytest.raises(SpecificationError, match=message):
        edges_from(data, [REGION])


@pytest.mark.parametrize("kind", ["ranks", "matrix"])
def test_a_missing_category_is_where_the_plan_says(kind):
    """At distance m >= half the diameter from all: a metric in which the others are as far apart as before."""
    asked = Variable("region", role="key", categories=("N", "E", "S"), missing="category")
    data = {"kind": kind, "rows": [[0, 1, 3], [1, 0, 2], [3, 2, 0]]}
    farthest = 2.0 if kind == "ranks" else 3.0
    for wrong in (farthest / 2 - 0.01, 0, -1, "far", math.nan, True):
        with pytest.raises(SpecificationError, match=rf"short cut.*wanted >= {farthest / 2:g}"):
            edges_from({**data, "missing": wrong}, [asked])
    with pytest.raises(
        SpecificationError, match=r"the distance from a missing value to the other categories is missing.*missing = "
    ):
        edges_from(data, [asked])
    edges = edges_from({**data, "missing": farthest / 2}, [asked])
    d = shortest_paths(edges, 4)
    np.testing.assert_allclose(d[:3, :3], shortest_paths(edges_from(data, [REGION]), 3))
    np.testing.assert_allclose(d[3], [farthest / 2] * 3 + [0])
    law = design(np.full(4, 0.25), MetricPrivacy(1.0, edges), ExpectedDistance(edges), Metric()).matrix
    ratio = law.array[:, None] / law.array[None]
    assert (ratio.max(axis=2) <= np.exp(d) * (1 + 1e-12)).all()


def test_distances_in_plans_are_read():
    assert edges_from("ranks", [REGION]) == ranks(3)
    assert edges_from({"kind": "adjacency", "edges": [["N", "E"], ["S", "E", 2]]}, [REGION]) == (
        (0, 1, 1.0),
        (2, 1, 2.0),
    )
    points = {"kind": "coordinates", "points": [["S", 2, 0], ["N", 0, 0], ["E", 1, 0]]}
    assert edges_from(points, [REGION]) == ranks(3)
    assert list(edge_problems(ranks(3), 3)) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, ranks(2)), "epsilon is not a positive number"),
        ((1.0, ()), "there are no edges"),
        ((1.0, (), ((0, 0), (1, 1))), "there are no edges"),
        ((1.0, ((0, 1, 1.0), (1, 1, 1.0))), "an edge is a loop, or its length is not positive"),
        ((1.0, ((0, 1, 1.0), (1, 2, 0.0))), "an edge is a loop, or its length is not positive"),
        ((1.0, ((0, 1, 7.0),), ((0, 0), (1, 1), (2, 2))), "the points are not one for each category"),
    ],
)
def test_wrong_budgets_are_refused(arguments, message):
    with pytest.raises(PrivacyError, match=message):
        MetricPrivacy(*arguments)


def test_lengths_may_be_larger_than_codes():
    model = MetricPrivacy(0.5, ((0, 1, 7.0),), ((0, 0), (1, 1)))
    assert (model.widest, model.check([randomised_response(2, 3.5)]).holds) == (3.5, True)
    assert not model.check([randomised_response(2, 3.6)]).holds


def test_a_level_at_the_limit_is_the_limit_and_one_beyond_it_is_said():
    """The first law spends 1.0 but for less than a float; equal rows spend nothing, however little may be spent."""
    first, second, edge = 3060513257434042, 2**50 + 2, ((0, 1, 1.0),)
    at = MetricPrivacy(1.0, edge).check([TransitionMatrix([[first, UNIT - first], [second, UNIT - second]])])
    assert (at.holds, at.level) == (True, 1.0)
    beyond = MetricPrivacy(0.5, edge).check([randomised_response(2, 0.51)])
    assert (beyond.holds, round(beyond.level, 9)) == (False, 0.51)
    assert MetricPrivacy(1e-90, edge).check([TransitionMatrix([[UNIT // 2, UNIT // 2]] * 2)]).holds
    assert MetricPrivacy(1.0, edge).check([TransitionMatrix([[UNIT - 1, 1], [UNIT, 0]])]).entries == (1, 0, 1)


@pytest.mark.parametrize("structure", [Metric(), Exponential()])
@pytest.mark.parametrize(
    ("edges", "message"),
    [(ranks(5), "code out of range"), (((0, 1, 1.0),), "has 3 parts that are not connected by edges")],
)
def test_a_map_of_other_categories_is_refused(structure, edges, message):
    with pytest.raises(DesignError, match=message):
        design(np.full(4, 0.25), MetricPrivacy(1.0, edges), ExpectedDistance(ranks(4)), structure)
    with pytest.raises(SpecificationError, match="not one of these categories"):
        ExpectedDistance(ranks(5)).value(np.eye(3), np.full(3, 1 / 3))


def test_structures_refuse_what_they_cannot_treat():
    for structure in (Metric(), Exponential(), Geometric()):
        with pytest.raises(PostrandError, match="no algorithm"):
            design([0.5, 0.5], DifferentialPrivacy(1.0), ExpectedDistance(), structure)
    with pytest.raises(PostrandError, match="needs ranks"):
        design([0.2] * 5, MetricPrivacy(1.0, RING), ExpectedDistance(RING), Geometric())
    with pytest.raises(PostrandError, match="too many categories"):
        design(np.full(301, 1 / 301), MetricPrivacy(1.0, ranks(301)), ExpectedDistance(), Metric())
