"""The least-loss design: against other solvers and closed forms, its certificate, and what it refuses."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from postrand.designers import LeastLoss, Prior, by_stratum, design, least_loss
from postrand.designers.recognition.curvature import MoveLoss
from postrand.designers.recognition.linear import cheapest
from postrand.designers.recognition.programme import Cells, Moves, diagonal_rows, recognition_rows
from postrand.errors import DesignError, PrivacyError
from postrand.mechanism.matrix import TransitionMatrix
from postrand.objectives import L2Loss, MutualInformation
from postrand.privacy import DifferentialPrivacy, KeyTypes, SpontaneousRecognition, Together

SHAPE = (2, 2, 2, 2, 3)
SHARES = ((0.9, 0.1), (0.85, 0.15), (0.8, 0.2), (0.7, 0.3), (0.6, 0.3, 0.1))


def paper_file(seed, records=2500):
    """A file like CHR's §4 example: independent keys give about 17 rare types and 5 rare triples."""
    p = np.ones(())
    for share in SHARES:
        p = np.multiply.outer(p, share)
    return np.random.default_rng(seed).multinomial(records, p.ravel()).reshape(SHAPE)


def scaled(d, model):
    """The value in records: n² l2."""
    return d.value * model.file.records**2


SMALL = SpontaneousRecognition(0.1, 2).on([[400, 90], [6, 120]])


