"""Which candidates are worth showing: those that no other one beats in risk, worth and detail together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from postrand.certification.units import unit_epsilon
from postrand.mechanism import Mechanism
from postrand.plan import Plan
from postrand.plan.analyses import Model
from postrand.plan.plan import plan_from_dict
from postrand.plan.policy import Rule
from postrand.report.table_worth import (
    EQUAL,
    LITTLE,
    TableWorth,
    harmonic,
    little_use,
    mean_worth,
    pairs_of,
    table_worth,
)
from postrand.support.warned import heard
from postrand.support.worth_basis import BASES
from postrand.workflow.advice_candidates import Candidate
from postrand.workflow.advice_needs import Needs
from postrand.workflow.advice_uses import Estimated, model_worth
from postrand.workflow.design_blocks import check_sizes, design_blocks
from postrand.workflow.half_widths import Drawn, HalfWidth, half_width
from postrand.workflow.planned import mechanism_of

ALIKE = 0.02
"""Worths that differ by a smaller part than this are the same to a reader."""
LEFT_OUT = f"Left out (worth on average, {BASES[EQUAL.basis]}; differences within {ALIKE:.0%} count as none)"
"""What stands above the ways that are not shown."""
MOST, FEWEST = 4, 2


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Hold a candidate at a total ε: its plan, and what it is worth if every combination is equally likely.

    ``half_widths``: those of each precision that is asked; None where the table cannot be estimated. ``data`` is the
    plan as plain data. ``mechanism``: without its rank laws. ``apart`` are variables whose worth other ways do not
    know: it is told, and ways are compared without them. ``estimated``: what models are estimated of.
    """

    candidate: Candidate
    epsilon: float
    data: dict[str, Any]
    plan: Plan
    one_way: tuple[TableWorth, ...]
    two_way: tuple[TableWorth, ...]
    half_widths: tuple[HalfWidth | None, ...]
    mechanism: Mechanism
    apart: frozenset[str] = frozenset()
    estimated: Estimated | None = None

    @property
    def one(self) -> float:
        """The harmonic mean of the effective records of tables of one variable."""
        return harmonic(self.compared(self.one_way))

    @property
    def two(self) -> float:
        """The harmonic mean of the effective records of tables of two variables; of one, if there are no others."""
        held = self.compared(self.two_way)
        return harmonic(held) if held else self.one

    @property
    def named(self) -> float:
        """The harmonic mean of the effective records of the tables of what is named; 0 where nothing is."""
        models = () if self.estimated is None else self.estimated.models
        return harmonic([worth for _, worth in models if worth is not None])

    def compared(self, worths: Iterable[TableWorth]) -> list[TableWorth]:
        """Return those of the tables by which ways are compared."""
        return [one for one in worths if self.apart.isdisjoint(one.variables)]

    @property
    def largest(self) -> float:
        """The ε of the household or person with the most records; that of a record where no plan protects them."""
        units = self.mechanism.units
        levels = () if units is None else (unit_epsilon(self.mechanism, *bound) for bound in units.bounds.items())
        return max(levels, default=self.epsilon)

    @property
    def detail(self) -> float:
        """The natural logarithm of the number of combinations that a record can have."""
        return sum(math.log(max(self.plan.codebook[name].size, 1)) for name in self.plan.perturbed)

    @property
    def is_useless(self) -> bool:
        """Whether almost nothing remains for the tables of one variable, and for those of two."""
        records = self.one_way[0].records if self.one_way else 0
        return little_use(self.two, records) and little_use(self.one, records)

    @property
    def worths(self) -> dict[frozenset[str], float | None]:
        """The effective records of every table, None where they are not known."""
        return {frozenset(one.variables): one.effective_records for one in (*self.one_way, *self.two_way)}

    def meets(self, needs: Needs) -> bool:
        """Return whether every precision that is asked is kept, whatever the true shares; see ``Drawn``."""
        return self._keeps(needs, "most")

    def may_meet(self, needs: Needs) -> bool:
        """Return whether every precision that is asked is kept if every combination were equally frequent."""
        return self._keeps(needs, "alike")

    def _keeps(self, needs: Needs, basis: Literal["most", "alike"]) -> bool:
        pairs = zip(needs.precisions, self.half_widths, strict=True)
        return all(found is not None and getattr(found, basis) <= wanted.points for wanted, found in pairs)


