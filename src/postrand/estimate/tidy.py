"""One tidy table for every result: a row for each number that is estimated, and one name for each kind of number.

What is estimated stands first: a column of labels for each variable, or ``term``. Then come ``estimate``,
``standard_error``, ``lower`` and ``upper`` (the ends of the interval), as far as the result has them, then what only
some results have, for example ``p_value``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from postrand.errors import UsageError, sentence
from postrand.estimate.axes import Array
from postrand.support.extras import require


def check_level(level: float) -> None:
    """Raise UsageError unless the level of an interval is between 0 and 1."""
    if not 0 < level < 1:
        raise UsageError(sentence("the confidence level is not a probability", got=level, wanted="0 < level < 1"))


def by_cell(variables: Sequence[str], labels: Sequence[Sequence[str]], numbers: Mapping[str, Array]) -> pa.Table:
    """Return one row for each cell of a table, in C order: its label on each variable, then the numbers.

    Labels are dictionary columns that hold every category in its order. A variable that is named as one of the numbers
    is has `` (variable)`` after its name.

    Examples
    --------
    >>> by_cell(["sex"], [["F", "M"]], {"estimate": np.array([0.7, 0.3])}).to_pydict()
    {'sex': ['F', 'M'], 'estimate': [0.7, 0.3]}
    """
    shape = tuple(map(len, labels))
    cells = np.indices(shape).reshape(len(shape), int(np.prod(shape)))
    columns: dict[str, Any] = {
        name + " (variable)" * (name in numbers): pa.DictionaryArray.from_arrays(
            pa.array(index.astype(np.int32)), pa.array(texts, pa.string())
        )
        for name, texts, index in zip(variables, labels, cells, strict=True)
    }
    return pa.table(columns | {name: pa.array(np.asarray(array).ravel()) for name, array in numbers.items()})


def by_term(terms: Sequence[str], numbers: Mapping[str, Array]) -> pa.Table:
    """Return one row for each named term: ``term``, then the numbers.

    Examples
    --------
    >>> by_term(["age"], {"estimate": np.array([0.7])}).to_pydict()
    {'term': ['age'], 'estimate': [0.7]}
    """
    columns = {name: pa.array(np.atleast_1d(array)) for name, array in numbers.items()}
    return pa.table({"term": pa.array(list(terms), pa.string()), **columns})


def to_pandas(table: pa.Table) -> Any:
    """Return a tidy table as a pandas DataFrame; labels become categories in their order.

    Raises
    ------
    UsageError
        If pandas is not installed: nothing else here needs it.
    """
    require("pandas", "to_pandas() needs", "call to_arrow() or to_dict()")
    return table.to_pandas()


def plain(array: Array) -> Any:
    """Return nested lists, None where a number is not finite: JSON has no other numbers.

    >>> plain(np.array([0.5, np.inf]))
    [0.5, None]
    """
    held = np.asarray(array).astype(object)
    held[~np.isfinite(array)] = None
    return held.tolist()
