"""The L2 and Kullback-Leibler losses: exact values, gradient, and the real perturb-estimate loop."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand.errors import DesignError
from postrand.mechanism.matrix import TransitionMatrix
from postrand.mechanism.sampling import AliasTables, draw
from postrand.objectives import KullbackLeiblerLoss, L2Loss
from postrand.support.randomness import words

seeds = st.integers(0, 2**32 - 1)


def case(seed, size=4, keep=0.6):
    rng = np.random.default_rng(seed)
    M = keep * np.eye(size) + (1 - keep) * rng.dirichlet(np.ones(size), size)
    return M, rng.dirichlet(np.ones(size)), rng


def paper_formula(M, counts):
    """CHR's last display of §3, term by term in exact rationals for a 2x2 or 3x3 matrix."""
    K, n = len(M), int(sum(counts))
    P = [[Fraction(x) for x in row] for row in M]
    inverse = exact_inverse(P)
    total = sum(
        Fraction(int(counts[i])) * P[i][line] * inverse[line][k] ** 2
        for i in range(K)
        for line in range(K)
        for k in range(K)
    )
    return total / n**2 - Fraction(1, n)


def exact_inverse(P):
    K = len(P)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(K))] for i, row in enumerate(P)]
    for c in range(K):
        pivot = next(r for r in range(c, K) if rows[r][c] != 0)
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [x / rows[c][c] for x in rows[c]]
        for r in range(K):
            if r != c:
                rows[r] = [x - rows[r][c] * y for x, y in zip(rows[r], rows[c], strict=True)]
    return [row[K:] for row in rows]


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("keep", [0.2, 0.7, 1 - 1e-9])
def test_value_is_the_papers_formula_in_exact_arithmetic(size, keep):
    M, _, rng = case(size, size, keep)
    law = TransitionMatrix.from_array(M)
    counts = rng.integers(1, 50, size)
    exact = float(paper_formula([[Fraction(int(w), 2**53) for w in row] for row in law.weights], counts))
    n = counts.sum()
    assert L2Loss(records=n).value(law.array, counts / n) == pytest.approx(exact, rel=1e-9)


@given(seeds)
def test_gradient_is_the_difference_of_the_value(seed):
    M, p, rng = case(seed, size=4, keep=0.5)
    loss = L2Loss(records=7)
    i, j = np.nonzero(~np.eye(4, dtype=bool))
    step, direction = 1e-5, rng.normal(size=len(i))

    def shifted(t):
        N = M.copy()
        N[i, j] += t * direction
        np.fill_diagonal(N, N.diagonal() + 1 - N.sum(axis=1))
        return N

    def slope(N):
        G = loss.gradient(N, p)
        return G[i, j] - G[i, i]

    numeric = (loss.value(shifted(step), p) - loss.value(shifted(-step), p)) / (2 * step)
    scale = np.abs(slope(M)).max() + abs(numeric)
    assert slope(M) @ direction == pytest.approx(numeric, abs=1e-6 * scale * 10)


@given(seeds)
def test_relabelling_released_categories_costs_nothing(seed):
    M, p, rng = case(seed)
    order = rng.permutation(4)
    assert L2Loss().value(M[:, order], p) == pytest.approx(L2Loss().value(M, p), rel=1e-9)
    assert L2Loss().value(M[np.ix_(order, order)], p[order]) == pytest.approx(L2Loss().value(M, p), rel=1e-9)


def test_to_first_order_it_is_twice_the_expected_changes():
    for small in (1e-3, 1e-6, 1e-9):
        M, p, _ = case(3, keep=1 - small)
        changes = p @ (1 - M.diagonal())
        assert L2Loss().value(M, p) == pytest.approx(2 * changes, rel=5 * small)


def test_identity_costs_nothing_and_singular_matrices_everything():
    assert L2Loss().value(np.eye(3), np.full(3, 1 / 3)) == 0
    assert L2Loss().value(np.full((3, 3), 1 / 3), np.full(3, 1 / 3)) == math.inf
    assert np.isinf(L2Loss().gradient(np.full((2, 2), 0.5), np.full(2, 0.5))).all()


@pytest.mark.statistical
@pytest.mark.parametrize("wrong", [1.0, 1.2])
def test_value_is_the_mean_of_the_perturb_estimate_loop(wrong):
    """Alpha 1e-6 two-sided by the central limit; 4000 releases tell a loss off by 20% apart (power > 0.999)."""
    counts = np.array([60, 25, 15])
    law = TransitionMatrix.from_array([[0.8, 0.15, 0.05], [0.1, 0.85, 0.05], [0.02, 0.08, 0.9]])
    n, releases = counts.sum(), 4000
    truth = np.repeat(np.arange(3), counts).astype(np.int8)
    codes = np.tile(truth, releases)
    random = words(bytes(range(32)), np.arange(len(codes), dtype=np.uint64), 0)[:, 0]
    released = draw(AliasTables.of(law), codes, random).reshape(releases, n)
    tallies = np.stack([(released == k).sum(axis=1) for k in range(3)], axis=1)
    estimates = tallies @ law.inverse() / n
    errors = ((estimates - counts / n) ** 2).sum(axis=1)
    z = (errors.mean() - wrong * L2Loss(records=n).value(law.array, counts / n)) / (errors.std() / math.sqrt(releases))
    assert (abs(z) < 4.9) == (wrong == 1.0)


def test_kullback_leibler_simulation_meets_its_second_order():
    M = np.array([[0.97, 0.02, 0.01], [0.03, 0.95, 0.02], [0.0, 0.05, 0.95]])
    p = np.array([0.5, 0.3, 0.2])
    loss = KullbackLeiblerLoss(records=100_000, draws=4000)
    found = loss.simulate(M, p)
    assert found.infinite == 0
    assert loss.value(M, p) == found.mean
    assert abs(found.mean - loss.second_order(M, p)) < 5 * found.standard_error
    assert loss.second_order(np.eye(3), p) == 0 == loss.value(np.eye(3), p)


def test_kullback_leibler_says_how_often_it_is_infinite():
    M = np.array([[0.7, 0.3], [0.3, 0.7]])
    found = KullbackLeiblerLoss(records=20, draws=2000).simulate(M, np.array([0.05, 0.95]))
    assert 0.2 < found.infinite < 0.8
    assert math.isfinite(found.mean)
    assert KullbackLeiblerLoss(records=20).value(np.full((2, 2), 0.5), np.array([0.5, 0.5])) == math.inf


@pytest.mark.parametrize("records", [0, -1, True, "many", math.inf])
def test_records_must_be_a_positive_number(records):
    with pytest.raises(DesignError, match="records is not a positive number"):
        L2Loss(records=records)


def test_kullback_leibler_refuses_what_is_not_a_file():
    with pytest.raises(DesignError, match="records is not"):
        KullbackLeiblerLoss(records=0)
    with pytest.raises(DesignError, match="draws is not"):
        KullbackLeiblerLoss(records=10, draws=0)
    with pytest.raises(DesignError, match="not whole counts"):
        KullbackLeiblerLoss(records=10).value(np.eye(2), np.array([0.33, 0.67]))
