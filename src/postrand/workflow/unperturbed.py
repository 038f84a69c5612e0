"""What a plan lets out: unperturbed variables and merged categories, measured on the file before any release."""

from __future__ import annotations

import dataclasses

from postrand.codebook.variable import RELEASED_ROLES, variable_to_dict
from postrand.mechanism import Mechanism
from postrand.plan import Plan
from postrand.risk.findings import Finding, Findings, find_in
from postrand.risk.merged import said_of
from postrand.risk.missing_kinds import missing_kinds
from postrand.risk.weights_told import before_rounding
from postrand.support.column_wordings import no_weighted
from postrand.support.progress import Stage, stage
from postrand.workflow.design_blocks import design_blocks
from postrand.workflow.facts import household_of
from postrand.workflow.known import Known
from postrand.workflow.moves import moves_of
from postrand.workflow.planned import mechanism_of
from postrand.workflow.swallowed import swallowed, unlisted


def findings(plan: Plan, mechanism: Mechanism | None = None, known: Known | None = None) -> Findings:
    """Return what unperturbed variables reveal: the records they single out, and true values of perturbed variables.

    Also the recodes whose merged categories are still too few, categories for missing values that none needs, codes
    for no answer that count as values, and numbers that hardly move in rank, or of which no weighted mean is
    left. One pass over the file, or none where it is ``known``, but for its first records where there are recodes;
    nothing is released. With the plan's own ``mechanism`` it is not designed again. Sentences contain no counts;
    ``figures`` are confidential.

    Raises
    ------
    PostrandError
        If the plan cannot be designed, or the file cannot be read.
    """
    known = Known.of(plan) if known is None else known
    if mechanism is None:
        mechanism = mechanism_of(plan, design_blocks(plan, known), known)
    stage(Stage.SINGLING)
    said = said_of(plan.codebook, known.table)
    moves = [Finding("moves", (), (one.variable,), one.finding) for one in moves_of(known) if one.is_small]
    moves += _unweighted(plan)
    few = tuple(Finding("merged", (), (name,), text) for name, text in said.items())
    taken = swallowed(known.source) if plan.codebook.recodes else {}
    few += tuple(Finding("swallowed", (), (name,), text) for name, text in taken.items())
    kept = [v for v in plan.codebook.variables if v.role in RELEASED_ROLES and v.name not in taken]
    names, text = unlisted(map(variable_to_dict, kept))
    few += (Finding("swallowed", (), names, text),) if names else ()
    sample = None if known.sample is None else known.answers[known.sample]
    twice = missing_kinds(plan.codebook, plan.perturbed, sample)
    few += tuple(Finding("missing", (), (name,), text) for name, text in twice.items())
    if sample is None:
        return Findings((*moves, *few))
    house = household_of(plan)
    decided = [
        *plan.release.as_is,
        *(v.name for v in plan.codebook.with_role("record_key") if plan.release.release_ids),
    ]
    decided += [house] if house and not plan.release.renumbers else []
    original = before_rounding(known.source, sample, plan.codebook)
    found = find_in(sample, plan.codebook, mechanism, as_is=decided, original=original)
    return dataclasses.replace(found, found=(*moves, *found.found, *few))


def _unweighted(plan: Plan) -> list[Finding]:
    """Return what a survey with weights loses by the plan's rank laws."""
    book, ranked = plan.codebook, tuple(name for entry in plan.numerical for name in entry.variables)
    weighted = book.with_role("weight") or (book.survey is not None and book.survey.weights is not None)
    return [Finding("moves", (), ranked, no_weighted(ranked))] if ranked and weighted else []
