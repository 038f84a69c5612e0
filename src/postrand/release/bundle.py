"""A release on disk: its files, how they are derived from one another, and how they are read."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from postrand import __version__, estimate, formats, metadata, report
from postrand.certification.certificate import Certificate, Claim, Facts, certify, claims_from_dict, templates
from postrand.certification.file_level import require
from postrand.certification.plain_words import plain_claims
from postrand.certification.series import Series
from postrand.codebook import Codebook, Variable, coding
from postrand.codebook.not_released import shown_codebook
from postrand.codebook.variable import RELEASED_ROLES
from postrand.engines.database import Target
from postrand.engines.summary import Summary, check_margins, read_back
from postrand.errors import PostrandError, ReleaseError, raise_all, sentence
from postrand.estimate import export
from postrand.mechanism import Mechanism
from postrand.metadata import Description
from postrand.privacy import PrivacyModel
from postrand.release import atomic, canonical_json, rendering
from postrand.release.fields import RESERVED_NAMES
from postrand.release.kept import KeptFrame
from postrand.release.table import TABLE, as_table, open_data
from postrand.support import series_words, wordings
from postrand.support.progress import Stage, passing, stage
from postrand.support.signals import unfinished
from postrand.support.system import open_plain
from postrand.support.threads import behind

SCHEMAS: tuple[str, ...] = ("postrand/release/1", "postrand/release/2", "postrand/release/3")
"""Every schema of a release that this version reads; it writes the last one."""
CODEBOOK_SCHEMAS = ("postrand/codebook/1", "postrand/codebook/2", "postrand/codebook/3")
"""Of a codebook without recodes, of one with them, and of one that records a survey design."""
DESCRIPTION_SCHEMA = "postrand/description/1"
CODEBOOK, MECHANISM, CERTIFICATE, REPORT = "codebook.json", "mechanism.json", "certificate.json", "report.html"
MANIFEST, DESCRIPTION, README = "manifest.json", "description.json", "README.txt"
SIGNATURE = "signatures.json"
"""Signatures of the manifest, which therefore cannot list them."""
COMPLETED = "completed.json"
"""What a release, or a folder of its own, says of completed files: copies for analysis with ordinary software."""
BLANK = "not_released"
"""The field of a variable of a split in the codebook's file: what the data hold where a record does not show it."""
DATA = "data"
"""The only folder that a release can contain: its data, if that is in several files."""
InternalContent = str | bytes | Callable[[str], str]
"""What an internal file holds; a function makes it from the SHA-256 of the manifest, which is written last."""
Inspect = Callable[[Path, Mechanism, Certificate, Summary], Mapping[str, InternalContent]]
_R_FILES = ("postrand.R", "r_categories.csv", "r_split.csv")
Complete = Callable[[Path, Path, Mechanism, bool], Callable[[str], dict[str, Any]]]
"""``complete(folder, data, mechanism, as_table)`` writes the copies of released data, which may become a table, to a
folder. It returns a function: called with the name that the data have in the end, it writes ``completed.json`` and
returns what that says."""
_METADATA = (metadata.DDI, metadata.CROISSANT)
_OWN = (CODEBOOK, MECHANISM, CERTIFICATE, REPORT, MANIFEST, DESCRIPTION, README, COMPLETED, SIGNATURE)
TOOL_NAMES = (*_OWN, *_METADATA, *_R_FILES, *RESERVED_NAMES)
RENDERED = (REPORT, README, *_METADATA, "postrand.R")
"""Files for readers: the content of other files in words, which another version can word differently."""
_R_MATRICES = ("r_matrix_", "r_subset_")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?")
_ALIKE = str.maketrans({"0": "o", "1": "l", "i": "l", ".": "", "_": "", "-": ""})
_PART = re.compile(rf"{DATA}/part-[0-9]{{5,9}}\.[a-z0-9]{{1,8}}")


