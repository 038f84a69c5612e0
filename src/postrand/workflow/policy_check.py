"""A plan against the office's thresholds: one page with every rule, before and after, and whether it is met."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from postrand.errors import PolicyError, PrivacyError, sentence
from postrand.plan.policy import GUESSES, MEANS, Policy, Rule
from postrand.release.ledger import Outlook
from postrand.release.ledger_report import outlook_data, outlook_lines
from postrand.report.table_worth import TableWorth, shown
from postrand.report.text import beside_limit
from postrand.risk.finding import listed
from postrand.support.exact import upper_level
from postrand.support.showing import capital, few, outward, outward_percent
from postrand.support.worth_basis import BASES
from postrand.workflow.broken_rules import Broken, broken_by, broken_in_words
from postrand.workflow.comparison import NOTICE, PlanFigures
from postrand.workflow.comparison_risk import AS_IS, NO_HOUSEHOLD, RiskFigure, attackers
from postrand.workflow.doubted import DOUBTED, certain, certain_share
from postrand.workflow.larger import is_larger, reasons
from postrand.workflow.near_misses import near_mean, near_share
from postrand.workflow.policy_steps import NAMES, NO_LEDGER, NO_UNIT, UNITS, next_step
from postrand.workflow.risk_left_out import is_informed
from postrand.workflow.ruled_guesses import POINTS, guess_ruled
from postrand.workflow.ruled_tables import NAMED, tables_of, unknown

NO_GUARANTEE = "no guarantee"
NO_NUMBERS = "does not apply: no household numbers"
NO_TABLE = "does not apply: the release has no such table"
FOUND = "Besides the rules, found in what leaves"
AT_MOST = " at most"
BOTH = ", which both worths must reach"
"""What follows the limit of a rule on worth where it is told under equal frequencies and under those of the file."""
TOGETHER = (
    "the rules on households are about attackers who look for one person at a time; to one who knows all members, the "
    "risk of a household is above the same limit (measure 'joint_household_risk')"
)
_FROM = {"correct_matches_share": "correct_matches", "household_risk_mean": "household_risk"}


class PolicyWarning(UserWarning):
    """A plan that does not meet a rule of its policy, which is not enforced."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Say of one rule what it asks, what holds before and after the plan, and whether the plan meets it.

    ``why``: the reason where a rule is not met because its measure is not known, names of tables that fail, or that it
    is missed by less than simulated releases can tell.
    ``step``: what makes a measure known. ``broken``: by which columns, known too, a rule fails that is met.
    """

    rule: str
    limit: str
    before: str
    after: str
    is_met: bool
    why: str = ""
    step: str = ""
    broken: tuple[Broken, ...] = ()

    @property
    def beside(self) -> str:
        """What a verdict is told with: why, and for whom a rule fails that is met."""
        return "; ".join(filter(None, (self.why, broken_in_words(self.broken))))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        plain = {name: getattr(self, name) for name in self.__slots__ if name != "broken"}
        return {**plain, "broken": [one._asdict() for one in self.broken]}

    def row(self) -> dict[str, object]:
        """Return the rule as a row of a page."""
        verdict = "pass" if self.is_met else "FAIL"
        text = f"{verdict}: {self.why}" if self.why else verdict
        text += f"; but {broken_in_words(self.broken)}" * bool(self.broken)
        text += f". Next: {self.step}" if self.step and not self.is_met else ""
        return {"Rule": self.rule, "Limit": self.limit, "Before": self.before, "After": self.after, "Result": text}


@dataclass(frozen=True, slots=True)
class PolicyCheck:
    """Hold the verdict on each rule of a policy for one plan. Its figures are internal, as those of the plan are.

    ``notes`` say why a risk can be larger after the plan than before, how far numbers move, which recodes
    merge too few, and which codes for no answer count as values; ``ledger`` what that of the plan would say;
    ``findings`` what unperturbed columns give away, of which no rule is; ``not_ruled``, in a sentence, what the release
    has and no rule is about; ``apart`` that rules on households are not about who knows all members.
    """

    plan: str
    title: str
    verdicts: tuple[Verdict, ...]
    enforce: bool = True
    notes: tuple[str, ...] = ()
    before_is: str = AS_IS
    ledger: Outlook | None = None
    findings: tuple[str, ...] = ()
    not_ruled: str = ""
    apart: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the plan meets every rule."""
        return all(one.is_met for one in self.verdicts)

    @property
    def exit_code(self) -> int:
        """The exit code of 'postrand check': 5 where the ledger would refuse the release, else 11 for a rule, else 0.

        A run asks the ledger first, so it ends with the same.
        """
        if self.ledger is not None and self.ledger.problems:
            return PrivacyError.exit_code
        return 0 if self.is_met else PolicyError.exit_code

    @property
    def beside(self) -> tuple[str, ...]:
        """What the rules do not say, in sentences: who finds more than they are about, and what none is about."""
        apart = f"{capital(self.apart)}." if self.apart else ""
        return tuple(filter(None, (apart, self.not_ruled)))

    @property
    def failed(self) -> tuple[Verdict, ...]:
        """The rules that the plan does not meet."""
        return tuple(one for one in self.verdicts if not one.is_met)

    def rows(self) -> list[dict[str, object]]:
        """Return a row for each rule."""
        return [one.row() for one in self.verdicts]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: internal."""
        rules = [one.to_dict() for one in self.verdicts]
        about = {"notice": NOTICE, "plan": self.plan, "title": self.title}
        return {
            **about,
            "met": self.is_met,
            "enforced": self.enforce,
            "before_is": self.before_is,
            "rules": rules,
            "notes": list(self.notes),
            "findings": list(self.findings),
            "not_ruled": self.not_ruled,
            "apart": self.apart,
            **({} if self.ledger is None else {"ledger": outlook_data(self.ledger)}),
        }

    def __repr__(self) -> str:
        failed = len(self.failed)
        return f"PolicyCheck({self.plan}: {len(self.verdicts)} rules, {failed} not met; internal)"

    def __str__(self) -> str:
        """Return the page as text: internal."""
        head = ("Rule", "Limit", "Before", "After", "Result")
        cells = [head, *(tuple(str(value) for value in one.row().values()) for one in self.verdicts)]
        wide = [max(len(row[k]) for row in cells) for k in range(4)]
        lines = ["  ".join(f"{text:<{w}}" for text, w in zip(row, [*wide, 0], strict=True)).rstrip() for row in cells]
        total = f"{len(self.verdicts) - len(self.failed)} of {len(self.verdicts)} rules are met"
        return "\n".join(
            [
                f"{self.title or 'Policy'}: {self.plan}",
                NOTICE,
                "",
                *lines,
                f"Before: {self.before_is}.",
                *self.notes,
                *(["", f"{FOUND}:"] if self.findings else []),
                *(f"- {text}" for text in self.findings),
                *([] if self.ledger is None else ["", *outlook_lines(self.ledger)]),
                "",
                total,
                *self.beside,
            ]
        )

    def require(self) -> None:
        """Raise PolicyError with every rule that is not met, if the policy is enforced."""
        if self.enforce and not self.is_met:
            raise PolicyError(self.problems())

    def problems(self) -> list[str]:
        """Return a sentence for each rule that is not met: without figures, because messages may be kept in logs."""
        where = self.title or "policy"
        what = "a rule of the policy is not met"
        return [
            sentence(
                f"{what}: {one.rule}",
                where=where,
                got=one.why if "not known" in one.why else None,
                wanted=one.limit,
                fix=one.step or "run 'postrand check' for the figures, then change the plan",
            )
            for one in self.failed
        ]


def check_policy(figures: PlanFigures, policy: Policy) -> PolicyCheck:
    """Return which rules of a policy a plan meets. A measure that is not known meets no rule: the page says why."""
    made = {"risk": _shares, "class": _shares, "worth": _worth, "never": _never, "most": _most}
    found = ((rule, made[rule.kind](rule, figures)) for rule in policy.rules)
    verdicts = tuple(
        dataclasses.replace(
            one, step=one.step or next_step(rule, figures, name=one.rule, why=one.why, is_met=one.is_met)
        )
        for rule, one in ((rule, _too_low(one, rule, figures)) for rule, one in found)
    )
    larger = reasons(_FROM.get(rule.measure, rule.measure) for rule in policy.rules if _is_larger(rule, figures))
    ruled = {_FROM.get(rule.measure, rule.measure) for rule in policy.rules}
    about = attackers([one for one in figures.risks if one.code in ruled])
    about = (*(figures.found_by_size if figures.is_perturbed else ()), *about)
    about = (*((*figures.only_keys, *figures.known_too) if any(figures.risk(name) for name in ruled) else ()), *about)
    about = (*[f"{'; '.join(figures.levels)}."] * ("epsilon" in ruled and bool(figures.levels)), *about)
    notes = (*about, *larger, *figures.moves, *figures.unmoved, *figures.merged, *figures.swallowed)
    page = PolicyCheck(figures.name, policy.title, verdicts, policy.enforce, notes, figures.before_is, figures.ledger)
    told = tuple(text for text in figures.findings if text not in notes)
    apart = _apart(policy, figures)
    return dataclasses.replace(page, findings=told, not_ruled=_not_ruled(ruled, figures, apart), apart=apart)


def _too_low(verdict: Verdict, rule: Rule, figures: PlanFigures) -> Verdict:
    """Return the verdict on a rule that is met with a word on what its figure leaves out, and who breaks it."""
    is_link = figures.risk(_FROM.get(rule.measure, rule.measure)) is not None and rule.kind != "class"
    left = [one for one in figures.in_part if not (is_informed(rule.measure) and one in figures.counted)]
    if not (verdict.is_met and is_link):
        return verdict
    told = [f"{few(list(dict.fromkeys(name for name, _ in left)))}{TOO_LOW}"] * bool(left)
    why = "; ".join(filter(None, (verdict.why, *told)))
    return dataclasses.replace(verdict, why=why, broken=broken_by(rule, figures))


TOO_LOW = " is not counted, so that the figure is too low"
"""What a rule that is met is told with, where an unperturbed column goes with keys."""


def _apart(policy: Policy, figures: PlanFigures) -> str:
    """Return that rules on households are about who looks for one person at a time, where others have more risk.

    "" where a rule is about who knows all members, or to whom the risk is within the limit, or is not known.
    """
    measures = {rule.measure for rule in policy.rules}
    for name in ("household_risk", "register_household_risk"):
        joint = name.replace("household", "joint_household")
        held = [dataclasses.replace(one, measure=joint) for one in policy.rules if one.measure == name]
        if joint not in measures and any(_is_above(one, figures) for one in held):
            return figures.words(TOGETHER)
    return ""


def _is_above(rule: Rule, figures: PlanFigures) -> bool:
    """Whether more households than a rule allows are above its limit; not where that is not known."""
    found = figures.risk(rule.measure)
    share = None if found is None else certain_share(found, rule.limit, rule.share)
    return share is not None and share > rule.share and not figures.leaves_out(rule.measure)


def _not_ruled(ruled: Collection[str], figures: PlanFigures, apart: str = "") -> str:
    """Return in a sentence what leaves and no rule is about, and other releases; "" where the rules are about all.

    Who knows all members of a household is left out where ``apart`` says it.
    """
    known = figures.risk("household_risk")
    has_households = any(one.way == "new numbers" for one in figures.ways) or (
        known is not None and known.before is not None
    )
    whole = "the risk of persons with several records" if figures.words("household") == "person" else "households"
    left = [whole] * (has_households and not any("household" in measure for measure in ruled))
    joint = figures.risk("joint_household_risk")
    has_joint = "household_risk" in ruled and joint is not None and joint.before is not None
    said = figures.words("attackers who know the keys of all members of a household")
    left += [said] * (has_joint and not apart and not any("joint" in measure for measure in ruled))
    left += ["unperturbed columns"] * bool(figures.unperturbed and figures.findings and "unperturbed" not in ruled)
    left += ["other releases of the same persons"] * ("total_epsilon" not in ruled)
    return f"No rule is about {listed(left, 'or')}." if left else ""


def _is_larger(rule: Rule, figures: PlanFigures) -> bool:
    """Whether what a rule is about is worse after the plan than before it."""
    found = _measured(rule.measure, figures)
    if found is None or rule.kind not in ("risk", "class"):
        return found is not None and is_larger(found)
    held = next((s for s in found.shares if s[0] == rule.limit), None)
    return held is not None and held[2] is not None and held[2] > held[1] + 1e-9


def _most(rule: Rule, figures: PlanFigures) -> Verdict:
    limit = f"at most {_bound(rule)}"
    if rule.measure == "epsilon":
        after, met = upper_level(figures.epsilon), figures.epsilon <= rule.limit
        return Verdict(NAMES["epsilon"], limit, NO_GUARANTEE, after, met, _of_this_alone(figures))
    if rule.measure == "total_epsilon":
        return _total(limit, rule.limit, figures)
    if rule.measure in UNITS:
        return _unit_level(rule, limit, figures)
    if rule.measure in GUESSES:
        return Verdict(NAMES[rule.measure], limit, *guess_ruled(rule, figures))
    found = _measured(rule.measure, figures)
    if found is None or found.after is None or figures.leaves_out(rule.measure):
        return _not_known(rule, limit, found, figures)
    decides = certain(found, rule.limit)
    if decides is None:
        return _not_known(rule, limit, dataclasses.replace(found, why=DOUBTED), figures)
    is_share = rule.measure in MEANS
    after = f"{beside_limit(100 * decides, 100 * rule.limit)}%" if is_share else beside_limit(decides, rule.limit)
    after += AT_MOST * (decides > found.after)
    near = near_mean(rule.limit, found, decides)
    return Verdict(found.measure, limit, _value(rule, found.before), after, decides <= rule.limit, near)


def _measured(measure: str, figures: PlanFigures) -> RiskFigure | None:
    """Return a measure of risk of a plan; a share of all records, or a mean, is made of another one."""
    found = figures.risk(_FROM.get(measure, measure))
    if found is None or measure != "correct_matches_share":
        return found
    whole = max(figures.records, 1)
    before, after = (None if value is None else value / whole for value in (found.before, found.after))
    name = "Expected correct matches, informed attacker: share of all records"
    return dataclasses.replace(found, measure=name, before=before, after=after, error=found.error / whole)


def _of_this_alone(figures: PlanFigures) -> str:
    """Return that the ε of a later release is not that of all of them."""
    if figures.series is None or figures.series.number == 1 or figures.series.disjoint:
        return ""
    return f"of this release alone; with the earlier ones, ε = {figures.series.total} (measure 'total_epsilon')"


def _total(limit: str, most: float, figures: PlanFigures) -> Verdict:
    """Compare the ε of all releases of a population so far; where no ledger counts them, the rule is not met."""
    name = NAMES["total_epsilon"]
    if figures.series is None:
        return Verdict(name, limit, "not known", "not known", False, f"it is not known: {NO_LEDGER}")
    total = figures.series.total
    return Verdict(name, limit, NO_GUARANTEE, str(total), total.epsilon is not None and total.epsilon <= most)


def _unit_level(rule: Rule, limit: str, figures: PlanFigures) -> Verdict:
    """Compare the ε of the largest household or person; where it is not stated, the rule is not met."""
    unit, name = UNITS[rule.measure], NAMES[rule.measure]
    level = figures.unit_epsilon.get(unit)
    if level is not None:
        return Verdict(name, limit, NO_GUARANTEE, upper_level(level), level <= rule.limit)
    if _no_households(rule, figures):
        return Verdict(name, limit, "–", "–", True, NO_NUMBERS)
    return Verdict(name, limit, NO_GUARANTEE, "not known", False, f"it is not known: {NO_UNIT.format(unit=unit)}")


def _shares(rule: Rule, figures: PlanFigures) -> Verdict:
    """Compare the share of persons, households or records beyond the limit."""
    found = figures.risk(rule.measure)
    below = rule.kind == "class"
    limit = f"at {'least' if below else 'most'} {_bound(rule)}"
    limit += f" for all but {100 * rule.share:g}%" if rule.share else " for all"
    held = None if found is None else next((s for s in found.shares if s[0] == rule.limit), None)
    word = "of the records below the limit" if below else "have more"
    if found is None or held is None or held[2] is None or figures.leaves_out(rule.measure):
        before = "not known" if held is None else f"{outward_percent(held[1])} {word}"
        return _not_known(rule, limit, found, figures, before)
    sides = [f"{beside_limit(100 * share, 100 * rule.share)}% {word}" for share in held[1:] if share is not None]
    decides = certain_share(found, rule.limit, rule.share)
    if decides is None:
        return _not_known(rule, limit, dataclasses.replace(found, why=DOUBTED), figures, sides[0])
    if decides > held[2]:
        sides[-1] = f"{beside_limit(100 * decides, 100 * rule.share)}% {word}{AT_MOST}"
    if largest := figures.risk(f"{rule.measure}_largest"):
        told = (largest.before, largest.after)
        sides = [f"{text}{_largest(value)}" for text, value in zip(sides, told, strict=True)]
    name = found.measure.partition(":")[0]
    near = near_share(rule, found, decides, figures)
    return Verdict(name, limit, sides[0], sides[-1], decides <= rule.share, near)


def _largest(value: float | None) -> str:
    """Return the largest risk in words, behind the share of those above a limit, which does not tell it."""
    return "" if value is None else f"; largest {outward_percent(value)}"


def _worth(rule: Rule, figures: PlanFigures) -> Verdict:
    chosen = tables_of(rule, figures)
    values = [one.effective_records for one in chosen if one.effective_records is not None]
    limit = f"at least {rule.limit:g}" + (f" for all but {100 * rule.share:g}%" if rule.share else "")
    poor = len(chosen) - sum(v >= rule.limit for v in values)
    held = [one for one in chosen if one.effective_records is not None]
    own = [one for one in map(figures.least_own, ([one] for one in held)) if one is not None]
    less = [one.name for one in own if (one.effective_records or 0.0) < rule.limit]
    met = max(poor, len(less)) <= rule.share * len(chosen)
    below = [] if met else [one.name for one in chosen if (one.effective_records or rule.limit) < rule.limit]
    less = [] if met else [name for name in less if name not in below]
    why = [f"below: {few(below, NAMED)}"] * bool(below)
    why += [f"below {BASES['file']}: {few(less, NAMED)}"] * bool(less)
    why += [*(f"not known: {text}" for text in unknown(chosen)), *[NO_TABLE] * (not chosen)]
    least_own = figures.least_own(held)
    limit += BOTH if values and _is_other(least_own, min(values)) else ""
    after = _worth_after(rule, values, least_own, len(chosen))
    return Verdict(name_of_worth(rule), limit, f"{figures.records:,}", after, met, "; ".join(why))


def name_of_worth(rule: Rule) -> str:
    """Return what a rule on worth is about, as it stands on a page.

    >>> name_of_worth(Rule("effective_records", 50.0, tables=(("sex", "age"),)))
    'Unperturbed records that a table is worth: sex × age'
    """
    if isinstance(rule.tables, str):
        about = f"{rule.tables} tables".replace("all tables", "all tables of one or two")
    else:
        about = ", ".join(" × ".join(names) for names in rule.tables)
    return f"{NAMES['effective_records']}: {about}"


def _worth_after(rule: Rule, values: Sequence[float], own: TableWorth | None, tables: int) -> str:
    """Return the least worth of so many tables, and of ``own``, the least with the file's frequencies if another."""
    if not values:
        return "not known" if tables else "none"
    least = min(values)
    is_other = _is_other(own, least)
    under = " if all were equally frequent" if is_other else " at least" * (least >= 1)
    text = f"{_least(least, rule.limit)}{under}" + " where it is known" * (len(values) < tables)
    if own is None or not is_other:
        return text
    return f"{text}; {_least(own.effective_records or 0.0, rule.limit)} {BASES['file']} ({own.name})"


