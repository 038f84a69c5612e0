"""Dividing a record's ε: against a fine grid, concave cases with equal marginals, bounds, bad input."""

import itertools
import math

import numpy as np
import pytest

from postrand import load_plan
from postrand.designers import DesignWarning, General, UniformOffDiagonal
from postrand.designers.budget import BudgetShare, allocate, curve_of, floors, information_curve
from postrand.errors import DesignError
from postrand.mechanism.matrix import randomised_response
from postrand.objectives import EstimatorVariance, ExpectedChanges
from postrand.workflow.design_blocks import design_blocks


def concave(scale):
    return lambda e: (scale * (1 - math.exp(-e)),) * 2


def sigmoid(scale):
    """Convex near 0, as information is, then concave."""
    return lambda e: (scale * e * e / (1 + e * e),) * 2


def grid_best(curves, total, weights, steps=60):
    """Brute force over all divisions in units of total/steps."""
    values = [[w * c(k * total / steps)[0] for k in range(1, steps)] for w, c in zip(weights, curves, strict=True)]
    best = -math.inf
    for parts in itertools.product(range(1, steps), repeat=len(curves) - 1):
        rest = steps - sum(parts)
        if rest >= 1:
            best = max(best, sum(value[k - 1] for value, k in zip(values, [*parts, rest], strict=True)))
    return best


@pytest.mark.parametrize("total", [0.5, 2.0, 6.0])
@pytest.mark.parametrize("make", [concave, sigmoid])
def test_no_division_on_a_fine_grid_is_better(total, make):
    curves, weights = [make(1.0), make(2.0), make(0.7)], [1.0, 1.0, 3.0]
    found = allocate(curves, total, weights, [total / 60] * 3)
    best = grid_best(curves, total, weights)
    assert found.value >= best * (1 - 1e-3)
    assert found.bound >= max(best, found.value)
    assert math.fsum(found.epsilons) <= total * (1 + 1e-12)


def test_marginal_information_is_equal_where_curves_are_concave():
    found = allocate([concave(1.0), concave(2.0), concave(4.0)], 6.0)
    assert max(found.marginals) == pytest.approx(min(found.marginals), rel=1e-3)
    # 1 e^-a = 2 e^-b = 4 e^-c with a + b + c = 6
    assert found.epsilons == pytest.approx((2 - math.log(2), 2.0, 2 + math.log(2)), abs=2e-3)


def test_equal_shares_are_not_always_best():
    """Two curves that are convex near 0: all to one is better than half each, where marginals are equal too."""
    found = allocate([sigmoid(1.0)] * 2, 0.5, least=[1e-3] * 2)
    assert max(found.epsilons) > 0.49
    assert found.value > 2 * sigmoid(1.0)(0.25)[0] * 1.5


def test_information_of_designed_matrices_is_divided():
    priors = [np.array([0.5, 0.5]), np.array([0.4, 0.3, 0.2, 0.1])]
    curves = [information_curve([(1.0, p, None)], UniformOffDiagonal()) for p in priors]
    found = allocate(curves, 3.0, least=[3.0 / 40] * 2)
    assert found.value >= grid_best(curves, 3.0, [1, 1], 40) * (1 - 2e-3)
    assert found.bound <= found.value * 1.01


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([concave(1.0)], 0.0), "the budget to divide is not positive"),
        (([concave(1.0)], 1.0, [0.0]), "a weight is not positive"),
        (([concave(1.0)], 1.0, [1.0], [0.0]), "a budget of zero"),
        (([concave(1.0)] * 2, 1.0, [1.0] * 2, [0.6] * 2), "the least shares exceed the budget"),
        (([], 1.0), "there is no variable to share"),
    ],
)
def test_bad_divisions_are_refused(arguments, message):
    with pytest.raises(DesignError, match=message):
        allocate(*arguments)


@pytest.mark.parametrize(
    "arguments", [{"weight": 0.0}, {"weight": -1.0}, {"least": -0.1}, {"weight": math.nan}, {"floor": 1.5}]
)
def test_bad_shares_are_refused(arguments):
    with pytest.raises(DesignError, match="share"):
        BudgetShare(**arguments)


def test_a_least_share_is_kept_where_the_optimum_would_take_it():
    shares = [BudgetShare(), BudgetShare(weight=5.0, least=0.2), BudgetShare(least=1.5)]
    curves, weights = [concave(1.0)] * 3, [share.weight for share in shares]
    free, kept = allocate(curves, 3.0, weights), allocate(curves, 3.0, weights, floors(shares, 3.0))
    assert free.epsilons[2] < 1.0
    assert kept.epsilons[2] == pytest.approx(1.5, rel=1e-9)
    assert kept.epsilons[2] >= 1.5
    assert kept.value < free.value
    assert floors([BudgetShare(least=3.0), BudgetShare()], 3.0)[1] == 0.0  # nothing remains, which allocate refuses


