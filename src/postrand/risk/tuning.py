"""The weakest perturbation whose released file is within a risk limit (ABC §5, first direction)."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from postrand.codebook import Codebook
from postrand.errors import DesignError, UsageError, raise_all, sentence
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import randomised_response
from postrand.mechanism.units import Unit, Units
from postrand.risk import loglinear
from postrand.risk.by_size import strata
from postrand.risk.cells import FloatArray, IntArray, KeyCodes
from postrand.risk.data import MissingRule, code_data, key_codes, read_columns
from postrand.risk.expected import ExpectedMatches
from postrand.risk.file import HouseholdWarning, household_numbers
from postrand.risk.household_limits import MEASURES as HOUSEHOLDS
from postrand.risk.household_limits import HouseholdLimit
from postrand.risk.informed import effort, knowledges
from postrand.risk.informed_matches import InformedMatches
from postrand.risk.law import KeyLaw, Members
from postrand.risk.shown_columns import Columns
from postrand.risk.weights import checked_weights
from postrand.support.inputs import finite, is_whole
from postrand.support.measure_names import KEYS_ALONE, learns, measure_named
from postrand.support.progress import Stage, stage
from postrand.support.showing import capital
from postrand.support.warned import hushed

Tau = Literal["tau1", "tau2"]
Attack = ExpectedMatches | InformedMatches | HouseholdLimit

STARTS = 9
"""Levels tried first, on a logarithmic scale: they show whether the curve rises."""

SURE = 1.6449
"""Standard errors of a one-sided 95% bound."""

EACH = (0.05, 15.0)
"""The default range of ε for each key: from nearly nothing kept to hardly a change in a million records."""

SEARCHED = ("tau1", "tau2", "correct_matches", *HOUSEHOLDS)
"""The measures that a limit can name."""
_LIMIT = re.compile(r"\s*([a-zετ][a-z0-9 _-]*?)\s*<=\s*([0-9.eE+-]+)\s*")


@dataclass(frozen=True, slots=True)
class Point:
    """One level of perturbation: the expected risk of a release, and what is kept.

    ``risk`` is an average over draws with ``standard_error``. ``upper`` bounds the risk of one release with a
    probability of about 95%: the draw, the population, the fitted parameters, and the allowance for the model's own
    error that the intervals of :func:`postrand.risk.assess` have, together.
    ``information`` is ``Σ I(X;Z)`` over the keys in nats, with the file's own frequencies; ``unchanged`` the expected
    share of records whose keys all stay. The unperturbed file has the level inf.
    """

    level: float
    risk: float
    standard_error: float
    upper: float
    information: float
    unchanged: float

    def meets(self, limit: float) -> bool:
        """Whether the risk is at or under the limit with its error added (one-sided, 95%)."""
        return self.risk + SURE * self.standard_error <= limit


@dataclass(frozen=True, slots=True)
class Tuning:
    """The level that was found, its mechanism, and the risk–utility map: every point tried, by level.

    ``needed`` is false where the unperturbed file meets the limit: ``level`` is then inf and ``mechanism`` None.
    ``status`` says how the level was found, and what could not be decided. ``of_two``: figures of the informed attacker
    are the larger of two knowledges. ``others`` are the further limits that the level keeps, of which ``limit`` is the
    one that needs the strongest perturbation.
    """

    measure: str
    limit: float
    level: float
    mechanism: Mechanism | None
    points: tuple[Point, ...]
    status: str
    of_two: bool = False
    others: tuple[Tuning, ...] = ()

    @property
    def needed(self) -> bool:
        """Whether the limit needs a perturbation."""
        return self.mechanism is not None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: the level and the map, without the mechanism; the unperturbed level is None."""
        head = {"measure": self.measure, "limit": self.limit, "level": _plain(self.level), "needed": self.needed}
        points = [{**dataclasses.asdict(point), "level": _plain(point.level)} for point in self.points]
        others = {"others": [one.to_dict() for one in self.others]} if self.others else {}
        return {**head, "status": self.status, "points": points, **others}

    def __str__(self) -> str:
        every = (self, *self.others)
        lines = [line for one in every for line in one._table()]
        if self.others and self.needed:
            lines.insert(0, f"level {self.level:.4g} keeps every limit; {self.measure} is the one that needs it")
        lines.append("nats kept: what released values say of true ones, mutual information (1 nat is 1.44 bits)")
        said = learns({one.measure: one.level for one in every}, any(one.of_two for one in every))
        return "\n".join([*lines, f"{capital(KEYS_ALONE)}.", *said])

    def _table(self) -> list[str]:
        found = f"level {self.level:.4g}" if self.needed else "no perturbation is needed for this limit"
        lines = [f"{self.measure} <= {self.limit:g}: {found}", f"  {self.status}"]
        wide, digits = max(10, len(self.measure)), 4 if self.measure in HOUSEHOLDS else 2  # a probability is small
        heads = ("error", "95% below", "nats kept", "unchanged")
        lines.append(" ".join([f"{'level':>10} {self.measure:>{wide}}", *(f"{head:>10}" for head in heads)]))
        for p in self.points:
            level = f"{p.level:10.4g}" if math.isfinite(p.level) else f"{'as it is':>10}"
            numbers = f"{p.risk:{wide}.{digits}f} {p.standard_error:10.2f} {p.upper:10.{digits - 1}f}"
            numbers += f" {p.information:10.3f}"
            lines.append(f"{level} {numbers} {p.unchanged:10.3f}")
        return lines