def tried(
    candidate: Candidate, epsilon: float, base: dict[str, Any], folder: Path, needs: Needs, n: int, drawn: Drawn
) -> Trial | None:
    """Return a candidate at a total ε, designed from the sizes alone where it reads no file; None if it is not new.

    ``drawn`` says how estimates from its ``n`` records are weighted: what is told of precision depends on it, and what
    a split is worth that one member of each household shows.

    Raises
    ------
    PostrandError
        If the plan is refused, or cannot be designed.
    """
    sections = candidate.sections(epsilon)
    if not sections:
        return None
    data = {**base, **sections}
    if candidate.chosen_with == "file" and candidate.has_epsilon:
        data["design"] = {**data["design"], "chosen_with": "file"}
    with heard():  # of plans that may never be shown; protect warns again
        plan = plan_from_dict(data, folder, where=f"the plan '{candidate.name}'")
        mechanism = designed(plan)
        rest = [n for n in mechanism.variables if n not in needs.household_variables]
        names = mechanism.variables if candidate.of_members else rest or mechanism.variables
        apart = frozenset(needs.household_variables if candidate.of_members and rest else ())
        one = table_worth(mechanism, [(name,) for name in names], n, EQUAL, drawn.sizes)
        two = table_worth(mechanism, pairs_of(names, plan.codebook), n, EQUAL, drawn.sizes)
        of = Estimated(n, drawn.sizes)
        of = of._replace(models=[(model, model_worth(mechanism, model, of)) for model in needs.models])
        drawn = drawn.of_members if candidate.of_members else drawn
        widths = tuple(half_width(mechanism, wanted, n, drawn) for wanted in needs.precisions)
    return Trial(candidate, epsilon, data, plan, one, two, widths, mechanism, apart, of)


def worth_met(rule: Rule, worths: Mapping[frozenset[str], float | None]) -> bool:
    """Return whether tables of these worths meet a rule on worth; one that is named and not among them counts not.

    >>> rule = Rule("effective_records", 200.0, tables="two-way")
    >>> pair = frozenset({"sex", "area"})
    >>> worth_met(rule, {pair: 250.0, frozenset({"sex"}): 90.0}), worth_met(rule, {pair: None})
    (True, False)
    """
    sizes = {"one-way": (1,), "two-way": (2,), "all": (1, 2)}
    if isinstance(rule.tables, str):
        held = [worth for names, worth in worths.items() if len(names) in sizes[rule.tables]]
    else:
        held = [worths[names] for names in map(frozenset, rule.tables) if names in worths]
    poor = sum(worth is None or worth < rule.limit for worth in held)
    return poor <= rule.share * len(held)


def designed(plan: Plan) -> Mechanism:
    """Return the mechanism of a plan without its rank laws, which need the file and keep every margin."""
    plan = replace(plan, numerical=())
    check_sizes(plan)
    return mechanism_of(plan, design_blocks(plan))


def beats(a: Trial, b: Trial) -> bool:
    """Return whether one plan is as good as another in ε, all worths, detail and whole records, and better in one."""
    pairs = list(zip(_measures(a), _measures(b), strict=True))
    return all(x >= y - ALIKE * abs(y) for x, y in pairs) and any(_is_more(x, y) for x, y in pairs)


def _is_more(one: float, other: float) -> bool:
    return one > other + ALIKE * abs(other)


def _worse(trial: Trial, winner: Trial) -> str:
    """Return in which measures one plan is worse than another, with the figures of both."""
    bounds = [one.mechanism.units.bounds for one in (winner, trial) if one.mechanism.units is not None]
    units = " or ".join(dict.fromkeys(unit for one in bounds for unit in one))
    has = trial.candidate.has_epsilon
    own, largest = (f"{level:g}" if has else "none" for level in (trial.epsilon, trial.largest))
    told = (
        f"epsilon ({own} against {winner.epsilon:g})",
        f"the epsilon of the largest {units} ({largest} against {winner.largest:g})" * bool(units),
        f"tables of one variable (worth {_records(trial)[0]} against {_records(winner)[0]} records)",
        f"tables of two variables (worth {_records(trial)[1]} against {_records(winner)[1]} records)",
        f"what is named (worth {named_worth(trial)} against {named_worth(winner)} records)",
        f"detail ({_combinations(trial)} combinations of categories against {_combinations(winner)})",
        "whole records (there each shows all its variables)",
    )
    measures = zip(told, _measures(winner), _measures(trial), strict=True)
    return " and ".join(text for text, x, y in measures if text and _is_more(x, y))


