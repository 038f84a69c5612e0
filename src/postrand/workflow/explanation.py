"""A plan in sentences for a board: what is released, what is protected how strongly, and what it is good for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from postrand.codebook import Variable
from postrand.plan import Plan
from postrand.privacy.words import members_in_words
from postrand.release.ledger_report import outlook_lines
from postrand.report.table_worth import (
    LEAST_RECORDS,
    LITTLE,
    TOO_FEW,
    TableWorth,
    least_and_mean,
    no_estimate,
    not_known,
    records_of,
    shown,
)
from postrand.support import wordings
from postrand.support.column_wordings import relations_lost, taken_for_public
from postrand.support.guesses import of_hundred
from postrand.support.measure_names import KNOWN_TO_IT, UNKNOWN_TO_IT
from postrand.support.showing import ORDERS, capital, few, outward, outward_percent
from postrand.support.unit_wordings import shown_by_members
from postrand.support.worth_basis import BASES, MEAN
from postrand.workflow.column_ways import all_in_words
from postrand.workflow.comparison import NOTICE, PlanFigures
from postrand.workflow.comparison_risk import AS_IS, IS_RECODED, RECODED, RiskFigure, is_everybody
from postrand.workflow.design_refusals import refused_of
from postrand.workflow.facts import household_of, released_names
from postrand.workflow.known import unit_of
from postrand.workflow.larger import why_larger

TOLD = ("correct_matches", "household_risk", "joint_household_risk", "register_matches", "tau2")
"""The measures of risk that the page tells."""
KNOWS_MORE = "to somebody who knows the values before they are recoded"
OF_PLAN = "This page is of a plan, before any release: decision.html, in the dossier of a release, names that release."


@dataclass(frozen=True, slots=True)
class Explanation:
    """Hold the page: sections of a title and sentences. It tells figures of the confidential file: internal."""

    plan: str
    sections: tuple[tuple[str, tuple[str, ...]], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: internal."""
        told = [{"title": title, "sentences": list(sentences)} for title, sentences in self.sections]
        return {"notice": NOTICE, "plan": self.plan, "about": OF_PLAN, "sections": told}

    def __repr__(self) -> str:
        return f"Explanation({self.plan}: {len(self.sections)} sections; internal)"

    def __str__(self) -> str:
        """Return the page as text: internal."""
        lines = [self.plan, NOTICE, OF_PLAN]
        for title, sentences in self.sections:
            lines += ["", title, *(f"- {text}" for text in sentences)]
        return "\n".join(lines)


def explain(plan: Plan, figures: PlanFigures) -> Explanation:
    """Return a plan in sentences; ``figures`` are those of :func:`postrand.workflow.plan_figures.figures_of`."""
    return Explanation(
        figures.name,
        (
            ("What is released", tuple(_released(plan, figures))),
            ("Who is protected, against what, and how strongly", tuple(_protected(plan, figures))),
            ("What analysts can do with it", tuple(_useful(plan, figures))),
            ("What remains unprotected", tuple(_unprotected(figures))),
        ),
    )


def _released(plan: Plan, figures: PlanFigures) -> Iterator[str]:
    shown = figures.words(shown_by_members(figures.shown))
    yield f"{figures.records:,} records{shown}, in {ORDERS[plan.release.shuffle]}."
    blocks = [one for one in figures.ways if one.way in ("perturbed", "made")]
    yield from (f"{text}." for text in all_in_words(blocks))
    if plan.perturbed:
        yield (
            "A machine draws each released value of a perturbed variable at random, with probabilities that depend on "
            "the true one (where it is recoded, on the recoded one): a released value may be false."
        )
    if plan.split is not None:
        shown = ", ".join(plan.split.variables)
        if plan.split.of_members:
            who = figures.words(
                "one random member of each household shows some, chosen at random; the others show none."
            )
            yield f"Of {shown}, {who}"
        else:
            yield f"Each record shows only some of {shown}, chosen at random; the others are left out of it."
    yield from (f"{text}." for text in all_in_words(one for one in figures.ways if one not in blocks))
    yield from _recoded(plan)


