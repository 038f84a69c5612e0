"""Divide two budgets at once: the record's, and that of the largest household or person that a plan allows.

A block costs its ε once for the record. For a household with k records it costs ε once if it is drawn for the
household, and k ε otherwise. So of the blocks that share, with costs c_b, the division keeps ``Σ ε_b <= E`` and
``Σ c_b ε_b <= F``, E and F being what is left of the two budgets.

One of the two often holds by itself. Otherwise their weighted mean ``Σ ((1-t)/E + t c_b/F) ε_b <= 1`` is divided: every
division that keeps both keeps it, and at the right t the best division of it keeps both (Lagrange). t is found by
bisection on curves that are interpolated between a few points. There the curves themselves are divided, and what is
then beyond a budget is scaled away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from postrand.certification.units import once_of, unit_epsilon, unit_levels
from postrand.designers.budget import BudgetShare, Curve, allocate, floors
from postrand.errors import DesignError, PrivacyError, sentence
from postrand.mechanism import Mechanism
from postrand.plan import Plan
from postrand.plan.values import budget_of
from postrand.privacy.words import LITTLE
from postrand.support.exact import format_upper
from postrand.support.showing import few
from postrand.workflow.known import unit_of

_STEPS, _POINTS = 12, 24
"""Halvings of the interval of t, and points of a curve between which it is interpolated."""


def costs_of(plan: Plan) -> list[float]:
    """Return what each block's ε costs the budget of the plan's unit; raises where the plan asks for none."""
    assert plan.unit is not None
    unit, records = plan.unit.asked
    return [1.0 if unit_of(plan, block) in once_of(unit) else float(records) for block in plan.blocks]


def split_cost(plan: Plan) -> float:
    """Return what the ε of the plan's split costs the budget of the plan's unit."""
    assert plan.unit is not None
    assert plan.split is not None
    unit, records = plan.unit.asked
    return 1.0 if plan.split.unit in once_of(unit) else float(records)


def left_of(plan: Plan, taken: Sequence[float], besides: float) -> float:
    """Return what is left of the budget of the plan's unit.

    ``taken`` is the ε that each block has of its own, ``besides`` what priors of blocks spend of each record's. The
    split's own ε counts once where one member of each household shows a subset, else for each record.

    Raises
    ------
    DesignError
        If nothing is left.
    """
    assert plan.unit is not None
    assert plan.unit.epsilon is not None
    unit, records = plan.unit.asked
    spent = [cost * own for cost, own in zip(costs_of(plan), taken, strict=True)]
    if plan.split is not None:
        spent += [split_cost(plan) * (plan.split.epsilon or 0.0), records * plan.split.prior_spent]
    left = plan.unit.epsilon - math.fsum([*spent, records * besides])
    if not left > 0:
        what = f"the epsilon of a {unit} with {records} records is used up: nothing is left to share"
        fix = f"raise [unit] epsilon, or {to_lower(plan)}"
        raise DesignError(sentence(what, where="[unit] epsilon", got=f"{left:g}", fix=fix))
    return left


def to_lower(plan: Plan) -> str:
    """Return what can be lowered where a budget is used up: only what does spend something."""
    has_own = any(budget_of(block.privacy) for block in plan.blocks)
    parts = ["the epsilon of [split]"] * (plan.split is not None) + ["the blocks' own"] * has_own
    return f"lower {' or '.join(parts) or 'that of the priors'}"


def unit_advice(mechanism: Mechanism) -> tuple[str, ...]:
    """Return what protects a unit more, where its largest level is little protection, and what cannot be estimated."""
    levels = {unit: told["levels"][-1]["epsilon"] for unit, told in unit_levels(mechanism).items() if "levels" in told}
    shared = [name for names in mechanism.shared.values() for name in names]
    what = "No joint model of such a release can be fitted ('postrand complete', or --method model)"
    partly = "; tables and regressions of variables that no record shows together cannot be estimated"
    no_model = f"{what}, because records share draws of {few(shared)}{partly if mechanism.split is not None else ''}."
    return (*[no_model] * bool(shared), *(_weak(unit, mechanism) for unit, level in levels.items() if level > LITTLE))


def _weak(unit: str, mechanism: Mechanism) -> str:
    """Return what protects a unit more: in a split, one random record of it shows a subset."""
    step = f"name more of those that a {unit}'s records share in {unit}_variables"
    if mechanism.split is not None:
        whose = "member of each household" if unit == "household" else "record of each person"
        step = f"let one random {whose} show a subset: [split] unit = 'household'"
        step += ", with the column of persons as household too in [unit]" * (unit == "person")
    return (
        f"The level of a {unit} with most records is little protection. What is drawn for each record counts once for "
        f"each of them. Next: lower its epsilon ([unit] epsilon sets it), perturb fewer variables, or {step}."
    )


def divided(
    curves: Sequence[Curve], asked: Sequence[BudgetShare], costs: Sequence[float], record: float, unit: float
) -> tuple[float, ...]:
    """Return the ε of each block that shares, such that the sum is at most ``record`` and with costs at most ``unit``.

    >>> curve = lambda e: (1 - math.exp(-e),) * 2
    >>> [round(e, 2) for e in divided([curve] * 2, [BudgetShare()] * 2, [1.0, 4.0], 10.0, 4.0)]
    [1.91, 0.52]
    """

    def of(t: float, known: Sequence[Curve]) -> tuple[float, ...]:
        rates = [(1 - t) / record + t * cost / unit for cost in costs]
        scaled = [_at(curve, rate) for curve, rate in zip(known, rates, strict=True)]
        least = floors([share.scaled(rate) for share, rate in zip(asked, rates, strict=True)], 1.0)
        found = allocate(scaled, 1.0, [share.weight for share in asked], least)
        return tuple(e / rate for e, rate in zip(found.epsilons, rates, strict=True))

    def beyond(shares: Sequence[float]) -> tuple[float, float]:
        return math.fsum(shares) / record, math.fsum(map(math.prod, zip(costs, shares, strict=True))) / unit

    quick, low, high = [_interpolated(curve, record) for curve in curves], 0.0, 1.0
    if beyond(of(low, quick))[1] <= 1:
        high = low
    elif beyond(of(high, quick))[0] > 1:
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if beyond(of(middle, quick))[1] > 1 else (low, middle)
    shares = of(high, curves)
    most = max(1.0, *beyond(shares))
    return tuple(e / most for e in shares)


def _interpolated(curve: Curve, most: float) -> Curve:
    """Return a curve that is linear between points of this one, up to ``most`` and a little beyond."""
    at = np.linspace(most / _POINTS, 1.01 * most, _POINTS)
    points = np.array([curve(float(epsilon)) for epsilon in at])
    at, points = np.append(0.0, at), np.vstack([points[:1], points])
    return lambda spent: (float(np.interp(spent, at, points[:, 0])), float(np.interp(spent, at, points[:, 1])))


def _at(curve: Curve, rate: float) -> Curve:
    return lambda spent: curve(spent / rate)


def require_unit_level(plan: Plan, mechanism: Mechanism) -> None:
    """Raise PrivacyError unless the level of the plan's unit is at most the one that it asks for."""
    if plan.unit is None or plan.unit.epsilon is None:
        return
    unit, records = plan.unit.asked
    found = unit_epsilon(mechanism, unit, records)
    if found > plan.unit.epsilon:
        what = f"the level of a {unit} with {records} records is above the one asked for"
        fix = f"{to_lower(plan)}, let blocks share, or raise [unit] epsilon"
        got, wanted = f"ε <= {format_upper(found)}", f"ε <= {plan.unit.epsilon:g}"
        raise PrivacyError(sentence(what, where="[unit] epsilon", got=got, wanted=wanted, fix=fix))
