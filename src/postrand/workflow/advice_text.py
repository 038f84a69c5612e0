"""Advice in words: why each plan is shown, what it claims, and its figures in a few lines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from postrand.certification.plain_words import members_claims
from postrand.certification.units import unit_epsilon
from postrand.mechanism.units import words_of
from postrand.plan import Plan
from postrand.privacy.words import TOO_LARGE, in_plain_words
from postrand.report.table_worth import (
    EQUAL,
    LITTLE,
    little_left,
    mean_worth,
    more_in_two,
    none_of_use,
    not_known,
    of_little_use,
    shown,
    without_estimate,
    worth_line,
)
from postrand.report.text import beside_limit
from postrand.support.exact import upper_level
from postrand.support.guesses import guesses_in_words
from postrand.support.measure_names import about
from postrand.support.showing import ORDERS, few
from postrand.support.worth_basis import BASES, HARMONIC
from postrand.workflow.advice_choice import Trial, named_worth
from postrand.workflow.advice_needs import Needs
from postrand.workflow.advice_plan import Advised, Asked
from postrand.workflow.advice_policy import is_risk_broken, rules_met, unmet_in_words
from postrand.workflow.advice_risk import LEVELS, NARROW
from postrand.workflow.column_ways import all_in_words
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.comparison_risk import IS_RECODED, known_too_in
from postrand.workflow.epsilon import BOUND, GUIDE, above_bound
from postrand.workflow.model_trials import MET
from postrand.workflow.plan_settings import never_together
from postrand.workflow.risk_left_out import Pairs, going, keys_not_counted, left_out_briefly

BOTH = 2
WITH_FILE = (
    "The records chose a part of this plan (its blocks, or its epsilon): the guarantee does not cover this choice, and "
    "the certificate says so."
)
WITH_SIZES = (
    "No value of a record chose its blocks or epsilon: they follow from the codebook, the number of records and what "
    "was asked. The codebook's categories{recodes} are taken for public, which only its author can confirm: compare "
    "categories that were read from the file with the questionnaire"
)
UNMARKED = (
    ", and where anything of the file led to a recode (counts, means, or what an earlier advice said of it), write "
    'provenance = "confidential" in its [[recodes]]: else the certificate calls it public.'
)
RECODED = (
    "The codebook's recodes of {names} are marked confidential: the guarantee does not cover how these were chosen. Of "
    'those that were chosen without the file, write provenance = "public" in [[recodes]].'
)
BANDS = (
    "No value of a record chose its blocks or epsilon: they follow from the codebook, the number of records and what "
    "was asked. Its bands of {names} follow from the lowest and highest category of the codebook. If these came from "
    "the records, the guarantee does not cover them; so the bands are marked confidential, and the certificate says "
    "it. With a public range instead, such as that of the questionnaire: set bands under [[recodes]] and the "
    "categories in codebook-recoded.toml, and remove provenance there."
)
UPPER = (
    "The risk that is shown is that of an informed attacker, who knows that the person is in the file: no weight or "
    "sampling fraction is given (--weight, --sampling-fraction). For the register attacker it is an upper figure."
)
UNFAVOURABLE = (
    "The least favourable shares have about half of the records or more in one combination of the table; where the "
    "records are spread over several, its intervals are narrower."
)
SAME = "The rest is the same for every plan, and stands below the last one: how columns leave, and what that reveals."
Checked = Literal["kept", "broken", "unknown"]
_CHECKED: dict[Checked | None, str] = {
    "kept": "Checked: as it is written, the whole plan keeps every limit on risk that is asked.",
    "unknown": (
        "Warning: epsilon was found with the risk of the keys that have categories alone. Whether the whole plan keeps "
        "the limits on risk is not known: give the other keys bands with [[recodes]], or drop them."
    ),
}
WITHOUT_THEM = "Without such a column, or with it in coarser groups or rounded, a larger epsilon may keep them."
_REGISTER = ("register_matches", "register_risk", "register_risk_largest", "register_household_risk_largest")
_RISKS = (
    *(*_REGISTER, "correct_matches", "individual_risk", "individual_risk_largest", "household_risk_largest"),
    *("joint_household_risk", "joint_household_risk_largest", "tau2"),
)


LEAST_EPSILON = (
    "Reason: the least epsilon of a record, so the strongest guarantee for it, against every attacker; less remains "
    "for tables. The risk from the attackers above can still be larger than in another plan: it also depends on which "
    "values of a record are released together."
)


def claims_in_words(trial: Trial) -> Iterator[str]:
    """Yield the claim on the whole record as a plain sentence, and what a large ε means."""
    plan = trial.plan
    yield record_claim(plan)
    yield from household_claim(trial)
    epsilon = trial.epsilon if trial.candidate.has_epsilon else 0.0
    yield from members_claims(plan.codebook, plan.unit, epsilon)
    yield from above_bound(epsilon)
    yield f"What epsilon means, and how to choose it: {GUIDE}."


def household_claim(trial: Trial) -> Iterator[str]:
    """Yield what the largest household and a person with the most records have together, where a plan protects them."""
    units = trial.mechanism.units
    for unit, most in () if units is None else units.bounds.items():
        if unit == "household" and units is not None and units.are_persons:
            continue
        level = unit_epsilon(trial.mechanism, unit, most)
        said = guesses_in_words(level, of=f"descriptions of the whole {unit}")
        little = f"; {TOO_LARGE}" if level > BOUND else ""
        of = f"household with up to {most} members" if unit == "household" else f"person with up to {most}"
        yield f"All records of a {of} together: epsilon = {upper_level(level)}: {said}{little}."


def record_claim(plan: Plan) -> str:
    """Return the plan's claim on the record as a plain sentence."""
    names = plan.codebook.in_order(plan.perturbed)
    return in_plain_words(plan.privacy, names, math.prod(plan.codebook[name].size for name in names))


