"""What a codebook says of a frame before values are suppressed or averaged: recodes, no answers, what is left out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from postrand.codebook import Codebook, Variable
from postrand.codebook.coding import category_numbers, encode, from_numpy
from postrand.codebook.variable import Role
from postrand.data.frames import like, names_of, to_arrow, with_columns
from postrand.data.recoded import recode
from postrand.errors import DataError, UsageError, raise_all, sentence, shown
from postrand.support.inputs import is_names

LEFT_OUT = ("drop", "record_key")
"""Roles that such a file does not hold."""


def keys_of(keys: Sequence[str], codebook: Codebook | None) -> Sequence[str]:
    """Return the key variables: those that are named, or else those of the codebook with this role."""
    own = _with_role(codebook, "key")
    return own if keys is None or (is_names(keys) and not keys) else keys


def household_of(named: str | None, codebook: Codebook | None) -> str | None:
    """Return the column with the number of the household: the one that is named, or else the codebook's."""
    own = _with_role(codebook, "household")
    return named if named is not None or not own else own[0]


def _with_role(codebook: Codebook | None, role: Role) -> list[str]:
    if not isinstance(codebook, Codebook | None):
        raise UsageError(sentence("not a Codebook", got=shown(codebook, repr), fix="use Codebook.from_dict"))
    return [] if codebook is None else [variable.name for variable in codebook.with_role(role)]


def by_codebook(frame: Any, codebook: Codebook, used: Collection[str], household: str | None = None) -> Any:
    """Return a frame as the codebook describes it: recoded, and without the columns that are not released.

    The column ``household`` stays, to be counted by: :func:`without_household` takes it out where it is not released.
    In the columns ``used``, codes for no answer are missing: they count as one value with the other missing ones, and
    as none of a sensitive variable.

    Raises
    ------
    UsageError
        If a column that is used is not released, or is another one after a recode.
    DataError
        If a column cannot be recoded, or a value of a used one is not in the codebook.

    Examples
    --------
    >>> sick = Variable("sick", "sensitive", ("no", "yes", "n.a."), missing="keep", missing_codes=("n.a.",))
    >>> book = Codebook((sick, Variable("id", "drop", type="int64")))
    >>> by_codebook(pa.table({"id": [1, 2], "sick": ["yes", "n.a."]}), book, ["sick"]).to_pydict()
    {'sick': ['yes', None]}
    """
    check_used(codebook, used, household)
    left, frame = _left(codebook), recode(frame, codebook)
    names = names_of(frame)
    for name in used:
        if name in names and name in codebook and codebook[name].missing_codes:
            column = to_arrow(frame, [name]).column(0)
            frame = placed(frame, name, _without_codes(column, codebook[name]))
    return _select(frame, [name for name in names if name == household or name not in left])


def check_used(codebook: Codebook, used: Collection[str], household: str | None = None) -> None:
    """Raise UsageError with every column that is used and not released, or is another one after a recode."""
    fix = "give it another role in the codebook, or name other columns"
    what = "a column is used, and the codebook does not release it"
    problems = [
        sentence(what, where=f"column {name!r}", got=codebook[name].role, fix=fix)
        for name in _left(codebook)
        if name in used
    ]
    for name in [*used, *filter(None, [household])]:
        made = [one.variable for one in codebook.recodes if one.source == name]
        if made and name not in codebook:
            what = f"column {name!r} is recoded into {' and '.join(map(repr, made))}, as the codebook tells"
            problems.append(sentence(what, fix=f"name {' or '.join(map(repr, made))} in its place"))
    raise_all(UsageError, problems)


def check_numbers(codebook: Codebook, used: Collection[str]) -> None:
    """Raise UsageError with every column of which a recode of the codebook makes names, and no numbers."""
    fix = "name another column, or leave this recode out of the codebook for this file"
    problems = [
        sentence(f"the codebook makes {one.kind.name} of it, which are no numbers", where=f"column {name!r}", fix=fix)
        for name in used
        for one in codebook.recodes
        if one.variable == name and one.kind.categories() and not category_numbers(codebook[name])
    ]
    raise_all(UsageError, problems)


def without_household(frame: Any, household: str | None, codebook: Codebook | None) -> Any:
    """Return the frame without the column ``household``, if the codebook does not release it."""
    left = [] if codebook is None else _left(codebook)
    return _select(frame, [name for name in names_of(frame) if name != household or name not in left])


def _select(frame: Any, kept: list[str]) -> Any:
    return frame if kept == names_of(frame) else with_columns(frame, pa.table({}), kept)


def told(codebook: Codebook, used: Collection[str], left: Collection[str]) -> tuple[str, ...]:
    """Return in sentences what a codebook did to the columns that leave, ``left``; ``used`` are some of them."""
    recoded = [f"{one.variable}: {one.in_words()}" for one in codebook.recodes if one.variable in left]
    coded = [name for name in used if name in codebook and codebook[name].missing_codes]
    return (*recoded, *codes_missing(coded))


def codes_missing(names: Sequence[str]) -> tuple[str, ...]:
    """Return the note on columns of which codes for no answer are missing values; () without any."""
    return (f"Codes for no answer are missing values: {', '.join(names)}.",) if names else ()


def placed(frame: Any, name: str, column: pa.Array | pa.ChunkedArray) -> Any:
    """Return the frame with a column in place of its own; categorical where its type has no missing values."""
    try:
        return like(frame, {name: column})
    except DataError:  # a type without missing values, such as whole numbers in pandas: its values become categories
        return like(frame, {name: column.dictionary_encode()}, categorical=[name])


def _left(codebook: Codebook) -> list[str]:
    return [variable.name for variable in codebook.variables if variable.role in LEFT_OUT]


def _without_codes(column: pa.ChunkedArray, variable: Variable) -> pa.Array:
    """Return the column with missing values in place of its codes for no answer."""
    absent = [variable.categories.index(code) for code in variable.missing_codes]
    gone = np.isin(encode(column, variable), absent)
    held = column.combine_chunks()
    held = held.chunk(0) if isinstance(held, pa.ChunkedArray) else held
    return held.take(from_numpy(np.arange(len(held)), gone))
