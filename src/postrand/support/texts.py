"""Texts to their places among known ones, and back, by compiled loops: in a quarter and half of Arrow's time."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.support import loops
from postrand.support.arrow import from_numpy

_SPARE = 16
"""Bytes that ``copy_texts`` may read and write beyond the last text."""


def find_places(column: pa.Array, known: Collection[str], otherwise: int, places: NDArray[Any]) -> bool:
    """Write the place of each text among known ones, all different, into ``places`` (n,); whether it could.

    Places are whole numbers with signs, wide enough; a text that is none of the known ones has ``otherwise``. Under a
    null is anything. It cannot where the loop was not compiled, the column is no plain text, or known texts are too
    many or too much alike.

    >>> found = np.empty(3, dtype=np.int8)
    >>> find_places(pa.array(["b", "c", "a"]), ["a", "b"], -2, found) is False or found.tolist() == [1, -2, 0]
    True
    """
    wide = pa.types.is_large_string(column.type)
    if not loops.COMPILED or not (wide or pa.types.is_string(column.type)) or len(column) < max(1, len(known)):
        return False
    _, ends, data = column.buffers()
    offsets = np.frombuffer(ends, np.int64 if wide else np.int32)[column.offset :][: len(column) + 1]
    texts = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return loops.match_texts(*_joined(known), offsets, texts, otherwise, places)


def room_for_ends(of: pa.DataType, count: int) -> tuple[int, np.dtype[Any]]:
    """Return how many numbers of which type tell where so many texts of a type end: none where Arrow makes them."""
    wide = pa.types.is_large_string(of)
    return (count + 1 if wide or pa.types.is_string(of) else 0), np.dtype("i8" if wide else "i4")


def texts_at(values: pa.Array, places: NDArray[Any], of: pa.DataType, offsets: NDArray[Any] | None = None) -> pa.Array:
    """Return the texts at these places, (n,), as the type of text ``of``; null at the place after the last.

    Places are whole numbers with signs. ``offsets`` is room of its own for where the texts end.

    >>> texts_at(pa.array(["a", "b"]), np.array([1, 2, 0], dtype=np.int32), pa.string()).to_pylist()
    ['b', None, 'a']
    """
    is_missing = places == len(values) if places.size and places.max() == len(values) else None
    valid = None if is_missing is None else pa.py_buffer(np.packbits(~is_missing, bitorder="little"))
    count, width = room_for_ends(of, places.size)
    if loops.COMPILED and count:
        ends, data = _joined([*values.to_pylist(), ""])
        offsets = np.empty(count, dtype=width) if offsets is None else offsets
        total = loops.end_texts(ends, places, offsets)
        if width.itemsize == 8 or total < 1 << 31:
            made = np.empty(total + _SPARE, dtype=np.uint8)
            loops.copy_texts(ends, data, places, made)
            return pa.Array.from_buffers(of, places.size, [valid, pa.py_buffer(offsets), pa.py_buffer(made)[:total]])
    return values.cast(of).take(from_numpy(places, is_missing))


def _joined(texts: Collection[str]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return where each text ends, after a 0, and the bytes of all, with some to spare."""
    parts = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    return ends, np.frombuffer(b"".join([*parts, bytes(_SPARE)]), np.uint8)
