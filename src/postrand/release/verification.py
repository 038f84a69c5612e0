"""Read a release, and check all of it again from its files alone."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from postrand import __version__, formats
from postrand.certification.certificate import Certificate, Claim, claims_from_dict, recertify
from postrand.certification.file_level import from_dict
from postrand.certification.series import series_from_dict
from postrand.codebook import Codebook
from postrand.codebook.not_released import shown_codebook
from postrand.engines.database import Table
from postrand.engines.resources import NOTHING, Resources
from postrand.engines.summary import Summary, check_bytes, check_margins, summarise
from postrand.errors import ReleaseError, UncheckedError, UsageError, raise_all, sentence
from postrand.mechanism import Mechanism
from postrand.metadata import Description
from postrand.privacy import needs_file, require_records
from postrand.release import canonical_json, earlier
from postrand.release import completed_check as copies
from postrand.release import whole_columns as columns
from postrand.release.auditor import columns_told, redrawn, same_columns, same_values, with_file
from postrand.release.bundle import (
    BLANK,
    CERTIFICATE,
    CODEBOOK,
    CODEBOOK_SCHEMAS,
    COMPLETED,
    DATA,
    DESCRIPTION,
    DESCRIPTION_SCHEMA,
    MANIFEST,
    MECHANISM,
    README,
    RENDERED,
    REPORT,
    SCHEMAS,
    Release,
    derive,
    is_tool_name,
    library_of,
    name_problems,
    released_codebook,
    well_formed,
)
from postrand.release.checks import (
    Audit,
    Phrase,
    Verification,
    as_manifest,
    check_rendering,
    check_schema,
    check_writer,
    load,
    no_release,
    number_of,
    plain_files,
    published,
    same_files,
    same_rendering,
    settled,
)
from postrand.release.signature import attempt_signature, load_public
from postrand.release.table import TABLE, check_values, open_data
from postrand.support import options
from postrand.support.randomness import ReleaseKey, as_release_key

SCHEMA_NUMBER = len(SCHEMAS)
DESCRIBED_FROM = BOUND_TO_CONTENT_FROM = 2
"""The first schema whose releases have a description, and whose draws follow the content of the file."""
FORGED = "this file does not follow from the other files of the release"


def read(directory: str | Path) -> Release:
    """Read what a release states: codebook, mechanism, certificate, manifest; ``frame()`` reads the data.

    Nothing is recomputed: :func:`verify` does that. Only of an early release, whose certificate holds sentences in
    place of codes, the certificate is made anew from its claims and its law.

    Raises
    ------
    ReleaseError
        If a file is missing or not well formed, or the directory holds anything but plain files.
    SpecificationError
        If the codebook or the mechanism is not well formed.
    """
    root = Path(directory)
    plain_files(root)
    with well_formed():
        manifest = _manifest(root)
        codebook, number = _codebook(root), _number(manifest)
        mechanism, certificate = _mechanism(root, codebook, number), load(root, CERTIFICATE)
        if number <= earlier.WITH_SENTENCES:  # what its sentences say is said in today's words, of the same law
            certificate = recertify(mechanism, *claims_from_dict(certificate)).to_dict()
        found = Release(root, codebook, mechanism, certificate, manifest)
        found.certificate_sentences, found.not_covered  # noqa: B018 raises where the certificate has none
    return found


def verify(
    directory: str | Path,
    *,
    manifest_sha256: str | None = None,
    file: str | Path | formats.File | Table | None = None,
    release_key: ReleaseKey | bytes | str | None = None,
    record_key: str | None = None,
    resources: Resources = NOTHING,
    redo_completed: bool = False,
    signer: str | Path | None = None,
    raise_if_failed: bool = True,
) -> Verification:
    """Recompute every claim of a release from its bytes alone, trusting none of its files.

    Digests and sizes are those of the manifest; the certificate is certified anew from the exact law; the data holds
    only what codebook and law allow, and counts that the law can give; and each derived file is, byte for byte, the
    one that the others give. The verdict is ``verified`` only where each of these ran and passed; where another version
    of a library wrote the bytes, or a later version of this package, a check may not run here, and the verdict is
    ``incomplete``.

    No sentence is compared: certificates hold codes, levels and names. Pages and other files for readers that an
    earlier version rendered in other words are named as such (``rendered``); that changes no verdict.

    What no one can check from the bytes alone is said, and changes no verdict: that the data was drawn from this law
    and this file, that the key is private and the order shuffled (the certificate's ``facts``), where matrices and
    budgets came from, and the contents of extra files. Whoever could
    rewrite *all* files consistently is caught only by ``manifest_sha256``, the digest of ``manifest.json`` as
    published by the agency elsewhere. Claims that rest on the confidential frequencies are reported as stated; an
    auditor who has the confidential ``file`` recomputes them too, from file and law, and compares numerical columns
    with it: the same values, or their averages, each within its run of ranks where records stand in the file's order.

    With the ``release_key`` as well, the records are drawn anew, and must be the same; ``record_key`` names the column
    of ids, where the release was drawn by one. ``resources`` say what drawing them may use.
    A signature must be valid, and with ``signer``, the PEM file of a public key, one must be by this key.

    Completed files of a release are compared with it, record by record. That they were drawn from the release alone is
    said; with ``redo_completed`` they are made again from their seed, where this platform gives the same numbers.

    A folder of permuted columns or of an Anatomy release is verified too: its claims are those of its tables.

    Raises
    ------
    ReleaseError
        With every check that fails, unless ``raise_if_failed`` is false.
    UsageError
        If ``signer`` is no public key; if a release key is given without the file, or for a folder of columns.
    UncheckedError
        Where none fails, with every check that could not run here, unless ``raise_if_failed`` is false.
    """
    root, audit = Path(directory), Audit()
    trusted = None if signer is None else load_public(signer)
    records = file if isinstance(file, Table | formats.File) or file is None else Path(file)
    if release_key is not None and file is None:
        raise UsageError(sentence("a release key alone cannot be checked", fix="give the confidential file too"))
    names = audit.attempt("files", plain_files, "check.files", root)
    if no_release(root):
        return audit.outcome(root, raise_if_failed)
    if names is not None and columns.is_columns(root):  # nothing is opened before: a pipe would never end
        if release_key is not None:
            raise UsageError(sentence("such a folder cannot be drawn again", where=str(root), fix="leave the key out"))
        if isinstance(records, Table):
            raise UsageError(sentence("such a folder is made of a file", where=str(root), fix="give that file"))
        return columns.verify_columns(root, manifest_sha256, records, trusted, raise_if_failed)
    manifest = audit.attempt("manifest", _manifest, "check.manifest", root, needs=[names])
    if manifest_sha256 is not None:
        audit.attempt("published", published, "check.published", root, manifest_sha256, needs=[names])
    audit.attempt("digests", _digests, "check.digests", root, manifest, needs=[manifest])
    attempt_signature(audit, root, trusted, manifest)
    book = audit.attempt("codebook", _codebook, "check.codebook", root, needs=[names])
    number = SCHEMA_NUMBER if manifest is None else _number(manifest)
    law = audit.attempt("mechanism", _mechanism, "check.mechanism", root, book, number, needs=[book])
    proof = audit.attempt("certificate", _certificate, _claims_told, root, law, number, needs=[law])
    needs: list[Any] = [manifest, law, proof]
    found = audit.attempt("data", _data, "check.data", root, manifest, law, needs=needs)
    audit.attempt("margins", check_margins, _margins_told, found, law, needs=[found])
    audit.attempt("bytes", _bytes, "check.bytes", root, manifest, law, needs=[found])
    told, parts = None, list[Any]([found, proof])
    if manifest is not None and COMPLETED in manifest["files"]:
        told = audit.attempt("copies_said", _copies, "check.copies_said", root, manifest, needs=[found])
        parts.append(told)
        copies.attempt(audit, root, told, root, manifest["data"], law, redo=redo_completed)
    others = audit.attempt("derived", _derived, "check.derived", root, manifest, law, proof, found, told, needs=parts)
    if records is not None:
        audit.attempt("file", with_file, "check.file", records, law, proof, found, needs=needs)
        audit.attempt("columns", same_columns, columns_told, root, manifest, law, proof, records, needs=needs)
        if law is not None and law.numerical:
            audit.attempt("values", same_values, "check.values", root, manifest, law, proof, records, needs=needs)
        if release_key is not None:
            audit.attempt(
                "drawn",
                _drawn,
                "check.drawn",
                root,
                manifest,
                law,
                proof,
                records,
                release_key,
                record_key,
                resources,
                needs=needs,
            )
    elif proof is not None and found is not None and _on_file(proof):
        audit.attempt("stated", _possible, _stated_told, proof, found)
    if proof is not None and found is not None and _names_records(proof):
        audit.attempt("records", _possible, "check.records", proof, found)
    drawn = any(check.name == "drawn" and check.ok for check in audit.checks)
    if proof is not None and proof.numerical and not drawn:
        done = [f"{c.variable}: {c.form}" for c in proof.numerical if file is None or c.form == "permute"]
        if done:
            audit.say("ranks", "said.ranks" if file is None else "said.ranks_with_file", columns=done)
    if proof is not None and law is not None and manifest is not None:
        for name, values in _said(root, manifest, law, proof, others or (), told, drawn=drawn):
            audit.say(name, f"said.{name}", **values)
    return audit.outcome(root, raise_if_failed)


def rebuild_report(directory: str | Path, out: str | Path | None = None) -> Path:
    """Write the public report of a release again from its other files, and return its path.

    Without ``out`` it takes its place in the release again, provided that it is the page which the manifest lists.

    Raises
    ------
    ReleaseError
        If a file of the release is missing, damaged or forged; if ``out`` exists; or if another version of this
        package wrote the release, and would give another page.
    """
    root = Path(directory)
    plain_files(root)
    with well_formed():
        page, manifest = columns.rebuilt_page(root) if columns.is_columns(root) else _rebuilt_page(root)
    target = root / REPORT if out is None else Path(out)
    if out is None and hashlib.sha256(page).hexdigest() != manifest["files"][REPORT].get("sha256"):
        version, fix = manifest["package"]["version"], "give --out to write the page elsewhere"
        what = f"the page is not the one released with postrand {version}"
        raise ReleaseError(sentence(what, where=str(target), fix=fix))
    try:
        with target.open("wb" if out is None else "xb") as file:
            file.write(page)
    except OSError as error:
        raise ReleaseError(sentence("the report cannot be written", where=str(target), got=error.strerror)) from None
    return target


def _rebuilt_page(root: Path) -> tuple[bytes, dict[str, Any]]:
    manifest = _manifest(root)
    number = _number(manifest)
    mechanism = _mechanism(root, _codebook(root), number)
    certificate = _certificate(root, mechanism, number)
    summary, data = _data(root, manifest, mechanism), root / manifest["data"]
    told = copies.stated(root) if COMPLETED in manifest["files"] else None
    return derive(mechanism, certificate, summary, data, _description(root, number), told)[REPORT], manifest


def _manifest(root: Path) -> dict[str, Any]:
    manifest = load(root, MANIFEST)
    number = check_schema(manifest, SCHEMAS, MANIFEST)
    files, data = manifest.get("files"), manifest.get("data")
    if not isinstance(files, dict) or not isinstance(data, str):
        raise ReleaseError(sentence("'files' or 'data' is missing", where=MANIFEST))
    parts = [name for name in files if name.startswith(f"{DATA}/")]
    listed = [*files, *([DATA] if parts else [])]
    needed = [data, CODEBOOK, MECHANISM, CERTIFICATE, REPORT, *[DESCRIPTION] * (number >= DESCRIBED_FROM)]
    problems = [sentence(f"{name!r} is not listed", where=MANIFEST) for name in needed if name not in listed]
    problems += name_problems([data, *(name for name in files if not is_tool_name(name) and name != data)])
    if parts and data != DATA:
        problems.append(sentence(f"the data is {data!r}, but there is also a data folder", where=MANIFEST))
    raise_all(ReleaseError, problems)
    library = {"postrand"} if data == TABLE else {formats.format_of(name).library for name in parts or [data]}
    check_writer(manifest, library)
    check_rendering(manifest, number > earlier.WITH_SENTENCES)
    return manifest


def _number(manifest: Mapping[str, Any]) -> int:
    return check_schema(manifest, SCHEMAS, MANIFEST)


def _digests(root: Path, manifest: Mapping[str, Any]) -> None:
    same_files(manifest, as_manifest(root, manifest, "data"))


def _codebook(root: Path) -> Codebook:
    data = load(root, CODEBOOK)
    check_schema(data, CODEBOOK_SCHEMAS, CODEBOOK)
    # What stands for values that are not released follows from the split, and is compared with the file as a whole.
    held = data.get("variables")
    if isinstance(held, list):
        held = [{n: e[n] for n in e if n != BLANK} if isinstance(e, dict) else e for e in held]
    return Codebook.from_dict({**data, "variables": held}, CODEBOOK)


def _description(root: Path, number: int) -> Description:
    if number < DESCRIBED_FROM:
        return Description()
    data = load(root, DESCRIPTION)
    check_schema(data, (DESCRIPTION_SCHEMA,), DESCRIPTION)
    told = {name: text for name, text in data.items() if name != "schema"}
    description: Description = options.build(Description, told, DESCRIPTION)
    return description


def _mechanism(root: Path, codebook: Codebook, number: int) -> Mechanism:
    return Mechanism.from_dict(earlier.todays_mechanism(load(root, MECHANISM), number), codebook)


def _certificate(root: Path, mechanism: Mechanism, number: int) -> Certificate:
    """Certify the matrices again, for the claims in the certificate."""
    stated = load(root, CERTIFICATE)
    check_schema(stated, (earlier.CERTIFICATES[number],), CERTIFICATE)
    claims, facts = claims_from_dict(stated)
    file = from_dict(stated["file"]) if stated.get("file") else None
    if not all(isinstance(getattr(facts, name), bool) for name in facts.__slots__):
        raise ReleaseError(sentence("a fact is not true or false", where=CERTIFICATE))
    codebook = mechanism.require_codebook()
    if released_codebook(codebook, facts) != codebook:
        raise ReleaseError(sentence("a variable is released although its role forbids it", where=CODEBOOK))
    if facts.households_are_renumbered and not codebook.with_role("household"):
        raise ReleaseError(sentence("households are said to be renumbered, but none are released", where=CERTIFICATE))
    certificate = recertify(mechanism, claims, facts, file)
    if "series" in stated:
        series = series_from_dict(stated["series"], certificate.level(mechanism))
        certificate = dataclasses.replace(certificate, series=series)
    found = earlier.as_written(canonical_json.plain(certificate.to_dict()), number, mechanism)
    if place := canonical_json.first_difference(earlier.stated(stated, number), earlier.with_facts(found, stated)):
        raise ReleaseError(
            sentence("the certificate does not agree with the matrices", where=f"{CERTIFICATE}, {place}")
        )
    return certificate


def _on_file(certificate: Certificate) -> list[Claim]:
    return [claim for claim in certificate.claims if needs_file(claim.privacy)]


def _names_records(certificate: Certificate) -> bool:
    of_file = any(hasattr(claim.privacy, "of_records") for claim in certificate.claims)
    return of_file or certificate.file is not None


def _claims_told(certificate: Certificate) -> Phrase:
    return "check.claims_but_files" if _on_file(certificate) else "check.claims", {}


def _possible(certificate: Certificate, summary: Summary) -> Certificate:
    """Check whether claims that depend on the number of records are possible for this number."""
    for claim in certificate.claims:
        require_records(claim.privacy, summary.records)
    if certificate.file is not None and certificate.file.records != summary.records:
        what = "the level of the file is stated for another number of records"
        got, wanted = f"{certificate.file.records:,}", f"{summary.records:,}"
        raise ReleaseError(sentence(what, where=CERTIFICATE, got=got, wanted=wanted))
    return certificate


def _stated_told(certificate: Certificate) -> Phrase:
    claims = [{"variables": list(c.variables), "privacy": options.to_dict(c.privacy)} for c in _on_file(certificate)]
    return "check.stated", {"claims": claims}


def _drawn(
    root: Path,
    manifest: dict[str, Any],
    mechanism: Mechanism,
    certificate: Certificate,
    file: Path | formats.File | Table,
    key: ReleaseKey | bytes | str,
    record_key: str | None,
    resources: Resources,
) -> bool:
    if _number(manifest) < BOUND_TO_CONTENT_FROM:
        what = "releases of this schema were drawn in an earlier way that this version cannot repeat"
        raise UncheckedError(sentence(what, where=MANIFEST, got=manifest["schema"], wanted=f"{SCHEMAS[1]} or later"))
    found = Release(root, mechanism.require_codebook(), mechanism, {}, manifest)
    return redrawn(found, certificate.facts, file, as_release_key(key), record_key, resources)


def _data(root: Path, manifest: Mapping[str, Any], mechanism: Mechanism) -> Summary:
    data = root / manifest["data"]
    if data.name == TABLE:
        return summarise(open_data(data, _shown(mechanism)), mechanism)
    if not formats.is_installed(next(data.iterdir()) if data.is_dir() else data):
        library = manifest["written_with"]
        what = "the library that reads these data is not installed"
        raise UncheckedError(sentence(what, where=data.name, got="none", wanted=library, fix=f"install {library}"))
    if _number(manifest) == 1:
        mechanism = earlier.with_levels(mechanism, formats.read(data, mechanism.require_codebook()))
    return summarise(data, mechanism)


def _bytes(root: Path, manifest: Mapping[str, Any], mechanism: Mechanism) -> None:
    """Compare the data file with its records, written again, if the library here is the one that wrote it."""
    data = manifest["data"]
    if data == TABLE:
        check_values(root / data, _shown(mechanism))
    else:
        settled(lambda: check_bytes(root / data, mechanism), library_of(root, data), manifest["written_with"])


def _shown(mechanism: Mechanism) -> Codebook:
    return shown_codebook(mechanism.require_codebook(), mechanism.partly)


def _margins_told(tables: int) -> Phrase:
    return "check.margins", {"tables": tables}


def _copies(root: Path, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    told = copies.stated(root)
    if told["file"] not in manifest["files"]:
        raise ReleaseError(sentence(f"{told['file']!r} is not listed", where=MANIFEST))
    return told


def _derived(
    root: Path,
    manifest: Mapping[str, Any],
    mechanism: Mechanism,
    certificate: Certificate,
    summary: Summary,
    told: Mapping[str, Any] | None,
) -> tuple[str, ...]:
    """Check each derived file, and that no other file has such a name; return the pages with other words."""
    number, version = _number(manifest), manifest["package"]["version"]
    wanted = derive(mechanism, certificate, summary, root / manifest["data"], _description(root, number), told)
    wanted[MECHANISM] = canonical_json.dump(earlier.mechanism_as_written(mechanism, number))
    if README not in manifest["files"]:
        wanted.pop(README)  # the first releases of this schema, and all of earlier ones, have none
    if number < DESCRIBED_FROM:
        wanted.pop(DESCRIPTION)
    if number <= earlier.WITH_SENTENCES:
        wanted.pop(CERTIFICATE)  # whose sentences are of another version; what it states has been compared
    known = (*wanted, CERTIFICATE, COMPLETED)
    more = [name for name in manifest["files"] if is_tool_name(name) and name not in known]
    raise_all(ReleaseError, [sentence("this file does not belong to the release", where=name) for name in more])
    wrong = [name for name, content in wanted.items() if not _holds(root, name, content)]
    free = RENDERED if number == SCHEMA_NUMBER else (*RENDERED, *(n for n in wanted if n.endswith(".csv")))
    here = same_rendering(manifest)
    raise_all(ReleaseError, [sentence(FORGED, where=name) for name in wrong if here or name not in free])
    if number_of(version) > number_of(__version__):
        fix, what = (
            f"verify it with postrand {version}, which the manifest names as its writer",
            "a later version wrote this file",
        )
        problems = [sentence(what, where=name, got=f"postrand {__version__}", fix=fix) for name in wrong]
        raise_all(UncheckedError, problems)
    return tuple(wrong)


def _holds(root: Path, name: str, content: bytes) -> bool:
    path = root / name
    if not path.is_file():
        return False
    if name in (CODEBOOK, MECHANISM, CERTIFICATE, DESCRIPTION):
        return canonical_json.dump(load(root, name)) == content
    return path.stat().st_size == len(content) and path.read_bytes() == content


def _said(
    root: Path,
    manifest: Mapping[str, Any],
    mechanism: Mechanism,
    certificate: Certificate,
    rendered: Sequence[str],
    completed: Mapping[str, Any] | None,
    *,
    drawn: bool,
) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield what the release states but nobody can recompute from it: a name, and the values of its wording."""
    facts, version = certificate.facts, manifest["package"]["version"]
    order = facts.order_is_shuffled and not drawn
    told = [*["drawn"] * (not drawn), *["key"] * facts.key_is_private, *["order"] * order]
    if told:
        yield "facts", {"facts": told}
    recodes = () if mechanism.codebook is None else mechanism.codebook.recodes
    looked = {recode.variable for recode in recodes if recode.is_confidential}  # their sizes are the file's
    made = [(list(names), block.provenance) for names, block in mechanism.designs if looked.isdisjoint(names)]
    if origins := {origin: held for origin in ("public", "dp") if (held := [n for n, of in made if of == origin])}:
        yield "origins", {"origins": origins}
    if certificate.series is not None:
        yield "series", certificate.series.said
    own = {manifest["data"], *([] if completed is None else [completed["file"]])}
    extra = [n for n in manifest["files"] if not is_tool_name(n) and not n.startswith(f"{DATA}/") and n not in own]
    if extra:
        yield "extra", {"files": extra}
    if _number(manifest) <= earlier.WITH_SENTENCES:
        yield "earlier_words", {}
    if any(column.level is None for column in mechanism.numerical):
        yield "earlier_levels", {}
    if rendered:
        yield "rendered", {"version": version, "files": list(rendered)}
    if (version, manifest["written_with"]) != (__version__, library_of(root, manifest["data"])):
        yield "writer", {"version": version, "library": manifest["written_with"]}
