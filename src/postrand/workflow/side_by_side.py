"""Plans beside each other: what they claim, risk, are worth, and where their settings differ."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from postrand.errors import UsageError, sentence
from postrand.report.table_worth import LITTLE, TableWorth, mean_cell, more_in_two, shown
from postrand.support.showing import few
from postrand.support.worth_basis import BASES, MEAN, Basis
from postrand.workflow.column_ways import all_in_words
from postrand.workflow.comparison import NOTICE, PlanFigures, figure
from postrand.workflow.comparison_risk import AS_IS, RECODED, RiskFigure
from postrand.workflow.larger import coarser_larger, why_larger

NONE, NOT_MEASURED = "–", "not measured"
KEYS_DIFFER = (
    "Warning: the attackers of these plans know different keys, so that their risks cannot be compared: a plan with "
    "fewer keys is measured against an attacker who knows less. Compare plans whose codebooks give the same keys."
)
OTHER_KEYS = " [other keys: do not compare]"


@dataclass(frozen=True, slots=True)
class PlanComparison:
    """Hold the figures of several plans. They are computed from confidential files, and so are internal."""

    plans: tuple[PlanFigures, ...]

    def __post_init__(self) -> None:
        if len(self.plans) < 2:
            raise UsageError(sentence("there is nothing to compare", got="one plan", fix="name two plans or more"))

    @property
    def differing(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The settings that differ: the part of the plan, and what each plan says of it."""
        names = dict.fromkeys(name for plan in self.plans for name, _ in plan.settings)
        said = {name: tuple(dict(plan.settings).get(name, NONE) for plan in self.plans) for name in names}
        return tuple((name, texts) for name, texts in said.items() if len({*texts}) > 1)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: internal."""
        names = [plan.name for plan in self.plans]
        differ = {name: dict(zip(names, texts, strict=True)) for name, texts in self.differing}
        plans = [plan.to_dict() for plan in self.plans]
        warned = [] if self._same_keys else [KEYS_DIFFER]
        return {"notice": NOTICE, "plans": plans, "settings_that_differ": differ, "warnings": warned}

    def __repr__(self) -> str:
        return f"PlanComparison({', '.join(plan.name for plan in self.plans)}; internal)"

    def __str__(self) -> str:
        """Return the comparison as text: internal."""
        names = [plan.name for plan in self.plans]
        claims = [line for plan in self.plans for line in (plan.name, *(f"- {text}" for text in _claimed(plan)))]
        (_, one), (_, two), _ = self._kinds
        heads = ("Risk", *(head for head, _ in self._sides_before()), *names)
        return "\n".join(
            [
                NOTICE,
                "",
                "Claims",
                *claims,
                *self._same_claims(),
                "",
                *self._keys(),
                *_lines(heads, self._risks()),
                *self._before_is(),
                *self._warnings(),
                *self._not_known(),
                *(f"  {text}" for text in why_larger(one for plan in self.plans for one in plan.risks)),
                *(f"  {text}" for text in coarser_larger(self._files())),
                "",
                *_lines((f"Worth, in unperturbed records, {BASES[self._basis]}", *names), self._worths()),
                *(
                    [f"  of little use: {LITTLE}"]
                    * any(one.is_of_little_use for _, of in self._kinds for p in self.plans for one in of(p))
                ),
                *(f"  {t}" for t in dict.fromkeys(t for p in self.plans for t in more_in_two(one(p), two(p)))),
                *(f"  {plan.name}: {plan.little}" for plan in self.plans if plan.little),
                *(
                    f"  worth not told: {why}"
                    for why in dict.fromkeys(
                        t.why for p in self.plans for t in p.tables if t.why and not t.has_no_estimate
                    )
                ),
                *self._named(),
                "",
                "Settings that differ",
                *(line for name, texts in self.differing for line in _setting(name, names, texts)),
            ]
        )

    def _named(self) -> Iterator[str]:
        """Yield what is told of the analyses that plans name, plan by plan, and last when one is met."""
        held = [plan for plan in self.plans if plan.named]
        if held:
            yield from ("", "What analysts name, in simulated releases")
        for plan in held:
            yield from (plan.name, *(f"- {text}" for text in plan.named[:-1]))
        yield from dict.fromkeys(plan.named[-1] for plan in held)

    def _same_claims(self) -> Iterator[str]:
        """Yield in what plans differ that have a claim in the same words: the words alone tell no difference."""
        perturbed = [plan for plan in self.plans if plan.is_perturbed]
        for one, two in itertools.combinations(perturbed, 2):
            differ = [name for name, _ in PlanComparison((one, two)).differing]
            if differ and {*one.claims} & {*two.claims}:
                both = f"{one.name} and {two.name} have a claim in the same words"
                yield f"{both}: risks differ all the same, as they differ in {few(differ)}: see 'Settings that differ'."

    def _before_is(self) -> list[str]:
        """Return of which file the figures before are, where a head of the table does not say it by itself."""
        heads = [head for head, _ in self._sides_before()]
        told = {"recoded": RECODED, "before": AS_IS}
        return [f"  {word}: {where}" for word, where in told.items() if any(head.startswith(word) for head in heads)]

    def _warnings(self) -> list[str]:
        """Return what a reader of the risk and of the recodes must know: once where all plans say the same."""
        held = [(plan.name, (*plan.warnings, *plan.attackers, *plan.merged)) for plan in self.plans]
        texts = dict.fromkeys(text for _, own in held for text in own)
        said = {text: [name for name, own in held if text in own] for text in texts}
        return [
            f"  {text}" if len(names) == len(self.plans) else f"  {', '.join(names)}: {text}"
            for text, names in said.items()
        ]

    def _not_known(self) -> Iterator[str]:
        """Yield why cells say that a measure is not known, and why measures of no plan are left out."""
        held = [one for plan in self.plans for one in plan.risks]
        shown = {one.code for one in held if one.before is not None or one.after is not None}
        why = dict.fromkeys((_none(p), o.why) for p in self.plans for o in p.risks if o.why and o.code in shown)
        yield from (f"  {none}: {text}" for none, text in why)
        left: dict[str, list[str]] = {}
        for one in held:
            if one.code not in shown:
                left.setdefault(one.why, []).append(one.measure.partition(":")[0])
        yield from (f"  not in the table: {'; '.join(dict.fromkeys(names))}: {why}" for why, names in left.items())

    def _keys(self) -> Iterator[str]:
        """Yield which keys the attackers know, and that plans with other keys cannot be compared by their risk."""
        if self._same_keys:
            yield f"Keys that the attackers know: {', '.join(self.plans[0].keys) or NONE}"
            return
        yield from (f"Keys that the attackers know, {plan.name}: {', '.join(plan.keys) or NONE}" for plan in self.plans)
        yield KEYS_DIFFER

    @property
    def _same_keys(self) -> bool:
        return len({frozenset(plan.keys) for plan in self.plans}) == 1

    def _files(self) -> list[Mapping[str, float]]:
        """Return the risks of each file unperturbed, by codes; of plans with the same keys."""
        if not self._same_keys:
            return []
        return [{one.code: one.before for one in p.risks if one.before is not None} for p in self.plans]

    def _sides_before(self) -> list[tuple[str, Callable[[str], str]]]:
        """Return the columns before the plans: a head, and the text of a measure by its code.

        One of the file as it is, where that is one file for all, and one of each recoded file.
        """
        raw = [p.as_is or {o.code: o.before for o in p.risks if o.before is not None} for p in self.plans]
        is_known = all(plan.before_is == AS_IS or plan.as_is for plan in self.plans)
        names = [plan.name for plan in self.plans]
        if not is_known or any(
            one.get(code, value) != value for one in raw for two in raw for code, value in two.items()
        ):
            words = ["before" if plan.before_is == AS_IS else "recoded" for plan in self.plans]
            same = len({tuple((one.code, one.before) for one in plan.risks) for plan in self.plans}) == 1
            if same and len({*words}) == 1:
                return [(words[0], self._before(self.plans[0]))]
            told = zip(words, names, self.plans, strict=True)
            return [(f"{word}, {name}", self._before(plan)) for word, name, plan in told]
        own = [plan for plan in self.plans if plan.before_is == AS_IS]
        first = self._before(own[0]) if own else lambda code: self._as_is(self.plans[0], code)
        recoded = [plan for plan in self.plans if plan.before_is != AS_IS]
        if len(recoded) > 1 and len({tuple((one.code, one.before) for one in p.risks) for p in recoded}) == 1:
            return [("file as it is", first), ("recoded", self._before(recoded[0]))]
        return [("file as it is", first), *((f"recoded, {plan.name}", self._before(plan)) for plan in recoded)]

    @staticmethod
    def _before(plan: PlanFigures) -> Callable[[str], str]:
        return lambda code: NONE if (one := plan.risk(code)) is None else figure(one, "before")

    @staticmethod
    def _as_is(plan: PlanFigures, code: str) -> str:
        sides = {where: value for value, where in plan.sides(code)}
        return sides.get(AS_IS, "not computed")

    def _risks(self) -> Iterator[tuple[str, ...]]:
        measures = dict.fromkeys((one.code, one.measure) for plan in self.plans for one in plan.risks)
        columns = [text for _, text in self._sides_before()]
        for code, measure in measures:
            found = [plan.risk(code) for plan in self.plans]
            if all(one is None or (one.before is None and one.after is None) for one in found):
                continue  # the reasons stand below
            after = [_after(plan, one) for plan, one in zip(self.plans, found, strict=True)]
            yield (measure + OTHER_KEYS * (not self._same_keys), *(text(code) for text in columns), *after)

    @property
    def _basis(self) -> Basis:
        """The frequencies that worth is of: the file's own where a plan perturbs nothing, which has no others."""
        return "equal" if all(plan.is_perturbed for plan in self.plans) else "file"

    @property
    def _kinds(self) -> Sequence[tuple[str, Callable[[PlanFigures], Sequence[TableWorth]]]]:
        """The kinds of tables, each with what returns its worths by this basis."""

        def by_basis(plan: PlanFigures, tables: Sequence[TableWorth]) -> Sequence[TableWorth]:
            own = {one.variables: one for one in plan.own} if self._basis == "file" else {}
            return [own.get(one.variables, one) for one in tables]

        return (
            ("one variable", lambda plan: by_basis(plan, plan.one_way)),
            ("two variables", lambda plan: by_basis(plan, plan.two_way)),
            ("a perturbed and an unperturbed variable", lambda plan: by_basis(plan, plan.crossed)),
        )

    def _worths(self) -> Iterator[tuple[str, ...]]:
        yield ("Records in the file", *(f"{plan.records:,}" for plan in self.plans))
        kinds = self._kinds
        for kind, of in kinds:
            for k, which in enumerate(("least", MEAN)):
                found = [mean_cell(of(plan), k) for plan in self.plans]
                if any(found):
                    told = zip(self.plans, found, strict=True)
                    yield (f"Tables of {kind}: {which}", *(f or _no_table(p) for p, f in told))
        for _, of in kinds:
            names: dict[frozenset[str], str] = {}  # plans order the variables of one table differently
            for one in (one for plan in self.plans for one in of(plan)):
                names.setdefault(frozenset(one.variables), one.name)
            for table, name in names.items():
                held = [next((t for t in of(plan) if {*t.variables} == table), None) for plan in self.plans]
                cells = (_no_table(p) if t is None else worth_cell(t) for p, t in zip(self.plans, held, strict=True))
                yield (f"  {name}", *cells)


