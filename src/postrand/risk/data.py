"""From a dataframe, an Arrow table, a source or columns by name to codes: the only part of risk that meets a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from postrand.codebook import Codebook
from postrand.coding import encode
from postrand.errors import DataError, UsageError, nearest, raise_all, sentence
from postrand.risk.cells import FloatArray, IntArray, KeyCodes

MissingRule = Literal["category", "wildcard"]
MAX_KEY_CATEGORIES = 100_000


def read_columns(data: Any, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    """Return the named columns as Arrow arrays.

    ``data`` is a pandas, polars or other dataframe, a pyarrow Table, a source (``schema``, ``batches``), or a mapping
    of names to arrays.

    Raises
    ------
    UsageError
        If a column is not there, or the data are of no kind that is known.
    """
    wanted = list(dict.fromkeys(names))
    if isinstance(data, Mapping):
        _check_names(wanted, list(data))
        return {name: pa.chunked_array([pa.array(data[name], from_pandas=True)]) for name in wanted}
    if hasattr(data, "batches") and hasattr(data, "schema"):
        _check_names(wanted, data.schema.names)
        table = pa.Table.from_batches(list(data.batches(columns=wanted)), schema=None).unify_dictionaries()
    else:
        table = _arrow(data, wanted)
    lengths = {len(table.column(name)) for name in wanted}
    raise_all(DataError, [sentence("the columns differ in length")] * (len(lengths) > 1))
    return {name: table.column(name) for name in wanted}


def _arrow(frame: Any, names: Sequence[str]) -> pa.Table:
    import narwhals as nw

    try:
        native = nw.from_native(frame, eager_only=True)
    except TypeError:
        wanted = "a pandas, polars or pyarrow table, a source, or a mapping of columns"
        raise UsageError(sentence("the data are not a table", got=type(frame).__name__, wanted=wanted)) from None
    _check_names(names, native.columns)
    return native.select(*names).to_arrow().unify_dictionaries()


def _check_names(wanted: Sequence[str], known: Sequence[str]) -> None:
    raise_all(
        UsageError,
        [sentence(f"no column {n!r}{nearest(n, known)}", wanted=", ".join(known)) for n in wanted if n not in known],
    )


def key_codes(
    columns: Mapping[str, pa.ChunkedArray], names: Sequence[str], codebook: Codebook | None, missing: MissingRule
) -> KeyCodes:
    """Return the codes of the key variables.

    With a codebook its categories and order hold; without one, those of a categorical column, or else the values that
    occur. ``missing="category"`` makes a missing value one more category, ``"wildcard"`` lets it match every value.

    Raises
    ------
    UsageError
        If no key is named, or the rule is unknown.
    DataError
        If a value is not in the codebook, or a key has too many values to be categorical.
    """
    if isinstance(names, str) or not names:
        raise UsageError(sentence("key variables must be a list of names", got=repr(names), wanted='["sex", "age"]'))
    if missing not in ("category", "wildcard"):
        raise UsageError(sentence(f"unknown rule {missing!r} for missing keys", wanted="'category' or 'wildcard'"))
    coded = [variable_codes(columns[name], name, codebook) for name in names]
    shape, codes = [], []
    for column, size, missing_code in coded:
        absent = (column < 0) | (column == missing_code)
        wild = missing == "wildcard"
        extra = not wild and missing_code >= size and bool(absent.any())
        column = column.astype(np.min_scalar_type(-(size + 1)), copy=True)
        column[absent] = -1 if wild else missing_code
        shape.append(max(size + extra, 1))
        codes.append(column)
    return KeyCodes(tuple(names), tuple(shape), tuple(codes))


def variable_codes(column: pa.ChunkedArray, name: str, codebook: Codebook | None) -> tuple[IntArray, int, int]:
    """Return the codes of one column, the number of codes, and the code that stands for missing.

    The missing code is the number of codes itself where the variable has no category for missing values.
    """
    if codebook is not None and name in codebook and codebook[name].is_categorical:
        variable = codebook[name]
        codes = encode(column, variable)
        return codes, variable.size, len(variable.categories)
    whole = column.combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode()
    size = len(whole.dictionary)
    if size > MAX_KEY_CATEGORIES:
        raise DataError(
            sentence(
                "too many values for a categorical variable",
                where=f"variable {name!r}",
                wanted=f"<= {MAX_KEY_CATEGORIES}",
                fix="group the values, or leave the variable out",
            )
        )
    indices = whole.indices.cast(pa.int32()).fill_null(size)
    codes = indices.to_numpy(zero_copy_only=False)
    return codes, size, size


def numeric(column: pa.ChunkedArray, name: str) -> FloatArray:
    """Return a numeric column as float64, missing values as nan; raises DataError where it is not numeric."""
    try:
        values: FloatArray = column.cast(pa.float64()).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(sentence("not a number", where=f"variable {name!r}", got=column.type)) from None
    return values
