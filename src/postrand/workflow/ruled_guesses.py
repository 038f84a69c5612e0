"""Rules on guesses of confidential variables by who knows which record is a person's, and the keys of the person."""

from __future__ import annotations

from typing import NamedTuple

from postrand.plan.policy import Rule
from postrand.report.text import beside_limit
from postrand.support.showing import few
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.comparison_risk import facts_in

NONE = "does not apply: no released variable has the role 'sensitive'"
NO_FACTS = "it is not known what who knows the keys of a person guesses of {names}"
RECORD_KNOWN = "100%"
"""What is guessed rightly by who knows the record of a person, where nothing is perturbed."""


class Ruled(NamedTuple):
    """Say what holds before and after the plan, in words, whether the rule is met, and why."""

    before: str
    after: str
    is_met: bool
    why: str = ""


def guess_ruled(rule: Rule, figures: PlanFigures) -> Ruled:
    """Return whether every released confidential variable is within the limit of a rule.

    ``right_guesses`` is the share of persons of whom it is guessed rightly by who knows their record and keys,
    ``guess_gain`` that share less the one without the record, ``sure_guesses`` the share of whom such a guess is surer
    than ``SURE``: :class:`postrand.risk.facts_told.Told`. A variable that
    leaves unperturbed is guessed of all persons. Of a plan that says of any of them less, the rule is not met.
    """
    names = figures.confidential
    if not names:
        return Ruled("–", "–", True, NONE)
    clear = [name for name in names if name in figures.unperturbed]
    if clear:
        return Ruled(RECORD_KNOWN, RECORD_KNOWN, False, f"released unperturbed: {few(clear)}")
    known = {one.name for one in facts_in(figures.risks)}
    told = {one.name: one for one in figures.guesses if one.name in known}
    if lacking := [name for name in names if name not in told]:
        return Ruled(RECORD_KNOWN, "not known", False, NO_FACTS.format(names=few(lacking)))
    is_gain = rule.measure == "guess_gain"
    is_sure = rule.measure == "sure_guesses"
    values = {name: one.sure if is_sure else one.right - one.without * is_gain for name, one in told.items()}
    most = max(values, key=lambda name: values[name])
    before = max(1 - told[name].without * is_gain for name in told)
    after = f"{beside_limit(100 * values[most], 100 * rule.limit)}% ({most})"
    return Ruled(f"{beside_limit(100 * before, 100 * rule.limit)}%", after, values[most] <= rule.limit)
