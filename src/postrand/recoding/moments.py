"""Dates and times as numbers of years, months, days or hours, and back."""

from __future__ import annotations

import datetime
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from postrand.support.arrow import from_numpy, from_truths, to_floats
from postrand.support.inputs import finite

UNITS = ("year", "month", "day", "hour")
_EPOCH = datetime.date(1970, 1, 1)
_MOST_OVER = 3
"""Days of the next month that a day beyond its own month can be read as: 31 February."""
_ZONED = ("%z", "%Z", "%s")
_START, _SECOND = datetime.datetime(1970, 1, 1), datetime.timedelta(seconds=1)


def counted(edge: object, unit: str) -> float:
    """Return an edge as a number: the year, months since year 0, days since 1970-01-01, the hour; nan if it is none.

    >>> counted(1990, "year"), counted("1990-03", "month"), counted("1970-01-02", "day"), counted("x", "day")
    (1990, 23882, 1, nan)
    """
    if unit in ("year", "hour"):
        return finite(edge)
    if isinstance(edge, datetime.date):  # which TOML writes without quotes
        edge = edge.isoformat()[: 7 if unit == "month" else 10]
    if not isinstance(edge, str):
        return math.nan
    if unit == "month":
        found = re.fullmatch(r"(\d{4})-(0[1-9]|1[0-2])", edge)
        return 12 * int(found[1]) + int(found[2]) - 1 if found else math.nan
    try:
        return (datetime.date.fromisoformat(edge) - _EPOCH).days
    except ValueError:
        return math.nan


def named(place: float, unit: str) -> str:
    """Return the text of what :func:`counted` counts.

    >>> named(23882, "month"), named(1, "day"), named(1990, "year")
    ('1990-03', '1970-01-02', '1990')
    """
    if unit == "month":
        return f"{int(place) // 12:04}-{int(place) % 12 + 1:02}"
    if unit == "day":
        return (_EPOCH + datetime.timedelta(int(place))).isoformat()
    return f"{place:g}"


def moments(column: pa.Array, unit: str, form: str = "") -> NDArray[np.float64]:
    """Return dates, times, numbers of years or texts of them as numbers of a unit, shape (n,); nan for what is none.

    >>> moments(pa.array(["2020-03-31", "no date"]), "year").tolist()
    [2020.0, nan]
    >>> moments(pa.array(["2020-03"]), "month").tolist() == [counted("2020-03", "month")]
    True
    >>> moments(pa.array(["28.02.2007", "31.02.2007"]), "year", "%d.%m.%Y").tolist()
    [2007.0, nan]
    """
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return to_floats(column) if unit in ("year", "hour") else np.full(len(column), np.nan)
    if not pa.types.is_temporal(column.type):
        column = _parsed(column, unit, form)
    try:
        return _parts(column, unit)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # a time of day has no year
        return np.full(len(column), np.nan)


def _parts(column: pa.Array, unit: str) -> NDArray[np.float64]:
    if unit == "month":
        return 12 * to_floats(pc.year(column)) + to_floats(pc.month(column)) - 1
    if unit == "day":
        return to_floats(column.cast(pa.date32(), safe=False).cast(pa.int32()))
    return to_floats(pc.year(column) if unit == "year" else pc.hour(column))


def _parsed(texts: pa.Array, unit: str, form: str) -> pa.Array:
    """Return texts as timestamps, null for what is none: as the form says, or as ISO 8601 writes them."""
    texts = texts.cast(pa.string())
    if form:
        found = pc.strptime(texts, format=form, unit="s", error_is_null=True)
        return pc.if_else(_overflow(texts, found, form), None, found)
    found = [_iso(text, unit) for text in texts.to_pylist()]
    seconds = np.array([0 if at is None else (at - _START) // _SECOND for at in found], dtype=np.int64)
    return from_numpy(seconds, np.array([at is None for at in found], dtype=bool)).cast(pa.timestamp("s"))


def _overflow(texts: pa.Array, found: pa.Array, form: str) -> pa.Array:
    """Return which texts name a day that their month does not have: Arrow reads 31 February as 3 March."""
    days = to_floats(pc.day(found))
    over = np.zeros(len(found), dtype=bool)
    if any(sign in form for sign in _ZONED):  # their day can differ for another reason
        return from_truths(over)
    for at in np.flatnonzero(days <= _MOST_OVER):
        over[at] = _numbers(texts[at].as_py()) != _numbers(found[at].as_py().strftime(form))
    return from_truths(over)


def _numbers(text: str) -> list[int]:
    return [int(digits) for digits in re.findall("[0-9]+", text)]


def _iso(text: Any, unit: str) -> datetime.datetime | None:
    try:
        if unit == "hour" and re.fullmatch(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?", text):
            return datetime.datetime.combine(_EPOCH, datetime.time.fromisoformat(text.zfill(5)))
        if unit in ("year", "month") and re.fullmatch(r"\d{4}-\d{2}", text):  # ISO 8601 without a day
            return datetime.datetime.fromisoformat(f"{text}-01")
        return datetime.datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return None
