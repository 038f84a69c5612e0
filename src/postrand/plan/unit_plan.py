"""The section ``[unit]`` of a plan: who is protected, a person or a household, and which variables describe them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from postrand.codebook import Codebook
from postrand.errors import SpecificationError, nearest, sentence, shown
from postrand.mechanism.units import Unit, Units
from postrand.privacy import needs_file
from postrand.support.inputs import finite, is_names
from postrand.support.showing import few

Differing = Literal["refuse", "most frequent"]
"""What is done with a variable of a unit whose records differ in it: refuse the file, or take the most frequent."""


@dataclass(frozen=True, slots=True)
class UnitPlan:
    """Hold who is protected beside the record.

    ``household`` and ``person`` name the columns that tell which records are one household's or person's; empty: the
    unit is not used; the same column where a person with several records is the household.
    ``household_variables`` describe the household: all its records have one value of each, and show
    one draw. ``largest_household`` and ``most_records`` are the most records of one unit, decided without the file.
    ``epsilon`` is the budget of the largest household (without households, of the person with most records); None: it
    is stated, and not asked for. ``differing`` is what is done with records of a unit that differ in its variables;
    :mod:`postrand.engines.unit_values` has the rule.
    """

    household: str = ""
    household_variables: tuple[str, ...] = ()
    largest_household: int = 0
    person: str = ""
    person_variables: tuple[str, ...] = ()
    most_records: int = 0
    epsilon: float | None = None
    differing: Differing = "refuse"

    @property
    def settles(self) -> bool:
        """Whether records that differ get one value, by the rule, where the file would be refused."""
        return self.differing != "refuse"

    @property
    def units(self) -> Units:
        """The columns and bounds, as a mechanism holds them."""
        return Units(self.household, self.largest_household, self.person, self.most_records)

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """The variables that describe each unit but the record."""
        return {"household": self.household_variables, "person": self.person_variables}

    @property
    def asked(self) -> tuple[str, int]:
        """The unit that ``epsilon`` is about, and its number of records."""
        return next(reversed(self.units.bounds.items()))

    def unit_of(self, variables: Iterable[str]) -> Unit:
        """Return the unit that a block of these variables describes; see :func:`unit_problems` for mixed blocks."""
        names = set(variables)
        units: tuple[Unit, ...] = ("household", "person")
        return next((unit for unit in units if names and names <= {*self.variables[unit]}), "record")


OPTIONS = tuple(field.name for field in fields(UnitPlan))


def unit_from(data: Any, codebook: Codebook | None, where: str) -> tuple[UnitPlan | None, list[str]]:
    """Return the section's plan, None without one or with problems, and the problems.

    A plan that says something of households, and not their column, means the one variable of this role.

    >>> unit_from({"household": "hid", "largest": 6}, None, "plan [unit]")[1][0].partition(";")[0]
    "plan [unit]: unknown option 'largest'"
    """
    if data is None:
        return None, []
    if not isinstance(data, Mapping):
        return None, [sentence("expected a table", where=where)]
    problems = [
        sentence(f"unknown option {name!r}{nearest(name, OPTIONS)}", where=where, wanted=", ".join(OPTIONS))
        for name in data
        if name not in OPTIONS
    ]
    data = _housed(data, codebook)
    problems += _value_problems(data, where)
    if problems:
        return None, problems
    lists = {name: tuple(data.get(name, ())) for name in ("household_variables", "person_variables")}
    plan = UnitPlan(**{**data, **lists})
    try:
        units = plan.units
    except SpecificationError as error:
        return None, [f"{where}: {problem}" for problem in error.problems]
    problems += (
        [] if codebook is None else [sentence(p, where=where, **more) for p, more in _fit(plan, units, codebook)]
    )
    return (None if problems else plan), problems


def _housed(data: Mapping[str, Any], codebook: Codebook | None) -> Mapping[str, Any]:
    known = [] if codebook is None else [variable.name for variable in codebook.with_role("household")]
    asked = "household" not in data and not {"household_variables", "largest_household"}.isdisjoint(data)
    return {**data, "household": known[0]} if asked and len(known) == 1 else data


def _value_problems(data: Mapping[str, Any], where: str) -> Iterable[str]:
    for unit in ("household", "person"):
        names = data.get(f"{unit}_variables", [])
        if not is_names(names):
            fix = f'set {unit}_variables = ["region"]'
            yield sentence(f"'{unit}_variables' is not a list of names", where=where, fix=fix)
        elif names and not data.get(unit):
            fix = f"set {unit}, the column that numbers {unit}s"
            yield sentence(f"'{unit}_variables' is given without {unit!r}", where=where, fix=fix)
    if data.get("person_variables") and data.get("person") == data.get("household"):
        what, fix = "the persons are the households", "name these variables in household_variables"
        yield sentence("'person_variables' cannot be used where " + what, where=where, fix=fix)
    if "epsilon" in data and not finite(data["epsilon"]) > 0:
        yield sentence("epsilon is not a positive number", where=where, got=shown(data["epsilon"], repr))
    known = get_args(Differing)
    if "differing" in data and data["differing"] not in known:
        got = shown(data["differing"], repr)
        yield sentence(f"unknown 'differing' {got}{nearest(got, known)}", where=where, wanted=", ".join(known))


def _fit(plan: UnitPlan, units: Units, codebook: Codebook) -> Iterable[tuple[str, dict[str, str]]]:
    for unit, name in units.columns.items():
        if name not in codebook:
            yield f"no variable {name!r} in the codebook{nearest(name, codebook.names)}", {}
            continue
        role = codebook[name].role
        if unit == "household" and role != "household":
            fix = "set this role in the codebook: the release has new numbers in place of the file's"
            more = {"got": f"role {role!r}", "wanted": "role 'household'", "fix": fix}
            yield f"{name!r} has no household numbers", more
        if unit == "person" and role in ("household", "weight", "record_key") and not units.are_persons:
            fix = "name the column that numbers persons, with role 'drop' where it is not released"
            fix = f"name it as the household too: household = {name!r}" if role == "household" else fix
            yield f"{name!r} does not number persons", {"got": f"role {role!r}", "fix": fix}
    both = sorted({*plan.household_variables} & {*plan.person_variables})
    if both:
        yield f"{few(both)}: described as of a household and of a person", {"fix": "keep one of the two"}


def unit_problems(
    plan: UnitPlan, blocks: Sequence[Any], elsewhere: Sequence[str], where: str, of_members: Sequence[str] = ()
) -> Iterable[str]:
    """Yield why the blocks of a plan do not fit its units; ``elsewhere`` are perturbed variables outside of blocks.

    ``of_members`` are those of a split of which one random member of each household shows a subset: whatever they
    describe, they are shown once.
    """
    for unit, names in plan.variables.items():
        used = {name for block in blocks for name in (*block.variables, *block.given)}.union(of_members)
        for name in names:
            if name in elsewhere:
                what = f"{name!r} describes the {unit}, but only a variable of a block can be drawn once for it"
                more = "" if unit == "household" else f" and household = {plan.person!r} beside person in [unit]"
                fix = f"put it in [[blocks]], or in [split] with unit = 'household'{more}, "
                fix += f"or take it out of {unit}_variables"
                yield sentence(what, where=where, fix=fix)
            elif name in of_members and plan.settles:
                what = f"{name!r} is shown by one member of each household, and records that differ in it are settled"
                fix = "perturb it in [[blocks]], or set differing = 'refuse' in [unit]"
                yield sentence(what, where=where, fix=fix)
            elif name not in used:
                what = f"{name!r} is in {unit}_variables, but no block perturbs or reads it"
                yield sentence(what, where=where, fix="add a block for it, or take it out")
    for block in blocks:
        yield from _block_problems(plan, block, where)


def _block_problems(plan: UnitPlan, block: Any, where: str) -> Iterable[str]:
    about, names = f"block {'*'.join(block.variables)!r}", [*block.variables]
    for unit, described in plan.variables.items():
        inside = [name for name in names if name in described]
        if inside and len(inside) < len(names):
            rest = few([name for name in names if name not in described])
            what = f"a block has variables of the {unit} ({few(inside)}) and others ({rest})"
            yield sentence(what, where=about, fix="perturb them in blocks of their own")
    if plan.unit_of(names) == "record":
        return
    if needs_file(block.privacy):
        yield sentence(
            "this privacy model takes the draws of all records as independent", where=about, fix="choose another"
        )
    if block.rarer_than:
        what = "'rarer_than' counts records, and this block describes a unit of several"
        yield sentence(what, where=about, fix="remove 'rarer_than'")
    if plan.settles and block.prior == "dp":
        what = "a private prior counts records, and one record can settle the value of several"
        yield sentence(what, where=about, fix="use another prior, or set differing = 'refuse' in [unit]")


def reading_problems(plan: UnitPlan, blocks: Sequence[Any], read: Sequence[Sequence[str]], where: str) -> Iterable[str]:
    """Yield which blocks of a unit read what can differ within it; ``read`` are the variables of each block's cells."""
    for block, names in zip(blocks, read, strict=True):
        unit = plan.unit_of(block.variables)
        if plan.settles:
            yield from _settled_elsewhere(plan, unit, names, f"block {'*'.join(block.variables)!r}")
        if unit == "record":
            continue
        held = {*plan.household_variables, *(plan.person_variables if unit == "person" else ())}
        if differing := [name for name in names if name not in held]:
            what = f"a block of the {unit} reads {few(differing)} ('given', or a rule of the codebook)"
            fix = f"name them in {unit}_variables if all records of a {unit} have one value, or perturb the block's "
            yield sentence(what, where=f"block {'*'.join(block.variables)!r}", fix=f"{fix}variables for each record")


def _settled_elsewhere(plan: UnitPlan, unit: Unit, read: Sequence[str], about: str) -> Iterable[str]:
    """Yield which values of other units a block reads: one record could then change the draws of other records."""
    for other, names in plan.variables.items():
        if other != unit and (settled := [name for name in read if name in names]):
            what = f"a block of the {unit} reads {few(settled)}, whose values other records of the {other} can settle"
            yield sentence(what, where=about, fix="do not read them there, or set differing = 'refuse' in [unit]")
