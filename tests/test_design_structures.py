"""Every structure with every objective, circulant and symmetric designs, rounding, the curve."""

import dataclasses
import json
import math
import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand.designers import (
    OBJECTIVES,
    STRUCTURES,
    Circulant,
    CustomObjective,
    DesignWarning,
    General,
    Prior,
    Structure,
    Symmetric,
    UniformOffDiagonal,
    compare,
    design,
    round_inside,
)
from postrand.designers.curve import Comparison, Point
from postrand.errors import DesignError
from postrand.mechanism.matrix import randomised_response
from postrand.objectives import EstimatorVariance, ExpectedChanges, MutualInformation, Objective, WholeRecord
from postrand.privacy import DifferentialPrivacy
from postrand.support import options
from tests import oracles

OBJECTIVE_VALUES = [
    MutualInformation(),
    EstimatorVariance(),
    EstimatorVariance(queries=((1, 0, 0, 0, 0), (1, 1, 0, 0, 0)), weights=(2, 1)),
    ExpectedChanges(),
    CustomObjective(lambda M, p: float(p @ np.diag(M) ** 2)),
    WholeRecord(joint=np.outer([0.35, 0.3, 0.2, 0.1, 0.05], [0.6, 0.4]) + 0.03 * np.outer([1, -1, 0, 0, 0], [1, -1])),
]
PRIOR = np.array([0.35, 0.3, 0.2, 0.1, 0.05])


@pytest.mark.parametrize("structure", [kind() for kind in STRUCTURES], ids=lambda s: s.name)
@pytest.mark.parametrize("objective", OBJECTIVE_VALUES, ids=lambda o: o.name)
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_every_combination_works_or_is_refused(structure, objective, epsilon):
    model = DifferentialPrivacy(epsilon)
    refusal = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DesignWarning)
        try:
            found = design(PRIOR, model, objective, structure)
        except DesignError as error:
            refusal = str(error)
    if refusal:
        assert f"structure {structure.name!r} has no algorithm for" in refusal
        assert "Next: " in refusal
        return
    assert model.check([found.matrix]).holds
    assert model.constraints(5).excess(found.matrix.array) <= 1e-15
    assert found.value == pytest.approx(objective.value(found.matrix.array, PRIOR), rel=1e-12)
    assert (found.bound - found.value) * (1 if objective.maximise else -1) >= 0
    assert found.status == ("local" if math.isinf(found.bound) else found.status)
    assert found.status != "optimal" or found.relative_gap <= 1e-9
    response = objective.value(randomised_response(5, epsilon).array, PRIOR)
    better = found.value - response if objective.maximise else response - found.value
    assert better >= -1e-9 * abs(response)  # no structure does worse than randomised response, a member of each


@pytest.mark.parametrize("member", [*STRUCTURES, *OBJECTIVES], ids=lambda m: m.name)
def test_members_keep_the_protocol_and_survive_plain_data(member):
    required = [f.name for f in dataclasses.fields(member) if f.default is f.default_factory is dataclasses.MISSING]
    value = member(**dict.fromkeys(required, 100))
    assert isinstance(value, Structure if member in STRUCTURES else Objective)
    family = STRUCTURES if member in STRUCTURES else OBJECTIVES
    data = json.loads(json.dumps(options.to_dict(value)))
    assert options.from_dict(family, data, "plan") == value


def test_names_are_distinct():
    names = [getattr(member, "name") for member in (*STRUCTURES, *OBJECTIVES)]  # noqa: B009 -- the tuples hold types
    assert len(set(names)) == len(names)


def test_difference_set_beats_randomised_response_on_both_criteria():
    p = np.random.default_rng(2).dirichlet(np.full(11, 3.0))
    model = DifferentialPrivacy(0.5)
    paley = design(p, model, MutualInformation(), Circulant(block=(1, 3, 4, 5, 9)))
    response = design(p, model, MutualInformation(), Symmetric())
    assert paley.value > 2 * response.value
    cost = EstimatorVariance().value
    assert cost(paley.matrix.array, p) == pytest.approx(146, abs=1)
    assert cost(response.matrix.array, p) == pytest.approx(293, abs=1)