def reasons(
    trial: Trial, chosen: Sequence[Trial], needs: Needs, met: Checked | None, counted: Pairs = ()
) -> Iterator[str]:
    """Yield why a plan is shown among the others, and what was chosen with the file; ``met`` where it was searched.

    ``counted`` are unperturbed columns by which the informed attacker weighs records, each with a key.
    """
    others = [one for one in chosen if one is not trial]
    own = trial.plan.codebook.in_order(needs.household_variables) if trial.candidate.of_members else ()
    without = f", without those of {few(own)}, of which other ways know no worth" if own else ""
    measures = ("tables of two variables", "two"), ("tables of one variable", "one"), ("what is named", "named")
    for what, value in measures:
        mine, best = getattr(trial, value), max((getattr(one, value) for one in others), default=0.0)
        if mine > best > 0 and mine > max(1.02 * best, 1.0):
            text = f"Reason: most for {what}: {shown(mine)} effective records, the next plan {shown(best)}"
            none = "; a table without an estimate is worth 0" if value != "named" and _lacks(others) else ""
            yield f"{text} ({HARMONIC}{without * (value != 'named')}, {BASES[EQUAL.basis]}{none})."
    if all(trial.detail > one.detail + 1e-9 for one in others if one.candidate.recodes) and any(
        one.candidate.recodes for one in others
    ):
        yield "Reason: all categories are kept."
    if trial.candidate.recodes:
        bands = [str(entry["variable"]) for entry in trial.candidate.recodes if "bands" in entry]
        rare = [str(entry["variable"]) for entry in trial.candidate.recodes if "merge_rare" in entry]
        done = [f"{', '.join(bands)} in bands by round edges"] * bool(bands)
        done += [f"rare categories of {', '.join(rare)} merged"] * bool(rare)
        raw = next(
            (one for one in others if one.candidate.way == trial.candidate.way and not one.candidate.recodes), None
        )
        before = mean_worth(raw.two, raw.two_way) if raw else ""
        gain = f": {shown(trial.two)} in place of {before} effective records" if raw else ""
        gain += f" ({HARMONIC}, {BASES[EQUAL.basis]})" if raw else ""
        yield f"Reason: {' and '.join(done)} leave more for tables of two variables{gain}."
    levels = [one.epsilon for one in others if one.candidate.has_epsilon]
    if levels and trial.candidate.has_epsilon and trial.epsilon < min(levels):
        yield LEAST_EPSILON
    if trial.plan.split is None and any(one.plan.split is not None for one in others):
        yield "Reason: every record shows all its variables, as regressions with many of them need."
    records = trial.one_way[0].records if trial.one_way else 0
    if records and (little := little_left(trial.mechanism, records, compare=False, at_hand=trial.one_way)):
        yield f"Warning: {little}"
    if met in _CHECKED:
        yield _CHECKED[met]
    if met in ("kept", "broken") and counted:
        yield f"Limits on the informed attacker count this: {going(counted)}. {WITHOUT_THEM}"
    if met == "broken":
        same = [one.epsilon for one in others if one.candidate.name == trial.candidate.name]
        is_least = trial.candidate.has_epsilon and trial.epsilon <= min([LEVELS[0], *same])
        level = "; it has the smallest epsilon that was tried" if is_least else ""
        yield f"Warning: this way does not keep every limit{level}."
    yield _basis(trial)
    shared = trial.mechanism.shared or (trial.plan.split is not None and trial.plan.split.of_members)
    if "models" in needs.uses and trial.plan.split is not None and not shared:
        text = "For regressions with more variables than a record shows, add completed = 20 to [release]"
        split = trial.mechanism.split
        made_up = "" if split is None else never_together(split)
        but = f" But {made_up}." if made_up else ""
        text += ": the copies come with tests, which name the variables of which results are not to be relied on."
        yield f"{text}{but}"


