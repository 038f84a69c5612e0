"""Reading a release, and re-checking all of it from its bytes alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from postrand import __version__, formats
from postrand.certification.certificate import Certificate, Claim, claims_from_dict, recertify
from postrand.codebook import Codebook
from postrand.engines.summary import Summary, check_bytes, check_margins, summarise
from postrand.errors import ReleaseError, UncheckedError, UsageError, raise_all, sentence
from postrand.mechanism import Mechanism
from postrand.metadata import Description
from postrand.privacy import needs_file, require_records
from postrand.release import canonical_json
from postrand.release import whole_columns as columns
from postrand.release.auditor import redrawn, same_values, with_file
from postrand.release.bundle import (
    CERTIFICATE,
    CODEBOOK,
    CODEBOOK_SCHEMA,
    DATA,
    DESCRIPTION,
    DESCRIPTION_SCHEMA,
    MANIFEST,
    MECHANISM,
    REPORT,
    SCHEMA,
    WORDED_ALIKE,
    Release,
    derive,
    is_tool_name,
    library_of,
    manifest_of,
    name_problems,
    released_codebook,
    well_formed,
)
from postrand.release.checks import (
    Audit,
    Verification,
    check_schema,
    check_writer,
    load,
    no_release,
    plain_files,
    published,
    same_files,
    settled,
)
from postrand.support import options
from postrand.support.randomness import ReleaseKey, as_release_key

FORGED = "it is not the file that the other files of the release give"


def read(directory: str | Path) -> Release:
    """Read what a release says of itself: codebook, mechanism, certificate, manifest; data on ``frame()``.

    Nothing is recomputed: :func:`verify` does that.

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
        codebook = _codebook(root)
        found = Release(root, codebook, _mechanism(root, codebook), load(root, CERTIFICATE), manifest)
        found.certificate_sentences  # noqa: B018 raises where the certificate has none
    return found


def verify(
    directory: str | Path,
    *,
    manifest_sha256: str | None = None,
    file: str | Path | None = None,
    release_key: ReleaseKey | bytes | str | None = None,
    record_key: str | None = None,
    raise_if_failed: bool = True,
) -> Verification:
    """Recompute every claim of a release from its bytes alone, trusting none of its files.

    Digests and sizes are those of the manifest; the certificate is certified anew from the exact law; the data holds
    only what codebook and law allow, and counts that the law can give; and each derived file is, byte for byte, the
    one that the others give. The verdict is ``verified`` only where each of these ran and passed; where another version
    of a library wrote the bytes, a check may not run here, and the verdict is ``incomplete``.

    What no one can check from the bytes alone is said, and changes no verdict: that the data was drawn from this law
    and this file, that the key is private and the order shuffled (the certificate's ``facts``), where matrices and
    budgets came from, and the contents of extra files. Whoever could
    rewrite *all* files consistently is caught only by ``manifest_sha256``, the digest of ``manifest.json`` as
    published by the agency elsewhere. Claims that rest on the confidential frequencies are reported as stated; an
    auditor who has the confidential ``file`` recomputes them too, from file and law, and compares numerical columns
    with it: the same values, or their averages, each within its run of ranks where records stand in the file's order.

    With the ``release_key`` as well, the records are drawn anew, and must be the same; ``record_key`` names the column
    of ids, where the release was drawn by one.

    A folder of permuted columns or of an Anatomy release is verified too: its claims are those of its tables.

    Raises
    ------
    ReleaseError
        With every check that fails, unless ``raise_if_failed`` is false.
    UsageError
        If a key is given without the file, or for a folder of permuted columns or of an Anatomy release.
    UncheckedError
        Where none fails, with every check that could not run here, unless ``raise_if_failed`` is false.
    """
    root, audit = Path(directory), Audit()
    if release_key is not None and file is None:
        raise UsageError(sentence("a release key alone checks nothing", fix="give the confidential file too"))
    names = audit.attempt("files", plain_files, "every entry is a plain file", root)
    if problems := no_release(root):
        raise_all(ReleaseError, problems if raise_if_failed else ())
        return audit.outcome(root, raise_if_failed)
    if names is not None and columns.is_columns(root):  # nothing is opened before: a pipe would never end
        if release_key is not None:
            raise UsageError(sentence("such a folder is not drawn anew", where=str(root), fix="leave the key out"))
        return columns.verify_columns(root, manifest_sha256, file, raise_if_failed)
    manifest = audit.attempt("manifest", _manifest, "well formed", root, needs=[names])
    if manifest_sha256 is not None:
        text = "the manifest is the published one"
        audit.attempt("published", published, text, root, manifest_sha256, needs=[names])
    audit.attempt("digests", _digests, "every file has its size and SHA-256", root, manifest, needs=[manifest])
    book = audit.attempt("codebook", _codebook, "well formed", root, needs=[names])
    law = audit.attempt("mechanism", _mechanism, "every row sums to exactly 2^53", root, book, needs=[book])
    proof = audit.attempt("certificate", _certificate, _claims_text, root, law, needs=[law])
    needs: list[Any] = [manifest, law, proof]
    found = audit.attempt("data", _data, "every value fits codebook and law", root, manifest, law, needs=needs)
    audit.attempt("margins", check_margins, _margins_text, found, law, needs=[found])
    text = "nothing is in its bytes beside the records"
    audit.attempt("bytes", _bytes, text, root, manifest, law, needs=[found])
    text = "each is the one the others give"
    audit.attempt("derived", _derived, text, root, manifest, law, proof, found, needs=[found, proof])
    if file is not None:
        text = "every claim holds for the exact law and this file"
        audit.attempt("file", with_file, text, Path(file), law, proof, found, needs=needs)
        if law is not None and law.numerical:
            text = "values and averages are those that the law on ranks makes of this file"
            audit.attempt("values", same_values, text, root, manifest, law, proof, Path(file), needs=needs)
        if release_key is not None:
            text = "the key draws these records from this file, by this law"
            audit.attempt(
                "drawn", _drawn, text, root, manifest, law, proof, Path(file), release_key, record_key, needs=needs
            )
    elif proof is not None and found is not None and _on_file(proof):
        audit.attempt("stated", _possible, _stated_text, proof, found)
    if proof is not None and found is not None and any(hasattr(claim.privacy, "of_records") for claim in proof.claims):
        audit.attempt("records", _possible, "claims on the whole file are about as many records", proof, found)
    drawn = any(check.name == "drawn" and check.ok for check in audit.checks)
    if proof is not None and proof.numerical and not drawn:
        done = ", ".join(f"{c.variable}: {c.form}" for c in proof.numerical if file is None or c.form == "permute")
        if done:
            text = "counts and claims fit" if file is None else "the values fit"
            audit.say("ranks", f"that the law on ranks was followed ({done}) is a fact of the run; {text}")
    if proof is not None and law is not None and manifest is not None:
        for name, said in _said(root, manifest, law, proof, drawn=drawn):
            audit.say(name, said)
    return audit.outcome(root, raise_if_failed)


