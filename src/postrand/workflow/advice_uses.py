"""Whether a plan's release answers the kinds of questions that analysts will ask: means, totals, models."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from postrand.codebook import Codebook
from postrand.estimate.nominal import is_coded
from postrand.estimate.regression_data import FamilyName
from postrand.mechanism import Mechanism
from postrand.mechanism.units import words_of
from postrand.plan import Plan
from postrand.plan.analyses import Model
from postrand.report.table_worth import (
    EQUAL,
    LITTLE,
    MAX_CELLS,
    TOO_WIDE,
    TableWorth,
    little_use,
    reason_of,
    records_of,
    shown,
    table_worth,
)
from postrand.support.column_wordings import NUMBERED_BANDS, OF_BANDS
from postrand.support.showing import few
from postrand.support.worth_basis import BASES
from postrand.workflow.advice_refusals import RELEASED, has_numbers
from postrand.workflow.design_refusals import refused_of
from postrand.workflow.model_families import families_of
from postrand.workflow.model_trials import Fits
from postrand.workflow.plan_settings import shown_together
from postrand.workflow.recoded_means import in_short

Names = tuple[str, ...]
_OF = {
    **dict.fromkeys(("totals", "quantiles"), " of and by perturbed variables"),
    "linear and Poisson regressions": " of perturbed variables",
}
"""Of what a kind of question is refused: without it, a kind reads as refused for all variables."""
LEVER = (
    "A model of more is worth more where its variables are a table in the workload of [split], as with "
    "--use 'model pay ~ sex + age'"
)
MAX_TABLES = 220
"""Of so many tables of two, three or four variables their worth is computed."""
_ON = " on the records that show all variables of the model"
_NUMBERS_OF = ("two", "three", "four")
_RECODE = (
    "make bands narrower, limits farther out, or labels nearer to the values; if the file chooses them, write "
    'provenance = "confidential"'
)
_FIT = "merge categories, name fewer variables, perturb fewer, or allow a larger epsilon where your limits do"
COMPLETED = "; or add completed = 20 to [release]: copies can be more precise, by a model that their tests judge"
"""What can help a regression that a split release leaves too little for."""
_INSTEAD = "give {} categories by a recode to perturb it, or release it as it is"


class Estimated(NamedTuple):
    """Hold of what models are estimated: so many records, by sizes of households, and what is named.

    Each regression, mean and table that is named has the worth of the table of its perturbed variables. ``unfit`` says
    why a regression cannot be fitted, by its name (:func:`postrand.workflow.advice_models.unfit`), and ``fits`` how
    what is named is estimated from simulated releases.
    """

    records: int
    households: Mapping[int, int] | None = None
    models: Sequence[tuple[Model, TableWorth | None]] = ()
    unfit: Mapping[str, str] = MappingProxyType({})
    fits: Mapping[str, Fits] = MappingProxyType({})


class Verdict(NamedTuple):
    """Hold what is asked, whether the plan's release answers it, and of what or why not."""

    what: str
    is_met: bool
    why: str
    names: tuple[str, ...] = ()  # of the variables for which it does not, where it does for others
    on: str = ""  # on which records it does, where not on all
    is_told: bool = False  # whether the counts of tables, which stand elsewhere too, say it
    is_tried: bool = False  # in simulated releases
    short: str = ""  # why it is not met, in a few words
    is_asked: bool = True  # not where only something else of the same kind is named

    def __str__(self) -> str:
        met = "met" if self.is_asked or "tables" in self.what else "possible"
        said = f"{met}{self.on}" if self.is_met else f"NOT met{' for ' * bool(self.names)}{', '.join(self.names)}"
        return f"{self.title}: {said}" + f" ({self.why})" * bool(self.why)

    @property
    def brief(self) -> str:
        """Whether it is met, and why not, in a few words."""
        return f"{self.title}: {f'met{self.on}' if self.is_met else 'NOT met'}" + f" ({self.short})" * bool(self.short)

    @property
    def title(self) -> str:
        """What is asked; where it is refused for perturbed variables only, also of which."""
        return self.what if self.is_met else self.what + _OF.get(self.what, "")


