"""The most truthful law at a given β: against an independent solver, and its bound against forged answers."""

import clarabel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csc_array, eye_array, hstack, kron, vstack

from postrand.designers.bistochastic import allocate, blocks, truthful
from postrand.errors import DesignError, PrivacyError
from postrand.privacy import Bistochastic

PRIORS = [
    [0.5, 0.5],
    [0.7, 0.2, 0.1],
    [0.6, 0.4, 0.0],
    [1.0, 0.0, 0.0, 0.0],
    [0.4, 0.3, 0.15, 0.1, 0.05],
]


def conic_optimum(prior, beta):
    """Return max Σ p P[u,u] by exponential cones: ``t_uv <= -P ln P``, ``Σ t >= β S ln S``, rows and columns 1."""
    p = np.asarray(prior)
    size, cells = p.size, p.size**2
    zero, one = csc_array((cells, cells)), eye_array(cells)
    ones = np.ones((1, size))
    sums = vstack([kron(eye_array(size), ones), kron(ones, eye_array(size))])
    cone_rows = []
    for k in range(cells):  # (t, P, 1) in the exponential cone: P exp(t / P) <= 1
        t, x = np.zeros((1, 2 * cells)), np.zeros((1, 2 * cells))
        t[0, cells + k], x[0, k] = -1, -1
        cone_rows += [t, x, np.zeros((1, 2 * cells))]
    A = csc_array(
        vstack(
            [
                hstack([sums, csc_array((2 * size, cells))]),
                hstack([-one, zero]),
                csc_array(np.r_[np.zeros(cells), -np.ones(cells)][None]),
                csc_array(np.vstack(cone_rows)),
            ]
        )
    )
    b = np.concatenate([np.ones(2 * size), np.zeros(cells), [-beta * size * np.log(size)], np.tile([0.0, 0, 1], cells)])
    cones = [
        clarabel.ZeroConeT(2 * size),
        clarabel.NonnegativeConeT(cells + 1),
        *[clarabel.ExponentialConeT()] * cells,
    ]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    q = np.concatenate([-np.diag(p).ravel(), np.zeros(cells)])
    solution = clarabel.DefaultSolver(csc_array((2 * cells, 2 * cells)), q, A, b, cones, settings).solve()
    assert "Solved" in str(solution.status)
    return -solution.obj_val


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("beta", [0.05, 0.5, 0.9])
def test_the_optimum_equals_a_conic_solver(prior, beta):
    best = truthful(prior, beta)
    assert best.value == pytest.approx(conic_optimum(prior, beta), abs=1e-6)
    assert best.gap < 1e-9


@given(
    st.lists(st.sampled_from([0.0, 1e-6, 0.1, 1.0, 3.0]), min_size=2, max_size=9).filter(lambda p: sum(p) > 0),
    st.sampled_from([0.0, 1e-6, 0.2, 0.62, 0.9, 0.999, 1 - 1e-6]),
)
def test_every_answer_is_exact_feasible_and_proven(prior, beta):
    p = np.array(prior) / sum(prior)
    best = truthful(p, beta)
    (matrix,) = best.matrices
    assert Bistochastic(beta).check([matrix]).holds
    assert best.value == pytest.approx(float(p @ np.diag(matrix.array)), abs=1e-15)
    assert 0 <= best.gap < 1e-9


@given(st.integers(0, 10**6))
def test_no_bistochastic_law_beats_the_bound(seed):
    """Random mixtures of permutations at their own β never exceed the bound proven for that β."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 6))
    p = rng.dirichlet(np.ones(size))
    rival = np.zeros((size, size))
    for share in rng.dirichlet(np.full(6, 0.5)):
        rival[np.arange(size), rng.permutation(size)] += share
    rival = 0.5 * rival + 0.5 * np.eye(size)
    with np.errstate(divide="ignore", invalid="ignore"):
        beta = np.nansum(-rival * np.log(rival)) / size / np.log(size)
    assert float(p @ np.diag(rival)) <= truthful(p, max(beta - 1e-12, 0.0)).bound + 1e-12


def test_a_large_domain_is_solved_and_proven():
    best = truthful(np.random.default_rng(2).dirichlet(np.ones(300)), 0.62)
    assert best.gap < 1e-9
    assert best.beta >= 0.62


def test_beta_one_needs_a_power_of_two():
    assert truthful([0.9, 0.05, 0.05, 0.0], 1.0).value == 0.25
    with pytest.raises(PrivacyError, match="no exact matrix with this beta was found"):
        truthful([0.9, 0.05, 0.05], 1.0)


def test_a_shared_budget_is_spent_where_it_costs_least():
    priors = [np.array([0.9, 0.1]), np.full(6, 1 / 6), np.array([0.5, 0.3, 0.2])]
    best = allocate(priors, 0.5, weights=[1.0, 2.0, 1.0])
    assert Bistochastic(0.5).check(best.matrices).holds
    assert best.gap < 1e-9
    # Oracle: a grid of splits, each attribute solved on its own.
    most = np.log([2, 6, 3])
    grid = np.linspace(0, 0.9999, 41)
    values = np.array([[w * truthful(p, b).value for b in grid] for p, w in zip(priors, [1, 2, 1], strict=True)])
    found = max(
        values[0, i] + values[1, j] + values[2, k]
        for i in range(41)
        for j in range(41)
        for k in range(41)
        if grid[i] * most[0] + grid[j] * most[1] + grid[k] * most[2] >= 0.5 * most.sum()
    )
    assert found <= best.bound + 1e-12
    assert best.value - found < 0.02


def test_more_entropy_never_gives_more_truth():
    values = [truthful([0.5, 0.3, 0.2], beta).value for beta in np.linspace(0, 0.99, 12)]
    assert (np.diff(values) < 0).all()
    assert values[0] == 1.0
    rival = blocks([2, 1])
    assert truthful([0.2, 0.3, 0.5], rival.beta).value > 0.2 * 0.5 + 0.3 * 0.5 + 0.5 - 1e-12


@pytest.mark.parametrize("prior", [[0.5, 0.6], [-0.1, 1.1], [np.nan, 1.0], [], [[0.5, 0.5]]])
def test_priors_that_are_none_are_refused(prior):
    with pytest.raises(DesignError, match="not a probability distribution"):
        truthful(prior, 0.5)


def test_betas_and_weights_that_mean_nothing_are_refused():
    with pytest.raises(PrivacyError, match="from 0 to 1"):
        truthful([0.5, 0.5], 1.5)
    for weights in ([1.0], [1.0, 0.0], [1.0, np.nan]):
        with pytest.raises(DesignError, match="one positive number for each attribute"):
            allocate([[0.5, 0.5], [0.5, 0.5]], 0.5, weights)
