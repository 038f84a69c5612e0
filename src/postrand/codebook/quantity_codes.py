"""Numbers of a quantity that look like codes for no answer: of the usual kinds, frequent, and apart from the others.

A quantity has no list of categories: only its values, and how often each occurs, can show that -9 or 999 is no amount.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from postrand.codebook.no_answer import file_codes, file_labels, says_so
from postrand.recoding.base import key_of
from postrand.support.arrow import python_values, to_floats
from postrand.support.showing import SMALL, few

if TYPE_CHECKING:
    from postrand.recoding import Recode

LEAST = SMALL
"""Values of fewer records are never told: one could be a person's."""
MOST_LOOKED_AT = 100_000
"""So many records, the first ones, are looked at."""
_RUNS = re.compile(r"9*[6-9]|6+|7+|8+")
"""Digits of the usual codes: 7, 98, 999, 9996, 888."""
_TAIL, _NEAR, _PLAIN, _MOST_NEGATIVE = 10, 3, 3, 50
"""So many of the outermost values show how far apart values lie; so many near ones how frequent; digits of a code that
can lie among true values, or have a fraction (99.9); more negative values than this are not all codes."""
_FREQUENT, _SPIKE, _SHARE = 3, 10, 0.005
"""Times as frequent as the values near it: more often, far more often; and the least share of records of a spike."""
DECLARED, LABELLED = "the file declares", "the file labels so"
"""How a file itself says what means no answer: in a list, or by labels."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """Hold a value that looks like a code for no answer; ``is_sure``: hardly a true value.

    ``stated``: how the file itself says so, in words; empty where it does not.
    """

    value: int | float
    is_sure: bool
    stated: str = ""


@dataclass(frozen=True, slots=True)
class _Counted:
    """Hold distinct numbers in ascending order with their numbers of records."""

    values: NDArray[np.float64]
    records: NDArray[np.int64]

    def where(self, chosen: NDArray[np.bool_]) -> _Counted:
        return _Counted(self.values[chosen], self.records[chosen])

    def joined(self, value: float, records: int) -> _Counted:
        """Return the numbers with one more."""
        at = np.searchsorted(self.values, value)
        return _Counted(np.insert(self.values, at, value), np.insert(self.records, at, records))

    def near(self, value: float) -> float:
        """Return the median number of records of the values that lie nearest."""
        at = np.argsort(np.abs(self.values - value), kind="stable")[:_NEAR]
        return float(np.median(self.records[at])) if at.size else math.inf


def suspects(column: pa.Array | pa.ChunkedArray) -> tuple[Suspect, ...]:
    """Return the values of a column of numbers that look like codes for no answer, in ascending order.

    They are of the usual kinds (-9, 98, 999, 8888, 99.9; never 0), at least ``LEAST`` records have each, and they are
    negative where no other value is, or lie far beyond all others, or apart from them and are more frequent, or are far
    more frequent than the values near them. Other types than numbers, and texts that are none, have no such codes.

    >>> ages = [*range(16, 95)] * 4
    >>> [one.value for one in suspects(pa.array([*ages, *[999] * 9, *[-9] * 30]))]
    [-9, 999]
    >>> suspects(pa.array([*ages, 99]))
    ()
    """
    return _suspects(_counted(column))


def _suspects(held: _Counted) -> tuple[Suspect, ...]:
    return tuple(Suspect(_plain(value), bool(sure)) for value, sure in sorted(_found(held).items()))


def suspects_in(
    columns: Mapping[str, pa.Array | pa.ChunkedArray],
    recodes: Iterable[Recode] = (),
    metadata: Mapping[str, Mapping[bytes, bytes] | None] | None = None,
) -> dict[str, tuple[Suspect, ...]]:
    """Return what looks like codes for no answer in the first ``MOST_LOOKED_AT`` records of columns, by their names.

    Not in those of which one of ``recodes`` says what means no answer; and a number that a recode makes of others, such
    as the limit of a top coding, is none. Codes that the file itself states in its ``metadata``, by a label or in a
    list, are sure.
    """
    made = {recode.variable: recode for recode in recodes}
    found = dict[str, tuple[Suspect, ...]]()
    for name, column in columns.items():
        recode = made.get(name)
        if recode is not None and recode.states_missing:
            continue
        true = () if recode is None else recode.stand_for_more
        held = _counted(column.slice(0, MOST_LOOKED_AT))
        codes = {one.value: one for one in _suspects(held) if one.value not in true}
        codes |= {one.value: one for one in _stated(held, (metadata or {}).get(name))}
        if codes:
            found[name] = tuple(codes[value] for value in sorted(codes))
    return found


def _stated(held: _Counted, metadata: Mapping[bytes, bytes] | None) -> Iterator[Suspect]:
    """Yield the numbers of a column that its file states to mean no answer, if ``LEAST`` records have each."""
    labels = {_read(text) for text, label in file_labels(metadata).items() if says_so(label)}
    values = [_plain(value) for value in held.values[held.records >= LEAST]]
    yield from (Suspect(value, True, LABELLED) for value in values if value in labels)
    yield from (Suspect(value, True, DECLARED) for value in file_codes(metadata, values))


def is_number(of: pa.DataType) -> bool:
    """Return whether values of a type are amounts, and no texts or truth values."""
    return bool(pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_decimal(of))


def quantities_told(found: Mapping[str, Sequence[Suspect]]) -> str:
    """Return in a phrase which values of which quantities look like codes for no answer, and how sure this is.

    >>> quantities_told({"pay": [Suspect(-9, True), Suspect(999, False)]})
    'numbers that look like codes for no answer count as values, in means too: pay (probably -9; perhaps 999)'
    """
    listed = few([f"{name} ({_by_sureness(codes)})" for name, codes in found.items()])
    return f"numbers that look like codes for no answer count as values, in means too: {listed}"


def remedy_of(name: str, codes: Sequence[Suspect]) -> str:
    """Return what to write in a codebook that makes the codes of a quantity missing, or says that they are values."""
    listed = ", ".join(key_of(one.value) for one in codes)
    entry = f'missing = [{listed}] in an entry of [[recodes]] with variable = "{name}"'
    keep = 'missing = "keep" for the variable'
    return f"if they mean no answer, write {entry}, and {keep}; if they are true values, missing = [] in that entry"


def note_of(name: str, codes: Sequence[Suspect]) -> str:
    """Return the note at a quantity in the draft of a codebook."""
    return f"values that look like codes for no answer: {_by_sureness(codes)}; {remedy_of(name, codes)}"


def _by_sureness(codes: Sequence[Suspect]) -> str:
    words = [one.stated or ("probably" if one.is_sure else "perhaps") for one in codes]
    kinds = [word for word in (DECLARED, LABELLED, "probably", "perhaps") if word in words]
    held = [[key_of(c.value) for c, own in zip(codes, words, strict=True) if own == word] for word in kinds]
    return "; ".join(f"{word} {few(values)}" for word, values in zip(kinds, held, strict=True))


def _counted(column: pa.Array | pa.ChunkedArray) -> _Counted:
    """Return the numbers of a column, without missing ones; of texts, those that can be read."""
    of = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (is_number(of) or _is_text(of)):
        return _Counted(np.zeros(0), np.zeros(0, dtype=np.int64))
    told = pc.value_counts(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    values, records = told.field("values"), to_floats(told.field("counts").cast(pa.float64())).astype(np.int64)
    values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    numbers = _floats(values)
    kept = np.isfinite(numbers)
    distinct, at = np.unique(numbers[kept], return_inverse=True)
    return _Counted(distinct, np.bincount(at, records[kept], distinct.size).astype(np.int64))


def _floats(values: pa.Array) -> NDArray[np.float64]:
    if _is_text(values.type):
        return np.array([_read(text) for text in values.to_pylist()], dtype=np.float64)
    if pa.types.is_float32(values.type):
        return np.array([math.nan if value is None else value for value in python_values(values)], dtype=np.float64)
    return to_floats(values.cast(pa.float64(), safe=False))


def _is_text(of: pa.DataType) -> bool:
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of))


def _read(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan


def _is_usual(value: float) -> bool:
    """Whether a number is written as codes for no answer are."""
    digits = key_of(abs(float(value))).replace(".", "")
    if not _RUNS.fullmatch(digits):
        return -9 <= value < 0 and float(value).is_integer()
    return float(value).is_integer() or len(digits) >= _PLAIN


def _plain(value: float) -> int | float:
    return int(value) if float(value).is_integer() else float(value)


def _codes_of(held: _Counted) -> NDArray[np.bool_]:
    """Return which values are usual codes; one of few records is a value like others, but below 0 it is no amount."""
    asked = held.records >= LEAST
    below = held.values < 0
    if below.sum() <= _MOST_NEGATIVE:
        asked |= below
    asked[asked] = [_is_usual(value) for value in held.values[asked]]
    return asked & ~_are_prices(held.values)


def _are_prices(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which numbers have a fraction that more than half of all have, such as .99."""
    fraction = np.round(np.abs(values) % 1, 6)
    kinds, at, times = np.unique(fraction, return_inverse=True, return_counts=True)
    return np.asarray((kinds[at] > 0) & (2 * times[at] > values.size))


