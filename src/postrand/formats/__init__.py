"""Read and write microdata files: one module for each format, found by the file's suffix."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

import pyarrow as pa

from postrand.address import NO_FILE, hidden
from postrand.codebook import Codebook, Variable
from postrand.codebook.variable import Scalar
from postrand.errors import DataError, UsageError, raise_all, sentence
from postrand.formats import _parts
from postrand.formats._partitions import Held, PartitionedSource, held_by, only_in_folders, with_folders
from postrand.formats._parts import PartsSource, each_part, files_of, folders_of
from postrand.formats._settings import (
    SETTINGS,
    SINGLE_BYTE,
    USUAL,
    File,
    ReadSettings,
    named,
    settings_from,
    sign_of,
    usual_of,
)
from postrand.formats._witnesses import Witnesses
from postrand.formats.base import (
    BATCH_ROWS,
    Format,
    Readers,
    Source,
    Writer,
    check_schema,
    comparing,
    first,
    new_file,
    read_file,
    setting_problems,
)
from postrand.formats.parquet import FORMAT as PARQUET
from postrand.formats.parquet import ParquetSource
from postrand.support.extras import missing

_OTHERS = {
    ".xls": "open it in a spreadsheet program, and save it as .xlsx",
    ".xlsb": "open it in a spreadsheet program, and save it as .xlsx",
    ".xlsm": "save it as .xlsx, without its macros",
    ".ods": "save it as .xlsx",
    ".gz": "name what it holds: .csv.gz",
    ".dat": "rename it to .txt if its columns are separated by a sign, and name the columns in the first line",
    ".rds": "save it as .parquet, with arrow::write_parquet",
}
"""What to do with files that are often brought, and not read."""
_SAVE = "if it is a table of records, save it as .csv with the program that made it"

__all__ = [
    "BATCH_ROWS",
    "SETTINGS",
    "SINGLE_BYTE",
    "File",
    "Format",
    "Held",
    "PartsSource",
    "ReadSettings",
    "Readers",
    "Source",
    "Witnesses",
    "Writer",
    "detected",
    "each_part",
    "first_file",
    "format_of",
    "formats",
    "has_limits",
    "is_installed",
    "is_known",
    "library_of",
    "misfits",
    "missing_library",
    "moved",
    "named",
    "open_comparison",
    "open_parts",
    "open_writer",
    "parquet_files",
    "path_of",
    "place_of",
    "placed",
    "read",
    "settings_from",
    "sign_of",
    "suffix_of",
    "unfit_settings",
    "usual_of",
    "values_of",
    "written_as",
    "written_names",
]


def read(path: str | Path | File, codebook: Codebook | None = None) -> Source:
    """Open microdata by suffix; the records are read when :meth:`Source.batches` is called.

    The path is that of a file, of a folder of files, or a pattern such as ``survey/**/*.parquet``: several files of one
    format and schema are read in the order of their names, as one. Columns that only the names of their folders hold
    (``year=2020/x.parquet``) are read too, as text or in the codebook's type. A :class:`File` says how its bytes are to
    be read where that is not the usual way.

    With a codebook, every column must have an entry of its type, and the other way round. A CSV file holds text:
    there the codebook's type says what to convert to, without loss.

    Raises
    ------
    UsageError
        If there is no such file, the suffix is not known, or its files do not have a setting.
    DataError
        If a file is empty or damaged, has no records, does not fit the codebook, or differs from the first in schema.
    """
    path, settings = (path.path, path.settings) if isinstance(path, File) else (Path(path), USUAL)
    files = files_of(path, _known_suffix)
    if files is not None:
        return _read_parts(path, files, codebook, settings)
    source = _read_file(path, codebook, settings)
    if source.num_rows == 0:
        raise DataError(sentence("the file has no records", where=path.name))
    return source


def _read_parts(path: Path, files: Sequence[Path], codebook: Codebook | None, settings: ReadSettings) -> PartsSource:
    """Open several files, with the columns that only the names of their folders hold."""
    held = [held_by(folders_of(path, file)) for file in files]
    names = only_in_folders(held, _read_file(files[0], None, settings).schema.names) if any(held) else []
    own = None if codebook is None else codebook.select(n for n in codebook.names if n not in names)
    parts = tuple(_read_file(file, own, settings) for file in files)
    source = PartsSource(path, tuple(files), with_folders(files, held, parts, codebook))
    if names:
        check_schema(source.schema, path, codebook)
    return source


def _read_file(path: Path, codebook: Codebook | None, settings: ReadSettings) -> Source:
    _require(path)
    return read_file(format_of(path), path, codebook, settings)


def _require(path: Path) -> None:
    """Raise UsageError if there is no such file."""
    if not os.path.isfile(path):  # which knows no name that is too long, as Path.is_file does
        fix = (
            "give the path of a file that is there"
            if hidden(str(path)) == str(path)
            else f"give a file; {NO_FILE}: docs/engines.md explains how to read one"
        )
        what = "a pipe or a device, not a file" if os.path.exists(path) else "no such file"
        raise UsageError(sentence(what, where=str(path), fix=fix))


def detected(path: str | Path, given: ReadSettings = USUAL) -> ReadSettings:
    """Return how a file is to be read: what is given, and what the file shows; of several files, what the first shows.

    Raises
    ------
    UsageError
        If there is no such file, the suffix is not known, or its files do not have a setting that is given.
    DataError
        If the file does not show a setting: with the candidates.
    """
    path = Path(path)
    files = files_of(path, _known_suffix)
    path = path if files is None else files[0]
    _require(path)
    entry = format_of(path)
    raise_all(UsageError, setting_problems(entry, given, path.name))
    if entry.detect is None or not path.stat().st_size:
        return given
    return entry.detect(path, given)


def placed(path: Path, settings: ReadSettings) -> Path | File:
    """Return what :func:`read` takes for a file with these settings: the path alone where they are the usual ones.

    >>> placed(Path("a.csv"), ReadSettings(separator=",")).name, placed(Path("a.csv"), ReadSettings(separator=";"))
    ('a.csv', File(path=PosixPath('a.csv'), settings=ReadSettings(separator=';')))
    """
    usual = usual_of(path).to_dict()
    is_usual = all(text == usual.get(name) for name, text in settings.to_dict().items())
    return path if is_usual else File(path, settings)


def place_of(path: Path, given: ReadSettings = USUAL) -> Path | File:
    """Return what :func:`read` takes for a file that is read as it shows, with the settings that are given.

    Raises
    ------
    DataError
        If a text file does not show how it is to be read, with the ways that are possible.
    """
    return placed(path, detected(path, given))


def path_of(place: Path | File) -> Path:
    """Return the path of what :func:`placed` returned."""
    return place.path if isinstance(place, File) else place


def first_file(place: Path | File, source: Source) -> Path:
    """Return the path of the file that a source was opened from, of several files that of the first."""
    return source.files[0] if isinstance(source, PartsSource) else path_of(place)


def moved(place: Path | File, path: Path) -> Path | File:
    """Return what :func:`read` takes for a file that is at another path now."""
    return File(path, place.settings) if isinstance(place, File) else path


def unfit_settings(path: Path, settings: ReadSettings, where: str) -> list[str]:
    """Return a sentence for each setting that files of this suffix do not have; none where the suffix says nothing."""
    entry = _found(path)
    return [] if entry is None else list(setting_problems(entry, settings, where))


def open_writer(path: str | Path, schema: pa.Schema) -> AbstractContextManager[Writer]:
    """Return a context manager that writes batches to a new file in the format of its suffix.

    Types, category order, nulls and field metadata of the schema survive, as far as the format can hold them (CSV holds
    text). The bytes depend on the records alone, not on how they are cut into batches. After an error there is no file.

    Raises
    ------
    UsageError
        If the suffix is not known or is not written, or a batch lacks a column.
    ReleaseError
        If the file exists, or cannot be written.
    """
    return new_file(format_of(path), Path(path), schema)


def open_comparison(path: str | Path, schema: pa.Schema) -> AbstractContextManager[Writer]:
    """Return a context manager that takes the records of an existing file, and checks that it contains nothing else.

    Every format has its corners for what no reader shows: metadata, categories that no record has, memory under a
    null, statistics, padding, what follows the end. So bytes are compared with those that :func:`open_writer` gives.

    Raises
    ------
    UsageError
        If the suffix is not known, or a batch lacks a column.
    DataError
        On leaving, if the file's bytes are not these.
    """
    path = Path(path)
    return format_of(path).open_writer(path, schema, comparing)


def is_known(path: str | Path) -> bool:
    """Return whether the path names a file of a known format.

    >>> is_known("a.CSV"), is_known("folder/*"), is_known("a.xyz")
    (True, False, False)
    """
    return _found(Path(path)) is not None


def suffix_of(path: str | Path) -> str:
    """Return the suffix by which a file's format is known, or the last one, in small letters.

    >>> suffix_of("a.CSV.gz"), suffix_of("plan.toml")
    ('.csv.gz', '.toml')
    """
    found = (entry.suffix_of(Path(path)) for entry in formats())
    return max(found, key=len) or Path(path).suffix.lower()


def _known_suffix(path: Path) -> str:
    """Return the suffix by which a file's format is known, an empty text of others."""
    return suffix_of(path) if is_known(path) else ""