def _none(plan: PlanFigures) -> str:
    """Return what stands for a risk that has no figure after: a file with suppressed values has not all measures."""
    return "not known" if plan.is_perturbed else NOT_MEASURED


def _after(plan: PlanFigures, one: RiskFigure | None) -> str:
    """Return a risk after a plan, or what stands for it."""
    if one is None:
        return NONE
    return _none(plan) if one.after is None else figure(one, "after")


def _no_table(plan: PlanFigures) -> str:
    """Return what stands for a table that a plan has no worth of."""
    return NONE if plan.is_perturbed else NOT_MEASURED


def worth_cell(one: TableWorth) -> str:
    """Return the worth of a table, with a mark where it is of little use."""
    if one.has_no_estimate:
        return "no estimate"
    return shown(one.effective_records, one.records) + (" (of little use)" if one.is_of_little_use else "")


def _claimed(plan: PlanFigures) -> tuple[str, ...]:
    """Return the claims, and what leaves without protection: the claims of suppressed files have it already."""
    clear = [f"{text}." for text in all_in_words(one for one in plan.ways if one.is_clear)]
    return tuple(dict.fromkeys((*plan.claims, *clear)))


def _setting(name: str, plans: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return lines: a setting, and what each plan says of it; they are too long to stand side by side."""
    return [name, *(f"- {plan}: {text}" for plan, text in zip(plans, texts, strict=True))]


def _lines(heads: Sequence[str], rows: Sequence[Sequence[str]] | Iterator[Sequence[str]]) -> list[str]:
    """Return rows as aligned lines, the first column on the left."""
    cells = [tuple(heads), *map(tuple, rows)]
    wide = [max(len(row[k]) for row in cells) for k in range(len(heads))]
    return [
        "  ".join([f"{row[0]:<{wide[0]}}", *(f"{t:>{w}}" for t, w in zip(row[1:], wide[1:], strict=True))])
        for row in cells
    ]
