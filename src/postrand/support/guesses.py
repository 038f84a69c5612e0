"""How many guesses of an attacker are right at most: one formula for each kind of level, and how the number is said.

``prior`` is the share of guesses that are right without the perturbed values, by all else that is known or released:
1/S for S values that are equally likely, 1/2 for two. Every figure is a bound for all attackers with that prior, and
is rounded up where it is said.
"""

from __future__ import annotations

import math

from postrand.support.exact import format_upper

_STEPS = 60
_MUCH = 0.95
"""What a bound out of 100 is not raised by to the next whole number."""
LEAST = 0.1
"""Of fewer guesses than this out of 100 no number is said alone."""
_AS_MANY = 1.1
"""Shares that are said by the same words are told apart where one is more than so many times the other."""
TWO = (
    "of 100 guesses between two equally likely {of}, 50 are right without and at most {most} with the perturbed values"
)


def right_guesses(epsilon: float, prior: float, delta: float = 0.0) -> float:
    """Return ``(p e^ε + (1−p) δ) / (1 − p + p e^ε)``: the largest share of right guesses under (ε, δ).

    ``p`` is the prior probability of the likeliest value. With δ = 0 it also bounds the posterior probability of a
    value of prior p after any released value. k-ary randomised response attains it where all values are equally likely.

    >>> round(right_guesses(math.log(3), 0.5), 12), round(right_guesses(math.log(3), 0.25), 12)
    (0.75, 0.5)
    """
    odds = prior * math.exp(min(epsilon, 700.0))
    return min(1.0, (odds + (1 - prior) * delta) / (1 - prior + odds))


def right_guesses_by_bits(beta: float, size: int) -> float:
    """Return the largest share of right guesses of S equally likely values where β of their ``ln S`` nats stay hidden.

    Fano's inequality: a share ``e`` of wrong guesses leaves at most ``h(e) + e ln(S − 1)`` hidden; the least such
    ``e`` is found by halving, and rounded down.

    >>> right_guesses_by_bits(0.0, 4), right_guesses_by_bits(1.0, 4), round(right_guesses_by_bits(0.811278, 2), 4)
    (1.0, 0.25, 0.75)
    """
    hidden, low, high = beta * math.log(size), 0.0, 1 - 1 / size
    if beta >= 1:
        return 1 / size
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _fano(middle, size) >= hidden else (middle, high)
    return 1 - low


def _fano(wrong: float, size: int) -> float:
    """Return the most nats that can be hidden with this share of wrong guesses."""
    if wrong <= 0:
        return 0.0
    kept = 1 - wrong
    return -(kept * math.log(kept) if kept > 0 else 0.0) - wrong * math.log(wrong / max(size - 1, 1))


def right_guesses_by_divergence(divergence: float) -> float:
    """Return the largest share of right guesses between two equally likely values that differ by a KL divergence.

    ``(1 + t) / 2``, t the total variation, at most ``√(D/2)`` (Pinsker) and ``√(1 − e^−D)`` (Bretagnolle and Huber). A
    Rényi divergence of an order above 1, and ρ, are at least the Kullback-Leibler one.

    >>> right_guesses_by_divergence(0.02)
    0.55
    """
    return (1 + min(math.sqrt(divergence / 2), math.sqrt(-math.expm1(-divergence)))) / 2


def of_hundred(share: float, *, most: bool = False) -> str:
    """Return a share as a number out of 100; ``most``: rounded up, as a bound.

    >>> of_hundred(0.25), of_hundred(1 / 3, most=True), of_hundred(0.0123, most=True), of_hundred(0.99961, most=True)
    ('25', '34', '1.3', '99.97')
    >>> of_hundred(0.500025, most=True), of_hundred(0.7311, most=True)
    ('50.1', '74')
    >>> of_hundred(0.9999999, most=True), of_hundred(0.00001), of_hundred(0.0)
    ('100', 'fewer than 0.1', '0')
    """
    hundred = 100 * share
    if 0 < hundred < LEAST:
        return f"fewer than {LEAST:g}"
    digits = 1 if hundred < 9.95 else 0 if hundred <= 90 else 1 if hundred <= 99.9 else 2
    if most and not digits and math.ceil(hundred - 1e-9) - hundred > _MUCH:
        digits = 1
    steps = hundred * 10**digits
    number = (math.ceil(steps - 1e-9) if most else round(steps)) / 10**digits
    return f"{number:g}"


def guesses_in_words(epsilon: float, size: int = 2, delta: float = 0.0, *, of: str = "values") -> str:
    """Return what (ε, δ) means for guesses between two values, and among ``size`` values, all equally likely before.

    >>> guesses_in_words(1.0)
    'of 100 guesses between two equally likely values, 50 are right without and at most 74 with the perturbed values'
    >>> guesses_in_words(6.0, 403_200).partition("values, ")[2].partition("values, ")[2]
    '0.00025 without and at most 0.1 with them'
    >>> guesses_in_words(4.0, 326_592_000).partition("values, ")[2].partition("values, ")[2]
    '0.00000031 without and at most 0.000017 with them'
    >>> guesses_in_words(1.0, 12).partition("; ")[2]
    'of 100 guesses among 12 equally likely values, 8.3 without and at most 20 with them'
    """
    two = of_hundred(right_guesses(epsilon, 0.5, delta), most=True)
    text = TWO.format(of=of, most=two)
    if size <= 2:
        return text
    share = right_guesses(epsilon, 1 / size, delta)
    few, many = of_hundred(1 / size), of_hundred(share, most=True)
    if 100 / size < LEAST:  # two digits of both, so that their ratio is seen
        few, many = (
            _two_digits(100 / size),
            format_upper(100 * share, 2) if share < 0.01 else many,
        )
    counts = f"{few} without and at most {many} with them"
    if few == many:
        counts = f"{few} {'is' if few == '1' else 'are'} right, with the perturbed values as without them"
        if share * size > _AS_MANY:
            times = math.ceil(share * size)
            counts = f"{few} are right with the perturbed values, but up to {times:,} times as many as without them"
    return f"{text}; of 100 guesses among {size:,} equally likely {of}, {counts}"


def _two_digits(number: float) -> str:
    """Return a small number with two digits that count, and no exponent.

    >>> _two_digits(0.00025), _two_digits(3.06e-7), _two_digits(0.0999)
    ('0.00025', '0.00000031', '0.1')
    """
    return f"{number:.{1 - math.floor(math.log10(number))}f}".rstrip("0")


def divergence_in_words(divergence: float) -> str:
    """Return what a Rényi level or ρ means for guesses between two values.

    >>> divergence_in_words(0.02)
    'of 100 guesses between two equally likely values, 50 are right without and at most 55 with the perturbed values'
    """
    return TWO.format(of="values", most=of_hundred(right_guesses_by_divergence(divergence), most=True))


def bits_in_words(beta: float, size: int) -> str:
    """Return what a share β of bits that stay hidden means for guesses among ``size`` equally likely values.

    >>> bits_in_words(0.839941, 4)
    'of 100 guesses among 4 equally likely values, 25 are right without and at most 57 with the perturbed values'
    """
    most = of_hundred(right_guesses_by_bits(beta, size), most=True)
    number = "between two" if size == 2 else f"among {size:,}"
    right = f"{of_hundred(1 / size)} are right without and at most {most} with the perturbed values"
    return f"of 100 guesses {number} equally likely values, {right}"
