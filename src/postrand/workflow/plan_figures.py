"""The figures of a plan, from one reading of its file: claims, risk before and after, worth of tables, findings."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from postrand.certification import Certificate, certify
from postrand.certification.plain_words import plain_claims
from postrand.codebook.variable import RELEASED_ROLES
from postrand.mechanism import Mechanism
from postrand.plan import Plan
from postrand.plan.analyses import Model
from postrand.plan.numbering import may_link
from postrand.plan.policy import columns_of
from postrand.report.small_groups import small_groups
from postrand.report.table_worth import (
    EQUAL,
    LEAST_RECORDS,
    Assumed,
    crossed_of,
    left_pairs,
    little_left,
    pairs_of,
    table_worth,
)
from postrand.risk.findings import Findings
from postrand.risk.merged import said_of
from postrand.workflow.column_ways import ways_of
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.comparison_risk import (
    RiskFigure,
    before_of,
    counted_in,
    facts_in,
    not_counted,
    shared_draws,
)
from postrand.workflow.design_blocks import check_sizes, design_blocks
from postrand.workflow.dossier_risk import require_one_share
from postrand.workflow.facts import facts_of
from postrand.workflow.file_goal import of_file, solved
from postrand.workflow.guessed import best_guesses, guessed_in_words, guesses
from postrand.workflow.known import Known
from postrand.workflow.moves import moves_of
from postrand.workflow.neighbouring import neighbours_in
from postrand.workflow.plan_risk import BothSides
from postrand.workflow.plan_settings import of_three, settings_of
from postrand.workflow.planned import claims_of, mechanism_of
from postrand.workflow.risk_left_out import following, in_part, left_out
from postrand.workflow.series import outlook_of
from postrand.workflow.unit_figures import bounds_of, levels_in_words, persons_of, unit_epsilon_of
from postrand.workflow.unperturbed import findings


def figures_of(plan: Plan, known: Known | None = None, *, fraction: float | None = None, name: str = "") -> PlanFigures:
    """Return a plan's claims, risks and worth, from one reading of its file; see :func:`measured`."""
    return measured(plan, known, fraction=fraction, name=name)[0]


def measured(
    plan: Plan,
    known: Known | None = None,
    *,
    fraction: float | None = None,
    name: str = "",
    named: Sequence[Model] = (),
) -> tuple[PlanFigures, Certificate, Findings]:
    """Return a plan's claims, risks and worth, its certificate, and what is found. Nothing is released or written.

    With what is ``known`` of the file (:meth:`Known.of` with ``dossier=True``), it is not read again. ``fraction`` is
    the sampling fraction, where the codebook has no weights. What is ``named`` is tried in simulated releases.

    Raises
    ------
    PostrandError
        If the plan cannot be designed or certified, or its file cannot be read.
    UsageError
        If a fraction is given of a file with weights.
    """
    fraction = plan.share(fraction)
    require_one_share(plan.codebook, fraction)
    check_sizes(plan)
    plan = solved(plan) if known is None else plan
    known = Known.of(plan, dossier=True) if known is None else known
    known.check_units()
    mechanism = mechanism_of(plan, design_blocks(plan, known), known)
    certificate = certified(known, mechanism)
    ledger = outlook_of(plan, mechanism, certificate, name)
    certificate = certificate if ledger is None else dataclasses.replace(certificate, series=ledger.series)
    told = findings(known.plan, mechanism, known)
    found = figures_known(known, mechanism, certificate, told, fraction, name=name)
    if named:
        from postrand.workflow.named_uses import with_named  # estimators, only where something is named

        found = with_named(found, known, mechanism, named)
    return dataclasses.replace(found, ledger=ledger), certificate, told


def certified(known: Known, mechanism: Mechanism) -> Certificate:
    """Return the certificate of a plan's claims, those on the whole file among them; raises if one is not met."""
    plan = known.plan
    claims = claims_of(plan, mechanism, known)
    return of_file(plan, mechanism, certify(mechanism, claims, facts_of(plan)), known)


def figures_known(
    known: Known,
    mechanism: Mechanism,
    certificate: Certificate,
    told: Findings,
    fraction: float | None = None,
    *,
    name: str = "",
) -> PlanFigures:
    """Return the figures of a designed and certified plan from what is known of its file; ``told`` are its findings."""
    risk = BothSides.of(known, mechanism, fraction)
    return computed(known, mechanism, certificate, risk.figures, risk.as_is, name=name, told=told)