def _is_other(own: TableWorth | None, least: float) -> bool:
    """Whether the least worth with the file's own frequencies is told beside the other."""
    return own is not None and shown(own.effective_records) != shown(least)


def _least(worth: float, limit: float) -> str:
    """Return effective records that are to be at least a limit: one that misses it is not rounded up to it."""
    is_told = worth >= limit or worth < 1 or round(worth) < limit
    return shown(worth) if is_told else beside_limit(worth, limit, least=True)


def _never(rule: Rule, figures: PlanFigures) -> Verdict:
    found = [name for name in rule.never if name in figures.unperturbed]
    after = ", ".join(found) or "none of them"
    absent = [name for name in rule.never if name not in figures.columns]
    why = [f"{', '.join(found)} released unperturbed"] if found else []
    why += [f"no column of this file: {', '.join(absent)}"] if absent else []
    return Verdict(NAMES["unperturbed"], f"never {', '.join(rule.never)}", "", after, not found, "; ".join(why))


def _no_households(rule: Rule, figures: PlanFigures) -> bool:
    """Whether a rule is about households, and neither roles, names nor alike neighbours say that there are any."""
    known = figures.risk("household_risk")
    if figures.may_link or figures.neighbours:
        return False
    return "household" in rule.measure and known is not None and known.why == NO_HOUSEHOLD


