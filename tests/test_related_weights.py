"""Weights of candidates: the nearest ones that have the wanted sums; sums that no weights have spoil no others."""

import itertools

import numpy as np
import pytest
import scipy

from postrand.completion.raking import Target, weighted_table
from postrand.completion.related_scores import settled
from postrand.completion.related_weights import Aim, weigh

SIZES, OFFSETS = (3, 2), np.array([0, 3, 5])
AIMS = [Aim(slice(0, 3), np.arange(3)), Aim(slice(3, 5), np.arange(3))]


def case(n, seed, many=6):
    """Candidates of two variables; columns 1, a number, and an indicator of 4 records."""
    rng = np.random.default_rng(seed)
    phi = np.column_stack([np.ones(n), rng.normal(size=n), np.arange(n) < 4]).astype(np.float32)
    drawn = np.stack([rng.integers(0, size, (n, many)) for size in SIZES], axis=2).astype(np.int16)
    return phi, drawn, np.full((n, many), 1 / many, np.float32)


def sums(phi, drawn, weights):
    """The sums of φ over the records of each code, by enumeration."""
    found = np.zeros((phi.shape[1], 5))
    for i, c, j in itertools.product(*map(range, drawn.shape)):
        found[:, OFFSETS[j] + drawn[i, c, j]] += weights[i, c] * phi[i]
    return found


def test_the_weights_are_the_nearest_that_have_the_sums():
    """Those nearest to equal ones; found here as a programme in the weights themselves."""
    phi, drawn, weights = case(12, 3, many=4)
    phi = phi[:, :2]
    rng = np.random.default_rng(4)
    goal = rng.dirichlet(np.full(4, 0.5), 12)
    wanted = sums(phi, drawn, goal)
    aims = [Aim(aim.rows, np.arange(2)) for aim in AIMS]
    weigh(phi, drawn, weights, OFFSETS, aims, wanted, [], SIZES)
    close = 1.0  # a miss of one record counts as met, in exchange for a score of 1

    def far(flat):
        w = flat.reshape(12, 4)
        return (w * np.log(4 * w)).sum() + ((sums(phi, drawn, w) - wanted) ** 2).sum() / (2 * close)

    ones = scipy.optimize.LinearConstraint(np.kron(np.eye(12), np.ones(4)), 1, 1)
    best = scipy.optimize.minimize(far, goal.ravel(), method="SLSQP", bounds=[(1e-9, 1)] * 48, constraints=ones)
    assert far(weights.ravel().astype(float)) == pytest.approx(best.fun, abs=1e-3)
    assert np.abs(weights - best.x.reshape(12, 4)).max() < 0.01


def test_sums_that_no_weights_have_spoil_no_others():
    phi, drawn, weights = case(2_000, 5)
    rng = np.random.default_rng(6)
    goal = rng.dirichlet(np.full(6, 3.0), 2_000)
    wanted = sums(phi, drawn, goal)
    tables = [Target((0, 1), weighted_table(drawn, goal.astype(np.float32), (0, 1), SIZES))]
    wanted[2] += [40, -20, -20, 60, -60]  # of 4 records
    weigh(phi, drawn, weights, OFFSETS, AIMS, wanted, tables, SIZES)
    missing = wanted - sums(phi, drawn, weights)
    assert np.abs(missing[:2]).max() < 3
    assert np.abs(weighted_table(drawn, weights, (0, 1), SIZES) - tables[0].counts).max() < 6
    assert weights.sum(axis=1) == pytest.approx(np.ones(2_000), abs=1e-5)


def test_scores_are_settled_where_variables_share_what_a_column_says():
    """Two variables that go together: each one's own regression on a column, taken for both, says too much."""
    rng = np.random.default_rng(7)
    phi = np.column_stack([np.ones(4_000), rng.normal(size=4_000)]).astype(np.float32)
    together, offsets = np.log([[0.4, 0.1], [0.1, 0.4]]), np.array([0, 2, 4])
    aims = [Aim(slice(0, 2), np.arange(2)), Aim(slice(2, 4), np.arange(2))]

    def chances(at, scores):
        tilt = phi[at] @ scores
        cells = np.stack([together[a, b] + tilt[:, a] + tilt[:, 2 + b] for a in (0, 1) for b in (0, 1)], axis=1)
        return scipy.special.softmax(cells, axis=1)

    def draw(at, scores, many):
        cell = (rng.random((len(phi[at]), many, 1)) > chances(at, scores).cumsum(axis=1)[:, None, :3]).sum(axis=2)
        return np.stack([cell // 2, cell % 2], axis=2).astype(np.int16)

    def sums(at, scores):
        p = chances(at, scores)
        return phi[at].T @ np.column_stack([p[:, 0] + p[:, 1], p[:, 2] + p[:, 3], p[:, 0] + p[:, 2], p[:, 1] + p[:, 3]])

    right = np.array([[0.0, 0.0, 0.0, 0.0], [0.0, 0.8, 0.0, 0.6]])
    start, every = 1.8 * right, slice(None)
    found = settled(phi, offsets, aims, lambda at: sums(at, right), start, draw)
    before, after = (np.abs(sums(every, s) - sums(every, right)).max() for s in (start, found))
    assert before > 300
    assert after < 100  # the draws of 2,000 records, two each, move a sum by 30