def slsqp(model, gamma, start):
    """Minimise over all of M by SLSQP on the dense constraints: it shares the loss and C1's rows, not the search."""
    counts, K = model.file.counts, model.file.size
    p, n = counts / counts.sum(), counts.sum()
    rows = model.constraints(K)
    loss = L2Loss(records=1 / n)
    found = minimize(
        lambda x: loss.value(x.reshape(K, K), p),
        start.ravel(),
        jac=lambda x: loss.gradient(x.reshape(K, K), p).ravel(),
        bounds=[(gamma if i == j else 0, 1) for i in range(K) for j in range(K)],
        constraints=[
            {
                "type": "eq",
                "fun": lambda x: x.reshape(K, K).sum(axis=1) - 1,
                "jac": lambda x: np.kron(np.eye(K), np.ones(K)),
            },
            {"type": "ineq", "fun": lambda x: rows.b - rows.A @ x, "jac": lambda x: -rows.A.toarray()},
        ],
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    return found.fun if found.success else math.inf


@pytest.mark.parametrize("seed", range(4))
def test_small_designs_match_another_solver_from_many_starts(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(30, 200, (2, 3))
    counts.flat[rng.choice(6, 2, replace=False)] = rng.integers(1, 9, 2)
    model = SpontaneousRecognition(0.1, 2).on(counts)
    d = least_loss(model, min_diagonal=0.55)
    starts = [0.6 * np.eye(6) + 0.4 * rng.dirichlet(np.ones(6), 6) for _ in range(6)]
    best = min(slsqp(model, 0.55, start) for start in starts)
    assert model.check([d.matrix]).holds
    assert scaled(d, model) <= best * 1.001
    assert d.details["stationarity"] < 1e-6


def test_one_rare_combination_in_closed_form():
    """One cell of 6 records needs 10: 4 changes, spread so that no source pays more for the next than another."""
    d = least_loss(SMALL, reach="cover")
    M = d.matrix.array
    assert d.details["expected_changes"] == pytest.approx(4, abs=1e-6)
    assert M[2].tolist() == [0, 0, 1, 0]
    # Stationary: ∂/∂y of (1+x²)/(1-x) · U with x = y/U is equal at equal x, so the three sources share one x.
    x = 4 / 610
    np.testing.assert_allclose(M[[0, 1, 3], 2], x, rtol=1e-4)
    # Σ U ((1+x²)/(1-x) - 1) + what the receiver's own variance adds: 4 more records of loss |A_l|² - 1 = 0.
    closed = 610 * ((1 + x * x) / (1 - x) - 1) + 4
    assert scaled(d, SMALL) == pytest.approx(closed, rel=1e-6)
    assert d.bound <= d.value
    assert d.relative_gap < 1e-5


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_papers_example(seed):
    model = SpontaneousRecognition(0.1, 3).on(paper_file(seed))
    cells = model.file.incidence(model.key_sets)
    assert cells.shape == (48, 104)
    free = least_loss(model)
    floor = least_loss(model, min_diagonal=0.9)
    cover = least_loss(model, reach="cover")
    for d in (free, floor, cover):
        assert model.check([d.matrix]).holds
        assert d.details["stationarity"] < 1e-6
        assert d.bound <= d.value
    assert scaled(free, model) <= scaled(floor, model) * (1 + 1e-6)
    assert scaled(floor, model) <= scaled(cover, model) * (1 + 1e-6)
    assert floor.matrix.array.diagonal().min() >= 0.9 - 1e-6
    assert floor.relative_gap < 0.05
    assert cover.relative_gap < 1e-5
    # To first order l2 = 2 E[changes] / n²; CHR's printed pair (6.4e-7, 4 changes) would need 1 in place of 2.
    assert scaled(cover, model) / cover.details["expected_changes"] == pytest.approx(2, rel=0.02)
    assert MutualInformation().value(free.matrix.array, model.file.counts / 2500) > 0


def test_the_published_value_is_that_of_the_exact_law():
    d = least_loss(SMALL)
    p = SMALL.file.counts / SMALL.file.records
    assert d.value == L2Loss(SMALL.file.records).value(d.matrix.array, p)
    assert d.provenance == "confidential"
    assert design(Prior(p, "dp"), SMALL, L2Loss(), LeastLoss()).value == pytest.approx(d.value * SMALL.file.records)


def test_nothing_changes_where_nothing_is_rare():
    model = SpontaneousRecognition(0.1, 2).on([[40, 30], [20, 0]])
    d = least_loss(model)
    assert np.array_equal(d.matrix.array, np.eye(4))
    assert (d.value, d.bound, d.status) == (0, 0, "optimal")


def test_a_relabelling_can_meet_c1_at_no_loss():
    """Exchange types until no released triple is rare: a permutation, so the loss is 0 and C1 holds all the same."""
    model = SpontaneousRecognition(0.1, 3).on(paper_file(1))
    counts, members = model.file.counts, model.file.incidence(model.key_sets).toarray()
    rng, order = np.random.default_rng(0), np.arange(48)

    def missing(order):
        cell = counts[np.argsort(order)] @ members
        return np.where((cell > 0) & (cell < 10), 10 - cell, 0).sum()

    for _ in range(20_000):
        i, j = rng.integers(0, 48, 2)
        trial = order.copy()
        trial[[i, j]] = trial[[j, i]]
        if missing(trial) <= missing(order):
            order = trial
        if missing(order) == 0:
            break
    law = TransitionMatrix.from_array(np.eye(48)[order])
    assert model.check([law]).holds
    assert L2Loss(2500).value(law.array, counts / 2500) == 0
    assert not model.check([TransitionMatrix.identity(48)]).holds


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.55, 0.7, 0.9, 0.99]))
def test_first_order_bound_holds_for_every_matrix_with_that_diagonal(seed, gamma):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 7))
    stays = rng.uniform(gamma, 1, K)
    off = rng.dirichlet(np.full(K, 0.3), K) * (1 - np.eye(K))
    M = np.diag(stays) + off / off.sum(axis=1, keepdims=True) * (1 - stays)[:, None]
    p = rng.dirichlet(np.ones(K))
    rho = (1 - gamma) / gamma
    spill = rho**2 / (gamma * (1 - rho**2))
    factor = 1 + max(0, 1 - spill) ** 2
    assert L2Loss().value(M, p) >= factor * (p @ (1 - stays)) * (1 - 1e-12)


