"""Risk before and after a plan in the same measures, without a release: figures that two plans are compared by."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from postrand.codebook import Codebook
from postrand.errors import PostrandError
from postrand.mechanism import Mechanism
from postrand.mechanism.units import SharedDrawsWarning
from postrand.plan import Plan
from postrand.plan.policy import CLASS_SIZES
from postrand.risk.cells import IntArray, KeyCodes, class_sizes, table
from postrand.risk.expected import ExpectedMatches, left_right
from postrand.risk.exposure import Exposure, TrueFile
from postrand.risk.facts_told import Told
from postrand.risk.informed import LEVELS, THRESHOLD, Matches, Spread
from postrand.risk.law import KeyLaw, releases, together
from postrand.risk.modelled import NO_SHARE, modelled
from postrand.risk.one_more import OneMore
from postrand.risk.report import RiskReport
from postrand.risk.split_law import Law, SplitLaw
from postrand.risk.weights import cell_inclusion
from postrand.support.measure_names import LEARNT, OF_ESTIMATES, OF_EVERYBODY, OF_WEIGHTS, learns
from postrand.support.showing import few
from postrand.support.warned import hushed
from postrand.workflow.risk_left_out import Pairs, keys_not_counted

DRAWS, DRAWN_RECORDS = 10, 1_000_000
"""τ1 and τ2 are averaged over ten releases; of large files over fewer, of so many records together, which vary less."""
CLASSES = (2, 3, 5, 10)
NO_HOUSEHOLD = "no variable has the role 'household'"
NO_KEYS = "no categorical variable has the role 'key'"
ALONE = 0.4
"""Many records are alone with their keys where the mean of 1/f, f the records with the same keys, is more."""
MORE = 1.2
"""Who knows a column too is told where correct matches are more than so many times those without it; a convention."""
AS_IS, RECODED = "in the file as it is", "in the recoded file"
IS_RECODED = "The recoded file is the file as the plan recodes it, before any value is perturbed."
"""What a reader must know of figures of the recoded file; every page that has some says it."""


def before_of(plan: Plan) -> str:
    """Return which file the figures before a plan are of: it is measured as the plan recodes it."""
    return RECODED if recoded_columns(plan.codebook) else AS_IS


def recoded_columns(codebook: Codebook) -> tuple[str, ...]:
    """Return the keys and weights of the measures of risk that are recoded."""
    made = {recode.variable for recode in codebook.recodes}
    read = (*(v for v in codebook.with_role("key") if v.is_categorical), *codebook.with_role("weight"))
    return tuple(v.name for v in read if v.name in made)


def not_counted(risks: Sequence[RiskFigure], names: Sequence[str]) -> tuple[RiskFigure, ...]:
    """Return the figures; where keys have no categories none is known: who knows these too can find far more."""
    why = keys_not_counted(names)
    if not why:
        return tuple(risks)
    return tuple(replace(one, before=None, after=None, shares=(), bound=None, why=why) for one in risks)


OF_SPLIT = " (after a split, a class has the records that show the same keys with the same values)"
RELEASED_VALUES = "; after, counted by released values"
Share = tuple[float, float, float | None]


@dataclass(frozen=True, slots=True)
class RiskFigure:
    """One measure of risk before and after a plan; None where it is not known, and then ``why`` says the reason.

    ``code`` names it in policies and JSON. ``unit``: ``records``, ``share`` (0 to 1) or ``records in a class``.
    ``shares`` are, for each level, the shares of persons or households above it before and after; for k, for each size,
    those of the records in smaller classes. ``of_two``: after is the larger of two knowledges of the informed attacker;
    of the register attacker, before and after are the larger of two estimates.
    ``households``: of how many it is the mean, 0 where it is of something else: their expected number is a multiple.
    ``bound``: the same measure with an upper bound after, where it can be much too low (:data:`ALONE`).
    ``counted``: unperturbed columns, each with a key that it goes with, by which the informed attacker weighs records;
    ``weighed``: perturbed ones beside the keys, by whose released values he does.
    ``error``: the standard error of after, a mean over simulated links; 0 where it is none, or its error is not known.
    ``known_too``: what attackers find who know another released column besides; ``facts``: what they guess who know
    the keys and the record of a person.
    """

    code: str
    measure: str
    before: float | None
    after: float | None
    unit: str
    why: str = ""
    shares: tuple[Share, ...] = field(default=(), repr=False)
    of_two: bool = False
    households: int = 0
    bound: RiskFigure | None = field(default=None, repr=False)
    error: float = field(default=0.0, repr=False)
    counted: Pairs = field(default=(), repr=False)
    weighed: tuple[str, ...] = field(default=(), repr=False)
    known_too: tuple[OneMore, ...] = field(default=(), repr=False)
    facts: tuple[Told, ...] = field(default=(), repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        names = ("code", "measure", "before", "after", "unit")
        more = {name: value for name in ("why", "of_two", "households") if (value := getattr(self, name))}
        bound = {} if self.bound is None else {"after_at_most": self.bound.after}
        return {name: getattr(self, name) for name in names} | more | bound

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RiskFigure:
        """Return the measure of plain data, such as those of a dossier.

        >>> RiskFigure.from_dict({"code": "k", "measure": "k", "before": 1, "after": 2, "unit": "", "after_at_most": 3})
        RiskFigure(code='k', measure='k', before=1, after=2, unit='', why='', of_two=False, households=0)
        """
        found = cls(**{name: value for name, value in data.items() if name != "after_at_most"})
        most = data.get("after_at_most")
        return found if most is None else replace(found, bound=replace(found, after=most))


def attackers(risks: Sequence[RiskFigure]) -> tuple[str, ...]:
    """Return what a reader of these figures must know of the attackers; () where none of the figures is known."""
    informed, register = ([one for one in risks if _of_register(one.code) == which] for which in (False, True))
    told = learns({one.code: one.after for one in informed}, any(one.of_two for one in informed))
    if not any(one.before is not None for one in register):
        return told
    if is_everybody(risks):
        return (*told, OF_EVERYBODY)
    return (*told, OF_ESTIMATES if any(one.of_two for one in register) else OF_WEIGHTS)


def is_everybody(risks: Sequence[RiskFigure]) -> bool:
    """Return whether the register attacker has the very figures of the informed one, as only of a whole population."""
    held = {one.code: one for one in risks}
    one, two = held.get("register_matches"), held.get("correct_matches")
    if one is None or two is None or one.after is None or one.before is None:
        return False
    return (one.before, one.after) == (two.before, two.after) and one.after < one.before


def known_too_in(risks: Sequence[RiskFigure]) -> tuple[OneMore, ...]:
    """Return what attackers find who know another released column too, where that is more by a fifth, and no chance.

    It is more than by chance where both figures differ by more than two standard errors.
    """
    links = next((one for one in risks if one.code == "correct_matches"), None)
    if links is None or links.after is None:
        return ()
    more = ((one, max((MORE - 1) * links.after, 2 * math.hypot(one.error, links.error))) for one in links.known_too)
    return tuple(one for one, least in more if one.links > max(links.after + least, 1.0))


def hardly_more(risks: Sequence[RiskFigure]) -> tuple[str, ...]:
    """Return the columns that were tried, where who knows one besides the keys finds hardly more; else ()."""
    links = next((one for one in risks if one.code == "correct_matches"), None)
    if links is None or links.after is None or any(one.links > MORE * links.after for one in links.known_too):
        return ()
    return tuple(sorted(one.name for one in links.known_too))


def facts_in(risks: Sequence[RiskFigure]) -> tuple[Told, ...]:
    """Return what is guessed by who knows the keys and the record of a person; () where it is not known."""
    return next((one.facts for one in risks if one.code == "correct_matches"), ())


def counted_in(risks: Sequence[RiskFigure]) -> Pairs:
    """Return the unperturbed columns, each with a key, by which the informed attacker weighs records."""
    return next((one.counted for one in risks if one.code == "correct_matches"), ())


def _of_register(code: str) -> bool:
    return code.startswith("register")


@dataclass(frozen=True, slots=True, eq=False)
class Exposures:
    """Hold the attacks on a file before and after a mechanism, and its law on the keys.

    ``after`` and ``law`` are None where the law is not known; ``why`` says the reason. ``most`` bounds what the
    register attacker finds after, where many records are alone with their keys and weights do not tell it.
    """

    before: Exposure
    after: Exposure | None
    law: Law | None
    why: str = ""
    most: Exposure | None = None
    known_too: tuple[OneMore, ...] = ()
    facts: tuple[Told, ...] = ()

    @classmethod
    def of(cls, truth: TrueFile | None, mechanism: Mechanism) -> Exposures | None:
        """Attack the file and simulated releases of it; None without keys or records."""
        if truth is None or not truth.keys.records:
            return None
        before = truth.exposure()
        try:
            with hushed(SharedDrawsWarning):  # said beside the figures: see shared_draws
                law = truth.law(mechanism)
                after, is_doubted = truth.exposure(mechanism), truth.weights is not None and many_alone(truth.keys)
                most = truth.at_most(after, mechanism) if is_doubted else None
                known_too, facts = truth.known_too(mechanism), truth.told_facts(mechanism)
                return cls(before, after, law, most=most, known_too=known_too, facts=facts)
        except PostrandError as error:
            return cls(before, None, None, str(error))


def many_alone(keys: KeyCodes) -> bool:
    """Return whether so many records are alone with their keys that weights do not tell the register's figures."""
    return class_sizes(keys).size > ALONE * keys.records


