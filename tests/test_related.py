"""What perturbed variables have in common with unperturbed columns stays in completed copies."""

import dataclasses
import math

import numpy as np
import pytest
import scipy

from postrand.codebook import Codebook, Variable
from postrand.completion.related import relate, related_copy, seen_through, separated
from postrand.completion.related_basis import basis_of
from postrand.completion.related_fit import AT_ONCE, _maximum, curvature, fit_logit
from postrand.estimate.evidence_variables import Modelled, ModelVariable
from postrand.mixture import Draw, Evidence, Fit, Law, Settings
from postrand.mixture.packing import pack

RNG = np.random.default_rng


def variable(name, kind, size):
    return ModelVariable(name, kind, tuple(map(str, range(size))))


def book(*names):
    return Codebook(tuple(Variable(name, "key", ("0", "1")) for name in names))


def response(size, keep):
    return Law((0,), np.arange(size, dtype=np.int32)[:, None], keep, np.full(size, (1 - keep) / size))


def joint_law(keep):
    cells = np.array([[a, b] for a in range(2) for b in range(2)], np.int32)
    return Law((0, 1), cells, keep, np.full(4, (1 - keep) / 4))


def file(n, seed, keep=0.6, slope=1.5):
    """Two binary variables, jointly released; a number in 20 bins that depends on both."""
    rng = RNG(seed)
    first = rng.integers(0, 2, n)
    second = (rng.random(n) < np.where(first, 0.3, 0.6)).astype(int)
    number = slope * first - second + rng.normal(size=n)
    rank = (number.argsort().argsort() * 20 // n).astype(np.int32)
    cell = 2 * first + second
    released = np.where(rng.random(n) < keep, cell, rng.integers(0, 4, n)).astype(np.int32)
    exact = np.column_stack([np.full((n, 2), -1), rank]).astype(np.int32)
    none = np.zeros((0, 3, 20), bool)
    law = np.zeros(n, np.int32)
    told = Evidence(("a", "b", "y"), (2, 2, 20), exact, np.arange(n + 1), law, released, (joint_law(keep),), none)
    described = (variable("a", "perturbed", 2), variable("b", "perturbed", 2), variable("y", "bins", 20))
    return told, Modelled(described, (), book("a", "b")), np.column_stack([first, second]), number


def known_fit(evidence, table, copies):
    """Return a fit that knows the table of the two variables: a class for each cell."""
    theta = tuple(np.array([[1.0 - c, c] for c in codes]) for codes in ([0, 0, 1, 1], [0, 1, 0, 1]))
    draw = Draw(table.ravel(), theta)
    traces, occupied = np.zeros((1, 2, 1)), np.full((1, 2), 4)
    return Fit(evidence, Settings(4, 1, 2), 5, (draw,) * copies, traces, ("x",), occupied)


def completed(n, seed, copies=4, **options):
    told, described, true, number = file(n, seed, **options)
    inner, _, columns, codes = separated(told, described)
    table = np.bincount(2 * true[:, 0] + true[:, 1], minlength=4).reshape(2, 2) / n
    fit = known_fit(inner, table, copies)
    found = relate(fit, columns, codes)
    return [related_copy(found, fit, fit.copy(i), i) for i in range(copies)], fit, true, number


def slopes(codes, number):
    return np.linalg.lstsq(np.column_stack([np.ones(len(codes)), codes]), number, rcond=None)[0][1:]


def test_the_mixture_has_the_perturbed_variables_and_those_that_rules_link():
    told, described, *_ = file(50, 0)
    rules = np.ones((1, 3, 20), bool)
    rules[0, 0, 1], rules[0, 2, 3:] = False, False
    inner, held, columns, codes = separated(told, described)
    assert (inner.names, held.names, columns.names, codes.shape) == (("a", "b"), ("a", "b"), ("y",), (50, 1))
    inner, _, columns, _ = separated(dataclasses.replace(told, rules=rules), described)
    assert (inner.names, columns.names, inner.rules.shape) == (("a", "b", "y"), (), (1, 3, 20))


def test_the_law_of_one_variable_is_the_sum_over_the_others():
    told, described, *_ = file(40, 1, keep=0.5)
    inner = separated(told, described)[0]
    law = joint_law(0.5)
    matrix = law.keep * np.eye(4) + law.noise
    for place in range(2):
        likelihood = seen_through(inner, (), place)
        own = law.cells[:, place]
        for released, row in zip(inner.released, likelihood, strict=True):
            same = own == own[released]  # what the release shows of this variable
            wanted = [matrix[own == code][0][same].sum() for code in range(2)]
            assert row == pytest.approx(wanted, abs=1e-6)


def test_a_regression_through_a_law_finds_the_coefficients_that_made_the_categories():
    rng = RNG(3)
    phi = np.column_stack([np.ones(20_000), rng.normal(size=(20_000, 2))]).astype(np.float32)
    true = np.array([[0.2, 0.0, -0.2], [1.0, 0.0, -1.0], [0.0, 0.0, 0.0]])
    chance = scipy.special.softmax(phi @ true, axis=1)
    x = (chance.cumsum(axis=1) < rng.random((len(phi), 1))).sum(axis=1)
    released = np.where(rng.random(len(phi)) < 0.5, x, rng.integers(0, 3, len(phi)))
    likelihood = (0.5 * np.eye(3) + 0.5 / 3)[:, released].T.astype(np.float32)
    found = fit_logit(phi, np.array([0, 1, 2]), likelihood)
    centred = found.coefficients - found.coefficients.mean(axis=1, keepdims=True)
    assert np.abs(centred - true).max() < 0.12  # four standard errors of .03
    naive = fit_logit(phi, np.array([0, 1, 2]), np.eye(3, dtype=np.float32)[released])
    assert np.abs(naive.coefficients[1]).max() < 0.8  # taking released for true pulls the relation to 0


def test_what_says_nothing_is_pulled_to_nothing():
    """Over 12 files: about one in twenty has a source that seems to say something by chance, and is not pulled."""
    pulled = whole = 0.0
    for seed in range(12):
        rng = RNG(seed)
        phi = np.column_stack([np.ones(500), rng.normal(size=(500, 8))]).astype(np.float32)
        likelihood = np.eye(3, dtype=np.float32)[rng.integers(0, 3, 500)]
        found = fit_logit(phi, np.array([0] + [1] * 8), likelihood).coefficients[1:]
        free = _maximum(phi.astype(float), likelihood, np.full((9, 3), 1e-3), np.zeros((9, 3)))
        pulled, whole = pulled + (found**2).sum(), whole + (free[1:] ** 2).sum()
    assert pulled < 0.6 * whole


def test_completed_copies_keep_regressions_on_perturbed_variables():
    """Ordinary regression on copies: bias below 4 standard errors over 6 files, where the mixture alone has half."""
    differences, alone = [], []
    for seed in range(6):
        copies, fit, true, number = completed(1_500, seed)
        wanted = slopes(true, number)
        differences.append(np.mean([slopes(c, number) for c in copies], axis=0) - wanted)
        alone.append(np.mean([slopes(fit.copy(i), number) for i in range(4)], axis=0) - wanted)
    error = np.std(differences, axis=0, ddof=1) / math.sqrt(6)
    assert (np.abs(np.mean(differences, axis=0)) < 4 * error + 0.05).all()
    assert np.abs(np.mean(alone, axis=0)).max() > 0.4


def test_copies_keep_the_tables_of_the_mixture():
    copies, fit, *_ = completed(2_000, 9, copies=2)
    for number, codes in enumerate(copies):
        base = fit.copy(number)
        tables = [np.bincount(2 * c[:, 0] + c[:, 1], minlength=4) for c in (codes, base)]
        assert np.abs(tables[0] - tables[1]).max() < 4 * math.sqrt(500)  # picking one candidate of each record


def test_a_seed_gives_the_same_copies():
    first, *_ = completed(300, 2, copies=2)
    again, *_ = completed(300, 2, copies=2)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert (first[0] != first[1]).any()


def test_without_noise_of_the_release_copies_are_the_true_file():
    copies, _, true, _ = completed(200, 3, copies=2, keep=1.0)
    assert all((codes == true).all() for codes in copies)


def test_where_no_law_changes_a_value_there_is_nothing_to_relate():
    told, described, true, _ = file(200, 3)
    known = dataclasses.replace(told, exact=np.column_stack([true, told.exact[:, 2]]).astype(np.int32))
    inner, _, columns, codes = separated(known, described)
    assert relate(known_fit(inner, np.full((2, 2), 0.25), 2), columns, codes) is None


def test_a_regression_of_a_nearly_known_variable_ends_at_its_maximum():
    """Columns tell the category almost surely: whole steps of Newton's method go past the maximum, and stay there."""
    rng, n = RNG(9), 600
    group = rng.integers(0, 6, n)
    category = np.where(rng.random(n) < 0.97, group, rng.integers(0, 6, n))
    other = rng.integers(0, 4, n)
    first, second = ([(codes == k) * 1.0 for k in range(1, size)] for codes, size in ((group, 6), (other, 4)))
    columns = np.stack([*first, *second, *(a * b for a in first for b in second)], axis=1)
    columns = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    basis = np.column_stack([np.ones(n), columns]).astype(np.float32)
    likelihood = np.full((n, 6), 1e-4, np.float32)
    likelihood[np.arange(n), category] = 1.0
    found = fit_logit(basis, np.repeat([0, 1, 2, 3], [1, 5, 3, 15]), likelihood)
    chances = scipy.special.softmax(basis @ found.coefficients, axis=1)
    assert (chances.argmax(axis=1) == category).mean() > 0.95
    assert np.abs(found.coefficients).max() < 10


def test_the_basis_has_mean_zero_and_deviation_one():
    rng = RNG(0)
    codes = np.column_stack([rng.integers(0, 20, 5_000), rng.integers(0, 3, 5_000), rng.integers(0, 2, 5_000)])
    variables = [variable("y", "bins", 20), variable("c", "categories", 3), variable("d", "categories", 2)]
    basis = basis_of(codes.astype(np.int32), variables)
    assert basis.values[:, 0] == pytest.approx(1.0)
    assert basis.values[:, 1:].mean(axis=0) == pytest.approx(0.0, abs=1e-5)
    assert basis.values[:, 1:].std(axis=0) == pytest.approx(1.0, abs=1e-4)
    assert basis.left_out == ()
    few = basis_of(codes[:100].astype(np.int32), variables)
    assert few.values.shape[1] == 2
    assert few.left_out == ("c", "d")


def test_rules_hold_and_general_matrices_are_seen():
    """A law as a matrix, and one with a forbidden cell: candidates are drawn from the exact posterior."""
    from postrand.completion.related_loops import candidates

    cells = np.array([[0, 0], [0, 1], [1, 0]], np.int32)
    matrix = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.1, 0.6]])
    law = Law((0, 1), cells, 0.0, np.zeros(3), matrix)
    rules = np.ones((1, 2, 2), bool)
    rules[0] = [[False, True], [False, True]]
    n = 20_000
    told = Evidence(
        ("a", "b"), (2, 2), np.full((n, 2), -1, np.int32), np.arange(n + 1), np.zeros(n, np.int32),
        np.full(n, 2, np.int32), (law,), rules,
    )  # fmt: skip
    theta = np.array([[0.5], [0.5], [0.4], [0.6]])
    tilts = np.tile([1.0, 2.0, 1.0, 3.0], (n, 1))
    packed, group = pack(told)
    out = np.empty((n, 1, 2), np.int16)
    candidates(packed, group, np.ones(1), theta, tilts, np.zeros((n, 2), np.int16), out, RNG(1))
    share = np.array([0.5 * 0.4, 0.5 * 0.6 * 3, 0.5 * 2 * 0.4]) * matrix[:, 2]
    counts = np.array([(out[:, 0] == cell).all(axis=1).sum() for cell in cells])
    assert counts.sum() == n
    assert counts / n == pytest.approx(share / share.sum(), abs=0.015)  # four standard errors


def test_curvature_is_the_sum_over_the_records():
    rng = np.random.default_rng(5)
    n = AT_ONCE + 7
    phi, shares = rng.normal(size=(n, 3)), rng.dirichlet(np.ones(4), n)
    each = shares[:, :, None] * np.eye(4) - shares[:, :, None] * shares[:, None, :]
    expected = np.einsum("ia,ib,ixy->axby", phi, phi, each).reshape(12, 12)
    for found in curvature(phi, (shares, shares)):
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
