"""The next step where a plan does not meet a rule of the office: what makes a measure known, or changes it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from postrand.plan.policy import GUESSES, Rule
from postrand.report.table_worth import SHARED, UNKNOWN
from postrand.risk.facts_told import SURE
from postrand.risk.modelled import NO_SHARE
from postrand.risk.weights import BELOW_ONE
from postrand.support.measure_names import SIZE_FOUND, WITHOUT_SIZES
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.comparison_risk import NO_HOUSEHOLD
from postrand.workflow.doubted import DOUBTED
from postrand.workflow.near_misses import ALLOWS
from postrand.workflow.risk_left_out import ALL_BUT_TELLS, EXACT_VALUES, GOES_WITH
from postrand.workflow.ruled_tables import NOT_RELEASED

NAMES = {
    "epsilon": "Certified ε of a record",
    "total_epsilon": "ε of a record in all releases so far",
    "household_epsilon": "ε of the largest household",
    "person_epsilon": "ε of the person with most records",
    "right_guesses": "Right guesses of confidential variables on average, keys and record known",
    "guess_gain": "Right guesses that the record adds on average to those from the keys",
    "sure_guesses": f"Persons of whom a guess is more than {SURE:.0%} sure, keys and record known",
    "effective_records": "Unperturbed records that a table is worth",
    "unperturbed": "Released unperturbed",
}
UNITS = {"household_epsilon": "household", "person_epsilon": "person"}
NO_UNIT = "the plan does not say which column numbers {unit}s"
NO_LEDGER = "no ledger counts the releases of the same persons"
NOT_SHOWN = "no record shows all these variables"
TRIED = " ('postrand check' tries which)"
"""What stands beside the step of a rule on guesses where no levels were tried."""
CHANGES = {
    NAMES["effective_records"]: "give the variables of these tables fewer categories, name fewer keys, or allow a "
    "larger epsilon",
    **dict.fromkeys(map(NAMES.__getitem__, GUESSES), f"a smaller epsilon{TRIED}, or coarser confidential variables"),
    **dict.fromkeys(map(NAMES.__getitem__, UNITS), "a smaller epsilon ([unit] epsilon sets it)"),
    **dict.fromkeys(("Risk", "Expected correct matches"), "a smaller epsilon, coarser keys, or fewer keys released"),
}
"""What changes a measure, by the beginning of its name, where a rule on it is not met."""
OF_MEMBERS = "a split that one random member of each household shows"
"""What leaves less of all members of a household together."""
_LEFT_OUT = "leave these tables out of the rule: list its tables, or set share_below"
A_NUMBER = "this measure is a number of records: for a share of them name the measure 'correct_matches_share'"
_NO_EPSILON = "no epsilon changes this"
COUNTED = {
    GOES_WITH: "perturb these columns too ('postrand advise --perturb-also', or [[blocks]] or [split] of the plan), or "
    f"give them the role 'drop': {_NO_EPSILON}",
    ALL_BUT_TELLS: "release these keys as in the file, outside [split] and [[blocks]], where figures of risk count "
    f"them as known, or release no household numbers (role 'drop'): {_NO_EPSILON}",
    EXACT_VALUES: "group the values of these keys with [[recodes]], give them the role 'drop', or take the role 'key' "
    f"from them: {_NO_EPSILON}",
}
"""What makes a risk known that leaves out released columns, by words of the reason."""


def next_step(rule: Rule, figures: PlanFigures, *, name: str, why: str, is_met: bool) -> str:
    """Return the next step on a rule: of a measure that is not known what is missing, else what changes it.

    ``name`` is that of the measure on the page, ``why`` the reason that stands there.
    """
    steps = {
        **COUNTED,
        NO_SHARE: "give --sampling-fraction, or weights: 'postrand init --weight W', or the role 'weight'",
        BELOW_ONE: "correct the weight; where it is recoded, choose a smaller rounding, or a bottom code of 1 or more",
        NO_HOUSEHOLD: _household_step(figures),
        DOUBTED: "make keys coarser, so that fewer records are alone with them, or perturb more",
        NOT_SHOWN: "ask for these tables in the workload of [split], or for tables of fewer variables in the rule",
        NO_LEDGER: "name the ledger in the plan: [ledger] file = ..., also for a first release",
        **{NO_UNIT.format(unit=unit): _unit_step(unit) for unit in UNITS.values()},
        **dict.fromkeys(UNKNOWN, _LEFT_OUT),
        SHARED[
            "household"
        ]: f"draw these variables for each member: take them out of household_variables ([unit] of the "
        f"plan, or --household-variables); or {figures.words(OF_MEMBERS)} ([split] unit = 'household'; 'postrand "
        f"advise --largest-household' tries it), of which this worth is known; or {_LEFT_OUT}",
        SHARED["person"]: "draw these variables for each record: take them out of person_variables ([unit] of the "
        f"plan); or {_LEFT_OUT}",
    }
    found = [step for words, step in steps.items() if words.removeprefix("not known: ") in why]
    if not found and not is_met:
        share = "share_below" if rule.kind == "class" else "share_above"
        near = [step.format(share=share) for words, step in ALLOWS.items() if why.startswith(words)]
        found = [*near, *_changes(name, why, rule, figures)]
    if rule.measure == "correct_matches" and 0 < rule.limit < 1 and not is_met:
        found = [A_NUMBER, *found]
    return "; ".join(dict.fromkeys(found))


def _changes(name: str, why: str, rule: Rule, figures: PlanFigures) -> Iterator[str]:
    """Yield what changes a measure that is known, and of all members of a household together also a way to release.

    No epsilon changes that a household is found by its number of members; a share of them can be allowed.
    """
    if rule.measure == "effective_records" and NOT_RELEASED in why:
        yield "name columns that are released, or leave these tables out of the rule"
        if "below" not in why:
            return
    by_size = rule.measure == "joint_household_risk" and figures.is_found_by_size
    if not (by_size and rule.share == 0):
        yield from (step for words, step in CHANGES.items() if name.startswith(words))
        all_members = rule.measure in ("household_epsilon", "joint_household_risk", "register_joint_household_risk")
        is_there = figures.shown > 0
        if all_members and not is_there and figures.unit_epsilon.get("household", math.inf) > figures.epsilon:
            yield f"or {figures.words(OF_MEMBERS)} ([split] unit = 'household')"
    if by_size:
        yield figures.words(f"{SIZE_FOUND}: allow such households with share_above; else {WITHOUT_SIZES}")


def _unit_step(unit: str) -> str:
    return f"name it in the plan: [unit] {unit} = ...; where each {unit} has one record, let the rule be on epsilon"


def _household_step(figures: PlanFigures) -> str:
    """Return how to name the household; columns that seem to have its numbers are named."""
    step = "name the household: 'postrand init --household H', or the role 'household'"
    if not figures.may_link:
        return step
    what = "a column with another role, or with the role 'drop', is not read as household numbers"
    return f"{step}, for example of {' or '.join(figures.may_link)} ({what})"
