"""What every file format gives: a Source of Arrow batches and a Writer; one module holds one format."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from postrand.codebook import Codebook
from postrand.codebook.coding import check_type, is_text
from postrand.codebook.variable import Scalar
from postrand.errors import DataError, ReleaseError, UsageError, nearest, raise_all, sentence
from postrand.formats._settings import USUAL, ReadSettings
from postrand.support.refusals import refused
from postrand.support.showing import few, unshown

BATCH_ROWS = 1 << 17
SHOWN = 10
"""Names of a file's columns that a message lists."""


class Source(Protocol):
    """Microdata that can be read any number of times, as a stream of bounded batches.

    Where a file does not say of which type its columns are, its source has ``untyped = True``: a draft then looks at
    the values, which ``lossless(texts, type)`` converts. Where records have no order of their own, it has
    ``ordered = False``: they need a record key.
    """

    @property
    def schema(self) -> pa.Schema:
        """The columns with the types and labels of the file itself."""

    @property
    def num_rows(self) -> int | None:
        """The number of records, or None where only reading tells."""

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the records in file order, at most ``batch_size`` at a time, text columns dictionary-encoded.

        The batches, put together, do not depend on ``batch_size``. ``columns`` names what to read and in which order:
        else all but lists and records, which are never released, and of which a small file can have very many.

        Raises
        ------
        DataError
            If a column is not in the file, or is one of lists or records, or the file is damaged.
        """


@dataclass(frozen=True, slots=True, eq=False)
class WrappedSource:
    """The records of another source with something done to them; what is not changed is as there."""

    source: Source

    @property
    def num_rows(self) -> int | None:
        """The number of records, or None where only reading tells."""
        return self.source.num_rows

    @property
    def path(self) -> Path:
        """The file, where the source is one."""
        found: Path = self.source.path  # type: ignore[attr-defined]  # who asks, asks hasattr first
        return found

    @property
    def ordered(self) -> bool:
        """Whether the records come in one order each time."""
        return getattr(self.source, "ordered", True)

    @property
    def untyped(self) -> bool:
        """Whether the file does not say of which type its own columns are."""
        return getattr(self.source, "untyped", False)

    def lossless(self, text: pa.Array, target: pa.DataType) -> pa.Array | None:
        """Return texts as values of another type, as the file converts them; only of one that is untyped."""
        found: pa.Array | None = self.source.lossless(text, target)  # type: ignore[attr-defined]  # see Source
        return found


class Writer(Protocol):
    """Takes batches for one file."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the records; the batch holds the columns of the schema, in any order, dictionary-encoded or not."""


Opening = Callable[[Path], AbstractContextManager[BinaryIO]]
"""How a writer opens its file: :func:`writing` makes a new one, :func:`comparing` checks one that is there."""


@dataclass(frozen=True, slots=True)
class Readers:
    """Say how Python and R read a file of a format: the code that a release shows to those who analyse it.

    Parameters
    ----------
    python
        An expression that gives a pandas frame; ``{}`` stands for the path in quotes.
    r
        An expression that gives a data frame; ``{}`` likewise.
    r_values
        For ``postrand.R``: expressions that give the values as the file holds them, each by the R package that it
        needs (``""``: none beside R itself). ``path`` is the file; ``postrand_values`` takes haven's labels off. The
        first package that is installed serves.
    python_library
        What Python needs beside pandas, if anything.
    """

    python: str
    r: str
    r_values: Mapping[str, str]
    python_library: str = ""