@dataclass(frozen=True, slots=True)
class Release:
    """What a release states about itself; nothing here is verified (:func:`postrand.verify` does that).

    ``certificate`` has codes, levels and names; :attr:`certificate_sentences` and :attr:`not_covered` are its words.
    ``findings`` is what :func:`postrand.run` measured of the confidential file (:class:`postrand.risk.Findings`): it is
    not part of the release, and None where a release was read; so is ``records``, their number.
    """

    path: Path
    codebook: Codebook
    mechanism: Mechanism
    certificate: dict[str, Any]
    manifest: dict[str, Any]
    findings: Any = field(default=None, compare=False, repr=False)
    records: int | None = field(default=None, compare=False, repr=False)
    _kept: KeptFrame = field(default_factory=KeptFrame, init=False, compare=False, repr=False)

    def __repr__(self) -> str:
        perturbed = len(self.mechanism.variables) + len(self.mechanism.numerical)
        size = f"{len(self.codebook.names)} variables, {perturbed} of them perturbed"
        return f"Release({str(self.path)!r}: {size}, {len(self.certificate['claims'])} claims)"

    @property
    def data_path(self) -> Path:
        """The data file, or the folder of data files."""
        return self.path / str(self.manifest["data"])

    @property
    def certificate_sentences(self) -> tuple[str, ...]:
        """One sentence for each privacy claim, naming its variables."""
        told = wordings.claims(self.certificate, templates())
        return (*told, *series_words.series(self.certificate.get("series")))

    @property
    def plain_claims(self) -> tuple[str, ...]:
        """What the claims mean: how many guesses of an attacker are right without the release, and at most with it."""
        claims, _ = claims_from_dict(self.certificate)
        largest = getattr(self.findings, "largest_household", 0)
        about, series = self.certificate.get("file"), self.certificate.get("series")
        return plain_claims(claims, self.mechanism, about, largest_household=largest, series=series)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """One sentence for each thing that the guarantee does not cover, most serious first."""
        return wordings.limits(self.certificate)

    def frame(self) -> pa.Table:
        """Return the released records as an Arrow table, columns in codebook order.

        Text variables with categories are dictionary columns that hold every category in codebook order. Those of a
        split have one category more, the last, ``(not released)``: the record does not show the value. Null is missing.

        The files are read, and their digests checked, at the first call. The same table is returned by later calls,
        of other threads too, so that many estimates from one release cost one reading. If a file has another size or
        other times by then, all is read and checked again. The release keeps a table of at most 256 MB; hold a larger
        one yourself. A table of a database is read at every call.

        Raises
        ------
        ReleaseError
            If the data is not what the manifest lists: changed or cut since it was released.
        DataError
            If the data does not fit the codebook.
        """
        if self.data_path.name == TABLE:  # the file that names it tells nothing of the records
            return self._read()
        return self._kept.get(self.data_path, self._read)

    def _read(self) -> pa.Table:
        check_digests(self.path, self.manifest)
        return records_of(self.data_path, self.codebook, self.mechanism.partly)


def records_of(data: Path, codebook: Codebook, partly: Collection[str] = ()) -> pa.Table:
    """Return the records of released data as :meth:`Release.frame` does, without reading the manifest.

    ``partly`` names the variables of a split, which some records do not show.
    """
    names, codebook = codebook.names, shown_codebook(codebook, partly)
    with well_formed():
        source = open_data(data, codebook)
        batches = [
            pa.RecordBatch.from_arrays([_typed(batch.column(n), codebook[n]) for n in names], names=names)
            for batch in passing(source.batches(columns=names), Stage.READING, source.num_rows)
        ]
        made = pa.Table.from_batches(batches).unify_dictionaries()
        told = [_told(field, codebook[field.name], source.schema) for field in made.schema]
        return made.cast(pa.schema(told, made.schema.metadata))


_OF_CODES = (b"value_labels", b"missing_codes")


def _told(field: pa.Field, variable: Variable, schema: pa.Schema) -> pa.Field:
    """Return the field of a quantity with what the file says of its codes for no answer; the codebook has others."""
    if variable.is_categorical:
        return field
    said = schema.field(field.name).metadata or {}
    return field.with_metadata({key: text for key, text in said.items() if key in _OF_CODES})


@contextmanager
def well_formed() -> Iterator[None]:
    """Turn any error that hostile bytes raise into a ReleaseError; our own errors pass."""
    try:
        yield
    except PostrandError:
        raise
    except Exception as error:
        raise ReleaseError(sentence("the file is malformed", got=type(error).__name__)) from None


