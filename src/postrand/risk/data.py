"""From a dataframe, an Arrow table, a source or columns by name to codes: the only part of risk that meets a frame."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from postrand.codebook import Codebook, not_released
from postrand.codebook.coding import index_values, is_null, is_text, to_floats, value_type
from postrand.codebook.encoded import encoded
from postrand.data.frames import names_of, to_arrow
from postrand.data.table import ContingencyTable
from postrand.errors import DataError, UsageError, nearest, raise_all, sentence
from postrand.risk.cells import FloatArray, IntArray, KeyCodes
from postrand.support.progress import Stage, passing

MissingRule = Literal["category", "wildcard"]
MAX_KEY_CATEGORIES = 100_000


def read_columns(data: Any, names: Sequence[str], numbers: Sequence[str] = ()) -> dict[str, pa.ChunkedArray]:
    """Return the named columns as Arrow arrays.

    ``data`` is a pandas, polars or other dataframe, a pyarrow Table, a source (``schema``, ``batches``), or a mapping
    of names to arrays. Those of ``numbers`` that are text in the file are read as its settings say: decimal commas.

    Raises
    ------
    UsageError
        If the data are of no kind that is known.
    DataError
        If a column is not there, or the columns differ in length.
    """
    wanted = list(dict.fromkeys(names))
    if isinstance(data, Mapping):
        _check_names(wanted, list(data))
        return {name: pa.chunked_array([pa.array(data[name], from_pandas=True)]) for name in wanted}
    if hasattr(data, "batches") and hasattr(data, "schema"):
        _check_names(wanted, data.schema.names)
        table = pa.Table.from_batches(list(_read(data, wanted)), schema=None).unify_dictionaries()
    else:
        table = to_arrow(data, wanted).unify_dictionaries()
    lengths = {len(table.column(name)) for name in wanted}
    raise_all(DataError, [sentence("the columns differ in length")] * (len(lengths) > 1))
    read = {name: table.column(name) for name in wanted}
    if getattr(data, "untyped", False):
        read |= {name: _numbers(data, read[name]) for name in numbers if is_text(value_type(read[name].type))}
    return read


def columns_in(data: Any) -> Collection[str]:
    """Return the names of the columns that :func:`read_columns` can read."""
    if isinstance(data, Mapping):
        return data.keys()
    return list(data.schema.names) if hasattr(data, "batches") and hasattr(data, "schema") else names_of(data)


def _numbers(source: Any, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts of a source as numbers; the column itself where one is none."""
    chunks = [chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode() for chunk in column.chunks]
    values = [source.lossless(chunk.dictionary, pa.float64()) for chunk in chunks]
    if any(held is None for held in values):
        return column
    taken = [held.take(chunk.indices) for held, chunk in zip(values, chunks, strict=True)]
    return pa.chunked_array(taken, pa.float64())


def _check_names(wanted: Sequence[str], known: Sequence[str]) -> None:
    raise_all(
        DataError,
        [sentence(f"no column {n!r}{nearest(n, known)}", wanted=", ".join(known)) for n in wanted if n not in known],
    )


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """Hold the codes of one column: ``size`` of them, ``missing`` standing for no value (it can equal ``size``)."""

    codes: IntArray
    size: int
    missing: int
    categories: tuple[Any, ...]
    from_codebook: bool