def _not_known(
    rule: Rule, limit: str, found: RiskFigure | None, figures: PlanFigures, before: str | None = None
) -> Verdict:
    """Say that a measure is not known after; ``before`` in the unit of the limit, where it is not the figure itself."""
    name = rule.measure if found is None else found.measure
    name = name.partition(":")[0] if rule.kind in ("risk", "class") else name
    if _no_households(rule, figures):
        return Verdict(name, limit, "–", "–", True, NO_NUMBERS)
    reason, _, step = ("" if found is None else found.why).rstrip(".").partition(". Next: ")
    why = f"it is not known: {reason}" if reason else "it is not known"
    if figures.leaves_out(rule.measure):
        why = f"it is not known: {'; '.join(figures.leaves_out(rule.measure))}"
    if before is None:
        before = "not known" if found is None else _value(rule, found.before)
    before = "not known" if figures.leaves_out(rule.measure) else before
    return Verdict(name, limit, before, "not known", False, why, "" if figures.leaves_out(rule.measure) else step)


def _bound(rule: Rule) -> str:
    """Return the limit of a rule as the values beside it are shown: probabilities and shares in per cent."""
    if rule.measure == "guess_gain":
        return f"{100 * rule.limit:g}{POINTS}"
    is_share = rule.kind == "risk" or rule.measure in MEANS
    return f"{100 * rule.limit:g}%" if is_share else f"{rule.limit:g}"


def _value(rule: Rule, value: float | None) -> str:
    """Return the value of a measure in the unit of its limit."""
    if value is None:
        return "not known"
    return outward_percent(value) if rule.measure in MEANS else outward(value)
