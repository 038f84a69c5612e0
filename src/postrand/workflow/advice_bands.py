"""Bands that are proposed for variables with too many values: by round edges, over the range of the codebook."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from postrand.codebook import Codebook, Variable
from postrand.estimate.nominal import labels_name
from postrand.recoding import Recode
from postrand.recoding.base import MADE

MANY = 12
"""A variable of more categories is proposed for recoding."""
MOST_BANDS = 10
"""The narrowest natural bands that are at most so many."""
_STEPS = (1, 2, 5)
_CODE = re.compile(r"\s*0\d")


def banded(book: Codebook, names: tuple[str, ...]) -> tuple[Codebook, tuple[Mapping[str, Any], ...]]:
    """Return the codebook with bands for whole numbers of many values, and the recodes as plain data; none: no change.

    The edges are multiples of 1, 2, 5, 10, 20, 50 and so on, whichever is the least that gives at most ten bands. They
    follow from the lowest and highest category of the codebook alone, which may be those of the records: so the recodes
    are marked confidential, until the curator states a public range.

    >>> ages = Variable("age", "key", tuple(range(96)), type="int64")
    >>> book, recodes = banded(Codebook((ages,)), ("age",))
    >>> book["age"].categories[:2], book["age"].size, recodes[0]["bands"][:3]
    (('0-9', '10-19'), 10, [0, 10, 20])
    """
    recodes = {v.name: entry for v in book.variables if v.name in names and (entry := _bands(book, v)) is not None}
    if not recodes:
        return book, ()
    made = [Recode.from_dict(entry) for entry in recodes.values()]
    bands = {one.variable: one.kind.categories() for one in made}
    variables = tuple(_of_bands(v, bands[v.name]) if v.name in bands else v for v in book.variables)
    changed = dataclasses.replace(book, variables=variables, recodes=(*book.recodes, *made))
    return changed, tuple(recodes.values())


def unbanded(book: Codebook, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the variables of many categories for which there are no natural bands: they need groups or a hierarchy."""
    return tuple(n for n in names if book[n].size > MANY and _bands(book, book[n]) is None)


def _bands(book: Codebook, variable: Variable) -> dict[str, Any] | None:
    """Return the recode of one variable, None where it has few values, is not of whole numbers, or is in a rule.

    Numbers that labels name, such as those of regions, have no natural order, or bands would hide what they mean.
    """
    if variable.size <= MANY or book.recode_of(variable.name) is not None or labels_name(variable):
        return None
    if any(variable.name in rule.variables for rule in book.rules):
        return None  # the rule names categories that bands would replace
    numbers = _numbers(variable)
    if len(numbers) < MANY:
        return None
    low, high = min(numbers), max(numbers)
    width = next(w for w in _natural() if (high // w) - (low // w) + 1 <= MOST_BANDS)
    edges = [k * width for k in range(low // width, high // width + 1)]
    missing = {"missing": list(variable.missing_codes)} if variable.missing_codes else {}
    return {"variable": variable.name, "type": "int64", "bands": edges, **missing, "provenance": "confidential"}


def _numbers(variable: Variable) -> list[int]:
    """Return the categories as whole numbers, without codes for "no answer"; nothing if one of them is none.

    Texts that a zero leads, such as postcodes, are none.

    >>> _numbers(Variable("zip", "key", ("01068", "11081")))
    []
    """
    held = [category for category in variable.categories if category not in variable.missing_codes]
    if any(isinstance(category, str) and _CODE.match(category) for category in held):
        return []
    try:
        numbers = [math.nan if isinstance(category, bool) else float(category) for category in held]
    except ValueError:
        return []
    return [int(number) for number in numbers] if all(number.is_integer() for number in numbers) else []


def _natural() -> Iterator[int]:
    """Yield 1, 2, 5, 10, 20, 50, ...

    >>> from itertools import islice
    >>> list(islice(_natural(), 7))
    [1, 2, 5, 10, 20, 50, 100]
    """
    power = 1
    while True:
        yield from (step * power for step in _STEPS)
        power *= 10


def _of_bands(variable: Variable, bands: tuple[str, ...]) -> Variable:
    """Return the variable with bands for categories; codes for "no answer" have become missing values."""
    missing = "category" if variable.missing_codes and variable.missing == "error" else variable.missing
    label = variable.label and variable.label + MADE[0]
    return dataclasses.replace(
        variable,
        label=label,
        type="string",
        categories=bands,
        labels=(),
        missing_codes=(),
        missing=missing,
        ordered=True,
    )
