"""Local suppression and microaggregation from file to folder: the file, and beside it what holds of it."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from postrand import __version__, formats
from postrand.alternatives.claims import Claims
from postrand.alternatives.fewest import SECONDS
from postrand.alternatives.frames import Protected, microaggregate, suppress
from postrand.codebook import Codebook, Variable
from postrand.data.frames import TableSource
from postrand.errors import ReleaseError, SpecificationError, UsageError, nearest, raise_all, sentence
from postrand.release import canonical_json
from postrand.release.atomic import appearing
from postrand.release.whole_columns import read_table, released, write_table
from postrand.risk.findings import Findings, singling
from postrand.risk.reveals import UnperturbedWarning
from postrand.support.progress import Stage, stage
from postrand.support.showing import few
from postrand.workflow.recodes import number_types
from postrand.workflow.whole_columns import warn_of_formulas

SCHEMA = "postrand/alternative/1"
CLAIMS, WORDS = "claims.json", "claims.txt"
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
) -> Claims:
    """Write FILE with the fewest key values suppressed, without the columns ``drop``, and its claims, to a new folder.

    Raises
    ------
    PostrandError
        As :func:`postrand.alternatives.frames.suppress`.
    ReleaseError
        If the folder exists or cannot be written, or the file's format cannot be.
    """
    table = read_table(file)
    used = [*keys, *([sensitive] if sensitive else [])]
    raise_all(UsageError, _drop_problems(drop, table.column_names, used))
    table = table.drop_columns(list(drop))
    told = _singled(table, used)
    stage(Stage.PERTURBING)
    made = suppress(table, keys, k, sensitive=sensitive, diversity=diversity, seconds=seconds)
    return _write(made, file, out, told)


def _drop_problems(drop: Sequence[str], columns: Sequence[str], used: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each dropped column that is not there, or is a key or the sensitive one."""
    for name in drop:
        if name not in columns:
            yield sentence(f"no column {name!r} to drop{nearest(name, columns)}", where="--drop", wanted=few(columns))
        elif name in used:
            yield sentence(f"column {name!r} is used and dropped", where="--drop", fix="leave it out of one of them")


def microaggregate_file(
    file: Path | formats.File,
    out: Path,
    columns: Sequence[str],
    k: int,
    *,
    together: bool = False,
    drop: Sequence[str] = (),
) -> Claims:
    """Write FILE with columns microaggregated, without the columns ``drop``, and its claims, to a new folder.

    Raises as :func:`suppress_file`.
    """
    source, book = formats.read(file), None
    if getattr(source, "untyped", False):  # numbers are text there, and may have a decimal comma
        types = dict.fromkeys(source.schema.names, "string") | dict.fromkeys(_with_commas(source, columns), "double")
        types |= dict.fromkeys(columns, "double")
        book = Codebook(tuple(Variable(name, "other", type=of, missing="keep") for name, of in types.items()))
    table = read_table(file, book)
    raise_all(UsageError, _drop_problems(drop, table.column_names, columns))
    table = table.drop_columns(list(drop))
    told = _singled(table, columns)
    stage(Stage.PERTURBING)
    return _write(microaggregate(table, columns, k, together=together), file, out, told)


def _with_commas(source: formats.Source, changed: Sequence[str]) -> list[str]:
    """Return the other columns of numbers with decimal commas: they get the points that the changed ones get.

    Other columns stay as their text is: ``007`` is not 7.
    """
    names, held = [name for name in source.schema.names if name not in changed], set[str]()
    for batch in source.batches(names) if names else ():
        held |= {name for name in names if pc.any(pc.match_substring(pc.unique(_texts(batch, name)), ",")).as_py()}
    return [name for name, of in number_types(source, held).items() if of == "double"]


def _texts(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(name).cast(pa.string())


def _singled(table: pa.Table, changed: Sequence[str]) -> Findings:
    """Return what the columns that stay as they are single out."""
    return singling(TableSource(table), [name for name in table.column_names if name not in changed])


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
    folder = Path(folder)
    where = folder / CLAIMS
    try:
        stated = canonical_json.parse(where.read_bytes(), where=CLAIMS)
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
    return claims


def _write(made: Protected, file: Path | formats.File, out: Path, told: Findings) -> Claims:
    warn_of_formulas(file, made.frame.column_names)
    suffix = formats.path_of(file).suffix.lower()
    stage(Stage.WRITING)
    with appearing(out) as folder:
        plain, data = released(made.frame), folder / f"data{suffix}"
        with formats.open_writer(data, plain.schema) as writer:
            write_table(plain, writer)
        stated = {"schema": SCHEMA, "postrand": __version__, "data": data.name, "sha256": _digest(data)}
        (folder / CLAIMS).write_bytes(canonical_json.dump({**stated, "claims": made.claims.to_dict()}))
        lines = [*made.claims.sentences, *_found(told.sentences)]
        (folder / WORDS).write_text("\n".join(lines) + "\n", encoding="utf-8")
        recheck(folder)  # as it is on the disk: a format can change what a missing value is
    for text in told.warnings:
        warnings.warn(f"{text}; leave out what nobody should see: --drop", UnperturbedWarning, stacklevel=3)
    return made.claims


def _found(sentences: Sequence[str]) -> list[str]:
    return ["Found in the columns that stay as they are:", *sentences] if sentences else []


def _digest(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
