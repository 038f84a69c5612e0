"""From a plan to its mechanism and the claims to certify."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from postrand.certification.certificate import Claim
from postrand.certification.file_claims import tie
from postrand.columns.planned import released_book
from postrand.columns.source import ranked_columns
from postrand.data.households import renumbered_book
from postrand.data.table import ContingencyTable
from postrand.mechanism import Block, Mechanism, Split
from postrand.plan import Plan
from postrand.privacy import of_records
from postrand.ranks.column import RankWarning
from postrand.support.warned import warn
from postrand.workflow.design_blocks import DesignedBlock
from postrand.workflow.design_split import DesignedSplit, design_split
from postrand.workflow.known import Known
from postrand.workflow.unit_budget import require_unit_level


def mechanism_of(
    plan: Plan, blocks: Sequence[DesignedBlock], known: Known | None = None, split: DesignedSplit | None = None
) -> Mechanism:
    """Return the mechanism of designed blocks, split and numerical columns, bound to the codebook of the release.

    A split that is not given is designed: no variable of the plan's split is ever left unperturbed.

    Only a rank law, which depends on the number of records and on equal values, needs what is known of the file; it is
    read where that is not given. Warns (``RankWarning``) about variables if the release would show most of their
    values.

    Raises
    ------
    PrivacyError
        If the plan asks for a level of a household or person, and the blocks spend more.
    """
    if known is None and plan.numerical:
        known = Known.of(plan)
    ranked = () if known is None else ranked_columns(known.held, plan.codebook, plan.numerical)
    for column in ranked:
        if column.warning:
            warn(column.warning, RankWarning, stacklevel=3)
    book = released_book(plan.codebook, plan.numerical)
    book = renumbered_book(book) if plan.release.renumbers else book
    split = design_split(plan, known) if split is None else split
    law, made = None if split is None else split.split, [designed.block for designed in blocks]
    if plan.chosen_with == "file":
        law, made = None if law is None else _looked(law), [_confidential(block) for block in made]
    mechanism = Mechanism(made, book, ranked, law, None if plan.unit is None else plan.unit.units)
    require_unit_level(plan, mechanism)
    return mechanism


def _confidential(block: Block) -> Block:
    """Return a block that was chosen with the file; one with a noisy prior keeps it, and says it of its ε."""
    if block.provenance == "dp":
        return dataclasses.replace(block, budget="confidential")
    return dataclasses.replace(block, provenance="confidential")


def _looked(split: Split) -> Split:
    """Return a split that was chosen with the file."""
    return Split(tuple(dataclasses.replace(s, block=_confidential(s.block)) for s in split.subsets))


def claims_of(plan: Plan, mechanism: Mechanism, known: Known | None = None) -> tuple[Claim, ...]:
    """Return the plan's claims, those that rest on the file's frequencies tied to it; reads the file only for them.

    Claims on the whole release get the file's number of records.
    """

    def count(names: Sequence[str]) -> ContingencyTable:
        return (known or Known.tables(plan)).table(names)

    def records() -> int:
        table = count(plan.perturbed[:1])
        return int(table.total + table.omitted)

    claims = (dataclasses.replace(c, privacy=of_records(c.privacy, records)) for c in plan.claims)
    return tie(claims, mechanism, count)