def _recoded(plan: Plan) -> Iterator[str]:
    """Say how variables are recoded; the other sentences say which of them are then perturbed."""
    gone, made = {*plan.not_released}, {recode.variable for recode in plan.codebook.recodes}
    recodes = [recode for recode in plan.codebook.recodes if recode.variable not in gone]
    if not recodes:
        return
    named = ", ".join(f"{recode.variable} (from {recode.source}, {recode.kinds})" for recode in recodes)
    released = {*released_names(plan)} - made
    kept = list(dict.fromkeys(recode.source for recode in recodes if recode.source in released))
    but = f", except those of {', '.join(kept)}" if kept else ""
    yield f"Recoded before anything else is done: {named}. The values before recoding are not released{but}."


def _protected(plan: Plan, figures: PlanFigures) -> Iterator[str]:
    yield from [f"{'; '.join(figures.levels)}."] * bool(figures.levels)
    yield from figures.claims
    yield from () if figures.ledger is None else outlook_lines(figures.ledger)
    if household_of(plan) is None and (plan.unit is None or not plan.unit.household):  # else the claims say it
        persons = "Persons of one household add up: k of them have k times the epsilon of a person."
        yield persons if figures.person else members_in_words(figures.epsilon, None)
    keys = ", ".join(v.name for v in plan.codebook.with_role("key") if v.is_categorical)
    who = f"The informed attacker, who knows {keys} of each person, and that the person is in the file,"
    yield from _risk(figures, "correct_matches", f"{who} finds the record of")
    said = figures.words
    who = said("Of 100 households, such an attacker, who knows this of one person at a time,")
    yield from _risk(figures, "household_risk", f"{who} {said('finds at least one member of')}")
    who = said("who knows this of all members of a household, and looks for all of them together, finds")
    yield from _risk(figures, "joint_household_risk", f"{said('Of 100 households')}, an attacker {who}")
    who = "The chance of the one who looks for all of them together is above 20% for"
    yield from _risk(figures, "joint_household_risk_above", who, said("households"))
    who = f"The {KNOWN_TO_IT if is_everybody(figures.risks) else UNKNOWN_TO_IT}, and links every record,"
    yield from _risk(figures, "register_matches", f"{who} is right for")
    who = "The register attacker who links only the records that are unique in the file (τ2) is right for"
    yield from _risk(figures, "tau2", who)
    yield from (f"{_first(text)}." for text in figures.warnings)
    yield from why_larger(one for one in figures.risks if one.code in TOLD)
    yield from (IS_RECODED,) * (figures.before_is == RECODED)
    yield from (*figures.only_keys, *figures.known_too, *figures.guessed)
    yield from figures.knowledge
    yield (
        "The claims bound what perturbed values add to what an attacker knows already, whatever that is; the figures "
        "on links are for these attackers only."
    )


def _first(text: str) -> str:
    """Return a phrase as the start of a sentence, without a stop at its end."""
    return capital(text).removesuffix(".")


def _risk(figures: PlanFigures, code: str, who: str, of: str = "") -> Iterator[str]:
    """Yield a measure in each file that was measured, in a sentence; nothing where it is not known before.

    A share is one of households: of 100 of them, or where ``of`` names them in per cent.
    """
    found = figures.risk(code)
    if found is None or found.before is None:
        return
    values = [(figures.as_is[code], f"{AS_IS}, {KNOWS_MORE}")] if code in figures.as_is else []
    values.append((found.before, figures.before_is))
    whole = f" of {figures.records:,} {figures.words('persons')}" * (found.unit == "records")
    told = [f"{_amount(value, found, of)}{whole} ({where})" for value, where in values]
    after = f"this is not known after the plan: {found.why}"
    if found.after is not None:
        about = "about " * (found.unit == "records") + "at most " * figures.is_bound(code)
        after = f"{about}{_amount(found.after, found, of)} after the plan"
    yield f"{who} {', '.join(told)}{';' if found.after is None else ' and'} {after}."


def _amount(value: float, found: RiskFigure, of: str) -> str:
    """Return a number of records, or a share in words, rounded up."""
    if found.unit == "records":
        return outward(value)
    return f"{outward_percent(value)} of the {of}" if of else of_hundred(value, most=True)


