"""What a curator asks of a plan: the attacker, the limits, the analyses, and their precision; read from short texts."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from postrand.errors import UsageError, nearest, raise_all, sentence
from postrand.plan.analyses import Model, Use, is_named, read
from postrand.plan.policy import MEASURES, Policy, Rule
from postrand.support.measure_names import RISK_MEANINGS, UNKNOWN_TO_IT, measure_named
from postrand.workflow.epsilon import BOUND, DEFAULT_EPSILON

Attacker = Literal["register", "informed", "anyone"]

ATTACKERS: dict[str, str] = {
    "register": f"the {UNKNOWN_TO_IT}",
    "informed": "the informed attacker, who knows the keys of a person and that the person is in the file",
    "anyone": "anyone, whatever he or she knows of a person: sensitive and other variables are perturbed too; figures "
    "of risk are of who knows the keys",
}
EARLIER: dict[str, Attacker] = {"list": "register", "acquaintance": "informed"}
"""Names of attackers that are read, and no longer written."""
USES: dict[str, str] = {
    "tables": "tables of one and two variables",
    "means": "means and totals of groups",
    "models": "regressions, and tables of three and more variables",
}
WORTH = "effective_records"
MEANINGS: dict[str, str] = {
    "epsilon": "no released value is more than e^epsilon times as likely under one true record as under another",
    "household_epsilon": "the epsilon of what the largest household releases together, with --largest-household",
    "person_epsilon": "the epsilon of what the person with the most records releases together, with --most-records",
    **RISK_MEANINGS,
    WORTH: "the unperturbed records that every table of two variables is worth, which are to be at least so many",
}
"""The measures that a limit can name; all but those of epsilon need records. Worth is to be at least the bound.

