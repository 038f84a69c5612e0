"""Codes that mean "no answer", or look so: by their text or label, or as numbers beside those of a scale."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import Any

NO_ANSWER = frozenset(
    (
        "", ".", "-", "?", "*", "blank", "dk", "dk/na", "don't know", "dont know", "do not know", "iap", "inap",
        "inapplicable", "missing", "n.a.", "n/a", "na", "nan", "nap", "no answer", "no response", "none given",
        "not applicable", "not asked", "not available", "not in universe", "not reported", "not stated", "niu", "null",
        "refusal", "refused", "unknown", "won't say",
    )
)  # fmt: skip
"""Texts and labels, in small letters, that mean "no answer"."""
NO_ANSWER_CODES = frozenset((9, 97, 98, 99, 997, 998, 999, 9997, 9998, 9999))
LEAST_VALUES = 3
"""So many values beside the codes make a scale, of which somebody takes a mean."""


def looks_missing(categories: Sequence[Any], labels: Sequence[str]) -> list[Any]:
    """Return the categories that look like codes for "no answer": by their text or label, or as outlying numbers."""
    named = {c for c, label in zip(categories, labels or categories, strict=True) if says_so(c) or says_so(label)}
    numbers = {c: int(float(c)) for c in categories if not isinstance(c, bool) and _is_whole(c)}
    usual = [n for n in numbers.values() if abs(n) not in NO_ANSWER_CODES and n not in range(-9, 0)]
    if usual and min(usual) >= 0:  # not a code if values are negative, or reach it without a gap
        named |= {c for c, n in numbers.items() if n < 0 or (n in NO_ANSWER_CODES and n > max(usual) + 1)}
    texts = [c for c in categories if isinstance(c, str) and c not in numbers and c not in named]
    if texts and not usual and not any(re.search(r"\d", c) for c in texts):  # "9" beside "Female" and "Male", not "0-8"
        named |= {c for c, n in numbers.items() if n in NO_ANSWER_CODES or n < 0}
    return [c for c in categories if c in named]


def says_so(text: Any) -> bool:
    """Return whether a text or label means "no answer"."""
    return str(text).strip().casefold() in NO_ANSWER


def is_usual(code: Any) -> bool:
    """Return whether a code is one of the usual ones, and no record's own value."""
    text = str(code).strip()
    number = text.lstrip("-")
    return not number.isdigit() or int(number) in NO_ANSWER_CODES or -9 <= int(text) < 0


def counted(categories: Sequence[Any], labels: Sequence[str], absent: Collection[Any] = ()) -> dict[Any, str]:
    """Return the codes for "no answer" that a mean of a scale counts as numbers, each with its label.

    ``labels`` can be empty; ``absent`` are the codes that the codebook names as such. A mean of a scale from 1 to 5
    that counts 9 and 99 is above 5. Fewer than ``LEAST_VALUES`` other values are no scale: ``sex`` with 1, 2 and 9
    has no mean, and tables show the 9.

    >>> counted([1, 2, 3, 6, 9], ["low", "2", "3", "no answer", "9"])
    {6: 'no answer', 9: '9'}
    >>> counted([1, 2, 9], [])
    {}
    """
    texts = dict(zip(categories, labels or list(map(str, categories)), strict=True))
    codes = [c for c in looks_missing(categories, list(texts.values())) if is_usual(c) or says_so(texts[c])]
    codes = [c for c in codes if c not in absent]
    others = [c for c in categories if c not in codes and c not in absent]
    is_scale = len(others) >= LEAST_VALUES and all(map(_is_number, others))
    return {c: texts[c] for c in codes if _is_number(c)} if is_scale else {}


def _is_number(category: Any) -> bool:
    try:
        return math.isfinite(float(category))
    except ValueError:
        return False


def _is_whole(value: Any) -> bool:
    try:
        return float(value).is_integer()
    except ValueError:
        return False