def computed(
    known: Known,
    mechanism: Mechanism,
    certificate: Certificate,
    risks: tuple[RiskFigure, ...],
    as_is: Mapping[str, float],
    *,
    name: str = "",
    told: Findings | None = None,
) -> PlanFigures:
    """Return a plan's figures; ``risks`` are measured, ``as_is`` before keys are recoded; ``told`` are findings."""
    plan, names = known.plan, mechanism.variables
    first = known.table(plan.perturbed[:1]) if plan.perturbed else None
    records = 0 if first is None else int(first.total + first.omitted)

    houses = known.household_sizes(records)
    asked = ([(n,) for n in names], pairs_of(names, plan.codebook), crossed_of(names, plan.unperturbed, plan.codebook))
    one_way, two_way, crossed = (table_worth(mechanism, tables, records, EQUAL, houses) for tables in asked)
    keys = tuple(v.name for v in plan.codebook.with_role("key") if v.is_categorical)
    moved, ways, largest = moves_of(known), ways_of(plan, mechanism), _largest_household(known)
    units = unit_epsilon_of(plan, certificate, largest)
    moves = tuple(f"{one.sentence}." for one in moved)
    unit = () if plan.unit is None else (plan.unit.household, plan.unit.person)
    words, person = persons_of(plan)
    held = guesses(mechanism, plan.codebook, lambda name: known.shares((name,)))
    uncounted = tuple(v.name for v in plan.codebook.with_role("key") if not v.is_categorical)
    risks = not_counted(risks, uncounted)
    return PlanFigures(
        name=name or plan.source.name,
        records=records,
        claims=_claims(certificate, mechanism, largest, moves),
        moves=moves,
        unmoved=tuple(f"{one.warning}." for one in moved if one.warning),
        epsilon=certificate.account.total,
        series=certificate.series,
        risks=tuple(dataclasses.replace(one, measure=words(one.measure)) for one in risks),
        person=person,
        words=words,
        one_way=one_way,
        two_way=two_way,
        two_left=left_pairs(names, plan.codebook, records),
        crossed=crossed,
        own=table_worth(mechanism, list(itertools.chain(*asked)), records, Assumed("file", known.shares), houses),
        settings=tuple(settings_of(plan, mechanism)),
        of_three=of_three(mechanism, records),
        unperturbed=tuple(one.name for one in ways if one.way in ("recoded", "as it is")),
        ways=ways,
        levels=levels_in_words(plan, certificate.account.total, units, largest) if names else (),
        not_covered=certificate.not_covered,
        unstated=tuple(one.variable for one in plan.codebook.recodes if not one.provenance),
        little=little_left(mechanism, records, at_hand=() if houses else one_way),
        risk_leaves_out=(*left_out(plan), *(() if told is None else following(told, keys, counted_in(risks)))),
        uncounted=uncounted,
        before_is=before_of(plan),
        keys=keys,
        shared_draws=shared_draws(mechanism, keys),
        as_is={} if uncounted else as_is,
        shown=sum((houses or {}).values()) if plan.split is not None and plan.split.of_members else 0,
        lone_sizes=0 if told is None or told.sizes is None else told.sizes.lone,
        findings=() if told is None else told.inside,
        guessed=tuple(guessed_in_words(held, words("persons"), facts_in(risks))),
        confidential=tuple(v.name for v in plan.codebook.with_role("sensitive")),
        guesses=best_guesses(held, facts_in(risks)),
        perturbed_other=tuple(v.name for v in plan.codebook.with_role("other") if v.name in names),
        swallowed=() if told is None else tuple(one.sentence for one in told.found if one.code == "swallowed"),
        small=small_groups(mechanism, records, known.shares, houses) if records >= LEAST_RECORDS else "",
        dropped=tuple(one.name for one in plan.codebook.with_role("drop")),
        lacking=() if plan.codebook.survey is None else plan.codebook.survey.lacking,
        in_part=() if told is None else in_part(told, keys),
        means={} if told is None else {one.about[0]: one.sentence for one in told.found if one.code == "means"},
        merged=tuple(said_of(plan.codebook, known.table).values()),
        largest_household=largest,
        unit_epsilon=units,
        unit_records={"household": largest, **bounds_of(plan)},
        columns=columns_of(plan.codebook),
        no_categories=tuple(v.name for v in plan.codebook.with_role(*RELEASED_ROLES) if not v.is_categorical),
        may_link=may_link(plan.codebook, unit),
        neighbours=() if told is None else neighbours_in(told),
    )


def _claims(certificate: Certificate, mechanism: Mechanism, largest: int, moves: Sequence[str]) -> tuple[str, ...]:
    """Return the plain claims, and what rank laws do to numerical columns, which have no guesses: internal."""
    file = certificate.to_dict().get("file")
    series = None if certificate.series is None else certificate.series.to_dict()
    plain = plain_claims(certificate.claims, mechanism, file, largest_household=largest, series=series)
    return (*plain, *(f"{column.variable}: {column.in_words}." for column in certificate.numerical), *moves)


def _largest_household(known: Known) -> int:
    """Return the most records of one household, 0 where there are none, or not the whole file was sampled."""
    sample = None if known.sample is None else known.answers[known.sample]
    return sample.largest_household if sample is not None and sample.is_whole else 0