def is_installed(path: str | Path) -> bool:
    """Return whether the library for a format is installed; raises UsageError as `format_of`."""
    return importlib.util.find_spec(format_of(path).library) is not None


def missing_library(path: str | Path) -> str | None:
    """Return a sentence if the library for a format is not installed; raises UsageError as `format_of`."""
    found = format_of(path)
    return missing(found.library, f"a file of {found.name} needs")


def library_of(path: str | Path) -> str:
    """Return name, version and build of the library that determines the bytes of a format's files.

    Builds of one version differ in their compressors; where these differ, equal records may have other bytes.
    """
    name = format_of(path).library
    if name == "pyarrow":
        built = f" ({pa.cpp_build_info.package_kind})" if pa.cpp_build_info.package_kind else ""
        return f"{name} {pa.__version__}{built}"
    # Not at the top: it loads the standard library's mail package, and few commands ask.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return name


def values_of(path: str | Path, shown: Variable) -> tuple[Scalar, ...]:
    """Return what released data, a file or a folder of files, hold for a variable that some records do not show.

    One value for each category of ``shown``, the variable as it is released: the last is ``(not released)``. Data of no
    known format, such as the table of a database, hold these texts.

    >>> from postrand.codebook.not_released import released_variable
    >>> sex = released_variable(Variable("sex", role="key", categories=("F", "M")))
    >>> values_of("data.dta", sex), values_of("data.sav", sex)
    ((1, 2, '.n'), ('F', 'M', 'NR'))
    """
    path, texts = Path(path), tuple(map(str, shown.categories))
    one = next(path.iterdir()) if path.is_dir() else path
    found = _found(one)
    return texts if found is None or found.partly is None else found.partly(texts, [*map(str, shown.missing_codes)])


