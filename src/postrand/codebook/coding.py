"""Conversion between the values of a column and the codes 0..S-1 of a variable, exactly and without loss.

A code is the position of a category in the codebook. ``len(categories)`` is the code of missing values if missing is a
category; -1 is a missing value that is kept. Columns are converted through their dictionary, never value by value.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook.variable import MAX_CATEGORIES, Variable
from postrand.errors import DataError, SpecificationError, sentence, shown
from postrand.support import loops
from postrand.support.arrow import from_numpy as from_numpy
from postrand.support.arrow import from_texts, from_truths
from postrand.support.arrow import index_values as index_values
from postrand.support.arrow import is_null as is_null
from postrand.support.arrow import numpy_dtype as numpy_dtype
from postrand.support.arrow import to_floats as to_floats
from postrand.support.arrow import to_numpy as to_numpy
from postrand.support.texts import find_places

KEPT_MISSING = -1
_UNKNOWN = -2
_NUMBERS = ("integer", "float")
_DICTIONARY = re.compile(r"dictionary<values=(.+), indices=(\w+), ordered=([01])>")
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns), tz=(.+)\]")
_DECIMAL = re.compile(r"decimal(128|256)\((\d+), (-?\d+)\)")


def code_dtype(variable: Variable) -> np.dtype[Any]:
    """Return the smallest signed type for S codes: int8 up to S = 127, int16 up to 32,767, else int32.

    >>> code_dtype(Variable("sex", role="key", categories=("F", "M")))
    dtype('int8')
    """
    size = variable.size
    return np.dtype(np.int8 if size <= 127 else np.int16 if size <= 32_767 else np.int32)


def category_numbers(variable: Variable) -> list[float]:
    """Return the number of each category, nan of those that mean no answer; [] where one is none, or all mean that.

    A CSV file has numbers as text.

    >>> category_numbers(Variable("kids", "key", ("0", "1", "9"), missing_codes=("9",)))
    [0.0, 1.0, nan]
    >>> category_numbers(Variable("sex", "key", ("F", "M")))
    []
    """
    absent = {*variable.missing_codes}
    try:
        numbers = [math.nan if c in absent else float(c) for c in variable.categories]
    except ValueError:
        return []
    known = [x for x, c in zip(numbers, variable.categories, strict=True) if c not in absent]
    return numbers if known and all(map(math.isfinite, known)) else []


def encode(column: pa.Array | pa.ChunkedArray, variable: Variable, fix: str = "") -> NDArray[Any]:
    """Return the code of each value, shape (n,), in ``code_dtype(variable)``.

    Text is compared exactly, booleans as booleans, numbers as numbers (1 and 1.0 are one value, -0.0 and 0.0 too).
    Null and NaN are missing values and follow the variable's policy. ``fix`` is the next step that an error says of a
    value that is not in the codebook.

    Raises
    ------
    DataError
        If the column's type is not the type in the codebook, a value is not in the codebook, or a value is missing
        and the policy is ``error``. The message never shows a value.

    Examples
    --------
    >>> sex = Variable("sex", role="key", categories=("F", "M"), missing="category")
    >>> encode(pa.array(["M", None, "F"]), sex)
    array([1, 2, 0], dtype=int8)
    """
    _check_categorical(variable)
    lookup = {value: code for code, value in enumerate(category_values(variable).to_pylist())}
    check_type(column.type, variable)
    codes, start = np.empty(len(column), dtype=code_dtype(variable)), 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        part = codes[start : start + len(chunk)]
        _encode_chunk(chunk, lookup, _missing_code(variable), part, variable, fix)
        start += len(chunk)
    return codes


def decode(codes: NDArray[Any], variable: Variable) -> pa.Array:
    """Return the values of codes, shape (n,), in the variable's type; text comes dictionary-encoded.

    The inverse of :func:`encode`: the missing code and -1 become null. The dictionary contains every category in
    codebook order, also those that do not occur.

    Raises
    ------
    SpecificationError
        If the categories do not match the variable's type.
    DataError
        If a code is outside the variable's range.

    Examples
    --------
    >>> sex = Variable("sex", role="key", categories=("F", "M"), missing="category")
    >>> decode(np.array([1, 2, 0]), sex).to_pylist()
    ['M', None, 'F']
    """
    _check_categorical(variable)
    codes = np.asarray(codes)
    lowest = KEPT_MISSING if variable.missing == "keep" else 0
    if codes.size and not (lowest <= codes.min() and codes.max() < variable.size):
        where = f"variable {variable.name!r}"
        raise DataError(sentence("a code is outside the range", where=where, wanted=f"{lowest}..{variable.size - 1}"))
    count = len(variable.categories)
    missing = (codes < 0) | (codes >= count) if variable.missing != "error" else None
    target, values = arrow_type(variable.type), category_values(variable)
    is_dictionary = pa.types.is_dictionary(target)
    wanted = numpy_dtype(target.index_type) if is_dictionary else code_dtype(variable)
    indices = from_numpy(codes.astype(wanted, copy=False), missing)
    if not (is_text(target) or is_dictionary):
        return values.take(indices)
    ordered = target.ordered if is_dictionary else variable.ordered
    # The range is checked above, so that Arrow need not go over the records again.
    return pa.DictionaryArray.from_arrays(indices, values, ordered=ordered, safe=False)


def category_values(variable: Variable) -> pa.Array:
    """Return the categories in codebook order as an Arrow array of the variable's value type, shape (S',).

    Raises
    ------
    SpecificationError
        If the categories do not match the type, for example text in an ``int64`` variable.
    """
    declared = arrow_type(variable.type)
    target, categories = value_type(declared), list(variable.categories)
    problem = sentence(
        f"the categories do not match the type {variable.type!r}",
        where=f"variable {variable.name!r}",
        fix="write categories as values of that type, or correct the type",
    )
    if not _accepts(target, {type(c) for c in categories}) or len(categories) > _capacity(declared):
        raise SpecificationError(problem)
    try:
        if _kind(target) in ("text", "bool", *_NUMBERS):
            return _from_list(categories, target)
        return _from_list(categories, pa.string()).cast(target)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, UnicodeError):
        raise SpecificationError(problem) from None


def gather(table: NDArray[Any], indices: NDArray[Any], out: NDArray[Any]) -> None:
    """Write ``table[indices]``, shape (n,), into ``out``, both contiguous; the table's last entry stands for null.

    What is written for an index of the last entry or outside the table is anything: the caller knows which are null.
    A table that gives each index itself is a copy.

    >>> out = np.zeros(3, dtype=np.int8)
    >>> gather(np.array([5, 6, -1], dtype=np.int8), np.array([1, 0, 1], dtype=np.uint32), out)
    >>> out
    array([6, 5, 6], dtype=int8)
    """
    if is_identity(table):
        np.copyto(out, indices, casting="unsafe")
        return
    loops.look_up(*(array.view(f"i{array.itemsize}") for array in (table, indices, out)))


def is_identity(table: NDArray[Any]) -> bool:
    """Whether each entry but the last, which stands for null, is its own index."""
    return np.array_equal(table[:-1], np.arange(table.size - 1))


def arrow_type(text: str) -> pa.DataType:
    """Return the Arrow type with this name, the inverse of ``str(type)``.

    >>> arrow_type("dictionary<values=string, indices=int8, ordered=1>").ordered
    True

    Raises
    ------
    SpecificationError
        If the text is not the name of a type with one value for each record.
    """
    try:
        if found := _DICTIONARY.fullmatch(text):
            return pa.dictionary(arrow_type(found[2]), arrow_type(found[1]), ordered=found[3] == "1")
        if found := _TIMESTAMP.fullmatch(text):
            return pa.timestamp(found[1], tz=found[2])
        if found := _DECIMAL.fullmatch(text):
            make = pa.decimal128 if found[1] == "128" else pa.decimal256
            return make(int(found[2]), int(found[3]))
        return pa.type_for_alias(text)
    except (ValueError, TypeError, OverflowError, RecursionError):
        wanted = "an Arrow type: string, int64, double, bool, date32[day], ..."
        raise SpecificationError(sentence(f"unknown type {shown(text, repr)}", wanted=wanted)) from None


def value_type(of: pa.DataType) -> pa.DataType:
    """Return the type of the values: a dictionary's value type, any other type as it is."""
    return of.value_type if pa.types.is_dictionary(of) else of


