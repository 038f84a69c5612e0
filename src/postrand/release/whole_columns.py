"""Folders of whole-column protection: what their certificates say, derived from the released tables alone."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postrand import __version__, formats, report
from postrand.codebook import Codebook, Variable, coding
from postrand.codebook.clear_columns import carried
from postrand.columns.anatomy import CLASS_COLUMN, Anatomy, anatomise, describe_tables
from postrand.columns.audit import check_against
from postrand.columns.source import as_numbers, check_released, numbers
from postrand.engines.base import released_schema
from postrand.errors import ReleaseError, SpecificationError, UncheckedError, UsageError, raise_all, sentence
from postrand.formats.csv import writes_formulas
from postrand.ranks.column import FORMS, Form, RankedColumn
from postrand.ranks.laws import RANK_LAWS, RankLaw
from postrand.ranks.values import released_level
from postrand.release import canonical_json, earlier
from postrand.release.bundle import CERTIFICATE, MANIFEST, README, REPORT, library_of, manifest_of
from postrand.release.checks import (
    Audit,
    Verification,
    as_manifest,
    check_rendering,
    check_schema,
    check_writer,
    load,
    number_of,
    plain_files,
    published,
    same_files,
    same_rendering,
    settled,
)
from postrand.release.signature import attempt_signature
from postrand.support import options, wordings

_KIND = "postrand/columns/"
SCHEMAS: tuple[str, ...] = (
    f"{_KIND}1",
    f"{_KIND}2",
    f"{_KIND}3",
)
"""Every schema of such a folder that this version reads; it writes the last one. The second added levels of values and
rates of links, the third has codes in place of sentences."""
ANATOMY = "anatomy"
_FIELDS = {"schema", "method", "columns", "claims", "details", "not_covered", "facts"}


def is_columns(root: Path) -> bool:
    """Return whether a folder says that it is of this kind."""
    try:
        return str(load(root, MANIFEST).get("schema")).startswith(_KIND)
    except ReleaseError:
        return False


def read_table(path: Path | formats.File, codebook: Codebook | None = None) -> pa.Table:
    """Return a whole file as one table of unified dictionaries, its fields with the labels that the file has."""
    return table_of(formats.read(path, codebook))


def table_of(source: formats.Source) -> pa.Table:
    """Return the records of a source as :func:`read_table` does those of a file; no lists or records."""
    table = pa.Table.from_batches(list(source.batches())).unify_dictionaries().combine_chunks()
    fields = [field.with_metadata(source.schema.field(field.name).metadata) for field in table.schema]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields))


def numbered(source: formats.Source) -> pa.Table:
    """Return the table of a source; numbers of a text file with other signs have a decimal point."""
    table, settings = table_of(source), getattr(source, "settings", formats.ReadSettings())
    if (settings.decimal or ".") == "." and not settings.thousands:
        return table
    read = as_numbers(table, source)
    for place, name in enumerate(table.column_names):
        if read.schema.field(name).type != table.schema.field(name).type:
            table = table.set_column(place, name, read.column(name).cast(pa.string()))
    return table


def released(table: pa.Table) -> pa.Table:
    """Return a table as a release contains it: only values and their labels; see :func:`carried`."""
    arrays = []
    for name in table.column_names:
        column = table[name].combine_chunks()
        held = Variable(name, "other", type=str(coding.value_type(column.type)), missing="keep")
        arrays.append(carried(column, held))
    schema = released_schema(table, table.column_names)
    fields = [field.with_type(array.type) for field, array in zip(schema, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def written(table: pa.Table, suffix: str, method: Mapping[str, Any], columns: Sequence[str]) -> pa.Table:
    """Return a table as the files of a folder have it: in a text file, all but the method's own numbers are texts.

    Read again, they are texts, and the bytes are compared with those of what was read.
    """
    table, own = released(table), _numbers_of(method, columns)
    if not writes_formulas(suffix):
        return table
    fields = [f if f.name in own or coding.is_text(f.type) else f.with_type(pa.string()) for f in table.schema]
    return table.cast(pa.schema(fields))


def write_table(table: pa.Table, writer: formats.Writer) -> None:
    """Write a table in batches."""
    for batch in table.to_batches(max_chunksize=formats.BATCH_ROWS):
        writer.write(batch)


def names_of(method: Mapping[str, Any], suffix: str) -> tuple[str, ...]:
    """Return the data files of a folder."""
    return (f"keys{suffix}", f"others{suffix}") if method["model"] == ANATOMY else (f"data{suffix}",)


def law_method(law: RankLaw, form: Form) -> dict[str, Any]:
    """Return a rank law and its use, as the certificate names them."""
    return {**options.to_dict(law), "form": form}


def derive(
    root: Path,
    suffix: str,
    method: Mapping[str, Any],
    columns: Sequence[str],
    facts: Mapping[str, bool],
    *,
    of_values: bool = True,
) -> dict[str, Any]:
    """Return the certificate of the tables in a folder: every level recomputed from their values.

    ``facts`` are what the curator says: ``key_is_private`` where something is drawn for the values, and
    ``order_is_shuffled`` where the records are in a random order. Where ``of_values`` is false, figures are those of
    the law on ranks alone, as the first schema had them.

    Raises
    ------
    PostrandError
        If the tables cannot be what the method gives: too few records, classes that differ, no such column.
    """
    paths = [root / name for name in names_of(method, suffix)]
    found = (
        _anatomy(paths, method, columns)
        if method["model"] == ANATOMY
        else _ranked(paths[0], method, columns, of_values)
    )
    limits = [{"code": "not_private"}] * (not facts.get("key_is_private", True))
    later = [{"code": "original_order"}] * (method["model"] != ANATOMY and not facts.get("order_is_shuffled"))
    found["not_covered"] = [*limits, *found["not_covered"], *later]
    return {"schema": SCHEMAS[-1], "method": dict(method), "columns": list(columns), **found, "facts": {**facts}}


def write_proofs(
    root: Path, suffix: str, method: Mapping[str, Any], columns: Sequence[str], facts: Mapping[str, bool]
) -> dict[str, Any]:
    """Write certificate, report and manifest beside the tables; return the certificate."""
    certificate = derive(root, suffix, method, columns, facts)
    library = library_of(root, names_of(method, suffix)[0])
    (root / CERTIFICATE).write_bytes(canonical_json.dump(certificate))
    for name, content in pages(certificate, suffix).items():
        (root / name).write_bytes(content)
    written = manifest_of(root, "", library)
    names = ("package", "rendering_sha256", "written_with", "files")
    (root / MANIFEST).write_bytes(
        canonical_json.dump({"schema": SCHEMAS[-1], **{name: written[name] for name in names}})
    )
    return certificate


def page(certificate: Mapping[str, Any], suffix: str) -> bytes:
    """Return the report of a certificate."""
    return report.columns_report(wordings.in_words(certificate), names_of(certificate["method"], suffix)).encode()


def pages(certificate: Mapping[str, Any], suffix: str) -> dict[str, bytes]:
    """Return the report and ``README.txt`` of a certificate, by name."""
    text = report.columns_readme(certificate, names_of(certificate["method"], suffix))
    return {REPORT: page(certificate, suffix), README: text.encode()}


def rebuilt_page(root: Path) -> tuple[bytes, dict[str, Any]]:
    """Return the report of a folder, made again from its tables, and the folder's manifest; raises ReleaseError."""
    plain_files(root)
    manifest = _manifest(root)
    return page(_certificate(root, manifest)[1], _suffix(manifest)), manifest


