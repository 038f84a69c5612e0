"""Unperturbed columns: they are released as they are, with their missing values and without any other data."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postrand.codebook import coding
from postrand.codebook.codebook import Codebook
from postrand.codebook.variable import Variable
from postrand.errors import DataError, sentence


def carried(column: pa.Array, variable: Variable) -> pa.Array:
    """Return the values of an unperturbed column, in the one form in which they are released.

    Its dictionary is resolved, so that values of no record are removed. NaN is missing, as null is. The memory under a
    null is set to zero: otherwise a value hidden by a mask would be written with the rest.

    Raises
    ------
    DataError
        If the type is not the type in the codebook, or a value is missing and the policy is ``error``.

    Examples
    --------
    >>> carried(pa.array([1.5, float("nan"), None]), Variable("w", role="weight", type="double", missing="keep"))
    <pyarrow.lib.DoubleArray object at ...>
    [
      1.5,
      null,
      null
    ]
    """
    coding.check_type(column.type, variable)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        nan = pc.is_nan(column)
        column = pc.if_else(nan, None, column) if pc.any(nan).as_py() else column
    if not column.null_count:
        return column
    if variable.missing == "error":
        what, fix = "a value is missing, and the policy is 'error'", "set missing = 'keep', or complete the records"
        raise DataError(sentence(what, where=f"variable {variable.name!r}", fix=fix))
    return column.take(coding.from_numpy(np.arange(len(column))))


def released_values(batch: pa.RecordBatch, codebook: Codebook) -> pa.RecordBatch:
    """Return released records as an engine passes them to a writer: codes decoded, other columns :func:`carried`.

    Columns are in the codebook's order. The dictionary of a categorical column contains all categories of the codebook.

    Raises
    ------
    DataError
        If a record does not match the codebook.
    """
    arrays = [_released(batch.column(variable.name), variable) for variable in codebook.variables]
    return pa.RecordBatch.from_arrays(arrays, names=list(codebook.names))


def _released(column: pa.Array, variable: Variable) -> pa.Array:
    if not variable.is_categorical:
        return carried(column, variable)
    return coding.decode(coding.encode(column, variable), variable)
