"""The tables that a rule on worth is about, with what a plan is worth for each, or why that is not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from postrand.plan.policy import Rule
from postrand.report.table_worth import MAX_CELLS, MAX_CROSSED, MAX_PAIRED, TableWorth, reason_of
from postrand.support.showing import few
from postrand.workflow.comparison import PlanFigures

NAMED = 5
"""The most tables that are named in a sentence."""
NO_ESTIMATE = "they cannot be estimated"
NOT_RELEASED = "not released"


def tables_of(rule: Rule, figures: PlanFigures) -> list[TableWorth]:
    """Return the tables that a rule on worth is about, with what a plan is worth for them or why it is not known."""
    if isinstance(rule.tables, str):
        one_way = figures.one_way if rule.tables in ("one-way", "all") else ()
        return [*one_way, *(figures.pairs if rule.tables in ("two-way", "all") else ())]
    known = {frozenset(one.variables): one for one in (*figures.tables, *figures.two_left)}
    missing = {frozenset(names): _not_computed(names, figures) for names in rule.tables}
    return [(missing | known)[frozenset(names)] for names in rule.tables]


def unknown(chosen: Sequence[TableWorth]) -> Iterator[str]:
    """Yield the tables whose worth is not known by the reason: they count as not met, so also where a rule is met."""
    by_reason: dict[str, list[str]] = {}
    for one in chosen:
        if one.effective_records is None:
            by_reason.setdefault(reason_of(one) or NO_ESTIMATE, []).append(one.name)
    yield from (f"{few(names, NAMED)}: {why}" for why, names in by_reason.items())


def _not_computed(names: Sequence[str], figures: PlanFigures) -> TableWorth:
    """Return the worth of a named table that is not among those of a plan: all records, or why it is not known."""
    perturbed = {name for one in figures.one_way for name in one.variables}
    released = {*perturbed, *figures.unperturbed, *figures.no_categories}
    gone = [name for name in names if name not in released]
    plain = [name for name in names if name in figures.no_categories]
    most = f"more than {MAX_CELLS:,} cells, or not of the first {MAX_PAIRED} perturbed and {MAX_CROSSED} others"
    if not (gone or plain or perturbed.intersection(names)):  # no perturbed variable, so that nothing is lost
        return TableWorth(tuple(names), float(figures.records), figures.records)
    why = f"{few(gone)} {NOT_RELEASED}" if gone else f"no categories of {few(plain)}" if plain else most
    return TableWorth(tuple(names), None, figures.records, f"not known: {why}")
