"""From a plan to its mechanism, the claims to certify, and the facts of its release."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence

from postrand.certification.certificate import Claim, Facts
from postrand.certification.file_claims import tie
from postrand.columns.planned import released_book
from postrand.columns.source import ranked_columns
from postrand.data.households import renumbered_book
from postrand.data.table import ContingencyTable
from postrand.engines import Engine
from postrand.engines import engine as engine_named
from postrand.engines.database import open_records
from postrand.formats import Source
from postrand.mechanism import Mechanism
from postrand.plan import Plan
from postrand.privacy import of_records
from postrand.ranks.column import RankWarning
from postrand.support.randomness import ReleaseKey
from postrand.workflow.design_blocks import DesignedBlock


def mechanism_of(plan: Plan, blocks: Sequence[DesignedBlock], source: Source | None = None) -> Mechanism:
    """Return the mechanism of designed blocks and numerical columns, bound to the codebook of the release.

    Reads the file only for a rank law, which depends on the number of records and on equal values. Warns
    (``RankWarning``) about variables if the release would show most of their values.
    """
    if source is None and plan.numerical:
        source = open_records(plan.source, plan.codebook)
    ranked = () if source is None else ranked_columns(source, plan.codebook, plan.numerical)
    for column in ranked:
        if column.warning:
            warnings.warn(column.warning, RankWarning, stacklevel=3)
    book = released_book(plan.codebook, plan.numerical)
    book = renumbered_book(book) if plan.release.renumbers else book
    return Mechanism([designed.block for designed in blocks], book, ranked)


def claims_of(
    plan: Plan, mechanism: Mechanism, engine: Engine | None = None, source: Source | None = None
) -> tuple[Claim, ...]:
    """Return the plan's claims, those that rest on the file's frequencies tied to it; reads the file only for them.

    Claims on the whole release get the file's number of records.
    """
    engine, codebook = engine or engine_named("local"), plan.codebook

    def count(names: Sequence[str]) -> ContingencyTable:
        return engine.count(open_records(plan.source, codebook) if source is None else source, codebook, names)

    def records() -> int:
        table = count(mechanism.variables[:1])
        return int(table.total + table.omitted)

    claims = (dataclasses.replace(c, privacy=of_records(c.privacy, records)) for c in plan.claims)
    return tie(claims, mechanism, count)


def facts_of(plan: Plan, key: ReleaseKey | None = None) -> Facts:
    """Return the facts of the release, apart from the matrices, for the certificate; without a key, a private one."""
    renumbered = plan.release.renumbers and household_of(plan) is not None
    private = key is None or key.is_private
    return Facts(private, plan.release.shuffle, plan.release.release_ids, renumbered)


def household_of(plan: Plan) -> str | None:
    """Return the variable that shows who lives together, if there is one."""
    return next((v.name for v in plan.codebook.with_role("household")), None)
