"""How values are shown to a person: short in a list of them, whole in a notebook."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from postrand.errors import LEAST_HIDDEN

SMALL = 5
"""Counts of records from 1 to SMALL-1 are shown as fewer than SMALL."""
_LARGE, _HUGE = 99_999.5, 1e15
"""Numbers from the first to below the second have no more digits than people read."""

ORDERS = {True: "a new random order", False: "the order of the file"}
"""The order in which records leave, by whether they are shuffled."""


def counted(count: int) -> str:
    """Return a number of records, or of values that few records may have, as text.

    >>> counted(0), counted(3), counted(1200)
    ('0', 'fewer than 5', '1,200')
    """
    return f"fewer than {SMALL}" if 0 < count < SMALL else f"{count:,}"


def digits(number: float) -> str:
    """Return a number with five significant digits; of a large one all digits before the point, without an exponent.

    >>> [digits(x) for x in (0.123456, 1234.56, 100000.0, 1234567.8, -250000.0)]
    ['0.12346', '1234.6', '100000', '1234568', '-250000']
    """
    return f"{number:.0f}" if _LARGE <= abs(number) < _HUGE else f"{number:.5g}"


def decimal(value: float, digits: int = 3) -> str:
    """Return a number of so many significant digits in plain notation; a dash for what is not known.

    >>> decimal(1234.5), decimal(-0.012345), decimal(math.nan)
    ('1,234', '−0.0123', '–')
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞"
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(places, 12)}f}".replace("-", "−")


def outward(value: float, *, up: bool = True, digits: int = 3) -> str:
    """Return a figure of risk with so many significant digits, rounded up, or down where more is safer.

    Of a large one all digits before the point; a dash for what is not known.

    >>> outward(0.62611), outward(1.9949, up=False), outward(0.1), outward(2803.4), outward(math.nan)
    ('0.627', '1.99', '0.1', '2,804', '–')
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞"
    number = Decimal(f"{value:.{max(12, digits)}g}")  # digits after these are the rounding of floats
    step = Decimal(1).scaleb(min(0, number.adjusted() - digits + 1))
    return f"{number.quantize(step, ROUND_CEILING if up else ROUND_FLOOR).normalize():,f}".replace("-", "−")


def outward_percent(share: float) -> str:
    """Return a share that is a risk in per cent, rounded up.

    >>> outward_percent(0.162179), outward_percent(0.5)
    ('16.3%', '50%')
    """
    return f"{outward(100 * share)}%"


def unshown(length: int, most: int) -> int:
    """Return how many of a list are not shown: those beyond ``most``, but none where these are one or two.

    >>> unshown(8, 8), unshown(10, 8), unshown(11, 8)
    (0, 0, 3)
    """
    return length - most if length - most >= LEAST_HIDDEN else 0


def few(names: Sequence[str], most: int = 8) -> str:
    """Return the first names of a list in a line, and how many more there are, where at least three are hidden.

    >>> few(["a", "b", "c"], most=2), few(["a", "b", "c", "d", "e"], most=2)
    ('a, b, c', 'a, b and 3 more')
    """
    more = unshown(len(names), most)
    return ", ".join(names[: len(names) - more]) + (f" and {more:,} more" if more else "")


def capital(text: str) -> str:
    """Return a phrase as the beginning of a sentence; a Greek letter stays, because a capital one reads as Latin.

    >>> capital("two of them"), capital("τ1 and τ2 are not computed")
    ('Two of them', 'τ1 and τ2 are not computed')
    """
    return f"{text[0].upper()}{text[1:]}" if text[:1].isascii() and text else text


def show_whole(value: object, printer: Any, cycle: bool) -> None:
    """Show a value in a notebook as ``print`` does; a class takes this as its ``_repr_pretty_``."""
    printer.text(str(value))
