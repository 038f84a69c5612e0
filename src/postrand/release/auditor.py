"""What an auditor checks who has the confidential file, or the release key too."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from postrand import formats
from postrand.certification.certificate import Certificate, Facts, certify
from postrand.certification.file_claims import tie
from postrand.codebook import Codebook, Variable, coding
from postrand.columns.audit import check_against
from postrand.columns.source import released, whole_column
from postrand.data.households import renumbering
from postrand.engines import LocalEngine
from postrand.engines import engine as engine_named
from postrand.engines.database import Table, open_records
from postrand.engines.resources import Resources
from postrand.engines.summary import Summary
from postrand.errors import ReleaseError, sentence
from postrand.mechanism import Mechanism
from postrand.release.bundle import Release, records_of
from postrand.release.table import TABLE, open_data
from postrand.support.randomness import ReleaseKey


def with_file(file: Path | Table, mechanism: Mechanism, certificate: Certificate, summary: Summary) -> Certificate:
    """Certify all claims anew, those that need the file on this file."""
    codebook, engine = mechanism.require_codebook(), LocalEngine()
    source = _confidential(file, codebook)
    records = sum(batch.num_rows for batch in source.batches(columns=mechanism.variables[:1]))
    if records != summary.records:
        what = "the release has not as many records as this file: it was made from another"
        raise ReleaseError(sentence(what, where=file.name))
    claims = tie(certificate.claims, mechanism, lambda names: engine.count(source, codebook, names))
    return certify(mechanism, claims, certificate.facts)


def same_values(
    root: Path, manifest: Mapping[str, Any], mechanism: Mechanism, certificate: Certificate, file: Path | Table
) -> bool:
    """Compare each numerical column with that of the file, record by record where the order is the file's."""
    codebook = mechanism.require_codebook()
    true, released = _confidential(file, codebook), open_data(root / manifest["data"], codebook)
    for column in mechanism.numerical:
        mine, theirs = (whole_column(source, column.variable) for source in (true, released))
        check_against(mine, theirs, column, in_order=not certificate.facts.order_is_shuffled)
    return True


def _confidential(file: Path | Table, codebook: Codebook) -> formats.Source:
    """Open the confidential records, which may hold further columns than the release."""
    more = [
        Variable(field.name, "drop", type=str(coding.value_type(field.type)))
        for field in open_records(file).schema
        if field.name not in codebook
    ]
    return open_records(file, dataclasses.replace(codebook, variables=(*codebook.variables, *more)))


def redrawn(
    release: Release, facts: Facts, file: Path | Table, key: ReleaseKey, record_key: str | None, resources: Resources
) -> bool:
    """Draw the records anew from file, law and key, and compare; raises ReleaseError where they are others.

    Draws follow the digest of the law with its origin: of a release whose matrices are said to come from elsewhere than
    when it was made, each draw is another one.
    """
    mechanism, name = release.mechanism, release.data_path.name
    engine = engine_named("local", resources=resources)
    source = _confidential(file, release.codebook)
    content = engine.content(source, mechanism, key, record_key=record_key)
    house = next((v.name for v in release.codebook.with_role("household")), None)
    renumbers = facts.households_are_renumbered and house is not None
    fresh = renumbering(source, house, key, mechanism.digest(), content.tag()) if renumbers and house else None
    with TemporaryDirectory(prefix="postrand-", dir=resources.scratch) as folder:
        suffix = release.data_path.suffix or next(release.data_path.iterdir()).suffix
        suffix = ".parquet" if name == TABLE else suffix
        made = Path(folder) / f"data{suffix}"
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
        if not records_of(made, release.codebook).equals(release.frame()):
            what = "the key does not draw these records from this file, by this law with this origin"
            fix = "give the file, key and --record-key of the run; if they are the right ones, the release is not"
            raise ReleaseError(sentence(what, where=name, fix=fix))
    return True
