"""The rules of an office in advice: which of them a plan meets, and what would help where none meets one on worth."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from postrand.codebook import Codebook, Variable
from postrand.designers.split.workload import workload_of
from postrand.errors import PostrandError
from postrand.plan.policy import Policy, Rule
from postrand.report.table_worth import EQUAL, MAX_PAIRED, TableWorth, table_worth
from postrand.support.worth_basis import BASES
from postrand.workflow.advice_candidates import Candidate
from postrand.workflow.advice_choice import Trial, designed, worth_met
from postrand.workflow.advice_needs import Limit, Needs
from postrand.workflow.advice_plan import Advised, Asked
from postrand.workflow.advice_risk import LEVELS, values
from postrand.workflow.broken_rules import which_fail
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.near_misses import MISSED
from postrand.workflow.policy_check import PolicyCheck, Verdict, check_policy, name_of_worth
from postrand.workflow.ruled_tables import tables_of, unknown

At = Callable[[Candidate, float], Trial | None]
Measured = Callable[[Trial], Advised]
EPSILONS = ("epsilon", "household_epsilon", "person_epsilon")
"""The measures by which advice says that a level is above what is allowed."""
GROWS = "correct matches grow with epsilon"
_MOST_WITHOUT = 2
"""So many variables are named, each of which could be left out."""


def rules_met(checked: PolicyCheck) -> str:
    """Return how many rules of a policy a plan meets, and which it does not, with what it has and the limit."""
    many = len(checked.verdicts)
    missed = "; ".join(map(_missed, checked.failed))
    named = Policy((), checked.title).named
    of = f"rules of {named}" if many > 1 else f"rule of {named}"
    of += which_fail((one.broken for one in checked.verdicts), all_met=not checked.failed)
    return f"meets {many - len(checked.failed)} of {many} {of}" + f"; not met: {missed}" * bool(missed)


def _missed(one: Verdict) -> str:
    return f"{one.rule} (after the plan {one.after}; limit: {one.limit})"


def unmet_in_words(checked: PolicyCheck) -> Iterator[str]:
    """Yield each rule that a plan does not meet, with the reason and the next step."""
    for one in checked.failed:
        step = f". Next: {one.step}" if one.step else ""
        told = [f"after the plan {one.after}; limit: {one.limit}"] * (not one.why or one.why.startswith(MISSED))
        yield f"{one.rule}: {'; '.join(filter(None, (*told, one.why)))}{step}"


def worth_asked(limit: Limit, figures: PlanFigures) -> Asked:
    """Return what a plan has of a limit on worth, by the rule of a policy: the least of both worths decides."""
    rule = Rule(limit.measure, limit.bound, tables="two-way")
    (verdict,) = check_policy(figures, Policy((rule,))).verdicts
    pairs = figures.pairs
    held = [one.effective_records for one in (*pairs, *filter(None, [figures.least_own(pairs)]))]
    after = None if not held or None in held else min(worth for worth in held if worth is not None)
    return Asked(str(limit), None, after, verdict.is_met, why=verdict.why, bound=limit.bound)


def is_risk_broken(needs: Needs, plan: Advised) -> bool:
    """Return whether a plan is known not to keep a limit on risk that a rule of the policy asks for."""
    rules = [limit for limit in needs.of_file if limit.is_rule]
    known = [(one, values(one, plan.figures.risks)[1]) for one in rules]
    return any(after is not None and not limit.meets(after) for limit, after in known)


def helped(needs: Needs, plans: Sequence[Advised], at: At, measured: Measured) -> Iterator[str]:
    """Yield for each rule on worth that no plan meets what would: computed from the sizes, without the records.

    Of tables whose worth is not known no level is named, because none makes them known: it is said why they are not.
    Of a level that is named, ``measured`` says what else that is asked is not met there.
    """
    numbered = dict(enumerate(plans, 1))
    for asked in needs.worth:
        rule = asked
        if _meeting(rule, plans):
            continue
        text, alone = f"No plan meets: {name_of_worth(rule)}, at least {rule.limit:g}.", "By the sizes alone"
        if hidden := _hidden(rule, plans[0]):
            everywhere = all(_hidden(rule, plan) for plan in plans)
            text += f" Not known{'' if everywhere else ' in plan 1'}: {'; '.join(unknown(hidden))}."
            text += f" Next: {'; or '.join(_made_known(hidden, needs, plans[0]))}."
            if everywhere:
                rest = tuple(one.variables for one in tables_of(rule, plans[0].figures) if one not in hidden)
                rule = dataclasses.replace(rule, tables=rest)
                if not rest or (number := _meeting(rule, plans)):
                    yield f"{text} The other tables reach it in plan {number}." if rest else text
                    continue
                alone = "For the other tables, by the sizes alone"
        able = {number: plan for number, plan in numbered.items() if not _hidden(rule, plan)}
        there = partial(_broken_there, needs, asked, measured)
        if ways := [*_levels(rule, able, needs, at, there), *_fewer(rule, able.values())]:
            yield f"{text} {alone} ({BASES[EQUAL.basis]}) this would: {'; or '.join(ways)}."
        else:
            yield f"{text} No larger epsilon, fewer variables or coarser categories that were tried would do."


def _meeting(rule: Rule, plans: Sequence[Advised]) -> int:
    """Return the number of the first plan that meets a rule; 0 where none does."""
    met = (number for number, plan in enumerate(plans, 1) if check_policy(plan.figures, Policy((rule,))).is_met)
    return next(met, 0)


def _hidden(rule: Rule, plan: Advised) -> list[TableWorth]:
    """Return the tables of a rule whose worth no epsilon makes known in a plan, where these alone break the rule."""
    tables = tables_of(rule, plan.figures)
    gone = [one for one in tables if one.effective_records is None and one.why.startswith("not known: ")]
    return gone if len(gone) > rule.share * len(tables) else []


def _made_known(gone: Sequence[TableWorth], needs: Needs, plan: Advised) -> Iterator[str]:
    """Yield what to do about tables whose worth is not known: another column in the rule, or draws for each member."""
    names = list(dict.fromkeys(name for one in gone for name in one.variables))
    for recode in plan.trial.plan.codebook.recodes:
        if recode.source in names and recode.variable not in names:
            yield f"{recode.variable} is made of {recode.source}: name {recode.variable} in the rule"
    drawn = [name for name in names if name in needs.household_variables]
    if drawn and any(one.is_shared for one in gone):
        yield f"leave {', '.join(drawn)} out of --household-variables, drawn once for a household"
    yield "leave these tables out of the rule"


def _levels(
    rule: Rule, plans: Mapping[int, Advised], needs: Needs, at: At, there: Callable[[Trial], str]
) -> Iterator[str]:
    """Yield the least level that was tried at which the way of a plan meets a rule, of all plans.

    ``there`` says what is not met at this level.
    """
    found: dict[float, tuple[int, Trial]] = {}
    for number, plan in plans.items():
        trial = plan.trial
        for level in (level for level in LEVELS if trial.candidate.has_epsilon and level > trial.epsilon):
            higher = _made(at, trial.candidate, level)
            if higher is not None and worth_met(rule, higher.worths):
                found.setdefault(level, (number, higher))
                break
    for level in sorted(found)[:1]:
        number, higher = found[level]
        most = needs.epsilon_once if plans[number].trial.candidate.of_members else needs.epsilon
        allowed = f", above the {most:g} that is allowed" if level > most else ""
        yield f"epsilon = {level:g} for plan {number}{allowed} ({there(higher)})"


def _broken_there(needs: Needs, rule: Rule, measured: Measured, trial: Trial) -> str:
    """Return what else that is asked a plan does not meet as a trial has it; limits on epsilon are said elsewhere."""
    rules = () if needs.policy is None else needs.policy.rules
    others = [one for one in rules if one != rule and one.measure not in EPSILONS]
    limits = [one for one in needs.asked if not one.is_worth and one.measure not in EPSILONS]
    if not (others or limits):
        return GROWS
    plan = measured(trial)
    checked = check_policy(plan.figures, Policy(tuple(others)))
    missed = [_missed(one) for one in checked.failed]
    asked = {str(one) for one in limits}
    missed += [one.text for one in plan.asked if one.text in asked and not one.is_met]
    return f"not met there: {'; '.join(missed)}" if missed else "there all else that is asked is met"


def _fewer(rule: Rule, plans: Iterable[Advised]) -> Iterator[str]:
    """Yield which variables to leave out, and how many categories the largest may have, for a split that meets it."""
    split = next((p.trial for p in plans if p.trial.plan.split is not None and not p.trial.candidate.of_members), None)
    if split is None or len(split.plan.perturbed) > MAX_PAIRED or split.plan.split is None:
        return
    book, names = split.plan.codebook, split.plan.split.variables
    sizes = {name: book[name].size for name in names}
    by_size = sorted(names, key=lambda name: -sizes[name])
    gone = [name for name in by_size if len(names) > 2 and _would(rule, split, {**sizes, name: 0})]
    if gone:
        yield f"a split without {' or '.join(gone[:_MOST_WITHOUT])}"
    most = by_size[0]
    enough = (size for size in range(sizes[most] - 1, 1, -1) if _would(rule, split, {**sizes, most: size}))
    if (size := next(enough, None)) is not None:
        yield f"a split with {most} in {size} categories, in place of {sizes[most]}"


def _would(rule: Rule, trial: Trial, sizes: Mapping[str, int]) -> bool:
    """Return whether a split of variables of these sizes, designed for the worst table, meets a rule; 0: left out."""
    names = [name for name, size in sizes.items() if size]
    if not isinstance(rule.tables, str) and not all({*table} <= {*names} for table in rule.tables):
        return False
    book = Codebook(tuple(Variable(name, role="key", categories=tuple(map(str, range(sizes[name])))) for name in names))
    split = trial.plan.split
    assert split is not None
    made = dataclasses.replace(split, variables=tuple(names), workload=workload_of("worst", names))
    try:
        plan = dataclasses.replace(trial.plan, codebook=book, split=made, unit=None, blocks=(), numerical=())
        mechanism = designed(plan)
    except PostrandError:
        return False
    tables = [*((name,) for name in names), *itertools.combinations(names, 2)]
    found = table_worth(mechanism, tables, trial.one_way[0].records, EQUAL)
    return worth_met(rule, {frozenset(one.variables): one.effective_records for one in found})


def _made(at: At, candidate: Candidate, level: float) -> Trial | None:
    try:
        return at(candidate, level)
    except PostrandError:
        return None
