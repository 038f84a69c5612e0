"""Least variance of queries: two symbols, brute force over columns and answers, a release."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from postrand import ReleaseKey, estimate, load_plan, read_release, run, verify
from postrand.designers import Circulant, DesignWarning, General, Symmetric, UniformOffDiagonal, design
from postrand.designers.differential.fewer_symbols import downhill, merged, two_symbols
from postrand.designers.differential.least_variance import Grouped, relaxed
from postrand.designers.differential.variance_pricing import Multipliers, price_all, price_one
from postrand.errors import EstimationError
from postrand.objectives import EstimatorVariance, ExpectedChanges, MutualInformation
from postrand.privacy import DifferentialPrivacy

pytestmark = pytest.mark.filterwarnings("ignore::postrand.designers.DesignWarning")


def two_symbol_variance(query, p, epsilon):
    """Duchi, Jordan & Wainwright: answers ``middle ± B``, ``B = half the range times (e^ε+1)/(e^ε-1)``."""
    low, high = query.min(), query.max()
    reach = (high - low) / 2 / math.tanh(epsilon / 2)
    return reach**2 - (p @ query - (low + high) / 2) ** 2


def least_by_grid(query, p, epsilon, points=401):
    """Brute force: all sets and a fine grid of answers; the least variance with answers of the grid."""
    size = query.size
    centred = query - p @ query
    sets = (np.arange(1 << size)[:, None] >> np.arange(size) & 1) * math.expm1(epsilon) + 1.0
    answers = np.linspace(-1, 1, points) * 2 * np.abs(centred).max() / math.tanh(epsilon / 2)
    columns = np.repeat(sets / (sets @ p)[:, None], points, axis=0)
    given_ = np.tile(answers, len(sets))
    rows = np.concatenate([columns.T, (columns * given_[:, None]).T])
    found = linprog(given_**2, A_eq=rows, b_eq=np.concatenate([np.ones(size), centred]))
    return found.fun


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("size", [2, 4, 9])
def test_the_mean_of_scores_is_never_worse_than_by_two_symbols(size, epsilon):
    scores = np.arange(size, dtype=float)
    for p in (np.full(size, 1 / size), np.random.default_rng(size).dirichlet(np.ones(size))):
        found = design(p, DifferentialPrivacy(epsilon), EstimatorVariance(queries=(scores,)), General())
        two = two_symbol_variance(scores, p, epsilon)
        assert found.bound <= found.value <= two * (1 + 1e-9)
        assert found.relative_gap < 0.06
        assert DifferentialPrivacy(epsilon).check([found.matrix]).holds


@pytest.mark.parametrize("epsilon", [1.0])
def test_twenty_scores_are_within_a_hundredth_of_every_channel(epsilon):
    p, scores = np.full(20, 0.05), np.arange(20.0)
    found = design(p, DifferentialPrivacy(epsilon), EstimatorVariance(queries=(scores,)), General())
    assert found.relative_gap < 0.01
    assert found.value < two_symbol_variance(scores, p, epsilon) * 0.93
    usual = design(p, DifferentialPrivacy(epsilon), EstimatorVariance(queries=(scores,)), Circulant())
    assert usual.value > 2 * found.value


@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_the_bound_is_the_optimum_over_all_columns_and_a_grid_of_answers(epsilon):
    p, query = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.0, 1.0, 5.0, 2.0])
    found = relaxed(Grouped.of(query[None], p, epsilon))
    grid = least_by_grid(query, p, epsilon)
    assert found.bound <= found.value <= found.bound * (1 + 1e-8)
    assert found.bound <= grid * (1 + 1e-9)
    assert found.value >= grid * (1 - 5e-3)  # for the steps of the grid


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(1, 3), st.floats(0.05, 5))
def test_no_channel_is_below_the_bound(seed, size, count, epsilon):
    """Channels of many random columns, answered best: ``tr(C J^+ Cᵀ)``, the least variance of unbiased answers."""
    rng = np.random.default_rng(seed)
    p, queries = rng.dirichlet(np.ones(size)), rng.normal(size=(count, size))
    problem = Grouped.of(queries, p, epsilon)
    bound = relaxed(problem).bound
    for symbols in (2 * size, 40):
        columns = np.exp(epsilon * rng.random((size, symbols)).round(int(rng.integers(0, 3))))
        part = rng.random(symbols) / columns.max(axis=0)
        columns = columns * part / ((columns * part).sum(axis=1).max())
        rest = 1 - columns.sum(axis=1)  # what rows lack: one more symbol a category, within the ratio
        columns = np.column_stack([columns, np.tile(rest.min() / 2, size)])
        weights = np.linalg.lstsq(columns, np.ones(size), rcond=None)[0]
        if (weights <= 0).any():
            continue
        channel = columns * weights
        if np.abs(channel.sum(axis=1) - 1).max() > 1e-9:
            continue
        J = (channel / (p @ channel)) @ channel.T
        centred = queries - (queries @ p)[:, None]
        if not np.allclose(centred @ np.linalg.pinv(J) @ J, centred):
            continue  # two categories look alike in every symbol: no answer is unbiased
        assert np.trace(centred @ np.linalg.pinv(J) @ centred.T) >= bound * (1 - 1e-7)
    M = np.full((size, size), 1.0) + math.expm1(epsilon) * np.eye(size)
    assert EstimatorVariance(queries=queries).value(M / M.sum(axis=1)[0], p) >= bound * (1 - 1e-9)


@given(st.integers(0, 2**32), st.integers(2, 9), st.floats(0.01, 6))
def test_the_sets_of_one_query_contain_the_best_of_all(seed, size, epsilon):
    rng = np.random.default_rng(seed)
    p, step = rng.dirichlet(np.ones(size)), -math.expm1(-epsilon)
    at = Multipliers(float(rng.normal()), rng.normal(size=size), rng.normal(size=1), rng.normal(size=(1, size)))
    _, _, every = price_all(at, p, step, 10)
    _, _, few = price_one(at, p, step)
    assert few == pytest.approx(max(every, 0.0), abs=1e-9 * at.scale())


def test_categories_that_no_query_tells_apart_are_taken_together():
    p = np.random.default_rng(1).dirichlet(np.ones(30))
    share = EstimatorVariance(queries=((1.0,) * 7 + (0.0,) * 23,))
    found = design(p, DifferentialPrivacy(1.0), share, General())
    two = two_symbol_variance(np.array(share.queries[0]), p, 1.0)
    assert found.status == "optimal"  # randomised response on the answer itself
    assert found.value == pytest.approx(two, rel=1e-9)
    assert found.details["rank"] == 2


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 3.0])
def test_several_queries_are_never_worse_than_one_drawn_and_answered_by_two_symbols(epsilon):
    p, weights = np.random.default_rng(3).dirichlet(np.full(8, 3.0)), (1.0, 2.0)
    queries = np.array([np.arange(8.0), np.arange(8.0) ** 2 / 7])
    cost = EstimatorVariance(queries=queries, weights=weights)
    found = design(p, DifferentialPrivacy(epsilon), cost, General())
    scaled = queries * np.sqrt(weights)[:, None]
    ranges = np.ptp(scaled, axis=1)
    seconds = [
        (two_symbol_variance(q, p, epsilon) + (p @ q - (q.min() + q.max()) / 2) ** 2) * ranges.sum() / r
        for q, r in zip(scaled, ranges, strict=True)
    ]
    drawn = sum(seconds) - sum((p @ q - (q.min() + q.max()) / 2) ** 2 for q in scaled)
    assert found.bound <= found.value <= drawn
    for structure in (Circulant(), UniformOffDiagonal(), Symmetric()):
        assert found.value <= design(p, DifferentialPrivacy(epsilon), cost, structure).value * (1 + 1e-9)
    problem = Grouped.of(scaled, p, epsilon)
    assert found.value <= cost.value(_square(two_symbols(problem)[0][problem.labels]), p) * (1 + 1e-9)


def _square(channel):
    return np.column_stack([channel, np.zeros((len(channel), len(channel) - channel.shape[1]))])


def test_downhill_keeps_the_budget_and_never_climbs():
    p = np.random.default_rng(5).dirichlet(np.full(6, 2.0))
    queries, epsilon = np.random.default_rng(6).normal(size=(3, 6)), 0.7
    problem, cost = Grouped.of(queries, p, epsilon), EstimatorVariance(queries=queries)
    for start in (
        merged(problem, relaxed(problem)),
        Symmetric().solve(p, DifferentialPrivacy(epsilon), cost).array.array,
    ):
        end = downhill(problem, start)
        assert cost.value(end[problem.labels], p) <= cost.value(start[problem.labels], p) * (1 + 1e-9)
        assert (end.max(axis=0) <= math.exp(epsilon) * end.min(axis=0) * (1 + 1e-7)).all()


OBJECTIVES = [
    MutualInformation(),
    ExpectedChanges(),
    EstimatorVariance(),
    EstimatorVariance(queries=((0.0, 1.0, 2.0, 3.0),)),
    EstimatorVariance(queries=((0.0, 1.0, 2.0, 3.0), (1.0, 0.0, 0.0, 0.0)), weights=(1.0, 4.0)),
]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=["information", "changes", "all", "mean", "two"])
@pytest.mark.parametrize("epsilon", [0.3, 2.5])
def test_the_general_search_is_never_worse_than_a_family_it_contains(objective, epsilon):
    for p in (np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.9, 0.05, 0.03, 0.02])):
        sign = 1 if objective.maximise else -1
        best = design(p, DifferentialPrivacy(epsilon), objective, General())
        for structure in (UniformOffDiagonal(), Circulant(), Symmetric()):
            member = design(p, DifferentialPrivacy(epsilon), objective, structure)
            assert sign * best.value >= sign * member.value - 1e-9 * abs(member.value)


@pytest.mark.parametrize("epsilon", [1e-4, 11.0, 30.0])
def test_very_small_and_very_large_budgets_are_designed_too(epsilon):
    p, scores = np.array([0.4, 0.3, 0.2, 0.1]), np.arange(4.0)
    found = design(p, DifferentialPrivacy(epsilon), EstimatorVariance(queries=(scores,)), General())
    two = two_symbol_variance(scores, p, epsilon)
    assert found.bound <= found.value <= two * (1 + 1e-6)
    assert found.value >= float(p @ scores**2 - (p @ scores) ** 2)


PLAN = """
[source]
file = "data.csv"
codebook = "codebook.toml"

