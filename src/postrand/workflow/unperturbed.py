"""What a plan lets out: unperturbed variables and merged categories, measured on the file before any release."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyarrow as pa

from postrand.codebook.variable import RELEASED_ROLES, variable_to_dict
from postrand.mechanism import Mechanism
from postrand.plan import Plan, free_texts
from postrand.risk import naming
from postrand.risk.findings import Finding, Findings, find_in
from postrand.risk.merged import said_of
from postrand.risk.missing_kinds import missing_kinds
from postrand.risk.sample import Sampled
from postrand.risk.weights_told import before_recoding, require_weights
from postrand.support.column_wordings import no_weighted
from postrand.support.progress import Stage, stage
from postrand.workflow.design_blocks import design_blocks
from postrand.workflow.facts import household_of
from postrand.workflow.known import Known
from postrand.workflow.moves import moves_of
from postrand.workflow.neighbouring import findings_of
from postrand.workflow.planned import mechanism_of
from postrand.workflow.recoded_means import recoded_means
from postrand.workflow.swallowed import in_quantities, quantities_warning, swallowed, unlisted


def findings(plan: Plan, mechanism: Mechanism | None = None, known: Known | None = None) -> Findings:
    """Return what unperturbed variables reveal: the records they single out, and true values of perturbed variables.

    Also the recodes whose merged categories are still too few, categories for missing values that none needs, codes
    for no answer that count as values, means that recodes change, records that belong together without a number, and
    numbers that hardly move in rank, or of which no weighted mean is left. One pass over the file, or none where it is
    ``known``, but for its first records where there are recodes; nothing is released. With the plan's own ``mechanism``
    it is not designed again. Sentences contain no counts; ``figures`` are confidential.

    Raises
    ------
    PostrandError
        If the plan cannot be designed, the file cannot be read, or a weight is negative or infinite.
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
    means = recoded_means(known.source) if plan.codebook.recodes else {}
    few += tuple(Finding("means", (), (v.name,), means[v.name].sentence) for v in kept if v.name in means)
    names, text = unlisted(map(variable_to_dict, kept))
    few += (Finding("swallowed", (), names, text),) if names else ()
    sample = None if known.sample is None else known.answers[known.sample]
    columns, recodes = _columns(known, sample), plan.codebook.recodes
    codes = in_quantities(columns, map(variable_to_dict, kept), recodes, known.source.schema)
    few += (Finding("swallowed", (), tuple(codes), quantities_warning(codes)),) if codes else ()
    twice = missing_kinds(plan.codebook, plan.perturbed, sample)
    few += tuple(Finding("missing", (), (name,), text) for name, text in twice.items())
    published = _published(plan, sample)
    beside = findings_of(plan, known.source, sample or Sampled(pa.table({}), 0, {}))
    if sample is None:
        return Findings((*published, *beside, *moves, *few))
    require_weights(sample, plan.codebook)
    house = household_of(plan)
    decided = [
        *plan.release.as_is,
        *(v.name for v in plan.codebook.with_role("record_key") if plan.release.release_ids),
    ]
    decided += [house] if house and not plan.release.renumbers else []
    original = before_recoding(known.source, sample, plan.codebook)
    ordered = not plan.release.shuffle
    found = find_in(sample, plan.codebook, mechanism, as_is=decided, original=original, ordered=ordered)
    exact = [one for one in found.found if one.is_exact]  # told first
    naming = _identifying(plan, sample, found, decided)
    rest = (one for one in found.found if not one.is_exact)
    keys = _keys_as_they_are(plan, sample, found, decided)
    return dataclasses.replace(found, found=(*published, *exact, *naming, *keys, *beside, *moves, *rest, *few))


def _keys_as_they_are(plan: Plan, sample: Sampled, found: Findings, decided: Sequence[str]) -> list[Finding]:
    """Return what is found on keys without categories that leave unperturbed: no figure of risk has them.

    What singles out records alone needs a decision for that already, and what is the same in all of them needs none.
    """
    told = {one.variables[0] for one in found.found if one.code == "singles-out" and len(one.variables) == 1}
    moved = {name for entry in plan.numerical for name in entry.variables}
    keys = [v.name for v in plan.codebook.with_role("key") if not v.is_categorical and v.name not in told | moved]
    varying = [name for name in keys if name in sample.alone and sample.codes(name)[1] > 1]
    return [naming.key_as_it_is(name, decided) for name in varying]


def _identifying(plan: Plan, sample: Sampled, found: Findings, decided: Sequence[str]) -> list[Finding]:
    """Return what is found on unperturbed columns that name or number persons, or hold free text.

    Weights do not, and numbers have decisions of their own; what singles out records needs one for that already.
    """
    told = {one.variables[0] for one in found.found if one.code == "singles-out" and len(one.variables) == 1}
    left = [v for v in plan.codebook.variables if v.role not in ("weight", "household", "record_key")]
    held = [v for v in left if v.name in sample.alone and v.name not in told]
    what = {v.name: free_texts.identifying(sample.table.column(v.name), variable_to_dict(v)) for v in held}
    return [naming.named(name, text, decided) for name, text in what.items() if text]


def _published(plan: Plan, sample: Sampled | None) -> list[Finding]:
    """Return the findings on perturbed variables of free text, whose values a release lists."""
    names = []
    for variable in (plan.codebook[name] for name in plan.perturbed):
        column = None if sample is None else sample.table.column(variable.name)
        if free_texts.perturbed_texts(column, variable_to_dict(variable)):
            names.append(variable.name)
    return naming.published(names, plan.release.listed)


def _columns(known: Known, sample: Sampled | None) -> dict[str, pa.Array | pa.ChunkedArray]:
    """Return the columns that are held: of a sample of the records, and whole ones."""
    tables = [table for table in (known.columns and known.answers[known.columns], sample and sample.table) if table]
    return {name: table.column(name) for table in tables for name in table.column_names}


def _unweighted(plan: Plan) -> list[Finding]:
    """Return what a survey with weights loses by the plan's rank laws."""
    book, ranked = plan.codebook, tuple(name for entry in plan.numerical for name in entry.variables)
    weighted = book.with_role("weight") or (book.survey is not None and book.survey.weights is not None)
    return [Finding("moves", (), ranked, no_weighted(ranked))] if ranked and weighted else []
