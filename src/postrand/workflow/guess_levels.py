"""Where a plan breaks a rule on guesses: the largest level of the part that perturbs a variable that keeps the rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from postrand.errors import PostrandError
from postrand.mechanism import Mechanism
from postrand.plan import Plan
from postrand.plan.policy import GUESSES, Rule
from postrand.privacy import spent
from postrand.risk.exposure import TrueFile
from postrand.risk.facts_told import Told
from postrand.support.warned import heard
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.design_blocks import design_blocks
from postrand.workflow.file_goal import solved
from postrand.workflow.guessed import best_guesses, guesses
from postrand.workflow.known import Known
from postrand.workflow.plan_figures import figures_of
from postrand.workflow.planned import mechanism_of
from postrand.workflow.policy_check import PolicyCheck, check_policy
from postrand.workflow.policy_steps import TRIED
from postrand.workflow.ruled_guesses import beyond_limit

LEVELS = (*(n / 10 for n in range(1, 20)), *(n / 4 for n in range(8, 20)), *range(5, 21))
"""The levels of a block, or of a split, that are tried."""


def checked(plan: Plan, *, fraction: float | None = None, name: str = "") -> PolicyCheck:
    """Return which rules of its policy a plan meets, and which level would keep a rule on guesses that it breaks.

    Raises as :func:`postrand.workflow.plan_figures.measured`.
    """
    plan = solved(plan)
    known = Known.of(plan, dossier=True)
    return with_levels(figures_of(plan, known, fraction=fraction, name=name), known, fraction)


def with_levels(figures: PlanFigures, known: Known, fraction: float | None = None) -> PolicyCheck:
    """Return the same of a plan with its figures; its policy is that of what is ``known`` of its file.

    The levels are tried on the file, all else as it is, with simulated releases: internal, as the figures are.
    """
    policy = known.plan.policy
    assert policy is not None
    page = check_policy(figures, policy)
    broken = {n: beyond_limit(rule, figures) for n, rule in enumerate(policy.rules) if rule.measure in GUESSES}
    if not any(broken.values()):
        return page
    tries, verdicts = _Tries(known, known.plan.share(fraction)), list(page.verdicts)
    for n, names in broken.items():
        told = "; ".join(tries.levels(policy.rules[n], names))
        verdicts[n] = dataclasses.replace(
            verdicts[n], step=verdicts[n].step.replace(TRIED, "") + f": {told}" * bool(told)
        )
    return dataclasses.replace(page, verdicts=tuple(verdicts))


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a plan that has a level of its own: what it is called, the level, and the plan with another one."""

    name: str
    now: float
    at: Callable[[float], Plan]


def part_of(plan: Plan, mechanism: Mechanism, variable: str) -> _Part | None:
    """Return the block or split of a plan that perturbs a variable; None where it has no level of its own."""
    if plan.split is not None and variable in plan.split.variables and mechanism.split is not None:
        split = plan.split

        def of_split(level: float) -> Plan:
            return dataclasses.replace(plan, split=dataclasses.replace(split, epsilon=level))

        return _Part("the split", mechanism.split.epsilon, of_split)
    levels = ((n, spent(one.privacy)) for n, one in enumerate(plan.blocks) if variable in one.variables)
    return next((_of_block(plan, n, level) for n, level in levels if level is not None), None)


def _of_block(plan: Plan, number: int, now: float) -> _Part | None:
    blocks = plan.blocks
    model: Any = blocks[number].privacy
    if not hasattr(model, "scaled"):
        return None

    def at(level: float) -> Plan:
        own = dataclasses.replace(blocks[number], privacy=model.scaled(level / now))
        return dataclasses.replace(plan, blocks=(*blocks[:number], own, *blocks[number + 1 :]))

    return _Part(f"the block of {', '.join(blocks[number].variables)}", now, at)


class _Tries:
    """Levels of one plan that were tried, with what is guessed there of each variable."""

    def __init__(self, known: Known, fraction: float | None) -> None:
        self.known, self.plan = known, known.plan
        self.mechanism = mechanism_of(self.plan, design_blocks(self.plan, known), known)
        self.truth = TrueFile.read(known.held, self.plan.codebook, fraction, whole=known.beside)

    def levels(self, rule: Rule, names: list[str]) -> Iterator[str]:
        """Yield in words the level that keeps a rule, of each part that perturbs a variable by which it is broken."""
        parts: dict[str, tuple[_Part, list[str]]] = {}
        for name in names:
            if (part := part_of(self.plan, self.mechanism, name)) is not None:
                parts.setdefault(part.name, (part, []))[1].append(name)
        for part, own in parts.values():
            found = self._largest(part, rule, own)
            if found is None:
                yield f"no level of {part.name} that was tried, down to {LEVELS[0]:g}, keeps the rule"
            else:
                of = "" if len(parts) == 1 else f" of {' and '.join(own)}"
                yield f"epsilon = {found:g} of {part.name}, all else as it is, keeps the rule{of}; {part.now:.4g} now"

    def _largest(self, part: _Part, rule: Rule, names: list[str]) -> float | None:
        """Return the largest level below that of the plan at which none of the variables breaks the rule."""
        low, high, found = 0, sum(level < part.now for level in LEVELS), None
        while low < high:
            middle = (low + high) // 2
            if self._keeps(part, LEVELS[middle], rule, names):
                low, found = middle + 1, LEVELS[middle]
            else:
                high = middle
        return found

    def _keeps(self, part: _Part, level: float, rule: Rule, names: list[str]) -> bool:
        try:
            plan = part.at(level)
            with heard():  # of designs that nobody will see
                mechanism = mechanism_of(plan, design_blocks(plan, self.known), self.known)
            told = {one.name: one for one in self._told(mechanism)}
        except PostrandError:
            return False
        return all(name in told and told[name].of(rule.measure) <= rule.limit for name in names)

    def _told(self, mechanism: Mechanism) -> tuple[Told, ...]:
        facts = () if self.truth is None else self.truth.told_facts(mechanism)
        return best_guesses(guesses(mechanism, self.plan.codebook, lambda name: self.known.shares((name,))), facts)
