"""Letters of missing numbers in SAS transport files, which pyreadstat neither writes nor reads.

A number takes 8 bytes. One that is missing has a sign in the first, ``.`` or a letter, and seven zeros. The layout is
that of SAS's technical notes on transport files, versions 5 and 8: cards of 80 bytes, a description of 140 bytes for
each column, long labels in version 8, then the records one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

_CARD = 80
_ENTRY = 140
_LENGTH, _POSITION = slice(4, 6), slice(84, 88)
_COUNT = slice(48, 58)
_HEADER = b"HEADER RECORD*******"
_LABELS = {b"LABELV8 ": 6, b"LABELV9 ": 10}
"""Bytes before the texts of a label: the number of its column, then the length of each text."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the records are: the first byte of all, the bytes of each, and the first byte of each column in it."""

    start: int
    width: int
    places: tuple[int, ...]


def mark(path: Path, columns: Mapping[int, NDArray[np.bool_]], letter: str) -> None:
    """Write the letter into the missing numbers of these columns, by their places, where the mask, shape (n,), is set.

    Raises
    ------
    ValueError
        If the file has another layout, or a number there is not missing.
    """
    found = _layout(path)
    for place, mask in columns.items():
        shape = (mask.size, found.width)
        held = np.memmap(path, np.uint8, "r+", found.start, shape)
        first = held[:, found.places[place]]
        if (first[mask] != ord(".")).any():
            raise ValueError("a number is not missing")
        first[mask] = ord(letter)
        held.flush()


def marked(path: Path, place: int, start: int, rows: int, letter: str) -> NDArray[np.bool_]:
    """Return whether each number of a column, shape (rows,), is missing with this letter, from record ``start`` on.

    Raises
    ------
    ValueError
        If the file has another layout.
    """
    if not rows:
        return np.zeros(0, dtype=bool)
    found = _layout(path)
    held = np.memmap(path, np.uint8, "r", found.start + start * found.width, (rows, found.width))
    value = held[:, found.places[place] : found.places[place] + 8]
    is_marked: NDArray[np.bool_] = (value[:, 0] == ord(letter)) & ~value[:, 1:].any(axis=1)
    return is_marked


def _layout(path: Path) -> _Layout:
    with path.open("rb") as file:
        head = file.read(_CARD)
        while head and not head.startswith((_HEADER + b"NAMSTV8 ", _HEADER + b"NAMESTR ")):
            head = file.read(_CARD)
        count = int(head[_COUNT])
        described = _padded(file, count * _ENTRY)
        entries = [described[_ENTRY * k : _ENTRY * (k + 1)] for k in range(count)]
        head = file.read(_CARD)
        if lead := _LABELS.get(head[len(_HEADER) :][:8]):
            _skip_labels(file, int(head[48:].split()[0]), lead)  # read, as a label may look like a header
            head = file.read(_CARD)
        if not head.startswith(_HEADER + b"OBS"):
            raise ValueError("the file has another layout")
        widths = [int.from_bytes(entry[_LENGTH], "big") for entry in entries]
        places = tuple(int.from_bytes(entry[_POSITION], "big") for entry in entries)
        return _Layout(file.tell(), sum(widths), places)


def _padded(file: BinaryIO, size: int) -> bytes:
    """Read so many bytes, and what fills the last card."""
    return file.read(-(-size // _CARD) * _CARD)


def _skip_labels(file: BinaryIO, count: int, lead: int) -> None:
    read = 0
    for _ in range(count):
        sizes = file.read(lead)[2:]
        texts = sum(int.from_bytes(sizes[k : k + 2], "big") for k in range(0, len(sizes), 2))
        read += lead + len(file.read(texts))
    file.read(-read % _CARD)