def rebuild_report(directory: str | Path, out: str | Path | None = None) -> Path:
    """Make the public report of a release anew from its other files, and return where it is.

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
    mechanism = _mechanism(root, _codebook(root))
    certificate = _certificate(root, mechanism)
    summary, data = _data(root, manifest, mechanism), root / manifest["data"]
    return derive(mechanism, certificate, summary, data, _description(root))[REPORT], manifest


def _manifest(root: Path) -> dict[str, Any]:
    manifest = load(root, MANIFEST)
    check_schema(manifest, SCHEMA, MANIFEST)
    files, data = manifest.get("files"), manifest.get("data")
    if not isinstance(files, dict) or not isinstance(data, str):
        raise ReleaseError(sentence("'files' or 'data' is missing", where=MANIFEST))
    parts = [name for name in files if name.startswith(f"{DATA}/")]
    listed = [*files, *([DATA] if parts else [])]
    needed = (data, CODEBOOK, MECHANISM, CERTIFICATE, REPORT, DESCRIPTION)
    problems = [sentence(f"{name!r} is not listed", where=MANIFEST) for name in needed if name not in listed]
    problems += name_problems([data, *(name for name in files if not is_tool_name(name) and name != data)])
    if parts and data != DATA:
        problems.append(sentence(f"the data is {data!r}, and there is a folder of data too", where=MANIFEST))
    raise_all(ReleaseError, problems)
    library = {formats.format_of(name).library for name in parts or [data]}
    check_writer(manifest, library)
    return manifest


def _digests(root: Path, manifest: Mapping[str, Any]) -> bool:
    return same_files(
        manifest, manifest_of(root, manifest["data"], manifest["package"]["version"], manifest["written_with"])
    )


def _codebook(root: Path) -> Codebook:
    data = load(root, CODEBOOK)
    check_schema(data, CODEBOOK_SCHEMA, CODEBOOK)
    return Codebook.from_dict(data, CODEBOOK)


def _description(root: Path) -> Description:
    data = load(root, DESCRIPTION)
    check_schema(data, DESCRIPTION_SCHEMA, DESCRIPTION)
    told = {name: text for name, text in data.items() if name != "schema"}
    description: Description = options.build(Description, told, DESCRIPTION)
    return description


def _mechanism(root: Path, codebook: Codebook) -> Mechanism:
    return Mechanism.from_dict(load(root, MECHANISM), codebook)


def _certificate(root: Path, mechanism: Mechanism) -> Certificate:
    """Certify the law anew, for the claims that the certificate makes."""
    stated = load(root, CERTIFICATE)
    claims, facts = claims_from_dict(stated)
    if not all(isinstance(getattr(facts, name), bool) for name in facts.__slots__):
        raise ReleaseError(sentence("a fact is neither true nor false", where=CERTIFICATE))
    codebook = mechanism.require_codebook()
    if released_codebook(codebook, facts) != codebook:
        raise ReleaseError(sentence("a variable is released that its role keeps back", where=CODEBOOK))
    if facts.households_are_renumbered and not codebook.with_role("household"):
        raise ReleaseError(sentence("households are said to be renumbered, and none is released", where=CERTIFICATE))
    certificate = recertify(mechanism, claims, facts)
    if place := canonical_json.first_difference(stated, canonical_json.plain(certificate.to_dict())):
        raise ReleaseError(sentence("the certificate does not say what the law gives", where=f"{CERTIFICATE}, {place}"))
    return certificate


def _on_file(certificate: Certificate) -> list[Claim]:
    return [claim for claim in certificate.claims if needs_file(claim.privacy)]


def _claims_text(certificate: Certificate) -> str:
    rest = " that the release suffices to recompute" if _on_file(certificate) else ""
    return f"every claim{rest} holds for the exact law"


def _possible(certificate: Certificate, summary: Summary) -> Certificate:
    """Check of claims that depend on the number of records what can be: whether they can be about so many."""
    for claim in certificate.claims:
        require_records(claim.privacy, summary.records)
    return certificate


def _stated_text(certificate: Certificate) -> str:
    texts = [f"{', '.join(claim.variables)}: {options.describe(claim.privacy)}" for claim in _on_file(certificate)]
    return f"{'; '.join(texts)}: stated by the curator, not recomputable from the release; it takes the file"


def _drawn(
    root: Path,
    manifest: dict[str, Any],
    mechanism: Mechanism,
    certificate: Certificate,
    file: Path,
    key: ReleaseKey | bytes | str,
    record_key: str | None,
) -> bool:
    found = Release(root, mechanism.require_codebook(), mechanism, {}, manifest)
    return redrawn(found, certificate.facts, file, as_release_key(key), record_key)


def _data(root: Path, manifest: Mapping[str, Any], mechanism: Mechanism) -> Summary:
    data = root / manifest["data"]
    if not formats.is_installed(next(data.iterdir()) if data.is_dir() else data):
        library = manifest["written_with"]
        what = "the library that reads these data is not installed here"
        raise UncheckedError(sentence(what, where=data.name, got="none", wanted=library, fix=f"install {library}"))
    return summarise(data, mechanism)


def _bytes(root: Path, manifest: Mapping[str, Any], mechanism: Mechanism) -> bool:
    """Compare the data with what its records give, as far as the same library is there that wrote it."""
    data = manifest["data"]
    return settled(lambda: check_bytes(root / data, mechanism), library_of(root, data), manifest["written_with"])


def _margins_text(tables: int) -> str:
    return f"the law can give the released counts (tables tested: {tables:,})"


def _derived(
    root: Path, manifest: Mapping[str, Any], mechanism: Mechanism, certificate: Certificate, summary: Summary
) -> bool:
    """Check each file that others give, and that no other file has a name of one."""
    wanted = derive(mechanism, certificate, summary, root / manifest["data"], _description(root))
    version = manifest["package"]["version"]
    more = [name for name in manifest["files"] if is_tool_name(name) and name not in wanted]
    raise_all(ReleaseError, [sentence("no such file belongs to this release", where=name) for name in more])
    wrong = [name for name, content in wanted.items() if not _holds(root / name, content)]
    surely = wrong if version == __version__ else [name for name in wrong if name in WORDED_ALIKE]
    raise_all(ReleaseError, [sentence(FORGED, where=name) for name in surely])
    fix = f"verify it with postrand {version}, which is named as its writer"
    what = "another version may write this file in other words"
    raise_all(UncheckedError, [sentence(what, where=name, got=f"postrand {__version__}", fix=fix) for name in wrong])
    return True


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content


def _said(
    root: Path, manifest: Mapping[str, Any], mechanism: Mechanism, certificate: Certificate, *, drawn: bool
) -> Iterable[tuple[str, str]]:
    """Yield what the release states and nobody can recompute from it, by name."""
    facts = certificate.facts
    told = [
        *["the records were drawn by this law from the confidential file"] * (not drawn),
        *["the release key is private"] * facts.key_is_private,
        *["their order was shuffled"] * (facts.order_is_shuffled and not drawn),
    ]
    if told:
        yield "facts", f"on the curator's word: that {', and that '.join(told)}"
    origins = {origin: [b.name for b in mechanism.blocks if b.provenance == origin] for origin in ("public", "dp")}
    texts = {"public": "public figures", "dp": "a differentially private histogram, and what it spent"}
    made = [f"{', '.join(names)} from {texts[origin]}" for origin, names in origins.items() if names]
    if made:
        yield "origins", f"on the curator's word: that matrices were designed as stated ({'; '.join(made)})"
    extra = [
        n for n in manifest["files"] if not is_tool_name(n) and not n.startswith(f"{DATA}/") and n != manifest["data"]
    ]
    if extra:
        yield "extra", f"contents of extra files are not checked: {', '.join(extra)}"
    here = (__version__, library_of(root, manifest["data"]))
    if (manifest["package"]["version"], manifest["written_with"]) != here:
        there = f"postrand {manifest['package']['version']} with {manifest['written_with']}"
        yield "writer", f"that {there} wrote it cannot be told from its bytes"