def _records(trial: Trial) -> tuple[str, str]:
    """Return what tables of one and of two variables are worth on average, in records: 0 where one has no estimate."""
    one, two = ((trial.one, trial.one_way), (trial.two, trial.two_way or trial.one_way))
    told = [mean_worth(worth, worths) for worth, worths in (one, two)]
    return told[0], told[1]


def named_worth(trial: Trial) -> str:
    """Return what the tables of what is named are worth on average, in records: 0 where one has no estimate."""
    models = () if trial.estimated is None else trial.estimated.models
    return mean_worth(trial.named, [worth for _, worth in models if worth is not None])


def _combinations(trial: Trial) -> str:
    return f"{math.exp(trial.detail):,.0f}" if trial.detail < 30 else f"10^{trial.detail / math.log(10):.0f}"


def _measures(trial: Trial) -> tuple[float, ...]:
    """Return what a plan is judged by, each the larger the better."""
    levels = (trial.epsilon, trial.largest) if trial.candidate.has_epsilon else (1e9, 1e9)
    whole = float(trial.plan.split is None)  # every record shows all variables, for analyses of many of them
    return (*(max(-level, -1e9) for level in levels), trial.one, trial.two, trial.named, trial.detail, whole)


def frontier(trials: Iterable[Trial], needs: Needs) -> tuple[list[Trial], list[tuple[Trial, str]]]:
    """Return the trials to show, the most useful first, and the others with the reason why they are not shown.

    One that meets more rules on worth than every trial that is shown is not left out.
    """
    held = list(trials)
    left: list[tuple[Trial, str]] = []
    missed = {id(trial): _rules_missed(trial, needs) | _models_missed(trial, needs) for trial in held}
    fewest = min((len(_rules_missed(trial, needs)) for trial in held if not trial.is_useless), default=0)
    useful = [trial for trial in held if not trial.is_useless or len(_rules_missed(trial, needs)) < fewest]
    kept = []
    for trial in held:
        others = [one for one in useful or held if one is not trial and missed[id(one)] <= missed[id(trial)]]
        winner = next((other for other in others if beats(other, trial)), None)
        if winner is not None:
            left.append(
                (trial, f"worse than '{winner.candidate.name}' in {_worse(trial, winner)}, and better in nothing")
            )
        elif useful and trial not in useful:
            one, two = _records(trial)
            left.append((trial, f"tables of one variable are worth {one} records, of two {two}: {LITTLE}"))
        else:
            kept.append(trial)
    kept.sort(key=lambda trial: _rank(trial, needs))
    for trial in kept[MOST:]:
        left.append((trial, "four better plans are shown"))
    return kept[:MOST], left


def _rules_missed(trial: Trial, needs: Needs) -> frozenset[Rule]:
    """Return the rules on worth that a trial does not meet, as if every combination were equally frequent."""
    return frozenset(rule for rule in needs.worth if not worth_met(rule, trial.worths))


def _models_missed(trial: Trial, needs: Needs) -> frozenset[Model]:
    """Return the models that are named and of little use in a trial, as if every combination were equally frequent."""
    models = trial.estimated.models if needs.models and trial.estimated is not None else ()
    return frozenset(
        model for model, one in models if one is not None and (one.effective_records is None or one.is_of_little_use)
    )


def _rank(trial: Trial, needs: Needs) -> tuple[Any, ...]:
    """Return what plans are ordered by: rules on worth and models that are met, precisions that are kept, and worth."""
    missed = (len(_rules_missed(trial, needs)), trial.is_useless, len(_models_missed(trial, needs)))
    return (*missed, not trial.meets(needs), -trial.two, -trial.one)
