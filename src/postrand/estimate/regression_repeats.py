"""Categories of two covariates that seem to be the same records: their terms repeat one another at any epsilon."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from postrand.errors import EstimationError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.regression_data import Data
from postrand.estimate.regression_moments import Records
from postrand.estimate.regression_weakest import Category, categories

SHARE = 0.1
"""At most this share of the records of both categories may be in one alone."""
SURE = 3.0
"""The records of both together must be so many standard errors above none."""
MOST = 3
"""So many pairs are named."""


def repeats(data: Data, records: Records) -> tuple[tuple[str, str], ...]:
    """Return the pairs of categories, as ``variable = label``, that are estimated to be the same records.

    With the corrected weights a and b of the two, and ab of both together, records in both are estimated by ``Σ ab``,
    those in one alone by ``Σ a + b − 2ab``. The second is to be at most ``SHARE`` of the first, or two of its standard
    errors; and the first at least ``SURE`` of its own. Those with the most records come first, ``MOST`` at most.
    """
    if data.book is None:
        return ()
    held = [one for one in categories(data, records) if one.name != data.response]
    found = sorted(_same(records, held), key=lambda pair: -pair[0])
    labels = {one: f"{one.name} = {data.book[one.name].code_labels[one.code]}" for one in held}
    return tuple((labels[one], labels[two]) for _, one, two in found[:MOST])


def refusal(what: str, got: str, data: Data, records: Records) -> EstimationError | None:
    """Return the error of a fit that fails because terms repeat one another; None where no pair does.

    ``what`` failed, and ``got`` how. It is said of every method in the same words.
    """
    found, _, fix = in_words(repeats(data, records)).partition(": ")
    return EstimationError(sentence(f"{what}: terms repeat one another: {found}", got=got, fix=fix)) if found else None


def in_words(pairs: tuple[tuple[str, str], ...]) -> str:
    """Return that terms repeat one another and what to do; "" without pairs.

    >>> in_words((("educ = not asked", "age = 0-15"),)).partition(":")[0]
    'educ = not asked and age = 0-15 seem to be the same records, so that no epsilon tells their terms apart'
    """
    if not pairs:
        return ""
    said = "; ".join(f"{one} and {two}" for one, two in pairs)
    return (
        f"{said} seem to be the same records, so that no epsilon tells their terms apart: leave one of the two "
        "variables out, or merge one of the two categories with another before a release ([[recodes]] in "
        "codebook.toml; missing_codes do not help)"
    )


def _same(records: Records, held: list[Category]) -> Iterator[tuple[float, Category, Category]]:
    """Yield the pairs of categories of two variables that seem to be the same records, with these records."""
    answering = records.answering()
    for one, two in itertools.combinations(held, 2):
        if one.name == two.name:
            continue
        a, b, ab = one.weights(answering), two.weights(answering), one.together(two, answering)
        both, error = _total(records, ab)
        alone, spread = _total(records, a + b - 2 * ab)
        if both > SURE * error and alone <= max(SHARE * both, 0.0) and alone >= -max(2 * spread, SHARE * both):
            yield both, one, two


def _total(records: Records, each: Array) -> tuple[float, float]:
    """Return the total of a corrected weight of every case, and its standard error."""
    values = records.weight * each
    return float(records.count @ values), float(np.sqrt(records.count @ values**2))
