"""How many records one stands for, where one random member of each household shows a subset of a split.

Of a household with k records each is chosen with probability 1/k, whatever it says. So the one that shows something
has weight k: sums over those that show are then unbiased for sums over all records.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.data.households import identities, together
from postrand.errors import DataError, EstimationError, sentence
from postrand.estimate.axes import Array
from postrand.mechanism import Mechanism

Order = NDArray[np.intp]


def standing_for(column: pa.ChunkedArray, name: str, shows: NDArray[np.bool_]) -> Array:
    """Return the number of records of each one's household, shape (n,); a record without a number is one of its own.

    Raises
    ------
    DataError
        If a household has not exactly one record that shows something: some of its records are not in the frame.
    """
    there, order, first, sizes = _households(column, name)
    shown = np.add.reduceat(shows[there][order].astype(np.intp), first) if first.size else np.zeros(0, dtype=np.intp)
    if not (shown == 1).all() or not shows[~there].all():
        what = "not every household has one member that shows something: these are not all records of the release"
        fix = "give the whole release, and ask for groups with by= or for a table with the variable that selects them"
        raise DataError(sentence(what, where=f"column {name!r}", fix=fix))
    return _spread(there, order, sizes)


def members_of(column: pa.ChunkedArray, name: str) -> Array:
    """Return the number of records of each one's household, shape (n,); a record without a number is one of its own.

    >>> members_of(pa.chunked_array([[7, 8, 7, None]]), "hid").tolist()
    [2.0, 1.0, 2.0, 1.0]
    """
    there, order, _, sizes = _households(column, name)
    return _spread(there, order, sizes)


def household_of(mechanism: Mechanism, variables: list[str]) -> str:
    """Return the column of household numbers that weighs these variables; empty where all records weigh alike."""
    split, units = mechanism.split, mechanism.units
    if split is None or units is None or not split.of_members or {*variables}.isdisjoint(split.variables):
        return ""
    return units.household


def require_alike(mechanism: Mechanism, variables: list[str], what: str) -> None:
    """Raise EstimationError where a household's member stands for others: ``what`` takes all records as alike."""
    if household_of(mechanism, variables):
        text = f"one random member of each household shows these variables, and {what} takes all records as alike"
        fix = "use the unbiased estimate (method 'unbiased' or 'equations')"
        raise EstimationError(sentence(text, where=", ".join(variables), fix=fix))


def household_sizes(column: pa.ChunkedArray, name: str) -> dict[int, int]:
    """Return how many households have each number of records; a record without a number is one of its own.

    >>> household_sizes(pa.chunked_array([[7, 7, 8, None]]), "hid")
    {1: 2, 2: 1}
    """
    there, _, _, sizes = _households(column, name)
    found = np.bincount(np.append(sizes, np.ones(int((~there).sum()), dtype=np.intp)))
    return {size: many for size, many in enumerate(found.tolist()) if many}


def _households(column: pa.ChunkedArray, name: str) -> tuple[NDArray[np.bool_], Order, Order, Order]:
    """Return which records have a number, an order of these by household, where each begins in it, and its records."""
    names, there = identities(pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0), name)
    return there, *together(names[there])


def _spread(there: NDArray[np.bool_], order: Order, sizes: Order) -> Array:
    found = np.ones(len(there))
    held = np.empty(len(order))
    held[order] = np.repeat(sizes, sizes)
    found[there] = held
    return found