def _lacks(trials: Sequence[Trial]) -> bool:
    """Whether a table has no estimate in one of these plans."""
    return any(bool(without_estimate(one.one_way, one.two_way)) for one in trials)


def _basis(trial: Trial) -> str:
    """Return what chose the plan: the records, the codebook, or a codebook whose range may be the records'."""
    if trial.candidate.chosen_with == "file":
        return WITH_FILE
    bands = [str(entry["variable"]) for entry in trial.candidate.recodes if "bands" in entry]
    added = {str(entry["variable"]) for entry in trial.candidate.recodes}
    recodes = trial.plan.codebook.recodes
    public = few([one.variable for one in recodes if not one.provenance and one.variable not in added])
    said = WITH_SIZES.format(recodes=f" and recodes (of {public})" * bool(public)) + (UNMARKED if public else ".")
    said = BANDS.format(names=", ".join(bands)) if bands else said
    looked = [one.variable for one in recodes if one.is_confidential and one.variable not in added]
    return f"{said} {RECODED.format(names=few(looked))}" if looked else said


def at_a_glance(plans: Sequence[Advised]) -> Iterator[str]:
    """Yield one line for each plan: its level, the correct matches of an informed attacker, and its worst table.

    Why something is not known stands in the line of the first plan of which the same is said.
    """
    first: dict[str, int] = {}
    for number, plan in enumerate(plans, 1):
        figures, trial = plan.figures, plan.trial
        told = [f"epsilon = {trial.epsilon:g} for a record" if trial.candidate.has_epsilon else "no epsilon"]
        told += figures.levels[1:] if trial.candidate.has_epsilon and figures.unit_epsilon else ()
        if why := keys_not_counted(figures.uncounted) or left_out_briefly(figures.leaves_out("correct_matches")):
            at = first.setdefault(why, number)
            told.append(f"correct matches: not known{f': {why}' if at == number else f', as of plan {at}'}")
        elif (links := figures.risk("correct_matches")) is not None and links.before is not None:
            sides = (f"{value} ({where})" for value, where in figures.sides("correct_matches"))
            found = known_too_in(figures.risks)[:1]
            more = "".join(f"; about {about(one.links)} for who knows {one.name} too" for one in found)
            told.append(f"correct matches of the informed attacker: {', '.join(sides)}{more}")
        worths = [(one.effective_records, one.name) for one in (*figures.one_way, *figures.two_way)]
        if known := [(worth, name) for worth, name in worths if worth is not None]:
            worth, name = min(known)
            told.append(f"worst table {name}, worth {shown(worth)} unperturbed records")
        is_named = trial.estimated is not None and any(worth is not None for _, worth in trial.estimated.models)
        told += [f"what is named, worth {named_worth(trial)} on average"] if is_named else []
        if unknown := not_known((*figures.one_way, *figures.pairs)):
            at = first.setdefault(unknown, number)
            told.append(f"worth {unknown}" if at == number else f"worth of the same tables not known, as of plan {at}")
        told += [] if plan.checked is None else [rules_met(plan.checked)]
        told += _kept(plan.asked)
        told += without_estimate(figures.one_way, figures.pairs)
        told += [little] if (little := of_little_use(figures.one_way, figures.pairs)) else []
        told += [f"{one.title}: NOT met" for one in plan.verdicts if one.is_asked and not (one.is_met or one.is_told)]
        yield f"Plan {number} ({_way(trial)}): {'; '.join(told)}"


def _way(trial: Trial) -> str:
    """Return the name of a plan's way, in the words of whom it protects."""
    return words_of(trial.mechanism.units)(trial.candidate.name)


