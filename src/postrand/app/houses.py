"""Households and persons of several records: the decisions that are ``[unit]`` of a plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from postrand.app import blocks as together
from postrand.app.decisions import Decisions

SHOWN = ("household", "household_variables", "largest_household")
"""The options of ``[unit]`` that the form has."""
USUAL_MOST = 20
"""Members of the largest household, until a person says another number: it must not come from the file."""


def household(decisions: Decisions) -> str:
    """Return the variable with the role household, empty where there is none."""
    return next((n for n, role in zip(decisions.names, decisions.roles, strict=True) if role == "household"), "")


def is_offered(decisions: Decisions) -> bool:
    """Whether a form says what is drawn once: the blocks are those of the screens, and households have a number."""
    return bool(household(decisions)) and decisions.way == "blocks"


def once(decisions: Decisions) -> tuple[str, ...]:
    """Return the variables with one value for each household."""
    return tuple((unit(decisions) or {}).get("household_variables", ()))


def unit(decisions: Decisions) -> dict[str, Any] | None:
    """Return ``[unit]`` of the plan, None for none: of households only while they have a number and variables."""
    held = decisions.kept.get("unit")
    if held is None or decisions.is_of_plan:
        return held
    found, name = dict(held), household(decisions)
    if not name:
        return _of_persons(found)
    if found.get("household_variables"):
        used = {n for one in decisions.blocks for n in (*one.variables, *one.given)}
        split = {decisions.names[j] for j in decisions.perturbed} if decisions.splits else used
        found["household_variables"] = [n for n in found["household_variables"] if n in used | split]
    return found


def is_protected(decisions: Decisions) -> bool:
    """Whether whole households are protected."""
    return bool((unit(decisions) or {}).get("household"))


def _of_persons(section: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what ``[unit]`` says of persons alone, None where that is nothing."""
    found = {option: value for option, value in section.items() if "household" not in option}
    return found if found.get("person") else None


def person(decisions: Decisions) -> str:
    """Return the column that says which records are one person's, empty where the plan names none."""
    return str((unit(decisions) or {}).get("person", ""))


def chosen(decisions: Decisions, key: str, value: str) -> Decisions:
    """Return the decisions with households protected as wholes or not, or with one variable drawn once or not.

    ``key`` is empty, ``most`` for the most members of one, or the number of a column; anything that is not possible
    sets ``problem``.
    """
    name = household(decisions)
    if not is_offered(decisions):
        return _refused(decisions, "no variable has the role household")
    start = {"household": name, "household_variables": [], "largest_household": USUAL_MOST}
    held = {**start, **(unit(decisions) or {}), "household": name}
    if key == "":
        return _with(decisions, held if value == "true" else _of_persons(held))
    if not (value if key == "most" else key).isascii() or not (value if key == "most" else key).isdigit():
        return _refused(decisions, "the most members of one household are a whole number")
    if key == "most":
        return _with(decisions, {**held, "largest_household": int(value[:9])})
    if int(key[:8]) not in decisions.perturbed:
        return _refused(decisions, "only a perturbed variable can be drawn once for each household")
    column = decisions.names[int(key[:8])]
    rest = [other for other in held["household_variables"] if other != column]
    after = _with(decisions, {**held, "household_variables": [*rest, column] if value == "true" else rest})
    mine = next(one for one in after.blocks if column in one.variables)
    if len(mine.variables) > 1:  # a block describes the household, or the record
        after = dataclasses.replace(after, held=together.put(after.blocks, column, ""))
    return after


def _with(decisions: Decisions, section: dict[str, Any] | None) -> Decisions:
    kept = {name: held for name, held in decisions.kept.items() if name != "unit"}
    return dataclasses.replace(decisions, kept=kept if section is None else {**kept, "unit": section}, problem="")


def _refused(decisions: Decisions, words: str) -> Decisions:
    return dataclasses.replace(decisions, problem=words)
