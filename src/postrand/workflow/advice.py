"""Advice: two to four complete plans for what a curator asks, each with its claim, its risk, its worth and the reason.

The plans follow from the numbers of categories, the number of records and what is asked. What else the file shows
chooses nothing unless the curator lets it (``look``); plans that were chosen so say it, and their certificates too.
What is measured orders them: those that meet most rules of a policy, and keep every limit, come first.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from postrand import formats
from postrand.codebook import Codebook
from postrand.designers import UniformOffDiagonal
from postrand.designers.split.comparison import SEARCHED
from postrand.engines import LocalEngine
from postrand.engines.database import Table, open_records
from postrand.errors import DataError, DesignError, PostrandError, ReleaseError, UsageError, raise_all, sentence
from postrand.objectives import MutualInformation
from postrand.plan import load_plan
from postrand.plan.analyses import Model
from postrand.release.atomic import PRIVATE, appearing, target_problems
from postrand.release.internal import require_outside
from postrand.report.table_worth import EQUAL, LEAST_RECORDS, TOO_FEW, reason_of, table_worth
from postrand.support.worth_basis import BASES
from postrand.workflow import advice_codebook
from postrand.workflow.advice_bands import banded, unbanded
from postrand.workflow.advice_candidates import SPLITS, Candidate, Subject
from postrand.workflow.advice_choice import FEWEST, LEFT_OUT, MOST, Trial, frontier, tried
from postrand.workflow.advice_more import more_worth
from postrand.workflow.advice_needs import Limit, Needs
from postrand.workflow.advice_plan import Advised, Asked
from postrand.workflow.advice_policy import helped, worth_asked
from postrand.workflow.advice_rare import merged
from postrand.workflow.advice_refusals import answerable, not_drawn, require_measures, require_possible
from postrand.workflow.advice_risk import LEVELS, Risks, is_bound, values, why_unknown, within
from postrand.workflow.advice_subject import stands_for, subject_of
from postrand.workflow.advice_text import (
    UNFAVOURABLE,
    UPPER,
    Checked,
    at_a_glance,
    attackers_of,
    claims_in_words,
    next_steps,
    plans_lines,
    reasons,
)
from postrand.workflow.advice_unit import advised_unit, for_units, require_unit, without_effect
from postrand.workflow.advice_uses import Estimated, verdicts
from postrand.workflow.advice_writing import plan_toml
from postrand.workflow.asked_units import completed, roles_of
from postrand.workflow.comparison import NOTICE, PlanFigures
from postrand.workflow.dossier_risk import require_one_share
from postrand.workflow.epsilon import BOUND, shares
from postrand.workflow.half_widths import Drawn, drawn_of, of_households
from postrand.workflow.larger import coarser_larger
from postrand.workflow.named_uses import estimated, why_unfit
from postrand.workflow.policy_check import check_policy
from postrand.workflow.risk_left_out import left_out

MANY_SPLIT = 22
"""A split release of more variables takes tens of seconds to design: fewer of them are tried."""
BROKEN = "it keeps the limits on risk at no epsilon that was tried"
BOOK, RECODED = "codebook.toml", "codebook-recoded.toml"


@dataclass(frozen=True, slots=True, eq=False)
class Advice:
    """Hold the recommended plans, best first, and those that are left out with the reason: internal."""

    needs: Needs
    plans: tuple[Advised, ...]
    left_out: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        left = [{"way": name, "why": why} for name, why in self.left_out]
        asked = [line.strip() for line in self.needs.lines()]
        plans = [plan.to_dict() for plan in self.plans]
        return {"asked": asked, "plans": plans, "left_out": left, "notes": list(self.notes)}

    def text(self, *, every: bool = False) -> str:
        """Return the advice as text; ``every``: with the ways that are left out."""
        lines = [NOTICE, "", "Asked:", *self.needs.lines(), "", "In short:", *at_a_glance(self.plans)]
        lines += ["", "What these figures count:", *self.notes] if self.notes else []
        lines += plans_lines(self.plans)
        if told := coarser_larger(
            {o.code: o.before for o in p.figures.risks if o.before is not None} for p in self.plans
        ):
            lines += ["", *told]
        if steps := list(next_steps(self.needs, self.plans)):
            lines += ["", *steps]
        if every:
            lines += ["", f"{LEFT_OUT}:", *(f"  {name}: {why}" for name, why in self.left_out)]
        return "\n".join(lines)


def advise(
    place: Path | formats.File | Table,
    book: Codebook,
    needs: Needs,
    out: Path,
    *,
    fraction: float | None = None,
    named: Collection[str] | None = None,
) -> Advice:
    """Write two to four complete plans and their codebooks into the new folder ``out``, and return the advice.

    ``fraction`` is the share of the population in the file, where no variable has the role ``weight``. ``named`` are
    variables whose role somebody chose; None: all. Others are not released where they follow from what is perturbed.

    Raises
    ------
    UsageError
        If nothing can be perturbed, or a limit or a precision is asked that cannot be answered, or never be kept; if a
        fraction is given of a file with weights.
    ReleaseError
        If the folder exists or cannot be made, or would lie in a release.
    DataError
        If the file has fewer than ``LEAST_RECORDS`` records.
    DesignError
        If no way can be designed.
    """
    require_outside(out)
    raise_all(ReleaseError, target_problems(out))
    require_one_share(book, fraction)
    needs = completed(roles_of(book), needs)
    require_measures(book, needs, fraction)
    needs = answerable(book, needs, fraction)
    require_unit(book, needs)
    source = open_records(place, book)
    subject, notes = subject_of(source, book, needs, named)
    raise_all(UsageError, not_drawn(subject.perturbed, needs))
    needs = needs.of_records(subject.records or 0)
    if subject.records is None:
        first = subject.perturbed[:1]
        counted = LocalEngine().count(source, subject.book, first)
        subject = dataclasses.replace(subject, records=int(counted.total + counted.omitted))
    if (subject.records or 0) < LEAST_RECORDS:
        raise DataError(sentence(TOO_FEW, fix="give a larger file"))
    require_possible(needs, subject.records or 0)
    with appearing(out, PRIVATE) as folder:
        made = _Maker(place, folder, out, needs, subject, fraction)
        chosen, left = made.choose()
        plans = made.written(chosen)
        more = [*made.more(plans[0].trial, plans[0].asked), *advised_unit(book, needs, made.risks.shared)]
        more += helped(needs, plans, made.at, made.measured)
    notes += without_effect(needs, [plan.trial.candidate.of_members for plan in plans])
    notes += [stands_for(source, one.name) for one in book.with_role("weight")[:1]]
    if needs.attacker == "register" and fraction is None and not book.with_role("weight"):
        notes.append(UPPER)
    notes += attackers_of(plans)
    return Advice(needs, tuple(plans), tuple(left), (*notes, *made.notes, *more))


class _Maker:
    """Tries, chooses and writes; holds what all steps need."""

    def __init__(
        self, place: Any, folder: Path, out: Path, needs: Needs, subject: Subject, fraction: float | None
    ) -> None:
        self.folder, self.out, self.needs, self.subject, self.fraction = folder, out, needs, subject, fraction
        self.risks, self.records = Risks(place, fraction, needs), subject.records or 0
        source = open_records(place, subject.book)
        self.drawn = drawn_of(subject.book, source) if needs.precisions else Drawn()
        if needs.largest_household:
            self.drawn = of_households(self.drawn, source, subject.book.with_role("household")[0].name)
        self.place, self.met = place, dict[int, bool]()
        self.unfit: dict[tuple[Codebook, Model, bool], str] = {}
        self.tried: dict[tuple[Candidate, float], Trial | None] = {}
        book, recodes = banded(subject.book, subject.perturbed)
        if needs.look:
            book, rare = merged(book, subject.perturbed, open_records(place, subject.book))
            recodes = (*recodes, *rare)
        self.subjects = [subject]
        if recodes:
            self.subjects.append(dataclasses.replace(subject, book=book, recodes=recodes))
        self.files = {id(one.book): name for one, name in zip(self.subjects, (BOOK, RECODED), strict=False)}
        for one in self.subjects:
            advice_codebook.save(one.book, folder / self.files[id(one.book)])
        self.source = (
            place if isinstance(place, (Table, formats.File)) else formats.File(place, formats.ReadSettings())
        ).to_dict(folder)
        self.notes = [*_size_notes(self.subjects[-1]), *(self.drawn.sentences if needs.precisions else ())]

    def choose(self) -> tuple[list[Trial], list[tuple[str, str]]]:
        """Return the trials to show, and every other way with the reason why it is left out."""
        trials, left = [], []
        for subject in self.subjects:
            for candidate in for_units(subject):
                if candidate.way in SPLITS and subject is not self.subjects[-1] and self.is_long:
                    left.append(
                        (candidate.name, f"of more than {MANY_SPLIT} variables only the split with recodes is tried")
                    )
                    continue
                try:
                    found = self.at(candidate, _most(candidate, self.needs))
                except PostrandError as error:
                    left.append((candidate.name, str(error)))
                    continue
                if found is None:
                    left.append((candidate.name, "it comes to the same blocks as another way"))
                else:
                    trials.append(found)
        if not trials:
            raise DesignError([f"{name}: {why}" for name, why in left])
        if self.needs.look and self.needs.of_file:  # ways are compared at the levels that they may have
            trials = self._within_limits(trials)
        chosen, beaten = frontier([trial for trial in trials if self.met.get(id(trial), True)], self.needs)
        if len(chosen) < FEWEST:
            broken, worse = frontier([trial for trial in trials if not self.met.get(id(trial), True)], self.needs)
            chosen, beaten = [*chosen, *broken][:MOST], [*beaten, *worse]
        left += [(trial.candidate.name, why) for trial, why in beaten]
        told = {*map(id, chosen), *(id(trial) for trial, _ in beaten)}
        left += [(trial.candidate.name, BROKEN) for trial in trials if id(trial) not in told]
        return self._with_lower(chosen), left

    @property
    def is_long(self) -> bool:
        """Whether the design of a split release takes so long that as few as possible are tried."""
        return len(self.subject.perturbed) > MANY_SPLIT

    def at(self, candidate: Candidate, epsilon: float) -> Trial | None:
        """Return a candidate at a level: a split of many variables takes long to design, and is designed once."""
        place = (candidate, epsilon)
        if place not in self.tried:
            base = self._base(candidate)
            self.tried[place] = tried(candidate, epsilon, base, self.folder, self.needs, self.records, self.drawn)
        return self.tried[place]

    def written(self, chosen: Sequence[Trial]) -> list[Advised]:
        """Write the plans, first those that meet most rules, then those that keep every limit, and return them."""
        plans = [self.measured(trial, chosen) for trial in chosen]
        plans.sort(key=lambda plan: (plan.unmet, plan.is_beyond))
        return [self._numbered(number, plan) for number, plan in enumerate(plans, 1)]

    def measured(self, trial: Trial, chosen: Sequence[Trial] = ()) -> Advised:
        """Return a plan with its figures, as ``protect`` will read it, and why it is shown among those chosen."""
        path = self.folder / "plan.toml"
        path.write_text(plan_toml(trial.data, ()), encoding="utf-8")
        figures, told = self.risks.figures(load_plan(path), trial, path.stem)
        path.unlink()
        asked = tuple(self._asked(trial, figures))
        why = tuple(reasons(trial, chosen, self.needs, self._checked(trial, figures), figures.counted))
        checked = None if self.needs.policy is None else check_policy(figures, self.needs.policy)
        of, worths = self._estimated(trial, simulate=bool(chosen)), (figures.one_way, figures.pairs)
        answers = tuple(
            verdicts(trial.plan, self.needs.uses, trial.mechanism, of, worths, figures.means, self.needs.implied)
        )
        return Advised(self.out / path.name, trial, figures, why, asked, told, answers, checked)

    def _estimated(self, trial: Trial, *, simulate: bool) -> Estimated | None:
        """Return of what models are estimated, with those that cannot be fitted on the file as the plan recodes it.

        ``simulate``: the others, means and tables are estimated from simulated releases of the plan.
        """
        if trial.estimated is None:
            return None
        book = trial.plan.codebook

        def unfit_of(model: Model, is_perturbed: bool, moves: bool) -> str:
            place = (book, model, is_perturbed)
            if place not in self.unfit:
                source = open_records(self.place, book)
                self.unfit[place] = why_unfit(source, book, model, is_perturbed=is_perturbed, moves=moves)
            return self.unfit[place]

        def records() -> formats.Source:
            return open_records(self.place, book)

        of, plan, mechanism = trial.estimated, trial.plan, trial.mechanism
        return estimated(of, plan, mechanism, records, unfit_of, simulate=simulate)

    def _numbered(self, number: int, plan: Advised) -> Advised:
        """Write a plan with what is said of it, and return it under its number."""
        trial, path = plan.trial, self.folder / f"plan-{number}.toml"
        why, figures = plan.reasons, dataclasses.replace(plan.figures, name=path.stem)
        head = [f"Plan {number}: {trial.candidate.name}. {trial.candidate.what}", *trial.candidate.notes, *why]
        head += claims_in_words(trial)
        head += [f"Run it with: postrand protect --plan {shlex.quote(str(self.out / path.name))} --out release"]
        path.write_text(plan_toml(trial.data, head), encoding="utf-8")
        return dataclasses.replace(plan, path=self.out / path.name, figures=figures)

    def _checked(self, trial: Trial, figures: PlanFigures) -> Checked | None:
        """Return whether a plan whose ε the records chose keeps the limits on risk as it is written; None of others.

        The search leaves out what rank laws do, and keys without categories; the figures of the whole plan decide.
        """
        if id(trial) not in self.met:
            return None
        if any(figures.leaves_out(limit.measure) for limit in self.needs.of_file):
            return "unknown"
        kept = (limit.meets(values(limit, figures.risks)[1]) for limit in self.needs.of_file)
        return "kept" if all(kept) else "broken"

    def more(self, first: Trial, asked: Sequence[Asked]) -> list[str]:
        """Return what more ε would buy for the first plan, and what the precision that is asked needs: by sizes alone.

        Of many variables a split takes too long to design at several levels.
        """
        if not first.candidate.has_epsilon or len(self.subject.perturbed) > SEARCHED:
            return []
        higher = [level for level in LEVELS if level > first.epsilon]
        found = {level: trial for level in higher[:2] if (trial := self.at(first.candidate, level)) is not None}
        more = more_worth(first, found, self.subject.ruled, self.subject.named)
        limits = [str(limit) for limit in self.needs.of_file] if self.needs.look else []
        kept = [one.text for one in asked if one.text in limits and one.is_met]
        are = "is" if len(kept) == 1 else "are"
        bound = f"; but {' and '.join(kept)} {are} met only up to epsilon = {first.epsilon:g}"
        bound = bound if kept and first.epsilon < _most(first.candidate, self.needs) else ""
        lines = [f"More epsilon for plan 1: {more}{bound}."] if more else []
        if first.meets(self.needs):
            return lines
        enough = (level for level in higher if (t := self.at(first.candidate, level)) and t.meets(self.needs))
        level = next(enough, None)
        what = f"epsilon = {level:g}, or coarser categories" if level else "coarser categories, or fewer variables"
        drawn = self._drawn(first)
        if drawn.effect is None:
            return lines
        sure = f"To be certain of the precision that is asked, whatever the true shares{drawn.basis}, the way of "
        sure += f"plan 1 needs {what}"
        at = [first.epsilon, *higher]
        alike = next((one for one in at if (t := self.at(first.candidate, one)) and t.may_meet(self.needs)), None)
        less = f"; {BASES[EQUAL.basis]}, epsilon = {alike:g} would be enough" if alike else ""
        return [*lines, f"{sure}{less}. {UNFAVOURABLE}"]

    def _base(self, candidate: Candidate) -> dict[str, Any]:
        share = {} if self.fraction is None else {"sampling_fraction": self.fraction}
        return {
            "source": {**self.source, "codebook": self.files[id(candidate.book)], **share},
            "design": {"structure": UniformOffDiagonal.name, "objective": MutualInformation.name, "prior": "uniform"},
            "release": {"format": "same", "shuffle": True, "release_ids": False},
            **({"analysts": {"uses": list(map(str, self.needs.models))}} if self.needs.models else {}),
        }

    def _drawn(self, trial: Trial) -> Drawn:
        return self.drawn.of_members if trial.candidate.of_members else self.drawn

    def _asked(self, trial: Trial, figures: PlanFigures) -> Iterator[Asked]:
        for limit in self.needs.asked:
            if limit.is_worth:
                yield worth_asked(limit, figures)
                continue
            before, after = values(limit, figures.risks) if limit.reads_file else (None, _level(limit, figures))
            why = "; ".join(figures.leaves_out(limit.measure)) if limit.reads_file else ""
            before, after = (None, None) if why else (before, after)
            why = why or (why_unknown(limit, figures.risks) if after is None else "")
            most = limit.reads_file and is_bound(limit, figures.risks)
            yield Asked(str(limit), before, after, limit.meets(after), why=why, bound=limit.bound, is_most=most)
        drawn = self._drawn(trial)
        for wanted, found in zip(self.needs.precisions, trial.half_widths, strict=True):
            if found is None:
                (one,) = table_worth(trial.mechanism, [wanted.table], self.records, EQUAL, drawn.sizes)
                why = drawn.no_effect or reason_of(one)
                yield Asked(str(wanted), None, None, False, drawn=drawn, why=why)
                continue
            met = (found.most <= wanted.points, found.alike <= wanted.points)
            yield Asked(str(wanted), None, found.most, met[0], found.alike, met[1], drawn, bound=wanted.points)

    def _within_limits(self, chosen: Sequence[Trial]) -> list[Trial]:
        """Return the trials at the levels that keep the limits of the file."""
        kept = []
        for trial in chosen:
            candidate = dataclasses.replace(trial.candidate, chosen_with="file", sections=_same_blocks(trial))
            self.files[id(candidate.book)] = self.files[id(trial.candidate.book)]
            start = self.at(candidate, trial.epsilon)
            assert start is not None
            found, met = within(start, self.needs.of_file, self.risks, partial(self.at, candidate))
            self.met[id(found)] = met and not left_out(found.plan)
            kept.append(found)
        return kept

    def _with_lower(self, chosen: list[Trial]) -> list[Trial]:
        """Return at least two trials: with the same way at half of ε, and at the stated bound where ε is above it."""
        first = next((trial for trial in chosen if trial.candidate.has_epsilon), None)
        if first is None:
            return chosen
        if first.epsilon > BOUND:
            bounded = self.at(first.candidate, BOUND)
            chosen = [*chosen[: MOST - 1], *([] if bounded is None else [bounded])]
        if len(chosen) < FEWEST:
            parts = (0.75,) if self.is_long else (0.5, 0.75)
            lower = [found for part in parts if (found := self.at(first.candidate, first.epsilon * part)) is not None]
            chosen += [next((one for one in lower if not one.is_useless), lower[0])] if lower else []
        return chosen


def _most(candidate: Candidate, needs: Needs) -> float:
    """Return the most ε of a record that the limits allow a way, before a record is read."""
    return needs.epsilon_once if candidate.of_members else needs.epsilon


def _level(limit: Limit, figures: PlanFigures) -> float | None:
    """Return the certified ε that a limit is about: of a record, of the largest household, or of a person."""
    unit = limit.measure.removesuffix("epsilon").removesuffix("_")
    return figures.unit_epsilon.get(unit) if unit else figures.epsilon


def _same_blocks(trial: Trial) -> Callable[[float], dict[str, Any]]:
    """Return the sections of a trial's way; where it has none at a level, the trial's blocks with their parts of ε."""

    def sections(epsilon: float) -> dict[str, Any]:
        own = trial.candidate.sections(epsilon)
        first = {name: trial.data[name] for name in trial.data if name not in ("source", "design", "release")}
        if own or "blocks" not in first:
            return own
        parts = [entry["privacy"]["epsilon"] * epsilon / trial.epsilon for entry in first["blocks"]]
        levels = shares(parts, epsilon)
        blocks = [
            {**entry, "privacy": {**entry["privacy"], "epsilon": level}}
            for entry, level in zip(first["blocks"], levels, strict=True)
        ]
        return {**first, "privacy": {**first["privacy"], "epsilon": epsilon}, "blocks": blocks}

    return sections


def _size_notes(subject: Subject) -> Iterator[str]:
    if (many := len(subject.perturbed)) > MANY_SPLIT:
        what, fix = f"{many} variables share one epsilon, so that little remains for each", "name fewer in --keys"
        yield sentence(what, fix=f"{fix}: what others can know of a person; drop what nobody analyses")
    names = unbanded(subject.book, subject.perturbed)
    if names:
        what = f"{', '.join(names)}: many categories, and no natural bands"
        fix = "merge categories with groups or a hierarchy ([[recodes]] in the codebook)"
        yield sentence(
            what, fix=fix if subject.needs.look else f"{fix}, or let --look merge rare ones by a stated rule"
        )
