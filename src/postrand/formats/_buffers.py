"""What the buffers of an Arrow file unpack to, by what they say of themselves; nothing is unpacked.

Each compressed buffer begins with its length as it is read, which a reader reserves. Where the buffers are is told by
tables of FlatBuffers, of which this reads what is needed: https://flatbuffers.dev/internals/ and
https://github.com/apache/arrow/tree/main/format (File.fbs, Message.fbs).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK, _BUFFER = struct.Struct("<qi4xq"), struct.Struct("<qq")
_DICTIONARY, _BATCH = 2, 3
"""What a message holds."""
_OLD_SIGN = b"ARROW:experimental_compression"
"""In a message whose compression is told by words, as in the first files that had any."""
WRONG = (struct.error, ValueError, IndexError, OverflowError)
"""What a file raises here that is no such file."""


def unpacked_of(path: Path) -> int:
    """Return the bytes that are in the memory at once: of all dictionaries, and of the largest batch.

    Raises
    ------
    OSError
        If the file cannot be read.
    struct.error, ValueError, IndexError, OverflowError
        If the file is damaged: see ``WRONG``.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        (length,) = struct.unpack_from("<i", data, len(data) - 10)
        footer = _Table.root(data, len(data) - 10 - length)
        left = len(data)
        found: dict[int, list[int]] = {_DICTIONARY: [0], _BATCH: [0]}
        for field, kind in ((2, _DICTIONARY), (3, _BATCH)):
            for at, head, body in footer.structs(field, _BLOCK):
                left -= head + body
                if min(at, head, body, left) < 0:  # no two have the same bytes, or time has no bound
                    raise ValueError("batches that are longer than the file")
                found[kind].append(_unpacked(data, at, head, kind))
    return sum(found[_DICTIONARY]) + max(found[_BATCH])


def _unpacked(data: mmap.mmap, at: int, head: int, kind: int) -> int:
    """Return what the buffers of a batch unpack to."""
    begins = at + (8 if data[at : at + 4] == b"\xff" * 4 else 4)  # older files have no such sign
    message = _Table.root(data, begins)
    batch = message.table(2)
    if kind == _DICTIONARY:
        batch = batch.table(1)
    is_packed = bool(batch.place(3)) or _OLD_SIGN in data[begins : at + head]
    return sum(_size(data, at + head + start, size, is_packed) for start, size in batch.structs(2, _BUFFER))


def _size(data: mmap.mmap, at: int, size: int, is_packed: bool) -> int:
    if min(at, size) < 0 or at + size > len(data):
        raise ValueError("a buffer that is not in the file")
    if not is_packed or size < 8:
        return size
    (unpacked,) = struct.unpack_from("<q", data, at)
    return size if unpacked == -1 else max(0, int(unpacked))  # -1: as it is


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of FlatBuffers, at ``at``."""

    data: mmap.mmap
    at: int

    @classmethod
    def root(cls, data: mmap.mmap, at: int) -> _Table:
        return cls(data, at + _number(data, at, "<I"))

    def place(self, field: int) -> int:
        """Return where a field is; 0 where there is none."""
        fields = self.at - _number(self.data, self.at, "<i")
        entry = 4 + 2 * field
        if entry >= _number(self.data, fields, "<H"):
            return 0
        offset = _number(self.data, fields + entry, "<H")
        return self.at + offset if offset else 0

    def table(self, field: int) -> _Table:
        if not (place := self.place(field)):
            raise ValueError("a part is missing")
        return _Table.root(self.data, place)

    def structs(self, field: int, of: struct.Struct) -> Iterator[tuple[int, ...]]:
        """Yield the entries of a list; of one that is missing none."""
        if place := self.place(field):
            place += _number(self.data, place, "<I")
            for number in range(_number(self.data, place, "<I")):
                yield of.unpack_from(self.data, place + 4 + number * of.size)


def _number(data: mmap.mmap, at: int, kind: str) -> int:
    if at < 0:
        raise ValueError("before the beginning")
    found: int = struct.unpack_from(kind, data, at)[0]
    return found
