"""How the columns of a file with suppressed values leave, found by their values beside those of a plan's file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from postrand.codebook import Codebook
from postrand.columns.recoded import unrecoded
from postrand.formats import Source
from postrand.workflow.column_ways import ColumnWay, all_in_words, recoded_from

NOT_SAME = "values that are not recognised as those of the plan's file"
FIRST = "recoded first"
NONE_BESIDE = "No column leaves beside the keys."


def ways_beside(
    source: Source, codebook: Codebook, released: Source, keys: Collection[str], columns: Iterable[str]
) -> tuple[ColumnWay, ...]:
    """Return how each column leaves in ``released``, and which of ``columns`` do not.

    ``source`` is the plan's file as its codebook recodes it. The records of both are in different orders: a column is
    the same if each value is there as often.
    """
    plain, _ = unrecoded(source)
    made = {recode.variable: recoded_from(recode) for recode in codebook.recodes}

    def way(name: str) -> ColumnWay:
        if name in keys:
            return ColumnWay(name, "suppressed", FIRST * (name in made), made.get(name, ""))
        held = _values(released, name)
        if name in made and held == _values(source, name):
            return ColumnWay(name, "recoded", "", made[name])
        is_same = name in plain.schema.names and held == _values(plain, name)
        return ColumnWay(name, "as it is", "", "") if is_same else ColumnWay(name, "as it is", NOT_SAME, NOT_SAME)

    left = [name for name in columns if name not in released.schema.names]
    return (*map(way, released.schema.names), *(ColumnWay(name, "not released") for name in left))


def claims_beside(ways: Collection[ColumnWay]) -> tuple[str, ...]:
    """Return in sentences how the columns leave that are in the file, the keys among them.

    >>> claims_beside([ColumnWay("sex", "suppressed"), ColumnWay("id", "not released")])
    ('Released with some values suppressed: sex.', 'No column leaves beside the keys.')
    """
    leaving = [one for one in ways if one.leaves]
    none = () if any(one.is_clear for one in leaving) else (NONE_BESIDE,)
    return (*(f"{text}." for text in all_in_words(leaving)), *none)


def _values(source: Source, name: str) -> Counter[float | str | None]:
    """Return how often a column has each value, in whatever type a file holds it: 1, 1.0 and the text 1 are the same.

    Nothing, and what is no number, are one missing value.
    """
    found: Counter[float | str | None] = Counter()
    for batch in source.batches([name]):
        column = batch.column(0)
        held = column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
        for one in pc.value_counts(held).to_pylist():
            found[_plain(one["values"])] += one["counts"]
    return found


def _plain(value: object) -> float | str | None:
    if value is None:
        return None
    try:
        number = float(str(value))
    except ValueError:
        return str(value)
    return number if number == number else None