[privacy]
model = "differential"
epsilon = 0.5

[[blocks]]
variables = ["score"]
structure = "general"
objective = { model = "variance", queries = [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]] }
prior = "uniform"
"""

CODEBOOK = """
[[variables]]
name = "score"
role = "key"
categories = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]
"""


def test_a_release_of_few_symbols_is_verified_reported_and_answers_its_query(tmp_path):
    """The mean is estimated within 4.5 standard errors (α = 7e-6), whose size is the design's own value."""
    scores = np.random.default_rng(0).binomial(10, 0.3, 20_000)
    (tmp_path / "data.csv").write_text("score\n" + "\n".join(map(str, scores)) + "\n", "utf-8")
    (tmp_path / "codebook.toml").write_text(CODEBOOK, "utf-8")
    (tmp_path / "plan.toml").write_text(PLAN, "utf-8")
    with pytest.warns(DesignWarning, match="The queries asked for can: use estimate.quantities"):
        run(load_plan(tmp_path / "plan.toml"), tmp_path / "out", release_key=ReleaseKey.from_seed(5))
    assert verify(tmp_path / "out").ok
    assert "score" in (tmp_path / "out" / "report.html").read_text("utf-8")  # drawn of a singular matrix too
    release = read_release(tmp_path / "out")
    found = estimate.quantities(release.frame(), ["score"], {"mean": np.arange(11.0)}, release.mechanism)
    error = math.sqrt(found.covariance[0, 0])
    assert abs(found.value[0] - scores.mean()) < 4.5 * error
    expected = EstimatorVariance(queries=(tuple(range(11)),)).value(
        release.mechanism["score"].matrix.array, np.bincount(scores, minlength=11) / scores.size
    )
    assert error**2 * scores.size == pytest.approx(expected, rel=0.05)
    with pytest.raises(EstimationError):
        estimate.proportions(release.frame(), "score", release.mechanism)