def tune(
    data: Any,
    key_variables: Sequence[str],
    limit: str | Sequence[str],
    *,
    sampling_fraction: float | None = None,
    weight: str | None = None,
    household: str | None = None,
    units: Units | None = None,
    mechanism: Callable[[float], Mechanism] | None = None,
    levels: tuple[float, float] | None = None,
    weaker: Literal["larger", "smaller"] = "larger",
    model: loglinear.Model = "two-way",
    missing: MissingRule = "category",
    codebook: Codebook | None = None,
    draws: int = 10,
    tolerance: float = 0.02,
    seed: int = 0,
) -> Tuning:
    """Search for the weakest perturbation of the keys whose released file meets ``limit``, such as ``"tau2 <= 10"``.

    Of several limits, the level keeps every one: the strongest of the levels that each needs by itself.

    The measures are those of :func:`postrand.risk.assess` after perturbation: expected links to released uniques that
    are right. ``"correct_matches <= 5"`` limits the correct matches of an attacker who knows the keys of every person
    and that they are in the file, as in :func:`postrand.risk.informed.informed`: by linking drawn releases, with
    the same knowledges.

    For the others the curator has the unperturbed file, so that no model is fitted to released ones: given the file,
    ``τ2 = Σ M[x,x] P(nobody else is released in x) E(1/F_x | f_x)`` over its records, by the log-linear ``model``.
    Draws of the other records' released keys give the probability; the same random numbers serve every level, so that
    the curve is smooth. If the unperturbed file meets the limit, no perturbation is needed, and the result says so.

    A limit such as ``"household_risk <= 0.2"`` is one on the largest risk of a household, in the figures that a policy
    has under this name: ``household_risk``, ``register_household_risk``, ``joint_household_risk`` and
    ``register_joint_household_risk``. They have their own simulated releases: ``draws`` and ``seed`` do not count.

    Parameters
    ----------
    sampling_fraction, weight
        The inclusion probability of every record, or the column of sampling weights: one of them; for
        ``correct_matches`` alone none, since the attacker knows who is in the file. Limits on households need one where
        they are about the register attacker.
    household
        The column of household numbers, for the limits that are about households.
    units
        Which records share draws, where the mechanism draws keys once for a household or a person. They are then drawn
        so in every simulated release. Keys of persons are not for the limits that are about households.
    mechanism
        Makes the mechanism of a level. By default the level is the total ε of a record, shared equally among the
        keys, each under k-ary randomised response.
    levels
        The range searched, on a logarithmic scale; by default from 0.05 to 15 times the number of keys. The result is
        within ``tolerance`` (relative) of a boundary and on its safe side: its risk meets the limit with its error
        added (one-sided, 95%). Where the curve is not monotone there may be other boundaries; ``status`` says so.
    weaker
        Whether a larger level is a weaker perturbation (ε) or a stronger one (β).
    draws
        Releases over which the risk is averaged. ``seed`` fixes them.

    Raises
    ------
    UsageError
        If the limit is not of the form that is wanted, or a parameter is outside its range.
    DesignError
        If no level in the range certainly meets the limit.
    """
    limits = limits_of(limit)
    low, high = levels or (EACH[0] * len(key_variables), EACH[1] * len(key_variables))
    problems = [] if is_whole(draws, 2) else [_few_draws(draws)]
    if not 0 < finite(low) < finite(high):
        problems.append(sentence("the range of levels is empty", got=f"{low!r} to {high!r}", wanted="0 < low < high"))
    problems += _share_problems([measure for measure, _ in limits], sampling_fraction, weight)
    if household is None and (about := next((measure for measure, _ in limits if measure in HOUSEHOLDS), None)):
        fix = "use --household H (household=...), or set the role 'household' in the codebook of a plan"
        problems.append(sentence(f"the households are not known, which {about} is about", fix=fix))
    raise_all(UsageError, problems)
    coded = code_data(data, list(key_variables), codebook)
    keys = key_codes(coded, key_variables, missing)
    if keys.has_wildcards:
        raise UsageError(sentence("missing keys match every value", fix="set missing='category'"))
    weights = None if weight is None else checked_weights(read_columns(data, [weight], [weight]), weight)
    make = functools.cache(mechanism or (lambda level: _equal_shares(keys, level, codebook)))
    numbers = None
    if household is not None and any(measure in ("correct_matches", *HOUSEHOLDS) for measure, _ in limits):
        numbers = household_numbers(read_columns(data, [household])[household], household)
    beside = None if codebook is None else Columns(data, codebook)
    attack = functools.partial(_attack, keys, beside, _members(data, units), numbers, sampling_fraction, weights, model)
    searches = [_Search(attack(measure), make, measure, bound, draws, seed) for measure, bound in limits]
    strong, weak = (low, high) if weaker == "larger" else (high, low)
    return _together(searches, strong, weak, tolerance)


