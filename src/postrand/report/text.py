"""How numbers and names are written on the page."""

from __future__ import annotations

import math

from postrand.support.showing import decimal as decimal
from postrand.support.showing import outward


def beside_limit(value: float, limit: float, digits: int = 3, *, least: bool = False) -> str:
    """Return a number rounded up that is to be at most a limit, or down at ``least``; never to the limit's other side.

    >>> beside_limit(149.22, 150), beside_limit(29.9988, 30), beside_limit(99.96, 100)
    ('150', '30', '100')
    >>> beside_limit(149.22, 149.5), beside_limit(99.96, 100, least=True), beside_limit(100.04, 100, least=True)
    ('149.3', '99.9', '100')
    """

    def keeps(number: float) -> bool:
        return number >= limit if least else number <= limit

    for more in range(14):
        text = outward(value, up=not least, digits=digits + more)
        if not math.isfinite(value) or keeps(float(text.replace(",", "").replace("−", "-"))) == keeps(value):
            break
    return text


def percent(share: float) -> str:
    """Return a share in per cent with two decimals.

    >>> percent(0.12345), percent(-0.01), percent(-1e-9)
    ('12.35', '−1.00', '0.00')
    """
    found = f"{100 * share:.2f}"
    return "0.00" if found == "-0.00" else found.replace("-", "−")


def cell(probability: float) -> str:
    """Return a probability in per cent; one that is exactly 0 or 1 differs from one that is nearly so.

    >>> cell(0.0), cell(1e-9), cell(0.25), cell(1 - 2**-53), cell(1.0)
    ('0', '<0.1', '25.0', '>99.9', '100')
    """
    if probability in (0.0, 1.0):
        return f"{100 * probability:.0f}"
    return "<0.1" if probability < 0.0005 else ">99.9" if probability >= 0.9995 else f"{100 * probability:.1f}"


def cut(text: str, length: int) -> str:
    """Return text of at most so many characters, an ellipsis in place of the words that are cut off.

    A single word is cut within itself.

    >>> cut("abcdef", 4), cut("one two, three", 10), cut("one two", 4)
    ('abc…', 'one two…', 'one…')
    """
    if len(text) <= length:
        return text
    kept = text[: length - 1]
    words = kept if text[length - 1].isspace() else kept.rpartition(" ")[0]
    return (words.rstrip(" ,;:") or kept) + "…"


def one_line(text: str) -> str:
    """Return text that cannot end a comment in program code: control characters and line ends become spaces."""
    return "".join(c if c.isprintable() else " " for c in text)
