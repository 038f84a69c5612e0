"""Local suppression and microaggregation from file to folder: the file, and beside it what holds of it."""

from __future__ import annotations

import dataclasses
import hashlib
import secrets
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postrand import __version__, formats
from postrand.alternatives.by_codebook import (
    by_codebook,
    check_numbers,
    check_used,
    codes_missing,
    household_of,
    keys_of,
    told,
    without_household,
)
from postrand.alternatives.claims import Claims
from postrand.alternatives.fewest import SECONDS
from postrand.alternatives.frames import (
    Protected,
    averaged,
    check_asked,
    check_flat,
    suppress,
    warn_of_codes,
    warn_of_exact,
)
from postrand.codebook import Codebook
from postrand.codebook.coding import from_numpy, to_floats
from postrand.codebook.no_answer import file_codes
from postrand.codebook.perturbed_labels import label_alone
from postrand.columns.recoded import unrecoded
from postrand.columns.source import as_numbers
from postrand.data.frames import to_arrow
from postrand.engines.database import open_records
from postrand.errors import ReleaseError, SpecificationError, sentence
from postrand.recoding import Recode
from postrand.recoding.unchanged import Unchanged
from postrand.release import canonical_json
from postrand.release.atomic import appearing
from postrand.release.whole_columns import read_table, released, table_of, write_table
from postrand.risk.findings import Findings
from postrand.support.inputs import read_bytes
from postrand.support.progress import Stage, stage
from postrand.support.system import open_plain
from postrand.workflow.copies import check_fits, copied_as, warn_of_formulas
from postrand.workflow.leaving import of_averaged, of_suppressed
from postrand.workflow.left_columns import alone_with, decided, warned, without

SHUFFLED = "Records are in a new random order, which is not kept: row numbers and neighbours tell nothing."
HOUSES = (
    "{name} is left out, because the codebook says that it numbers households, and others can know who lives together; "
    "--as-is {name} releases it as it is."
)
SCHEMA = "postrand/alternative/1"
CLAIMS, WORDS = "claims.json", "claims.txt"
MAX_DIGITS = 13
"""Decimals of a column that are looked for; a column with more has them by computation."""
_TYPED = formats.ReadSettings()
_FIELDS = {"schema", "postrand", "data", "sha256", "claims"}


def suppress_file(
    file: Path | formats.File,
    out: Path,
    keys: Sequence[str],
    k: int,
    *,
    sensitive: str | None = None,
    diversity: int = 2,
    seconds: float = SECONDS,
    drop: Sequence[str] = (),
    as_is: Sequence[str] = (),
    codebook: Codebook | None = None,
) -> tuple[Claims, tuple[str, ...]]:
    """Write FILE with the fewest key values suppressed, without the columns ``drop``, and its claims, to a new folder.

    The records are in a new random order. A format that is only read becomes the one of :func:`formats.written_as`.
    Returns the claims, and notes on how the file is written and on what columns that stay tell. A ``codebook`` is
    used as by :func:`postrand.alternatives.frames.suppress`.

    Raises
    ------
    PostrandError
        As :func:`postrand.alternatives.frames.suppress`.
    UsageError
        If a column that stays as it is names or numbers persons, holds free text, singles out records or tells true
        values, and is not named in ``as_is``.
    ReleaseError
        If the folder exists or cannot be written.
    """
    keys = keys_of(keys, codebook)
    used = [*keys, *([sensitive] if sensitive else [])]
    check_asked(keys, k, diversity, sensitive, seconds)
    source, whole = _described(file, codebook, used)
    suffix = copied_as(file, source, out)
    houses = [] if "*" in drop else _houses(codebook, [*used, *as_is, *drop], whole)
    table = without(whole, used, [*_still(drop, source, whole), *houses], as_is)
    to_arrow(table, used)  # a name that is not there is told before columns ask for decisions
    check_fits(table, suffix)
    found = decided(table, source, used, as_is)
    stage(Stage.SUPPRESSING)
    made = suppress(table, keys, k, sensitive=sensitive, diversity=diversity, seconds=seconds)
    found = warned(of_suppressed(found, table, made.frame))
    known = (*_by_codebook(codebook, used, made.frame), *(HOUSES.format(name=name) for name in houses))
    notes = (*known, *alone_with(made.frame, used, keys), *_signs(source, codebook))
    warn_of_formulas(file, made.frame.column_names, suffix)
    return _write(made, out, suffix, found, notes)


