"""What the bytes of a file can hold: a small file that claims to hold very much is refused before it is read."""

from __future__ import annotations

from pathlib import Path

from postrand.errors import DataError, sentence

FREE = 1 << 27
"""Values that a file of any size may hold: they are read in seconds."""
A_BYTE = 1000
"""Values for each byte of a longer file; deflate, too, unpacks no byte to much more."""
HELD = 100
"""Times its size to which what a reader keeps in memory may unpack."""
UNPACKED = 1 << 28
"""Bytes to which a part of any size may unpack, and those in the memory for one batch."""


def check_values(path: Path, values: int) -> None:
    """Raise DataError where a file of this size cannot hold so many values, but by repeating one.

    Columns without information take hardly a bit, but a file of records has others; one that has none costs its reader
    as much time as it likes.
    """
    if values > max(FREE, A_BYTE * path.stat().st_size):
        what = f"the file claims to hold more than {A_BYTE:,} values for each of its bytes"
        raise DataError(sentence(what, where=path.name, fix="do not use it: it is damaged, or made to stop its reader"))


def check_unpacked(path: Path, unpacked: int, packed: int, times: int = A_BYTE) -> None:
    """Raise DataError where a part of a file unpacks to very many times its size."""
    if unpacked > max(UNPACKED, times * packed):
        what = f"a part of the file unpacks to more than {times:,} times its size"
        raise DataError(sentence(what, where=path.name, fix="do not use it: it is damaged, or made to stop its reader"))