def is_text(of: pa.DataType) -> bool:
    """Return whether the type, or the value type of a dictionary, is text."""
    return _kind(value_type(of)) == "text"


def kind_text(of: pa.DataType) -> str:
    """Return what values of a type are, in a word: for a message.

    >>> kind_text(pa.dictionary(pa.int8(), pa.string())), kind_text(pa.bool_()), kind_text(pa.date32())
    ('texts', 'truth values', 'date32[day]')
    """
    words = {"text": "texts", "integer": "whole numbers", "float": "numbers", "bool": "truth values"}
    kind = _kind(value_type(of))
    return words.get(kind, kind)


def check_type(found: pa.DataType, variable: Variable) -> None:
    """Raise DataError unless a column of type ``found`` can contain the variable.

    All text types match each other, and so do all numbers; any other type must be exactly the codebook's type.
    """
    found, wanted = value_type(found), value_type(arrow_type(variable.type))
    kinds = {_kind(found), _kind(wanted)}
    if len(kinds) > 1 and not kinds <= set(_NUMBERS) and not pa.types.is_null(found):
        raise DataError(
            sentence(
                "the column's type differs from the codebook's type",
                where=f"variable {variable.name!r}",
                got=found,
                wanted=variable.type,
                fix="correct 'type' and 'categories' in the codebook, or convert the column",
            )
        )


def _from_list(values: list[Any], of: pa.DataType) -> pa.Array:
    """Return ``pyarrow.array(values, of)`` of text, booleans or numbers, without the import of :func:`from_numpy`."""
    if _kind(of) == "text":
        return from_texts(values).cast(of)
    if _kind(of) == "bool":
        return from_truths(np.array(values, dtype=bool))
    numbers = np.array(values, dtype=numpy_dtype(of))
    if any(isinstance(v, int) and v != n for v, n in zip(values, numbers.tolist(), strict=True)):
        raise OverflowError("a whole number has no exact floating-point value")
    return from_numpy(numbers)