@given(st.integers(0, 2**32 - 1))
def test_the_sparse_hessian_is_the_exact_one_at_the_identity(seed):
    """The exact one by central differences of the gradient (error below 1e-6 at this step)."""
    rng = np.random.default_rng(seed)
    K, step = 5, 1e-4
    weights = rng.integers(1, 50, K).astype(float)
    moves = Moves.among(np.arange(K), np.arange(K))
    V = len(moves)
    loss = MoveLoss(moves, weights, weights)
    exact = np.array([(loss.gradient(step * e) - loss.gradient(-step * e)) / (2 * step) for e in np.eye(V)])
    flows = loss.flow_rows().A[:, :V].toarray()
    sparse = np.zeros((V + 2 * K, V + 2 * K))
    sparse[loss.pattern(V + 2 * K)] = loss.hessian(np.zeros(V))
    basis = np.vstack([np.eye(V), flows])
    symmetric = sparse + sparse.T - np.diag(sparse.diagonal())
    np.testing.assert_allclose(basis.T @ symmetric @ basis, exact, atol=1e-5)


@given(st.integers(0, 2**32 - 1))
def test_one_way_moves_have_the_loss_of_their_matrix_in_closed_form(seed):
    """Types 0..3 change into 4..6, type 7 not at all: value, gradient and Hessian diagonals against the matrix."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 50, 8).astype(float)
    moves = Moves.among(np.arange(4), np.arange(4, 7))
    loss = MoveLoss(moves, weights, weights)
    y = rng.uniform(0, 0.3, len(moves)) * weights[moves.rows]
    M = loss.matrix(y)
    assert loss.value(y) == pytest.approx(L2Loss(1 / weights.sum()).value(M, weights / weights.sum()), rel=1e-9)
    np.testing.assert_allclose(loss.gradient(y), loss.slope(M, moves), rtol=1e-8)
    A = np.linalg.inv(M)
    D, P = np.diag(weights @ M), A @ A.T
    wanted = [m.diagonal() for m in (A, P, A.T @ D @ A)] + [P.diagonal() * D.diagonal() * A.diagonal()]
    np.testing.assert_allclose(loss._diagonals(y), wanted, rtol=1e-9)


def test_types_that_do_not_move_are_left_out_of_the_inverse():
    rng = np.random.default_rng(4)
    weights = rng.integers(1, 50, 9).astype(float)
    moves = Moves.among(np.array([1, 3, 5]), np.array([1, 3, 5, 8]))
    loss = MoveLoss(moves, weights, weights)
    y = rng.uniform(0, 0.2, len(moves)) * weights[moves.rows]
    M = loss.matrix(y)
    assert loss.value(y) == pytest.approx(L2Loss(1 / weights.sum()).value(M, weights / weights.sum()), rel=1e-9)
    np.testing.assert_allclose(loss.gradient(y), loss.slope(M, moves), rtol=1e-8)
    A = np.linalg.inv(M)
    D, P = np.diag(weights @ M), A @ A.T
    wanted = [m.diagonal() for m in (A, P, A.T @ D @ A)] + [P.diagonal() * D.diagonal() * A.diagonal()]
    np.testing.assert_allclose(loss._diagonals(y), wanted, rtol=1e-9)


def test_types_without_records_keep_the_identity_s_rows_and_large_domains_are_restricted(monkeypatch):
    model = SpontaneousRecognition(0.1, 2).on([[400, 90, 0], [6, 120, 80]])
    notes = []
    for limit in (10_000, 10):
        monkeypatch.setattr(sys.modules[LeastLoss.__module__], "MANY_MOVES", limit)
        d = least_loss(model)
        assert model.check([d.matrix]).holds
        assert (d.matrix.weights[2] == TransitionMatrix.identity(6).weights[2]).all()
        notes.append((d.details["reach"], "reach = 'cover'" in d.message))
    assert notes == [("all", False), ("cover", True)]
    assert d.value == least_loss(model, reach="cover").value
    prior = Prior(model.file.counts / model.file.records)
    with pytest.raises(
        DesignError, match="every type can become every other type, and there are too many types; got 6 types"
    ):
        design(prior, Together((model, DifferentialPrivacy(6.0))), L2Loss(), LeastLoss())


def test_the_sparse_programme_is_c1():
    """Every feasible point of the rows meets C1 and the reverse, on random moves."""
    rng = np.random.default_rng(0)
    model = SpontaneousRecognition(0.1, 2).on(rng.integers(0, 12, (2, 2, 3)))
    cells = Cells(model.file, model.file.incidence(model.key_sets), 0.1)
    everyone = np.arange(12)
    moves, unit = Moves.among(everyone, everyone), np.maximum(model.file.counts, 1.0)
    pairs = np.array([(m, c) for m in model.rare_types() for c in range(cells.members.shape[1])])
    rows = recognition_rows(cells, moves, pairs, unit)
    seen = set()
    for keep in np.linspace(0, 1, 40):
        M = keep * np.eye(12) + (1 - keep) * rng.dirichlet(np.full(12, 2.0), 12)
        y = (unit[:, None] * M)[moves.rows, moves.columns]
        np.testing.assert_allclose(moves.matrix(y, unit), M, atol=1e-12)
        t = (model.file.counts @ M) @ cells.members.toarray()
        lhs = rows.A @ np.concatenate([y, t])
        C = len(t)
        np.testing.assert_allclose(lhs[:C], rows.low[:C], atol=1e-9)
        feasible = bool((lhs[C:] <= rows.high[C:] + 1e-12).all())
        assert feasible == (len(cells.violated(M, model.rare_types(), 1e-12)) == 0)
        seen.add(feasible)
    assert seen == {True, False}


def test_fewest_changes_are_those_of_a_transport_by_hand():
    cells = Cells(SMALL.file, SMALL.file.incidence(SMALL.key_sets), 0.1)
    moves, unit = Moves.among(np.arange(4), np.arange(4)), np.maximum(SMALL.file.counts, 1.0)
    parts = {
        "recognition": recognition_rows(cells, moves, cells.conditions(SMALL.rare_types(), 0.9), unit),
        "diagonal": diagonal_rows(moves, unit, 1 - 1e-12),
    }
    with pytest.raises(DesignError, match=r"no matrix meets these conditions together; got recognition \+ diagonal"):
        cheapest(np.ones(len(moves)), unit[moves.rows], parts)
    parts["diagonal"] = diagonal_rows(moves, unit, 0.5)
    # A rare record that leaves with probability q lowers both sides: 6 (1-q) + inflow >= 10 (1-q).
    _, least = cheapest(np.ones(len(moves)), unit[moves.rows], parts)
    assert least == pytest.approx(4, rel=1e-6)


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 6.0])
def test_with_differential_privacy_in_one_design(epsilon):
    both = Together((SMALL, DifferentialPrivacy(epsilon)))
    prior = Prior(SMALL.file.counts / SMALL.file.records, "confidential")
    d = design(prior, both, L2Loss(SMALL.file.records), LeastLoss())
    assert both.check([d.matrix]).holds
    assert d.matrix.epsilon <= epsilon
    assert d.value >= least_loss(SMALL).value
    rng = np.random.default_rng(1)
    for _ in range(200):  # no feasible matrix near it is better
        N = 0.99 * d.matrix.array + 0.01 * rng.dirichlet(np.full(4, 0.5), 4)
        if both.constraints(4).excess(N) <= 0:
            assert L2Loss(SMALL.file.records).value(N, prior.p) >= d.value * (1 - 1e-6)


@pytest.mark.parametrize("invariant", [(("a",),), (("a",), ("b",)), (("a", "b"),)])
def test_invariant_margins_in_the_same_programme(invariant):
    counts = np.array([[400, 90, 60], [6, 120, 80]])
    model = SpontaneousRecognition(0.1, 2).on(counts, ("a", "b"))
    d = least_loss(model, invariant=invariant)
    assert model.check([d.matrix]).holds
    released = (counts.ravel() @ d.matrix.array).reshape(2, 3)
    for names in invariant:
        left_out = tuple(axis for axis, name in enumerate("ab") if name not in names)
        np.testing.assert_allclose(released.sum(axis=left_out), counts.sum(axis=left_out), atol=1e-5)
    assert d.value >= least_loss(model).value * (1 - 1e-6)


def test_conflicting_conditions_are_named():
    model = SpontaneousRecognition(0.1, 2).on([[400, 90], [6, 120]], ("a", "b"))
    with pytest.raises(DesignError, match=r"got recognition \+ diagonal \+ invariant\. Next: drop or weaken"):
        least_loss(model, invariant=(("a", "b"),), min_diagonal=0.9)


def test_another_start_reaches_the_same_optimum():
    start = 0.8 * np.eye(4) + 0.2 * np.random.default_rng(2).dirichlet(np.ones(4), 4)
    assert least_loss(SMALL, start=start.tolist()).value == pytest.approx(least_loss(SMALL).value, rel=1e-6)


def test_strata_are_secure_alone_and_together():
    north, south = np.array([[400, 90], [6, 120]]), np.array([[100, 300], [250, 4]])
    model = SpontaneousRecognition(0.1, 2)
    designs = by_stratum(model, {"north": KeyTypes.of_counts(north), "south": KeyTypes.of_counts(south)})
    assert list(designs) == ["north", "south"]
    masses = []
    for counts, d in zip((north, south), designs.values(), strict=True):
        assert model.on(counts).check([d.matrix]).holds
        masses.append(counts.ravel() @ d.matrix.array)
    top = np.max([d.matrix.array.max(axis=0) for d in designs.values()], axis=0)
    assert (top <= 0.1 * np.sum(masses, axis=0)).all()


def test_relabelling_keys_and_categories_relabels_the_design():
    counts = np.array([[400, 90, 60], [6, 120, 80]])
    d = least_loss(SpontaneousRecognition(0.1, 2).on(counts))
    turned = least_loss(SpontaneousRecognition(0.1, 2).on(counts[::-1].T))
    order = np.arange(6).reshape(2, 3)[::-1].T.ravel()
    assert turned.value == pytest.approx(d.value, rel=1e-6)
    np.testing.assert_allclose(turned.matrix.array, d.matrix.array[np.ix_(order, order)], atol=1e-4)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1))
def test_random_files_are_designed_securely_or_refused(seed):
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(300, rng.dirichlet(np.full(12, 0.4))).reshape(2, 2, 3)
    model = SpontaneousRecognition(0.1, 2).on(counts)
    d = least_loss(model)
    assert model.check([d.matrix]).holds
    assert d.details.get("stationarity", 0) < 1e-4
    assert math.isfinite(d.value)


def test_what_is_refused():
    with pytest.raises(DesignError, match="min_diagonal is not a probability"):
        LeastLoss(min_diagonal=1.0)
    with pytest.raises(DesignError, match="unknown reach"):
        LeastLoss(reach="some")
    with pytest.raises(DesignError, match=r"the start is singular.*mix it with the identity"):
        LeastLoss(start=((0.5, 0.5), (0.5, 0.5)))
    with pytest.raises(DesignError, match="the start is not a transition matrix"):
        LeastLoss(start=((0.5, 0.6), (0.5, 0.5)))
    with pytest.raises(DesignError, match="start does not fit the key types; got 2; wanted 4"):
        least_loss(SMALL, start=((0.9, 0.1), (0.1, 0.9)))
    p = SMALL.file.counts / SMALL.file.records
    with pytest.raises(DesignError, match=r"no combination is frequent enough.*reach = 'all'"):
        least_loss(SpontaneousRecognition(0.1, 2).on([[5, 6], [7, 8]]), reach="cover")
    with pytest.raises(DesignError, match="no algorithm for 'information'"):
        design(p, SMALL, MutualInformation(), LeastLoss())
    with pytest.raises(DesignError, match="no algorithm for 'differential'"):
        design(p, DifferentialPrivacy(1.0), L2Loss(), LeastLoss())
    with pytest.raises(DesignError, match="prior does not fit the key types; got 3; wanted 4"):
        design([0.2, 0.3, 0.5], SMALL, L2Loss(), LeastLoss())
    with pytest.raises(PrivacyError, match="confidential frequencies"):
        design(p, SpontaneousRecognition(0.1, 2), L2Loss(), LeastLoss())
    with pytest.raises(PrivacyError, match="posterior 1/n"):
        least_loss(SpontaneousRecognition(0.1, 2).on([[1, 2], [3, 1]]))