def shared_draws(mechanism: Mechanism, keys: Collection[str]) -> tuple[str, bool]:
    """Return what the risk after makes of keys that are drawn once for several records, and whether it is too large.

    The text says which figures may be given on; it is empty where no key is drawn so.
    """
    held = {unit: [name for name in names if name in keys] for unit, names in mechanism.shared.items()}
    if of_persons := held.get("person"):
        text = f"the risks after the plan count {few(of_persons)} for each record, although a person's are drawn once"
        return f"{text}: do not give them on", False
    names = held.get("household", [])
    if not names:
        return "", False
    they, are = ("they", "are") if len(names) > 1 else ("it", "is")
    if mechanism.split is None:
        known = f"the risks after the plan take into account that {few(names)} {are} drawn once for a household"
        return f"{known}: those of persons and those of households may be given to a board", False
    counted = f"the risks of households after the plan count {few(names)} for each member, although {they} {are} drawn"
    return (
        f"{counted} once: this makes them too large, so give them to a board with the words “at most”; the "
        "risks of persons may be given as they are",
        True,
    )


def risk_figures(
    truth: TrueFile | None, report: RiskReport | None, mechanism: Mechanism, attacks: Exposures | None = None
) -> tuple[RiskFigure, ...]:
    """Return every measure that exists for both sides; ``report`` is that of the unperturbed file.

    ``attacks`` are those of the file, if they are known already.

    After perturbation the attacks are simulated (:mod:`postrand.risk.informed`), class sizes are means over simulated
    releases, and τ1 and τ2 the expected links that stay right (:mod:`postrand.risk.expected`).
    """
    attacks = Exposures.of(truth, mechanism) if attacks is None else attacks
    if truth is None or attacks is None:
        why = NO_KEYS if truth is None else "the file has no records"
        return (RiskFigure("correct_matches", _MATCHES, None, None, "records", why),)
    drawn = [] if attacks.law is None else list(_drawn(attacks.law, truth))
    many = 0 if truth.household is None else int(np.unique(truth.household).size)
    links, *others = exposure_figures(attacks.before, attacks.after, attacks.why, truth.note or NO_SHARE)
    exposed = (replace(links, known_too=attacks.known_too, facts=attacks.facts), *others)
    most = () if attacks.most is None else exposure_figures(attacks.before, attacks.most, "")
    bounds = {one.code: one for one in most if one.code.startswith("register")}
    return (
        *(replace(one, households=many if one.code in _MEANS else 0, bound=bounds.get(one.code)) for one in exposed),
        *_taus(truth, report, attacks.law, drawn, attacks.why),
        *class_figures(truth.keys, drawn, attacks.why, of_split=isinstance(attacks.law, SplitLaw)),
    )


