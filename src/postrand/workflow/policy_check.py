"""A plan against the office's thresholds: one page with every rule, before and after, and whether it is met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from postrand.errors import PolicyError, sentence
from postrand.plan.policy import Policy, Rule
from postrand.release.ledger import Outlook
from postrand.release.ledger_report import outlook_data, outlook_lines
from postrand.report.table_worth import TableWorth, shown
from postrand.report.text import decimal
from postrand.support.exact import format_upper
from postrand.workflow.comparison import NOTICE, PlanFigures
from postrand.workflow.comparison_risk import AS_IS, NO_HOUSEHOLD, NO_SHARE, RiskFigure
from postrand.workflow.larger import is_larger, reasons

NAMES = {
    "epsilon": "Certified ε of a record",
    "effective_records": "Unperturbed records that a table is worth",
    "unperturbed": "Released unperturbed",
}


class PolicyWarning(UserWarning):
    """A plan that does not meet a rule of its policy, which is not enforced."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Say of one rule what it asks, what holds before and after the plan, and whether the plan meets it.

    ``why``: the reason where a rule is not met because its measure is not known, or names of tables that fail.
    """

    rule: str
    limit: str
    before: str
    after: str
    is_met: bool
    why: str = ""

    def row(self) -> dict[str, object]:
        """Return the rule as a row of a page."""
        verdict = "pass" if self.is_met else "FAIL"
        text = f"{verdict}: {self.why}" if self.why else verdict
        return {"Rule": self.rule, "Limit": self.limit, "Before": self.before, "After": self.after, "Result": text}


@dataclass(frozen=True, slots=True)
class PolicyCheck:
    """Hold the verdict on each rule of a policy for one plan. Its figures are internal, as those of the plan are.

    ``notes`` say why a risk can be larger after the plan than before, and how far numbers move; ``ledger`` what that of
    the plan would say.
    """

    plan: str
    title: str
    verdicts: tuple[Verdict, ...]
    enforce: bool = True
    notes: tuple[str, ...] = ()
    before_is: str = AS_IS
    ledger: Outlook | None = None

    @property
    def is_met(self) -> bool:
        """Whether the plan meets every rule."""
        return all(one.is_met for one in self.verdicts)

    @property
    def failed(self) -> tuple[Verdict, ...]:
        """The rules that the plan does not meet."""
        return tuple(one for one in self.verdicts if not one.is_met)

    def rows(self) -> list[dict[str, object]]:
        """Return a row for each rule."""
        return [one.row() for one in self.verdicts]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: internal."""
        names = Verdict.__slots__
        rules = [{name: getattr(one, name) for name in names} for one in self.verdicts]
        about = {"notice": NOTICE, "plan": self.plan, "title": self.title}
        return {
            **about,
            "met": self.is_met,
            "enforced": self.enforce,
            "before_is": self.before_is,
            "rules": rules,
            "notes": list(self.notes),
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
                *([] if self.ledger is None else ["", *outlook_lines(self.ledger)]),
                "",
                total,
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
        return [sentence(f"{what}: {one.rule}", where=where, wanted=one.limit, fix=_next(one)) for one in self.failed]


def check_policy(figures: PlanFigures, policy: Policy) -> PolicyCheck:
    """Return which rules of a policy a plan meets. A measure that is not known meets no rule: the page says why."""
    made = {"risk": _shares, "class": _shares, "worth": _worth, "never": _never, "most": _most}
    verdicts = tuple(made[rule.kind](rule, figures) for rule in policy.rules)
    larger = reasons(rule.measure for rule in policy.rules if _is_larger(rule, figures))
    notes = (*larger, *figures.moves)
    return PolicyCheck(figures.name, policy.title, verdicts, policy.enforce, notes, figures.before_is, figures.ledger)


def _is_larger(rule: Rule, figures: PlanFigures) -> bool:
    """Whether what a rule is about is worse after the plan than before it."""
    found = figures.risk(rule.measure)
    if found is None or rule.kind not in ("risk", "class"):
        return found is not None and is_larger(found)
    held = next((s for s in found.shares if s[0] == rule.limit), None)
    return held is not None and held[2] is not None and held[2] > held[1] + 1e-9


def _most(rule: Rule, figures: PlanFigures) -> Verdict:
    limit = f"at most {rule.limit:g}"
    if rule.measure == "epsilon":
        return Verdict(NAMES["epsilon"], limit, "none", format_upper(figures.epsilon), figures.epsilon <= rule.limit)
    found = figures.risk(rule.measure)
    if found is None or found.after is None or figures.risk_leaves_out:
        return _not_known(rule, limit, found, figures)
    return Verdict(found.measure, limit, _number(found.before), _number(found.after), found.after <= rule.limit)


def _shares(rule: Rule, figures: PlanFigures) -> Verdict:
    """Compare the share of persons, households or records beyond the limit."""
    found = figures.risk(rule.measure)
    below = rule.kind == "class"
    limit = f"at least {rule.limit:g}" if below else f"at most {rule.limit:g}"
    limit += f" for all but {100 * rule.share:g}%" if rule.share else " for all"
    held = None if found is None else next((s for s in found.shares if s[0] == rule.limit), None)
    word = "below" if below else "above"
    if found is None or held is None or held[2] is None or figures.risk_leaves_out:
        before = "not known" if held is None else f"{decimal(100 * held[1])}% {word}"
        return _not_known(rule, limit, found, figures, before)
    sides = [f"{decimal(100 * share)}% {word}" for share in held[1:] if share is not None]
    name = found.measure.partition(":")[0]
    return Verdict(name, limit, sides[0], sides[-1], held[2] <= rule.share)


def _worth(rule: Rule, figures: PlanFigures) -> Verdict:
    chosen: list[TableWorth | None] = []
    if isinstance(rule.tables, str):
        chosen += figures.one_way if rule.tables in ("one-way", "all") else ()
        chosen += figures.two_way if rule.tables in ("two-way", "all") else ()
        about = f"{rule.tables} tables".replace("all tables", "all tables of one or two")
    else:
        known = {frozenset(one.variables): one for one in figures.tables}
        chosen += [known.get(frozenset(names)) for names in rule.tables]
        about = ", ".join(" × ".join(names) for names in rule.tables)
    values = [None if one is None else one.effective_records for one in chosen]
    poor = [one for one, v in zip(chosen, values, strict=True) if v is None or v < rule.limit]
    known_values = [v for v in values if v is not None]
    limit = f"at least {rule.limit:g}" + (f" for all but {100 * rule.share:g}%" if rule.share else "")
    after = f"{shown(min(known_values))} at least" if known_values else "not known"
    met = len(poor) <= rule.share * len(chosen)
    names = [one.name for one in poor if one is not None]
    why = f"below: {', '.join(names[:5])}{' ...' * (len(names) > 5)}" if names and not met else ""
    if None in chosen:
        why = "; ".join([why] * bool(why) + ["not known: a named table has no perturbed variable, or too many cells"])
    return Verdict(f"{NAMES['effective_records']}: {about}", limit, f"{figures.records:,}", after, met, why)


def _never(rule: Rule, figures: PlanFigures) -> Verdict:
    found = [name for name in rule.never if name in figures.unperturbed]
    after = ", ".join(found) or "none of them"
    absent = [name for name in rule.never if name not in figures.columns]
    why = f"no column of this file: {', '.join(absent)}" if absent else ""
    return Verdict(NAMES["unperturbed"], f"never {', '.join(rule.never)}", "", after, not found, why)


def _no_households(rule: Rule, figures: PlanFigures) -> bool:
    """Whether a rule is about households, and no column has household numbers or is named like one."""
    known = figures.risk("household_risk")
    return "household" in rule.measure and known is not None and known.why == NO_HOUSEHOLD and not figures.may_link


def _not_known(
    rule: Rule, limit: str, found: RiskFigure | None, figures: PlanFigures, before: str | None = None
) -> Verdict:
    """Say that a measure is not known after; ``before`` in the unit of the limit, where it is not the figure itself."""
    name = rule.measure if found is None else found.measure
    name = name.partition(":")[0] if rule.kind in ("risk", "class") else name
    if _no_households(rule, figures):
        return Verdict(name, limit, "none", "none", True, "does not apply: no household numbers")
    why = "it is not known" if found is None or not found.why else f"it is not known: {found.why}"
    if figures.risk_leaves_out:
        why = f"it is not known: {'; '.join(figures.risk_leaves_out)}"
    if before is None:
        before = "not known" if found is None else _number(found.before)
    before = "not known" if figures.risk_leaves_out else before
    return Verdict(name, limit, before, "not known", False, why)


def _next(one: Verdict) -> str:
    """Return the next step for a rule that is not met: what is missing is named, what is too large is not."""
    steps = {
        NO_SHARE: "give --sampling-fraction, or weights: 'postrand init --weight W', or the role 'weight'",
        NO_HOUSEHOLD: "name the household: 'postrand init --household H', or the role 'household'",
    }
    found = [step for why, step in steps.items() if why in one.why]
    return "; ".join(found) or "run 'postrand check' for the figures, then change the plan"


def _number(value: float | None) -> str:
    return "not known" if value is None else decimal(value)