def verify_columns(
    root: Path,
    manifest_sha256: str | None,
    file: str | Path | formats.File | None,
    signer: bytes | None,
    raise_if_failed: bool,
) -> Verification:
    """Recompute digests and every claim of a folder; see :func:`postrand.release.verify`."""
    audit = Audit()
    names = audit.attempt("files", plain_files, "check.files", root)
    manifest = audit.attempt("manifest", _manifest, "check.manifest", root, needs=[names])
    if manifest_sha256 is not None:
        audit.attempt("published", published, "check.published", root, manifest_sha256)
    audit.attempt("digests", _digests, "check.digests", root, manifest, needs=[manifest])
    attempt_signature(audit, root, signer, manifest)
    proofs = audit.attempt("certificate", _certificate, "check.levels", root, manifest, needs=[manifest])
    proof, today = proofs or (None, None)
    audit.attempt("bytes", _bytes, "check.tables_bytes", root, manifest, proof, needs=[proof])
    rendered = audit.attempt("derived", _derived, "check.page", root, manifest, today, needs=[proof])
    if file is not None:
        place = file if isinstance(file, formats.File) else Path(file)
        audit.attempt("file", _with_file, "check.method", root, manifest, proof, place, needs=[proof])
    if proof is not None and manifest is not None:
        if code := _said(proof["method"], file is not None):
            audit.say("drawn", code)
        if check_schema(manifest, SCHEMAS, MANIFEST) <= earlier.WITH_SENTENCES:
            audit.say("earlier_words", "said.earlier_words")
            if earlier.is_of_law_alone(proof):
                audit.say("earlier_levels", "said.earlier_levels")
        if rendered:
            audit.say("rendered", "said.rendered", version=manifest["package"]["version"], files=list(rendered))
    return audit.outcome(root, raise_if_failed)