def write(
    directory: str | Path,
    *,
    data_writer: Callable[[Path], None],
    data_name: str,
    mechanism: Mechanism,
    claims: Iterable[Claim | PrivacyModel] = (),
    facts: Facts | None = None,
    extra: Mapping[str, str] | None = None,
    description: Description | None = None,
    dossier: str | Path | None = None,
    inspect: Inspect | None = None,
    target: Target | None = None,
    delta: float | None = None,
    file_epsilon: float | None = None,
    complete: Complete | None = None,
    series: Series | None = None,
    note: Callable[[str], None] | None = None,
) -> Release:
    """Write a complete release or nothing: data, codebook, mechanism, certificate, report, manifest.

    The bundle is made beside ``directory``, flushed and renamed. Equal inputs give equal bytes.

    Parameters
    ----------
    directory
        A name that does not exist yet, in a folder that does.
    data_writer
        Writes the perturbed records to the path it is given, which ends in ``data_name``: ``data.parquet``, ..., or
        ``data``, a folder of files ``part-00000.parquet``, ...
    mechanism
        The law the records were drawn from, bound to the codebook of the file. The released codebook leaves out
        what is not released: variables with role ``drop``, and the record key unless ``facts.ids_are_released``.
    claims
        What the certificate states; a claim that fails stops the release.
    extra
        Further text files by name; ``verify`` checks their digests only.
    description
        What catalogues are told of the data set; ``ddi.xml`` and ``croissant.json`` are made of it and the other files.
    dossier, inspect
        Where the internal dossier goes, apart from the release and readable by its owner only, and the function that
        gives its files by name, called with the same: see :data:`InternalContent`. Release and dossier appear
        together or not at all: the dossier
        first, so that no release is ever without the dossier that was asked for.
    target
        The table of a database that the data becomes; ``table.json`` stands in its place. The table appears, in one
        transaction, when the folder has its name; where the database refuses that, the folder vanishes again.
    delta, file_epsilon
        The δ of the level of the whole file; the certificate then states its ε, or the conditions that fail. If
        ``file_epsilon`` is given, a file without such a level stops the release.
    complete
        Makes the completed files that the release has, from its data and law alone.
    series, note
        What the certificate states of a series of releases, and what notes the release, by the SHA-256 of its manifest,
        when all is written and nothing has appeared: a noted release may never appear, but none appears without a note.

    Raises
    ------
    ReleaseError
        If a directory exists or lies inside the other, a name is unsafe, or the disk refuses a step of the writing.
    PrivacyError
        If a claim fails.
    DataError
        If the data that was written does not fit the codebook, or cannot have been drawn by the law.
    """
    directory, facts = Path(directory), facts or Facts()
    texts = {name: text.encode() for name, text in (extra or {}).items()}
    copies = [] if complete is None else [f"{Path(COMPLETED).stem}{Path(name).suffix}" for name in texts]
    raise_all(ReleaseError, name_problems([data_name, *texts, *dict.fromkeys(copies)]))
    codebook = released_codebook(mechanism.require_codebook(), facts)
    mechanism = mechanism.bind(codebook)
    certificate = dataclasses.replace(certify(mechanism, claims, facts), series=series)
    check_targets(directory, dossier)
    targets = [*([] if dossier is None else [(Path(dossier), atomic.PRIVATE)]), (directory, atomic.PUBLIC)]
    with _committed(targets) as table, atomic.appearing_together(*targets) as (*internal, staging):
        data, files = staging / data_name, dict[str, InternalContent]()
        with rendering.loading():
            data_writer(data)

        def describe(name: str, summary: Summary) -> None:
            """Write what follows from the data, which have this name in the end."""
            stage(Stage.REPORTS)
            told = None if finish is None else finish(name)
            derived = derive(mechanism, certificate, summary, staging / name, description or Description(), told)
            for file, content in (derived | texts).items():
                (staging / file).write_bytes(content)

        with behind(atomic.flush_data) as hand:
            hand(data)  # the disk takes them while they are read back
            with read_back(data, mechanism) as summary:
                check_margins(summary, mechanism)
                if delta is not None:
                    certificate = certificate.of_file(mechanism, summary.records, delta)
                    if file_epsilon is not None and certificate.file is not None:
                        require(certificate.file, file_epsilon)
                finish = None if complete is None else complete(staging, data, mechanism, target is not None)
                if target is None:
                    describe(data_name, summary)
                if inspect is not None:  # before the records go into a table
                    files.update(inspect(data, mechanism, certificate, summary))
        if target is not None:
            stage(Stage.REPORTS)
            data_name = table.enter_context(as_table(target, data, shown_codebook(codebook, mechanism.partly)))
            describe(data_name, summary)
        manifest = manifest_of(staging, data_name, library_of(staging, data_name))
        text = canonical_json.dump(manifest)
        (staging / MANIFEST).write_bytes(text)
        digest = hashlib.sha256(text).hexdigest()
        for folder in internal:
            write_dossier(folder, files, digest)
        if note is not None:
            note(digest)
    return Release(directory, codebook, mechanism, certificate.to_dict(), manifest)