def _useful(plan: Plan, figures: PlanFigures) -> Iterator[str]:
    yield from figures.named
    if figures.records < LEAST_RECORDS:
        yield f"What tables are worth is not told: {TOO_FEW}."
    least = [one for one in map(figures.least_own, (figures.one_way, figures.pairs)) if one is not None]
    if least:
        worth = " and ".join(f"{one.name}, {shown(one.effective_records)}" for one in least)
        yield f"{capital(BASES['file'])} the least useful tables are worth, in unperturbed records: {worth}."
    yield from _tables("one perturbed variable", figures.one_way, figures.records)
    yield from _tables("two perturbed variables", figures.pairs, figures.records)
    yield from _tables("a perturbed and an unperturbed variable", figures.crossed, figures.records)
    yield from (f"{_first(text)}." for text in (*figures.of_three, figures.small) if text)
    yield from _fewer(figures)
    if figures.little:
        yield _first(figures.little) + "."
    if figures.unperturbed:
        yield "Tables of unperturbed variables alone are as precise as before."
    yield from (f"{capital(str(one))}." for one in refused_of(plan))
    yield from figures.lacking
    yield from (f"{_first(text)}." for text in figures.means.values())
    for one in plan.numerical:
        yield f"{relations_lost(one.variables, averaged=one.form == 'average')}."
    unanswered = [name for name in plan.perturbed if _has_no_answer(plan.codebook[name])]
    if unanswered:
        told = "stands for no answer: its means, and linear and Poisson regressions of it, leave out who has it."
        yield f"A category of {few(unanswered)} {told}"
    copies = ", or made from completed files ('postrand complete')"
    shared = any(unit_of(plan, block) != "record" for block in plan.blocks)
    if shared:
        yield wordings.NO_COPIES
    copies = "" if shared or (plan.split is not None and plan.split.of_members) else copies
    yield (
        f"Estimates have to be corrected for the perturbation ('postrand estimate'){copies}. The released values of a "
        "single record must not be read as true."
    )


def _fewer(figures: PlanFigures) -> Iterator[str]:
    """Yield of which kinds of tables more or fewer are of little use with the file's own frequencies, and why."""
    own = {frozenset(one.variables): one for one in figures.own}
    for kind, tables in (("one perturbed variable", figures.one_way), ("two perturbed variables", figures.pairs)):
        both = [(one, own[frozenset(one.variables)]) for one in tables if frozenset(one.variables) in own]
        counts = [sum(one.is_of_little_use for one in of) for of in zip(*both, strict=True)]
        if counts and counts[0] != counts[1]:
            are = "is" if counts[1] == 1 else "are"
            yield (
                f"Of {len(both)} tables of {kind}, {counts[1]} {are} of little use {BASES['file']}, and {counts[0]} "
                f"{BASES['equal']}: other frequencies of the values make the same table worth more or less."
            )


def _unprotected(figures: PlanFigures) -> Iterator[str]:
    found = (text for text in figures.findings if text not in figures.means.values())
    yield from (f"{_first(text)}." for text in found)
    yield from (*figures.not_covered, *taken_for_public(figures.unstated))


def _has_no_answer(variable: Variable) -> bool:
    """Whether a variable of numbers has a category that means no answer."""
    absent = variable.missing_codes or variable.missing == "category"
    return bool(absent) and variable.is_categorical and variable.type in ("int64", "double")


def _without(tables: Sequence[TableWorth]) -> str:
    return few([one.name for one in tables if one.has_no_estimate])


def _tables(kind: str, tables: Sequence[TableWorth], records: int) -> Iterator[str]:
    found, none, unknown = least_and_mean(tables), no_estimate(tables), not_known(tables)
    if unknown:
        yield f"What tables of {kind} are worth is not always known: {unknown}."
    if none:
        yield f"Of the {len(tables)} tables of {kind}, {none.replace(f' of {len(tables)}', '')}: {_without(tables)}."
    if found is None:
        return
    which = "Each of the others" if none else f"A table of {kind}"
    text = f"{which} is as precise as one from {records_of(found[1])} {MEAN}, and from"
    yield f"{text} {shown(found[0])} in the worst case, {BASES[tables[0].basis]}; the file has {records:,}."
    good = [one.name for one in tables if not one.is_of_little_use and one.effective_records is not None]
    poor = [one.name for one in tables if one.is_of_little_use and not one.has_no_estimate]
    if poor and good:
        yield f"Useful: {few(good)}. Of little use ({LITTLE}): {few(poor)}."
    elif poor:
        yield f"None of them is of much use (worth {LITTLE}): {few(poor)}."
