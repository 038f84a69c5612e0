"""A copy of a file with some columns changed: the suffix of its files, whether they can hold it, its formulas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from postrand import formats
from postrand.errors import DataError, ReleaseError, UsageError, raise_all
from postrand.formats.csv import FormulaWarning, formula_warning
from postrand.release.atomic import target_problems
from postrand.release.whole_columns import released
from postrand.support.warned import warn


def copied_as(file: Path | formats.File, source: formats.Source, out: Path) -> str:
    """Return the suffix of a copy of FILE in the folder ``out``: its own, or that of :func:`formats.written_as`.

    Raises
    ------
    ReleaseError
        If the folder exists, or cannot be made.
    UsageError
        If the library that writes such files is not installed.
    """
    raise_all(ReleaseError, target_problems(out))
    suffix = formats.written_as(formats.first_file(file, source))
    if told := formats.missing_library(f"data{suffix}"):
        raise UsageError(told)
    return suffix


def check_fits(table: pa.Table, suffix: str) -> None:
    """Raise DataError with every column that files of this suffix cannot hold; see ``Format.misfits``."""
    if not formats.has_limits(suffix):
        return
    plain = released(table).combine_chunks()
    found = formats.Witnesses(tuple(plain.column_names)).part(plain.to_batches()[0])
    raise_all(DataError, formats.misfits(suffix, plain.schema, found))


def warn_of_formulas(file: Path | formats.File, columns: Sequence[str], suffix: str) -> None:
    """Warn of texts of these columns that a spreadsheet would take for formulas in a text file of this suffix."""
    source = formats.read(file)
    own = [name for name in columns if name in source.schema.names]  # a recode's new column holds the codebook's labels
    if unsafe := formula_warning(source, own, suffix):
        warn(unsafe, FormulaWarning, stacklevel=4)