_MATCHES = "Expected correct matches, informed attacker, all persons"


def exposure_figures(
    before: Exposure, after: Exposure | None, why: str, no_share: str = NO_SHARE
) -> Iterator[RiskFigure]:
    """Yield the measures of the two attackers; without ``after``, ``why`` says the reason.

    ``no_share`` says why the register attacker's are not known, where they are not: no weight, or one that is refused.
    """
    told = {NO_SHARE: no_share}

    def is_of_two(code: str) -> bool:
        if _of_register(code):
            return before.of_estimates
        return code in LEARNT and after is not None and after.file.of_two

    def figure(code: str, measure: str, value: Callable[[Exposure], float | None], none: str) -> RiskFigure:
        held = value(before)
        later = None if after is None else value(after)
        return RiskFigure(code, measure, held, later, "records", none if held is None else why, of_two=is_of_two(code))

    matches = figure("correct_matches", _MATCHES, lambda e: e.file.anyone.expected, "")
    if after is not None:
        file = after.file
        matches = replace(matches, error=file.anyone.error, counted=file.shown, weighed=file.latent)
    yield matches
    text = "Expected correct matches, informed attacker, sample uniques"
    yield figure("correct_matches_uniques", text, lambda e: _expected(e.file.unique), "")
    known = {NO_SHARE: before.register, NO_HOUSEHOLD: before.file.some_member}
    for code, who, spread, lacking in _SPREADS:
        first, later = spread(before), None if after is None else spread(after)
        none = ", and ".join(told.get(reason, reason) for reason in lacking if known[reason] is None)
        for part, words in _PARTS.items():
            sides = _part(first, part), _part(later, part)
            reason = none if first is None else why
            shares = () if part or first is None else _shares(first, later)
            yield RiskFigure(f"{code}{part}", f"{who}: {words}", *sides, "share", reason, shares, is_of_two(code))
    text = "Expected correct matches, register attacker, all records"
    yield figure("register_matches", text, lambda e: e.register_expected, no_share)


