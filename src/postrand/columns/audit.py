"""Compare released numerical columns with the confidential ones, for an auditor who has both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from postrand.columns.source import numbers
from postrand.errors import DataError, sentence
from postrand.ranks.apply import average
from postrand.ranks.column import RankedColumn
from postrand.ranks.laws import RankLaw

_ROUNDING = 1e-12
"""Tolerance relative to the largest value: another machine can add sums in another order."""


def check_against(
    true: pa.Array | pa.ChunkedArray, released: pa.Array | pa.ChunkedArray, ranked: RankedColumn, *, in_order: bool
) -> None:
    """Refuse a released column (n,) that the rank law cannot have made from the true one (n,).

    Permuted: exactly the same values. Averaged: the averages of the true values, up to rounding. If the records are
    ``in_order``, missing values are in their places too, and each record has a value, or an average, of its own run;
    for a permutation, under one of the cuts. Equal true values share all their ranks.

    Raises
    ------
    DataError
        With a sentence that shows no value.

    Examples
    --------
    >>> from postrand.ranks import RankBlocks
    >>> pay = RankedColumn("pay", RankBlocks(2), "permute", 4)
    >>> check_against(pa.array([1, 2, 8, 9]), pa.array([2, 1, 9, 8]), pay, in_order=True)
    >>> check_against(pa.array([1, 2, 8, 9]), pa.array([9, 1, 2, 8]), pay, in_order=True)
    Traceback (most recent call last):
    ...
    postrand.errors.DataError: variable 'pay': a value was moved further than the rank law allows.
    """
    x, y = numbers(true, ranked.variable), numbers(released, ranked.variable)
    where = f"variable {ranked.variable!r}"
    permuted = ranked.form == "permute"
    if x.size != y.size or (in_order and not pc.is_valid(true).equals(pc.is_valid(released))):
        raise DataError(sentence("the records with a value are not the same as in the file", where=where))
    if permuted:
        same, kept = np.array_equal(np.sort(x), np.sort(y)), "the values are not those of the file"
        moved = "a value was moved further than the rank law allows"
    else:
        averages, slack = np.sort(average(x, ranked.law)), _ROUNDING * float(np.abs(x).max(initial=0.0))
        same, kept = bool((np.abs(averages - np.sort(y)) <= slack).all()), "the averages are not those of the file"
        moved = "a record does not have the average of its own ranks"
    if not same:
        raise DataError(sentence(kept, where=where))
    if in_order and not (_within_runs(x, y, ranked.law) if permuted else _own_averages(x, y, averages, slack)):
        raise DataError(sentence(moved, where=where))


def _within_runs(x: NDArray[Any], y: NDArray[Any], law: RankLaw) -> bool:
    """Return whether some cut has, for each record, a run with both its own value and its released one."""
    ordered = np.sort(x)
    ranks = [(np.searchsorted(ordered, v, "left"), np.searchsorted(ordered, v, "right") - 1) for v in (x, y)]
    for cut in range(law.cuts):
        starts = law.starts(x.size, cut)
        own, new = ([np.searchsorted(starts, end, "right") for end in ends] for ends in ranks)
        if (own[0] <= new[1]).all() and (new[0] <= own[1]).all():
            return True
    return False


def _own_averages(x: NDArray[Any], y: NDArray[Any], averages: NDArray[np.float64], slack: float) -> bool:
    """Return whether each record has the average of one of its value's ranks; averages ascend with the rank."""
    ordered = np.sort(x)
    first = np.searchsorted(ordered, x, "left")
    last = np.searchsorted(ordered, x, "right") - 1
    return bool(((averages[first] - slack <= y) & (y <= averages[last] + slack)).all())
