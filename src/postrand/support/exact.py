"""Comparisons of rationals with ``e^ε`` whose rounding always errs on the safe side.

``decimal`` computes ``exp`` and ``ln`` correctly rounded, so one unit in the last place brackets the true value.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

_DIGITS = 60
_CONTEXT = Context(prec=_DIGITS)
_LARGEST = 2_000_000
"""Close to the largest exponent that ``decimal`` can represent; the largest ratio of 50,000 blocks is below it."""


def exp_lower(epsilon: float | Fraction) -> Fraction:
    """Return a rational at or below ``e^epsilon``, within 1e-58 relative (beyond ε = 2,000,000: at or below only).

    >>> float(exp_lower(1.0)) == math.e and exp_lower(1.0) < exp_upper(1.0)
    True
    """
    return Fraction(_CONTEXT.next_minus(_CONTEXT.exp(_rounded(min(epsilon, _LARGEST), ROUND_FLOOR))))


def exp_float(epsilon: float) -> float:
    """Return ``e^epsilon`` as a float; beyond ε = 700, the limit of floats, ``e^700``: constraints only get stricter.

    >>> exp_float(1.0) == math.e, math.isfinite(exp_float(1e308))
    (True, True)
    """
    return math.exp(min(epsilon, 700.0))


def exp_upper(epsilon: float | Fraction) -> Fraction:
    """Return a rational at or above ``e^epsilon``, within 1e-58 relative."""
    return Fraction(_CONTEXT.next_plus(_CONTEXT.exp(_rounded(epsilon, ROUND_CEILING))))


def log_upper(ratio: Fraction) -> float:
    """Return the smallest float that is certainly at or above ``ln(ratio)``, for a rational ``ratio > 0``.

    >>> log_upper(Fraction(1)), log_upper(Fraction(3)) >= math.log(3)
    (0.0, True)
    """
    if ratio == 1:
        return 0.0
    bound = _CONTEXT.next_plus(_CONTEXT.ln(_rounded(ratio, ROUND_CEILING)))
    value = float(bound)
    return value if Decimal(value) >= bound else math.nextafter(value, math.inf)


def add_upper(*terms: float) -> float:
    """Return the sum of floats, rounded up.

    >>> add_upper(0.1, 0.2) >= 0.1 + 0.2, add_upper(1.0, 2.0)
    (True, 3.0)
    """
    if not all(map(math.isfinite, terms)):
        return math.inf
    exact = sum((Fraction(t) for t in terms), Fraction(0))
    value = float(exact)
    return value if Fraction(value) >= exact else math.nextafter(value, math.inf)


def format_upper(value: float, digits: int = 6) -> str:
    """Return ``value`` as text with the given number of significant digits, rounded up: "at most" stays true.

    >>> format_upper(1.0000001), format_upper(0.5)
    ('1.00001', '0.5')
    """
    rounded = Context(prec=digits, rounding=ROUND_CEILING).plus(Decimal(value))
    return f"{rounded.normalize():f}" if math.isfinite(value) else str(value)


def upper_level(value: float) -> str:
    """Return a level as a person reads it: four digits, rounded up, for it is beside limits of no more.

    >>> upper_level(29.9988), upper_level(30.0004), upper_level(4.5)
    ('30', '30.01', '4.5')
    """
    return format_upper(value, 4)


def within(ratio: Fraction, epsilon: float | Fraction) -> bool:
    """Return whether ``ratio <= e^epsilon`` is certainly true (never True when it is false).

    >>> within(Fraction(2718281828, 10**9), 1.0), within(Fraction(2718281829, 10**9), 1.0)
    (True, False)
    """
    return ratio <= exp_lower(epsilon) or (ratio <= 1 and epsilon >= 0)


def _rounded(value: float | Fraction, direction: str) -> Decimal:
    """Return ``value`` as a decimal of 60 digits, rounded in the named direction."""
    exact = Fraction(value)
    context = Context(prec=_DIGITS, rounding=direction)
    return context.divide(Decimal(exact.numerator), Decimal(exact.denominator))
