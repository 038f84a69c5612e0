"""The exact law: rounding, levels, refusals."""

import hashlib
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from postrand.errors import EstimationError, PrivacyError, SpecificationError, UsageError
from postrand.mechanism.matrix import UNIT, TransitionMatrix, check_epsilon, load_matrix, randomised_response
from postrand.mechanism.matrix_storage import Constant
from postrand.support.exact import within


@st.composite
def stochastic(draw, max_size=9):
    size = draw(st.integers(1, max_size))
    raw = draw(hnp.arrays(float, (size, size), elements=st.sampled_from([0.0, 1e-14, 1e-9, 0.01, 0.3, 1.0, 7.0])))
    raw[np.arange(size), np.arange(size)] += 0.5
    return raw / raw.sum(axis=1, keepdims=True)


@given(stochastic())
def test_rounding_keeps_rows_exact_zeros_zero_and_stays_close(array):
    matrix = TransitionMatrix.from_array(array)
    assert [sum(map(int, row)) for row in matrix.weights] == [UNIT] * len(array)
    assert (matrix.weights[array == 0] == 0).all()
    assert np.abs(matrix.array - array).max() <= (len(array) + 2) / UNIT


@given(stochastic())
def test_an_exact_law_is_kept_verbatim(array):
    matrix = TransitionMatrix.from_array(array)
    assert TransitionMatrix.from_array(matrix.array) == matrix


@given(stochastic(6), st.randoms(use_true_random=False))
def test_epsilon_ignores_the_order_of_categories(array, random):
    matrix = TransitionMatrix.from_array(array)
    rows, columns = list(range(matrix.size)), list(range(matrix.size))
    random.shuffle(rows)
    random.shuffle(columns)
    assert TransitionMatrix(matrix.weights[np.ix_(rows, columns)]).ratio == matrix.ratio


@given(stochastic(6))
def test_ratio_equals_brute_force_over_all_pairs(array):
    weights = TransitionMatrix.from_array(array).weights.tolist()
    size = len(weights)
    pairs = [(weights[i][j], weights[k][j]) for j in range(size) for i in range(size) for k in range(size)]
    infinite = any(a > 0 and b == 0 for a, b in pairs)
    expected = None if infinite else max(Fraction(a, b) for a, b in pairs if b)
    assert TransitionMatrix.from_array(array).ratio == expected


@pytest.mark.parametrize("size", [2, 3, 7, 100])
@pytest.mark.parametrize("epsilon", [1e-6, 0.05, 1.0, 5.0, 30.0])
def test_randomised_response_is_inside_and_cannot_be_improved_by_a_unit(size, epsilon):
    matrix = randomised_response(size, epsilon)
    assert within(matrix.ratio, epsilon)
    assert matrix.epsilon <= epsilon
    off = int(matrix.weights[0, 1]) - 1
    assert off == 0 or not within(Fraction(UNIT - (size - 1) * off, off), epsilon)
    assert np.allclose(matrix.array[0, 0], math.exp(epsilon) / (size - 1 + math.exp(epsilon)), rtol=1e-2)


def test_rounded_floats_of_the_textbook_matrix_fail_where_the_integer_law_holds():
    stay = math.e / (6 + math.e)
    printed = np.full((7, 7), (1 - round(stay, 10)) / 6)
    np.fill_diagonal(printed, round(stay, 10))
    assert not within(TransitionMatrix.from_array(printed).ratio, 1.0)
    assert within(randomised_response(7, 1.0).ratio, 1.0)