def microaggregate_file(
    file: Path | formats.File,
    out: Path,
    columns: Sequence[str],
    k: int,
    *,
    together: bool = False,
    household: str | None = None,
    drop: Sequence[str] = (),
    as_is: Sequence[str] = (),
    codebook: Codebook | None = None,
) -> tuple[Claims, tuple[str, ...]]:
    """Write FILE with columns microaggregated, and its claims, to a new folder; returns and raises as suppress_file.

    Averages have two decimals more than the values of their column, and in a text file its sign before them; where a
    ``codebook`` says what is a number, that is a point. The column ``household`` can be in ``drop``.
    Without a codebook, what the file itself declares as missing is missing.
    """
    household = household_of(household, codebook)
    check_asked(columns, k, household=household)
    if codebook is not None:
        check_numbers(codebook, columns)
    source, whole = _described(file, codebook, columns, household)
    suffix = copied_as(file, source, out)
    whole, coded = _without_declared(whole, columns if codebook is None else ())
    held = without_household(whole, household, codebook)
    read = without(held, columns, _still(drop, source, held), as_is)
    check_fits(read, suffix)
    stage(Stage.GROUPING)
    table = as_numbers(read, source, columns)
    numbered = table
    if household in whole.column_names and household not in table.column_names:
        numbered = table.append_column(household, whole.column(household))
    made = averaged(numbered, columns, k, together, household)
    frame = made.frame.select(table.column_names)
    found = warned(of_averaged(decided(read, source, columns, as_is), table, frame))
    warn_of_codes(table, columns, codebook)
    warn_of_exact(made.claims)
    comma = codebook is None and _settings(source).decimal == ","
    for name in columns:
        held = _rounded(frame.column(name), table.column(name), "," if comma else ".")
        field = label_alone(whole.schema.field(name).with_type(held.type))
        frame = frame.set_column(frame.column_names.index(name), field, held)
    rounded = "Averages are rounded to two decimals more than the values of their column have."
    alone = alone_with(frame, columns)
    known = (*_by_codebook(codebook, columns, frame), *codes_missing(coded))
    notes = (*known, *alone, rounded, *_signs(source, codebook))
    warn_of_formulas(file, frame.column_names, suffix)
    return _write(Protected(frame, made.claims), out, suffix, found, notes)


def _described(
    file: Path | formats.File, codebook: Codebook | None, used: Sequence[str], household: str | None = None
) -> tuple[formats.Source, pa.Table]:
    """Return the source of a file, and its columns as the codebook describes them."""
    if codebook is not None:
        check_used(codebook, used, household)
    source = open_records(file, codebook)
    check_flat(source.schema, [*used, *filter(None, [household])])
    table = table_of(source)
    if codebook is not None:
        table = by_codebook(table, dataclasses.replace(codebook, recodes=()), used, household)
    return source, table


def _without_declared(table: pa.Table, columns: Sequence[str]) -> tuple[pa.Table, tuple[str, ...]]:
    """Return a table in which numbers that its file declares as missing are, and the columns that had some."""
    coded = []
    for name in [name for name in columns if name in table.column_names]:
        field, column = table.schema.field(name), table.column(name)
        if absent := file_codes(field.metadata, pc.unique(column).drop_null().to_pylist()):
            held = Recode(name, Unchanged(), missing=tuple(absent)).apply(column)
            table = table.set_column(table.column_names.index(name), field.with_type(held.type), held)
            coded.append(name)
    return table, tuple(coded)


def _still(drop: Sequence[str], source: formats.Source, table: pa.Table) -> list[str]:
    """Return the columns to drop that the codebook has not left out already."""
    left = set(source.schema.names) - set(table.column_names)
    return [name for name in drop if name not in left]


def _houses(codebook: Codebook | None, others: Sequence[str], table: pa.Table) -> list[str]:
    """Return the columns of household numbers by their role that no option names: suppression counts by none."""
    held = [] if codebook is None else [one.name for one in codebook.with_role("household")]
    return [name for name in held if name in table.column_names and name not in others]


def _by_codebook(codebook: Codebook | None, used: Sequence[str], frame: pa.Table) -> tuple[str, ...]:
    return () if codebook is None else told(codebook, used, frame.column_names)