def open_parts(folder: Path, suffix: str, sizes: Sequence[int], schema: pa.Schema) -> AbstractContextManager[Writer]:
    """Return a context manager that writes batches to several new files of one format; see :func:`_parts.open_parts`.

    Raises
    ------
    UsageError
        If the suffix is not known, or a batch lacks a column.
    ReleaseError
        If the folder exists, or a file cannot be written.
    """
    format_of(f"x{suffix}")
    return _parts.open_parts(folder, open_writer, suffix, sizes, schema)


def has_limits(suffix: str) -> bool:
    """Return whether there are columns that files of this suffix cannot hold; see :func:`misfits`.

    >>> has_limits(".dta"), has_limits(".parquet")
    (True, False)
    """
    return format_of(f"x{suffix}").misfits is not None


def misfits(suffix: str, schema: pa.Schema, values: Mapping[str, pa.Array]) -> list[str]:
    """Return a sentence for each column that files of this suffix cannot hold, by its name, the first ten of them.

    ``values`` are the categories of columns that have some, or other values to try, by name; no sentence shows one.

    >>> misfits(".dta", pa.schema([("net pay", pa.int64())]), {})[0].split("; wanted")[0]
    "column 'net pay': Stata files cannot hold it: its name has a sign that is not allowed"
    """
    found = format_of(f"x{suffix}").misfits
    return [] if found is None else first(list(found(schema, values)))


def format_of(path: str | Path) -> Format:
    """Return the format of the file's suffix; raises UsageError with the known ones."""
    path = Path(path)
    if (entry := _found(path)) is not None:
        return entry
    suffix = path.suffix.lower()
    known = ", ".join(s for entry in formats() for s in entry.suffixes)
    what = f"unknown file type {suffix!r}" if hidden(str(path)) == str(path) else NO_FILE
    fix = _OTHERS.get(suffix, _SAVE if path.is_file() else "")  # a file to be written is not there
    raise UsageError(sentence(what, where=str(path), wanted=f"one of {known}", fix=fix))


def _found(path: Path) -> Format | None:
    """Return the format of the file's suffix, or None; those of Parquet files need no other format to be loaded."""
    if PARQUET.suffix_of(path):
        return PARQUET
    return next((entry for entry in formats() if entry.suffix_of(path)), None)


def parquet_files(source: Source) -> list[tuple[Path, Held]]:
    """Return the Parquet files that a source consists of, which others may read by themselves; none for any other.

    With each goes what the names of its folders hold.
    """
    files: list[tuple[Path, Held]] = []
    for part in source.parts if isinstance(source, PartsSource) else (source,):
        inner, held = (part.source, part.held) if isinstance(part, PartitionedSource) else (part, ())
        if not isinstance(inner, ParquetSource):
            return []
        files.append((inner.path, held))
    return files


def written_names() -> dict[str, str]:
    """Return what a plan may ask a release to be written as, and what people call it.

    >>> written_names()["sav"]
    'SPSS'
    """
    return {entry.written[0].removeprefix("."): entry.name for entry in formats() if entry.written}


def written_as(path: str | Path) -> str:
    """Return the suffix of a release in the format of this file: its own, or the one to write where that is read only.

    Where no file of the format is written, it is that of CSV.

    >>> written_as("persons.SAV"), written_as("persons.sas7bdat"), written_as("persons.xlsx")
    ('.sav', '.xpt', '.csv')
    """
    entry = format_of(path)
    suffix = entry.suffix_of(Path(path))
    return suffix if suffix in entry.written else (*entry.written, ".csv")[0]


@cache
def formats() -> tuple[Format, ...]:
    """Return every format of this package, by module name."""
    modules = (
        importlib.import_module(f"{__name__}.{name}") for name in sorted(m.name for m in pkgutil.iter_modules(__path__))
    )
    return tuple(module.FORMAT for module in modules if hasattr(module, "FORMAT"))
