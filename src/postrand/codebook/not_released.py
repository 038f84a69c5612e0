"""Values that a record does not show: in a split release each record shows some of the variables, drawn at random.

Not released is not missing. Among codes it is the one after the last, S: it fits the type of the codes whatever S is,
counts of released codes are one row of S + 1, and -1 keeps its meaning, a missing value that is kept. Among values it
is one more category, the last, so the released variable is categorical text whatever the type of the true one.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import coding
from postrand.codebook.codebook import Codebook
from postrand.codebook.variable import MAX_CATEGORIES, RELEASED_ROLES, Variable
from postrand.errors import DataError, sentence

NOT_RELEASED = "(not released)"
"""The category of a value that the record does not show."""
METADATA_KEY = b"not_released"
"""The key of a column's metadata that says so of it."""
SENTENCE = f"{NOT_RELEASED}: the record does not show this variable. This is not a missing value."
"""What people are told who open the data alone."""


def code_of(variable: Variable) -> int:
    """Return the code of a value that is not released: the number S of the variable's codes.

    >>> code_of(Variable("sex", role="key", categories=("F", "M"), missing="category"))
    3
    """
    return variable.size


def released_variable(variable: Variable) -> Variable:
    """Return how a variable of a split is released: its categories as text, and last that it is not released.

    It has no order, because not to be released is not above the highest category. Missing values stay missing.

    >>> released_variable(Variable("age", role="key", type="int64", categories=(10, 20))).categories
    ('10', '20', '(not released)')
    """
    texts = (*map(str, variable.categories), NOT_RELEASED)
    index = "int8" if len(texts) <= 127 else "int16" if len(texts) <= 32_767 else "int32"
    return dataclasses.replace(
        variable,
        categories=texts,
        labels=(*variable.labels, NOT_RELEASED) if variable.labels else (),
        type=f"dictionary<values=string, indices={index}, ordered=0>",
        ordered=False,
        missing_codes=tuple(map(str, variable.missing_codes)),
    )


def shown_codebook(codebook: Codebook, names: Collection[str]) -> Codebook:
    """Return the codebook of released data, in which these variables are as they are released; it has no rules.

    Rules are about true categories; a combination of released ones is judged by its codes.

    >>> book = Codebook((Variable("sex", role="key", categories=("F", "M")),))
    >>> shown_codebook(book, ["sex"])["sex"].categories, shown_codebook(book, []) is book
    (('F', 'M', '(not released)'), True)
    """
    if not names:
        return codebook
    return Codebook(tuple(released_variable(v) if v.name in names else v for v in codebook.variables))


def is_partly(variable: Variable) -> bool:
    """Return whether this is the form in which a variable of a split is released; see :func:`released_variable`."""
    return variable.categories[-1:] == (NOT_RELEASED,) and variable.type.startswith("dictionary<values=string")


def released_field(variable: Variable) -> pa.Field:
    """Return the column of a variable of a split, in the form of :func:`released_variable`, with its metadata.

    They are those of the codebook: what the confidential file says of its numbers does not hold for categories.
    ``value_labels`` has all categories of the true values in order, each its own label where it has no other.

    >>> sex = Variable("sex", role="key", categories=("F", "M"), labels=("female", "male"))
    >>> released_field(released_variable(sex)).metadata[b"value_labels"]
    b'{"F": "female", "M": "male"}'
    """
    texts = variable.categories[:-1]
    labels = dict(zip(texts, variable.labels or texts, strict=False))
    said = {
        b"label": variable.label,
        b"value_labels": json.dumps(labels, ensure_ascii=False),
        b"missing_codes": json.dumps(variable.missing_codes, ensure_ascii=False) if variable.missing_codes else "",
        METADATA_KEY: SENTENCE,
    }
    return pa.field(variable.name, coding.arrow_type(variable.type), metadata={k: v for k, v in said.items() if v})


def decode(codes: NDArray[Any], variable: Variable) -> pa.Array:
    """Return the released values of codes -1..S, shape (n,); missing ones are null. Raises as :func:`coding.decode`.

    >>> sex = Variable("sex", role="key", categories=("F", "M"), missing="category")
    >>> decode(np.array([1, 2, 3]), sex).to_pylist()
    ['M', None, '(not released)']
    """
    return coding.decode(_swapped(codes, variable), released_variable(variable))


def encode(column: pa.Array | pa.ChunkedArray, variable: Variable) -> NDArray[Any]:
    """Return the codes of released values, shape (n,): the inverse of :func:`decode`. Raises as :func:`coding.encode`.

    >>> sex = Variable("sex", role="key", categories=("F", "M"), missing="category")
    >>> encode(pa.array(["M", None, "(not released)"]), sex).tolist()
    [1, 2, 3]
    """
    if pa.types.is_dictionary(column.type) and not coding.is_text(column.type):
        got = coding.kind_text(column.type)
        raise DataError(sentence("the column is not text", where=f"variable {variable.name!r}", got=got))
    return _swapped(coding.encode(column, released_variable(variable)), variable)


def _swapped(codes: NDArray[Any], variable: Variable) -> NDArray[Any]:
    """Exchange the last two codes where missing is a category: it follows the last category, whichever that is."""
    codes = np.asarray(codes)
    if variable.missing != "category":
        return codes
    count = len(variable.categories)
    return np.where(codes == count, count + 1, np.where(codes == count + 1, count, codes)).astype(codes.dtype)


def not_released_problems(codebook: Codebook, names: Sequence[str]) -> Iterable[str]:
    """Yield a sentence for each released variable that has a category or label ``(not released)`` already.

    ``names`` are the variables of a split; without any, the category has no meaning, and is a category like any other.
    """
    for name in names:
        if name in codebook and len(codebook[name].categories) >= MAX_CATEGORIES:
            what = "too many categories: one more says that a record does not show the variable"
            yield sentence(what, where=f"variable {name!r}", wanted=f"< {MAX_CATEGORIES}")
    for variable in codebook.with_role(*RELEASED_ROLES) if names else ():
        if NOT_RELEASED in (*map(str, variable.categories), *variable.labels):
            what = f"a category or label is {NOT_RELEASED!r}, which says that a record does not show the variable"
            yield sentence(what, where=f"variable {variable.name!r}", fix="rename it")