A policy and ``postrand tune`` have the same names.
"""

JUDGED = (
    "the 95% interval of every cell, at the least favourable shares: those with about half of the records or more in it"
)
"""How a precision is judged: the shares of the file are confidential, and not used."""

ASSUMED = " (assumed; --limit says another)"
"""What stands beside a limit that nobody asked for."""
UNITS = ("largest_household", "person", "most_records")
"""What is asked of whom a plan protects beside the record."""

_LIMIT = re.compile(r"\s*([a-zετ][a-z0-9 _-]*?)\s*(<=|>=)\s*([0-9.eE+-]+)\s*")
_PRECISION = re.compile(r"\s*(?:±|\+-|\+/-)?\s*([0-9.]+)\s*(?:percentage\s+)?points?\s+for\s+(.+?)\s*")
_CROSS = re.compile(r"\s*(?:\*|×|\s+x\s+)\s*")


@dataclass(frozen=True, slots=True)
class Limit:
    """Hold what is to be at most a number; of worth, at least.

    ``share`` of the persons or households may be beyond it. ``is_rule``: a rule of the policy asks for it.
    ``is_assumed``: nobody does.
    """

    measure: str
    bound: float
    share: float = 0.0
    is_rule: bool = False
    is_assumed: bool = field(default=False, compare=False)

    @property
    def reads_file(self) -> bool:
        """Whether the measure needs the records: a level that is chosen by it is chosen with the file."""
        return not self.measure.endswith("epsilon")

    @property
    def is_worth(self) -> bool:
        """Whether tables are to be worth at least so many records."""
        return self.measure == WORTH

    @property
    def is_probability(self) -> bool:
        """Whether the measure is the risk of a person or a household."""
        return self.measure.endswith("_risk")

    def meets(self, value: float | None) -> bool:
        """Return whether a value is certainly within the limit; one that is not known is not."""
        if value is None or math.isnan(value):
            return False
        return value >= self.bound if self.is_worth else value <= (self.share or self.bound)

    def __str__(self) -> str:
        but = f" for all but {100 * self.share:g}%" if self.share else ""
        return f"{self.measure} {'>=' if self.is_worth else '<='} {self.bound:g}{but}"


@dataclass(frozen=True, slots=True)
class Precision:
    """Hold the most percentage points to either side that a cell of a table may have in its 95% interval."""

    points: float
    table: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.points:g} points for {' x '.join(self.table)}"


@dataclass(frozen=True, slots=True)
class Needs:
    """Hold what is asked of a plan. ``look``: the records may choose blocks, levels and bands, not only be measured.

    ``largest_household``: the most members of a household, a public bound, where households are protected too; 0: they
    are not. All members share the ``household_variables``. ``person`` is the column that numbers persons, of whom one
    has at most ``most_records``, a public bound too; empty and 0: no records are one person's.
    ``are_persons``: the households are these persons. ``policy``: the rules of the office, whose limits are among the
    ``limits``. ``models`` are regressions, means, shares and tables that are named; ``implied`` are those of ``uses``
    that only these have. ``perturb_also`` are columns to perturb besides the keys.
    """

    attacker: Attacker = "register"
    limits: tuple[Limit, ...] = (Limit("epsilon", DEFAULT_EPSILON, is_assumed=True),)
    uses: tuple[Use, ...] = ("tables",)
    precisions: tuple[Precision, ...] = ()
    look: bool = False
    largest_household: int = 0
    household_variables: tuple[str, ...] = ()
    person: str = ""
    most_records: int = 0
    are_persons: bool = False
    policy: Policy | None = None
    models: tuple[Model, ...] = ()
    perturb_also: tuple[str, ...] = ()
    implied: tuple[Use, ...] = ()

    @property
    def stated(self) -> tuple[Use, ...]:
        """The uses that are asked in general, not only by what is named.

        >>> asked = needs_from(uses=["means", "table sex x area"])
        >>> asked.uses, asked.stated
        (('tables', 'means'), ('means',))
        """
        return tuple(use for use in self.uses if use not in self.implied)

    @property
    def tables(self) -> tuple[Precision | Model, ...]:
        """What names tables that a plan is to be good for."""
        return (*self.precisions, *self.models)

    @property
    def epsilon(self) -> float:
        """The most epsilon of a record: the smallest limit; without one, ``BOUND``.

        A household of k members has at most k times the ε of a record, less where variables are drawn once for it.
        ``epsilon_once``: where one random member of each household shows something, so that it has the ε of a record,
        and so has a person, whose records are all in one household.

        >>> Needs(limits=(Limit("epsilon", 4.0), Limit("household_epsilon", 6.0)), largest_household=4).epsilon
        1.5
        """
        return self._least({"household_epsilon": self.largest_household, "person_epsilon": self.most_records})

    @property
    def epsilon_once(self) -> float:
        """The most epsilon of a record that alone of its household shows something; see ``epsilon``."""
        return self._least({"household_epsilon": 1, "person_epsilon": 1})

    def _least(self, records: dict[str, int]) -> float:
        """Return the smallest limit on ε divided by the records that it is about."""
        held = [(limit.bound, {"epsilon": 1, **records}.get(limit.measure, 0)) for limit in self.limits]
        return min((bound / most for bound, most in held if most), default=BOUND)

    def of_records(self, records: int) -> Needs:
        """Return the needs with a limit on correct matches for each rule on their share of so many records."""
        rules = () if self.policy is None else self.policy.rules
        shares = [rule.limit for rule in rules if rule.measure == "correct_matches_share" and rule.limit > 0]
        more = (Limit("correct_matches", share * records, is_rule=True) for share in shares if records)
        return replace(self, limits=(*self.limits, *more))

    @property
    def of_file(self) -> tuple[Limit, ...]:
        """The limits on risk, which need the records."""
        return tuple(limit for limit in self.limits if limit.reads_file and not limit.is_worth)

    @property
    def asked(self) -> tuple[Limit, ...]:
        """The limits that are asked beside the rules of the policy."""
        return tuple(limit for limit in self.limits if not limit.is_rule)

    @property
    def worth(self) -> tuple[Rule, ...]:
        """The rules on what tables are worth: of the policy, and of limits."""
        rules = () if self.policy is None else self.policy.rules
        return (*(one for one in rules if one.kind == "worth"), *(_worth(one) for one in self.limits if one.is_worth))

    @property
    def typed(self) -> str:
        """What is asked, as options of a command.

        >>> Needs("informed", (Limit("tau2", 3.0),), precisions=(Precision(2.0, ("sex", "area")),)).typed
        "--attacker informed --limit 'tau2 <= 3' --use tables --precision '2 points for sex x area'"
        """
        parts = [("attacker", self.attacker), *(("limit", str(one)) for one in self.asked)]
        parts += [("use", str(one)) for one in (*self.stated, *self.models)]
        parts += [("precision", str(one)) for one in self.precisions]
        parts += [("perturb-also", ",".join(self.perturb_also))] * bool(self.perturb_also)
        return " ".join(f"--{name} {shlex.quote(text)}" for name, text in parts)

    def lines(self) -> list[str]:
        """Return what is asked, as lines of text."""
        limits = [f"{one}{ASSUMED * one.is_assumed}: {MEANINGS[one.measure]}" for one in self.asked]
        told = [("attacker", f"{self.attacker}: {ATTACKERS[self.attacker]}"), *(("limit", text) for text in limits)]
        if self.perturb_also:
            also = ", ".join(self.perturb_also)
            told.append(("perturb", f"{also} too; figures of risk are of who does not know their true values"))
        if self.policy is not None:
            many = len(self.policy.rules)
            told.append(("policy", f"{self.policy.named}: {many} rule{'s' * (many > 1)}"))
        told += [("use", f"{use}: {USES[use]}") for use in self.stated]
        told += [("use", str(model)) for model in self.models]
        told += [("precision", f"± {wanted}: {JUDGED}") for wanted in self.precisions]
        if self.largest_household and not self.are_persons:
            shared = f"; all share {', '.join(self.household_variables)}" if self.household_variables else ""
            told.append(("household", f"a claim for all its members too, up to {self.largest_household}{shared}"))
        if self.person:
            told.append(("person", f"a claim for all its records too, up to {self.most_records}; by {self.person}"))
        return [f"  {name:<9} {text}" for name, text in told]


def needs_from(
    attacker: str | None = None,
    limits: Sequence[str] = (),
    uses: Sequence[str] = (),
    precisions: Sequence[str] = (),
    *,
    look: bool = False,
    policy: Policy | None = None,
) -> Needs:
    """Return what is asked in short texts; what is not said has its default.

    A limit on risk is no limit on ε: the default of ε stays beside it, unless the records may choose (``look``). One
    on the ε of a household or person is one. The rules of a ``policy`` that are about ε or risk are limits too: of two
    on the same measure, plans keep the stricter one. A use can name a regression, a mean, shares or a table: ``"model
    pay ~ sex + age"``, ``"mean pay by sex"``, ``"share ill by sex"``, ``"table ill x sex"``.

    Raises
    ------
    UsageError
        With every text that cannot be read, at once.

    Examples
    --------
    >>> limits = ["epsilon <= 6", "individual_risk <= .1"]
    >>> asked = needs_from("informed", limits, ["tables"], ["2 points for sex x area"])
    >>> asked.epsilon, [str(limit) for limit in asked.of_file], asked.precisions[0].table
    (6.0, ['individual_risk <= 0.1'], ('sex', 'area'))
    """
    problems: list[str] = []
    held = [found for text in limits if (found := _limit(text, problems)) is not None]
    wanted = [precise for text in precisions if (precise := _precision(text, problems)) is not None]
    models = tuple(model for text in uses if (model := read(text, problems)) is not None)
    plain = [part.strip() for text in uses if not is_named(text) for part in text.split(",") if part.strip()]
    named = [*plain, *(model.use for model in models)] or ["tables"]
    who = EARLIER.get(attacker or "", attacker or "register")
    problems += _unknown("attacker", [who], ATTACKERS)
    problems += _unknown("use", named, USES)
    raise_all(UsageError, problems)
    ordered: tuple[Use, ...] = tuple(use for use in get_args(Use) if use in named)
    chosen: Attacker = next(one for one in get_args(Attacker) if one == who)
    held += [] if policy is None else limits_of(policy)
    bounding = [limit for limit in held if not limit.is_worth]
    if not bounding or not (look or any(limit.measure.endswith("epsilon") for limit in held)):
        held = [*Needs().limits, *held]
    implied = tuple(use for use in ordered if models and use not in plain)
    return Needs(chosen, tuple(held), ordered, tuple(wanted), look, policy=policy, models=models, implied=implied)


def limits_of(policy: Policy) -> list[Limit]:
    """Return the rules of a policy that a limit can say: those on ε and on risk.

    >>> from postrand.plan.policy import policy_from_dict
    >>> rules = [{"measure": "tau2", "at_most": 5}, {"measure": "k", "at_least": 3}]
    >>> [str(one) for one in limits_of(policy_from_dict({"rules": rules}))]
    ['tau2 <= 5']
    """
    said = (one for one in policy.rules if one.measure in MEANINGS and one.kind in ("most", "risk") and one.limit > 0)
    return [Limit(one.measure, one.limit, one.share, is_rule=True) for one in said]


def _worth(limit: Limit) -> Rule:
    """Return a limit on worth as a rule."""
    return Rule(WORTH, limit.bound, tables="two-way")


def _unknown(what: str, given: Iterable[str], known: Mapping[str, str]) -> list[str]:
    wanted = ", ".join(f"{name} ({meaning})" for name, meaning in known.items())
    return [
        sentence(f"unknown {what} {one!r}{nearest(one, tuple(known))}", wanted=wanted)
        for one in given
        if one not in known
    ]


def _limit(text: str, problems: list[str]) -> Limit | None:
    found = _LIMIT.fullmatch(text)
    wanted = "for example 'epsilon <= 4', 'tau2 <= 1', 'correct_matches <= 5' or 'effective_records >= 200'"
    if found is None:
        fix = "write a share of 10% as 0.1" if "%" in text else "write the number with a point" if "," in text else ""
        problems.append(sentence("a limit is not of the form that is wanted", got=repr(text), wanted=wanted, fix=fix))
        return None
    name = measure_named(found[1], MEANINGS)
    if name == "k":
        what = "'k' is the smallest class of records that look alike, a rule of a policy ('postrand check')"
        fix = "say how likely a link may be right: 'individual_risk <= 0.1' where you mean one of 10 persons"
        problems.append(sentence(what, where=f"the limit {text!r}", fix=fix))
        return None
    if name in MEASURES and name not in MEANINGS:
        what = f"{name!r} is a rule of a policy, and no limit"
        fix = "write it into a policy file, and give it: --policy"
        problems.append(sentence(what, where=f"the limit {text!r}", wanted=", ".join(MEANINGS), fix=fix))
        return None
    if name not in MEANINGS:
        what = f"unknown measure {name!r}{nearest(name, tuple(MEANINGS))}"
        problems.append(sentence(what, where=f"the limit {text!r}", wanted=", ".join(MEANINGS)))
        return None
    try:
        bound = float(found[3])
    except ValueError:
        bound = math.nan
    limit = Limit(name, bound)
    sign = ">=" if limit.is_worth else "<="
    if found[2] != sign or not bound > 0 or not math.isfinite(bound):
        wanted = f"'{name} {sign}' and a number above 0"
        problems.append(sentence("a limit cannot be this", got=repr(text), wanted=wanted))
        return None
    if limit.is_probability and bound >= 1:
        fix = f"state less than 1: '{name} <= 0.1'"
        problems.append(sentence("a limit that every file keeps: probabilities are at most 1", got=repr(text), fix=fix))
        return None
    return limit


def _precision(text: str, problems: list[str]) -> Precision | None:
    found = _PRECISION.fullmatch(text)
    table = () if found is None else tuple(part for part in _CROSS.split(found[2]) if part)
    try:
        points = math.nan if found is None else float(found[1])
    except ValueError:
        points = math.nan
    if not 0 < points < 50 or not 1 <= len(table) <= 3:
        what, wanted = "a precision is not of the form that is wanted", "for example '2 points for sex x region'"
        problems.append(sentence(what, got=repr(text), wanted=f"{wanted}: 0 to 50 points, one to three variables"))
        return None
    return Precision(points, table)
