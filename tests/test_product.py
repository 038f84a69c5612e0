"""Products of independent laws on feasible combinations: against the law by its definition, and end to end."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand import ReleaseKey, load_plan, run, verify
from postrand.designers import DesignWarning, Product, design
from postrand.designers.differential.product import _Mended, corrected, epsilon_of
from postrand.errors import DesignError
from postrand.mechanism.matrix import randomised_response
from postrand.objectives import EstimatorVariance, MutualInformation
from postrand.objectives.information import information_bound
from postrand.privacy import DifferentialPrivacy, MetricPrivacy
from postrand.workflow import design_blocks as blocks

SIZES = (3, 4, 2)
EVERY = list(itertools.product(*map(range, SIZES)))


def some(seed, share=0.6):
    """A random choice of feasible cells in which every category occurs."""
    rng = np.random.default_rng(seed)
    kept = [cell for cell in EVERY if rng.random() < share or len(set(cell)) == 1]
    return [*kept, *(cell for cell in [(0, 3, 1), (2, 0, 0)] if cell not in kept)]


def brute(cells, epsilons):
    """Draw each variable apart, then move what is infeasible: the sum over all that can be drawn."""
    laws = []
    for size, epsilon in zip(SIZES, epsilons, strict=True):
        total = size - 1 + math.exp(epsilon)
        laws.append([[(math.exp(epsilon) if i == j else 1) / total for j in range(size)] for i in range(size)])
    M = np.zeros((len(cells), len(cells)))
    for i, true in enumerate(cells):
        for drawn in EVERY:
            chance = math.prod(law[x][z] for law, x, z in zip(laws, true, drawn, strict=True))
            apart = [sum(a != b for a, b in zip(drawn, cell, strict=True)) for cell in cells]
            near = [k for k, d in enumerate(apart) if d == min(apart)]
            for k in near:
                M[i, k] += chance / len(near)
    return M


@pytest.mark.parametrize("share", [0.6, 0.1])  # of few feasible cells the nearest may differ in two variables
@pytest.mark.parametrize("seed", range(4))
def test_the_corrected_law_is_the_product_with_the_infeasible_moved_to_the_nearest(seed, share):
    cells, epsilons = some(seed, share), np.array([0.5, 1.5, 1.0])
    law = corrected(np.array(cells, dtype=np.int32), epsilons)
    np.testing.assert_allclose(law, brute(cells, epsilons), atol=1e-15)
    np.testing.assert_allclose(law.sum(axis=1), 1, atol=1e-14)


def test_without_infeasible_combinations_it_is_the_product():
    law = corrected(np.array(EVERY, dtype=np.int32), np.array([0.5, 1.5, 1.0]))
    factors = [randomised_response(s, e).array for s, e in zip(SIZES, (0.5, 1.5, 1.0), strict=True)]
    np.testing.assert_allclose(law, np.kron(np.kron(factors[0], factors[1]), factors[2]), atol=1e-15)
    assert epsilon_of(law) == pytest.approx(3.0, rel=1e-12)


@given(st.integers(0, 2**32), st.lists(st.floats(0.01, 6), min_size=3, max_size=3), st.floats(0.1, 0.9))
def test_moving_what_is_drawn_never_spends_more(seed, epsilons, share):
    law = corrected(np.array(some(seed, share), dtype=np.int32), np.array(epsilons))
    assert epsilon_of(law) <= sum(epsilons) * (1 + 1e-12)


@given(st.integers(0, 2**32), st.floats(0.05, 9), st.floats(0.1, 0.9))
def test_budgets_are_scaled_up_as_far_as_the_whole_budget_goes(seed, epsilon, share):
    mended = _Mended.of(np.array(some(seed, share), dtype=np.int32))
    divided = np.array([0.2, 0.5, 0.3])
    epsilons, law = mended.spend(epsilon, divided)
    assert epsilon_of(law) <= epsilon * (1 + 1e-12)
    assert epsilon_of(law) >= epsilon_of(mended.law(epsilon * divided))
    np.testing.assert_array_equal(law, mended.law(epsilons))
    np.testing.assert_allclose(epsilons / epsilons.sum(), divided)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 3.0, 9.0])
@pytest.mark.parametrize("seed", range(3))
def test_designs_meet_their_budget_spend_it_and_beat_randomised_response(epsilon, seed):
    cells = some(seed)
    p = np.random.default_rng(seed).dirichlet(np.full(len(cells), 0.5))
    model = DifferentialPrivacy(epsilon)
    found = design(p, model, structure=Product.over(cells))
    assert model.check([found.matrix]).holds
    assert found.matrix.epsilon >= 0.98 * epsilon
    assert model.constraints(len(cells)).excess(found.matrix.array) <= 1e-15
    response = MutualInformation().value(randomised_response(len(cells), epsilon).array, p)
    assert found.value >= response * (1 - 1e-9)
    assert found.value <= found.bound == pytest.approx(information_bound(epsilon))
    if found.details["law"] == "product":
        again = corrected(np.array(cells, dtype=np.int32), np.array(found.details["epsilons"]))
        np.testing.assert_allclose(found.matrix.array, again, atol=1e-9)
        assert sum(found.details["epsilons"]) >= epsilon * (1 - 1e-12)


def test_at_small_budgets_the_product_keeps_more_and_both_laws_are_ever_the_answer():
    cells = [cell for cell in itertools.product(range(5), range(4), range(4)) if sum(cell) != 4]
    p = np.full(len(cells), 1 / len(cells))
    laws = [design(p, DifferentialPrivacy(e), structure=Product.over(cells)).details["law"] for e in (0.3, 9.0)]
    assert laws == ["product", "randomised response"]


def divided(cells, epsilon, p, steps, floor):
    """Brute force: the most information of any division in units of 1/steps, each share above the floor."""
    mended, best = _Mended.of(np.array(cells, dtype=np.int32)), 0.0
    for parts in itertools.product(range(steps + 1), repeat=2):
        if sum(parts) <= steps:
            share = np.array([*parts, steps - sum(parts)]) / steps
            if share.min() >= floor / 3 - 1e-12:
                best = max(best, MutualInformation().value(mended.spend(epsilon, share)[1], p))
    return best


@pytest.mark.parametrize("floor", [0.0, 0.5])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.filterwarnings("ignore::postrand.designers.DesignWarning")
def test_no_division_on_a_grid_keeps_more_and_no_uniform_matrix(seed, epsilon, floor):
    cells = some(seed)
    p = np.random.default_rng(seed + 10).dirichlet(np.ones(len(cells)))
    found = design(p, DifferentialPrivacy(epsilon), structure=Product.over(cells, floor))
    assert found.value >= divided(cells, epsilon, p, 12, floor) * (1 - 2e-3)
    assert found.value >= design(p, DifferentialPrivacy(epsilon)).value * (1 - 1e-9)
    if found.details["law"] == "product":
        shares = np.array(found.details["epsilons"]) / sum(found.details["epsilons"])
        assert shares.min() >= floor / 3 - 1e-9


def test_variables_that_get_nothing_are_named_and_a_floor_says_what_it_costs():
    cells = list(itertools.product(range(3), range(4)))
    p = np.random.default_rng(12).dirichlet(np.ones(12))
    with pytest.warns(DesignWarning, match=r"get no part of ε \(numbers 2 of the block\)"):
        free = design(p, DifferentialPrivacy(1.0), structure=Product.over(cells, 0.0))
    kept = design(p, DifferentialPrivacy(1.0), structure=Product.over(cells))
    assert "With floor = 0" in kept.message
    assert free.value > kept.value
    with pytest.raises(DesignError, match="not a number from 0 to 1"):
        Product.over(cells, 2.0)


def test_other_objectives_take_the_better_law_too():
    cells, model = some(1), DifferentialPrivacy(1.0)
    p = np.full(len(cells), 1 / len(cells))
    found = design(p, model, EstimatorVariance(), Product.over(cells))
    assert found.value <= EstimatorVariance().value(randomised_response(len(cells), 1.0).array, p) * (1 + 1e-12)
    assert found.status == "local"


def test_a_block_of_one_variable_is_randomised_response():
    p = np.array([0.5, 0.3, 0.2])
    for structure in (Product(), Product.over([(0,), (1,), (2,)]), Product.over([(0, 5), (1, 5), (3, 5)])):
        assert design(p, DifferentialPrivacy(1.0), structure=structure).matrix == randomised_response(3, 1.0)


def test_what_is_no_product_is_refused():
    p = np.full(4, 0.25)
    with pytest.raises(DesignError, match=r"cells do not fit the prior; got 3; wanted 4"):
        design(p, DifferentialPrivacy(1.0), structure=Product.over([(0, 0), (0, 1), (1, 0)]))
    far = [(k, k, k) for k in range(65)]
    with pytest.raises(DesignError, match=r"too many combinations; got 274,625, 65 feasible"):
        design(np.full(65, 1 / 65), DifferentialPrivacy(1.0), structure=Product.over(far))
    with pytest.raises(DesignError, match="has no algorithm for 'metric'"):
        design(p, MetricPrivacy(1.0, ((0, 1, 1.0),)), structure=Product())


PLAN = """
[source]
file = "data.csv"
codebook = "codebook.toml"