def verdicts(
    plan: Plan,
    uses: Sequence[str],
    mechanism: Mechanism | None = None,
    of: Estimated | None = None,
    worths: tuple[Sequence[TableWorth], Sequence[TableWorth]] = ((), ()),
    changed: Mapping[str, str] = MappingProxyType({}),
    implied: Sequence[str] = (),
) -> Iterator[Verdict]:
    """Yield whether the release of a plan answers each kind of question that is asked.

    Of the ``implied`` uses only what is named is asked.

    ``mechanism`` is the one that was designed, and ``of`` says of which records: of models of a split it is said how
    many records show them, and what these are worth. ``worths`` are those of the tables of one and of two variables;
    without any, of tables is said only what is refused. ``changed`` says of which variables a recode changes the mean.
    """
    moved = tuple(name for one in plan.numerical for name in one.variables)
    gone = refused_of(plan)
    means = partial(_means, changed=changed)
    for use, judged in (("tables", None), ("means", means), ("models", _models)):
        if use not in uses:
            continue
        own = [one for one in gone if use in one.uses]
        named = [] if of is None or any(one.is_all for one in own) else list(_named(of, use, mechanism, changed, moved))
        yield from named
        is_asked = use not in implied
        if use == "tables" and any(worths) and not any(one.is_all for one in own):
            found = of_tables(*worths)._replace(is_asked=is_asked)
            yield found._replace(what="other tables") if named else found
        if judged is not None and not any(one.is_all for one in own):
            found = judged(plan, moved)._replace(is_asked=is_asked)
            whole = found.is_met and use == "means" and not any(one.kind == "totals" for one in own)
            found = found._replace(what="means and totals") if whole else found
            found = found._replace(what=f"other {found.what}") if named else found
            yield found if use != "models" or mechanism is None or of is None else _of_split(found, mechanism, of)
        for one in own:
            yield Verdict(use if one.is_all else one.kind, False, str(one), is_asked=is_asked or one.is_all)


def of_tables(one_way: Sequence[TableWorth], two_way: Sequence[TableWorth]) -> Verdict:
    """Return for how many tables of one and of two variables the release has no estimate, or one of little use.

    >>> found = [TableWorth(("a",), 300.0, 1000), TableWorth(("b",), None, 1000), TableWorth(("c",), 50.0, 1000)]
    >>> print(of_tables(found, ()))
    tables: NOT met for 1 of 3 of one variable (no estimate), 1 of 3 (little use)
    >>> print(of_tables(found[:1], ()))
    tables: met for all of one variable
    """
    told, kinds = [], []
    for what, worths in (("one variable", one_way), ("two variables", two_way)):
        unknown, none = sum(one.is_shared for one in worths), sum(one.has_no_estimate for one in worths)
        poor = sum(one.is_of_little_use for one in worths) - none
        found = [(none, "no estimate"), (poor, "little use"), (unknown, "worth not known")]
        held = [f"{many} of {len(worths)}{{}} ({why})" for many, why in found if many]
        told += [text.format("" if place else f" of {what}") for place, text in enumerate(held)]
        kinds += [what] * bool(worths)
    if told:
        return Verdict("tables", False, "", tuple(told), is_told=True)
    return Verdict("tables", True, "", on=f" for all of {' and '.join(kinds)}", is_told=True)


def model_worth(mechanism: Mechanism, model: Model, of: Estimated) -> TableWorth | None:
    """Return what the table of the perturbed variables of a model is worth; None where fewer than two are perturbed."""
    names = tuple(name for name in mechanism.variables if name in model.table)
    return next(_worths(mechanism, [names], of)) if len(names) > 1 else None


def _worths(mechanism: Mechanism, tables: Iterable[Names], of: Estimated) -> Iterator[TableWorth]:
    """Yield the worth of tables; of those with too many combinations it is not known."""
    book = mechanism.require_codebook()
    for names in tables:
        if math.prod(book[name].size for name in names) > MAX_CELLS:
            yield TableWorth(names, None, of.records, TOO_WIDE)
        else:
            yield from table_worth(mechanism, [names], of.records, EQUAL, of.households)


