"""Recode the columns of a dataframe in memory."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from postrand.codebook import Codebook, coding
from postrand.codebook.encoded import encoded
from postrand.codebook.recoded import column_problems
from postrand.data import frames
from postrand.errors import DataError, raise_all


def recode(frame: Any, codebook: Codebook) -> Any:
    """Return ``frame`` with the results of the codebook's recodes in place of their columns, which are left out.

    Parameters
    ----------
    frame
        A pandas or polars DataFrame, or a pyarrow Table; the same kind comes back, with the same pandas index. The
        result of a recode is categorical with the codebook's categories, or a column of numbers. The first result of a
        column stands in its place.
    codebook
        Its ``recodes`` say what is done. Without recodes the frame comes back as it is.

    Raises
    ------
    UsageError
        If ``frame`` is no dataframe in memory.
    DataError
        If a column is missing, a result has the name of another column, or a value has no place in its result.

    Examples
    --------
    >>> from postrand import Variable
    >>> from postrand.recoding import Recode
    >>> bands = Recode.from_dict({"variable": "age", "bands": [0, 18]})
    >>> book = Codebook((Variable("age", "key", ("0-17", "18+")),), recodes=(bands,))
    >>> recode(pa.table({"age": [17, 40]}), book).column("age").to_pylist()
    ['0-17', '18+']
    """
    if not codebook.recodes:
        return frame
    names = frames.names_of(frame)
    raise_all(DataError, column_problems(codebook.recodes, names))
    made: dict[str, pa.Array] = {}
    for one in codebook.recodes:
        column = one.apply(frames.to_arrow(frame, [one.source]).column(0))
        variable = codebook[one.variable]
        made[variable.name] = (
            coding.decode(encoded(column, codebook, one.variable), variable) if variable.is_categorical else column
        )
    order: list[str] = []
    for name in names:
        order += [one.variable for one in codebook.recodes if one.source == name] or [name]
    return frames.with_columns(frame, pa.table(made), order)
