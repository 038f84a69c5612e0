"""The recommender on the screen: the questions, and two to four plans side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from htmltools import Tag, TagList, tags

from postrand.app import advising
from postrand.app.advising import LIMITS, PREFIX
from postrand.app.decisions import Decisions
from postrand.app.notes import without_options
from postrand.app.widgets import busy, button, control, cut, labelled, scroll, select
from postrand.report.table_worth import LITTLE, mean_cell, of_little_use
from postrand.support.showing import few
from postrand.support.worth_basis import MEAN
from postrand.workflow.advice import Advice
from postrand.workflow.advice_choice import LEFT_OUT
from postrand.workflow.advice_needs import ATTACKERS, EARLIER, USES
from postrand.workflow.advice_plan import Advised
from postrand.workflow.advice_policy import rules_met
from postrand.workflow.advice_text import next_steps, plan_lines, record_claim
from postrand.workflow.comparison_risk import RiskFigure
from postrand.workflow.epsilon import DEFAULT_EPSILON

_RISKS = (
    *("correct_matches", "register_matches", "tau2", "individual_risk_largest"),
    *("household_risk_largest", "joint_household_risk_largest"),
)
_SHORT = {"register": "The register attacker", "informed": "The informed attacker", "anyone": "Anyone"}
"""The attackers, short enough for a list; their whole words stand below it."""
_HEADS = ("Claim", "Risk", "Worth", "Asked")


def form(decisions: Decisions) -> Tag:
    """Return the questions of the recommender, each with its usual answer."""
    held = advising.typed(decisions)
    names = [decisions.names[j] for j in decisions.perturbed]
    also = [cut(name) for name in advising.also_perturbed(decisions)]
    tables = [("", "–"), *((name, cut(name)) for name in names)]
    attacker = EARLIER.get(held.get("attacker", ""), held.get("attacker", "register"))
    attackers = [(name, _SHORT.get(name, name)) for name in ATTACKERS]
    look = control("input", "typed", f"{PREFIX}look", type="checkbox", checked=_checked(held.get("look")))
    uses = [
        tags.label(
            control(
                "input",
                "typed",
                f"{PREFIX}use.{use}",
                type="checkbox",
                checked=_checked(held.get(f"use.{use}", "true" if use == "tables" else "")),
            ),
            f" {words}",
            class_="field",
        )
        for use, words in USES.items()
    ]
    return tags.details(
        tags.summary("Recommend plans"),
        tags.p("Two to four complete plans for what you ask. Taking one makes it your decisions.", class_="soft"),
        tags.p(f"Recommended plans perturb {few(also)} too, as you decided.", class_="soft") if also else None,
        labelled(
            "Who might attack",
            select("typed", f"{PREFIX}attacker", attacker, attackers, ""),
            "; ".join(f"{_SHORT.get(name, name)}: {words}" for name, words in ATTACKERS.items()),
        ),
        _number("epsilon", "ε of a record, at most", held.get("epsilon", f"{DEFAULT_EPSILON:g}")),
        *(_number(name, words, held.get(name, ""), "optional") for name, words in LIMITS.items()),
        tags.fieldset(tags.legend("Analysts will make"), *uses),
        _number("points", "Most percentage points, ±, in a cell of the table of", held.get("points", ""), "optional"),
        select("typed", f"{PREFIX}first", held.get("first", ""), tables, "First variable of the table"),
        select("typed", f"{PREFIX}second", held.get("second", ""), tables, "Second variable of the table"),
        tags.label(look, " The records may choose levels too, and the certificate says so", class_="field"),
        button("Recommend", "advise", "", "primary"),
    )


def _checked(text: str | None) -> str | None:
    return "checked" if text == "true" else None


def _number(name: str, words: str, value: str, note: str = "") -> Tag:
    box = control("input", "typed", PREFIX + name, type="number", step="any", min="0", value=value)
    return labelled(words, box, note)


def advice(found: Advice | None, waiting: bool) -> TagList:
    """Return the plans side by side in figures, then each with its claim, its risk, its worth and the reasons."""
    if waiting:
        return TagList(tags.h3("Recommended plans"), busy("Designing and measuring plans …"))
    if found is None:
        return TagList()
    notes = [*found.notes, *next_steps(found.needs, found.plans)]
    left = [tags.li(f"{name}: {why}") for name, why in found.left_out]
    return TagList(
        tags.h3("Recommended plans"),
        _beside(found.plans),
        *(_plan(number, plan) for number, plan in enumerate(found.plans, 1)),
        tags.ul(*(tags.li(_said(note)) for note in notes), class_="soft") if notes else None,
        tags.details(
            tags.summary(f"Other ways, and why they are not shown ({len(left):,})"),
            tags.p(f"{LEFT_OUT}:"),
            tags.ul(*left),
        )
        if left
        else None,
    )


def _beside(plans: Sequence[Advised]) -> Tag:
    head = [tags.th("", scope="col")]
    head += [
        tags.th(f"Plan {k}", tags.div(p.trial.candidate.name, class_="soft"), scope="col", class_="text")
        for k, p in _each(plans)
    ]
    rows = [_row("Promise", [record_claim(plan.trial.plan) for plan in plans])]
    rows += [_row("ε of a record, at most", [_level(plan) for plan in plans])]
    for code in _RISKS:
        told = [plan.figures.risk(code) for plan in plans]
        first = next((one for one in told if one is not None and one.before is not None), None)
        if first is not None:
            when = next(plan.figures.sides(code) for plan, one in zip(plans, told, strict=True) if one is first)
            words = f"{first.measure}: {' → '.join(side for _, side in when)}"
            rows.append(_row(words, [_sides(plan, one) for plan, one in zip(plans, told, strict=True)]))
    for words, which in (("one variable", "one_way"), ("two variables", "two_way")):
        found = [mean_cell(getattr(plan.figures, which)) for plan in plans]
        if any(found):
            told_worth = ["not known" if one is None else one for one in found]
            rows.append(_row(f"Tables of {words}: effective records, {MEAN}", told_worth))
    little = [of_little_use(plan.figures.one_way, plan.figures.pairs) for plan in plans]
    rows += [_row(f"Of little use: {LITTLE}", [one or "none" for one in little])] if any(little) else []
    asked = [one.text for one in plans[0].asked] if plans else []
    for k, text in enumerate(asked):
        rows.append(_row(f"Asked: {_said(text)}", [plan.asked[k].verdict.lower() for plan in plans]))
    if plans and plans[0].checked is not None:
        rows.append(_row("Policy", [_said(rules_met(one.checked)) if one.checked else "" for one in plans]))
    rows.append(_row("Why", [_why(plan) for plan in plans]))
    take = tags.tr(tags.th("", scope="row"), *(tags.td(_take(k), class_="text") for k, _ in _each(plans)))
    table = tags.table(tags.thead(tags.tr(*head)), tags.tbody(*rows, take))
    return scroll(table, "Recommended plans side by side")


def _said(text: str) -> str:
    """Return a sentence of ``postrand advise`` in the words and signs of the screen."""
    return re.sub(r"\bepsilon\b", "ε", without_options(text))


def _each(plans: Sequence[Advised]) -> list[tuple[int, Advised]]:
    return list(enumerate(plans, 1))


def _row(words: str, cells: Sequence[str]) -> Tag:
    return tags.tr(tags.th(words, scope="row"), *(tags.td(one, class_="text") for one in cells))


def _sides(plan: Advised, one: RiskFigure | None) -> str:
    """Return a risk in the file as it is, recoded where that is another, and after."""
    if one is None or one.before is None:
        return "not known"
    return " → ".join(value for value, _ in plan.figures.sides(one.code))


def _why(plan: Advised) -> str:
    told = next((text for text in plan.reasons if text.startswith("Reason: ")), plan.trial.candidate.what)
    return _said(told.removeprefix("Reason: "))


def _level(plan: Advised) -> str:
    return f"{plan.trial.epsilon:g}" if plan.trial.candidate.has_epsilon else "none"


def _take(number: int) -> Tag:
    return button("Use this plan", "take", str(number), "small", aria_label=f"Use plan {number}")


def _plan(number: int, plan: Advised) -> Tag:
    """Return everything that ``postrand advise`` says of a plan, its kinds of sentences under one head each."""
    _, *lines = plan_lines(number, plan)
    held: dict[str, list[str]] = {}
    for line in lines:
        head, colon, rest = line.strip().partition(": ")
        known = bool(colon) and head in _HEADS
        held.setdefault(head if known else "", []).append(_said(rest if known else line.strip()))
    parts: list[Any] = []
    for head in (*_HEADS, ""):
        if head in held:
            parts += [tags.p(tags.strong(head)) if head else None, tags.ul(*(tags.li(one) for one in held[head]))]
    words = f"Plan {number}: {plan.trial.candidate.name}, ε = {_level(plan)}"
    return tags.details(tags.summary(words), *parts)
