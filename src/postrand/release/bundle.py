"""A release on disk: its files, how they are derived from one another, and how they are read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from postrand import __version__, coding, estimate, formats, report
from postrand.certificate import Certificate, Claim, Facts, certify
from postrand.codebook import Codebook, Variable
from postrand.errors import PostrandError, ReleaseError, raise_all, sentence
from postrand.mechanism import Mechanism
from postrand.privacy import PrivacyModel
from postrand.release import atomic, canonical
from postrand.summary import Summary, check_bytes, summarise

SCHEMA = "postrand/release/1"
CODEBOOK_SCHEMA = "postrand/codebook/1"
RELEASED_ROLES = ("key", "sensitive", "other", "weight", "household")
CODEBOOK, MECHANISM, CERTIFICATE, REPORT = "codebook.json", "mechanism.json", "certificate.json", "report.html"
MANIFEST = "manifest.json"
MAX_R_CATEGORIES = 1000
"""The files for R, which hold every probability as text, are left out where a block has more categories."""
DATA = "data"
"""The one folder that a release may hold: its data, where that is in several files."""
Inspect = Callable[[Path, Mechanism, Certificate, Summary], Mapping[str, str | bytes]]
Extra = Callable[[Path, Mechanism, Certificate, Summary], Mapping[str, str]]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PART = re.compile(rf"{DATA}/part-[0-9]{{5,9}}\.[a-z0-9]{{1,8}}")


@dataclass(frozen=True, slots=True)
class Release:
    """Hold what a release says of itself; nothing here is verified (:func:`postrand.verify` does that).

    ``findings`` is what :func:`postrand.run` measured of the confidential file (:class:`postrand.risk.Findings`): it is
    not part of the release, and None where a release was read.
    """

    path: Path
    codebook: Codebook
    mechanism: Mechanism
    certificate: dict[str, Any]
    manifest: dict[str, Any]
    findings: Any = field(default=None, compare=False, repr=False)

    @property
    def data_path(self) -> Path:
        """The data file, or the folder of data files."""
        return self.path / str(self.manifest["data"])

    @property
    def certificate_sentences(self) -> tuple[str, ...]:
        """One sentence for each privacy claim, naming its variables."""
        claims = [*self.certificate["claims"], *self.certificate.get("numerical", ())]
        return tuple(f"{', '.join(claim['variables'])}: {claim['sentence']}." for claim in claims)

    def frame(self) -> pa.Table:
        """Return the released records as an Arrow table, columns in codebook order.

        Text variables with categories are dictionary columns that hold every category in codebook order.

        Raises
        ------
        DataError
            If the data does not fit the codebook.
        """
        names = self.codebook.names
        with well_formed():
            source = formats.read(self.data_path, self.codebook)
            batches = [
                pa.RecordBatch.from_arrays([_typed(batch.column(n), self.codebook[n]) for n in names], names=names)
                for batch in source.batches(columns=names)
            ]
            return pa.Table.from_batches(batches).unify_dictionaries()


@contextmanager
def well_formed() -> Iterator[None]:
    """Turn whatever hostile bytes raise into a ReleaseError; errors that say what is wrong pass."""
    try:
        yield
    except PostrandError:
        raise
    except Exception as error:
        raise ReleaseError(sentence("not well formed", got=type(error).__name__)) from None


def write(
    directory: str | Path,
    *,
    data_writer: Callable[[Path], None],
    data_name: str,
    mechanism: Mechanism,
    claims: Iterable[Claim | PrivacyModel] = (),
    facts: Facts | None = None,
    extra: Mapping[str, str] | Extra | None = None,
    dossier: str | Path | None = None,
    inspect: Inspect | None = None,
) -> Release:
    """Write a release whole or not at all: data, codebook, mechanism, certificate, report, manifest.

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
        Further text files by name, for example metadata, or a function that makes them of the data file, the released
        mechanism, the certificate and the summary; ``verify`` checks their digests only.
    dossier, inspect
        Where the internal dossier goes, apart from the release and readable by its owner only, and the function that
        gives its files by name, called with the same. Release and dossier appear together or not at all: the dossier
        first, so that no release is ever without the dossier that was asked for.

    Raises
    ------
    ReleaseError
        If a directory exists or lies inside the other, a name is unsafe, or the disk refuses a step of the writing.
    PrivacyError
        If a claim fails.
    DataError
        If the data that was written does not fit the codebook or the law.
    """
    directory, facts = Path(directory), facts or Facts()
    made = extra if callable(extra) else lambda *_: extra or {}
    raise_all(ReleaseError, name_problems([data_name, *({} if callable(extra) else extra or {})]))
    codebook = released_codebook(mechanism.require_codebook(), facts)
    mechanism = mechanism.bind(codebook)
    certificate = certify(mechanism, claims, facts)
    check_targets(directory, dossier)
    targets = [] if dossier is None else [(Path(dossier), atomic.PRIVATE)]
    with atomic.appearing_together(*targets, (directory, atomic.PUBLIC)) as (*internal, staging):
        data_writer(staging / data_name)
        summary = summarise(staging / data_name, mechanism)
        check_bytes(staging / data_name, mechanism)
        for folder in internal:
            write_dossier(folder, inspect(staging / data_name, mechanism, certificate, summary) if inspect else {})
        texts = {n: t.encode() for n, t in made(staging / data_name, mechanism, certificate, summary).items()}
        raise_all(ReleaseError, name_problems([data_name, *texts]))
        derived = derive(mechanism, certificate, summary, data_name)
        clashes = derived.keys() & texts.keys()
        raise_all(ReleaseError, [sentence(f"the file name {name!r} is taken") for name in sorted(clashes)])
        files = derived | texts
        for name, content in files.items():
            (staging / name).write_bytes(content)
        manifest = manifest_of(staging, data_name, __version__, library_of(staging, data_name))
        (staging / MANIFEST).write_bytes(canonical.dump(manifest))
    return Release(directory, codebook, mechanism, certificate.to_dict(), manifest)


def derive(mechanism: Mechanism, certificate: Certificate, summary: Summary, data_name: str) -> dict[str, bytes]:
    """Return the bytes of every file that follows from others, by name.

    ``verify`` calls this too: a release is genuine when its files are the ones derived from its contents.
    """
    small = all(block.matrix.size <= MAX_R_CATEGORIES for block in mechanism.blocks)
    r_code = {name: text.encode() for name, text in estimate.r_files(mechanism).items()} if small else {}
    return r_code | {
        CODEBOOK: canonical.dump({"schema": CODEBOOK_SCHEMA, **mechanism.require_codebook().to_dict()}),
        MECHANISM: canonical.dump(mechanism.to_dict()),
        CERTIFICATE: canonical.dump(certificate.to_dict()),
        REPORT: report.public_report(mechanism, certificate, summary, data_name).encode(),
    }


def write_dossier(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write the internal files, readable by their owner only; raises ReleaseError for an unsafe name."""
    raise_all(ReleaseError, name_problems(list(files)))
    for name, content in files.items():
        path = folder / name
        try:
            path.touch(0o600)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        except OSError as error:  # a full disk does not name the file: it may be another disk than the release's
            error.filename = str(path)
            raise