def test_searched_circulant_attains_the_spectral_bound_where_a_difference_set_exists():
    found = design(np.full(11, 1 / 11), DifferentialPrivacy(0.2), EstimatorVariance(), Circulant())
    assert found.status == "optimal"
    assert len(found.details["block"]) == 5
    larger = design(np.full(19, 1 / 19), DifferentialPrivacy(0.1), EstimatorVariance(), Circulant())
    assert larger.status == "optimal"  # quadratic residues modulo 19, proven by the bound alone


SOME_QUERY = EstimatorVariance(queries=((0, 1, 2, 3, 4, 5),))


@pytest.mark.parametrize("objective", [MutualInformation(), EstimatorVariance(), SOME_QUERY])
def test_circulant_search_equals_brute_force(objective):
    p = np.array([0.3, 0.25, 0.2, 0.15, 0.06, 0.04])
    sign, values = (1 if objective.maximise else -1), []
    for code in range(1, 63):
        row = np.where(code >> np.arange(6) & 1, math.e, 1.0)
        matrix = np.array([np.roll(row, i) for i in range(6)]) / row.sum()
        if abs(np.linalg.det(matrix)) > 1e-12:
            values.append(sign * objective.value(matrix, p))
    found = design(p, DifferentialPrivacy(1.0), objective, Circulant())
    assert found.value == pytest.approx(sign * max(values), rel=1e-9)
    assert np.allclose(found.matrix.array.sum(axis=0), 1)


@pytest.mark.parametrize("size", [13, 24, 64])
def test_large_circulants_are_bounded_and_never_worse_than_one_likely_value(size):
    p = np.random.default_rng(size).dirichlet(np.ones(size))
    for objective in (MutualInformation(), EstimatorVariance()):
        single = design(p, DifferentialPrivacy(0.5), objective, Circulant(size=1))
        found = design(p, DifferentialPrivacy(0.5), objective, Circulant())
        assert (found.value - single.value) * (1 if objective.maximise else -1) > 0
        assert math.isfinite(found.bound)


def test_circulant_options_are_checked():
    for wrong in ({"block": (1, 1)}, {"size": -1}, {"block": (1,), "size": 2}, {"block": (0.5,)}):
        with pytest.raises(DesignError):
            Circulant(**wrong)
    for unfit in (Circulant(block=(0, 7)), Circulant(size=5)):
        with pytest.raises(DesignError, match="does not fit"):
            design(PRIOR, DifferentialPrivacy(1.0), MutualInformation(), unfit)
    with pytest.raises(DesignError, match="singular"):
        design(np.full(4, 0.25), DifferentialPrivacy(1.0), MutualInformation(), Circulant(block=(0, 2)))


@pytest.mark.parametrize("objective", OBJECTIVE_VALUES[:4], ids=lambda o: o.name)
def test_symmetric_end_is_best_on_a_grid(objective):
    for epsilon in (0.2, 1.0, 3.0):
        low, high = (1 / (1 + 4 * math.exp(-e)) for e in (-epsilon, epsilon))
        values = []
        for q in np.linspace(low, high, 60):
            matrix = np.full((5, 5), (1 - q) / 4)
            np.fill_diagonal(matrix, q)
            values.append(objective.value(matrix, PRIOR))
        best = max(values) if objective.maximise else min(values)
        found = design(PRIOR, DifferentialPrivacy(epsilon), objective, Symmetric())
        assert found.value == pytest.approx(best, rel=1e-10)
        assert found.status == "optimal"


def test_symmetric_searches_a_users_objective_inside_the_interval():
    target = CustomObjective(lambda M, p: (M[0, 0] - 0.3) ** 2, maximise=False)
    found = design(PRIOR, DifferentialPrivacy(1.0), target, Symmetric())
    assert found.matrix.array[0, 0] == pytest.approx(0.3, abs=1e-4)
    assert found.status == "local"
    assert found.gap == math.inf


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(2, 8), epsilon=st.floats(0.01, 8))
def test_rounding_moves_only_inward(seed, size, epsilon):
    generator = np.random.default_rng(seed)
    columns = np.where(generator.random((size, size)) < 0.5, 1.0, math.exp(-epsilon)) * generator.random(size)
    array = 0.5 * columns / columns.sum(axis=1).max()
    rest = 1 - array.sum(axis=1)  # a last column completes the rows
    spread = rest.max() / rest.min()
    if math.log(spread) > epsilon:
        return
    square = np.zeros((size + 1, size + 1))
    square[:size, :size], square[:size, size] = array, rest
    square[size] = square[0]
    law = round_inside(square, DifferentialPrivacy(epsilon))
    assert DifferentialPrivacy(epsilon).check([law]).holds
    assert np.abs(law.array - square).max() < 1e-9


