"""Texts to their places among known ones, and back, by compiled loops: in a quarter and half of Arrow's time."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.support import loops

_SPARE = 16
"""Bytes that ``copy_texts`` may read and write beyond the last text."""


def places_of(column: pa.Array, known: Collection[str]) -> NDArray[np.int32] | None:
    """Return the place of each text among known ones, all different, (n,); their number where it is none of them.

    Under a null is anything. None where the loop cannot help: it was not compiled, the column is no plain text, or
    known texts are too many or too much alike.

    >>> found = places_of(pa.array(["b", "c", "a"]), ["a", "b"])
    >>> found is None or found.tolist() == [1, 2, 0]
    True
    """
    wide = pa.types.is_large_string(column.type)
    if not loops.COMPILED or not (wide or pa.types.is_string(column.type)) or len(column) < max(1, len(known)):
        return None
    _, ends, data = column.buffers()
    offsets = np.frombuffer(ends, np.int64 if wide else np.int32)[column.offset :][: len(column) + 1]
    texts = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    places = np.empty(len(column), dtype=np.int32)
    return places if loops.match_texts(*_joined(known), offsets, texts, places) else None


def texts_at(values: pa.Array, places: NDArray[np.int32], of: pa.DataType) -> pa.Array:
    """Return the texts at these places, (n,), as the type of text ``of``; null at the place after the last.

    >>> texts_at(pa.array(["a", "b"]), np.array([1, 2, 0], dtype=np.int32), pa.string()).to_pylist()
    ['b', None, 'a']
    """
    is_missing = places == len(values) if places.size and places.max() == len(values) else None
    valid = None if is_missing is None else pa.py_buffer(np.packbits(~is_missing, bitorder="little"))
    wide = pa.types.is_large_string(of)
    if loops.COMPILED and (wide or pa.types.is_string(of)):
        ends, data = _joined([*values.to_pylist(), ""])
        offsets = np.empty(places.size + 1, dtype=np.int64 if wide else np.int32)
        total = loops.end_texts(ends, places, offsets)
        if wide or total < 1 << 31:
            made = np.empty(total + _SPARE, dtype=np.uint8)
            loops.copy_texts(ends, data, places, made)
            return pa.Array.from_buffers(of, places.size, [valid, pa.py_buffer(offsets), pa.py_buffer(made)[:total]])
    indices = pa.Array.from_buffers(pa.int32(), places.size, [valid, pa.py_buffer(places)])
    return values.cast(of).take(indices)


def _joined(texts: Collection[str]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return where each text ends, after a 0, and the bytes of all, with some to spare."""
    parts = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    return ends, np.frombuffer(b"".join([*parts, bytes(_SPARE)]), np.uint8)