@dataclass(frozen=True, slots=True)
class Format:
    """Describe one file format; each module of this package has one as ``FORMAT``, and everything else asks that.

    Parameters
    ----------
    name
        What people call it: ``"SPSS"``.
    suffixes
        The file names that it reads, in small letters; a release is written with the first that is written.
    read
        ``read(path, codebook)`` returns a Source. The path has one of the suffixes, and names a file with content.
        Where the format has ``settings``, they are a third argument.
    open_writer
        ``open_writer(path, schema, opening)`` returns a context manager of a Writer, whose file is complete on leaving:
        opened by :func:`writing`, and removed on an error, or by :func:`comparing`.
    readers
        How Python and R read it.
    media_type
        The type of its files for catalogues.
    library
        The package that settles the bytes.
    read_only
        Suffixes that are read, and not written.
    keeps_types
        Whether every type, the order of categories and the metadata of columns survive.
    keeps_labels
        Whether the labels of columns survive.
    label_room
        The bytes of a column's label in which a release says that the column is perturbed; 0: nobody reads labels.
    limits
        What it cannot hold and therefore refuses, beyond types; empty where it holds any text, whole number and name.
    partly
        ``partly(texts, missing)`` returns what its files hold for the categories of a variable that some records do not
        show, the last of which is ``(not released)``; ``missing`` are those that mean "no answer". A column of a schema
        says by its metadata ``not_released`` that it is such a variable. None where files hold these texts.
    settings
        Names of the :class:`postrand.formats.ReadSettings` that it takes: what its files do not say of themselves.
    detect
        ``detect(path, given)`` returns all of these settings, those that are given and those that the file shows; it
        raises DataError with the candidates where the file does not show which. None where there are no settings.
    misfits
        ``misfits(fields, values)`` yields a sentence for each column that its files cannot hold; ``values`` are the
        categories of those that have some, by name. None where files hold everything.

    Raises
    ------
    UsageError
        If the suffixes are not those of files, or nothing could be written.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[..., Source]
    open_writer: Callable[[Path, pa.Schema, Opening], AbstractContextManager[Writer]]
    readers: Readers
    media_type: str
    library: str = "pyarrow"
    read_only: tuple[str, ...] = ()
    keeps_types: bool = False
    keeps_labels: bool = False
    label_room: int = 0
    limits: str = ""
    partly: Callable[[Sequence[str], Sequence[str]], tuple[Scalar, ...]] | None = None
    settings: tuple[str, ...] = ()
    detect: Callable[[Path, ReadSettings], ReadSettings] | None = None
    misfits: Callable[[pa.Schema, Mapping[str, pa.Array]], Iterator[str]] | None = None

    def __post_init__(self) -> None:
        wrong = [s for s in self.suffixes if not re.fullmatch(r"(\.[a-z0-9]+)+", s)]
        wrong += [s for s in self.read_only if s not in self.suffixes]
        if wrong or not self.suffixes or (self.written and self.suffixes[0] in self.read_only):
            wanted = "suffixes such as '.csv', the first of which is written where any is"
            raise UsageError(sentence(f"format {self.name!r} has invalid suffixes", got=self.suffixes, wanted=wanted))

    @property
    def written(self) -> tuple[str, ...]:
        """The suffixes that are written; the first is the one that is offered."""
        return tuple(s for s in self.suffixes if s not in self.read_only)

    def suffix_of(self, path: Path) -> str:
        """Return the suffix by which the path names a file of the format, the longest, or an empty text."""
        name = path.name.lower()
        return max((s for s in self.suffixes if name.endswith(s)), key=len, default="")


def read_file(entry: Format, path: Path, codebook: Codebook | None, settings: ReadSettings = USUAL) -> Source:
    """Open a file that is there in a format, whatever its suffix says; see :func:`postrand.formats.read`.

    Raises
    ------
    UsageError
        If the format does not take one of the settings.
    DataError
        If the file is empty or damaged, or does not fit the codebook.
    """
    if not path.stat().st_size:
        raise DataError(sentence("the file is empty", where=path.name, fix="copy it again"))
    raise_all(UsageError, setting_problems(entry, settings, path.name))
    source = entry.read(path, codebook, settings) if entry.settings else entry.read(path, codebook)
    check_schema(source.schema, path, codebook)
    return source


def setting_problems(entry: Format, settings: ReadSettings, where: str) -> Iterator[str]:
    """Yield a sentence for each setting that the files of a format do not have."""
    wanted = ", ".join(entry.settings) or "no setting"
    for name in settings.to_dict():
        if name not in entry.settings:
            fix = f"remove {name}"
            yield sentence(f"{entry.name} files have no setting {name!r}", where=where, wanted=wanted, fix=fix)


def new_file(entry: Format, path: Path, schema: pa.Schema) -> AbstractContextManager[Writer]:
    """Return what writes a new file in a format; see :func:`postrand.formats.open_writer`.

    Raises
    ------
    UsageError
        If the suffix is not one that the format writes, or a batch lacks a column.
    ReleaseError
        If the file exists, or cannot be written.
    """
    if (suffix := entry.suffix_of(path)) in entry.read_only:
        fix = f"write {entry.written[0]}: {entry.name} reads it" if entry.written else "write .csv or .parquet"
        raise UsageError(sentence(f"{suffix} files can be read, but not written", where=path.name, fix=fix))
    return entry.open_writer(path, schema, writing)


def check_schema(schema: pa.Schema, path: Path, codebook: Codebook | None) -> None:
    """Raise DataError with every column that is named twice or does not fit the codebook.

    Every column of the file needs an entry, and so a role; every entry needs its column, of its type.
    """
    problems = first([sentence(f"column {n!r} is named twice", where=path.name) for n in repeated(schema.names)])
    if codebook is not None and not problems:
        problems = first(
            [
                sentence(
                    f"column {name!r} has no entry in the codebook, so it has no role",
                    where=path.name,
                    fix="add it to the codebook (role 'drop' leaves it out)",
                )
                for name in schema.names
                if name not in codebook
            ]
        )
        held = set(schema.names)
        for variable in codebook.variables:
            if variable.name not in held:
                problems.append(_no_such_column(variable.name, schema.names, path))
                continue
            if variable.role == "drop" and variable.type == str(schema.field(variable.name).type):
                continue  # of any type: lists and records too
            try:
                check_type(schema.field(variable.name).type, variable)
            except DataError as error:
                problems += error.problems
    raise_all(DataError, problems)


def check_header(path: Path, header: Sequence[str], codebook: Codebook | None) -> None:
    """Refuse a first line that is rather a record than the names of columns, and never show what is in it."""
    known = [] if codebook is None else [name for name in header if name in codebook]
    fix = "if the file has no line of column names, add one before the first record"
    if codebook is not None and not known:
        what = "the first line does not contain any column of the codebook"
        raise DataError(sentence(what, where=path.name, wanted=f"{len(codebook.names)} columns", fix=fix))
    odd = [at for at, name in enumerate(header, 1) if not re.search(r"[^\W\d]", name)]
    if odd and not known:
        what = f"field {odd[0]} of the first line is a number or empty, and not the name of a column"
        fix += "; if these are names, list them in a codebook; if field 1 is a row number without a name, remove it"
        raise DataError(sentence(what, where=path.name, fix=fix))
    places: dict[str, int] = {}
    problems = [
        f"fields {places[name]} and {at} of the first line are the same: a column is named twice"
        for at, name in enumerate(header, 1)
        if places.setdefault(name, at) < at
    ]
    raise_all(DataError, (sentence(what, where=path.name, fix=fix) for what in first(problems)))


def select(schema: pa.Schema, columns: Sequence[str] | None, path: Path) -> list[str]:
    """Return the columns to read; raises DataError for those that the file does not have, and for lists and records."""
    nested = {field.name for field in schema if pa.types.is_nested(field.type)}
    if columns is None and len(nested) < len(schema):
        return [name for name in schema.names if name not in nested]
    columns = schema.names if columns is None else columns
    raise_all(UsageError, [sentence(f"column {n!r} is asked for twice") for n in repeated(columns)])
    known = set(schema.names)
    raise_all(DataError, [_no_such_column(n, schema.names, path) for n in columns if n not in known])
    what, fix = "a column of lists or records is not read", "set role = 'drop' for it"
    raise_all(DataError, first([sentence(what, where=f"column {n!r}", fix=fix) for n in columns if n in nested]))
    return list(columns)


def bounded(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Yield the batch in pieces of at most ``size`` records, text columns dictionary-encoded."""
    if size < 1:
        raise UsageError(sentence("the batch size is not positive", got=size, wanted=">= 1"))
    columns = [
        c.dictionary_encode() if is_text(c.type) and not pa.types.is_dictionary(c.type) else c for c in batch.columns
    ]
    whole = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    for start in range(0, batch.num_rows, size):
        yield whole.slice(start, size)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the schema's columns, in its order and types.

    Raises
    ------
    UsageError
        If a column of the schema is not in the batch, or the other way round.
    """
    given, wanted = dict.fromkeys(batch.schema.names), dict.fromkeys(schema.names)
    problems = [sentence(f"no column {n!r} to write") for n in wanted if n not in given]
    problems += [sentence(f"column {n!r} is not in the schema to write") for n in given if n not in wanted]
    raise_all(UsageError, problems)
    arrays = [cast(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return the array in another type that holds its values exactly; dictionaries keep their order.

    Raises
    ------
    DataError
        If a value does not fit the type.
    """
    if array.type == target:
        return array
    try:
        if pa.types.is_dictionary(target):
            array = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
            indices, values = array.indices.cast(target.index_type), array.dictionary.cast(target.value_type)
            return pa.DictionaryArray.from_arrays(indices, values, ordered=target.ordered)
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(sentence("a column cannot be converted without loss", got=array.type, wanted=target)) from None


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn a library's error, which can quote records, into a DataError without the quotation."""
    try:
        yield
    except (pa.ArrowException, OverflowError, OSError, UnicodeDecodeError, EOFError) as error:
        of_machine = refused(error)
        raise DataError(of_machine) if of_machine else damaged(path, what) from None


