r"""A digest of records that does not depend on their order, since a table of a database has none.

Of record r with values v_1, ..., v_m as bytes::

    h_r = SHA-256(n_1 ":" v_1 ‖ ... ‖ n_m ":" v_m)     n_j the length of v_j, "-" in place of a missing value
    digest = SHA-256(names ‖ h_(1) ‖ ... ‖ h_(n))      the h_r in ascending order, repeats kept

Whole numbers, truth values, dates and times are written as text, times of day and instants in microseconds; other
numbers as the eight bytes of a float64, most significant first. So the digest does not depend on the width in which
a database holds a number. Two tables that differ have one digest only if SHA-256 has a collision.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from postrand.codebook import coding
from postrand.engines.order import WORDS, KeyedOrder
from postrand.errors import UsageError, sentence
from postrand.support.arrow import from_texts, from_truths, index_values, is_null

MEMORY = 1 << 27
"""Bytes of digests that are kept in memory; beyond, they are sorted through temporary files."""
_WRITTEN = 1 << 16
"""Records that are written at a time."""
_PIECE = 1 << 14
"""Records that are digested at a time: meanwhile Python holds ten times the bytes of their digests."""
_TRIED = 1 << 10
"""Records that show whether many are equal."""
MOST_COMBINATIONS = 1 << 12
"""Of categories of neighbouring columns that are written together: each once for a batch of records."""
_REST = ("\0third", "\0fourth")
# Made of texts: Arrow loads pandas to make a scalar of a Python value, which takes longer than all else here.
_MISSING = from_texts(["-"]).cast(pa.binary())
_NOTHING, _COLON, _DASH = from_texts(["", ":", "-"]).cast(pa.binary())


class TableDigest:
    """Take batches of records, in any order; give their digest. A context manager: temporary files live as long.

    Examples
    --------
    >>> def digest(*rows):
    ...     with TableDigest(["a", "b"]) as table:
    ...         table.add(pa.record_batch({"a": [a for a, _ in rows], "b": [b for _, b in rows]}))
    ...         return table.hexdigest()
    >>> digest((1, "x"), (2, None)) == digest((2, None), (1, "x"))
    True
    >>> digest((1, "x"), (2, None)) == digest((1, "x"), (2, None), (2, None))
    False
    """

    def __init__(self, names: Sequence[str], memory: int = MEMORY, scratch: Path | None = None) -> None:
        self._names = list(names)
        self._order = KeyedOrder(memory, scratch)
        self.records = 0

    def __enter__(self) -> TableDigest:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._order.__exit__(kind, error, trace)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the records of a batch, which has all columns; raises UsageError for a type that no table holds."""
        if not batch.num_rows:
            return
        parts = [batch.slice(start, _WRITTEN) for start in range(0, batch.num_rows, _WRITTEN)]
        words = np.concatenate([_hashes(_rows([part.column(name) for name in self._names])) for part in parts])
        rest = [coding.from_numpy(np.ascontiguousarray(words[:, n])) for n in (2, 3)]
        self._order.add(pa.RecordBatch.from_arrays(rest, names=list(_REST)), words[:, :2])
        self.records += batch.num_rows

    def hexdigest(self) -> str:
        """Return the digest of all records taken, as hexadecimal; called once."""
        total = hashlib.sha256(b"postrand table\0" + json.dumps(self._names).encode() + b"\0")
        for part in self._order.parts():
            words = [coding.to_numpy(part.column(name).combine_chunks()) for name in (*WORDS, *_REST)]
            total.update(np.stack(_ascending(words), axis=1).astype(">u8").tobytes())
        return total.hexdigest()


def _ascending(words: Sequence[NDArray[np.uint64]]) -> list[NDArray[np.uint64]]:
    """Return the words of digests in ascending order: that of their first words, unless two differ in later ones."""
    order = np.argsort(words[0])
    ordered = [word[order] for word in words]
    tied = np.flatnonzero(ordered[0][1:] == ordered[0][:-1])
    if any((word[tied] != word[tied + 1]).any() for word in ordered[1:]):
        order = np.lexsort(words[::-1])
        ordered = [word[order] for word in words]
    return ordered


