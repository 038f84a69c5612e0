"""Numbers as texts spell them: with a decimal comma, with signs between thousands."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from postrand.formats._settings import ReadSettings


def pattern(decimal: str, thousands: str) -> str:
    """Return the regular expression of a whole number text with these signs, for Python's engine and for Arrow's.

    No sign is between thousands before a power of ten.

    >>> [bool(re.fullmatch(pattern(",", "."), text)) for text in ("1.234,5", "-3,25", "1.23,4", "1.5", "3.380e+03")]
    [True, True, False, False, False]
    """
    point, sign = re.escape(decimal), re.escape(thousands)
    groups = rf"|[1-9][0-9]{{0,2}}(?:{sign}[0-9]{{3}})+(?:{point}[0-9]*)?" if thousands else ""
    return rf"^[+-]?(?:(?:[0-9]+(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?{groups})$"


def with_points(texts: pa.Array, settings: ReadSettings) -> pa.Array | None:
    """Return texts of numbers with decimal points and nothing between thousands; None where one is no such number.

    Blanks around a number are no part of it.

    >>> with_points(pa.array(["1.234,5", " 7"]), ReadSettings(decimal=",", thousands=".")).to_pylist()
    ['1234.5', '7']
    """
    decimal, thousands = settings.decimal or ".", settings.thousands
    texts = pc.utf8_trim_whitespace(texts)
    if (decimal, thousands) == (".", ""):
        return texts
    if not pc.all(pc.match_substring_regex(texts, pattern(decimal, thousands)), min_count=0).as_py():
        return None
    if thousands:
        texts = pc.replace_substring(texts, thousands, "")
    return pc.replace_substring(texts, decimal, ".")
