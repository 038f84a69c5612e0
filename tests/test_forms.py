"""Laws that are constant off the diagonal are held as two weights a row: everything agrees with the dense matrix."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand.designers.bistochastic import round_bistochastic
from postrand.errors import EstimationError, SpecificationError
from postrand.mechanism import Block, Mechanism, matrix_storage
from postrand.mechanism.block_data import weights_form
from postrand.mechanism.constant_tables import ConstantTables
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.mechanism.matrix_classes import classed, classes_of, join, moves, part, parts
from postrand.mechanism.matrix_storage import CONSTANT_SIZE, MAX_DENSE, Constant, Dense
from postrand.mechanism.sampling import AliasTables, StayOrMove, draw, sampler
from postrand.objectives import MutualInformation
from postrand.objectives.information import information
from postrand.privacy import DifferentialPrivacy
from postrand.support.entropy import beta_lower, entropy_rate_lower


def constant(size, seed, zeros=0):
    """A law constant off the diagonal, rows of many kinds: rarely staying, hardly moving, and never moving."""
    rng = np.random.default_rng(seed)
    off = (rng.choice([1e-9, 0.3, 0.9, 1.0, 1.05], size) * (UNIT // size)).astype(np.int64)
    off = np.minimum(off + rng.integers(0, 1000, size), UNIT // (size - 1))
    off[rng.permutation(size)[:zeros]] = 0
    return TransitionMatrix.constant(UNIT - (size - 1) * off, off)


LAWS = [constant(64, 0), constant(65, 1, zeros=3), constant(100, 2), randomised_response(70, 2.0)]


@pytest.mark.parametrize("law", LAWS)
def test_both_forms_of_a_law_agree(law):
    assert isinstance(law.form, Constant)
    held, dense = law.form, Dense(law.weights)
    assert dense.weights.sum(axis=1).tolist() == [UNIT] * law.size
    np.testing.assert_array_equal(held.diagonal, dense.diagonal)
    np.testing.assert_array_equal(np.array(held.columns()), np.array(dense.columns()))
    np.testing.assert_array_equal(held.column(7), dense.column(7))
    for x in (np.random.default_rng(0).normal(size=law.size), np.random.default_rng(1).normal(size=(law.size, 3))):
        np.testing.assert_allclose(held.times(x), dense.times(x), atol=1e-13)
    assert law == TransitionMatrix(dense.weights)  # each law has one form, however it is made
    assert law.digest() == TransitionMatrix(dense.weights).digest() != LAWS[LAWS.index(law) - 1].digest()


@pytest.mark.parametrize("law", LAWS)
def test_solving_agrees_with_lapack_up_to_the_condition_number(law):
    found, array = law.form.factor(), law.array
    assert found.condition == pytest.approx(np.linalg.cond(array, 1), rel=1e-9)
    for shape in ((law.size,), (law.size, 4)):
        x = np.random.default_rng(2).normal(size=shape)
        near = {"rtol": 0, "atol": 1e-14 * found.condition * np.abs(x).max()}
        np.testing.assert_allclose(array @ found.solve(x), x, **near)
        np.testing.assert_allclose(array.T @ found.solve_transposed(x), x, **near)
        np.testing.assert_allclose(found.solve(x), np.linalg.solve(array, x), atol=1e-13 * found.condition**2)


def test_the_estimate_of_the_condition_number_of_dense_laws_never_exceeds_the_true_one():
    rng = np.random.default_rng(3)
    for size in (2, 5, 40, 90):
        law = TransitionMatrix.from_array(rng.dirichlet(np.ones(size), size))
        true = np.linalg.cond(law.array, 1)
        assert true / 10 < law.condition <= true * (1 + 1e-8)


def test_rows_alike_are_singular_and_one_that_never_tells_is_not():
    size = 64
    flat = TransitionMatrix.constant(np.full(size, UNIT // size), np.full(size, UNIT // size))
    assert flat.condition > 1e12
    with pytest.raises(EstimationError, match="cannot be inverted"):
        flat.factor()
    off = np.full(size, UNIT // (2 * size))
    off[0] = UNIT // size  # δ = 0 in one row: the closed form divides by it, the matrix is regular
    law = TransitionMatrix.constant(UNIT - (size - 1) * off, off)
    x = np.arange(size, dtype=float)
    np.testing.assert_allclose(law.array @ law.factor().solve(x), x, atol=1e-10)


@pytest.mark.parametrize("small", [1e-3, 1e-6, 1e-9, 1e-14])
def test_a_row_that_hardly_tells_costs_no_digits(small):
    """One δ far below the others: the closed form is refined or left, the matrix is as regular as before."""
    size = 80
    off = np.full(size, UNIT // (2 * size))
    off[5] = int(UNIT / size * (1 - small))
    law = TransitionMatrix.constant(UNIT - (size - 1) * off, off)
    x = np.random.default_rng(4).normal(size=(size, 2))
    exact = np.linalg.solve(law.array, x)
    assert law.condition == pytest.approx(np.linalg.cond(law.array, 1), rel=1e-6)
    assert law.condition < 400
    np.testing.assert_allclose(law.factor().solve(x), exact, atol=1e-11)
    np.testing.assert_allclose(law.factor().solve_transposed(x), np.linalg.solve(law.array.T, x), atol=1e-11)


@given(st.integers(2, 9), st.integers(0, 2**32))
def test_small_laws_are_dense_and_equal_to_the_constant_form(size, seed):
    law = constant(size, seed)
    assert isinstance(law.form, Dense)
    held = Constant(law.form.diagonal, law.weights[np.arange(size), np.arange(size) - 1])
    np.testing.assert_array_equal(held.weights, law.weights)
    np.testing.assert_array_equal(np.array(held.columns()), np.array(law.form.columns()))
    if (held.diagonal != held.off).all() and law.condition < 1e6:
        np.testing.assert_allclose(law.array @ held.factor().solve(np.eye(size)), np.eye(size), atol=1e-9)


@pytest.mark.parametrize("law", LAWS)
def test_the_sampler_without_tables_draws_the_law_to_the_unit(law):
    """Ends of the intervals of v: every other category has exactly ``off`` values, the category itself the rest."""
    made = StayOrMove.of(law.form)
    for i in (0, 1, 33, law.size - 1):
        share, others = int(law.form.off[i]), [j for j in range(law.size) if j != i]
        ends = [k * share for k in range(law.size)]
        values = [e for e in ends[:-1]] + [e - 1 for e in ends[1:]] if share else []
        stays = [ends[-1], UNIT - 1] if ends[-1] < UNIT else []
        words = np.array([v << 11 for v in values + stays], dtype=np.uint64)
        found = draw(made, np.full(words.size, i, dtype=np.int8), words)
        assert found.tolist() == (others * 2 if share else []) + [i] * len(stays)
        low = words | np.uint64(2047)  # the lowest bits decide nothing
        assert draw(made, np.full(words.size, i, dtype=np.int32), low).tolist() == found.tolist()
    kept = draw(made, np.full(5, -1, dtype=np.int8), np.arange(5, dtype=np.uint64) << np.uint64(60))
    assert kept.tolist() == [-1] * 5


def test_both_samplers_draw_one_law():
    """Chi-square with 69 degrees of freedom, α = 1e-6: 152.6; n makes a share that is off by 5% fail (power > 0.99)."""
    law, n, i = LAWS[3], 2_000_000, 4
    words = np.random.default_rng(5).integers(0, 2**64, n, dtype=np.uint64)
    expected = law.array[i] * n
    assert isinstance(law.form, Constant)
    for made in (StayOrMove.of(law.form), AliasTables.of(law)):
        counts = np.bincount(draw(made, np.full(n, i, dtype=np.int16), words), minlength=70)
        assert ((counts - expected) ** 2 / expected).sum() < 152.6
    made = StayOrMove.of(law.form)
    mutant = StayOrMove(made.off * 19 // 20)
    counts = np.bincount(draw(mutant, np.full(n, i, dtype=np.int16), words), minlength=70)
    assert ((counts - expected) ** 2 / expected).sum() > 152.6
    assert made.size == mutant.size == 70


def test_which_sampler_draws_depends_on_the_law_alone():
    for size, kind in ((256, AliasTables), (257, ConstantTables), (1024, ConstantTables), (1025, StayOrMove)):
        law = randomised_response(size, 3.0)
        assert isinstance(sampler(law), kind)
        assert isinstance(sampler(TransitionMatrix(law.weights)), kind)
    weights = randomised_response(1025, 3.0).weights
    weights[0, :2] += (1, -1)
    assert isinstance(sampler(TransitionMatrix(weights)), AliasTables)
    two_weights = Constant(np.array([UNIT - 299 * 2**40, *[UNIT - 299] * 299]), np.array([2**40, *[1] * 299]))
    assert isinstance(sampler(TransitionMatrix(two_weights.weights)), AliasTables)


@pytest.mark.parametrize("law", LAWS)
def test_privacy_information_and_entropy_agree_with_the_definitions(law):
    array, p = law.array, np.random.default_rng(6).dirichlet(np.full(law.size, 0.3))
    used = array.max(axis=0) > 0
    low = array.min(axis=0)[used]
    if low.min() > 0:
        assert float(law.ratio) == pytest.approx((array.max(axis=0)[used] / low).max(), rel=1e-12)
    else:
        assert law.ratio is None
    assert information(law, p) == pytest.approx(MutualInformation().value(array, p), rel=1e-11)
    assert law.entropy_rate == pytest.approx(entropy_rate_lower(law.weights), rel=1e-12)
    assert law.is_bistochastic == bool((law.weights.sum(axis=0) == UNIT).all())
    found = DifferentialPrivacy(1.0).check([law])
    assert found.entries is not None
    column = found.entries[0]
    spread = law.weights[:, column].max() / np.maximum(law.weights[:, column].min(), 1e-9)
    assert law.ratio is None or spread == pytest.approx(
        (law.weights.max(axis=0) / np.maximum(law.weights.min(axis=0), 1e-9)).max()
    )


def test_information_holds_where_a_row_never_moves_and_frequencies_are_zero():
    law = constant(80, 7, zeros=80)  # the identity
    p = np.zeros(80)
    p[:5] = 0.2
    assert information(law, p) == pytest.approx(math.log(5), rel=1e-12)
    mixed = constant(80, 8, zeros=20)
    assert information(mixed, p) == pytest.approx(MutualInformation().value(mixed.array, p), rel=1e-11)


def test_beta_of_a_large_law_comes_from_one_row():
    law = randomised_response(128, 3.0)
    assert law.is_bistochastic
    assert law.beta == pytest.approx(beta_lower([law.weights]), rel=1e-12)
    assert law.beta <= -float((law.array * np.log(law.array)).sum()) / (128 * math.log(128))
    assert round_bistochastic(np.full((64, 64), 1 / 64)).beta == 1.0


def test_classes_and_moves_need_no_dense_matrix():
    one, alone = constant(64, 1, zeros=63), TransitionMatrix.identity(64)
    assert classes_of(one).tolist() == [0] * 64
    assert classes_of(alone).tolist() == list(range(64))
    assert parts(one) == (one,)
    assert parts(alone) == (TransitionMatrix.identity(1),) * 64
    i, j = moves(one)
    assert (one.weights[i, j] > 0).all()
    assert len(set(i.tolist())) == 1  # one row that reaches every category
    assert sorted(j) == list(range(64))
    assert [k.tolist() for k in moves(alone)] == [list(range(64))] * 2


@pytest.mark.parametrize("seed", range(20))
def test_classes_are_those_of_the_graph_of_what_is_exchanged(seed):
    """Against a search from category to category, along moves in either direction; laws within classes, and joined."""
    rng = np.random.default_rng(seed)
    size = 1 + seed % 7
    kept = rng.random((size, size)) < 0.2
    made = np.where(kept | np.eye(size, dtype=bool), rng.random((size, size)) + 0.1, 0.0)
    law = TransitionMatrix.from_array(made / made.sum(axis=1, keepdims=True))
    wanted = [-1] * size
    for start in range(size):
        found = [start] if wanted[start] < 0 else []
        while found:
            i = found.pop()
            wanted[i] = max(wanted[:start], default=-1) + 1
            found += [j for j in range(size) if wanted[j] < 0 and (law.weights[i, j] or law.weights[j, i])]
    assert classes_of(law).tolist() == wanted
    insides = [[i for i in range(size) if wanted[i] == c] for c in range(max(wanted) + 1)]
    told = classed(law)
    assert [inside.tolist() for inside, _ in told] == insides
    assert [own.weights.tolist() for _, own in told] == [law.weights[np.ix_(i, i)].tolist() for i in insides]
    assert parts(law) == tuple(own for _, own in told)
    order = [i for inside in insides for i in inside]
    assert join([own for _, own in told]) == TransitionMatrix(law.weights[np.ix_(order, order)])
    assert np.array(moves(law)).T.tolist() == np.argwhere(law.weights > 0).tolist()


def test_one_unit_joins_two_classes_and_a_whole_class_is_a_law():
    weights = np.diag([UNIT - 1, UNIT, UNIT])
    weights[0, 1] = 1
    assert classes_of(TransitionMatrix(weights)).tolist() == [0, 0, 1]
    law = randomised_response(70, 1.0)
    assert part(law, np.arange(70)) == law
    assert part(TransitionMatrix.identity(70), np.array([3])) == TransitionMatrix.identity(1)
    assert part(TransitionMatrix(weights), np.array([0, 1])).weights.tolist() == [[UNIT - 1, 1], [0, UNIT]]


def test_a_law_of_fifty_thousand_categories_takes_room_for_two_weights_each():
    size = 50_000
    law = randomised_response(size, 9.0)
    assert isinstance(law.form, Constant)
    assert law.size == size > MAX_DENSE
    assert law.epsilon <= 9.0
    truth = np.random.default_rng(9).dirichlet(np.full(size, 0.01))
    mean = law.form.factor().solve_transposed(truth * law.diagonal + (1 - truth) * law.form.off / UNIT)
    np.testing.assert_allclose(mean, truth, atol=1e-12)
    text = json.dumps(Mechanism([Block(("a",), law)]).to_dict())
    assert len(text) < 40 * size
    assert Mechanism.from_dict(json.loads(text))["a"].matrix == law
    with pytest.raises(SpecificationError, match="too many categories for an operation that needs a dense matrix"):
        law.array  # noqa: B018


def test_each_law_is_written_in_one_form():
    law = randomised_response(CONSTANT_SIZE, 1.0)
    assert weights_form(Block(("a",), law)) == "diagonal"
    assert weights_form(Block(("a",), randomised_response(CONSTANT_SIZE - 1, 1.0))) == "rows"


@pytest.mark.parametrize(
    ("diagonal", "off", "told"),
    [
        ([[1.0]], [0], "expected two weights for each row"),
        ([UNIT], [0, 0], "expected two weights for each row"),
        ([], [], "expected two weights for each row"),
        ([0.5, 0.5], [0.5, 0.5], "not integers"),
        ([UNIT, UNIT + 1], [0, -1], "too large or negative"),
        ([UNIT, -1], [0, UNIT + 1], "too large or negative"),
        ([UNIT] * 4097, [UNIT // 4096 + 1] * 4097, "too large or negative"),
        ([UNIT] * 5, [0, 0, 0, 0, 2**62], "too large or negative"),  # 4 of them are 2^64: nothing in 64 bits
        ([UNIT, UNIT - 1], [0, 0], "row 1 does not sum"),
        ([UNIT] * 64, [1] * 64, "row 0 does not sum"),
    ],
)
def test_weights_that_are_no_law_are_refused(diagonal, off, told):
    with pytest.raises(SpecificationError, match=told):
        TransitionMatrix.constant(diagonal, off)


@pytest.mark.parametrize("size", [2, 9, 30])
def test_small_laws_solve_as_exactly_as_their_condition_allows(size):
    """Against Gauss elimination in rational numbers: the error of a solution is far below 1e-14 of the condition."""
    rng = np.random.default_rng(size)
    law = TransitionMatrix.from_array(
        0.999 * rng.dirichlet(np.ones(size), 1) + 0.001 * rng.dirichlet(np.ones(size), size)
    )
    assert isinstance(law.form, Dense)
    x = rng.normal(size=size)
    for array, solve in ((law.weights, law.factor().solve), (law.weights.T, law.factor().solve_transposed)):
        exact = np.array([float(v) for v in _eliminated([[Fraction(int(w), UNIT) for w in row] for row in array], x)])
        np.testing.assert_allclose(solve(x), exact, rtol=0, atol=1e-15 * law.condition * np.abs(exact).max())
    assert law.condition == pytest.approx(np.linalg.cond(law.array, 1), rel=1e-6)


def _eliminated(rows, x):
    """Solve in rational numbers, by elimination with the first entry that is not 0."""
    held = [[*row, Fraction(v)] for row, v in zip(rows, x.tolist(), strict=True)]
    for k in range(len(held)):
        pivot = next(i for i in range(k, len(held)) if held[i][k])
        held[k], held[pivot] = held[pivot], held[k]
        held[k] = [v / held[k][k] for v in held[k]]
        for i in range(len(held)):
            if i != k and held[i][k]:
                held[i] = [a - held[i][k] * b for a, b in zip(held[i], held[k], strict=True)]
    return [row[-1] for row in held]


def test_rows_that_cancel_are_singular_and_a_few_categories_less_are_dense(monkeypatch):
    """``δ = 2^-10`` in half of the rows and ``-2^-10`` in the others: the mean of 1/δ is 0, and so is an eigenvalue."""
    told = np.where(np.arange(64) < 32, 2**43, -(2**43))
    off = (UNIT - told) // 64
    law = TransitionMatrix.constant(off + told, off)
    assert law.condition == math.inf
    assert np.linalg.matrix_rank(law.array) == 63
    with pytest.raises(EstimationError, match="condition number inf"):
        law.factor()
    for size, kind in ((63, Dense), (64, Constant)):
        weights = np.full((size, size), 5)
        np.fill_diagonal(weights, UNIT - 5 * (size - 1))
        assert isinstance(TransitionMatrix(weights).form, kind)
        weights[0, 0], weights[0, 1] = weights[0, 1], weights[0, 0]
        assert isinstance(TransitionMatrix(weights).form, Dense)
        weights[0, 1] -= 3
        weights[0, 5] += 3
        assert isinstance(TransitionMatrix(weights).form, Dense)
    mixed = np.full(70, 5)
    mixed[::2] = UNIT // 70
    held = TransitionMatrix(Constant(UNIT - 69 * mixed, mixed).weights)
    assert isinstance(held.form, Constant)
    assert held.form.off.tolist() == mixed.tolist()
    flat = np.full(64, 5)
    flat[::2] = UNIT // 64  # what stays is exactly what moves
    assert isinstance(TransitionMatrix(Constant(UNIT - 63 * flat, flat).weights).form, Constant)
    monkeypatch.setattr(matrix_storage, "MAX_DENSE", 64)
    assert law.weights.shape == (64, 64)
    with pytest.raises(SpecificationError, match="got 70; wanted at most 64"):
        held.weights  # noqa: B018 -- asked for what it raises


def test_the_condition_number_of_two_weights_a_row_is_that_of_the_inverse():
    """In rational numbers: the largest column sum of M times that of ``D - D off 1ᵀ D / mean``."""
    size = 64
    off = np.where(np.arange(size) % 3 == 0, UNIT // 700, UNIT // 100)
    off[[5, 9]] = UNIT // 63 - 1000
    form = Constant(UNIT - (size - 1) * off, off)
    spread = [Fraction(int(d - o), UNIT) for d, o in zip(form.diagonal, form.off, strict=True)]
    mean = sum((1 / d for d in spread), Fraction(0)) / size
    moves = [Fraction(int(o), UNIT) for o in form.off]
    inverse = [
        sum((abs(int(k == j) / spread[k] - moves[k] / spread[k] / spread[j] / mean) for k in range(size)), Fraction(0))
        for j in range(size)
    ]
    exact = (max(spread) + sum(moves)) * max(inverse)
    assert TransitionMatrix.constant(form.diagonal, off).condition == pytest.approx(float(exact), rel=1e-11)