def _hashes(rows: pa.Array) -> NDArray[np.uint64]:
    """Return the SHA-256 of each row as four words, shape (n, 4); where many rows are equal, each is digested once."""
    tried = rows.slice(0, _TRIED)
    if 2 * len(tried.unique()) > len(tried):
        return _digests(rows)
    distinct = rows.dictionary_encode()
    each: NDArray[np.uint64] = _digests(distinct.dictionary)[coding.to_numpy(distinct.indices)]
    return each


def _digests(rows: pa.Array) -> NDArray[np.uint64]:
    found = []
    for start in range(0, len(rows), _PIECE):
        found += [b"".join([hashlib.sha256(row).digest() for row in rows.slice(start, _PIECE).to_pylist()])]
    return np.frombuffer(b"".join(found), dtype=">u8").reshape(-1, 4).astype(np.uint64)


def _rows(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the bytes of each record."""
    coded = [c.dictionary_encode() if coding.is_text(c.type) and not _is_coded(c) else c for c in columns]
    written: list[pa.Array] = []
    together: list[pa.Array] = []
    for column in coded:
        if together and (not _is_coded(column) or _combinations([*together, column]) > MOST_COMBINATIONS):
            written.append(_combined(together))
            together = []
        if _is_coded(column):
            together.append(column)
        else:
            written.append(_written(column))
    written += [_combined(together)] if together else []
    return pc.binary_join_element_wise(*written, _NOTHING)


def _is_coded(column: pa.Array) -> bool:
    return bool(pa.types.is_dictionary(column.type))


def _combinations(columns: Sequence[pa.Array]) -> int:
    return math.prod(len(column.dictionary) + 1 for column in columns)


def _combined(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the bytes of several columns with dictionaries: each combination is written once, then looked up."""
    sizes = [len(column.dictionary) + 1 for column in columns]  # the last place is that of a missing value
    index = np.zeros(len(columns[0]), dtype=np.int64)
    for column, size in zip(columns, sizes, strict=True):
        index = index * size + np.where(is_null(column.indices), size - 1, index_values(column.indices))
    if len(index) < math.prod(sizes):
        return _looked_up(columns, np.unravel_index(index, sizes))
    return _looked_up(columns, np.unravel_index(np.arange(math.prod(sizes)), sizes)).take(coding.from_numpy(index))


def _looked_up(columns: Sequence[pa.Array], places: Sequence[NDArray[np.int64]]) -> pa.Array:
    parts = [
        pa.concat_arrays([_written(column.dictionary).cast(pa.binary()), _MISSING]).take(coding.from_numpy(place))
        for column, place in zip(columns, places, strict=True)
    ]
    return pc.binary_join_element_wise(*parts, _NOTHING)


def _written(column: pa.Array) -> pa.Array:
    """Return length and bytes of each value, ``-`` for a missing one."""
    values = _float_bytes(column) if pa.types.is_floating(column.type) else _text(column).cast(pa.binary())
    lengths = pc.binary_length(values).cast(pa.string()).cast(pa.binary())
    joined = pc.binary_join_element_wise(lengths, values, _COLON)
    return pc.fill_null(joined, _DASH)


def _float_bytes(column: pa.Array) -> pa.Array:
    column = column.cast(pa.float64())
    numbers = index_values(column)
    missing = is_null(column) | np.isnan(numbers)  # one kind of missing, as in every release
    valid, packed = from_truths(~missing).buffers()[1], pa.py_buffer(numbers.astype(">f8").tobytes())
    return pa.Array.from_buffers(pa.binary(8), len(column), [valid, packed]).cast(pa.binary())


def _text(column: pa.Array) -> pa.Array:
    of = column.type
    if pa.types.is_binary(of) or pa.types.is_large_binary(of):
        return column
    if pa.types.is_timestamp(of):
        column = column.cast(pa.timestamp("us", of.tz)).cast(pa.int64())
    elif pa.types.is_time(of):
        column = column.cast(pa.time64("us")).cast(pa.int64())
    elif pa.types.is_date(of):
        column = column.cast(pa.date32()).cast(pa.int32())
    try:
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        fix = "cast the column, or give it the role 'drop'"
        raise UsageError(
            sentence("a column has a type that a table of a release cannot contain", got=of, fix=fix)
        ) from None