_PARTS = {"": "mean", "_largest": "largest", "_above": f"share above {THRESHOLD:.0%}"}
_PERSON, _HOUSEHOLD = "Risk of a person", "Risk that a member of a household is found"
_JOINT = "Risk of a household, keys of all members known"
_SPREADS: tuple[tuple[str, str, Callable[[Exposure], Spread | None], tuple[str, ...]], ...] = (
    ("individual_risk", f"{_PERSON}, informed attacker", lambda e: e.file.individual, ()),
    ("household_risk", f"{_HOUSEHOLD}, informed attacker", lambda e: e.file.some_member, (NO_HOUSEHOLD,)),
    ("register_risk", f"{_PERSON}, register attacker", lambda e: e.register, (NO_SHARE,)),
    (
        "register_household_risk",
        f"{_HOUSEHOLD}, register attacker",
        lambda e: e.register_some,
        (NO_SHARE, NO_HOUSEHOLD),
    ),
    ("joint_household_risk", f"{_JOINT}, informed attacker", lambda e: e.joint, (NO_HOUSEHOLD,)),
    (
        "register_joint_household_risk",
        f"{_JOINT}, register attacker: an estimate, not an upper bound",
        lambda e: e.register_joint,
        (NO_SHARE, NO_HOUSEHOLD),
    ),
)
_MEANS = frozenset(code for code, *_ in _SPREADS if "household" in code)
"""The measures that are means over households."""


def _part(spread: Spread | None, part: str) -> float | None:
    return None if spread is None else {"": spread.mean, "_largest": spread.largest, "_above": spread.above}[part]