def attackers_of(plans: Sequence[Advised]) -> Iterator[str]:
    """Yield what a reader must know of figures and attackers, once, or with the plans of which it is said.

    Of some plans one knowledge is tried, of others two: their correct matches are then no fair comparison.
    """
    said: dict[str, list[str]] = {}
    if any(plan.trial.plan.codebook.recodes for plan in plans):
        yield IS_RECODED
    if any(one.is_tried for plan in plans for one in plan.verdicts):
        yield MET
    if any(of_little_use(plan.figures.one_way, plan.figures.pairs) for plan in plans):
        yield f"Of little use: a table that is worth {LITTLE}."
    for number, plan in enumerate(plans, 1):
        for text in (*plan.figures.only_keys, *plan.figures.knowledge):
            said.setdefault(text, []).append(str(number))
    for text, numbers in said.items():
        which = f"Plan{'s' * (len(numbers) > 1)} {', '.join(numbers)}: " if len(numbers) < len(plans) else ""
        yield f"{which}{text}"
    if len({plan.figures.knowledge for plan in plans if plan.figures.knowledge}) > 1:
        yield "The correct matches of these plans rest on different knowledge: with all keys known, there can be more."


def _kept(asked: Sequence[Asked]) -> Iterator[str]:
    """Yield how many limits are met, and which are not, and how many precisions: one by its verdict."""
    limits = [one for one in asked if not one.is_precision]
    if limits:
        missed = [f", NOT {one.text} ({_after(one)})" for one in limits if one.after is not None and not one.is_met]
        left = [f", not known: {one.text}" for one in limits if one.after is None]
        yield f"limits asked: {sum(one.is_met for one in limits)} of {len(limits)} met{''.join([*missed, *left])}"
    precise = [one for one in asked if one.is_precision]
    if len(precise) == 1:
        yield f"precision: {precise[0].verdict}"
    elif precise:
        verdicts = Counter(one.verdict for one in precise)
        yield f"precision: {'; '.join(f'{many} of {len(precise)} {verdict}' for verdict, many in verdicts.items())}"


def plans_lines(plans: Sequence[Advised]) -> Iterator[str]:
    """Yield all plans in lines; how columns leave, and what they reveal, stands once where it is the same for all."""
    leaving = [list(_leaving(plan)) for plan in plans]
    alike = [line for line in leaving[0] if all(line in lines for lines in leaving)] if len(plans) > 1 else []
    for number, plan in enumerate(plans, 1):
        yield from ("", *plan_lines(number, plan, alike))
    if alike:
        yield from ("", f"{'Both' if len(plans) == BOTH else f'All {len(plans)}'} plans:", *alike)


def plan_lines(number: int, plan: Advised, elsewhere: Collection[str] = ()) -> Iterator[str]:
    """Yield a plan in a few lines: claim, risk, worth, what is asked, and how it leaves where not told elsewhere."""
    trial, figures = plan.trial, plan.figures
    epsilon = trial.epsilon if trial.candidate.has_epsilon else 0.0
    level = f", epsilon = {trial.epsilon:g}" if trial.candidate.has_epsilon else ""
    yield f"Plan {number}: {_way(trial)}{level} ({plan.path})"
    yield f"  {words_of(trial.mechanism.units)(trial.candidate.what)}"
    yield from (f"  {note}" for note in trial.candidate.notes)
    yield f"  Claim: {record_claim(trial.plan)}"
    members = members_claims(trial.plan.codebook, trial.plan.unit, epsilon, figures.largest_household)
    yield from (f"  Claim: {text}" for text in (*members, *household_claim(trial)))
    yield from (f"  {text}" for text in above_bound(epsilon))
    for one in sorted(figures.risks, key=lambda one: one.code not in _REGISTER):
        if one.code in _RISKS and one.before is not None and not figures.uncounted:
            *told, last = (f"{value} {where}" for value, where in figures.sides(one.code))
            yield f"  Risk: {one.measure}: {'; '.join(told)}, {last}"
    if figures.uncounted:
        yield f"  Risk: not known: {keys_not_counted(figures.uncounted)}"
    yield from (f"  Risk: {text}" for text in (*figures.known_too, *figures.guessed, *figures.warnings))
    for what, worths in (("tables of one variable", figures.one_way), ("tables of two variables", figures.pairs)):
        yield from (f"  Worth: {line}" for line in worth_line(what, worths))
    yield from (f"  Worth: {text}" for text in more_in_two(figures.one_way, figures.two_way))
    yield from (f"  Worth: {text}" for text in (*figures.of_three, figures.small, *figures.lacking) if text)
    yield from (f"  Warning: {text}" for text in none_of_use(figures.two_way))
    for asked in plan.asked:
        yield f"  Asked: {asked.text}: {_met(asked, figures.before_is)}{_all_known(asked.text, figures)}"
    yield from (f"  Asked: {one}" for one in plan.verdicts if one.is_asked)
    yield from (f"  Not asked: {one}" for one in plan.verdicts if not one.is_asked)
    yield from () if plan.checked is None else (f"  Rule not met: {text}" for text in unmet_in_words(plan.checked))
    yield from (line for line in _leaving(plan) if line not in elsewhere)
    if elsewhere:
        yield f"  {SAME}"


