"""Log-linear fits against Poisson regression, closed forms and the margins themselves."""

import itertools

import numpy as np
import pytest
import statsmodels.api as sm

from postrand.errors import UsageError
from postrand.risk import fitting
from postrand.risk.cells import KeyCodes, table
from postrand.risk.loglinear import fit, margins_of
from postrand.risk.tau import unique_risk


def random_table(seed=0, n=400, shape=(3, 2, 4)):
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.full(np.prod(shape), 0.8))
    number = rng.choice(joint.size, n, p=joint)
    codes = np.unravel_index(number, shape)
    return table(KeyCodes(tuple("abc"[: len(shape)]), shape, tuple(codes)))


def dense(found, shape):
    full = np.zeros(shape)
    full[tuple(found.cells.T)] = found.mu
    return full


def poisson_regression(cells, margins, allowed):
    """Fit the same model by Newton's method on dummy variables: an independent oracle."""
    everything = np.indices(cells.shape).reshape(len(cells.shape), -1).T[allowed]
    counts = np.zeros(cells.shape)
    counts[tuple(cells.codes.T)] = cells.counts
    columns = [np.ones(len(everything))]
    for margin in margins:
        for part in (p for r in range(1, len(margin) + 1) for p in itertools.combinations(margin, r)):
            for levels in itertools.product(*(range(1, cells.shape[j]) for j in part)):
                columns.append(np.all(everything[:, list(part)] == levels, axis=1).astype(float))
    design = np.unique(np.array(columns), axis=0).T
    return sm.GLM(counts.ravel()[allowed], design, family=sm.families.Poisson()).fit(tol=1e-12).mu


@pytest.mark.parametrize("model", ["independence", "two-way", [("a", "b"), "c"], [("a", "c"), ("b", "c")]])
def test_equals_poisson_regression(model):
    cells = random_table()
    found = fit(cells, model, tolerance=1e-9)
    assert found.converged
    allowed = np.zeros(cells.shape, dtype=bool)
    allowed[tuple(found.cells.T)] = True
    expected = poisson_regression(cells, found.margins, allowed.ravel())
    np.testing.assert_allclose(found.mu, expected, rtol=1e-6)  # the oracle stops at about 1e-8


def test_the_saturated_model_is_the_table():
    cells = random_table()
    np.testing.assert_allclose(fit(cells, "three-way").at(cells.codes), cells.counts, rtol=1e-12)


def test_structural_zeros_equal_regression_without_the_cells():
    cells = random_table(seed=2)
    rng = np.random.default_rng(0)
    keep = ~((cells.codes[:, 0] == 1) & (cells.codes[:, 2] == 3))
    records = np.repeat(cells.codes[keep], cells.counts[keep], axis=0)
    cells = table(KeyCodes(tuple("abc"), cells.shape, tuple(rng.permutation(records).T)))
    found = fit(cells, "independence", forbidden=[{"a": 1, "c": 3}], tolerance=1e-9)
    allowed = np.ones(cells.shape, dtype=bool)
    allowed[1, :, 3] = False
    expected = poisson_regression(cells, found.margins, allowed.ravel())
    np.testing.assert_allclose(found.mu, expected, rtol=1e-6)
    assert found.at(np.array([[1, 0, 3]])).tolist() == [0.0]


def test_independence_has_its_closed_form():
    cells = random_table(seed=4)
    counts = np.zeros(cells.shape)
    counts[tuple(cells.codes.T)] = cells.counts
    a, b, c = (counts.sum(axis=tuple(k for k in range(3) if k != j)) for j in range(3))
    expected = np.einsum("i,j,k->ijk", a, b, c) / counts.sum() ** 2
    np.testing.assert_allclose(dense(fit(cells, "independence"), cells.shape), expected, rtol=1e-10)


def test_margins_are_reproduced_and_order_does_not_matter():
    cells = random_table(seed=7, n=60, shape=(4, 3, 5))
    found = fit(cells, "two-way", tolerance=1e-8)
    full = dense(found, cells.shape)
    counts = np.zeros(cells.shape)
    counts[tuple(cells.codes.T)] = cells.counts
    for j in range(3):
        np.testing.assert_allclose(full.sum(axis=j), counts.sum(axis=j), atol=1e-8)
    turned = KeyCodes(tuple("cab"), (5, 4, 3), tuple(np.repeat(cells.codes, cells.counts, axis=0)[:, [2, 0, 1]].T))
    again = dense(fit(table(turned), "two-way", tolerance=1e-8), turned.shape)
    np.testing.assert_allclose(np.moveaxis(again, 0, 2), full, atol=1e-5)


def test_extrapolation_changes_the_sweeps_and_not_the_fit(monkeypatch):
    cells = random_table(seed=11, n=150, shape=(6, 5, 7))
    quick = fit(cells, "two-way", tolerance=1e-8)
    monkeypatch.setattr(fitting, "FIRST_EXTRAPOLATION", 10**9)
    plain = fit(cells, "two-way", tolerance=1e-8)
    assert quick.converged
    assert quick.iterations <= 0.7 * plain.iterations
    np.testing.assert_allclose(quick.mu, plain.mu, atol=1e-6)


def test_no_convergence_is_a_status():
    found = fit(random_table(), "two-way", tolerance=1e-12, max_iterations=2)
    assert (found.converged, found.iterations) == (False, 2)
    assert found.deviation > 1e-12


def test_models_are_checked():
    with pytest.raises(UsageError, match="did you mean 'two-way'"):
        margins_of("twoway", ["a"])
    with pytest.raises(UsageError, match="not a list of margins"):
        margins_of(3, ["a"])
    with pytest.raises(UsageError, match="no key variable 'agee'") as error:
        margins_of([("agee", "sex"), "rce"], ["age", "sex", "race"])
    assert len(error.value.problems) == 2
    with pytest.raises(UsageError, match="no key variable 'x'"):
        fit(random_table(), forbidden=[{"x": 0}])
    wide = KeyCodes(tuple("abcdef"), (100,) * 6, tuple(np.arange(100) for _ in range(6)))
    with pytest.raises(UsageError, match="too many cells"):
        fit(table(wide), [("a", "b")])


def test_record_risks_against_the_poisson_sums():
    """P(F=1|f=1) and E(1/F|f=1) summed over F = 1 + Poisson(λ(1-π))."""
    lam, pi = 3.2, 0.1
    terms = np.exp(-lam * (1 - pi)) * np.cumprod(np.r_[1.0, lam * (1 - pi) / np.arange(1, 80)])
    r1, r2 = unique_risk(np.array([lam * pi]), pi)
    assert r1[0] == pytest.approx(terms[0], rel=1e-12)
    assert r2[0] == pytest.approx((terms / np.arange(1, 81)).sum(), rel=1e-12)
    whole = unique_risk(np.array([0.3]), 1.0)
    assert (whole[0][0], whole[1][0]) == (1.0, 1.0)