def test_zero_columns_do_not_count_but_mixed_columns_are_infinite():
    half = UNIT // 2
    unused = TransitionMatrix(np.array([[half, half, 0]] * 3))
    assert unused.epsilon == 0.0
    mixed = TransitionMatrix(np.array([[half, half, 0], [half, half, 0], [half, half - 1, 1]]))
    assert mixed.ratio is None
    assert mixed.epsilon == math.inf


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([[0.5, 0.5]], "must be square"),
        ([0.5, 0.5], "must be square"),
        ([[0.5, 0.4], [0.5, 0.5]], "row 0 does not sum to 1"),
        ([[1.1, -0.1], [0.5, 0.5]], "a probability is negative"),
        ([[0.5, 0.5], [-0.1, 1.1]], "row 1, column 0: a probability is negative; got -0.1"),
        ([[0.5, 0.5], [0.5, 0.5 + 1.1e-9]], "row 1 does not sum to 1"),
        ([[0.5, 0.5], [0.5, 0.5 - 1.1e-9]], "row 1 does not sum to 1"),
        (np.zeros((0, 0)), "must be square"),
        ([[np.nan, 1], [0.5, 0.5]], "not finite"),
    ],
)
def test_arrays_that_are_no_channel_are_refused(array, message):
    with pytest.raises(SpecificationError, match=message):
        TransitionMatrix.from_array(array)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.eye(2) * UNIT, "not integers"),
        (np.array([[UNIT + 1, -1], [0, UNIT]]), "outside 0..2"),
        (np.array([[UNIT, 1, -1]] * 3), "outside 0..2"),
        (np.array([[UNIT, 0], [UNIT, 1]]), "row 1 does not sum"),
        (np.array([UNIT]), "must be square"),
        (np.array([[UNIT, 0]]), "must be square"),
        (np.full((2049, 2049), UNIT), "row 0 does not sum"),  # 2^64 more than 2^53: the sum of 64 bits is right
        (np.array([[UNIT - 1, 0], [0, UNIT]]), "row 0 does not sum"),
        (np.array([[2**63, 2**63], [0, UNIT]], dtype=np.uint64), "outside 0..2"),
    ],
)
def test_weights_that_are_no_law_are_refused(weights, message):
    with pytest.raises(SpecificationError, match=message):
        TransitionMatrix(weights)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 37.0, "1", None])
def test_epsilons_that_no_law_holds_are_refused(epsilon):
    with pytest.raises(PrivacyError):
        check_epsilon(epsilon, 4)


@pytest.mark.parametrize("size", [2, 5, 1000])
def test_the_largest_epsilon_is_that_of_one_unit_off_the_diagonal(size):
    largest = TransitionMatrix.constant(np.full(size, UNIT - size + 1), np.full(size, 1))
    limit = math.log(UNIT - size + 1)
    assert largest.ratio == UNIT - size + 1
    assert randomised_response(size, limit).diagonal.max() <= largest.diagonal.max()
    with pytest.raises(PrivacyError, match="epsilon is too large"):
        randomised_response(size, math.nextafter(limit, 99))


def test_sizes_and_sums_are_right_up_to_their_limits():
    assert TransitionMatrix.identity(100_000).size == 100_000
    for size in (0, 100_001, 2.5, True):
        with pytest.raises(SpecificationError, match=r"wanted 1\.\.100000"):
            TransitionMatrix.identity(size)
        with pytest.raises(SpecificationError, match=r"wanted 1\.\.100000"):
            randomised_response(size, 1.0)
    for error in (9e-10, -9e-10):
        assert TransitionMatrix.from_array([[0.5, 0.5], [0.5, 0.5 + error]]).weights.sum(axis=1).tolist() == [UNIT] * 2
    with pytest.raises(SpecificationError) as refused:
        TransitionMatrix.from_array(np.full((12, 12), 0.5))
    assert str(refused.value).count("does not sum to 1") == 10


@pytest.mark.parametrize("size", [5, 65])  # sums of 64 bits of the second row wrap around, and look right
@pytest.mark.parametrize("many", [2**62, -(2**62)])
def test_two_weights_a_row_whose_sum_wraps_around_are_refused(size, many):
    off = np.zeros(size, dtype=np.int64)
    off[1] = many
    with pytest.raises(SpecificationError, match="a weight is too large or negative"):
        TransitionMatrix.constant(np.full(size, UNIT), off)


def test_two_weights_a_row_are_whole_numbers_in_one_row_each():
    assert TransitionMatrix.constant([0, UNIT], [UNIT, 0]).array.tolist() == [[0.0, 1.0], [0.0, 1.0]]
    assert TransitionMatrix.constant([UNIT], [0]) == TransitionMatrix.identity(1)
    for diagonal, off, message in (
        ([[UNIT, UNIT]], [[0, 0]], "expected two weights for each row"),
        ([UNIT, UNIT], [0.0, 0.0], "weights are not integers"),
        ([1.0 * UNIT, 1.0 * UNIT], [0, 0], "weights are not integers"),
    ):
        with pytest.raises(SpecificationError, match=message):
            TransitionMatrix.constant(diagonal, off)


def test_a_law_is_inverted_up_to_a_condition_number_of_a_million_millions():
    """``[[1/2 + d, 1/2 - d], [1/2 - d, 1/2 + d]]`` has the condition number 1/(2d)."""
    laws = [TransitionMatrix.from_array([[0.5 + d, 0.5 - d], [0.5 - d, 0.5 + d]]) for d in (2.0**-40, 2.0**-41)]
    assert [law.condition for law in laws] == pytest.approx([2.0**39, 2.0**40])
    assert laws[0].factor().condition < 1e12 < laws[1].condition
    with pytest.raises(EstimationError, match=r"condition number 1.1e"):
        laws[1].factor()


