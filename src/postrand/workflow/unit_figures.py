"""The figures of a plan that are about persons and households: their levels, and in which words they are told."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from postrand.certification import Certificate
from postrand.plan import Plan
from postrand.support.exact import add_upper, upper_level
from postrand.support.measure_names import counted_by
from postrand.workflow.facts import household_of


def unit_epsilon_of(plan: Plan, certificate: Certificate, largest: int) -> dict[str, float]:
    """Return the ε of the largest household and person; of the file's, where only the codebook names households."""
    found = {
        unit: told["levels"][-1]["epsilon"] if "levels" in told else math.inf
        for unit, told in certificate.units.items()
    }
    members = {"household": add_upper(*[certificate.account.total] * largest)}
    return (members if largest and household_of(plan) is not None else {}) | found


def bounds_of(plan: Plan) -> Mapping[str, int]:
    """Return the most records of each unit that the plan protects."""
    return {} if plan.unit is None else plan.unit.units.bounds


def persons_of(plan: Plan) -> tuple[Callable[[str], str], str]:
    """Return how persons are worded, and their column where no figure puts a person's records together."""
    if plan.unit is None:
        return str, ""
    is_one = plan.unit.units.are_persons
    return counted_by(plan.unit.person, are_households=is_one), "" if is_one else plan.unit.person


def levels_in_words(plan: Plan, epsilon: float, units: Mapping[str, float], largest: int) -> tuple[str, ...]:
    """Return the ε of a record, and beside it that of several records of one household or person, in words."""

    def said(level: float) -> str:
        return f"{upper_level(level)} at most" if math.isfinite(level) else "none that is finite"

    bounds = bounds_of(plan)
    told = [f"ε of a record: {said(epsilon)}"]
    is_one = plan.unit is not None and plan.unit.units.are_persons
    for unit, level in units.items():
        if is_one and unit == "household":
            continue
        whose = f"a {unit} with up to {bounds[unit]} records" if unit in bounds else ""
        told += [f"of {whose or f'all {largest} members of the largest household'} together: {said(level)}"]
    if "household" not in units:
        who = "household" if household_of(plan) is not None else "person or household"
        told += [f"of k records of one {who} together: k times as much"]
    return tuple(told)
