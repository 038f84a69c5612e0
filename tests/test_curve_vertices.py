"""The vertices of a curve's general matrices: against a solver over all sets, and against the design itself."""

import itertools
import math
import warnings

import numpy as np
import pytest
import scipy

from postrand.designers import design
from postrand.designers.curve import compare
from postrand.designers.differential.general import General
from postrand.designers.differential.staircase import EXACT_SIZE, best_staircase
from postrand.designers.differential.vertices import best_vertex
from postrand.designers.problem import DesignWarning
from postrand.privacy import DifferentialPrivacy

EPSILONS = [0.1, 0.5, 1.0, 2.0, 4.0, 8.0]


def some_prior(size, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(size, 2.0))


def by_solver(p, epsilon):
    """The whole linear programme, one column for each set; its gain is that of the channel, written out."""
    grown, columns, gains = math.exp(epsilon), [], []
    for held in itertools.product([1.0, grown], repeat=p.size):
        column = np.array(held)
        mass = float(p @ column)
        columns.append(column)
        gains.append(float(p @ (column * np.log(column / mass))))
    answer = scipy.optimize.linprog(-np.array(gains), A_eq=np.array(columns).T, b_eq=np.ones(p.size), method="highs-ds")
    assert answer.status == 0
    return -answer.fun


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("size", [2, 3, 5, 7, 9])
def test_a_vertex_keeps_what_a_solver_finds_over_all_sets(size, epsilon):
    p = some_prior(size)
    found = best_vertex(p, epsilon)
    assert found is not None
    assert found.value == pytest.approx(by_solver(p, epsilon), rel=1e-9)
    assert found.value <= found.bound <= found.value * (1 + 2e-12)
    channel = found.channel(epsilon)
    kept = p @ (channel * np.log(channel / (p @ channel))).sum(axis=1)
    assert kept == pytest.approx(found.value, rel=1e-11)
    assert channel.sum(axis=1) == pytest.approx(np.ones(size))
    assert channel.max(axis=0) / channel.min(axis=0) == pytest.approx(np.full(channel.shape[1], math.exp(epsilon)))


@pytest.mark.parametrize("size", [11, 12])
def test_twelve_categories_take_the_column_generation_s_place(size):
    p = some_prior(size, seed=size)
    for epsilon in (0.5, 2.0):
        found, solved = best_vertex(p, epsilon), best_staircase(p, epsilon, 1e-12)
        assert found is not None
        assert found.value == pytest.approx(solved.value, rel=3e-12)
        ours, theirs = (np.unique(s.sets[s.theta > 1e-9], axis=0) for s in (found, solved))  # zeros, rounded
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize(
    "p",
    [
        np.full(6, 1 / 6),
        np.array([0.3, 0.3, 0.1, 0.1, 0.1, 0.1]),
        np.array([0.0, 0.6, 0.4]),
        np.full(EXACT_SIZE + 1, 1 / 17),
    ],
    ids=["equal masses", "masses in pairs", "a mass of zero", "too many"],
)
def test_it_leaves_a_choice_and_more_categories_to_the_design(p):
    assert best_vertex(p, 0.5) is None


@pytest.mark.parametrize("size", [2, 4, 6, 9])
def test_a_curve_shows_the_general_design(size):
    """Its point is the design's: the same information, bound, variance and status."""
    p = some_prior(size, seed=3)
    for point in compare(p, [0.5, 1.0, 4.0]).points[-3:]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DesignWarning)
            single = design(p, DifferentialPrivacy(point.epsilon), structure=General())
        assert point.structure == single.details.get("structure", "general")
        assert (point.information, point.bound) == pytest.approx((single.value, single.bound), rel=3e-12)
        assert point.status == single.status
        assert math.isfinite(point.variance) == (single.details["rank"] == size)
