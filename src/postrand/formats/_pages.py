"""What the pages of a Parquet file unpack to, by what they say of themselves; nothing is unpacked.

A reader reserves the memory that a page asks for. The sizes that the file states of its columns and groups need not be
those, so each page is asked. Their format is Thrift's compact protocol, of which this reads what is needed:
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md and
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BYTES, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_DATA, _DATA_2 = 0, 3
"""Types of pages that have values; each has a header of its own, which says how many and in which encoding."""
_HEADERS = {_DATA: (5, 2), _DATA_2: (8, 4)}
_DICTIONARY = 2
_LENGTHS, _BEGINNINGS = 6, 7
"""Encodings of texts: lengths first; or what each shares with the one before it: few bytes are many long texts."""
WRONG = (IndexError, KeyError, ValueError, RecursionError, TypeError, OverflowError)
"""What a file raises here that is no such file."""


class Pages(NamedTuple):
    """Bytes of all pages as they are read, their values, and columns that cannot be read as numbers of a dictionary.

    With each of these columns, by number, goes the length of its longest text that can stand in many records, at most.
    """

    unpacked: int
    values: int
    spelt_out: dict[int, int]


def pages_of(path: Path) -> Pages:
    """Return the sizes of a Parquet file's pages.

    Raises
    ------
    OSError
        If the file cannot be read.
    IndexError, KeyError, ValueError, RecursionError, TypeError, OverflowError
        If the file is damaged: see ``WRONG``.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = list(_pages(data))
    spelt_out = dict.fromkeys((page.column for page in found if page.encoding in (_LENGTHS, _BEGINNINGS)), 0)
    for page in found:
        if page.column in spelt_out and (page.kind == _DICTIONARY or page.encoding == _BEGINNINGS):
            spelt_out[page.column] = max(page.unpacked, spelt_out[page.column])
    return Pages(sum(page.unpacked for page in found), sum(page.values for page in found), spelt_out)


class _Page(NamedTuple):
    column: int
    kind: int
    unpacked: int
    values: int
    encoding: int


def _pages(data: mmap.mmap) -> Iterator[_Page]:
    footer = _Reader(data, len(data) - 8 - int.from_bytes(data[-8:-4], "little")).struct()
    left = len(data)
    for group in footer[4, _LIST]:
        for number, column in enumerate(group[1, _LIST]):
            told = column[3, _STRUCT]
            at, dictionary = told[9, _I64], told.get((11, _I64), 0)
            at, values = min(at, dictionary) if dictionary > 0 else at, told[5, _I64]
            while values > 0:
                reader = _Reader(data, at)
                page = reader.struct()
                unpacked, packed = page[2, _I32], page[3, _I32]
                left -= reader.at + packed - at
                if min(unpacked, packed, left) < 0:  # no two columns have the same bytes, or time has no bound
                    raise ValueError("pages that are longer than the file")
                at = reader.at + packed
                kind = page[1, _I32]
                header, encoding = _HEADERS.get(kind, (0, 0))
                of = page[header, _STRUCT] if header else {}
                own = of[1, _I32] if header else 0
                if own < 0:
                    raise ValueError("a page of less than no values")
                values -= own
                yield _Page(number, kind, unpacked, own, of.get((encoding, _I32), 0))


@dataclass(slots=True)
class _Reader:
    """Reads values of Thrift's compact protocol from ``at`` on."""

    data: mmap.mmap
    at: int

    def __post_init__(self) -> None:
        if self.at < 0:
            raise ValueError("before the beginning")

    def struct(self) -> dict[tuple[int, int], Any]:
        """Return the fields by number and type: whoever wants one of another type does not find it."""
        found: dict[tuple[int, int], Any] = {}
        number = 0
        while head := self.byte():
            kind = head & 15
            number = number + (head >> 4) if head >> 4 else self.signed()
            found[number, kind] = self.value(kind) if kind > _FALSE else kind == _TRUE
        return found

    def value(self, kind: int) -> Any:
        if kind in (_I16, _I32, _I64):
            found = self.signed()
            if kind == _I32 and not -(1 << 31) <= found < 1 << 31:
                raise ValueError("a number that is too large")
            return found
        if kind in (_TRUE, _FALSE, _BYTE):
            return self.byte()
        if kind in (_DOUBLE, _BYTES):
            length = 8 if kind == _DOUBLE else self.varint()
            self.at += length
            return None
        if kind in (_LIST, _SET):
            head = self.byte()
            return [self.value(head & 15) for _ in range(head >> 4 if head >> 4 < 15 else self.varint())]
        if kind == _MAP:
            size = self.varint()
            kinds = self.byte() if size else 0
            return [(self.value(kinds >> 4), self.value(kinds & 15)) for _ in range(size)]
        if kind == _STRUCT:
            return self.struct()
        raise ValueError("no such type")

    def byte(self) -> int:
        found = self.data[self.at]
        self.at += 1
        return found

    def varint(self) -> int:
        found = shift = 0
        while (byte := self.byte()) & 128 and shift < 63:
            found |= (byte & 127) << shift
            shift += 7
        return found | byte << shift

    def signed(self) -> int:
        found = self.varint()
        return found >> 1 ^ -(found & 1)
