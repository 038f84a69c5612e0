"""Checks for an auditor with the confidential file, or with the release key too."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from postrand import formats
from postrand.certification.certificate import Certificate, Facts, certify
from postrand.certification.file_claims import tie
from postrand.codebook import Codebook, Variable, coding
from postrand.codebook.not_released import shown_codebook
from postrand.codebook.quantity_codes import is_number
from postrand.columns.audit import check_against
from postrand.columns.source import released, whole_column
from postrand.data.households import renumbering, same_groups
from postrand.engines import LocalEngine
from postrand.engines import engine as engine_named
from postrand.engines.database import Table, open_records
from postrand.engines.resources import Resources
from postrand.engines.summary import Summary
from postrand.engines.unit_records import wants_of
from postrand.engines.unit_values import settled
from postrand.engines.wants import Count
from postrand.errors import DataError, ReleaseError, sentence
from postrand.mechanism import Mechanism
from postrand.recoding.base import key_of
from postrand.release.bundle import Release, records_of
from postrand.release.checks import Phrase
from postrand.release.table import TABLE, open_data
from postrand.support.arrow import python_values
from postrand.support.randomness import ReleaseKey
from postrand.support.showing import few
from postrand.support.signals import scratch_folder


def with_file(
    file: Path | formats.File | Table, mechanism: Mechanism, certificate: Certificate, summary: Summary
) -> Certificate:
    """Certify all claims again; those that need the file are checked on this file, whose records fit the codebook."""
    codebook, engine = mechanism.require_codebook(), LocalEngine()
    source = _confidential(file, codebook, mechanism, certificate.facts)
    wants = [Count((name,)) for name in mechanism.variables] + [Count(rule.variables) for rule in codebook.rules]
    try:
        answers = engine.count_all(source, codebook, wants)
        tables = [answers[want] for want in wants]  # each raises what is wrong with its variables when it is asked for
    except DataError as error:
        what = "this file does not fit the codebook of the release, which was made from another file"
        got = str(error).partition("; wanted")[0]
        raise ReleaseError(sentence(what, where=file.name, got=got, fix="give the file of the run")) from None
    if mechanism.variables:
        records = int(tables[0].counts.sum() + tables[0].omitted)
    else:
        records = sum(batch.num_rows for batch in source.batches(columns=[]))
    if records != summary.records:
        what = "the release and this file differ in the number of records: the release was made from another file"
        raise ReleaseError(sentence(what, where=file.name))
    claims = tie(certificate.claims, mechanism, lambda names: engine.count(source, codebook, names))
    return certify(mechanism, claims, certificate.facts)


def same_columns(
    root: Path,
    manifest: Mapping[str, Any],
    mechanism: Mechanism,
    certificate: Certificate,
    file: Path | formats.File | Table,
) -> bool:
    """Compare the values of each unperturbed column, in any order, with those of the file.

    Numbers of records are left out, and columns that the two files hold as different kinds of values. Of household
    numbers, which are released anew, it is compared which records they put together, where the records are in the order
    of the file; returns whether this was done.
    """
    codebook = mechanism.require_codebook()
    true, data = _both(root, manifest, mechanism, certificate, file)
    treated = {*mechanism.variables, *(column.variable for column in mechanism.numerical)}
    left = [v.name for v in codebook.with_role("key", "sensitive", "other", "weight") if v.name not in treated]
    kinds = [{field.name: _kind(field.type) for field in source.schema} for source in (true, data)]
    names = [name for name in left if kinds[0].get(name) == kinds[1].get(name, "")]
    mine, theirs = (_tallies(source, names) for source in (true, data))
    if other := [name for name in names if mine[name] != theirs[name]]:
        what = "unperturbed columns of the release have other values than in this file: it was made from another file"
        raise ReleaseError(sentence(what, where=file.name, got=few(other), fix="give the file of the run"))
    in_order = not certificate.facts.order_is_shuffled and getattr(true, "ordered", True)
    houses = [v.name for v in codebook.with_role("household") if in_order and v.name in kinds[0]]
    if apart := [n for n in houses if not same_groups(*(whole_column(source, n) for source in (true, data)))]:
        what = "household numbers of the release put other records together than those of this file"
        raise ReleaseError(sentence(what, where=file.name, got=few(apart), fix="give the file of the run"))
    return bool(houses)


def columns_told(households: bool) -> Phrase:
    """Return what is said where unperturbed columns, and the groups of ``households`` or not, are those of the file."""
    return "check.columns_and_households" if households else "check.columns", {}


def _kind(of: pa.DataType) -> str:
    of = coding.value_type(of)
    return "number" if is_number(of) else "text" if coding.is_text(of) else str(of)


def _tallies(source: formats.Source, names: Sequence[str]) -> dict[str, int]:
    """Return for each column a sum of hashes of its values over all records: the same in any order."""
    found = dict.fromkeys(names, 0)
    for batch in source.batches(columns=names) if names else ():
        for name in names:
            told = pc.value_counts(batch.column(name))
            values = told.field("values")
            values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
            for value, times in zip(python_values(values), told.field("counts").to_pylist(), strict=True):
                is_missing = value is None or (isinstance(value, float) and math.isnan(value))
                word = blake2b(b"" if is_missing else key_of(value).encode() + b".", digest_size=16).digest()
                found[name] += times * int.from_bytes(word, "big")
    return {name: total % 2**128 for name, total in found.items()}


def same_values(
    root: Path,
    manifest: Mapping[str, Any],
    mechanism: Mechanism,
    certificate: Certificate,
    file: Path | formats.File | Table,
) -> bool:
    """Compare each numerical column with that of the file, record by record if the order is the same."""
    true, released = _both(root, manifest, mechanism, certificate, file)
    for column in mechanism.numerical:
        mine, theirs = (whole_column(source, column.variable) for source in (true, released))
        check_against(mine, theirs, column, in_order=not certificate.facts.order_is_shuffled)
    return True


def _both(
    root: Path,
    manifest: Mapping[str, Any],
    mechanism: Mechanism,
    certificate: Certificate,
    file: Path | formats.File | Table,
) -> tuple[formats.Source, formats.Source]:
    """Open the confidential records and the released ones."""
    codebook = mechanism.require_codebook()
    data = open_data(root / manifest["data"], shown_codebook(codebook, mechanism.partly))
    return _confidential(file, codebook, mechanism, certificate.facts), data


def _confidential(
    file: Path | formats.File | Table,
    codebook: Codebook,
    mechanism: Mechanism,
    facts: Facts,
    types: Mapping[str, str] | None = None,
) -> formats.Source:
    """Open the confidential records, which can have more columns than the release, as the run read them.

    ``types`` are those of columns that are not released, where the file does not say them.
    """
    known = types or {}
    more = [
        Variable(field.name, "drop", type=known.get(field.name, str(coding.value_type(field.type))))
        for field in open_records(file).schema
        if field.name not in codebook and field.name not in {recode.source for recode in codebook.recodes}
    ]
    book = dataclasses.replace(codebook, variables=(*codebook.variables, *more))
    source = open_records(file, book)
    return settled(source, book, wants_of(mechanism)) if facts.differing_are_settled else source


def redrawn(
    release: Release,
    facts: Facts,
    file: Path | formats.File | Table,
    key: ReleaseKey,
    record_key: str | None,
    resources: Resources,
) -> bool:
    """Draw the records again from file, matrices and key, and compare; raises ReleaseError if they differ.

    Draws depend on the digest of the matrices with their origin: if a release states another origin than in its run,
    all draws differ.
    """
    for number, types in enumerate(_readings(file, release, record_key)):
        with suppress(*([DataError] if number else [])):  # as numbers, where they are none
            if _gives(release, facts, file, key, record_key, resources, types):
                return True
    what = "file, key and matrices (with their stated origin) do not give these records"
    fix = "give the file, key and --record-key of the run; if they are correct, the release was changed"
    raise ReleaseError(sentence(what, where=release.data_path.name, fix=fix))


def _readings(
    file: Path | formats.File | Table, release: Release, record_key: str | None
) -> Iterator[Mapping[str, str]]:
    """Yield the types that columns which only the draws read can have had in the run: a text file has none.

    Numbers and texts are different record keys, and neither the release nor the file says which they were.
    """
    units, source = release.mechanism.units, open_records(file)
    read = {record_key, units.household, units.person} if units else {record_key}
    open_ = sorted(name for name in read if name and name not in release.codebook)
    if not getattr(source, "untyped", False):
        open_ = []
    for found in product(("string", "int64"), repeat=len(open_)):
        yield dict(zip(open_, found, strict=True))


def _gives(
    release: Release,
    facts: Facts,
    file: Path | formats.File | Table,
    key: ReleaseKey,
    record_key: str | None,
    resources: Resources,
    types: Mapping[str, str],
) -> bool:
    """Return whether the records that are drawn from the file, read so, are those of the release."""
    mechanism, name = release.mechanism, release.data_path.name
    engine = engine_named("local", resources=resources)
    source = _confidential(file, release.codebook, mechanism, facts, types)
    content = engine.content(source, mechanism, key, record_key=record_key)
    house = next((v.name for v in release.codebook.with_role("household")), None)
    renumbers = facts.households_are_renumbered and house is not None
    fresh = renumbering(source, house, key, mechanism.digest(), content.tag()) if renumbers and house else None
    with scratch_folder("postrand-", resources.scratch) as folder:
        suffix = release.data_path.suffix or next(release.data_path.iterdir()).suffix
        suffix = ".parquet" if name == TABLE else suffix
        made = folder / f"data{suffix}"
        engine.perturb(
            released(source, mechanism, key, record_key, content=content.tag()),
            mechanism,
            key,
            partial(formats.open_writer, made),
            columns=release.codebook.names,
            record_key=record_key,
            shuffle=facts.order_is_shuffled,
            content=content,
            fresh=fresh,
        )
        return bool(records_of(made, release.codebook, mechanism.partly).equals(release.frame()))
