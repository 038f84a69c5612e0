"""Named regressions, means, shares and tables, from simulated releases: whether and how precisely they are found."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook, Variable
from postrand.codebook.survey_design import SurveyDesign
from postrand.engines.frame import perturb
from postrand.errors import EstimationError, PostrandError
from postrand.estimate.groups import mean
from postrand.estimate.regression_data import FamilyName
from postrand.estimate.regression_terms import answered
from postrand.estimate.regressions import regression
from postrand.estimate.result import Estimate
from postrand.estimate.shares import share
from postrand.estimate.unbiased import table as table_of
from postrand.formats import Source
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix
from postrand.plan.analyses import Kind, Model
from postrand.report.table_worth import MAX_CELLS, USELESS_RECORDS, USELESS_SHARE, little_use
from postrand.risk.finding import listed
from postrand.support.randomness import ReleaseKey
from postrand.support.showing import few
from postrand.support.warned import heard
from postrand.workflow.recoded_models import LITTLE, Changed, before_recoding, changed_effects, changed_means

TRIALS, FEWEST = 10, 3
"""Releases that are simulated; fewer of a large file, so that ``MOST_RECORDS`` are in all of them together."""
MOST_RECORDS = 1_000_000
NORMAL, CLEAR = 1.96, 3.0
"""Standard errors of half a 95% interval, and beyond which an effect of the file is one: seldom by chance."""
ENOUGH = 0.9
"""What is named is promised where this share of the simulated releases has an estimate."""
NAMED, SHOWN = 5, 8
_DONE: Mapping[Kind, str] = {
    "model": "fitted", "mean": "every group has an interval", "table": "every combination has an interval",
    "share": "every share has an interval",
}  # fmt: skip


MET = (
    f"Met, of what is asked by name: at least {ENOUGH:.0%} of the simulated releases have an estimate; at least half "
    f"of its numbers are as precise as from {USELESS_RECORDS} records or {USELESS_SHARE:.0%} of the file, whichever is "
    "more; at least half of the effects of a regression that are clear before are still found; and no recode moves a "
    "mean or an effect by more than half of its standard error in a release (moves of "
    f"{LITTLE:.0%} or less do not count)."
)
"""When something named is met; a page that says what is met says this too."""
_NOTHING = Variable("_nothing_", "other", ("0", "1"))
"""What a law perturbs that perturbs nothing of a file."""


@dataclass(frozen=True, slots=True)
class Fits:
    """Hold in how many simulated releases something could be estimated, and its precision: confidential.

    A regression is fitted. Of a mean every group has an interval that says something, of shares every category in each
    group, and of a table every combination: all but the ``none`` that have none in the unperturbed file. ``ratios``
    are, of each coefficient or group, the standard error in a release over that of the unperturbed file, the median
    over the releases with an estimate; () without one. ``widths`` are the medians of half of the usable 95% intervals,
    of a regression by the normal law. ``why`` is the last refusal, and ``without`` are the groups that often have none.
    ``is_part``: groups of no answer are left out.
    Of the ``effects`` of a regression that are more than ``CLEAR`` standard errors from 0 in the unperturbed file,
    ``kept`` differ from 0 in most releases, each in so many as ``still`` says; ``changed`` are the effects, or means,
    that a recode changes, and ``is_off``: one of them by more than half of its standard error in a release. Where
    ``before`` is known, numbers are recoded, and so many effects are clear before that; ``is_recoded``: anything is.
    ``terms`` name the widths of a
    regression of a ``family``.
    """

    records: int
    trials: int
    fitted: int
    ratios: tuple[float, ...] = ()
    why: str = ""
    kind: Kind = "model"
    without: tuple[str, ...] = ()
    none: int = 0
    widths: tuple[float, ...] = ()
    is_part: bool = False
    effects: int = 0
    kept: int = 0
    still: tuple[tuple[str, int], ...] = ()
    changed: tuple[Changed, ...] = ()
    is_off: bool = False
    before: int | None = None
    is_recoded: bool = False
    terms: tuple[str, ...] = ()
    family: FamilyName | None = None

    @property
    def is_met(self) -> bool:
        """Whether it is found, and no recode makes an effect of a regression another one."""
        return self.is_found and not self.is_off

    @property
    def is_found(self) -> bool:
        """Whether it is estimated nearly always, most of its numbers are worth more than a few records, and effects.

        At least half of the effects that are clear in the unperturbed file, or before recoding, differ from 0 in most
        releases.
        """
        clear = max(self.effects, self.before or 0)
        is_precise = 2 * sum(self._little) <= len(self._little) and 2 * self.kept >= clear
        return self.fitted >= ENOUGH * self.trials and is_precise

    @property
    def _little(self) -> list[bool]:
        return [little_use(self.records / ratio**2, self.records) for ratio in self.ratios]

    @property
    def why_not(self) -> str:
        """Why it is not found, in words; "" where it is.

        >>> Fits(5000, 10, 7, (1.5, 30.0, 40.0), effects=3).why_not
        'often without an estimate, most of its numbers too imprecise, too few of its clear effects still found'
        """
        texts = {
            "often without an estimate": self.fitted < ENOUGH * self.trials,
            "most of its numbers too imprecise": 2 * sum(self._little) > len(self._little),
            "too few of its clear effects still found": 2 * self.kept < max(self.effects, self.before or 0),
        }
        return ", ".join(text for text, is_so in texts.items() if is_so)

    @property
    def in_part(self) -> str:
        """For how many of its numbers it is met, where others are of little use; "" where none is.

        >>> Fits(5000, 10, 10, (1.5, 20.0, 3.0)).in_part, Fits(5000, 10, 10, (1.5,)).in_part
        (' for 2 of 3 numbers', '')
        """
        many, poor = len(self.ratios), sum(self._little)
        return f" for {many - poor} of {many} numbers" * bool(poor)

    def __str__(self) -> str:
        """Return both in words.

        >>> print(Fits(5000, 10, 10, (1.5, 3.0)))
        fitted in 10 of 10 simulated releases, with standard errors 1.5 to 3 times those of the file as it is
        >>> print(Fits(5000, 10, 7, (2.0,), kind="mean", without=("low",)))  # doctest: +NORMALIZE_WHITESPACE
        every group has an interval in 7 of 10 simulated releases, with standard errors 2 times those of the
        file as it is; often without one: low
        >>> print(Fits(5000, 10, 7, (2.0, 30.0), kind="mean", without=("low", "high")))
        ... # doctest: +NORMALIZE_WHITESPACE
        every group has an interval in 7 of 10 simulated releases, with standard errors 2 to 30 times those of the
        file as it is: of the 2 with one in some of them 1 of little use; often without one: low, high
        >>> print(Fits(5000, 10, 10, (1.5, 20.0, 3.0)))  # doctest: +NORMALIZE_WHITESPACE
        fitted in 10 of 10 simulated releases, with standard errors 1.5 to 20 times those of the file as it is: 1 of 3
        of little use
        """
        by = "" if self.family is None else f" as a {self.family} regression"
        text = f"{_DONE[self.kind]}{by} in {self.fitted} of {self.trials} simulated releases"
        if self.ratios:
            low, high = (f"{round(ratio, 1):g}" for ratio in (min(self.ratios), max(self.ratios)))
            text += f", with standard errors {low if low == high else f'{low} to {high}'} times those of the "
            text += f"{self._file}{self._spread()}"
            many, poor = len(self.ratios), sum(self._little)
            of = (
                f"of the {many} with one in some of them {poor} "
                if self.without
                else f"{poor} of {many} " * (poor < many)
            )
            text += f": {of}of little use" * bool(poor)
        text += self._effects() + f"; {self.recoded}" * bool(self.changed)
        has = "has" if self.none == 1 else "have"
        text += f"; {self.none} more {has} none in the {self._file}" * bool(self.none)
        text += f"; often without one: {few(self.without, NAMED)}" * bool(self.without)
        text += "; without groups of no answer" * self.is_part
        return text + f"; else refused: {self.why}" * (self.fitted < self.trials and bool(self.why))

    @property
    def _file(self) -> str:
        return "recoded file" if self.is_recoded else "file as it is"

    def _effects(self) -> str:
        """Return of a regression how many effects are still found.

        >>> print(Fits(5000, 10, 10, effects=6, kept=1)._effects())  # doctest: +NORMALIZE_WHITESPACE
        ; of 6 effects that are clear (more than 3 standard errors) in the file as it is, only 1 still differs from 0 in
        most releases
        """
        is_one = self.kept <= 1
        still = f"{'only ' * (0 < self.kept < self.effects)}{self.kept or 'none'} still differ{'s' * is_one} from 0"
        many = f"effect{'s' * (self.effects > 1)} that"
        text = f"; of {self.effects} {many} {'are' if self.effects > 1 else 'is'} clear (more than {CLEAR:g} standard "
        was = "" if self.before in (None, self.effects) else f" ({self.before} before recoding)"
        still += f" in most releases{self._counted}"
        text = f"{text}errors) in the {self._file}{was}, {still}" * bool(self.effects)
        if not self.effects and self.before:
            text = f"; of {self.before} effects that are clear before recoding, none is in the {self._file}"
        return text

    @property
    def _counted(self) -> str:
        """In how many releases each effect differs from 0, most first: ten releases tell 6 from 4 by chance alone.

        >>> Fits(5000, 10, 10, effects=3, kept=2, still=(("sex", 6), ("age", 10), ("job", 2)))._counted
        ' (age in 10, sex in 6 and job in 2 of 10)'
        """
        if not self.still:
            return ""
        each = [f"{name} in {many}" for name, many in sorted(self.still, key=lambda one: -one[1])]
        rest = len(each) - SHOWN
        told = listed(each) if rest <= 0 else f"{', '.join(each[:SHOWN])}, {rest} more in fewer"
        return f" ({told} of {self.trials})"

    @property
    def recoded(self) -> str:
        """Which effects, or means, a recode changes, in words; "" where none."""
        if not self.changed:
            return ""
        more = len(self.changed) - 1
        if self.kind == "mean":
            which = f"that of {self.changed[0].name or 'all records'}{f', and {more} more,' * bool(more)}"
            return f"recoding moves means: {which} by more than half of a standard error"
        others = f", and {more} more {'are' if more > 1 else 'is'} changed" * bool(more)
        return f"by the recodes {self.changed[0]}{others}"

    def _spread(self) -> str:
        """Return how long intervals are, in brackets: of tables and shares in points, of others in their own unit."""
        if not self.widths:
            return ""
        points = self.kind in ("table", "share")
        if self.terms:
            each = [f"{_two(w)} for {name}" for name, w in zip(self.terms, self.widths, strict=True)]
            return f" (95% intervals of ± {few(each, SHOWN)})"
        low, high = (_two((100 if points else 1) * one) for one in (min(self.widths), max(self.widths)))
        return f" (95% intervals of ± {low if low == high else f'{low} to {high}'}{' points' * points})"


def _two(number: float) -> str:
    """Return a number with two digits that count."""
    return f"{float(f'{number:.2g}'):,.15g}"


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """Hold the standard errors of what is named, shape (P,), which of them have an interval, and what they are of.

    ``widths``, shape (P,), are half of the intervals; inf where there is none. ``is_part``: no answers are left out.
    ``values``, shape (P,), are the coefficients of a regression, or means; None of others.
    """

    errors: NDArray[np.float64]
    usable: NDArray[np.bool_]
    labels: tuple[str, ...]
    widths: NDArray[np.float64]
    is_part: bool = False
    values: NDArray[np.float64] | None = None

    @property
    def effects(self) -> dict[str, tuple[float, float]]:
        """The coefficients of a regression but the intercept, or means, each with its standard error."""
        held = () if self.values is None else zip(self.labels, self.values.tolist(), self.errors.tolist(), strict=True)
        return {name: (value, error) for name, value, error in held if not name.endswith("Intercept")}

    def clear(self, errors: float = NORMAL) -> list[str]:
        """Return the effects that are more than so many standard errors from 0: by default, by their 95% intervals."""
        return [name for name, (value, error) in self.effects.items() if abs(value) > errors * error > 0]

    def of(self, labels: Sequence[str]) -> _Found:
        """Return what is found of these labels: nothing usable of others, such as a category that is left out.

        >>> held = np.array([0.1, 0.2])
        >>> _Found(held, np.array([True, True]), ("a", "b"), 2 * held).of(["b", "c"]).errors.tolist()
        [0.2, inf]
        """
        place = {label: k for k, label in enumerate(self.labels)}
        at = np.array([place.get(label, -1) for label in labels])
        errors, widths = (np.where(at < 0, np.inf, held[at]) for held in (self.errors, self.widths))
        return _Found(errors, (at >= 0) & self.usable[at], tuple(labels), widths)


def simulated(source: Source, mechanism: Mechanism, asked: Mapping[Model, FamilyName | None]) -> dict[Model, Fits]:
    """Estimate regressions of these families, means and tables from the same simulated releases of a file.

    What is refused of the unperturbed file, too, is left out, and so are tables of more than ``MAX_CELLS`` cells, and
    regressions of no family. ``source`` has the records as the codebook of the mechanism recodes them. The releases are
    drawn by keys made from seeds, and are never written.
    """
    whole = mechanism.require_codebook()
    book = dataclasses.replace(whole, recodes=())
    law, design = dataclasses.replace(mechanism, codebook=book), whole.survey
    table = _table(source, mechanism, asked, design)
    clear, bases = _none_of(book, book[mechanism.variables[0]]), dict[Model, _Found]()
    with heard():
        for model, family in asked.items():
            if _is_possible(model, family, book):
                try:
                    bases[model] = _estimated(table, clear, model, family, design)
                except PostrandError:
                    continue
        trials = int(np.clip(MOST_RECORDS // max(table.num_rows, 1), FEWEST, TRIALS)) if bases else 0
        tried: dict[Model, list[_Found | str]] = {model: [] for model in bases}
        before = {model: _before(source, table, book, model, asked[model]) for model in bases}
        for seed in range(trials):
            released = perturb(table, law, ReleaseKey.from_seed(seed))
            for model in bases:
                tried[model].append(_tried(released, law, model, asked[model], design))
    fits = {model: _fits(table.num_rows, model.kind, base, tried[model]) for model, base in bases.items()}
    families = {model: family if model.kind == "model" else None for model, family in asked.items()}
    return {
        model: dataclasses.replace(
            _told(fits[model], base, tried[model], before[model]),
            family=families[model],
            is_recoded=bool(whole.recodes),
        )
        for model, base in bases.items()
    }


def _is_possible(model: Model, family: FamilyName | None, book: Codebook) -> bool:
    """Return whether a regression has a family, or a table no more than ``MAX_CELLS`` cells."""
    if model.kind == "model":
        return family is not None
    of = model.table if model.kind == "share" else model.groups
    return math.prod(book[name].size for name in of) <= MAX_CELLS


def _fits(records: int, kind: Kind, base: _Found, tried: Sequence[_Found | str]) -> Fits:
    """Return the releases in which what the unperturbed file has is estimated, and the ratios of standard errors."""
    found = [one.of(base.labels) for one in tried if not isinstance(one, str)]
    why = next((one for one in tried if isinstance(one, str)), "")
    if kind == "model":  # one without some of the coefficients is a fit, too
        fitted = sum(not isinstance(one, str) for one in tried)
    else:
        fitted = sum(bool(one.usable[base.usable].all()) for one in found)
    errors = np.array([np.where(one.usable, one.errors, np.nan) for one in found]).reshape(len(found), base.errors.size)
    held = base.usable & (base.errors > 0) & ~np.isnan(errors).all(axis=0)
    ratios = np.nanmedian(errors[:, held], axis=0) / base.errors[held]
    halves = np.array([np.where(one.usable, one.widths, np.nan) for one in found]).reshape(errors.shape)
    widths = np.nanmedian(halves[:, held], axis=0)
    finite = np.isfinite(widths)
    if kind == "model":
        finite &= ~np.char.endswith(np.array(base.labels, dtype=str)[held], "Intercept")
        terms = tuple(label for label, one in zip(np.array(base.labels, dtype=str)[held], finite, strict=True) if one)
    else:
        terms = ()
    lost = np.isnan(errors).sum(axis=0) > (1 - ENOUGH) * len(tried)
    lost &= kind != "model"
    without = tuple(label for label, one in zip(base.labels, lost & base.usable, strict=True) if one)
    return Fits(
        records,
        len(tried),
        fitted,
        tuple(ratios.tolist()),
        why,
        kind,
        without,
        int(np.count_nonzero(~base.usable)),
        tuple(widths[finite].tolist()),
        base.is_part,
        terms=terms,
    )


def _told(fits: Fits, base: _Found, tried: Sequence[_Found | str], before: _Found | None) -> Fits:
    """Return the fits with how many effects are still found, and which effects or means a recode changes."""
    found = [one for one in tried if not isinstance(one, str)]
    errors = {name: [one.effects[name][1] for one in found if name in one.effects] for name in base.effects}
    half = {name: float(np.median(held)) / 2 for name, held in errors.items() if held}
    if fits.kind == "mean":
        off = [] if before is None else changed_means(before.effects, base.effects, half)
        return dataclasses.replace(fits, before=None if before is None else 0, changed=tuple(off), is_off=bool(off))
    if fits.kind != "model":
        return fits
    clear, seen = base.clear(CLEAR), [name for one in found for name in one.clear()]
    still = tuple((name, seen.count(name)) for name in clear)
    kept = [name for name in clear if 2 * seen.count(name) > len(tried)]
    changed = () if before is None else changed_effects(before.effects, base.effects, half)
    is_off = any(one.is_off for one in changed)
    first = None if before is None else len(before.clear(CLEAR))
    return dataclasses.replace(
        fits, effects=len(clear), kept=len(kept), still=still, changed=changed, is_off=is_off, before=first
    )


def _before(source: Source, table: pa.Table, book: Codebook, model: Model, family: FamilyName | None) -> _Found | None:
    """Return what is found of the numbers before recoding, of a regression or a mean; None where none is known."""
    names = {"model": model.table, "mean": model.table[:1]}.get(model.kind, ())
    if (before := before_recoding(source, table, book, names)) is None:
        return None
    held, numbers = before
    book = dataclasses.replace(numbers, variables=(*numbers.variables, _NOTHING))
    try:
        return _estimated(held, _none_of(book, _NOTHING), model, family, numbers.survey)
    except PostrandError:
        return None


def _tried(
    released: pa.Table, law: Mechanism, model: Model, family: FamilyName | None, design: SurveyDesign | None
) -> _Found | str:
    """Return the standard errors from a simulated release, or why an estimate is refused."""
    try:
        return _estimated(released, law, model, family, design)
    except EstimationError as error:
        return error.problems[0].partition("; got")[0].partition(". Next")[0]


def _estimated(
    frame: pa.Table, law: Mechanism, model: Model, family: FamilyName | None, design: SurveyDesign | None
) -> _Found:
    """Return the standard errors of what is named."""
    if family is not None and model.kind == "model":
        fit = regression(model.formula, frame, law, family, design=design)
        errors = fit.standard_error.ravel()
        usable = np.ones(errors.size, dtype=bool)
        return _Found(errors, usable, fit.names, NORMAL * errors, values=np.asarray(fit.value))
    first, *rest = model.table
    if model.kind == "share":
        return _shares(frame, law, first, rest, design)
    book = law.require_codebook()
    if model.kind == "mean":
        return _found(mean(frame, first, law, rest, design=design), book, rest)
    return _found(table_of(frame, model.table, law, design=design), book, model.table)


def _found(estimate: Estimate, book: Codebook, groups: Sequence[str], *before: str) -> _Found:
    """Return the errors and intervals of an estimate in groups that are answers; ``before`` stands first in each label.

    Nobody asks for the mean of who has no answer: where others have one, such a group is left out.
    """
    low, high = estimate.interval()
    labels = [" / ".join((*before, *texts)) for texts in itertools.product(*estimate.labels)]
    half, values = (np.asarray(high) - np.asarray(low)).ravel() / 2, np.asarray(estimate.value).ravel()
    answers = [all(one) for one in itertools.product(*(_answers(book[name]) for name in groups))]
    kept = np.flatnonzero(answers if len(answers) == len(labels) else [True] * len(labels))
    errors, usable = estimate.standard_error.ravel()[kept], estimate.usable.ravel()[kept]
    named, is_part = tuple(labels[k] for k in kept), kept.size < len(labels)
    return _Found(errors, usable, named, half[kept], is_part, values[kept] if values.size == len(labels) else None)


def _answers(variable: Variable) -> list[bool]:
    """Return which codes of a variable are answers; all where none is."""
    found = [bool(one) for one in answered(variable)]
    return found if any(found) else [True] * len(found)


def _shares(frame: pa.Table, law: Mechanism, first: str, by: Sequence[str], design: SurveyDesign | None) -> _Found:
    """Return the errors of the shares of each category that is an answer, in each group; of two categories, of one."""
    book = law.require_codebook()
    variable = book[first]
    labels = [str(variable.code_labels[code]) for code in np.flatnonzero(answered(variable))]
    asked = labels[:1] if len(labels) == 2 else labels
    held = [_found(share(frame, first, law, one, by=by, design=design), book, by, one) for one in asked]
    return _Found(
        np.concatenate([one.errors for one in held]),
        np.concatenate([one.usable for one in held]),
        tuple(label for one in held for label in one.labels),
        np.concatenate([one.widths for one in held]),
        any(one.is_part for one in held),
    )


def _none_of(book: Codebook, variable: Variable) -> Mechanism:
    """Return a mechanism that perturbs nothing: one variable of a codebook, by the identity."""
    return Mechanism({variable.name: TransitionMatrix.identity(variable.size)}, book)


def _table(source: Source, mechanism: Mechanism, asked: Iterable[Model], design: SurveyDesign | None) -> pa.Table:
    """Return the columns that a release of the mechanism and the estimates need."""
    units = () if mechanism.units is None else (mechanism.units.household, mechanism.units.person)
    used = [name for model in asked for name in model.table]
    names = dict.fromkeys([*mechanism.variables, *used, *units, *(() if design is None else design.columns)])
    held = [name for name in source.schema.names if name in names]
    return pa.Table.from_batches(list(source.batches(held))).unify_dictionaries()