def _kind(of: pa.DataType) -> str:
    """Return the name of the family of types that can contain the same values."""
    types = pa.types
    if types.is_string(of) or types.is_large_string(of) or types.is_string_view(of):
        return "text"
    if types.is_integer(of):
        return "integer"
    if types.is_floating(of):
        return "float"
    return "bool" if types.is_boolean(of) else str(of)


def _accepts(target: pa.DataType, given: set[type]) -> bool:
    kind = _kind(target)
    allowed: dict[str, set[type]] = {"integer": {int}, "float": {int, float}, "bool": {bool}}
    return given <= allowed.get(kind, {str})


def _capacity(of: pa.DataType) -> int:
    """Return how many categories the indices of a dictionary can distinguish."""
    if not pa.types.is_dictionary(of):
        return MAX_CATEGORIES
    return int(2 ** (of.index_type.bit_width - pa.types.is_signed_integer(of.index_type)))


def _missing_code(variable: Variable) -> int:
    codes = {"category": len(variable.categories), "keep": KEPT_MISSING, "error": _UNKNOWN}
    return codes[variable.missing]


def _encode_chunk(
    chunk: pa.Array, lookup: dict[Any, int], missing: int, out: NDArray[Any], variable: Variable, fix: str
) -> None:
    """Write the codes of one chunk into ``out``: the dictionary is looked up, the records follow by their indices."""
    if pa.types.is_null(chunk.type):
        chunk = chunk.cast(pa.string())
    if not pa.types.is_dictionary(chunk.type):
        if is_text(arrow_type(variable.type)) and _encode_texts(chunk, lookup, missing, out):
            return
        chunk = chunk.dictionary_encode()
    try:
        values = chunk.dictionary.to_pylist()
    except UnicodeDecodeError:
        raise DataError(sentence("text is not valid UTF-8", where=f"variable {variable.name!r}")) from None
    # One entry more than the dictionary, for null; NaN is the value that differs from itself.
    table = np.array([missing if v is None or v != v else lookup.get(v, _UNKNOWN) for v in values] + [missing])
    indices = chunk.indices
    _check_indices(indices, len(values), variable)
    gather(table.astype(out.dtype), index_values(indices), out)
    if indices.null_count:
        out[is_null(indices)] = missing
    # An unused entry of a dictionary is not an error: only values that occur can be errors.
    doubtful = table if indices.null_count else table[:-1]
    if _UNKNOWN in doubtful and (out == _UNKNOWN).any():
        _refuse(chunk, table, out, variable, fix)


def _encode_texts(chunk: pa.Array, lookup: dict[Any, int], missing: int, out: NDArray[Any]) -> bool:
    """Write the codes of texts that are all known, without a dictionary; whether it could."""
    # Categories are all different and in the order of their codes, so a place is a code.
    if not is_text(chunk.type) or not find_places(chunk, lookup, _UNKNOWN, out):
        return False
    if chunk.null_count:
        out[is_null(chunk)] = missing
    return bool(out.min() > _UNKNOWN)


def _check_indices(indices: pa.Array, count: int, variable: Variable) -> None:
    """Refuse indices outside the dictionary; under a null may lie anything."""
    held = index_values(indices if not indices.null_count else indices.drop_null())
    if held.size and held.view(f"u{held.itemsize}").max() >= count:  # read so, what is negative is very large
        what, fix = "an index of the column is outside its dictionary", "make the column anew"
        raise DataError(sentence(what, where=f"variable {variable.name!r}", fix=fix))


def _refuse(chunk: pa.Array, table: NDArray[Any], out: NDArray[Any], variable: Variable, fix: str) -> None:
    where, problems = f"variable {variable.name!r}", []
    nulls = chunk.is_null().to_numpy(zero_copy_only=False)
    values = chunk.dictionary.to_pylist()
    absent = [v is None or v != v for v in values]
    used = np.unique(chunk.indices.drop_null().to_numpy(zero_copy_only=False))
    if variable.missing == "error" and (nulls.any() or any(absent[i] for i in used)):
        problems.append(
            sentence(
                "a value is missing, and the policy is 'error'", where=where, fix="set missing = 'category' or 'keep'"
            )
        )
    if any(table[i] == _UNKNOWN and not absent[i] for i in used):
        problems.append(
            sentence(
                "a value that is not in the codebook",
                where=where,
                wanted=f"one of its {len(variable.categories)} categories (text is compared exactly)",
                fix=fix or "add the category to the codebook, or recode the column",
            )
        )
    raise DataError(problems)


def _check_categorical(variable: Variable) -> None:
    if not variable.is_categorical:
        raise SpecificationError(
            sentence(
                "the variable has no categories", where=f"variable {variable.name!r}", fix="list them in the codebook"
            )
        )