[privacy]
model = "differential"
epsilon = 1.0

[[blocks]]
variables = ["age", "work", "place"]
structure = "product"
privacy = { model = "differential", epsilon = 1.0 }
prior = "uniform"
"""

CODEBOOK = """
[[rules]]
age = "young"
work = ["full", "pension"]

[[variables]]
name = "age"
role = "key"
categories = ["young", "middle", "old"]

[[variables]]
name = "work"
role = "key"
categories = ["none", "part", "full", "pension"]

[[variables]]
name = "place"
role = "key"
categories = ["N", "E", "S", "W"]

[[variables]]
name = "town"
role = "key"
categories = ["A", "B"]
"""


@pytest.mark.parametrize("given", ["", 'given = ["town"]\n'])
def test_a_plan_releases_no_forbidden_combination(tmp_path, given):
    rng = np.random.default_rng(0)
    ages, works = ["young", "middle", "old"], ["none", "part", "full", "pension"]
    codes = rng.integers(0, (3, 4, 4, 2), (900, 4)).tolist()
    lines = [f"{ages[a]},{works[w if a else w % 2]},{'NESW'[p]},{'AB'[t]}" for a, w, p, t in codes]
    (tmp_path / "data.csv").write_text("\n".join(["age,work,place,town", *lines]) + "\n", "utf-8")
    (tmp_path / "codebook.toml").write_text(CODEBOOK, "utf-8")
    (tmp_path / "plan.toml").write_text(PLAN + given, "utf-8")
    release = run(load_plan(tmp_path / "plan.toml"), tmp_path / "out", release_key=ReleaseKey.from_seed(3))
    assert verify(tmp_path / "out").ok
    released = set(zip(*(release.frame()[name].to_pylist() for name in ("age", "work")), strict=True))
    assert len(released) == 10  # all pairs that are feasible
    assert not released & {("young", "full"), ("young", "pension")}
    law = release.mechanism["age"].matrix
    assert 0.98 < release.mechanism["age"].epsilon <= 1.0
    assert len(np.unique(law.weights[0])) > 2  # a product: not constant off the diagonal


def test_a_product_whose_law_could_not_be_written_is_refused_before_it_is_designed(tmp_path, monkeypatch):
    (tmp_path / "codebook.toml").write_text(CODEBOOK, "utf-8")
    (tmp_path / "plan.toml").write_text(PLAN, "utf-8")
    (tmp_path / "data.csv").write_text("age,work,place,town\nold,none,N,A\n", "utf-8")
    monkeypatch.setattr(Product, "traits", dataclasses.replace(Product.traits, most_cells=39))
    with pytest.raises(DesignError, match=r"too many combinations; got 40; wanted at most 39"):
        blocks.design_blocks(load_plan(tmp_path / "plan.toml"))