def _found(held: _Counted) -> dict[float, bool]:
    """Return the suspicious values, and whether each is hardly a true one."""
    is_code, below = _codes_of(held), held.values < 0
    if not (below & ~is_code).any():
        above = held.where(~below)
        return dict(_negative(held.where(below), above)) | dict(_beyond(above, is_code[~below]))
    low, high = is_code & (held.values < -9), is_code & ~below  # others can be true values among those below 0
    mirrored = _Counted(-held.values[::-1], held.records[::-1])
    found = {-value: sure for value, sure in _beyond(mirrored.where(~high[::-1]), low[::-1][~high[::-1]], 2)}
    return found | dict(_beyond(held.where(~low), high[~low])) | dict(_spikes(held, is_code & below & ~low))


def _spikes(held: _Counted, is_code: NDArray[np.bool_]) -> Iterator[tuple[float, bool]]:
    """Yield codes among true values that far more records have than the values near them: none is sure."""
    others, total = held.where(~is_code), int(held.records.sum())
    for value, records in zip(held.values[is_code], held.records[is_code], strict=True):
        if records >= max(LEAST, _SPIKE * others.near(value), _SHARE * total):
            yield value, False


def _negative(codes: _Counted, others: _Counted) -> Iterator[tuple[float, bool]]:
    """Yield codes below 0 of a column whose other values are not: but no tail of true values, such as 0, -1, -2."""
    tail, most = 0.0, 0
    while others.values.size and others.values[0] == 0 and (codes.values == tail - 1).any():
        records = int(codes.records[codes.values == tail - 1][0])
        if records >= _FREQUENT * others.near(0):
            break
        tail, most = tail - 1, max(most, records)
    is_tail = tail <= -2
    for value, records in zip(codes.values, codes.records, strict=True):
        if records >= LEAST and not (is_tail and (value >= tail or records <= most)):
            yield value, value < -1 or tail == 0


def _beyond(held: _Counted, is_code: NDArray[np.bool_], digits: int = _PLAIN) -> Iterator[tuple[float, bool]]:
    """Yield codes that lie beyond the other values, or among them as a spike; a code beside true values is one too.

    Codes among them have ``digits`` at least. The value of few records is a value like others.
    """
    codes, others = held.where(is_code), held.where(~is_code)
    if not others.values.size:
        yield from ((value, True) for value in codes.values if abs(value) > 9)
        return
    total, span = int(held.records.sum()), others.values[-1] - others.values[0]
    for value, records in zip(codes.values, codes.records, strict=True):
        gap, times = value - others.values[-1], records / others.near(value)
        step = float(np.max(np.diff(others.values[-_TAIL:]), initial=0))
        is_spike = times >= _SPIKE and records >= _SHARE * total
        if gap < 0:
            is_suspect, is_sure = is_spike and len(key_of(value)) >= digits, False
        else:
            is_sure = (gap >= span and gap > 2 * step) or (gap > step and is_spike)
            is_suspect = is_sure or (gap > 2 * step and times >= _FREQUENT) or times >= _SPIKE
        if is_suspect and records >= LEAST:
            yield value, is_sure
        else:
            others = others.joined(value, records)
