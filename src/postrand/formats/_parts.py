"""Microdata in several files: a folder, or a pattern such as ``survey/*.parquet``; read and written part by part."""

from __future__ import annotations

import glob
import itertools
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from postrand.codebook.coding import is_text, value_type
from postrand.errors import DataError, ReleaseError, UsageError, raise_all, sentence
from postrand.formats.base import BATCH_ROWS, Source, Writer, first, select
from postrand.support.showing import few

PART_NAME = "part-{:05}"


@dataclass(frozen=True, slots=True)
class PartsSource:
    """Files of one schema, read one after the other as if they were one; see :class:`postrand.formats.base.Source`."""

    path: Path
    files: tuple[Path, ...]
    parts: tuple[Source, ...]

    def __post_init__(self) -> None:
        raise_all(DataError, first(list(_drift(self.files, self.parts))))
        if self.num_rows == 0:
            raise DataError(sentence("no file contains a record", where=str(self.path)))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the first file; every file has these."""
        return self.parts[0].schema

    @property
    def num_rows(self) -> int | None:
        """The records of all files, or None where only reading tells."""
        rows = [part.num_rows for part in self.parts]
        return None if None in rows else sum(n for n in rows if n is not None)

    @property
    def untyped(self) -> bool:
        """Whether the files do not say of which type their columns are."""
        return getattr(self.parts[0], "untyped", False)

    def lossless(self, text: pa.Array, target: pa.DataType) -> pa.Array | None:
        """Return texts as values of another type, as the first file converts them; only of files that are untyped."""
        convert: Callable[[pa.Array, pa.DataType], pa.Array | None] = self.parts[0].lossless  # type: ignore[attr-defined]  # those have it: see Source
        return convert(text, target)

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the records, file by file in order of name."""
        names = select(self.schema, columns, self.path)
        for part in self.parts:
            yield from part.batches(names, batch_size)

    def sizes(self) -> tuple[int, ...]:
        """Return the number of records in each file; reads one column where the format does not tell."""
        first = self.schema.names[:1]
        return tuple(
            sum(batch.num_rows for batch in part.batches(first)) if part.num_rows is None else part.num_rows
            for part in self.parts
        )


def each_part(source: Source, wrap: Callable[[Source], Source]) -> Source:
    """Return a source in what wraps it, file by file where it is several."""
    if isinstance(source, PartsSource):
        return replace(source, parts=tuple(wrap(part) for part in source.parts))
    return wrap(source)


def files_of(path: Path, suffix_of: Callable[[Path], str] = lambda _: "") -> tuple[Path, ...] | None:
    """Return the files of a folder or of a pattern, sorted by name, or None where the path is that of one file.

    Names that begin with ``.`` or ``_`` are left out, of files and of the folders that a pattern finds: other programs
    mark what is theirs, or not complete, so. ``suffix_of`` returns the suffix of a file that can be read, and an empty
    text for others: an error names the files of a folder that can.

    Raises
    ------
    UsageError
        If there is none, a folder cannot be read or holds folders, or the files are not of one format.
    """
    if os.path.isdir(path):
        try:
            entries = [entry for entry in path.iterdir() if entry.name[0] not in "._"]
        except OSError as error:
            raise UsageError(sentence("the folder cannot be read", where=str(path), got=error.strerror)) from None
        if entries and all(entry.is_dir() and "=" in entry.name for entry in entries):
            _check_once(path)
            entries = list(_below(path))
        if any(entry.is_dir() for entry in entries):
            fix = _readable(path, entries, suffix_of) or "give the files as a pattern, for example '**/*.parquet'"
            raise UsageError(sentence("the folder contains folders", where=str(path), fix=fix))
    elif not os.path.exists(path) and glob.has_magic(str(path)):
        if "**" in path.parts:
            _check_once(Path(*itertools.takewhile(lambda part: not glob.has_magic(part), path.parts)))
        found = [Path(name) for name in glob.iglob(str(path), recursive=True)]
        entries = [entry for entry in found if not any(n[0] in "._" for n in _found(path, entry)) and entry.is_file()]
    else:
        return None
    if not entries:
        raise UsageError(
            sentence("no file is there", where=str(path), fix="give a file, a folder that has files, or a pattern")
        )
    if len(suffixes := {entry.suffix.lower() for entry in entries}) > 1:
        got = ", ".join(sorted(suffix or "no suffix" for suffix in suffixes))
        fix = (_readable(path, entries, suffix_of) if os.path.isdir(path) else "") or "use a pattern"
        raise UsageError(sentence("the files are not of one format", where=str(path), got=got, fix=fix))
    return tuple(sorted(entries))


