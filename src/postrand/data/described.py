"""Columns of a released file as another program read them, taken back to the types of the codebook.

Programs guess types: pandas reads the categories "1" and "2" of a CSV file as numbers, and codes of Stata as labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as types

from postrand.codebook import Codebook, Variable, not_released
from postrand.codebook.coding import arrow_type, category_values, is_text, value_type
from postrand.data.frames import names_of, to_arrow
from postrand.errors import DataError, raise_all, sentence
from postrand.mechanism import Mechanism

_TAKEN_FOR_MISSING = frozenset(
    ("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL")
) | {"NaN", "None", "n/a", "nan", "null"}
"""Texts that pandas reads from a file as missing values, unless it is told not to."""


def released_table(frame: Any, columns: Sequence[str], mechanism: Mechanism) -> pa.Table:
    """Return columns of a released frame as an Arrow table, with the types of the mechanism's codebook.

    Numbers, truth values and labels become the categories that the file has, where each stands for one category only.

    Raises
    ------
    DataError
        As :func:`postrand.data.frames.to_arrow`; if values cannot be converted, or a category was read as missing; or
        a column is gone that was recoded into others.
    """
    book = mechanism.codebook
    if book is not None and (gone := set(columns).difference(names_of(frame))):
        raise_all(DataError, _recoded(book, [name for name in columns if name in gone]))
    table = to_arrow(frame, columns)
    for place, name in enumerate(table.column_names):
        if book is not None and name in book and book[name].is_categorical:
            column, variable = table.column(place), book[name]
            variable = not_released.released_variable(variable) if name in mechanism.partly else variable
            if (found := as_described(column, variable)) is not column:
                table = table.set_column(place, name, found)
    return table


def _recoded(book: Codebook, names: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each column of which a recode made others, in whose place they are."""
    for name in names:
        if made := [recode.variable for recode in book.recodes if recode.source == name != recode.variable]:
            what = f"no column {name!r} in the data: it was recoded into {' and '.join(made)}"
            yield sentence(what, fix=f"ask for {' or '.join(made)}")


def as_described(column: pa.ChunkedArray, variable: Variable) -> pa.ChunkedArray:
    """Return a column with the type of the variable; the same object where it has it.

    >>> sex = Variable("sex", role="key", categories=("1", "2"), missing="keep")
    >>> as_described(pa.chunked_array([[2.0, None, 1.0]]), sex).to_pylist()
    ['2', None, '1']

    Raises
    ------
    DataError
        If a value is none of the categories, or could be several of them, or a category was read as missing.
    """
    found, wanted = value_type(column.type), value_type(arrow_type(variable.type))
    if is_text(found) and is_text(wanted):
        _check_missing(column, variable)
        return column
    if found == wanted or (_is_number(found) and _is_number(wanted)) or types.is_null(found):
        return column
    _check_missing(column, variable)
    held = column if types.is_dictionary(column.type) else column.dictionary_encode()
    held = held.unify_dictionaries()
    lookup = _lookup(found, variable)
    chunks = []
    for chunk in held.chunks:
        values = [lookup.get(_plain(value)) for value in chunk.dictionary.to_pylist()]
        used = set(chunk.indices.drop_null().unique().to_pylist())
        if any(values[index] is None for index in used):
            raise _refusal(variable, found)
        chunks.append(pa.array(values, wanted).take(chunk.indices))
    return pa.chunked_array(chunks, wanted)


def _lookup(found: pa.DataType, variable: Variable) -> dict[Any, Any]:
    """Return the category that each value of a column of type ``found`` stands for, without those of two."""
    values = category_values(variable).to_pylist()
    pairs = [(read, value) for value in values for read in _readings(value, found)]
    if is_text(found):  # labels, as pandas reads those of Stata and SPSS
        pairs += zip(variable.labels, values, strict=False)
    meant: dict[Any, set[Any]] = {}
    for read, value in pairs:
        meant.setdefault(_plain(read), set()).add(value)
    return {read: next(iter(several)) for read, several in meant.items() if len(several) == 1}


def _readings(value: Any, found: pa.DataType) -> Iterator[Any]:
    """Yield what a program makes of a category that it takes for a value of type ``found``."""
    if is_text(found):
        yield str(value)
        if isinstance(value, float) and value.is_integer():
            yield str(int(value))
        return
    convert: Callable[[str], Any] = float
    if types.is_boolean(found):
        convert = {"true": True, "false": False}.__getitem__
        value = str(value).lower()
    elif not _is_number(found):
        try:
            yield pa.array([str(value)]).cast(found)[0].as_py()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # a category that is none of that type, such as a date
            return
        return
    try:
        yield convert(str(value))
    except (ValueError, KeyError):
        return


def _plain(value: Any) -> Any:
    """Return a value by which whole numbers and their floats are one, and truth values are none of them."""
    return ("truth", value) if isinstance(value, bool) else value


def _is_number(of: pa.DataType) -> bool:
    return bool(types.is_integer(of) or types.is_floating(of))


def _check_missing(column: pa.ChunkedArray, variable: Variable) -> None:
    """Refuse a column with missing values of a variable one of whose categories pandas reads as missing."""
    names = sorted(_TAKEN_FOR_MISSING.intersection(map(str, variable.categories)))
    if not names or not column.null_count:
        return
    values = {str(value) for value in column.drop_null().unique().to_pylist()}
    if lost := [name for name in names if name not in values]:
        raise DataError(
            sentence(
                f"the category {lost[0]!r} does not occur, and values are missing: it was probably read as missing",
                where=f"variable {variable.name!r}",
                fix="use frame = pr.read_release(folder).frame(), or pd.read_csv(file, dtype=str, "
                "keep_default_na=False, na_values=[''])",
            )
        )


def _refusal(variable: Variable, found: pa.DataType) -> DataError:
    return DataError(
        sentence(
            "values cannot be taken for categories of the codebook",
            where=f"variable {variable.name!r}",
            got=found,
            wanted=variable.type,
            fix="use frame = pr.read_release(folder).frame(), which reads every column as the codebook says, or "
            f"pd.read_csv(file, dtype={{{variable.name!r}: str}})",
        )
    )