def _leaving(plan: Advised) -> Iterator[str]:
    """Yield how each column and the order of the records leave, what that reveals, and why the plan is shown."""
    yield from (f"  Moved in rank: {text}" for text in plan.figures.moves)
    yield from (f"  {text}" for text in all_in_words(plan.figures.ways))
    yield f"  Order of the records: {ORDERS[plan.trial.plan.release.shuffle]}"
    yield from (f"  {heading}: {text}" for heading, text in plan.findings)
    yield from (f"  {why}" for why in plan.reasons)


def next_steps(needs: Needs, plans: Sequence[Advised]) -> Iterator[str]:
    """Yield what to do about limits on risk that the first plan is known not to keep, and precisions that any is."""
    if plans and all(plan.trial.is_useless for plan in plans):
        yield (
            "Next: at this epsilon no table is of use in any plan: allow a larger one (docs/choosing-epsilon.md), name "
            "fewer keys, or release nothing."
        )
    missed = [[one for one in plan.asked if one.after is not None and not one.is_met] for plan in plans]
    asked = {str(limit) for limit in needs.of_file if not limit.is_rule}
    at_any = "joint_household_risk"  # of a household that is alone with its size
    broken = [one for held in missed[:1] for one in held if not (one.text.startswith(at_any) and one.after == 1.0)]
    is_broken = any(one.text in asked for one in broken) or any(is_risk_broken(needs, plan) for plan in plans)
    if is_broken and not needs.look:
        stated = next((f" --limit '{limit}'" for limit in needs.asked if limit.measure == "epsilon"), "")
        tune = "For a plan of blocks 'postrand tune --plan' finds it too. "
        tune *= any(plan.trial.plan.split is None for plan in plans)
        yield (
            f"Next: for a limit on risk that is not met, repeat with --look{stated}: it finds the largest epsilon that "
            f"meets every limit, to within {NARROW:.0%}; the records then choose it, and the certificate says so. "
            f"{tune}Or ask for a smaller epsilon of your own choice."
        )
    if any(one.is_precision for held in missed for one in held):
        yield (
            "Next: for a precision that is not met or not certain, make categories coarser, ask for a table of fewer "
            "variables, name fewer keys, or allow a larger epsilon, unless a line above says that none is enough; a "
            f"smaller epsilon makes tables worse. One that is not certain may need none of this. {UNFAVOURABLE}"
        )


def _all_known(text: str, figures: PlanFigures) -> str:
    """Return what a limit leaves out: the attacker who knows all members of a household, or the smallest class."""
    if text.startswith("k >="):
        return "; this is one over the largest risk of a person, not the smallest class, which is k in a policy"
    name, _, about = text.partition("household_risk <= ")
    one = figures.risk(f"{name}joint_household_risk_largest") if about and "joint" not in name else None
    if one is None or one.before is None:
        return ""
    who = "an attacker who knows the keys of all members"
    value = "not known" if one.after is None else f"{_number(one.after)} at most"
    return f"; to {who}, to whom this limit does not apply: {value} ({name}joint_household_risk)"


def _met(asked: Asked, before_is: str) -> str:
    """Return whether what is asked is kept, and its values: those of a limit have the limit's own unit."""
    if asked.after is None:
        return f"{asked.verdict}: {asked.why}" if asked.why else asked.verdict
    if asked.alike is not None:
        basis = "" if asked.drawn is None else asked.drawn.weighted
        told = (
            f"at most {_after(asked)} points of each cell's share of all records, at the least favourable shares{basis}"
        )
        return f"{asked.verdict} ({told}; {_number(asked.alike)} points {BASES[EQUAL.basis]})"
    then = "" if asked.before is None else f"; {_number(asked.before, least=asked.is_least)} {before_is}"
    return f"{asked.verdict} ({_after(asked)}{then})"


def _after(asked: Asked) -> str:
    """Return the value of what is asked, never rounded to the other side of its bound."""
    if asked.after is None:
        return "not known"
    return _number(asked.after, asked.bound, least=asked.is_least) + " at most" * asked.is_most


def _number(value: float, bound: float = math.inf, *, least: bool = False) -> str:
    return "no bound" if math.isinf(value) else beside_limit(value, bound, least=least)