def _readable(folder: Path, entries: Sequence[Path], suffix_of: Callable[[Path], str]) -> str:
    """Return which files of a folder can be read, as what is typed: the path of one, a pattern of several."""
    held: dict[str, list[Path]] = {}
    for entry in sorted(entries):
        if not entry.is_dir() and (suffix := suffix_of(entry)):
            held.setdefault(suffix, []).append(entry)
    typed = [shlex.quote(str(own[0] if len(own) == 1 else folder / f"*{suffix}")) for suffix, own in held.items()]
    return f"give what is to be read, such as {few(typed, 4)}" if typed else ""


def folders_of(path: Path, file: Path) -> tuple[str, ...]:
    """Return the names of the folders that a folder or pattern left open, from above, for one of its files."""
    return file.relative_to(path).parts[:-1] if os.path.isdir(path) else _found(path, file)[:-1]


def _check_once(root: Path) -> None:
    """Raise UsageError where links lead to a folder twice: its records would be doubled, or the way has no end."""
    seen = set()
    try:
        for folder, inner, _ in os.walk(root, followlinks=True):
            inner[:] = [name for name in inner if name[0] != "."]
            found = os.stat(folder)
            if (found.st_dev, found.st_ino) in seen:
                what, fix = "a link leads to a folder a second time", "remove the link, or name the folders one by one"
                raise UsageError(sentence(what, where=folder, fix=fix))
            seen.add((found.st_dev, found.st_ino))
    except OSError as error:
        raise UsageError(sentence("the folder cannot be read", where=str(root), got=error.strerror)) from None


def _below(folder: Path) -> Iterator[Path]:
    """Yield the files of folders ``name=value``, however deep; a folder of another name as it is."""
    for entry in folder.iterdir():
        if entry.name[0] in "._":
            continue
        if entry.is_dir() and "=" in entry.name:
            yield from _below(entry)
        else:
            yield entry


def _found(pattern: Path, file: Path) -> tuple[str, ...]:
    """Return the parts of a file's path that the pattern left open, its name included."""
    named = next(i for i, part in enumerate(pattern.parts) if glob.has_magic(part))
    return file.parts[named:]


@contextmanager
def open_parts(
    folder: Path, open_part: Callable[[Path, pa.Schema], AbstractContextManager[Writer]],
    suffix: str, sizes: Sequence[int], schema: pa.Schema,
) -> Iterator[Writer]:  # fmt: skip
    """Write a new folder ``part-00000<suffix>``, ...: the n-th file takes ``sizes[n]`` records, the last one the rest.

    A part of no records has no file. After an error there is no folder.

    Raises
    ------
    ReleaseError
        If the folder exists, or a file cannot be written.
    """
    try:
        folder.mkdir()
    except OSError as error:
        raise ReleaseError(
            sentence("the folder cannot be created", where=str(folder), got=error.strerror or "an I/O error")
        ) from None

    def open_number(number: int) -> AbstractContextManager[Writer]:
        return open_part(folder / (PART_NAME.format(number) + suffix), schema)

    try:
        with ExitStack() as stack:
            yield _Cut(stack, open_number, sizes)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


class _Cut:
    """Cut a stream of batches into files; at any time at most one is open, in ``stack``."""

    def __init__(
        self, stack: ExitStack, open_number: Callable[[int], AbstractContextManager[Writer]], sizes: Sequence[int]
    ) -> None:
        self._stack, self._open_number, self._sizes = stack, open_number, sizes
        self._number, self._room = -1, 0
        self._part: Writer | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            last = self._number >= len(self._sizes) - 1
            if self._part is None or (self._room == 0 and not last):
                self._next()
                continue
            piece = batch if last else batch.slice(0, self._room)
            self._part.write(piece)
            self._room -= piece.num_rows
            batch = batch.slice(piece.num_rows)

    def _next(self) -> None:
        self._stack.pop_all().close()
        self._number += 1
        while self._number < len(self._sizes) - 1 and self._sizes[self._number] == 0:
            self._number += 1
        self._room = self._sizes[self._number]
        self._part = self._stack.enter_context(self._open_number(self._number))


def _drift(files: Sequence[Path], parts: Sequence[Source]) -> Iterator[str]:
    """Yield a sentence for each column by which a file differs from the first one."""
    wanted = {field.name: _plain(field.type) for field in parts[0].schema}
    for file, part in zip(files, parts, strict=True):
        found = {field.name: _plain(field.type) for field in part.schema}
        for name in dict.fromkeys([*wanted, *found]):
            if found.get(name) != wanted.get(name):
                yield sentence(
                    f"column {name!r} differs from that in {files[0].name}",
                    where=file.name,
                    got=found.get(name, "no such column"),
                    wanted=wanted.get(name, "no such column"),
                    fix="all files of a source need the same schema; convert this file, or leave it out",
                )


def _plain(of: pa.DataType) -> pa.DataType:
    """Return the type of the values: text is the same, written as a dictionary or not."""
    return value_type(of) if is_text(of) else of