@contextmanager
def _committed(targets: Iterable[tuple[Path, int]]) -> Iterator[ExitStack]:
    """Yield a stack for the transaction of a table, which is committed after the folders have their names.

    Should the database refuse, the folders are removed again: no certificate is without its table.
    """
    with ExitStack() as table:
        yield table
        try:
            with unfinished(*(folder for folder, _ in targets)):
                table.close()
        except BaseException:
            for folder, _ in targets:
                shutil.rmtree(folder, ignore_errors=True)
            raise


def derive(
    mechanism: Mechanism,
    certificate: Certificate,
    summary: Summary,
    data: Path,
    description: Description,
    completed: Mapping[str, Any] | None = None,
) -> dict[str, bytes]:
    """Return the bytes of every file that follows from others, by name; ``data`` is where the records are.

    ``completed`` is what ``completed.json`` says, where the release has completed files.
    ``verify`` calls this too: a release is genuine when its files are the ones derived from its contents.
    """
    told = metadata.files(description, data, mechanism, certificate, summary, completed)
    r_code = estimate.r_files(mechanism) if export.fits_r(mechanism) else export.r_script(mechanism)
    found = report.page_values(mechanism, summary)
    placed = None if certificate.series is None else certificate.series.to_dict()
    section = None if completed is None else report.completed_section(completed, data.name)
    return {name: text.encode() for name, text in (told | r_code).items()} | {
        DESCRIPTION: canonical_json.dump({"schema": DESCRIPTION_SCHEMA, **description.to_dict()}),
        CODEBOOK: canonical_json.dump(_codebook_data(mechanism, data)),
        MECHANISM: canonical_json.dump(mechanism.to_dict()),
        CERTIFICATE: canonical_json.dump(certificate.to_dict()),
        REPORT: report.public_report(mechanism, certificate, summary, data.name, found, section).encode(),
        README: report.readme(
            mechanism, found, data.name, description.title, completed, certificate.limits, placed
        ).encode(),
    }


def _codebook_data(mechanism: Mechanism, data: Path) -> dict[str, Any]:
    """Return the codebook of true values; of the variables of a split, what the data hold where a record shows none."""
    book = mechanism.require_codebook()
    shown = shown_codebook(book, mechanism.partly)
    held = {name: formats.values_of(data, shown[name])[-1] for name in mechanism.partly}
    found = book.to_dict()
    entries = [{**v, BLANK: held[v["name"]]} if v["name"] in held else v for v in found["variables"]]
    number = bool(book.recodes) if book.survey is None else 2
    return {"schema": CODEBOOK_SCHEMAS[number], **found, "variables": entries}


def write_dossier(folder: Path, files: Mapping[str, InternalContent], manifest: str) -> None:
    """Write the internal files, readable by their owner only; raises ReleaseError for an unsafe name.

    ``manifest`` is the SHA-256 of the release's manifest.
    """
    raise_all(ReleaseError, name_problems(list(files)))
    for name, made in files.items():
        path, content = folder / name, made(manifest) if callable(made) else made
        try:
            path.touch(0o600)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        except OSError as error:  # a full disk does not name the file: it may be another disk than the release's
            error.filename = str(path)
            raise


def check_targets(release: str | Path, dossier: str | Path | None = None) -> None:
    """Raise ReleaseError, before any work, with every reason why these directories cannot be written.

    A dossier that a run has left that was killed before the release got its name is removed.
    """
    if dossier is not None:
        atomic.take_back(Path(dossier), Path(release))
    targets = [Path(release)] if dossier is None else [Path(release), Path(dossier)]
    nested = atomic.nesting_problems(*targets)
    asked = targets[:1] if nested else targets  # a folder inside the other need not be made
    raise_all(ReleaseError, [*(p for target in asked for p in atomic.target_problems(target)), *nested])


