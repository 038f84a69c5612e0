"""What a design's status claims, over every designer: "optimal" comes with a bound that it attains, or not at all."""

import dataclasses
import math

import numpy as np
import pytest

from postrand.designers import (
    STRUCTURES,
    BistochasticMatrix,
    Circulant,
    Exponential,
    General,
    Geometric,
    LeastLoss,
    Metric,
    Parameterised,
    Prior,
    Product,
    StructureTraits,
    Symmetric,
    UniformOffDiagonal,
    design,
)
from postrand.designers.problem import OPTIMAL_GAP, Solution
from postrand.errors import PostrandError
from postrand.objectives import EstimatorVariance, ExpectedChanges, L2Loss, MutualInformation
from postrand.objectives.distance import ExpectedDistance
from postrand.privacy import Bistochastic, DifferentialPrivacy, MetricPrivacy, SpontaneousRecognition
from tests import oracles

LEVELS = (0.2, 3.0)
PRIORS = [np.random.default_rng(k).dirichlet(np.ones(size)) for k, size in enumerate((2, 4, 5))]
COUNTS = np.array([[400, 90], [6, 120]])


def chain(size, epsilon):
    return MetricPrivacy(epsilon, tuple((i, i + 1, 1.0) for i in range(size - 1)))


def problems():
    plain = (UniformOffDiagonal(), Symmetric(), Circulant(), General())
    for p in PRIORS:
        for epsilon in LEVELS:
            for objective in (MutualInformation(), EstimatorVariance(), ExpectedChanges()):
                yield from ((p, DifferentialPrivacy(epsilon), objective, structure) for structure in plain)
            distance = ExpectedDistance(tuple((i, i + 1, 1.0) for i in range(p.size - 1)))
            yield from ((p, chain(p.size, epsilon), distance, s) for s in (Metric(), Exponential(), Geometric()))
        for beta in (0.3, 0.9):
            for objective in (MutualInformation(), EstimatorVariance()):
                yield from ((p, Bistochastic(beta), objective, s) for s in (BistochasticMatrix(), Parameterised()))
    cells = tuple((i, j) for i in range(2) for j in range(2))
    yield PRIORS[1], DifferentialPrivacy(1.0), MutualInformation(), Product(cells)
    model = SpontaneousRecognition(0.1, 2).on(COUNTS)
    for options in ({}, {"reach": "cover"}, {"min_diagonal": 0.9}):
        yield COUNTS.ravel() / COUNTS.sum(), model, L2Loss(), LeastLoss(**options)


@pytest.mark.filterwarnings("ignore::postrand.designers.DesignWarning")
def test_optimal_is_only_said_with_a_bound_that_is_attained():
    seen, optimal = set(), set()
    for p, privacy, objective, structure in problems():
        try:
            d = design(p, privacy, objective, structure)
        except PostrandError:
            continue
        seen.add(type(structure))
        value = float(objective.value(d.matrix.array, p))
        assert d.value == pytest.approx(value, rel=1e-7, abs=1e-12)
        assert d.bound >= d.value if objective.maximise else d.bound <= d.value
        assert privacy.check([d.matrix]).holds
        if isinstance(objective, MutualInformation):
            assert d.value == pytest.approx(oracles.information(p[:, None] * d.matrix.array), rel=1e-7, abs=1e-12)
        if d.status == "optimal":
            optimal.add(type(structure))
            assert d.gap <= OPTIMAL_GAP * abs(d.value)
        else:
            assert d.status == ("bounded" if math.isfinite(d.bound) else "local")
    assert seen == set(STRUCTURES)
    assert optimal >= {UniformOffDiagonal, Symmetric, General}


@dataclasses.dataclass(frozen=True)
class Boastful:
    """A designer whose bound is beaten by its own matrix."""

    name = "boastful"
    traits = StructureTraits("Says more than it proves.")

    def solve(self, prior, privacy, objective):
        matrix = design(prior, privacy, objective).matrix
        return Solution(matrix, 0.9 * objective.value(matrix.array, prior))


def test_a_bound_that_is_beaten_proves_nothing():
    d = design(Prior([0.5, 0.3, 0.2]), DifferentialPrivacy(1.0), None, Boastful())
    assert d.status == "local"
    assert d.bound == math.inf