def _of_split(found: Verdict, mechanism: Mechanism, of: Estimated) -> Verdict:
    """Return the verdict on models with what the records of a split are worth that show two, three and four variables.

    Without those that are of use for two variables, models are not met. Of regressions that are named it is told of
    each by itself.
    """
    split = mechanism.split
    if split is None:
        return found
    if any(model.kind == "model" for model, _ in of.models) or len(split.variables) < 2:
        return found._replace(on=_ON)
    told, is_met = [], found.is_met
    for many, word in enumerate(_NUMBERS_OF, 2):
        if len(split.variables) < many:
            break
        if not any(len(subset.variables) >= many for subset in split.subsets):
            told.append(f"with {word}, by none")
            break
        shown_by = shown_together(split, many, of.records)
        text = f"with {word}, by {shown_by.partition(' of ')[0]}" if told else f"with two perturbed ones, by {shown_by}"
        worth, poor = _worth_of(mechanism, many, of)
        told.append(words_of(mechanism.units)(text) + worth)
        is_met = is_met and not (many == 2 and poor)
    on = f"{_ON}: {'; '.join(told)} ({BASES[EQUAL.basis]}; of little use: {LITTLE}). {LEVER}"
    if is_met:
        return found._replace(on=on)
    return found._replace(is_met=False, why=f"{on.removeprefix(' ')}; {found.why}" if found.is_met else found.why)


def _worth_of(mechanism: Mechanism, many: int, of: Estimated) -> tuple[str, bool]:
    """Return what tables of so many variables of a split are worth, and whether all are known to be of little use."""
    names = () if mechanism.split is None else mechanism.split.variables
    if math.comb(len(names), many) > MAX_TABLES:
        return "", False
    worths = list(_worths(mechanism, itertools.combinations(names, many), of))
    known = sorted(one.effective_records or 0.0 for one in worths if not one.is_shared)
    if not known:
        return "", False
    low, high = (shown(worth, of.records) for worth in (known[0], known[-1]))
    poor = [little_use(worth, of.records) for worth in known]
    said = f", {'' if all(poor) else 'some '}of little use" * any(poor)
    return f", worth {low} to {high} unperturbed ones{said}", all(poor) and len(known) == len(worths)


def _named(
    of: Estimated,
    use: str,
    mechanism: Mechanism | None,
    changed: Mapping[str, str] = MappingProxyType({}),
    moved: Sequence[str] = (),
) -> Iterator[Verdict]:
    """Yield of what is named of a use why it cannot be estimated, or how it is from simulated releases."""
    is_split = mechanism is not None and mechanism.split is not None
    perturbed = () if mechanism is None else mechanism.variables
    for model, worth in of.models:
        name = str(model)
        if model.use != use:
            continue
        if why := of.unfit.get(name):
            yield Verdict(name, False, why)
        elif off := [one for one in model.table if one in moved]:
            yield Verdict(name, False, f"the values of {few(off)} move; {_INSTEAD.format(few(off))}")
        elif model.kind == "mean" and model.table[0] in changed:
            yield Verdict(name, False, in_short([changed[model.table[0]]]))
        elif (fits := of.fits.get(name)) is not None:
            fit = _FIT + COMPLETED * (model.kind == "model" and is_split)
            steps = "; ".join([*[fit] * (not fits.is_found), *[_RECODE] * fits.is_off])
            told = str(fits)
            if fits.is_found and fits.is_off:
                rest = dataclasses.replace(fits, changed=())
                told = f"because of the recodes, not of the perturbation: {fits.recoded}; apart from this {rest}"
            elif not fits.is_found:
                told = f"{fits.why_not}: {told}"
            told += f". Next: {steps}" * (not fits.is_met)
            told += "" if mechanism is None else _other_family(mechanism.require_codebook(), model, fits.family)
            short = fits.why_not or "because of the recodes" * fits.is_off
            yield Verdict(name, fits.is_met, told, on=fits.in_part, is_tried=True, short=short)
        elif model.kind != "model" and not {*model.table} & {*perturbed}:
            yield Verdict(name, True, "none of its variables is perturbed")
        elif model.kind != "model":
            yield Verdict(name, False, TOO_WIDE)
        elif is_split and worth is None:
            yield Verdict(name, True, "fewer than two of its variables are perturbed")
        elif is_split and worth is not None:
            yield _by_worth(name, worth)