def released_codebook(codebook: Codebook, facts: Facts) -> Codebook:
    """Return the codebook of the released columns: no dropped variable, no record key unless ids are released."""
    roles = (*RELEASED_ROLES, "record_key") if facts.ids_are_released else RELEASED_ROLES
    return codebook.select(v.name for v in codebook.with_role(*roles))


def library_of(root: Path, data_name: str) -> str:
    """Return the library that determines the bytes of the data files; see :func:`postrand.formats.library_of`."""
    data = root / data_name
    if data_name == TABLE:
        return f"postrand {__version__}"
    return formats.library_of(next(data.iterdir()) if data.is_dir() else data)


def manifest_of(root: Path, data_name: str, library: str) -> dict[str, Any]:
    """Return the manifest that this version writes for the files that are in ``root`` and its folder of data."""
    return {
        "schema": SCHEMAS[-1],
        "package": {"name": "postrand", "version": __version__},
        "rendering_sha256": rendering.digest(),
        "written_with": library,
        "data": data_name,
        "files": listed_files(root),
    }


def listed_files(root: Path) -> dict[str, dict[str, Any]]:
    """Return the size and digest of every file but the manifest and its signatures, by name."""
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return {
        name: {"bytes": (root / name).stat().st_size, "sha256": file_digest(root / name)}
        for name in names
        if name not in (MANIFEST, SIGNATURE)
    }


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal."""
    with open(path, "rb", opener=open_plain) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_digests(root: Path, manifest: Mapping[str, Any] | None = None, leave_out: Iterable[str] = ()) -> None:
    """Raise ReleaseError unless the files that a manifest lists are there, with the digests that it lists.

    With a manifest, those of the data only; without one, all that the manifest of the folder lists but ``leave_out``.
    """
    if manifest is None and not os.path.isfile(root / MANIFEST):
        return  # no release at all: its reader says so
    with well_formed():
        of = canonical_json.read(root / MANIFEST) if manifest is None else manifest
        data = None if manifest is None else str(of["data"])
        listed = {n: said["sha256"] for n, said in of["files"].items() if data in (None, n.partition("/")[0])}
        there = (
            {f"{data}/{path.name}" for path in (root / data).iterdir()}
            if data and os.path.isdir(root / data)
            else set()
        )
        wrong = [n for n in {*listed, *there} - set(leave_out) if not _is_listed(root, n, listed.get(n))]
    what, fix = "this is not the released file: it was changed or cut, or it is missing", "download the release again"
    raise_all(
        ReleaseError,
        [sentence(what, where=name, fix=f"{fix}; 'postrand verify' gives details") for name in sorted(wrong)],
    )


def _is_listed(root: Path, name: str, digest: object) -> bool:
    safe = _NAME.fullmatch(name) or _PART.fullmatch(name)
    return bool(safe) and os.path.isfile(root / name) and file_digest(root / name) == digest


def name_problems(names: list[str]) -> list[str]:
    """Return a sentence for each file name that is unsafe, or that looks like another one.

    Names are ASCII, so that no letter of another script looks like one of theirs. Two are alike where they differ in
    case, punctuation, or letters and digits that look the same only; some file systems keep one of two such names.
    """
    seen = Counter(map(_look, names))
    taken = set(map(_look, TOOL_NAMES))
    problems = []
    for name in names:
        if not (_NAME.fullmatch(name) or _PART.fullmatch(name)):
            problems.append(
                sentence(f"{name!r} is not a safe file name", wanted="letters, digits, '.', '_', '-', no dot at an end")
            )
        elif _look(name) in taken or _look(name).startswith(tuple(map(_look, _R_MATRICES))) or seen[_look(name)] > 1:
            what = f"the file name {name!r} is already used, or looks like one that is"
            problems.append(sentence(what, fix="choose another name"))
    return problems


def is_tool_name(name: str) -> bool:
    """Whether a file of this name is one that this package writes, and so can make again."""
    return name in TOOL_NAMES or (name.startswith(_R_MATRICES) and name.endswith(".csv"))


def _look(name: str) -> str:
    """Return a name without punctuation and case, with letters that look alike made equal.

    >>> _look("Rep0rt.HTML") == _look("report.html"), _look("data.csv") == _look("data2.csv")
    (True, False)
    """
    return name.casefold().replace("rn", "m").replace("vv", "w").translate(_ALIKE)


def _typed(column: pa.Array, variable: Variable) -> pa.Array:
    return coding.decode(coding.encode(column, variable), variable) if variable.is_categorical else column