def _attack(
    keys: KeyCodes,
    columns: Columns | None,
    members: Members,
    households: IntArray | None,
    fraction: float | None,
    weights: FloatArray | None,
    model: loglinear.Model,
    measure: str,
) -> Attack:
    """Return the attack whose risk the measure is."""
    if measure == "correct_matches":
        return InformedMatches.of(keys, members, households, columns)
    if measure in HOUSEHOLDS and households is not None:
        each = np.full(keys.records, 1 / (fraction or 1.0)) if weights is None else weights
        return HouseholdLimit(measure, keys, each, households, columns)
    tau: Tau = "tau1" if measure == "tau1" else "tau2"
    return dataclasses.replace(ExpectedMatches.of(keys, tau, fraction, weights, model), members=members)


def _together(searches: Sequence[_Search], strong: float, weak: float, tolerance: float) -> Tuning:
    """Return the weakest level that every search finds within its limit, with the figures of all at this level."""
    alone = [search.find(strong, weak, tolerance) for search in searches]
    found = alone
    while len(levels := {one.level for one in found}) > 1:
        at = (min if strong < weak else max)(levels - {math.inf})
        found = [
            one if one.level == at else search.at(at, first, strong, weak, tolerance)
            for search, one, first in zip(searches, found, alone, strict=True)
        ]
    first = next((n for n, one in enumerate(alone) if one.level == found[n].level), 0)
    return dataclasses.replace(found[first], others=tuple(found[:first] + found[first + 1 :]))


def _members(data: Any, units: Units | None) -> Members:
    """Return the numbers of the households and persons, from 0."""
    columns = {} if units is None else units.columns
    read = read_columns(data, list(columns.values())) if columns else {}
    with hushed(HouseholdWarning):  # the plan's bound is checked when records are drawn
        held = {unit: household_numbers(read[name], name) for unit, name in columns.items()}
    named: dict[str, Unit] = {unit: unit for unit in get_args(Unit)}
    return {named[unit]: np.unique(numbers, return_inverse=True)[1] for unit, numbers in held.items()}


def _few_draws(draws: Any) -> str:
    return sentence("the number of draws is too small", got=repr(draws), wanted=">= 2")


def is_informed(measure: str) -> bool:
    """Whether the limit is on an attacker who knows who is in the file."""
    return measure == "correct_matches" or (measure in HOUSEHOLDS and not measure.startswith("register"))


