"""Rényi and zero-concentrated levels never round down: against sums with 40 digits, and within the stated tolerance."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from postrand.errors import PrivacyError
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.privacy.levels import _divergence, _on_chord, delta, renyi, zcdp
from postrand.support.exact import exp_lower


def rows_of(matrix):
    rows = sorted({tuple(int(w) for w in row) for row in matrix.weights})
    return [[mpmath.mpf(w) / UNIT for w in row] for row in rows]


def divergence(p, q, order):
    """D_a of two exact rows, with a = 1 the Kullback–Leibler divergence."""
    both = [(x, y) for x, y in zip(p, q, strict=True) if x or y]
    if order == 1:
        return sum(x * mpmath.log(x / y) for x, y in both)
    return mpmath.log(sum(x**order * y ** (1 - order) for x, y in both)) / (order - 1)


def largest_ratio(matrix):
    """sup D_a / a over pairs of rows: a grid of orders, refined by golden section around its best."""
    rows, best = rows_of(matrix), mpmath.mpf(0)
    exponents = [mpmath.mpf(k) / 2 for k in range(-10, 9)]
    for p in rows:
        for q in rows:
            if p is q:
                continue

            def ratio(u, p=p, q=q):
                order = 1 + mpmath.mpf(10) ** u
                return divergence(p, q, order) / order

            values = [ratio(u) for u in exponents]
            i = max(range(len(values)), key=values.__getitem__)
            low, high = exponents[max(i - 1, 0)], exponents[min(i + 1, len(values) - 1)]
            for _ in range(25):
                a, b = low + (high - low) * 2 / 5, low + (high - low) * 3 / 5
                low, high = (a, high) if ratio(a) < ratio(b) else (low, b)
            best = max(best, divergence(p, q, 1), *values, ratio((low + high) / 2))
    return best


def law(seed, keep, size=3):
    rng = np.random.default_rng(seed)
    return TransitionMatrix.from_array(keep * rng.dirichlet(np.ones(size), size) + (1 - keep) / size)


def largest_of_blocks(laws):
    """sup of the sum of the blocks' D_a / a, in long doubles: grids of orders, ever closer around the best."""
    pairs = []
    for matrix in laws:
        rows = np.unique(matrix.weights, axis=0).astype(np.longdouble) / UNIT
        i, k = np.nonzero(~np.eye(len(rows), dtype=bool))
        pairs.append((rows[i], np.log(rows[i]) - np.log(rows[k])))
    best = sum((p * ratio).sum(axis=1).max() for p, ratio in pairs)
    logs = np.linspace(-12, 4, 161, dtype=np.longdouble)
    for _ in range(5):
        above = np.exp(logs)[:, None]  # a - 1
        moments = [np.log1p((p * np.expm1(above[..., None] * ratio)).sum(axis=-1)) for p, ratio in pairs]
        found = sum((moment / above).max(axis=1) for moment in moments) / (1 + above[:, 0])
        place = found.argmax()
        best = max(best, found[place])
        logs = np.linspace(logs[max(place - 1, 0)], logs[min(place + 1, 160)], 161, dtype=np.longdouble)
    return best


def opposite(t):
    """Two rows of which one value is all but excluded by the other."""
    return TransitionMatrix.from_array([[0.5, 0.5 - t, t], [t, 0.5 - t, 0.5], [t, 0.5 - t, 0.5]])


def of_two(p, q):
    return TransitionMatrix.from_array([[p, 1 - p], [q, 1 - q]])


OF_ONE = TransitionMatrix([[3060513257434042, UNIT - 3060513257434042], [2**50 + 2, UNIT - 2**50 - 2]])  # ε = 1.0
LAWS = [
    *(randomised_response(size, epsilon) for size in (2, 4) for epsilon in (0.05, 0.3, 1.0, 4.0, 8.0)),
    *(law(seed, keep) for seed, keep in enumerate((0.03, 0.3, 0.9))),
]


@pytest.mark.parametrize("matrix", LAWS, ids=lambda m: f"{m.size}-{m.epsilon:.3g}")
def test_zcdp_is_never_below_the_truth_and_at_most_3e_6_above(matrix):
    with mpmath.workdps(40):
        truth = largest_ratio(matrix)
        assert truth <= zcdp(matrix) <= truth * (1 + 3e-6)


@pytest.mark.parametrize(
    ("laws", "tolerance"),
    [([randomised_response(size, epsilon)], 3e-6) for size, epsilon in ((2, 0.3), (4, 0.05), (2, 4.0), (4, 8.0))]
    + [([law(seed, keep)], 3e-6) for seed, keep in enumerate((0.03, 0.3, 0.9))]
    + [([opposite(t)], 3e-6) for t in (2.0**-30, 2.0**-10)]  # log ratios that vary much
    + [([of_two(0.45, 1 / 3)], 3e-6), ([of_two(1e-9, 1e-10)], 3e-6)]  # the largest between 1 and 2, and beyond 9
    + [([randomised_response(3, 1.0), randomised_response(2, 0.2)], 3e-6), ([law(3, 0.5), of_two(0.9, 0.2)], 3e-6)]
    + [([randomised_response(size, 1e-3)], 2e-4) for size in (2, 4)],
)
def test_rho_of_many_values_and_of_blocks_is_the_largest_ratio_of_their_sum(laws, tolerance):
    truth = largest_of_blocks(laws)
    assert truth * (1 - 1e-12) <= zcdp(laws) <= truth * (1 + tolerance)


