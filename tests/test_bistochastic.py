"""Bistochastic laws: exact sums, guaranteed sides, decomposition, majorisation, parameterisations."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import chi2

from postrand.designers.bistochastic import (
    allocate,
    birkhoff,
    blocks,
    circulant,
    is_diagonally_dominant,
    majorises,
    reach_beta,
    round_bistochastic,
    transfer_matrix,
    tridiagonal,
    truthful,
)
from postrand.errors import DesignError, PrivacyError, SpecificationError
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.privacy import Bistochastic
from postrand.support.entropy import _dyadic_beta, _floor, beta_lower, column_excess, entropy_rate_lower, format_lower

ALPHA = 1e-6


def balance(array):
    """Scale rows and columns in turn until both sum to 1 to the last digits."""
    for _ in range(5000):
        array = array / array.sum(axis=0)
        array = array / array.sum(axis=1, keepdims=True)
        if np.abs(array.sum(axis=0) - 1).max() < 1e-14:
            break
    return array


@st.composite
def bistochastic(draw, max_size=7):
    """A mixture of permutations, so that many entries are zero."""
    size = draw(st.integers(1, max_size))
    shares = np.array(draw(st.lists(st.sampled_from([1e-6, 0.01, 0.3, 1.0, 7.0]), min_size=1, max_size=6)))
    array = np.zeros((size, size))
    for share in shares / shares.sum():
        array[np.arange(size), draw(st.permutations(range(size)))] += share
    return array


def is_exact(matrix):
    rows, columns = matrix.weights.tolist(), matrix.weights.T.tolist()
    return all(sum(line) == UNIT for line in (*rows, *columns))


def beta_to_50_digits(matrix):
    with mpmath.workdps(50):
        entries = [mpmath.mpf(w) / UNIT for row in matrix.weights.tolist() for w in row if w]
        return -mpmath.fsum(x * mpmath.log(x) for x in entries) / matrix.size / mpmath.log(matrix.size)


@given(bistochastic())
def test_rounding_gives_exact_rows_and_columns_close_to_the_floats(array):
    matrix = round_bistochastic(array)
    assert is_exact(matrix)
    assert (matrix.weights[array == 0] == 0).all()
    assert np.abs(matrix.array - array).max() <= 4 * (len(array) + 4) / UNIT
    assert round_bistochastic(matrix.array) == matrix


@given(hnp.arrays(float, (5, 5), elements=st.floats(0.01, 1)))
def test_dense_matrices_round_too(array):
    matrix = round_bistochastic(balance(array))
    assert is_exact(matrix)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([[0.6, 0.4], [0.5, 0.5]], r"column 0 does not sum to 1; got excess \+0.1"),
        ([[0.6, 0.5], [0.4, 0.5]], r"row 0 does not sum to 1; got excess \+0.1"),
        ([[1.5, -0.5], [-0.5, 1.5]], "a probability is negative"),
        ([[math.nan, 1.0], [1.0, 0.0]], "not finite"),
        ([[0.5, 0.5]], "must be square"),
    ],
)
def test_what_is_not_bistochastic_is_refused(array, message):
    with pytest.raises(SpecificationError, match=message):
        round_bistochastic(array)


def test_sums_that_wrap_around_are_no_law():
    """2,049 entries of 2^53 add up to 2^64 + 2^53, which 64 bits show as 2^53."""
    with pytest.raises(SpecificationError, match="row 0 does not sum"):
        TransitionMatrix(np.full((2049, 2049), UNIT))


def test_couplings_below_the_resolution_are_refused():
    """Two blocks of 4: four entries of 0.6 to 1 units lead out, seven of 0.4 units lead back."""
    array = np.kron(np.eye(2), np.full((4, 4), 0.25))
    array[[0, 1, 2, 3], [4, 5, 6, 7]] = np.array([1.0, 0.6, 0.6, 0.6]) / UNIT
    array[[4, 4, 5, 5, 6, 6, 7], [0, 1, 1, 2, 2, 3, 3]] = 0.4 / UNIT
    with pytest.raises(SpecificationError, match="coupled only by entries too small"):
        round_bistochastic(array)


def test_the_matrix_names_column_and_excess_when_asked_for_beta():
    matrix = TransitionMatrix.from_array([[0.6, 0.4], [0.5, 0.5]])
    assert not matrix.is_bistochastic
    with pytest.raises(PrivacyError, match=r"column 0 does not sum to 1.*excess of 0.1"):
        _ = matrix.beta
    finding = Bistochastic(0.1).check([TransitionMatrix.identity(2), matrix])
    assert (finding.holds, finding.level, finding.worst) == (False, 0.0, 1)
    assert "column 0" in finding.where


@given(bistochastic(), st.data())
def test_one_unit_moved_between_columns_is_refused(array, data):
    weights = round_bistochastic(array).weights.copy()
    if len(weights) == 1:
        return
    row = data.draw(st.integers(0, len(weights) - 1))
    source = int(weights[row].argmax())
    weights[row, source] -= 1
    weights[row, source - 1] += 1
    finding = Bistochastic(0.0).check([TransitionMatrix(weights)])
    assert not finding.holds
    assert "1.11e-16" in finding.where


@given(bistochastic())
def test_beta_is_a_bound_from_below_and_tight(array):
    matrix = round_bistochastic(array)
    truth = beta_to_50_digits(matrix) if matrix.size > 1 else mpmath.mpf(1)
    assert matrix.beta <= truth
    assert matrix.beta >= truth * (1 - mpmath.mpf("1e-12"))
    assert Bistochastic(matrix.beta).check([matrix]).holds


def test_beta_is_exact_on_powers_of_two():
    assert blocks([8]).beta == 1.0
    assert Fraction(blocks([2] * 4).beta) <= Fraction(1, 3) < Fraction(math.nextafter(blocks([2] * 4).beta, 1))
    assert blocks([4] * 4).beta == 0.5
    assert Bistochastic(0.5).check([blocks([4] * 4)]).holds
    assert not Bistochastic(math.nextafter(0.5, 1)).check([blocks([4] * 4)]).holds
    assert TransitionMatrix.identity(5).beta == 0.0
    assert TransitionMatrix.identity(1).beta == 1.0


@given(bistochastic(), st.randoms(use_true_random=False))
def test_beta_ignores_the_names_of_categories(array, random):
    matrix = round_bistochastic(array)
    rows, columns = list(range(matrix.size)), list(range(matrix.size))
    random.shuffle(rows)
    random.shuffle(columns)
    other = TransitionMatrix(matrix.weights[np.ix_(rows, columns)])
    assert other.beta == pytest.approx(matrix.beta, rel=1e-12)


def test_several_blocks_are_definition_2_and_a_joint_block_is_definition_3():
    a, b = blocks([2, 2, 2]), randomised_response(5, 1.0)
    ratio = (a.entropy_rate + b.entropy_rate) / (math.log(6) + math.log(5))
    finding = Bistochastic(0.5).check([a, b])
    assert finding.level == pytest.approx(ratio, rel=1e-12)
    joint = TransitionMatrix.from_array(np.kron(a.array, b.array))
    # A product law on the joint domain: entropies add up, so both definitions say the same.
    assert Bistochastic(0.5).check([round_bistochastic(joint.array)]).level == pytest.approx(ratio, rel=1e-9)
    assert f"of {math.log2(30):.3g} bits" in finding.sentence


def test_constraints_and_check_agree():
    model, rng = Bistochastic(0.7), np.random.default_rng(5)
    seen = set()
    for _ in range(60):
        array = balance(rng.random((4, 4)) ** rng.integers(1, 12) + 1e-6)
        if rng.random() < 0.3:
            array = np.linalg.matrix_power(array, 2)
            array[0] = np.roll(array[0], 1)
        feasible = model.constraints(4).excess(array) < 1e-9
        entropy = -(array * np.log(array)).sum() / 4
        holds = model.check([TransitionMatrix.from_array(array) if not feasible else round_bistochastic(array)]).holds
        assert holds == (feasible and entropy >= model.entropy_floor(4))
        seen.add(holds)
    assert seen == {True, False}


@pytest.mark.parametrize("beta", [-0.1, 1.1, math.nan, math.inf, "1", None, True])
def test_betas_that_mean_nothing_are_refused(beta):
    with pytest.raises(PrivacyError, match="not a number from 0 to 1"):
        Bistochastic(beta)


# RDF Table 1 (12 x 12), recomputed by the independent formula of beta_to_50_digits; the paper's printed values beside.
TABLE_1 = [
    (lambda: randomised_response(12, 5.0), 16.8, 17),
    (lambda: randomised_response(12, 3.0), 60.3, 60),
    (lambda: randomised_response(12, 1.0), 97.4, 97),
    (lambda: blocks([2] * 6), 27.9, 28),
    (lambda: blocks([3] * 4), 44.2, 56),  # 55.8 is k = 4
    (lambda: blocks([6] * 2), 72.1, 72),
    (lambda: tridiagonal(np.full(11, 0.1)), 23.6, 24),
    (lambda: tridiagonal(np.full(11, 0.3)), 40.6, 35),
    (lambda: tridiagonal(np.full(11, 0.4)), 39.9, 40),
    (lambda: circulant([0.9] + [0.1 / 11] * 11), 22.7, 21),
    (lambda: circulant([0.6] + [0.4 / 11] * 11), 65.7, 63),
    (lambda: circulant([0.2] + [0.8 / 11] * 11), 97.3, 93),
]


@pytest.mark.parametrize(("law", "percent", "printed"), TABLE_1)
def test_table_1_of_the_paper(law, percent, printed):
    matrix = law()
    assert is_exact(matrix)
    assert round(100 * matrix.beta, 1) == percent
    assert float(beta_to_50_digits(matrix)) == pytest.approx(matrix.beta, rel=1e-12)
    assert abs(percent - printed) < 12


def test_parameterisations_have_the_shape_of_the_paper():
    row = [0.5, 0.3, 0.2]
    assert np.allclose(circulant(row).array, [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]], atol=1e-15)
    t = tridiagonal([0.1, 0.7]).array
    assert np.allclose(t, [[0.9, 0.1, 0], [0.1, 0.2, 0.7], [0, 0.7, 0.3]], atol=1e-15)
    assert np.allclose(blocks([3, 1, 2]).array, _block_oracle([3, 1, 2]), atol=1e-15)


def _block_oracle(sizes):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    same = labels[:, None] == labels
    return same / same.sum(axis=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: tridiagonal([0.6, 0.5, 0.6]),
            r"alpha\[0\] \+ alpha\[1\] exceeds 1.*alpha\[1\] \+ alpha\[2\] exceeds 1",
        ),
        (lambda: tridiagonal([-0.1]), r"alpha\[0\] is outside"),
        (lambda: tridiagonal([math.nan]), "finite"),
        (lambda: circulant([0.5, 0.4]), "not a probability distribution"),
        (lambda: circulant([math.inf, 0.4]), "not a probability distribution"),
        (lambda: blocks([2, 0]), "class size is not a positive integer"),
        (lambda: blocks([]), "class size is not a positive integer"),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(SpecificationError, match=f"(?s){message}"):
        make()


@pytest.mark.parametrize(
    ("law", "start", "end"),
    [
        (lambda e: randomised_response(12, e), 30.0, 1e-3),
        (lambda q: circulant([q] + [(1 - q) / 11] * 11), 1.0, 1 / 12),
        (lambda a: tridiagonal(np.full(11, a)), 0.0, 0.33),
    ],
)
def test_the_parameter_for_a_wanted_beta_is_on_the_safe_side_and_tight(law, start, end):
    parameter = reach_beta(law, start, end, 0.4)
    assert law(parameter).beta >= 0.4
    assert law(parameter + (start - end) * 1e-9).beta < 0.4
    assert reach_beta(law, start, end, 0.0) == start
    with pytest.raises(PrivacyError, match="no parameter reaches"):
        reach_beta(law, start, end, 1.0)


@given(bistochastic())
def test_decomposition_is_exact_and_short(array):
    matrix = round_bistochastic(array)
    parts = birkhoff(matrix)
    size = matrix.size
    total = np.zeros((size, size), dtype=object)
    for share, permutation in zip(parts.shares.tolist(), parts.permutations, strict=True):
        assert sorted(permutation.tolist()) == list(range(size))
        assert share > 0
        total[np.arange(size), permutation] += share
    assert (total == matrix.weights).all()
    assert len(parts.shares) <= size * size - 2 * size + 2
    assert parts.matrix() == matrix


def test_decomposition_of_a_dense_matrix_stays_within_the_bound():
    matrix = round_bistochastic(balance(np.random.default_rng(3).random((30, 30))))
    parts = birkhoff(matrix)
    assert parts.matrix() == matrix
    assert len(parts.shares) <= 30 * 30 - 2 * 30 + 2
    with pytest.raises(SpecificationError, match="column 0 does not sum to 1"):
        birkhoff(TransitionMatrix.from_array([[0.6, 0.4], [0.5, 0.5]]))


@pytest.mark.statistical
def test_drawing_by_permutation_follows_the_matrix():
    """Alpha 1e-6; n = 400,000: a diagonal off by 0.01 gives a chi-square of about 400 against a limit near 40."""
    matrix = round_bistochastic(balance(np.random.default_rng(8).random((3, 3))))
    rng = np.random.default_rng(20240501)
    codes = rng.integers(-1, 3, 400_000)
    released = birkhoff(matrix).draw(codes, rng.integers(0, 2**64, codes.size, dtype=np.uint64))
    assert (released[codes < 0] == -1).all()
    observed = np.array([[((codes == i) & (released == j)).sum() for j in range(3)] for i in range(3)])
    limit = chi2.isf(ALPHA, 6)

    def statistic(law):
        expected = observed.sum(axis=1, keepdims=True) * law
        return ((observed - expected) ** 2 / expected).sum()

    assert statistic(matrix.array) < limit
    mutant = matrix.array + 0.01 * (np.eye(3) - 1 / 3) * 1.5
    assert statistic(mutant) > limit


@given(bistochastic(), st.data())
def test_bistochastic_matrices_lead_downwards_and_only_downwards(array, data):
    size = len(array)
    p = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.1, 1.0, 5.0]), min_size=size, max_size=size))) + 1e-3
    p /= p.sum()
    q = array.T @ p
    assert majorises(p, q)
    P = transfer_matrix(p, q)
    assert P.min() >= 0
    assert np.allclose(P.T @ p, q, atol=1e-12)
    assert np.allclose([P.sum(axis=0), P.sum(axis=1)], 1, atol=1e-12)


@given(st.lists(st.integers(0, 6), min_size=3, max_size=3), st.lists(st.integers(0, 6), min_size=3, max_size=3))
def test_majorisation_equals_brute_force_over_subsets(p, q):
    """The sum of the k largest is the largest sum of any k."""
    q[-1] += sum(p) - sum(q)

    def largest(x, k):
        return max(sum(c) for c in itertools.combinations(x, k))

    expected = all(largest(p, k) >= largest(q, k) for k in (1, 2, 3))
    assert majorises(p, q) == expected
    if not expected:
        with pytest.raises(SpecificationError, match="does not majorise"):
            transfer_matrix(p, q)


@pytest.mark.parametrize(("p", "q"), [([1, 2], [1]), ([1, math.nan], [1, 1]), ([1, 2], [1, 1]), ([], [])])
def test_vectors_that_cannot_be_compared_are_refused(p, q):
    with pytest.raises(SpecificationError):
        majorises(p, q)


@given(bistochastic())
def test_proposition_3(array):
    matrix = round_bistochastic(array)
    if is_diagonally_dominant(matrix):
        assert matrix.condition < math.inf
        assert abs(np.linalg.det(matrix.array)) > 0


def test_one_half_is_not_enough_for_proposition_3():
    half = TransitionMatrix.from_array([[0.5, 0.5], [0.5, 0.5]])
    assert not is_diagonally_dominant(half)
    assert half.condition > 1e12
    more = np.array([[UNIT // 2 + 1, UNIT // 2 - 1], [UNIT // 2 - 1, UNIT // 2 + 1]])
    assert is_diagonally_dominant(TransitionMatrix(more))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: reach_beta(lambda e: randomised_response(3, e), 30.0, 0.1, -0.1),
            PrivacyError,
            "beta is not a number",
        ),
        (lambda: reach_beta(lambda e: randomised_response(3, e), 30.0, 0.1, "x"), PrivacyError, "beta is not a number"),
        (lambda: truthful(["a", "b"], 0.5), DesignError, "the prior: not all entries are real numbers"),
        (lambda: allocate([[0.5, 0.5]], 0.5, ["a"]), DesignError, "weights: not all entries are real numbers"),
        (lambda: tridiagonal(["a"]), SpecificationError, "alpha: not all entries are real numbers"),
        (lambda: circulant(["a"]), SpecificationError, "the first row: not all entries are real numbers"),
        (lambda: blocks([True]), SpecificationError, "a class size is not a positive integer"),
        (lambda: blocks("ab"), SpecificationError, "a class size is not a positive integer"),
        (lambda: majorises(["a"], ["b"]), SpecificationError, "the first vector: not all entries are real numbers"),
    ],
)
def test_what_is_no_number_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


# -- entropies of exact laws -------------------------------------------------------------------------------------------


def nats(rows):
    """Return the mean entropy of rows of weights in nats, with 50 digits."""
    with mpmath.workdps(50):
        entries = [mpmath.mpf(w) / UNIT for row in rows for w in row if w]
        return -mpmath.fsum(x * mpmath.log(x) for x in entries) / len(rows)


def test_entropies_are_bounds_from_below_within_the_stated_tolerance():
    laws = [randomised_response(size, 1.3).weights for size in (2, 3, 7)] + [np.array([[UNIT // 3, UNIT - UNIT // 3]])]
    with mpmath.workdps(50):
        rates = [nats(law.tolist()) for law in laws]
        for law, rate in zip(laws, rates, strict=True):
            assert rate * (1 - mpmath.mpf(2) / 10**13) <= entropy_rate_lower(law) <= rate
        for count in (1, 2, 4):
            true = mpmath.fsum(rates[:count]) / mpmath.fsum(mpmath.log(law.shape[1]) for law in laws[:count])
            assert true * (1 - mpmath.mpf(4) / 10**13) <= beta_lower(laws[:count]) <= true
    assert beta_lower([]) == beta_lower([np.array([[UNIT]])]) == 1.0
    assert beta_lower([np.full((2, 2), UNIT // 2), np.array([[UNIT]])]) == 1.0  # one category has nothing to hide
    assert beta_lower([np.array([[UNIT, 0]])]) == 0.0  # one row, which both have


def test_a_law_of_powers_of_two_has_an_exact_share_of_bits():
    """By its bits: two of 2 values hide 1 and 0, four of 4 values 1.5, 1.75, ... of 2."""
    half, none = np.full((2, 2), UNIT // 2), np.eye(2, dtype=np.int64) * UNIT
    quarters = np.array([[UNIT // 2, UNIT // 4, UNIT // 8, UNIT // 8]] * 3 + [[UNIT // 4] * 4])
    assert _dyadic_beta([half]) == 1
    assert _dyadic_beta([half, none]) == Fraction(1, 2)
    assert _dyadic_beta([quarters]) == Fraction(3 * Fraction(7, 4) + 2, 4 * 2)
    assert _dyadic_beta([quarters, half, none]) == Fraction(Fraction(29, 16) + 1, 4)
    assert beta_lower([quarters]) == 29 / 32
    halves = [*(2**k for k in range(52, -1, -1)), 1]
    bits = sum(Fraction(w * (53 - w.bit_length() + 1), UNIT) for w in halves)
    assert _dyadic_beta([np.array([[*halves, *[0] * 10]])]) == bits / 6
    assert _dyadic_beta([np.array([[UNIT, 0, 0]])]) is None  # log2 3 is not whole
    assert _dyadic_beta([np.array([[UNIT // 2 + 1, UNIT // 2 - 1]])]) is None
    assert _dyadic_beta([half, np.array([[UNIT // 2 + 1, UNIT // 2 - 1]])]) is None


@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(2, 3), Fraction(1, 10), Fraction(7, 10), Fraction(1, 2)])
def test_a_share_is_rounded_down_by_less_than_a_float(value):
    assert Fraction(_floor(value)) <= value < Fraction(math.nextafter(_floor(value), 1))


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0.99999999, 6, "0.999999"), (0.62, 6, "0.62"), (0.999, 2, "0.99"), (1.0, 6, "1"), (0.0, 6, "0"), (0.1, 1, "0.1")],
)
def test_printed_shares_are_rounded_down(value, digits, text):
    assert format_lower(value, digits) == text


def test_the_column_farthest_from_one_is_named_whatever_its_side():
    law = np.array([[UNIT, 0, 0], [UNIT // 2, UNIT // 4, UNIT // 4], [UNIT // 2, UNIT // 4, UNIT // 4]])
    assert column_excess(law) == (0, Fraction(1))
    assert column_excess(law[:, [1, 2, 0]]) == (2, Fraction(1))
    less = np.array([[UNIT // 2, UNIT // 2, 0], [UNIT // 2, UNIT // 2, 0], [UNIT // 4, UNIT // 2, UNIT // 4]])
    assert column_excess(less) == (2, Fraction(-3, 4))
    assert column_excess(np.full((2, 2), UNIT // 2)) == (0, Fraction(0))