def _rounded(averages: pa.ChunkedArray, true: pa.ChunkedArray, decimal: str) -> pa.Array:
    """Return averages with two decimals more than the true values; as texts where their decimal sign is no point."""
    held, own = to_floats(averages), to_floats(true.cast(pa.float64()))
    own = own[np.isfinite(own)]
    digits = next((d for d in range(MAX_DIGITS) if np.array_equal(np.round(own, d), own)), MAX_DIGITS)
    made = np.round(held, digits + 2)
    if decimal == ".":
        return from_numpy(made, ~np.isfinite(made))
    texts = [None if np.isnan(x) else np.format_float_positional(x, trim="-").replace(".", decimal) for x in made]
    return pa.array(texts, pa.string())


def _settings(source: formats.Source) -> formats.ReadSettings:
    """Return how the columns of a text file are read; what is usual of any other file."""
    plain, _ = unrecoded(source)
    return getattr(plain, "settings", _TYPED) if getattr(plain, "untyped", False) else _TYPED


def _signs(source: formats.Source, codebook: Codebook | None) -> tuple[str, ...]:
    """Return how a text file is written where it was read in another way; () where nothing is other."""
    settings = _settings(source)
    if (settings.separator or ",") == "," and (settings.decimal or ".") == ".":
        return ()
    comma = "" if settings.decimal != "," else "; numbers have the decimal comma of the file"
    comma = comma if codebook is None or not comma else "; numbers have a decimal point"
    return (f"The text file is UTF-8, and commas are between its columns, with quotes around texts{comma}.",)


def recheck(folder: str | Path) -> Claims:
    """Compute the claims of a folder of ``suppress`` or ``microaggregate`` again from its data file alone.

    What the file lost is not checked: it needs the original.

    Raises
    ------
    ReleaseError
        If a file is not there, or is not the one that was written.
    SpecificationError
        If the claims are not valid.
    PrivacyError
        With every claim that the file does not meet.
    """
    return checked(Path(folder))[1]


def checked(folder: Path) -> tuple[Path, Claims]:
    """Return the data file of such a folder and its claims; raises as :func:`recheck` where they do not hold."""
    where = folder / CLAIMS
    try:
        stated = canonical_json.parse(read_bytes(where), where=CLAIMS)
        if set(stated) != _FIELDS or stated["schema"] != SCHEMA or not isinstance(stated["claims"], dict):
            raise SpecificationError(sentence("the claims are not valid", where=str(where), wanted=SCHEMA))
        path = folder / Path(str(stated["data"])).name
        digest = _digest(path)
    except OSError as error:
        fix = "name a folder that 'postrand suppress' or 'postrand microaggregate' wrote"
        raise ReleaseError(sentence("a file cannot be read", where=str(folder), got=error.strerror, fix=fix)) from None
    claims = Claims.from_dict(stated["claims"], str(where))
    if digest != stated["sha256"]:
        raise ReleaseError(sentence("the data file is not the one of the claims", where=str(path)))
    claims.check(read_table(path))
    return path, claims


def _write(
    made: Protected, out: Path, suffix: str, found: Findings, notes: tuple[str, ...]
) -> tuple[Claims, tuple[str, ...]]:
    notes = (*notes, SHUFFLED)
    stage(Stage.WRITING)
    with appearing(out) as folder:
        plain, data = _shuffled(released(made.frame)), folder / f"data{suffix}"
        with formats.open_writer(data, plain.schema) as writer:
            write_table(plain, writer)
        stated = {"schema": SCHEMA, "postrand": __version__, "data": data.name, "sha256": _digest(data)}
        (folder / CLAIMS).write_bytes(canonical_json.dump({**stated, "claims": made.claims.to_dict()}))
        lines = [*made.claims.sentences, *notes, *_found(found.sentences)]
        (folder / WORDS).write_text("\n".join(lines) + "\n", encoding="utf-8")
        recheck(folder)  # as it is on the disk: a format can change what a missing value is
    warnings = found.warnings  # which are told as such
    return made.claims, (*notes, *_found([text for text in found.sentences if text not in warnings]))


def _shuffled(table: pa.Table) -> pa.Table:
    """Return the records in a random order: in that of the file, row numbers and the members of a household match."""
    return table.take(np.random.default_rng(secrets.randbits(256)).permutation(table.num_rows))


def _found(sentences: Sequence[str]) -> list[str]:
    return ["Found in the columns that stay as they are:", *sentences] if sentences else []


def _digest(path: Path) -> str:
    with open(path, "rb", opener=open_plain) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
