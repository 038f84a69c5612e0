"""How completed files store each variable: as numbers, as texts, or as codes in place of texts.

Categories that are texts of numbers, as bands often are, are numbers wherever the released data of the format have them
as such: a program takes codes 1, 2, ... for amounts, and says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import pyarrow as pa

from postrand import formats
from postrand.codebook import Codebook, Variable, coding
from postrand.codebook.not_released import released_variable
from postrand.codebook.variable import Scalar
from postrand.estimate.pooling_files import NUMBER

_MOST_NUMBERED = 65_535
_MOST_LABELLED = 2_147_483_620
"""The largest whole number that Stata labels; the program labels no number with a fraction."""
_TEXTS_OF_NUMBERS = "numbers as text"
TOLD = {
    "codes": "Codes in place of texts, which the value labels say. They are no amounts; write factor(x), C(x) or i.x",
    "labelled numbers": (
        "Numbers that have labels in the codebook. Where they are codes and no amounts, write factor(x), C(x) or i.x"
    ),
    "numbers": "Numbers, the same as in the codebook",
    _TEXTS_OF_NUMBERS: "Texts of numbers. Make numbers of them where you want amounts",
    "texts": "Texts",
    "other": "Dates, times, and what is true or false",
}
"""In what forms columns are stored, and what README.txt says of each."""


def numbers_texts(suffix: str) -> bool:
    """Return whether a format has no texts in completed files, but numbers with labels.

    >>> numbers_texts(".dta"), numbers_texts(".sav"), numbers_texts(".csv")
    (True, False, False)
    """
    probe = Variable("x", role="other", categories=("a", "b"))
    return not isinstance(_values(probe, suffix)[0], str)


def numbers_of(book: Codebook, partly: Collection[str], suffix: str, earlier: bool) -> dict[str, tuple[Scalar, ...]]:
    """Return the numbers that the file has for the categories of each variable of texts that it does not keep as text.

    They are those of released data: the categories themselves where all of them are numbers. Else a format that has no
    texts here has the codes 1, 2, ... ``partly`` are the variables that some records do not show, which are numbers in
    released data of every statistical program. ``earlier``: what files have that do not say how columns are stored.
    Codes stood for numbers with a fraction there, and formats with texts had nothing else.
    """
    coded, found = numbers_texts(suffix), dict[str, tuple[Scalar, ...]]()
    kinds: tuple[type, ...] = (int,) if earlier else (int, float)
    for variable in book.variables:
        if not (variable.is_categorical and isinstance(variable.categories[0], str)):
            continue
        if not coded and (earlier or variable.name not in partly):
            continue
        values = _values(variable, suffix)
        if all(type(value) in kinds for value in values):
            found[variable.name] = values
        elif coded and len(values) <= _MOST_NUMBERED:
            found[variable.name] = tuple(range(1, len(values) + 1))
    return found


def type_of(numbers: Collection[Scalar]) -> pa.DataType:
    """Return the type of a column of these numbers: that of whole ones where all are."""
    return pa.int64() if all(isinstance(value, int) for value in numbers) else pa.float64()


def labels_of(variable: Variable, numbers: Collection[Scalar] | None, suffix: str) -> dict[str, str]:
    """Return the labels of a variable's values in the file, by the texts of the values; {} if they say nothing more."""
    values = tuple(numbers or variable.categories)
    labels = dict(zip(map(str, values), variable.code_labels, strict=False))
    if not variable.labels and tuple(labels) == tuple(map(str, variable.categories)):
        return {}
    if not numbers_texts(suffix):
        return labels
    return {str(v): labels[str(v)] for v in values if _is_labelled(v)}


def _is_labelled(value: Scalar) -> bool:
    return not isinstance(value, str) and float(value).is_integer() and abs(value) <= _MOST_LABELLED


def stored_as(
    schema: pa.Schema, book: Codebook, numbers: Mapping[str, Collection[Scalar]], suffix: str
) -> dict[str, str]:
    """Return how the file stores each variable of the codebook: a key of :data:`TOLD`.

    >>> book = Codebook((Variable("sex", role="key", categories=("F", "M")),))
    >>> schema = pa.schema([("sex", pa.int64())])
    >>> stored_as(schema, book, {"sex": (1, 2)}, ".dta"), stored_as(schema, book, {}, ".csv")
    ({'sex': 'codes'}, {'sex': 'texts'})
    """
    return {v.name: _stored(v, schema.field(v.name).type, numbers.get(v.name), suffix) for v in book.variables}


def _stored(variable: Variable, of: pa.DataType, numbers: Collection[Scalar] | None, suffix: str) -> str:
    texts = tuple(map(str, variable.categories))
    if numbers is not None and tuple(map(str, numbers)) != texts:
        return "codes"
    if numbers is None and (isinstance(next(iter(variable.categories), None), str) or coding.is_text(of)):
        if not texts or not all(re.fullmatch(NUMBER, text) for text in texts):
            return "texts"
        if suffix != ".csv":  # in which every program finds numbers
            return _TEXTS_OF_NUMBERS
    if variable.labels:
        return "labelled numbers"
    is_number = pa.types.is_integer(of) or pa.types.is_floating(of) or coding.is_text(of)
    return "numbers" if is_number or numbers is not None else "other"


def _values(variable: Variable, suffix: str) -> tuple[Scalar, ...]:
    return formats.values_of(f"x{suffix}", released_variable(variable))[:-1]