def _said(method: Mapping[str, Any], with_file: bool) -> str:
    """Return the code of what nobody can recompute from the folder (or from the file, if it is given)."""
    if method.get("form") == "average":
        return "" if with_file else "said.averages"
    return "said.cut_links" if method["model"] == ANATOMY else "said.moved_ranks"


def _law(method: Mapping[str, Any]) -> RankLaw:
    law: RankLaw = options.from_dict(RANK_LAWS, {n: v for n, v in method.items() if n != "form"}, "certificate")
    return law


def _ranked(path: Path, method: Mapping[str, Any], columns: Sequence[str], of_values: bool) -> dict[str, Any]:
    law, table = _law(method), read_table(path)
    raise_all(UsageError, [sentence(f"no column {name!r}") for name in columns if name not in table.column_names])
    held = {name: numbers(table[name], name) for name in columns}
    form = method["form"]
    ranked = [RankedColumn(name, law, form, held[name].size) for name in columns]
    ranked = [dataclasses.replace(c, level=released_level(held[c.variable], law, form)) for c in ranked]
    check_released(formats.read(path), ranked)
    ranked = ranked if of_values else [dataclasses.replace(column, level=None) for column in ranked]
    limits: list[dict[str, Any]] = []
    for column in ranked:
        limits.append(column.limit)
        if table[column.variable].null_count:
            limits.append({"code": "missing_shown", "variables": [column.variable]})
    limits.append({"code": "ranks_only", "variables": list(columns)})
    unchanged = [name for name in table.column_names if name not in columns]
    if unchanged:
        limits.append({"code": "unchanged", "variables": unchanged})
    claims = [
        {
            "column": column.variable,
            "values": column.records,
            "beta": column.beta,
            "bits": column.bits,
            "most_bits": math.log2(column.records),
            **{name: value for name, value in column.claim().items() if name in ("level", "shared")},
        }
        for column in ranked
    ]
    return {"claims": claims, "details": {"records": table.num_rows}, "not_covered": limits}


def _learnt(release: Anatomy) -> Iterable[dict[str, Any]]:
    """Yield what the classes reveal about each other."""
    yield {"code": "links_alone"}
    for name, (plain, learnt) in release.link_rates.items():
        if learnt > plain:
            yield {"code": "link_rate", "variable": name, "plain": plain, "learnt": learnt}


