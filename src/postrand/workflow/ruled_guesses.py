"""Rules on guesses of confidential variables by who knows which record is a person's, and the keys of the person."""

from __future__ import annotations

from typing import NamedTuple

from postrand.plan.policy import Rule
from postrand.report.text import beside_limit
from postrand.support.showing import few
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.comparison_risk import facts_in

NONE = "does not apply: no released variable has the role 'sensitive'"
NOT_COUNTED = "guesses of {names} are not counted: perturbed, with the role 'other' and not 'sensitive'"
OPEN = "{name}, where keys do not tell it"
NO_FACTS = "it is not known what who knows the keys of a person guesses of {names}"
RECORD_KNOWN = "100%"
"""What is guessed rightly by who knows the record of a person, where nothing is perturbed."""
POINTS = " points"
"""The unit of what is added to right guesses of 100: 10% could be a tenth more of them."""


class Ruled(NamedTuple):
    """Say what holds before and after the plan, in words, whether the rule is met, and why."""

    before: str
    after: str
    is_met: bool
    why: str = ""


def guess_ruled(rule: Rule, figures: PlanFigures) -> Ruled:
    """Return whether every released confidential variable is within the limit of a rule.

    ``right_guesses`` is the share of persons of whom it is guessed rightly by who knows their record and keys,
    ``guess_gain`` that share less the one without the record, or the same of the persons whose keys do not tell it
    already, if that is more, and ``sure_guesses`` the share of whom such a guess is surer than ``SURE``:
    :class:`postrand.risk.facts_told.Told`. A variable that leaves unperturbed is guessed of all persons. Of a plan that
    says of any of them less, the rule is not met. It is told which perturbed variables are no keys and not counted,
    because the curator did not call them confidential.
    """
    names, apart = figures.confidential, NOT_COUNTED.format(names=few(figures.perturbed_other))
    apart *= bool(figures.perturbed_other)
    if not names:
        return Ruled("–", "–", True, "; ".join(filter(None, (NONE, apart))))
    clear = [name for name in names if name in figures.unperturbed]
    is_gain = rule.measure == "guess_gain"
    known_all = f"up to 100{POINTS}" if is_gain else RECORD_KNOWN
    if clear:
        return Ruled(known_all, known_all, False, f"released unperturbed: {few(clear)}")
    known = {one.name for one in facts_in(figures.risks)}
    told = {one.name: one for one in figures.guesses if one.name in known}
    if lacking := [name for name in names if name not in told]:
        return Ruled(known_all, "not known", False, NO_FACTS.format(names=few(lacking)))
    values = {name: one.of(rule.measure) for name, one in told.items()}
    before = max(one.most for one in told.values()) if is_gain else 1.0
    most = max(values, key=lambda name: values[name])
    where = OPEN.format(name=most) if is_gain and told[most].is_of_open else most
    of = POINTS if is_gain else "%"
    after = f"{beside_limit(100 * values[most], 100 * rule.limit)}{of} ({where})"
    first = f"{beside_limit(100 * before, 100 * rule.limit)}{of} if unperturbed"
    return Ruled(first, after, values[most] <= rule.limit, apart)


def beyond_limit(rule: Rule, figures: PlanFigures) -> list[str]:
    """Return the confidential variables of which guesses are known, and beyond the limit of a rule."""
    known = {one.name for one in facts_in(figures.risks)} & {*figures.confidential}
    return [one.name for one in figures.guesses if one.name in known and one.of(rule.measure) > rule.limit]
