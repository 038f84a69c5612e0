"""What more ε would buy: the worth of the same tables at each level, or nothing where they are not the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from postrand.report.table_worth import EQUAL, TableWorth, harmonic, shown
from postrand.support.worth_basis import BASES, HARMONIC
from postrand.workflow.advice_candidates import OF_RULES
from postrand.workflow.advice_choice import Trial

Names = tuple[str, ...]


def more_worth(first: Trial, higher: Mapping[float, Trial], ruled: Iterable[Names]) -> str:
    """Return in words what tables would be worth at higher levels of the first plan's way.

    Of a split for the tables of rules, these are the ``ruled`` ones. Tables without an estimate are left out; "" where
    other ones have an estimate at a higher level, so that the means would not be of the same tables.
    """
    is_ruled, wanted = first.candidate.way.startswith(OF_RULES), {frozenset(names) for names in ruled}
    told: dict[float, float] = {}
    known: set[frozenset[frozenset[str]]] = set()  # split designs order the variables of a table in other ways
    for level, trial in {first.epsilon: first, **higher}.items():
        worths = _tables(trial, wanted if is_ruled else None)
        held = [one for one in worths if one.effective_records is not None]
        known.add(frozenset(frozenset(one.variables) for one in held))
        told[level] = harmonic(held)
    if len(known) > 1 or not (all(known) and higher):
        return ""
    asked, (alike,) = _tables(first, wanted if is_ruled else None), known
    tables = "tables of the rules" if is_ruled else f"tables of {'two variables' if first.two_way else 'one variable'}"
    if len(alike) < len(asked):
        tables = f"the {len(alike)} of {len(asked)} {tables} that have an estimate"
    now = f"are worth {shown(told[first.epsilon])}, and " * is_ruled
    would = ", ".join(f"{shown(told[level])} at epsilon = {level:g}" for level in higher)
    return f"{tables} {now}would be worth {would} ({HARMONIC}, {BASES[EQUAL.basis]})"


def _tables(trial: Trial, wanted: set[frozenset[str]] | None) -> list[TableWorth]:
    """Return the wanted tables of one and two variables; without any, those by which ways are compared."""
    if wanted is None:
        return trial.compared(trial.two_way or trial.one_way)
    return [one for one in (*trial.one_way, *trial.two_way) if frozenset(one.variables) in wanted]