def test_the_ratio_is_the_largest_of_all_columns_though_their_ends_agree():
    """Largest weights all alike, or smallest ones, or both: the first column decides only where both are."""
    eighth = UNIT // 8
    for rows, ratio in (
        ([[2, 2, 4], [3, 4, 1], [4, 2, 2]], 4),  # every column has 4 at most; only the last has 1
        ([[1, 2, 5], [2, 1, 5], [2, 5, 1]], 5),  # every column has 1 at least; the first has 2 at most
        ([[2, 2, 4], [4, 2, 2], [2, 4, 2]], 2),
    ):
        assert TransitionMatrix(np.array(rows) * eighth).ratio == ratio


def test_a_value_cannot_be_changed_behind_its_back():
    source = np.array([[UNIT, 0], [0, UNIT]])
    matrix = TransitionMatrix(source)
    source[0] = 0
    assert matrix.weights[0, 0] == UNIT
    with pytest.raises(ValueError, match="read-only"):
        matrix.weights[0, 0] = 1
    large = TransitionMatrix.identity(64).form
    assert isinstance(large, Constant)
    for array in (large.diagonal, large.off):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_equality_hash_and_digest_agree():
    a, b = randomised_response(3, 1.0), randomised_response(3, 1.0)
    assert a == b
    assert hash(a) == hash(b)
    assert a.digest() == b.digest() != randomised_response(3, 1.1).digest()
    assert a != "a"


def test_singular_matrices_are_not_inverted():
    with pytest.raises(EstimationError, match="cannot be inverted"):
        TransitionMatrix.from_array(np.full((4, 4), 0.25)).inverse()
    matrix = randomised_response(4, 1.0)
    assert np.allclose(matrix.inverse() @ matrix.array, np.eye(4), atol=1e-12)
    assert TransitionMatrix.identity(3).condition == 1.0


@given(size=st.integers(2, 200), exponent=st.floats(-20, -9))
def test_a_tiny_epsilon_is_held_or_refused(size, exponent):
    epsilon = 10.0**exponent
    try:
        matrix = randomised_response(size, epsilon)
    except PrivacyError as error:
        assert "epsilon is too small for an exact matrix" in str(error)  # noqa: PT017 -- either outcome is right
        assert epsilon < size * (size + 1) / UNIT
    else:
        assert within(matrix.ratio, epsilon)


def test_no_uniform_law_of_three_categories_is_exact():
    with pytest.raises(PrivacyError, match="epsilon is too small for an exact matrix; got 1e-17; wanted >= 1e-15"):
        randomised_response(3, 1e-17)
    assert randomised_response(2, 1e-17).ratio == 1
    assert randomised_response(1, 1.0) == TransitionMatrix.identity(1)


def test_matrices_are_equal_only_with_the_same_weights():
    half = UNIT // 2
    one = TransitionMatrix(np.array([[half, half], [half, half]]))
    other = TransitionMatrix(np.array([[half, half], [half - 1, half + 1]]))
    assert one == TransitionMatrix(one.weights.copy())
    assert one != other
    assert one != TransitionMatrix.identity(2)
    assert one != TransitionMatrix(np.array([[UNIT, 0, 0]] * 3))
    assert (hash(one) == hash(TransitionMatrix(one.weights.copy())), one == "law") == (True, False)
    constant = randomised_response(3, 1.0)
    assert constant == randomised_response(3, 1.0)
    assert constant != randomised_response(3, 1.1)
    large = randomised_response(70, 1.0)  # kept as two numbers for each row
    turned = TransitionMatrix(np.roll(large.weights, 1, axis=0))
    assert (large == randomised_response(70, 1.0), large == randomised_response(70, 1.1)) == (True, False)
    assert (large == turned, turned == large) == (False, False)
    moved = large.weights.copy()
    moved[3, [5, 6]] += (1, -1)  # the diagonal is the same
    assert (large == TransitionMatrix(moved), TransitionMatrix(moved) == large) == (False, False)
    assert TransitionMatrix.identity(20_000) != TransitionMatrix.identity(2)  # of which the first is never dense