def _anatomy(paths: Sequence[Path], method: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    release = describe_tables(*map(read_table, paths))
    if release.smallest_class < method["k"]:
        raise SpecificationError(sentence("a class has fewer records than k", wanted=method["k"]))
    keys = release.keys.column_names[1:]
    if keys != list(columns):
        raise SpecificationError(sentence("the key variables are not those of the table", wanted=", ".join(keys)))
    bits = {name: getattr(release, name) for name in ("beta", "bits", "most_bits")}
    return {
        "claims": [{"column": keys, **bits}],
        "details": {
            "records": release.keys.num_rows,
            "classes": release.classes,
            "smallest_class": release.smallest_class,
            "distinct_diversity": release.distinct_diversity,
            "entropy_diversity": release.entropy_diversity,
            "link_rates": {name: list(rates) for name, rates in release.link_rates.items()},
        },
        "not_covered": [
            *_learnt(release),
            {"code": "agreeing_classes"},
            {"code": "links_only"},
            {"code": "as_they_are", "variables": release.others.column_names[1:]},
            {"code": "linked_records"},
            {"code": "classes_only"},
        ],
    }


def _manifest(root: Path) -> dict[str, Any]:
    manifest = load(root, MANIFEST)
    number = check_schema(manifest, SCHEMAS, MANIFEST)
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise ReleaseError(sentence("'files' is missing", where=MANIFEST))
    libraries = {formats.format_of(name).library for name in files if name not in (CERTIFICATE, REPORT, README)}
    check_writer(manifest, libraries)
    check_rendering(manifest, number > earlier.WITH_SENTENCES)
    absent = [name for name in (CERTIFICATE, REPORT) if name not in files]
    raise_all(ReleaseError, [sentence(f"{name!r} is not listed", where=MANIFEST) for name in absent])
    return manifest


def _digests(root: Path, manifest: Mapping[str, Any]) -> None:
    same_files(manifest, as_manifest(root, manifest))


def _certificate(root: Path, manifest: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the certificate states, and the one that this version derives from the tables."""
    stated = load(root, CERTIFICATE)
    number = check_schema(stated, (manifest["schema"],), CERTIFICATE)
    raise_all(ReleaseError, _form_problems(stated))
    tables, suffix = _tables(manifest), _suffix(manifest)
    if sorted(tables) != sorted(names_of(stated["method"], suffix)):
        raise ReleaseError(sentence("the files are not those of the method", where=MANIFEST, got=", ".join(tables)))
    what = (root, suffix, stated["method"], stated["columns"], stated["facts"])
    found = derive(*what)
    given = derive(*what, of_values=False) if earlier.is_of_law_alone(stated) else found
    given = earlier.columns_as_written(canonical_json.plain(given), number, stated)
    if place := canonical_json.first_difference(earlier.stated(stated, number), given):
        raise ReleaseError(sentence("the certificate does not agree with the tables", where=place))
    return stated, found


def _tables(manifest: Mapping[str, Any]) -> list[str]:
    return [name for name in manifest["files"] if name not in (CERTIFICATE, REPORT, README)]


def _suffix(manifest: Mapping[str, Any]) -> str:
    tables = _tables(manifest)
    return Path(tables[0]).suffix if tables else ""


def _derived(root: Path, manifest: Mapping[str, Any], certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """Compare the pages with those of the certificate; return the names of what another version worded.

    The first folders of this schema, and all of earlier ones, have no ``README.txt``.
    """
    wanted = {n: text for n, text in pages(certificate, _suffix(manifest)).items() if n in manifest["files"]}
    wrong = tuple(name for name, content in wanted.items() if (root / name).read_bytes() != content)
    if not wrong:
        return ()
    what = "this page does not follow from the certificate"
    raise_all(ReleaseError, [sentence(what, where=name) for name in wrong if same_rendering(manifest)])
    version = manifest["package"]["version"]
    if number_of(version) > number_of(__version__):
        fix, what = (
            f"verify it with postrand {version}, which the manifest names as its writer",
            "a later version wrote this page",
        )
        raise UncheckedError(sentence(what, where=", ".join(wrong), got=f"postrand {__version__}", fix=fix))
    return wrong


def _bytes(root: Path, manifest: Mapping[str, Any], certificate: Mapping[str, Any]) -> None:
    names = names_of(certificate["method"], _suffix(manifest))

    def compare() -> None:
        for path in (root / name for name in names):
            table = released(read_table(path))
            own = _numbers_of(certificate["method"], certificate["columns"])
            table = table.cast(pa.schema([f.with_type(own.get(f.name, f.type)) for f in table.schema]))
            with formats.open_comparison(path, table.schema) as writer:
                write_table(table, writer)

    settled(compare, library_of(root, names[0]), manifest["written_with"])


def _numbers_of(method: Mapping[str, Any], columns: Sequence[str]) -> dict[str, pa.DataType]:
    """Return the types of the method's own numbers, by column, which are numbers also if the format stores text."""
    averaged = columns if method.get("form") == "average" else []
    classes = {CLASS_COLUMN: pa.int64()} if method["model"] == ANATOMY else {}
    return {**classes, **dict.fromkeys(averaged, pa.float64())}


def _with_file(
    root: Path, manifest: Mapping[str, Any], certificate: Mapping[str, Any], file: Path | formats.File
) -> bool:
    """Compare the tables with the confidential file: each column, or the classes and what is in them."""
    method, columns = certificate["method"], certificate["columns"]
    place = file if isinstance(file, formats.File) else formats.place_of(file)
    name = formats.path_of(place).name
    true, tables = (
        numbered(formats.read(place)),
        [read_table(root / name) for name in names_of(method, _suffix(manifest))],
    )
    if method["model"] == ANATOMY:
        released_columns = {*tables[0].column_names, *tables[1].column_names}
        made = anatomise(true.select([n for n in true.column_names if n in released_columns]), columns, method["k"])
        if not all(_sorted(a).equals(_sorted(b)) for a, b in zip((made.keys, made.others), tables, strict=True)):
            raise ReleaseError(sentence("the tables are not those of the classes of this file", where=name))
        return True
    table = tables[0]
    kept = [name for name in table.column_names if name not in columns]
    same_order = [name for name in true.column_names if name in table.column_names]  # others may have been dropped
    pair = (true, table)
    own, there = (_texts(one.select(kept)) for one in pair)
    if same_order != table.column_names or not _alike(own, there):
        raise ReleaseError(sentence("columns or unchanged values differ from those of this file", where=name))
    for claim in certificate["claims"]:
        ranked = RankedColumn(claim["column"], _law(method), method["form"], claim["values"])
        held = [one[ranked.variable] for one in pair]
        if not own.equals(there) if kept else certificate["facts"].get("order_is_shuffled"):
            held = [_matched(column, texts, ranked.variable) for column, texts in zip(held, (own, there), strict=True)]
        check_against(held[0], held[1], ranked, in_order=True)
    return True


def _alike(own: pa.Table, there: pa.Table) -> bool:
    """Whether two tables have the same records, in the same order or in any."""
    by = [(name, "ascending") for name in own.column_names]
    return own.equals(there) or bool(by and own.sort_by(by).equals(there.sort_by(by)))


def _matched(column: pa.ChunkedArray, texts: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column in the order of the unchanged values of its records, and of its own where these are equal.

    If the records with equal unchanged values can have exchanged their values within runs at all, those in the order
    of their values have.
    """
    values = np.full(len(column), np.nan)
    values[np.flatnonzero(pc.is_valid(column).to_numpy())] = numbers(column, name)
    keys = pa.table(
        [*texts.columns, pa.array(values, from_pandas=True)], [str(j) for j in range(len(texts.columns) + 1)]
    )
    order = pc.sort_indices(keys, [(key, "ascending") for key in keys.column_names])
    return column.take(order)


def _texts(table: pa.Table) -> pa.Table:
    """Return released values as text, so that the type of a column does not count."""
    table = released(table)
    return pa.table({name: table[name].cast(pa.string()) for name in table.column_names})


def _sorted(table: pa.Table) -> pa.Table:
    return _texts(table).sort_by([(name, "ascending") for name in table.column_names])


def _form_problems(stated: Mapping[str, Any]) -> Iterable[str]:
    if set(stated) != _FIELDS:
        yield sentence("the certificate has a missing or unknown field", where=CERTIFICATE)
        return
    method, facts, columns = stated["method"], stated["facts"], stated["columns"]
    anatomy = isinstance(method, dict) and method.get("model") == ANATOMY
    if not isinstance(method, dict) or (set(method) != {"model", "k"} if anatomy else method.get("form") not in FORMS):
        yield sentence("the method is malformed", where=CERTIFICATE)
        return
    if anatomy and not (type(method["k"]) is int and method["k"] >= 2):
        yield sentence("k is not a whole number of at least 2", where=CERTIFICATE)
    wanted = set() if method.get("form") == "average" else {"key_is_private"}
    may = set() if anatomy else {"order_is_shuffled"}
    known = isinstance(facts, dict) and wanted <= set(facts) <= wanted | may
    if not known or not all(type(fact) is bool for fact in facts.values()):
        yield sentence("a fact is not true or false, or does not belong to the method", where=CERTIFICATE)
    if not (isinstance(columns, list) and columns and all(isinstance(c, str) for c in columns)):
        yield sentence("'columns' is not a list of names", where=CERTIFICATE)
    elif len(set(columns)) < len(columns):
        yield sentence("a column is named twice", where=CERTIFICATE)