def _other_family(book: Codebook, model: Model, tried: FamilyName | None) -> str:
    """Return how to try a regression of another family that its response can have; "" where one is named, or none can.

    >>> from postrand.codebook import Variable
    >>> book = Codebook((Variable("ill", "key", (0, 1), type="int64"), Variable("sex", "key", ("F", "M"))))
    >>> _other_family(book, Model(("ill", "sex")), "logistic")
    ". For a linear regression name 'linear model ill ~ sex'"
    """
    if tried is None or model.family:
        return ""
    others = (one for one in families_of(book[model.table[0]], book) if one not in (tried, "poisson"))
    return next((f". For a {one} regression name '{one} model {model.formula}'" for one in others), "")


def _by_worth(name: str, worth: TableWorth) -> Verdict:
    """Return what the table of a regression's perturbed variables is worth, where nothing was simulated."""
    if worth.effective_records is None:
        return Verdict(name, False, f"what its records are worth is not known: {reason_of(worth)}")
    text = f"records that show its perturbed variables are worth {records_of(worth.effective_records)}"
    poor = f": of little use ({LITTLE})" * worth.is_of_little_use
    return Verdict(name, not poor, f"{text}, {BASES[EQUAL.basis]}{poor}; rare categories can still prevent a fit")


def _means(plan: Plan, moved: Sequence[str], changed: Mapping[str, str]) -> Verdict:
    asked = [v for v in plan.codebook.with_role(*RELEASED) if not is_coded(plan.codebook, v.name)]
    with_means = [v.name for v in asked if has_numbers(v) and v.name not in moved]
    if moved:
        why = f"means by group and weighted means of {', '.join(moved)} are refused: the values move"
        return Verdict("means", False, f"{why}; {_INSTEAD.format('the variable')}")
    if not with_means:
        return Verdict("means", False, f"no variable that is released has numbers; give one {NUMBERED_BANDS}")
    if off := [name for name in with_means if name in changed]:
        return Verdict("means", False, in_short(changed[name] for name in off), tuple(off))
    made = {recode.variable for recode in plan.codebook.recodes if recode.kind.categories()}
    coarse = [name for name in with_means if name in made]
    apart = f"; {OF_BANDS.format(names=few(coarse), what='a mean', numbers='')}" if coarse else ""
    why = f"of {few(with_means)}{apart}; no number is moved or averaged"
    later = "How precise those by perturbed variables are is not known before the release: name one to try it, as with "
    later += "--use 'mean pay by sex'"
    return Verdict("means", True, f"{why}. {later}")


def _models(plan: Plan, moved: Sequence[str]) -> Verdict:
    """Return which variables can be the response of which family, and those that cannot be that of their numbers."""
    families: dict[FamilyName, list[str]] = {"linear": [], "logistic": [], "multinomial": []}
    for variable in plan.codebook.with_role(*RELEASED):
        if variable.name in moved:
            continue
        for family in families_of(variable, plan.codebook):
            families.get(family, []).append(variable.name)  # a Poisson one can be wherever a linear one can
    said = {"linear": "linear and Poisson"}
    can = [f"{said.get(family, family)} ones of {few(names)}" for family, names in families.items() if names]
    why = [f"no regression can have {few(moved)}, whose values move: {_INSTEAD.format('it')}"] if moved else []
    precise = "rare categories can prevent a fit; how precise one is, is not known before the release: name one to try "
    precise += "it, as with --use 'model pay ~ sex + age'"
    return Verdict("models", not moved, "; ".join([*why, *can, precise]), tuple(moved))