def _share_problems(measures: Sequence[str], fraction: float | None, weight: str | None) -> list[str]:
    """Return what is wrong with the share of the population that is in the file, which only some attackers need."""
    if set(measures) == {"correct_matches"}:
        what = "this attacker knows who is in the file, so the share of the population plays no part"
        fix = "leave the sampling fraction and the weight out"
        given = fraction is not None or weight is not None
        return [sentence(what, where="a limit of correct_matches", fix=fix)] if given else []
    problems = []
    if (fraction is None) == (weight is None) and (weight is not None or not all(map(is_informed, measures))):
        how = "unknown" if weight is None else "given twice"
        what, wanted = f"the share of the population in the file is {how}", "one of sampling fraction and weight"
        fix = "give --sampling-fraction 0.01 or --weight W, or set the role 'weight' in the codebook"
        problems.append(sentence(what, wanted=wanted, fix="leave one out" if weight else fix))
    if fraction is not None and not 0 < finite(fraction) <= 1:
        problems.append(sentence("the sampling fraction is outside its range", got=fraction, wanted="(0, 1]"))
    return problems


class _Search:
    """Evaluate levels, each once."""

    def __init__(
        self,
        matches: Attack,
        make: Callable[[float], Mechanism],
        measure: str,
        bound: float,
        draws: int,
        seed: int,
    ) -> None:
        self.matches, self.make, self.measure, self.bound = matches, make, measure, bound
        self.draws, self.seed = draws, seed
        self.made: dict[float, Mechanism] = {}
        self.points: dict[float, Point] = {}
        self.grid: list[float] = []

    def find(self, strong: float, weak: float, tolerance: float) -> Tuning:
        self.points[math.inf] = self._unperturbed()
        if self.points[math.inf].meets(self.bound):
            return self._result(math.inf, "the unperturbed file meets the limit")
        between = (_written(float(x), strong) for x in np.geomspace(strong, weak, STARTS)[1:-1])
        self.grid = grid = [strong, *between, weak]
        met = [level for level in grid if self.point(level).meets(self.bound)]
        if not met:
            raise self._none()
        safe = met[-1]  # the weakest
        if safe == grid[-1]:
            return self._kept(safe, "the limit is met at the weak end of the range", tolerance)
        over = grid[grid.index(safe) + 1]
        while abs(math.log(over / safe)) > tolerance and (middle := _written(math.sqrt(over * safe), strong)) != safe:
            if self.point(middle).meets(self.bound):
                safe = middle
            else:
                over = middle
        return self._kept(safe, f"level {over:.4g} does not certainly meet it", tolerance)

    def at(self, level: float, alone: Tuning, strong: float, weak: float, tolerance: float) -> Tuning:
        """Return the figures at a level that another limit needs, or the first stronger one that keeps this limit."""
        self.grid = self.grid or [strong, weak]
        allowed = f"level {alone.level:.4g}" if alone.needed else "the unperturbed file"
        return self._kept(level, f"another limit needs this level: this one alone allows {allowed}", tolerance)

    def _kept(self, level: float, status: str, tolerance: float) -> Tuning:
        """Return the level, or the first stronger one, that meets the limit in the figure of other pages too.

        They draw other releases of its plan, whose figure can be above the limit by the error of both.
        """
        strong, weak = self.grid[0], self.grid[-1]
        step = math.exp(math.copysign(tolerance, strong - weak))
        while not (self.point(level).meets(self.bound) and self._figure(level) <= self.bound):
            if level == strong:
                raise self._none()
            status = f"level {level:.4g} does not meet it in every simulation"
            level = _written(level * step, strong)
            level = strong if (level - strong) * (weak - strong) <= 0 else level
        return self._result(level, status)

    def _figure(self, level: float) -> float:
        return self.matches.figure(self.made[level]) if isinstance(self.matches, InformedMatches) else 0.0

    def _none(self) -> DesignError:
        found = min((p for level, p in self.points.items() if math.isfinite(level)), key=lambda p: p.risk)
        got = f"{found.risk:.2f} at best, with a standard error of {found.standard_error:.2f}"
        what, fix = f"no level in the range certainly meets {self.measure} <= {self.bound:g}", "widen the range"
        return DesignError(sentence(what, got=got, fix=f"{fix}, raise draws, or coarsen the keys"))

    def point(self, level: float) -> Point:
        if level not in self.points:
            self.made[level] = self.make(level)
            stage(Stage.TRYING, unit="levels")(len(self.points))
            self.points[level] = Point(level, *self.matches.under(self.made[level], self.draws, self.seed))
        return self.points[level]

    def _unperturbed(self) -> Point:
        return Point(math.inf, *self.matches.unperturbed())

    def _result(self, level: float, status: str) -> Tuning:
        parts = [status, *self._undecided(level), *self._falls()]
        points = tuple(self.points[at] for at in sorted(self.points))
        mechanism = self.made.get(level)
        of_two = mechanism is not None and self._has_two(mechanism)
        return Tuning(self.measure, self.bound, level, mechanism, points, "; ".join(parts), of_two)

    def _has_two(self, mechanism: Mechanism) -> bool:
        """Return whether an informed attacker was tried with two knowledges."""
        if isinstance(self.matches, ExpectedMatches):
            return False
        keys = self.matches.keys
        law = KeyLaw.of(mechanism, keys.names, keys.shape)
        work = effort(strata(keys, law, self.matches.household, np.arange(keys.records)))
        return is_informed(self.measure) and len(knowledges(law, work)) > 1

    def _undecided(self, level: float) -> list[str]:
        """Return the weaker levels that the draws cannot distinguish from the limit."""
        near = [
            p.level
            for p in self.points.values()
            if math.isfinite(p.level) and abs(p.risk - self.bound) < SURE * p.standard_error and not p.meets(self.bound)
        ]
        if not near or not math.isfinite(level):
            return []
        return [f"levels up to {max(near):.4g} could meet it too: {self.draws} draws cannot decide"]

    def _falls(self) -> list[str]:
        """Say where a weaker perturbation has less risk than a stronger one, beyond the error of the draws."""
        points = [self.points[level] for level in self.grid if level in self.points]
        for one, two in itertools.pairwise(points):
            error = math.hypot(one.standard_error, two.standard_error)
            if one.risk - two.risk > 3 * error + 1e-9 * one.risk:
                where = f"the risk at level {one.level:.4g} is above that at the weaker {two.level:.4g}"
                return [
                    f"the curve is not monotone: {where}; the level is the weakest of those tried that meets the limit"
                ]
        return []