def test_weights_in_another_unit_are_refused():
    data = randomised_response(2, 1.0).to_dict()
    assert TransitionMatrix.from_dict(data) == randomised_response(2, 1.0)
    with pytest.raises(SpecificationError, match=r"unknown unit of the weights; got '?2\^-52'?; wanted"):
        TransitionMatrix.from_dict(data | {"unit": "2^-52"})


def test_the_digest_is_that_of_the_documented_bytes():
    """Dense: a line and the weights by rows; in constant form: the diagonal and the weights off it, little-endian."""
    dense = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    expected = b"postrand-matrix 2\n" + dense.weights.astype("<i8").tobytes()
    assert dense.digest() == hashlib.sha256(expected).hexdigest()
    constant = randomised_response(5_000, 3.0)
    diagonal, off = constant.weights.diagonal(), int(constant.weights[0, 1])
    parts = diagonal.astype("<i8").tobytes() + np.full(5_000, off, dtype="<i8").tobytes()
    assert constant.digest() == hashlib.sha256(b"postrand-matrix 5000 constant\n" + parts).hexdigest()


def test_rounding_moves_no_entry_by_more_than_its_share():
    """Of rows in rational numbers: two units and a half at most, also of the largest entry."""
    rows = np.random.default_rng(8).integers(1, 1000, (40, 40))
    found = TransitionMatrix.from_array(rows / rows.sum(axis=1, keepdims=True)).weights
    for row, law in zip(rows.tolist(), found.tolist(), strict=True):
        assert max(abs(Fraction(x * UNIT, sum(row)) - w) for x, w in zip(row, law, strict=True)) <= 2.5
    one = TransitionMatrix.from_array([[0.1] * 10] * 10)
    assert set(one.weights.ravel().tolist()) == {UNIT // 10, UNIT // 10 + 1}


@pytest.mark.parametrize("least", [0.1 - 9e-10, 0.1 + 9e-10])
def test_a_row_that_almost_sums_to_one_is_rounded_in_proportion(least):
    row = np.array([0.8, 0.1, least])
    found = TransitionMatrix.from_array([row] * 3).weights
    assert np.abs(found - UNIT * (row / row.sum())).max() <= 2


@pytest.mark.parametrize(
    ("units", "wanted"),
    [
        ((UNIT - 62, 10.75, 20.25, 30.5), (UNIT - 62, 11, 20, 31)),  # 61.5 of 62: the largest remainders
        ((UNIT - 62, 30.25, 20.75, 10.5), (UNIT - 62, 30, 21, 11)),
        ((UNIT - 31, 10.5, 20.5, 0.0), (UNIT - 31, 10, 21, 0)),  # of remainders alike, the larger entry; no zero
        ((UNIT - 31, 20.5, 10.5, 0.0), (UNIT - 31, 21, 10, 0)),
        ((UNIT - 31, 10.0, 21.0, 0.0), (UNIT - 31, 10, 21, 0)),
        ((UNIT - 11, 10.25, 0.75, 0.0), (UNIT - 11, 10, 1, 0)),  # an entry below one unit as well
    ],
)
def test_units_that_are_left_go_to_the_largest_remainders(units, wanted):
    found = TransitionMatrix.from_array([[x / UNIT for x in units]] * 4).weights
    assert found.tolist() == [list(wanted)] * 4


def test_columns_that_sum_to_one_and_rows_of_different_entropy(tmp_path):
    half = UNIT // 2
    law = TransitionMatrix(np.array([[UNIT, 0, 0], [0, half, half], [0, half, half]]))
    assert law.is_bistochastic
    assert law.entropy_rate == pytest.approx(2 / 3 * math.log(2), rel=1e-12)
    assert law.entropy_rate <= 2 / 3 * math.log(2)
    assert law.beta == pytest.approx(2 / 3 * math.log(2) / math.log(3), rel=1e-12)
    assert not TransitionMatrix(
        np.array([[half, half, 0], [0, half, half], [half, 0, half]])[[0, 0, 2]]
    ).is_bistochastic
    skewed = TransitionMatrix.from_array([[0.75, 0.25], [0.5, 0.5]])
    assert not skewed.is_bistochastic
    with pytest.raises(PrivacyError, match=r"column 0 does not sum to 1.*an excess of 0\.25"):
        skewed.beta  # noqa: B018 -- asked for what it raises
    law.save(tmp_path / "law.json")
    assert load_matrix(tmp_path / "law.json") == law
    with pytest.raises(UsageError):
        law.save(tmp_path / "law.json")
    skewed.save(tmp_path / "law.json", replace=True)
    assert load_matrix(tmp_path / "law.json") == skewed