def _read(source: Any, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    return passing(source.batches(columns=names), Stage.READING, getattr(source, "num_rows", None))


def code_data(
    data: Any, names: Sequence[str], codebook: Codebook | None, partly: Sequence[str] = ()
) -> dict[str, Coded]:
    """Return the codes of the named columns of a frame, source or mapping, or of the axes of a contingency table.

    The records of a table are taken in the order of its cells; its categories are its codes. Records may not show the
    variables ``partly``, those of a split.

    Raises
    ------
    UsageError
        If the table contains weights, not counts, or a name is not one of its axes.
    """
    if not isinstance(data, ContingencyTable):
        columns = read_columns(data, names)
        return {name: code_column(columns[name], name, codebook, partly) for name in dict.fromkeys(names)}
    table = data.project(list(dict.fromkeys(names)))
    codes, counts = table.occupied()
    if not np.issubdtype(counts.dtype, np.integer):
        raise UsageError(sentence("the table contains weights, not counts", wanted="counts of records"))
    records = np.repeat(codes, counts, axis=0)
    return {
        name: Coded(records[:, j], size, size, tuple(range(size)), True)
        for j, (name, size) in enumerate(zip(table.variables, table.shape, strict=True))
    }


def code_column(column: pa.ChunkedArray, name: str, codebook: Codebook | None, partly: Sequence[str] = ()) -> Coded:
    """Return the codes of one column by the codebook, or else by the categories or values that it has.

    A variable of ``partly`` has one code more than the codebook gives it, for records that do not show it.

    Raises
    ------
    DataError
        If a value is not in the codebook, or there are too many values for a categorical variable.
    """
    if codebook is not None and name in codebook and codebook[name].is_categorical:
        variable = codebook[name]
        if name in partly:
            codes, size = not_released.encode(column, variable), variable.size + 1
            return Coded(
                codes, size, size if variable.missing != "category" else variable.size - 1, variable.categories, True
            )
        codes = encoded(column, codebook, name)
        return Coded(codes, variable.size, len(variable.categories), variable.categories, True)
    whole = column.combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode()
    size = len(whole.dictionary)
    if size > MAX_KEY_CATEGORIES:
        what, wanted = (
            "the variable has too many different values for a categorical variable",
            f"<= {MAX_KEY_CATEGORIES}",
        )
        raise DataError(sentence(what, where=f"variable {name!r}", wanted=wanted, fix="group the values"))
    codes = np.where(is_null(whole.indices), np.int32(size), index_values(whole.indices).astype(np.int32))
    return Coded(codes, size, size, tuple(whole.dictionary.to_pylist()), False)


def true_shape(keys: KeyCodes, partly: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of true codes of released keys: one less for those that a record may not show."""
    return tuple(size - (name in partly) for name, size in zip(keys.names, keys.shape, strict=True))


def key_codes(
    coded: Mapping[str, Coded], names: Sequence[str], missing: MissingRule, partly: Sequence[str] = ()
) -> KeyCodes:
    """Return the codes of the key variables.

    ``missing="category"`` makes a missing value one more category, ``"wildcard"`` lets it match every value. The last
    code of a key of ``partly`` is that of records that do not show it.

    Raises
    ------
    UsageError
        If the rule is unknown.
    """
    if missing not in ("category", "wildcard"):
        raise UsageError(sentence(f"unknown rule {missing!r} for missing keys", wanted="'category' or 'wildcard'"))
    shape, codes = [], []
    for name in names:
        column = coded[name]
        absent = (column.codes < 0) | (column.codes == column.missing)
        wild = missing == "wildcard"
        extra = not wild and column.missing >= column.size and bool(absent.any())
        values = column.codes.astype(np.min_scalar_type(-(column.size + 1)), copy=True)
        values[absent] = -1 if wild else column.missing
        if extra and name in partly:  # a missing value that is kept comes before the code of what is not shown
            values = np.where(absent, column.size - 1, np.where(values == column.size - 1, column.size, values))
        shape.append(max(column.size + extra, 1))
        codes.append(values)
    return KeyCodes(tuple(names), tuple(shape), tuple(codes))


def rule_codes(coded: Mapping[str, Coded], rules: Sequence[Mapping[str, Any]]) -> list[dict[str, int]]:
    """Return structural zeros as codes. A rule about a value that cannot occur is left out.

    Raises
    ------
    UsageError
        With every rule that does not name a variable or an unknown one, or a category that the codebook does not have.
    """
    found, problems = [], []
    for number, rule in enumerate(rules, 1):
        where = f"structural zero {number}"
        if not rule:
            problems.append(sentence("does not name a variable", where=where))
        unknown = [n for n in rule if n not in coded]
        problems += [sentence(f"no key variable {n!r}{nearest(n, coded)}", where=where) for n in unknown]
        known = {n: value for n, value in rule.items() if n in coded}
        absent = [n for n, value in known.items() if value not in coded[n].categories]
        problems += [
            sentence(f"{known[n]!r} is not a category of {n!r}", where=where) for n in absent if coded[n].from_codebook
        ]
        if not absent:
            found.append({n: coded[n].categories.index(value) for n, value in known.items()})
    raise_all(UsageError, problems)
    return found


def numeric(column: pa.ChunkedArray, name: str) -> FloatArray:
    """Return a numeric column as float64, missing values as nan; raises DataError where it is not numeric."""
    try:
        values: FloatArray = to_floats(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        kind = value_type(column.type)
        what, got = "the column contains a value that is not a number", "text" if is_text(kind) else kind
        raise DataError(sentence(what, where=f"variable {name!r}", got=got, fix="name a column of numbers")) from None
    return values