def limits_of(limit: str | Sequence[str]) -> list[tuple[str, float]]:
    """Return the measure and the bound of each limit that is asked for, one or several; raises UsageError.

    >>> limits_of("tau2 <= 10"), limits_of(["tau2 <= 10", "household risk <= 0.2"])
    ([('tau2', 10.0)], [('tau2', 10.0), ('household_risk', 0.2)])
    """
    several = not isinstance(limit, str) and isinstance(limit, Sequence) and len(limit) > 0
    return [parse(one) for one in limit] if several else [parse(limit)]


def parse(limit: Any) -> tuple[str, float]:
    """Return the measure and the bound of a limit such as ``"tau2 <= 10"``; raises UsageError."""
    found = _LIMIT.fullmatch(limit) if isinstance(limit, str) else None
    try:
        bound = float(found[2]) if found else math.nan
    except ValueError:
        bound = math.nan
    name = "" if found is None else measure_named(found[1], SEARCHED)
    if name not in SEARCHED or not bound >= 0:
        what, wanted = "the limit is not of the form that is wanted", f"'tau2 <= 10', or one of {', '.join(SEARCHED)}"
        raise UsageError(sentence(what, got=repr(limit), wanted=wanted, fix="for other limits, use 'postrand advise'"))
    return name, bound


def _written(level: float, strong: float) -> float:
    """Return the level with four digits, as it is told and typed, on the side of the ``strong`` end and not beyond.

    >>> _written(3.14159, 0.1), _written(3.14159, 10.0), _written(2.5, 0.1)
    (3.141, 3.142, 2.5)
    """
    places = 3 - math.floor(math.log10(level))
    told, unit = round(level, places), 10.0**-places
    if (told - level) * (strong - level) < 0:
        told = round(told + math.copysign(unit, strong - level), places)
    return told if (told - strong) * (level - strong) > 0 else level


def _equal_shares(keys: KeyCodes, epsilon: float, codebook: Codebook | None) -> Mechanism:
    each = epsilon / len(keys.names)
    blocks = [Block((n,), randomised_response(s, each)) for n, s in zip(keys.names, keys.shape, strict=True) if s > 1]
    fits = codebook is not None and all(codebook[b.variables[0]].size == b.matrix.size for b in blocks)
    return Mechanism(blocks, codebook if fits else None)


def _plain(level: float) -> float | None:
    return level if math.isfinite(level) else None