def spelt(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a file; UnicodeDecodeError if it has a name that is no text."""
    _ = schema.names, [str(field.type) for field in schema]
    return schema


def damaged(path: Path, what: str) -> DataError:
    """Return the error of a file that is not what it should be."""
    fix = "the file is truncated or damaged; copy it again"
    return DataError(sentence(f"not a readable {what} file", where=path.name, fix=fix))


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Open a new file, and remove it again if anything fails before it is complete.

    Raises
    ------
    ReleaseError
        If the file exists, or cannot be written.
    """
    try:
        sink = path.open("xb")
    except OSError as error:
        raise _not_written(path, error) from None
    try:
        with sink:
            yield sink
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _not_written(path, error) from None
        raise


@contextmanager
def comparing(path: Path) -> Iterator[BinaryIO]:
    """Open for writing what compares the bytes it is given with those of a file that is there, and changes nothing.

    Raises
    ------
    DataError
        On leaving, if the file is not what was written.
    """
    with path.open("rb") as file:
        compared = _Compared(file)
        yield compared  # type: ignore[misc]
        if not compared.same or file.read(1):
            what = "the file differs, byte for byte, from the file that its records give"
            raise DataError(sentence(what, where=path.name, fix="do not use it: it can contain more than its records"))


class _Compared(io.RawIOBase):
    """Takes the bytes that a file should have."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.same, self.written = file, True, 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.written

    def write(self, data: Any) -> int:
        wanted = memoryview(data).cast("B")
        self.same = self.same and self.file.read(wanted.nbytes) == wanted
        self.written += wanted.nbytes
        return wanted.nbytes


def first(problems: Sequence[str], number: int = 0) -> list[str]:
    """Return the first ten problems and the number of the others: a file's own names are shown in moderation.

    ``number`` is how many there are, where only the first are given.
    """
    shown = problems[: len(problems) - unshown(len(problems), SHOWN)]
    rest = max(number, len(problems)) - len(shown)
    return [*shown, *([f"... and {rest} more of this kind."] if rest > 0 else [])]


def repeated(names: Sequence[str]) -> list[str]:
    """Return the names that occur more than once, sorted."""
    return sorted(name for name, times in Counter(names).items() if times > 1)


def _no_such_column(name: str, known: Sequence[str], path: Path) -> str:
    what = f"no column {name!r}{nearest(name, known)}"
    return sentence(what, where=path.name, wanted=f"one of {few(known, SHOWN)}")


def _not_written(path: Path, error: OSError) -> ReleaseError:
    return ReleaseError(sentence("the file cannot be written", where=path.name, got=error.strerror or "an I/O error"))
