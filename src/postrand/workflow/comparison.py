"""A plan in figures, before anything is released: its claims in plain words, risk before and after, and its worth."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from postrand.certification.series import Series
from postrand.release.ledger import Outlook
from postrand.release.ledger_report import outlook_data, outlook_lines
from postrand.report.table_worth import (
    TableWorth,
    least_and_mean,
    more_in_two,
    shown,
    worth_line,
)
from postrand.risk.facts_told import Told
from postrand.support.measure_names import (
    SIZE_KNOWN,
    by_size,
    keys_alone,
    knows_hardly_more,
    knows_more,
    not_weighed,
    several_of,
    weighed_too,
)
from postrand.support.showing import few, outward, outward_percent
from postrand.workflow.as_is import NO_REGISTER, NO_TAU, NOT_AT_HAND, NOT_BEFORE
from postrand.workflow.column_ways import PERTURBED, ColumnWay, beside_keys
from postrand.workflow.comparison_risk import (
    AS_IS,
    RiskFigure,
    attackers,
    counted_in,
    hardly_more,
    known_too_in,
)
from postrand.workflow.larger import by_weights, models_disagree, weights_smaller
from postrand.workflow.risk_left_out import Pairs, in_part_words, leaves_out

NOTICE = "INTERNAL: computed from the confidential file; never part of a release"


NO_HOUSES = "the risk of households is not computed"


@dataclass(frozen=True, slots=True)
class PlanFigures:
    """Hold what a plan claims, risks and is worth. It is computed from the confidential file, and so is internal.

    ``claims`` are plain sentences, ``epsilon`` the certified one of a record (inf where there is none). ``risks`` are
    the same measures before and after. ``one_way`` and ``two_way`` are the worth of the tables of perturbed variables,
    if all combinations were equally frequent, ``two_left`` tables of two that are not computed, ``crossed`` the worth
    of tables of a perturbed and an unperturbed one; ``own`` that of all these tables with the file's own shares, which
    the internal report alone shows. ``settings`` say how each part of the file is treated. ``risk_leaves_out`` are
    sentences on keys that no measure of risk has, ``uncounted`` the keys without categories.
    ``before_is`` says of which file the risks before are: as it is, or with its keys recoded. ``as_is`` has those
    before they were recoded by their codes, where they were measured too.
    ``ledger`` is what that of the plan would say of the release.
    ``findings`` are those on unperturbed columns and on households. ``largest_household`` is that of the file, 0 if it
    is not known. ``unit_epsilon`` are the certified ε of the largest household and person, inf where there is none;
    where the plan names no unit, that of the file's largest household, whose members add up. ``unit_records``: the
    most records that such a unit has.
    ``little`` says where little is left for tables of one variable, ``of_three`` how many records of a split show three
    variables together. ``moves``: how far numbers typically move;
    ``unmoved``: of those that hardly do, what a curator is warned of.
    ``merged`` says which recodes merge too few records, ``swallowed`` which codes for no answer count as values,
    ``unstated`` recodes of no stated provenance, ``guessed`` what is guessed of perturbed sensitive variables,
    in words, and ``guesses`` by who knows most of those who are measured, ``confidential`` all of that role,
    and ``perturbed_other`` what is perturbed with the role ``other``,
    ``named`` how the release answers what analysts name, and ``named_briefly``,
    ``means`` of which variables recodes change the mean. ``in_part`` says which unperturbed columns go with keys
    in part. ``small``: which perturbed variables have categories of which a release tells too little. ``lacking``:
    what the release does not tell of how the records were drawn. ``dropped``: columns with the role ``drop``.
    ``ways`` says how each column of the file leaves; of them, ``unperturbed`` leave with the values of the file,
    recoded or not.
    ``levels``: the ε of a record, and what several of a household or person have together, in words.
    ``series`` is the place of the release among those of a population, and their total, where a ledger counts it.
    ``shared_draws``: what the risk makes of keys that are drawn once for a household, and whether its figures of
    households are too large for it.
    ``keys`` are the variables that the attackers of ``risks`` know.
    ``person`` is the column that says which records are one person's, where the plan names one and no figure puts them
    together. ``words`` are those of the measures: of persons, of records, or of persons in the place of households
    (:func:`postrand.support.measure_names.counted_by`). ``is_perturbed``: not where values are suppressed only, and
    nothing is drawn.
    ``lone_sizes``: households of the file that are the only one with their number of members. ``shown``: how many
    records show values of the split, where one member of each household does; 0 where every record does.
    ``columns`` are those of the file or codebook; ``may_link`` of them seem to number persons or households,
    ``no_categories`` are released and have none, and ``neighbours`` in the file share, as members of households do.
    """

    name: str
    records: int
    claims: tuple[str, ...]
    epsilon: float
    risks: tuple[RiskFigure, ...]
    one_way: tuple[TableWorth, ...]
    two_way: tuple[TableWorth, ...]
    settings: tuple[tuple[str, str], ...]
    unperturbed: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()
    unstated: tuple[str, ...] = ()
    crossed: tuple[TableWorth, ...] = ()
    two_left: tuple[TableWorth, ...] = ()
    own: tuple[TableWorth, ...] = ()
    shared_draws: tuple[str, bool] = ("", False)
    risk_leaves_out: tuple[str, ...] = ()
    uncounted: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    largest_household: int = 0
    unit_epsilon: Mapping[str, float] = field(default_factory=dict)
    unit_records: Mapping[str, int] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    may_link: tuple[str, ...] = ()
    neighbours: tuple[str, ...] = ()
    notice: str = NOTICE
    before_is: str = AS_IS
    as_is: Mapping[str, float] = field(default_factory=dict)
    ledger: Outlook | None = None
    moves: tuple[str, ...] = ()
    unmoved: tuple[str, ...] = ()
    little: str = ""
    of_three: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    lone_sizes: int = 0
    shown: int = 0
    merged: tuple[str, ...] = ()
    swallowed: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()
    guesses: tuple[Told, ...] = ()
    perturbed_other: tuple[str, ...] = ()
    confidential: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    named_briefly: tuple[str, ...] = ()
    means: Mapping[str, str] = field(default_factory=dict)
    in_part: Pairs = ()
    small: str = ""
    lacking: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    ways: tuple[ColumnWay, ...] = ()
    levels: tuple[str, ...] = ()
    series: Series | None = None
    no_categories: tuple[str, ...] = ()
    person: str = ""
    words: Callable[[str], str] = str
    is_perturbed: bool = True

    def __repr__(self) -> str:
        return f"PlanFigures({self.name}: {self.records:,} records, {len(self.claims)} claims; internal)"

    def risk(self, code: str) -> RiskFigure | None:
        """Return one measure by its code, such as ``"correct_matches"``; None if there is none."""
        return next((one for one in self.risks if one.code == code), None)

    def leaves_out(self, measure: str) -> tuple[str, ...]:
        """Return why a measure of risk is not known although it has a figure; () where nothing is left out."""
        return leaves_out(measure, self.risk_leaves_out)

    @property
    def counted(self) -> Pairs:
        """The unperturbed columns, each with a key, by which the informed attacker weighs records."""
        return counted_in(self.risks)

    @property
    def risk_notes(self) -> tuple[str, ...]:
        """What no measure of risk looks at: keys without categories, and household numbers that have another role."""
        known, left = self.risk("household_risk"), list(self.risk_leaves_out)
        left += [NOT_AT_HAND] if self.before_is != AS_IS and not self.as_is else []
        left += [self.shared_draws[0]] if self.shared_draws[0] else []
        left += [several_of(self.person)] if self.person and any(one.before is not None for one in self.risks) else []
        tau = self.risk("tau2")
        left += [NO_TAU] if self.as_is and tau is not None and tau.before is not None else []
        if self.dropped and (self.as_is or self.before_is == AS_IS):
            more = (
                "Somebody who knows these, too, finds more in that file, and perhaps more after the plan, where they "
            )
            more += "tell of what is released: how many is not computed"
            left.append(f"{NOT_BEFORE}: {few(self.dropped)}. {more}")
        register = self.risk("register_matches")
        is_known = register is not None and register.before is not None
        left += [NO_REGISTER] if self.as_is and is_known and "register_matches" not in self.as_is else []
        if known is None or known.before is not None:
            return tuple(left)
        if not self.may_link:
            share = f"{NO_HOUSES}: neighbours in the file share {few(self.neighbours)}, as members of one do"
            return (*left, *([share] if self.neighbours else []))
        is_one = len(self.may_link) == 1
        seem = f"{few(self.may_link)} {'seems' if is_one else 'seem'} to number households or persons"
        not_read = "is not looked at, because its role is" if is_one else "are not looked at, because their roles are"
        return (*left, f"{NO_HOUSES}: {seem}, and {not_read} not 'household'")

    @property
    def attackers(self) -> tuple[str, ...]:
        """What a reader of the figures must know of the attackers: what they know, and which side they are on."""
        return (*self.only_keys, *self.known_too, *self.knowledge)

    @property
    def known_too(self) -> tuple[str, ...]:
        """What attackers find who know one released column besides the keys."""
        more = [(one.name, one.links, one.before) for one in known_too_in(self.risks)]
        return knows_more(more, "before" if self.before_is == AS_IS else self.before_is) or knows_hardly_more(
            hardly_more(self.risks)
        )

    @property
    def knowledge(self) -> tuple[str, ...]:
        """Why a household is found for certain, and which side the figures of the attackers are on: short notes."""
        if not self.is_perturbed:
            return attackers([one for one in self.risks if one.code.startswith("register")])
        return (*self.found_by_size, *attackers(self.risks))

    @property
    def is_found_by_size(self) -> bool:
        """Whether who knows all members finds a household for certain, and some are alone with their size."""
        whole = self.risk("joint_household_risk_largest")
        is_sure = whole is not None and whole.after is not None and whole.after >= 1
        return self.lone_sizes > 0 and is_sure

    @property
    def found_by_size(self) -> tuple[str, ...]:
        """Why no epsilon helps a household that is found by its number of members; () where none is."""
        return (self.words(by_size(self.lone_sizes)),) if self.is_found_by_size else ()

    @property
    def only_keys(self) -> tuple[str, ...]:
        """That the attackers know the keys alone, where other columns leave and any risk is known."""
        is_known = any(one.before is not None for one in self.risks)
        if not (is_known and self.keys):
            return ()
        numbered = any(one.way == "new numbers" for one in self.ways)
        by_size = [f"{self.words(SIZE_KNOWN)}."] * numbered
        told = [*keys_alone(self.keys, beside_keys(self.ways, (*self.keys, *self.uncounted))), *by_size]
        told += filter(None, [in_part_words(self.in_part, self.counted)])
        perturbed = [one.name for one in self.ways if one.way in PERTURBED and one.name not in self.keys]
        if (links := self.risk("correct_matches")) is not None:
            told += weighed_too([name for name in perturbed if name in links.weighed])
            told += not_weighed([name for name in perturbed if name not in links.weighed])
        return (" ".join(told),) if told else ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the figures of risk must know: what they leave out, and which of two is to be believed."""
        disagree = (*models_disagree(self.risks), *by_weights(self.risks), *weights_smaller(self.risks, self.as_is))
        return (*self.risk_notes, *(disagree if self.is_perturbed else ()))

    def sides(self, code: str) -> tuple[tuple[str, str], ...]:
        """Return a measure as text in the file as it is, where that is another, in the one measured, and after.

        Each with the words for its side.
        """
        one = self.risk(code)
        if one is None:
            return ()
        first = dataclasses.replace(one, before=self.as_is.get(code))
        told = () if first.before is None else ((figure(first, "before"), AS_IS),)
        return (
            *told,
            (figure(one, "before"), self.before_is),
            (figure(one, "after"), self.after_is(code)),
        )

    def after_is(self, code: str) -> str:
        """Return the words for a measure after the plan: ``after``, or ``after, at most`` where it is too large."""
        return "after, at most" if self.is_bound(code) else "after"

    def is_bound(self, code: str) -> bool:
        """Whether a measure after the plan is too large, and so to be given as a bound."""
        return "household" in code and self.shared_draws[1]

    @property
    def pairs(self) -> tuple[TableWorth, ...]:
        """Every table of two perturbed variables, also those of which the worth is not computed."""
        return (*self.two_way, *self.two_left)

    @property
    def tables(self) -> tuple[TableWorth, ...]:
        """The worth of every table."""
        return (*self.one_way, *self.two_way, *self.crossed)

    def least_own(self, tables: Sequence[TableWorth]) -> TableWorth | None:
        """Return the one of these tables that is worth least with the file's own shares; None where none is known."""
        asked = {frozenset(one.variables) for one in tables}
        held = [one for one in self.own if one.effective_records is not None and frozenset(one.variables) in asked]
        return min(held, key=lambda one: one.effective_records or 0.0, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: internal."""
        return {
            "notice": self.notice,
            "plan": self.name,
            "records": self.records,
            **({"records_with_values_of_the_split": self.shown} if self.shown else {}),
            "claims": list(self.claims),
            "epsilon": self.epsilon if np.isfinite(self.epsilon) else None,
            "levels": list(self.levels),
            "keys": list(self.keys),
            "before_is": self.before_is,
            "risk": [one.to_dict() for one in self.risks],
            **({"risk_as_is": dict(self.as_is)} if self.as_is else {}),
            "risk_leaves_out": list(self.risk_notes),
            "worth": {
                "one_way": _worths(self.one_way),
                "two_way": _worths(self.two_way),
                **({"two_way_not_computed": [one.to_dict() for one in self.two_left]} if self.two_left else {}),
                "crossed": _worths(self.crossed),
                "with_the_file": [one.to_dict() for one in self.own],
                **({"little": self.little} if self.little else {}),
            },
            **({"named": list(self.named)} if self.named else {}),
            "settings": dict(self.settings),
            "unperturbed": list(self.unperturbed),
            "how_each_column_leaves": [one.to_dict() for one in self.ways],
            "not_covered": list(self.not_covered),
            "findings": list(self.findings),
            "largest_household": self.largest_household or None,
            **({} if self.ledger is None else {"ledger": outlook_data(self.ledger)}),
            "unit_epsilon": {unit: e if math.isfinite(e) else None for unit, e in self.unit_epsilon.items()},
        }

    def to_json(self) -> str:
        """Return :meth:`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def __str__(self) -> str:
        """Return the figures as text: internal."""
        lines = [f"{self.name}: {self.records:,} records", self.notice, "", "Claims", *(f"- {c}" for c in self.claims)]
        lines += ["", f"{'Risk':<76}{'before':>12}{'after':>12}"]
        lines += [f"{one.measure:<76}{figure(one, 'before'):>12}{figure(one, 'after'):>12}" for one in self.risks]
        lines += [f"  before: {self.before_is}"]
        lines += [f"  not known: {why}" for why in dict.fromkeys(one.why for one in self.risks if one.why)]
        lines += [f"  {text}" for text in (*self.warnings, *self.attackers, *self.merged)]
        lines += ["", "Worth of tables of perturbed variables"]
        lines += worth_line("tables of one variable", self.one_way)
        lines += worth_line("tables of two variables", self.pairs)
        lines += [f"  {text}" for text in more_in_two(self.one_way, self.two_way)]
        lines += worth_line("tables of a perturbed and an unperturbed variable", self.crossed)
        lines += [f"  {one.name}: {one.why or shown(one.effective_records)}" for one in self.tables]
        lines += [f"  {text}" for text in (self.little, self.small) if text]
        lines += [] if self.ledger is None else ["", "Ledger", *(f"- {text}" for text in outlook_lines(self.ledger))]
        return "\n".join([*lines, "", "Settings", *(f"- {name}: {text}" for name, text in self.settings)])


def figure(one: RiskFigure, side: str) -> str:
    """Return one side of a measure as text, rounded to the safe side: up, the size of a class down."""
    value = getattr(one, side)
    if value is None:
        return "not known"
    if one.unit == "share":
        return outward_percent(value)
    return outward(value, up=one.unit != "records in a class")


def _worths(tables: Sequence[TableWorth]) -> dict[str, Any]:
    least, mean = least_and_mean(tables) or (None, None)
    without = sum(one.has_no_estimate for one in tables)
    return {"least": least, "harmonic_mean": mean, "no_estimate": without, "tables": [one.to_dict() for one in tables]}