def test_zcdp_of_small_levels_and_of_blocks():
    with mpmath.workdps(40):
        for matrix, tolerance in ((randomised_response(4, 1e-3), 2e-4), (randomised_response(2, 1e-3), 2e-4)):
            truth = largest_ratio(matrix)
            assert truth <= zcdp(matrix) <= truth * (1 + tolerance)
    one = randomised_response(3, 1.0)
    assert (zcdp(TransitionMatrix.identity(2)), zcdp(TransitionMatrix.from_array(np.full((2, 2), 0.5)))) == (np.inf, 0)
    assert zcdp([one, one]) == pytest.approx(2 * zcdp(one), rel=3e-6)


@pytest.mark.parametrize("order", [1.001, 1.5, 2.0, 30.0])
def test_renyi_is_never_below_the_truth(order):
    with mpmath.workdps(40):
        for matrix in LAWS:
            rows = rows_of(matrix)
            truth = max(divergence(p, q, mpmath.mpf(order)) for p in rows for q in rows if p is not q)
            assert truth <= renyi(matrix, order) <= truth * (1 + 1e-6) + 1e-10


def test_the_rounding_of_high_orders_and_of_rare_values_is_allowed_for():
    """An order of thousands takes the last bit of each ratio so many times; rare values have logarithms of 20."""
    with mpmath.workdps(40):
        for seed in range(12):
            matrix = law(seed, 0.002, 2)
            p, q = rows_of(matrix)
            truth = max(divergence(p, q, mpmath.mpf(20000)), divergence(q, p, mpmath.mpf(20000)))
            assert truth <= renyi(matrix, 20000.0) <= truth * (1 + 1e-9)
            rare = 10 ** np.random.default_rng(seed).uniform(-9, -3, 3)
            matrix = TransitionMatrix.from_array([[1 - x, x / 3, 1 - (1 - x) - x / 3] for x in rare])
            rows = rows_of(matrix)
            truth = max(divergence(p, q, 1) for p in rows for q in rows if p is not q)
            assert truth <= _divergence(matrix) <= truth * (1 + 1e-9)


def test_a_category_that_is_never_released_does_not_count():
    """A column of zeros tells nothing: the levels are those of the matrix without it."""
    with_zero = TransitionMatrix.from_array([[0.75, 0.25, 0.0], [0.25, 0.75, 0.0], [0.5, 0.5, 0.0]])
    p, q = (0.75, 0.25), (0.25, 0.75)
    for order in (1.5, 2.0, 10.0):
        truth = np.log(sum(a**order * b ** (1 - order) for a, b in zip(p, q, strict=True))) / (order - 1)
        assert renyi(with_zero, order) == pytest.approx(truth, rel=1e-12)
    assert zcdp(with_zero) == pytest.approx(zcdp(TransitionMatrix.from_array([p, q])), rel=3e-6)


def test_a_chord_is_never_below_its_ratio():
    """The largest (a-1) D_a / (a (a-1)) on a chord, in 40 digits: a grid of orders, refined around its best."""
    rng = np.random.default_rng(5)
    with mpmath.workdps(40):
        for _ in range(12):
            low = 1 + 10 ** rng.uniform(-3, 1)
            high, first = low + 10 ** rng.uniform(-3, 1), rng.uniform(0.1, 2)
            last = first * rng.uniform(1, high / low)
            found = _on_chord(low, first, high, last)
            low, high, first, last = map(mpmath.mpf, map(float, (low, high, first, last)))
            start, end = (low - 1) * first, (high - 1) * last
            best, step, middle = mpmath.mpf(0), (high - low) / 100, (low + high) / 2
            for _ in range(4):
                orders = [min(max(middle + step * k, low), high) for k in range(-50, 51)]
                ratios = {a: (start + (a - low) * (end - start) / (high - low)) / (a * (a - 1)) for a in orders}
                middle, step = max(ratios, key=ratios.__getitem__), step / 25
                best = max(best, ratios[middle])
            assert best <= found <= best * (1 + mpmath.mpf(10) ** -9)
    assert _on_chord(1.0, 0.25, 1.5, 0.5) == 0.5  # D_a grows, and a is at least 1