@pytest.mark.parametrize("total", [50.0, 150.0])
@pytest.mark.parametrize("count", [1, 3])
def test_a_budget_larger_than_laws_can_hold_is_divided_all_the_same(total, count):
    """No law in units of 2^-53 holds an ε above 36.7; what a share cannot use is left, within the bound."""
    priors = [np.array([0.5, 0.3, 0.15, 0.05]), np.full(12, 1 / 12), np.array([0.9, 0.1])][:count]
    curves = [information_curve([(1.0, p, None)], UniformOffDiagonal()) for p in priors]
    found = allocate(curves, total)
    everything = -sum(float(p @ np.log(p)) for p in priors)
    assert everything * (1 - 1e-3) < found.value <= found.bound <= everything * (1 + 1e-9)
    assert math.fsum(found.epsilons) <= total * (1 + 1e-12)


SKEWED = [np.array([0.5, 0.5]), np.array([0.6, 0.2, 0.1, 0.1]), np.full(9, 1 / 9)]


@pytest.mark.parametrize(
    ("structure", "objective"),
    [
        (UniformOffDiagonal(), EstimatorVariance()),
        (General(), EstimatorVariance()),
        (UniformOffDiagonal(), ExpectedChanges()),
    ],
)
@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (5.0, 1.0, 0.2)])
def test_a_cost_is_divided_as_a_fine_grid_divides_it(structure, objective, weights):
    curves = [curve_of([(1.0, p, objective)], structure) for p in SKEWED]
    total = 4.0
    found = allocate(curves, total, weights, [total / 40] * 3)
    best = grid_best(curves, total, weights, 40)
    assert found.value >= best - 2e-3 * abs(best)
    assert found.value <= found.bound <= 0
    assert math.fsum(found.epsilons) <= total * (1 + 1e-12)


def test_the_variance_of_randomised_response_is_what_is_divided():
    """By hand: ``Σ_j (1/α² (V - K) ...)`` is the objective's own value at each share; equal shares are worse."""
    cost = EstimatorVariance()
    curves = [curve_of([(1.0, p, cost)], UniformOffDiagonal()) for p in SKEWED]
    found = allocate(curves, 3.0, None, floors([BudgetShare()] * 3, 3.0))

    def by_hand(shares):
        laws = [randomised_response(p.size, e).array for p, e in zip(SKEWED, shares, strict=True)]
        return sum(cost.value(law, p) for law, p in zip(laws, SKEWED, strict=True))

    assert -found.value == pytest.approx(by_hand(found.epsilons), rel=1e-9)
    assert by_hand(found.epsilons) < by_hand([1.0] * 3) * 0.95


def test_every_share_gets_half_of_an_equal_one_unless_told_otherwise():
    curves = [information_curve([(1.0, np.full(s, 1 / s), None)], UniformOffDiagonal()) for s in (2, 3, 12)]
    kept = {
        floor: allocate(curves, 6.0, None, floors([BudgetShare(floor=floor)] * 3, 6.0)) for floor in (0.0, 0.5, 1.0)
    }
    assert min(kept[0.0].epsilons) < 0.2
    assert min(kept[0.5].epsilons) >= 1.0 - 1e-9
    assert kept[1.0].epsilons == pytest.approx((2.0,) * 3)
    assert kept[0.0].value > kept[0.5].value > kept[1.0].value


PLAN = """
[source]
file = "data.csv"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 3.0
[design]
objective = "OBJECTIVE"
[[blocks]]
variables = ["many"]
[[blocks]]
variables = ["few"]
SHARE
"""


def designed(folder, objective, share=""):
    books = "".join(
        f'[[variables]]\nname = "{name}"\nrole = "key"\ncategories = {[chr(97 + k) for k in range(size)]}\n'
        for name, size in (("many", 12), ("few", 2))
    )
    (folder / "codebook.toml").write_text(books, "utf-8")
    (folder / "plan.toml").write_text(PLAN.replace("OBJECTIVE", objective).replace("SHARE", share), "utf-8")
    (folder / "data.csv").write_text("many,few\na,b\n", "utf-8")
    return design_blocks(load_plan(folder / "plan.toml"))


def test_a_plan_shares_by_its_objective_and_keeps_floors(tmp_path):
    information = [block.matrix.epsilon for block in designed(tmp_path, "information")]
    assert information[1] == pytest.approx(0.75, rel=1e-6)  # half of an equal share
    variance = [block.matrix.epsilon for block in designed(tmp_path, "variance")]
    assert variance[1] > 0.76
    assert sum(variance) <= 3.0
    equal = designed(tmp_path, "information", 'privacy = { model = "share", floor = 1.0 }')
    assert equal[1].matrix.epsilon >= 1.5 * (1 - 1e-9)
    least = designed(tmp_path, "information", 'privacy = { model = "share", least = 1.25 }')
    assert least[1].matrix.epsilon >= 1.25 * (1 - 1e-9)


def test_a_share_that_keeps_almost_nothing_is_warned_of(tmp_path):
    with pytest.warns(DesignWarning, match=r"The share of few, ε = 0.0\d+, keeps .* almost nothing"):
        made = designed(tmp_path, "information", 'privacy = { model = "share", floor = 0.0 }')
    assert "almost nothing" in str(made[1])
    assert "almost nothing" not in str(made[0])