def _shares(before: Spread, after: Spread | None) -> tuple[Share, ...]:
    later = [None] * len(LEVELS) if after is None else after.shares
    return tuple(zip(LEVELS, before.shares, later, strict=True))


def _expected(found: Matches | None) -> float:
    return 0.0 if found is None else found.expected  # no sample uniques, no matches among them


_TAUS: tuple[tuple[Literal["tau1", "tau2"], str], ...] = (
    ("tau1", "Population uniques among sample uniques (τ1)"),
    ("tau2", "Expected correct matches, register attacker, sample uniques (τ2)"),
)


def _taus(
    truth: TrueFile,
    report: RiskReport | None,
    law: Law | None,
    drawn: Sequence[KeyCodes],
    why: str,
) -> Iterator[RiskFigure]:
    """Yield τ1 and τ2: by the true file's model, or in a split by that of each simulated release."""
    draws = min(max(DRAWN_RECORDS // truth.keys.records, 2), DRAWS)
    known = report is not None and report.tau1_estimate is not None and truth.weights is not None
    left: Sequence[float] = ()
    if known and isinstance(law, KeyLaw):
        both = ExpectedMatches.both(truth.keys, None, truth.weights, "two-way")
        shared = together(truth.household) if law.shares_households else {}
        left = left_right([replace(one, members=shared) for one in both], law, draws, 0)
    for k, (code, text) in enumerate(_TAUS):
        estimate = None if report is None else (report.tau1_estimate, report.tau2_estimate)[k]
        if estimate is None or truth.weights is None:
            yield RiskFigure(code, text, None, None, "records", truth.note or NO_SHARE)
            continue
        after = left[k] if left else None
        if law is not None and not isinstance(law, KeyLaw):
            after = float(np.mean([_tau(keys, truth.weights, law, k) for keys in drawn]))
        yield RiskFigure(code, text, estimate.corrected, after, "records", why)


def _tau(keys: KeyCodes, weights: Any, law: Law, which: int) -> float:
    cells, standing = table(keys), law.standing(keys) if isinstance(law, SplitLaw) else 1.0
    found = modelled(keys, cells, cell_inclusion(cells, weights * standing), law=law)
    estimate = (found.tau1, found.tau2)[which]
    return 0.0 if estimate is None else estimate.corrected


def _drawn(law: Law, truth: TrueFile) -> Iterator[KeyCodes]:
    keys, seeds, shared = truth.keys, range(3), together(truth.household)
    yield from releases(law, keys, seeds, shared) if isinstance(law, KeyLaw) else law.drawn(keys, seeds)


def class_figures(
    keys: KeyCodes, drawn: Sequence[KeyCodes], why: str, *, of_split: bool = False
) -> Iterator[RiskFigure]:
    """Yield k and the share of records in small classes; after perturbation, means over simulated releases.

    ``of_split``: these are of a split, of which the name of k says what a class is.
    """
    before, after = class_sizes(keys), [class_sizes(one) for one in drawn]
    least = float(np.mean([sizes.min() for sizes in after])) if after else None
    text = f"k-anonymity{OF_SPLIT * of_split}: records in the smallest class; after, on average over releases"
    shares = {k: (_below(before, k), _mean_below(after, k)) for k in CLASS_SIZES}
    every = tuple((float(k), *sides) for k, sides in shares.items())
    yield RiskFigure("k", text, float(before.min()), least, "records in a class", why, every)
    for k in CLASSES:
        what = "Records alone in their class" if k == 2 else f"Records in classes below {k}"
        what += RELEASED_VALUES
        yield RiskFigure(f"below_{k}", what, *shares[k], "share", why)


def _mean_below(sizes: Sequence[Any], k: int) -> float | None:
    return float(np.mean([_below(one, k) for one in sizes])) if sizes else None


def _below(sizes: IntArray, k: int) -> float:
    """Return the share of the records that are in classes below k, of the sizes of all classes."""
    return float(sizes[sizes < k].sum() / sizes.sum())
