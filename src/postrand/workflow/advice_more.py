"""What more ε would buy: the worth of the same tables at each level, or nothing where they are not the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from postrand.report.table_worth import EQUAL, TableWorth, harmonic, shown
from postrand.support.worth_basis import BASES, HARMONIC
from postrand.workflow.advice_candidates import OF_NAMED, OF_RULES
from postrand.workflow.advice_choice import Trial

Names = tuple[str, ...]
_LISTED = {OF_RULES: "tables of the rules", OF_NAMED: "named tables of two variables"}
"""What is said of the tables for which a split of a way is designed."""


def more_worth(first: Trial, higher: Mapping[float, Trial], ruled: Iterable[Names], named: Iterable[Names] = ()) -> str:
    """Return in words what tables would be worth at higher levels of the first plan's way.

    Of a split for the tables of rules, these are the ``ruled`` ones, and of one for what is ``named`` these. Tables
    without an estimate are left out; "" where other ones have an estimate at a higher level: the means would not be of
    the same tables.
    """
    way = first.candidate.way
    listed = next((what for what in _LISTED if way.startswith(what)), "")
    wanted = {frozenset(names) for names in (named if listed == OF_NAMED else ruled)}
    told: dict[float, float] = {}
    known: set[frozenset[frozenset[str]]] = set()  # split designs order the variables of a table in other ways
    for level, trial in {first.epsilon: first, **higher}.items():
        worths = _tables(trial, wanted if listed else None)
        held = [one for one in worths if one.effective_records is not None]
        known.add(frozenset(frozenset(one.variables) for one in held))
        told[level] = harmonic(held)
    if len(known) > 1 or not (all(known) and higher):
        return ""
    asked, (alike,) = _tables(first, wanted if listed else None), known
    usual = f"tables of {'two variables' if first.two_way else 'one variable'}"
    tables = _LISTED.get(listed, usual)
    if len(alike) < len(asked):
        tables = f"the {len(alike)} of {len(asked)} {tables} that have an estimate"
    now = f"are worth {shown(told[first.epsilon])}, and " * bool(listed)
    would = ", ".join(f"{shown(told[level])} at epsilon = {level:g}" for level in higher)
    return f"{tables} {now}would be worth {would} ({HARMONIC}, {BASES[EQUAL.basis]})"


def _tables(trial: Trial, wanted: set[frozenset[str]] | None) -> list[TableWorth]:
    """Return the wanted tables of one and two variables; without any, those by which ways are compared."""
    if wanted is None:
        return trial.compared(trial.two_way or trial.one_way)
    return [one for one in (*trial.one_way, *trial.two_way) if frozenset(one.variables) in wanted]
