"""Folders of whole-column protection: what their certificates say, derived from the released tables alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from postrand import __version__, formats, options
from postrand.anatomy import describe_tables
from postrand.errors import ReleaseError, SpecificationError, UsageError, raise_all, sentence
from postrand.numerical.column import RankedColumn
from postrand.numerical.laws import RANK_LAWS, RankLaw
from postrand.numerical.released import numbers
from postrand.release import canonical
from postrand.release.audit import Audit, Verification, check_schema, load, plain_files, published, same_files
from postrand.release.bundle import CERTIFICATE, MANIFEST, manifest_of

SCHEMA = "postrand/columns/1"
ANATOMY = "anatomy"
_FIELDS = {"schema", "method", "columns", "claims", "details", "not_covered", "facts"}


def is_columns(root: Path) -> bool:
    """Return whether a folder says that it is of this kind."""
    try:
        return load(root, MANIFEST).get("schema") == SCHEMA
    except ReleaseError:
        return False


def read_table(path: Path) -> pa.Table:
    """Return a whole file as one table of unified dictionaries."""
    return pa.Table.from_batches(list(formats.read(path).batches())).unify_dictionaries().combine_chunks()


def names_of(method: Mapping[str, Any], suffix: str) -> tuple[str, ...]:
    """Return the data files of a folder."""
    return (f"keys{suffix}", f"others{suffix}") if method["model"] == ANATOMY else (f"data{suffix}",)


def law_method(law: RankLaw) -> dict[str, Any]:
    """Return a rank law as the certificate names it."""
    return options.to_dict(law)


def derive(root: Path, suffix: str, method: Mapping[str, Any], columns: Sequence[str], private: bool) -> dict[str, Any]:
    """Return the certificate of the tables in a folder: every level recomputed from their values.

    Raises
    ------
    PostrandError
        If the tables cannot be what the method gives: too few records, classes that differ, no such column.
    """
    tables = [read_table(root / name) for name in names_of(method, suffix)]
    facts = {"key_is_private": private}
    found = _anatomy(tables, method, columns) if method["model"] == ANATOMY else _permuted(tables[0], method, columns)
    limits = [] if private else ["The release key was made from a seed for tests: THE RELEASE IS NOT PRIVATE."]
    found["not_covered"] = [*limits, *found["not_covered"]]
    return {"schema": SCHEMA, "method": dict(method), "columns": list(columns), **found, "facts": facts}


def write_proofs(root: Path, suffix: str, method: Mapping[str, Any], columns: Sequence[str], private: bool) -> None:
    """Write certificate and manifest beside the tables."""
    (root / CERTIFICATE).write_bytes(canonical.dump(derive(root, suffix, method, columns, private)))
    (root / MANIFEST).write_bytes(canonical.dump(_manifest_of(root, __version__)))


def verify_columns(root: Path, manifest_sha256: str | None, raise_if_failed: bool) -> Verification:
    """Recompute digests and every claim of a folder; see :func:`postrand.release.verify`."""
    audit = Audit()
    names = audit.attempt("files", plain_files, "every entry is a plain file", root)
    manifest = audit.attempt("manifest", _manifest, "well formed", root, needs=[names])
    if manifest_sha256 is not None:
        audit.attempt("published", published, "the manifest is the published one", root, manifest_sha256)
    audit.attempt("digests", _digests, "every file has its size and SHA-256", root, manifest, needs=[manifest])
    text = "every level is the one of the released tables"
    proof = audit.attempt("certificate", _certificate, text, root, manifest, needs=[manifest])
    if proof is not None:
        done = (
            "the classes were made and the links cut" if proof["method"]["model"] == ANATOMY else "the ranks were moved"
        )
        audit.say(
            "drawn", f"that {done} at random from the true records is a fact of the run, and that the key is private"
        )
    return audit.outcome(root, raise_if_failed)


def _permuted(table: pa.Table, method: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    law = options.from_dict(RANK_LAWS, method, "certificate")
    problems = [sentence(f"no column {name!r}") for name in columns if name not in table.column_names]
    raise_all(UsageError, problems)
    claims, limits = [], []
    for name in columns:
        ranked = RankedColumn(name, law, "permute", int(numbers(table[name], name).size))
        claims.append({"column": name, "beta": ranked.beta, "sentence": f"{name}: {ranked.sentence}."})
        limits.append(ranked.limit)
        if table[name].null_count:
            limits.append(f"Which records have a missing value is disclosed for: {name}.")
    unchanged = [name for name in table.column_names if name not in columns]
    if unchanged:
        limits.append("Released unchanged, with no guarantee: " + ", ".join(unchanged) + ".")
    limits.append("Records stand in their original order.")
    return {"claims": claims, "details": {"records": table.num_rows}, "not_covered": limits}


def _anatomy(tables: Sequence[pa.Table], method: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    release = describe_tables(*tables)
    if release.smallest_class < method["k"]:
        raise SpecificationError(sentence("a class has fewer records than k", wanted=method["k"]))
    keys = release.keys.column_names[1:]
    if keys != list(columns):
        raise SpecificationError(sentence("the key variables are not those of the table", wanted=", ".join(keys)))
    return {
        "claims": [{"column": keys, "beta": release.beta, "sentence": f"{release.sentence}."}],
        "details": {
            "classes": release.classes,
            "distinct_diversity": release.distinct_diversity,
            "entropy_diversity": release.entropy_diversity,
        },
        "not_covered": [
            "Classes whose other values agree disclose them: see the diversity.",
            "All values are released as they are; hidden is only which of the records of a class has which.",
        ],
    }


def _manifest_of(root: Path, version: str) -> dict[str, Any]:
    found = manifest_of(root, "", version)
    return {"schema": SCHEMA, **{name: found[name] for name in ("package", "files")}}


def _manifest(root: Path) -> dict[str, Any]:
    manifest = load(root, MANIFEST)
    check_schema(manifest, SCHEMA, MANIFEST)
    files = manifest.get("files")
    if not isinstance(files, dict) or CERTIFICATE not in files:
        raise ReleaseError(sentence(f"{CERTIFICATE!r} is not listed", where=MANIFEST))
    return manifest


def _digests(root: Path, manifest: Mapping[str, Any]) -> bool:
    return same_files(manifest, _manifest_of(root, manifest["package"]["version"]))


def _certificate(root: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    stated = load(root, CERTIFICATE)
    check_schema(stated, SCHEMA, CERTIFICATE)
    raise_all(ReleaseError, _form_problems(stated))
    tables = [name for name in manifest["files"] if name != CERTIFICATE]
    suffix = Path(tables[0]).suffix if tables else ""
    if sorted(tables) != sorted(names_of(stated["method"], suffix)):
        raise ReleaseError(sentence("the files are not those of the method", where=MANIFEST, got=", ".join(tables)))
    private = stated["facts"]["key_is_private"]
    found = derive(root, suffix, stated["method"], stated["columns"], private)
    if place := canonical.first_difference(stated, canonical.plain(found)):
        raise ReleaseError(sentence("the certificate does not say what the tables give", where=place))
    return stated


def _form_problems(stated: Mapping[str, Any]) -> Iterable[str]:
    if set(stated) != _FIELDS:
        yield sentence("the certificate lacks a field, or has one too many", where=CERTIFICATE)
        return
    method, facts, columns = stated["method"], stated["facts"], stated["columns"]
    if not isinstance(method, dict) or (method.get("model") == ANATOMY and set(method) != {"model", "k"}):
        yield sentence("the method is not well formed", where=CERTIFICATE)
    elif method.get("model") == ANATOMY and not (type(method["k"]) is int and method["k"] >= 2):
        yield sentence("k is not a whole number of at least 2", where=CERTIFICATE)
    if not isinstance(facts, dict) or set(facts) != {"key_is_private"} or type(facts["key_is_private"]) is not bool:
        yield sentence("a fact is neither true nor false", where=CERTIFICATE)
    if not (isinstance(columns, list) and columns and all(isinstance(c, str) for c in columns)):
        yield sentence("'columns' is not a list of names", where=CERTIFICATE)
    elif len(set(columns)) < len(columns):
        yield sentence("a column is named twice", where=CERTIFICATE)
