"""The bytes of a text file as UTF-8, whatever its encoding and if it is compressed; read once, in bounded memory."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from postrand.errors import DataError, sentence
from postrand.formats._bounds import check_unpacked

BLOCK = 1 << 20
LONGEST_LINE = 1 << 23
"""Characters of a line: the parser takes no longer ones, and a small archive can unpack to an endless one."""
DAMAGED = (zipfile.BadZipFile, NotImplementedError, struct.error, zlib.error, lzma.LZMAError, EOFError, OSError)
"""What Python's libraries raise where compressed bytes are damaged."""


def is_compressed(path: Path) -> bool:
    """Return whether the file's suffix says that its bytes are compressed."""
    return path.suffix.lower() in (".gz", ".zip")


def is_utf8(encoding: str) -> bool:
    """Return whether an encoding, or none, is UTF-8.

    >>> is_utf8(""), is_utf8("UTF8"), is_utf8("windows-1252")
    (True, True, False)
    """
    return codecs.lookup(encoding or "utf-8").name in ("utf-8", "utf-8-sig")


@contextmanager
def raw(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """Open the bytes of a file, or those of what is compressed in it.

    Raises
    ------
    DataError
        If the compressed file is damaged or protected, or does not hold exactly one file.
    """
    try:
        if path.suffix.lower() == ".zip":
            with _named(path):
                archive = zipfile.ZipFile(path)
                member = archive.open(_member(archive, path))
            with archive, member as inside:
                yield inside
        elif path.suffix.lower() == ".gz":
            with gzip.open(path, "rb") as inside:
                yield inside
        else:
            with path.open("rb") as file:
                yield file
    except DAMAGED:
        if not is_compressed(path):
            raise
        raise damaged(path) from None


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Turn the library's errors about names of an archive, which are no text or empty, into a DataError."""
    try:
        yield
    except (UnicodeDecodeError, IndexError):
        raise damaged(path) from None


def damaged(path: Path) -> DataError:
    """Return the error of a compressed file that cannot be read to its end."""
    fix = "the file is truncated or damaged; copy it again"
    return DataError(sentence("not a readable compressed file", where=path.name, fix=fix))


def _member(archive: zipfile.ZipFile, path: Path) -> zipfile.ZipInfo:
    """Return the one file of an archive; what the Finder of macOS adds to it is none."""
    held = [
        entry
        for entry in archive.infolist()
        if not entry.is_dir() and not entry.filename.startswith("__MACOSX/") and entry.filename[-9:] != ".DS_Store"
    ]
    if len(held) != 1:
        what, fix = "the archive does not hold exactly one file", "unpack it, and name the file that has the records"
        raise DataError(sentence(what, where=path.name, got=f"{len(held)} files", wanted=1, fix=fix))
    if Path(held[0].filename).suffix.lower() not in (".csv", ".tsv", ".tab", ".txt"):
        what, fix = "the archive does not hold a text file", "unpack it, and name the file that it holds"
        raise DataError(sentence(what, where=path.name, wanted=".csv, .tsv, .tab or .txt", fix=fix))
    check_unpacked(path, held[0].file_size, held[0].compress_size)
    if held[0].flag_bits & 1:
        raise DataError(sentence("the archive is protected by a password", where=path.name, fix="unpack it first"))
    return held[0]


@contextmanager
def text(path: Path, encoding: str) -> Iterator[Lines]:
    """Open the file as text, with its line ends as they are, without a byte order mark."""
    usual = "utf-8-sig" if is_utf8(encoding) else encoding
    with raw(path) as inside, io.TextIOWrapper(inside, encoding=usual, newline="") as held:
        yield Lines(held)


@dataclass(frozen=True, slots=True)
class Lines:
    """Text whose lines have an end; csv.Error at one that is too long."""

    file: io.TextIOWrapper

    def __iter__(self) -> Iterator[str]:
        while line := self.file.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE:
                raise csv.Error
            yield line

    def read(self, size: int) -> str:
        """Return so many characters from here on, or those up to the end."""
        return self.file.read(size)


@contextmanager
def utf8(path: Path, encoding: str) -> Iterator[Any]:
    """Open the file as bytes of UTF-8, for a parser that reads nothing else."""
    with raw(path) as inside:
        yield inside if is_utf8(encoding) else io.BufferedReader(_Recoded(inside, encoding), BLOCK)


class _Recoded(io.RawIOBase):
    """Gives the text of a file as UTF-8; UnicodeDecodeError where it has another encoding."""

    def __init__(self, inside: IO[bytes] | gzip.GzipFile, encoding: str) -> None:
        self._inside, self._decoder = inside, codecs.getincrementaldecoder(encoding)()
        self._left, self._ended = b"", False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left and not self._ended:
            block = self._inside.read(BLOCK)
            self._ended = not block
            self._left = self._decoder.decode(block, final=self._ended).encode()
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


def undecodable_line(path: Path, encoding: str) -> int | None:
    """Return the number of the first line that is no text of this encoding, or None."""
    decoder, lines = codecs.getincrementaldecoder(encoding or "utf-8")(), 1
    with raw(path) as inside:
        while True:
            block = inside.read(BLOCK)
            try:
                found = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                before = error.object[: error.start].decode(encoding or "utf-8", "replace")
                return lines + before.count("\n")
            except UnicodeError:  # UTF-16 without the mark that says which of the two
                return lines
            if not block:
                return None
            lines += found.count("\n")