def test_zcdp_of_a_tiny_level_is_half_of_its_square_rounded_up():
    """ε²/2 (1 - ε²/12 ...) <= ρ <= ε²/2: both sides are equal to 19 digits here."""
    matrix = TransitionMatrix(
        np.array([[UNIT // 2 + 2**22, UNIT // 2 - 2**22], [UNIT // 2 - 2**22, UNIT // 2 + 2**22]])
    )
    with mpmath.workdps(40):
        p = mpmath.mpf(int(matrix.weights[0, 0])) / UNIT
        truth = mpmath.log(p / (1 - p)) ** 2 / 2
        assert truth <= zcdp(matrix) <= truth * (1 + mpmath.mpf(2) ** -48)


@pytest.mark.parametrize(
    ("matrix", "tolerance"),
    [(randomised_response(2, epsilon), 3e-6) for epsilon in (0.1, 1.0, 6.0)]
    + [(law(1, 0.5, 2), 3e-6), (TransitionMatrix.from_array([[0.01, 0.99], [0.001, 0.999]]), 3e-6)]
    + [(TransitionMatrix.from_array([[0.5, 0.5], [1e-6, 1 - 1e-6]]), 3e-6), (OF_ONE, 3e-6)]
    + [(TransitionMatrix.from_array([[0.45, 0.55], [1 / 3, 2 / 3]]), 3e-6)],  # the largest D_a / a between 1 and 2
)
def test_rho_of_two_values_is_the_largest_ratio_and_of_blocks_the_sum(matrix, tolerance):
    with mpmath.workdps(40):
        truth = largest_ratio(matrix)
        assert truth <= zcdp(matrix) <= truth * (1 + tolerance)
        rows = rows_of(matrix)
        assert 0 <= _divergence(matrix) / max(divergence(p, q, 1) for p in rows for q in rows) - 1 < tolerance / 10
    assert zcdp([matrix, TransitionMatrix.from_array(np.full((3, 3), 1 / 3))]) == pytest.approx(
        zcdp(matrix), rel=tolerance
    )
    assert zcdp([matrix, TransitionMatrix.identity(2)]) == np.inf


def test_delta_is_exact_where_rows_differ_by_single_units():
    """By all pairs with rational numbers: the pair that is largest in floats is often not the largest."""
    rng = np.random.default_rng(12)
    for epsilon in (0.0, 0.1, 1.0, 3.0):
        grown = exp_lower(epsilon)
        for _ in range(6):
            base = np.floor(rng.dirichlet(np.ones(4)) * UNIT).astype(np.int64)
            rows = base + rng.integers(-3, 4, (5, 4))
            rows[2:, 0] //= 25
            rows[:, 3] += UNIT - rows.sum(axis=1)
            exact = [
                sum(max(Fraction(int(a)) - grown * int(b), Fraction(0)) for a, b in zip(own, other, strict=True)) / UNIT
                for i, own in enumerate(rows)
                for k, other in enumerate(rows)
                if i != k
            ]
            square = np.hstack([rows, np.zeros((5, 1), dtype=np.int64)])
            found = Fraction(delta(TransitionMatrix(square), epsilon))
            assert max(exact) <= found
            assert found <= max(exact) * (1 + Fraction(1, 2**52))


def test_delta_of_levels_beyond_floats_counts_what_excludes_values():
    half = TransitionMatrix.from_array([[0.5, 0.5, 0], [0.25, 0.5, 0.25], [0, 0.5, 0.5]])
    for epsilon in (36.0, 50.0, 700.0, 701.0, 1e6):
        assert delta(half, epsilon) == 0.5
    assert delta(randomised_response(3, 30.0), 29.0) > 0
    assert 0 <= delta(TransitionMatrix.identity(1), 0.0) < 1e-59
    assert delta(TransitionMatrix.identity(1), 50.0) == 0
    assert delta(TransitionMatrix(np.array([[1, UNIT - 1], [0, UNIT]])), 200.0) == 1 / UNIT


def test_delta_counts_what_floats_take_for_nothing():
    """An entry is above e^ε times the other, and equal to it in floats: the difference is summed all the same."""
    many, epsilon = 10**15 + 77, 34.53877639491076
    matrix = TransitionMatrix(np.array([[many, UNIT - many], [1, UNIT - 1]]))
    with mpmath.workdps(40):
        truth = (many - mpmath.exp(mpmath.mpf(epsilon))) / UNIT
        assert 0 < truth <= delta(matrix, epsilon) <= truth * (1 + mpmath.mpf(2) ** -50)


def test_a_level_of_renyi_of_any_order_is_at_most_epsilon_and_that_of_noise_zero():
    matrix = randomised_response(3, 2.0)
    for order in (250.0, 299.0, 301.0, 400.0, 1e6, 1e300):
        assert matrix.epsilon * (1 - 5 / order) <= renyi(matrix, order) <= matrix.epsilon
    noise = TransitionMatrix.from_array(np.full((4, 4), 0.25))
    assert 0 <= renyi(noise, 2.0) < 1e-12
    for wrong in (1.0, 0.5, np.inf, np.nan, True, "2"):
        with pytest.raises(PrivacyError, match="order is not above 1"):
            renyi(matrix, wrong)
    for below in (-1e-300, np.nan, np.inf, "1"):
        with pytest.raises(PrivacyError, match="epsilon is not a finite number"):
            delta(matrix, below)