def check_targets(release: str | Path, dossier: str | Path | None = None) -> None:
    """Raise ReleaseError, before any work is done, with everything that keeps these directories from being written."""
    targets = [Path(release)] if dossier is None else [Path(release), Path(dossier)]
    problems = [p for target in targets for p in atomic.target_problems(target)]
    raise_all(ReleaseError, [*problems, *atomic.nesting_problems(*targets)])


def released_codebook(codebook: Codebook, facts: Facts) -> Codebook:
    """Return the codebook of the released columns: no dropped variable, no record key unless ids are released."""
    roles = (*RELEASED_ROLES, "record_key") if facts.ids_are_released else RELEASED_ROLES
    return codebook.select(v.name for v in codebook.with_role(*roles))


def library_of(root: Path, data_name: str) -> str:
    """Return the library that settles the bytes of the data files; see :func:`postrand.formats.library_of`."""
    data = root / data_name
    return formats.library_of(next(data.iterdir()) if data.is_dir() else data)


def manifest_of(root: Path, data_name: str, version: str, library: str = "") -> dict[str, Any]:
    """Return the manifest of the files that are in ``root`` and its folder of data."""
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return {
        "schema": SCHEMA,
        "package": {"name": "postrand", "version": version},
        "written_with": library,
        "data": data_name,
        "files": {
            name: {"bytes": (root / name).stat().st_size, "sha256": file_digest(root / name)}
            for name in names
            if name != MANIFEST
        },
    }


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def name_problems(names: list[str]) -> list[str]:
    """Return a sentence for each file name that is unsafe, taken or used twice."""
    taken = (CODEBOOK, MECHANISM, CERTIFICATE, REPORT, MANIFEST)
    problems = []
    for name in names:
        if not (_NAME.fullmatch(name) or _PART.fullmatch(name)):
            problems.append(
                sentence(f"{name!r} is no safe file name", wanted="letters, digits, '.', '_', '-', no leading dot")
            )
        elif name in taken or names.count(name) > 1:
            problems.append(sentence(f"the file name {name!r} is taken", fix="choose another"))
    return problems


def _typed(column: pa.Array, variable: Variable) -> pa.Array:
    return coding.decode(coding.encode(column, variable), variable) if variable.is_categorical else column
