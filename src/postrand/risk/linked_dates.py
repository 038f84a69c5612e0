"""Dates and numbers that are one fact: an age and a date of birth, a duration and the day on which it began."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.recoding.moments import moments
from postrand.support.arrow import is_null

UNITS = {"year": 365.25, "month": 365.25 / 12, "day": 1.0}
SHARE, SLACK, LEAST = 0.99, 2.0, 10.0
"""In this share of the records number and date differ by a constant and so many units at most, and span ten or more."""
YEARS = 1800.0, 2100.0
"""Whole numbers between these are taken for years."""
_SCREEN = 500
_FORMS = ("", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")
_LIKE_A_DATE = re.compile(r"\s*\d{1,4}[-./]\d{1,2}[-./]\d{1,4}")
Floats = NDArray[np.float64]


def days_of(values: pa.Array) -> Floats | None:
    """Return distinct dates, or texts that are all dates of one form, as days, NaN where missing; None for all others.

    >>> days_of(pa.array(["1970-01-02", None])).tolist(), days_of(pa.array(["2 days"]))
    ([1.0, nan], None)
    """
    forms: tuple[str, ...] = ("",)
    present = values.drop_null()
    if not (pa.types.is_date(values.type) or pa.types.is_timestamp(values.type)):
        first = present[0].as_py() if len(present) else None
        if not isinstance(first, str) or not _LIKE_A_DATE.match(first):
            return None
        forms = _FORMS
    for form in forms:
        days = moments(present, "day", form)
        if np.isfinite(days).all():
            found = np.full(len(values), np.nan)
            found[~is_null(values)] = days
            return found
    return None


def same_time(dates: Mapping[str, Floats], numbers: Mapping[str, Floats]) -> Iterator[tuple[str, str, str]]:
    """Yield date, number and unit where the number is the date counted in this unit, up to a constant.

    ``|n ± d / u − c| <= 1`` in 99% of the records with both, d in days, u those of the unit: an age in whole years can
    be off by one, and so it can where records were made over a year. Numbers that are years themselves count as dates.

    >>> born = np.arange(4000.0, 12000.0, 7)
    >>> list(same_time({"born": born}, {"age": np.floor((18000 - born) / 365.25)}))
    [('born', 'age', 'year')]
    """
    years = {name: 365.25 * held for name, held in numbers.items() if _are_years(held)}
    for (date, days), (number, held) in itertools.product([*dates.items(), *years.items()], numbers.items()):
        units = ("year",) if date in years else tuple(UNITS)
        if number in years or number in dates:
            continue
        unit = next((u for u in units if _fits(days / UNITS[u], held)), None)
        if unit is not None:
            yield date, number, unit


def _are_years(held: Floats) -> bool:
    there = held[np.isfinite(held)]
    return bool(there.size) and bool(((there >= YEARS[0]) & (there <= YEARS[1]) & (there == np.rint(there))).all())


def _fits(times: Floats, held: Floats) -> bool:
    for part in (slice(_SCREEN), slice(None)):
        there = np.isfinite(times[part]) & np.isfinite(held[part])
        if there.sum() * 2 < there.size or not there.any():
            return False
        number, time = held[part][there], times[part][there]
        if _width(number) < LEAST or min(_width(number + time), _width(number - time)) > SLACK:
            return False
    return True


def _width(values: Floats) -> float:
    """Return the length of the interval that holds the middle 99% of values."""
    low, high = np.quantile(values, [(1 - SHARE) / 2, (1 + SHARE) / 2], method="inverted_cdf")
    return float(high - low)