def test_rounding_refuses_a_matrix_far_outside():
    with pytest.raises(DesignError, match="cannot be rounded inside"):
        round_inside(np.eye(3), DifferentialPrivacy(0.1))


def test_curve_agrees_with_single_designs_and_draws_itself():
    curve = compare(Prior.uniform(6), [1.0, 0.5, 1.0])
    assert curve.structures == tuple(kind.name for kind in (UniformOffDiagonal, Symmetric, Circulant, General))
    assert [p.epsilon for p in curve.points[:2]] == [0.5, 1.0]
    single = design(Prior.uniform(6), DifferentialPrivacy(0.5), structure=Circulant())
    point = next(p for p in curve.points if p.structure == "circulant" and p.epsilon == 0.5)
    assert (point.information, point.bound) == (single.value, single.bound)
    assert point.variance == pytest.approx(np.trace(oracles.covariance(single.matrix.array, np.full(6, 1 / 6))))
    by_structure = {p.structure: p.information for p in curve.points if p.epsilon == 1.0}
    assert max(by_structure, key=lambda k: by_structure[k]) == "general"
    assert curve.entropy == pytest.approx(math.log(6))
    assert all(p.information <= p.bound for p in curve.points)
    assert curve.text().count("\n") == 8
    assert json.loads(json.dumps(curve.to_dict(), allow_nan=False))["points"][0]["epsilon"] == 0.5
    picture = curve.svg()
    broken = {p.structure for p in curve.points if not math.isfinite(p.variance)}  # two budgets: a gap leaves no line
    assert picture.count("<polyline") == 8 - len(broken)
    assert "nan" not in picture


def test_curve_needs_an_epsilon():
    with pytest.raises(DesignError, match="no epsilon"):
        compare(PRIOR, [])


def panel(svg, left, right):
    """The runs of polylines and the marks between two abscissae."""
    lines = [[tuple(map(float, at.split(","))) for at in path.split()] for path in re.findall(r'points="([^"]*)"', svg)]
    marks = [tuple(map(float, at)) for at in re.findall(r'<circle cx="([^"]*)" cy="([^"]*)"', svg)]
    return [line for line in lines if left < line[0][0] < right], [mark for mark in marks if left < mark[0] < right]


def test_the_curve_is_broken_where_frequencies_are_not_estimable():
    variances = (9.0, 4.0, math.inf, 2.0, math.inf)
    points = tuple(
        Point("general", epsilon, 0.1 * epsilon, 0.1 * epsilon, variance, "optimal")
        for epsilon, variance in zip((0.5, 1.0, 2.0, 4.0, 8.0), variances, strict=True)
    )
    drawn = Comparison(points, 1.0).svg()
    lines, marks = panel(drawn, 380, 760)
    assert [len(line) for line in lines] == [2]
    assert len(marks) == 3
    assert marks[-1] not in lines[0]
    information, all_marks = panel(drawn, 0, 380)
    assert [len(line) for line in information] == [5]
    assert len(all_marks) == 5
    assert marks[-1][0] == pytest.approx(all_marks[3][0] + 380)  # both panels have all budgets across
    assert "(logarithmic)" in drawn


def test_the_axis_names_only_budgets_that_were_designed_for():
    drawn = compare([0.4, 0.3, 0.3], [0.5, 1.0, 2.0, 4.0], [UniformOffDiagonal()]).svg()
    assert re.findall(r'text-anchor="middle">([^<]*)<', drawn) == 2 * ["0.5", "1", "2", "4"]
    assert "this plan" not in drawn
    for chosen, words in ((2.0, "this plan: 2"), (8.0, "this plan: 8 →"), (0.1, "this plan: 0.1 ←")):
        marked = compare([0.4, 0.3, 0.3], [0.5, 1.0, 2.0, 4.0], [UniformOffDiagonal()]).svg(chosen)
        assert marked.count(words + "<") == 2
        assert marked.count('stroke-dasharray="4 3"') - drawn.count('stroke-dasharray="4 3"') == 2 * (chosen == 2.0)
    many = compare([0.5, 0.5], np.linspace(0.5, 4, 200), [UniformOffDiagonal()]).svg()
    assert len(re.findall(r'text-anchor="middle">([^<]*)<', many)) < 40
