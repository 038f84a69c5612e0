"""Codes that only name categories: their mean is a number, and says nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable

from postrand.codebook import Codebook, Variable

_SHOWN = 3


def names_only(variable: Variable) -> bool:
    """Whether numbers are the names of categories: labels say what they stand for, and nothing says that they measure.

    An order, as of a scale from 1 to 5, says it; so do the codes 0 and 1, whose mean is a share; and labels that repeat
    the number (``85 and more``). One label without its number can be a limit's, ``none`` for 0.

    >>> names_only(Variable("region", "key", (1, 2, 3), ("North", "South", "East"), type="int64"))
    True
    >>> names_only(Variable("children", "key", (0, 1, 2), ("none", "1", "2 or more"), type="int64"))
    False
    """
    pairs = zip(variable.categories, variable.labels, strict=False)
    held = [(_number(code), text) for code, text in pairs if code not in variable.missing_codes]
    if variable.ordered or {number for number, _ in held} <= {0.0, 1.0}:
        return False
    return sum(number is not None and abs(number) not in _numbers_in(text) for number, text in held) > 1


def nominal_warnings(codebook: Codebook | None, names: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence for each variable whose codes are taken for numbers although they only name categories."""
    known = [] if codebook is None else [codebook[name] for name in dict.fromkeys(names) if name in codebook]
    return tuple(_sentence(variable) for variable in known if names_only(variable))


def _sentence(variable: Variable) -> str:
    shown = [f"{code} = {text}" for code, text in zip(variable.categories, variable.labels, strict=True)]
    listed = ", ".join(shown[:_SHOWN]) + ", ..." * (len(shown) > _SHOWN)
    return (
        f"The numbers of {variable.name} are codes ({listed}), and this calculates with them as amounts. Ask for a "
        f"table of {variable.name}; if the codes are a scale, set ordered = true in the codebook of the next release."
    )


def _number(code: object) -> float | None:
    try:  # a CSV file has numbers as text
        return float(str(code))
    except ValueError:
        return None


def _numbers_in(text: str) -> set[float]:
    """Return the numbers of a label; one before a point or a bracket, as in ``1. North``, only repeats the code."""
    rest = re.sub(r"^\s*\d+\s*[.):=]+(?=\s*\D)", "", text)
    return {float(part.replace(",", "")) for part in re.findall(r"\d[\d,]*(?:\.\d+)?", rest)}
