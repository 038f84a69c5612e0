"""Directed rounding of exponentials and logarithms, against 200-digit arithmetic."""

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand.support import exact
from postrand.support.exact import add_upper, exp_float, exp_lower, exp_upper, format_upper, log_upper, within

epsilons = st.floats(1e-12, 36.0)
thirds = st.integers(300_000, 10**6).map(lambda k: Fraction(k, 27777))  # most have no end as decimals
ratios = st.fractions(Fraction(1), Fraction(2**53))


def true_exp(epsilon):
    with mpmath.workdps(200):
        return mpmath.exp(as_mpf(Fraction(epsilon)))


def as_mpf(value):
    return mpmath.mpf(value.numerator) / value.denominator


@given(epsilons | thirds)
def test_exponential_is_bracketed_tightly(epsilon):
    with mpmath.workdps(200):
        low, high = as_mpf(exp_lower(epsilon)), as_mpf(exp_upper(epsilon))
        assert low < true_exp(epsilon) < high
        assert (high - low) / high < mpmath.mpf(10) ** -57


@given(ratios)
def test_logarithm_is_at_or_above_and_within_one_float(ratio):
    with mpmath.workdps(200):
        true = mpmath.log(as_mpf(ratio))
        value = log_upper(ratio)
        assert mpmath.mpf(value) >= true
        assert mpmath.mpf(math.nextafter(value, -math.inf)) < true or value == 0.0


@given(ratios, epsilons)
def test_within_never_accepts_an_excess(ratio, epsilon):
    with mpmath.workdps(200):
        if within(ratio, epsilon):
            assert as_mpf(ratio) <= true_exp(epsilon)
        else:
            assert as_mpf(ratio) > true_exp(epsilon) * (1 - mpmath.mpf(10) ** -57)


def test_equal_rows_need_no_budget():
    assert within(Fraction(1), 0.0)
    assert not within(Fraction(1), -0.5)
    assert log_upper(Fraction(1)) == 0.0


@pytest.mark.parametrize(("value", "text"), [(1.0, "1"), (1.0000001, "1.00001"), (36.5, "36.5"), (math.inf, "inf")])
def test_printed_levels_are_rounded_up(value, text):
    assert format_upper(value) == text


@given(st.lists(st.floats(0, 50), max_size=6))
def test_a_sum_is_the_float_at_or_above_it(terms):
    exact, value = sum(map(Fraction, terms)), add_upper(*terms)
    assert Fraction(value) >= exact
    assert value == 0 or Fraction(math.nextafter(value, -math.inf)) < exact


def test_a_sum_with_an_infinite_term_is_infinite():
    assert add_upper(1.0, math.inf) == math.inf


@pytest.mark.parametrize("epsilon", [0.5, 1.0, Fraction(100, 3)])
def test_what_is_within_ends_at_the_lower_bound(epsilon):
    assert within(exp_lower(epsilon), epsilon)
    assert not within(exp_upper(epsilon), epsilon)


def test_levels_beyond_what_decimals_hold_are_cut_below_and_floats_end_at_e_to_the_700(monkeypatch):
    monkeypatch.setattr(exact, "_LARGEST", 50)  # the true limit is two million, and slow
    assert exp_lower(49) < exp_lower(50) == exp_lower(50.5) == exp_lower(1e300)
    assert exp_float(700.0) == exp_float(701.0) == exp_float(1e308) == math.exp(700.0)
    assert exp_float(699.0) == math.exp(699.0)


@pytest.mark.parametrize("ratio", [Fraction(1, 3), Fraction(1, 2**53), Fraction(2**53 + 1, 2**53), Fraction(10**400)])
def test_the_logarithm_of_any_ratio_is_the_float_at_or_above_it(ratio):
    with mpmath.workdps(200):
        true, value = mpmath.log(as_mpf(ratio)), log_upper(ratio)
        assert mpmath.mpf(math.nextafter(value, -math.inf)) < true <= mpmath.mpf(value)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0.0, 6, "0"), (1234567.0, 6, "1234570"), (0.1, 3, "0.101"), (0.5, 1, "0.5"), (-0.1, 1, "-0.1"), (2.0, 2, "2"),
     (1e-7, 2, "0.0000001"), (-math.inf, 6, "-inf"), (math.nan, 6, "nan")],
)  # fmt: skip
def test_printed_levels_are_never_below(value, digits, text):
    """0.1 as a float is a little above a tenth, and so is -0.1 below minus a tenth."""
    assert format_upper(value, digits) == text


def test_the_empty_sum_is_zero_and_what_is_no_number_is_infinite():
    assert (add_upper(), add_upper(math.nan), add_upper(-math.inf, 1.0)) == (0.0, math.inf, math.inf)
    assert add_upper(1.0, 2.0**-60) == math.nextafter(1.0, 2.0)
    assert add_upper(1.0, -(2.0**-60)) == 1.0
    assert add_upper(-1.0, -(2.0**-60)) == -1.0
    assert (within(Fraction(1, 2), -0.5), within(Fraction(1, 2), -1.0), within(Fraction(1), 5e-324)) == (
        True,
        False,
        True,
    )
