"""Apply a kind of recoding to a column: through its distinct values, so that a record costs one look-up."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from postrand.errors import DataError, sentence
from postrand.recoding.base import Reads, Recoding, Scalar, key_of, steps_of
from postrand.recoding.moments import moments
from postrand.recoding.unchanged import CODES
from postrand.support.arrow import from_numpy, from_truths, index_values, is_null, python_values
from postrand.support.showing import SMALL, counted

_DATES = "of dates, set unit = 'year' and say how they are written: format = '{form}';"
FORMS = ("%d.%m.%Y", "%d/%m/%Y", "%Y-%m-%d", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y%m%d", "%d.%m.%y", "%d/%m/%y")
"""Forms of dates that are proposed, the first where several fit; of so many values the most must have it."""
TRIED = 200
_UNDATED = "correct them in the file, or list codes for no answer: missing = ['unknown']"
_FORM = "correct them in the file, or the format here; or list codes for no answer: missing = ['unknown']"
_BLANKS = "some begin or end with a blank: take it out of the file first;"
WHICH = "'postrand recode', with the codebook and the file, names those that many records have"


def applied(kind: Recoding, column: pa.Array | pa.ChunkedArray, missing: Collection[Scalar], where: str) -> pa.Array:
    """Return the recoded column, values of ``missing`` as null; see :meth:`postrand.recoding.Recode.apply`."""
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks()
    held = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    used = pc.unique(held.indices).drop_null()  # what else a dictionary lists need have no place
    values = held.dictionary.take(used)
    present = _present(values, missing)
    given = values.filter(present)
    made = kind.to_arrow(prepared(kind, given, where))
    if made.null_count:
        raise DataError(_refusal(kind, held, used.filter(present), given, made, where))
    # From the place in the dictionary to that among the made values; null and what means "no answer" have none.
    places = np.full(len(held.dictionary) + 1, -1)
    places[index_values(used.filter(present))] = np.arange(len(made))
    at = places[np.where(is_null(held.indices), -1, index_values(held.indices))]
    indices = from_numpy(at.astype(np.int32), at < 0)
    if not pa.types.is_string(made.type):
        return made.take(indices)
    named = made.dictionary_encode()
    return pa.DictionaryArray.from_arrays(named.indices.take(indices), named.dictionary)


def has_place(kind: Recoding, values: pa.Array) -> NDArray[np.bool_]:
    """Return which distinct values, none of them missing, have a place in the result, (V,)."""
    try:
        return ~is_null(kind.to_arrow(prepared(kind, values, "")))
    except DataError:  # some are no numbers
        found = np.array([_is_number(value) for value in values])
    if found.any():
        found[found] = has_place(kind, values.filter(from_truths(found)))
    return found


def _refusal(
    kind: Recoding, held: pa.DictionaryArray, of: pa.Array, given: pa.Array, made: pa.Array, where: str
) -> str:
    """Return what is said of the different values ``given``, places ``of`` the dictionary, without one in ``made``."""
    unplaced = getattr(kind, "unplaced", f"that have no place in its {kind.name}")
    what, wanted, fix = f"the column has values {unplaced}", "", kind.remedy
    lost = is_null(made)
    if kind.reads == "times" and (none := _are_none(kind, given)).any():
        form = getattr(steps_of(kind)[0], "format", "")
        what, lost = "the column has values that are no dates or times", none
        wanted = f"days that exist, as the format says: {form!r}" if form else "days that exist, such as 2020-01-31"
        fix = _FORM if form else f"{_dates(given)} {_UNDATED}"
    blank = _has_blanks(given.filter(from_truths(lost)))
    fix = "; ".join(filter(None, (f"{_BLANKS} {fix}" if blank else fix, WHICH)))
    return sentence(what, where=where, got=_unplaced(held, of, lost), wanted=wanted or None, fix=fix)


def _dates(values: pa.Array) -> str:
    """Return what to write for dates, with the first usual form that most of these values have."""
    texts = [str(value) for value in values.slice(0, TRIED).to_pylist()]
    read = {form: sum(_is_of(text, form) for text in texts) for form in FORMS}
    return _DATES.format(form=max(read, key=read.__getitem__))


def _is_of(text: str, form: str) -> bool:
    try:
        return bool(datetime.strptime(text.strip(), form))  # a day alone is meant, without a zone
    except ValueError:
        return False


def _are_none(kind: Recoding, values: pa.Array) -> NDArray[np.bool_]:
    """Return which values are no dates or times of those that a kind reads."""
    first = steps_of(kind)[0]
    return np.isnan(moments(values, first.unit, first.format))


def _has_blanks(values: pa.Array) -> bool:
    """Return whether a text begins or ends with a blank: it can be a value that has a place, written otherwise."""
    return _is_text(values.type) and bool(pc.any(pc.match_substring_regex(values, r"^\s|\s$")).as_py())


def _unplaced(held: pa.DictionaryArray, of: pa.Array, lost: NDArray[np.bool_]) -> str:
    """Return how many of the different values ``of`` a column are ``lost``, and how many records."""
    records = np.bincount(index_values(held.indices.drop_null()), minlength=len(held.dictionary))[index_values(of)]
    values, rest = counted(int(lost.sum())), int(records[~lost].sum())
    if 0 < rest < SMALL:
        return f"{values} of them, in nearly all records read"
    read = f"{counted(int(records[lost].sum()))} of the records read" if rest else "every record read"
    return f"{values} of them, in {read}"


def result_type(kind: Recoding, of: pa.DataType) -> pa.DataType:
    """Return the type of the result for a column of a type: text, or that of the recoded numbers."""
    of = of.value_type if pa.types.is_dictionary(of) else of
    plain = pa.nulls(0, pa.float64() if kind.reads == "numbers" and _is_text(of) else of)
    return kind.to_arrow(prepared(kind, plain, "recode")).type


def reads_as(reads: Reads) -> str:
    """Return the Arrow type as which a column of a text file is read for a kind that reads this."""
    return "double" if reads == "numbers" else "string"


def _present(values: pa.Array, missing: Collection[Scalar]) -> pa.Array:
    """Return which of distinct values are not missing."""
    found = pc.invert(pc.is_null(values, nan_is_null=True))
    if not missing:
        return found
    absent = {key_of(value) for value in missing}
    return pc.and_(
        found, from_truths(np.array([key_of(value) not in absent for value in python_values(values)], dtype=bool))
    )


def prepared(kind: Recoding, values: pa.Array, where: str) -> pa.Array:
    """Return values in a type that the kind reads."""
    unchanged = kind.name == CODES and (pa.types.is_decimal(values.type) or pa.types.is_floating(values.type))
    if kind.reads != "numbers" or pa.types.is_integer(values.type) or unchanged:
        return values
    try:
        return values.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        what = "the column has values that are not numbers"
        fix = (
            kind.remedy
            if kind.name == CODES
            else f"list codes for no answer: missing = [...]; {_dates(values)}".rstrip(";")
        )
        got = f"{counted(sum(not _is_number(value) for value in values.unique()))} different ones"
        raise DataError(sentence(what, where=where, got=got, fix=fix)) from None


def _is_number(value: pa.Scalar) -> bool:
    try:
        value.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # text that is no number, or a type that has none
        return False
    return True


def _is_text(of: pa.DataType) -> bool:
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of))
