"""Levels of persons and households: what all records of a unit spend together.

Let H, P and R be the ε of the blocks of households, of persons and of records, and Q what private priors spent of one
record's budget. A split is part of R with its worst subset; of H, where one random member of a household shows it: who
that is was drawn without looking at the values, and the others show nothing of it. Draws of different blocks, and of
different units, are independent, so ratios multiply::

    record                              H + P + R + Q
    person with m records               H + P + m (R + Q)       all in one household, which the run checks
    household with k records            H + k (P + R + Q)       of k persons at most

Each sum is rounded up. A level is about the values of one unit, all others and who belongs together being the same.
"""

from __future__ import annotations

import math
from typing import Any

from postrand.certification.account import add_upper, spent_upper
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix_classes import classes_of

SHOWN = (1, 2, 4)
"""Records of a unit for which levels are stated, beside the largest number that the plan allows."""


def unit_levels(mechanism: Mechanism) -> dict[str, Any]:
    """Return the levels of every unit of a mechanism as plain data; nothing where it has no units.

    ``records`` and ``epsilon`` of each level, ``member`` the variables that one random member shows; no level where a
    matrix excludes true values: ``infinite`` names its block. ``within``: levels are among true values of the same
    class.

    Examples
    --------
    >>> from postrand.mechanism import Block, Units
    >>> from postrand.mechanism.matrix import randomised_response
    >>> region = Block("region", randomised_response(4, 1.0), unit="household")
    >>> sex, units = Block("sex", randomised_response(2, 0.5)), Units(household="hid", largest_household=3)
    >>> found = unit_levels(Mechanism([region, sex], units=units))
    >>> [(level["records"], level["epsilon"]) for level in found["household"]["levels"]]
    [(1, 1.5), (2, 2.0), (3, 2.5)]
    """
    if mechanism.units is None:
        return {}
    found: dict[str, Any] = {}
    one = mechanism.split is not None and mechanism.split.of_members
    for unit, most in mechanism.units.bounds.items():
        shown = [*(k for k in SHOWN if k < most), most]
        stated = [{"records": k, "epsilon": unit_epsilon(mechanism, unit, k)} for k in shown]
        is_finite = all(math.isfinite(level["epsilon"]) for level in stated)
        found[unit] = {
            "column": mechanism.units.columns[unit],
            "variables": list(mechanism.shared.get(unit, ())),
            **({"member": list(mechanism.partly)} if unit == "household" and one else {}),
            **({"levels": stated} if is_finite else {"infinite": _infinite(mechanism)}),
        }
    if any(classes_of(block.matrix).any() for block in mechanism.every_block):
        found = {unit: {**told, "within": True} for unit, told in found.items()}
    return found


def unit_epsilon(mechanism: Mechanism, unit: str, records: int) -> float:
    """Return the ε of a unit with so many records, rounded up; inf where a matrix has none."""
    once, each = parts(mechanism, unit)
    return add_upper(once, *[each] * records)


def parts(mechanism: Mechanism, unit: str) -> tuple[float, float]:
    """Return what a unit spends once, and what each of its records adds; both rounded up."""
    units = once_of(unit)
    ways = mechanism.alternatives
    once = max(spent_upper([b for b in blocks if b.unit in units]) for blocks in ways)
    spent = max(spent_upper([b for b in blocks if b.unit not in units]) for blocks in ways)
    priors = [block.prior_epsilon for block in mechanism.every_block[: len(mechanism.blocks) + 1]]
    return once, add_upper(spent, *priors)


def once_of(unit: str) -> tuple[str, ...]:
    """Return the units whose blocks a unit spends once, however many records it has."""
    return ("household",) if unit == "household" else ("person", "household")


def _infinite(mechanism: Mechanism) -> list[list[str]]:
    return [list(block.perturbed) for block in mechanism.every_block if math.isinf(block.epsilon)]
