"""Blocks of a plan that keep a rule across members: one member of each household has a category."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from postrand.designers.linked_cells import LinkedCells
from postrand.errors import sentence, shown
from postrand.mechanism.one_member import OneMember, size_problems
from postrand.plan.values import BlockPlan, Plan
from postrand.privacy import DifferentialPrivacy


def one_member_problems(plan: Plan, shapes: Sequence[LinkedCells | None], where: str) -> Iterable[str]:
    """Yield why blocks cannot choose one member of each household."""
    for block, shape in zip(plan.blocks, shapes, strict=False):
        about = f"{where}, block {'*'.join(block.variables)!r}"
        if block.one_member is not None:
            yield from _problems(plan, block, shape, about)
        elif block.at_most_one is not None:
            fix = 'add one_member = "head": the category that exactly one member has'
            yield sentence("'at_most_one' is given without 'one_member'", where=about, fix=fix)


def _problems(plan: Plan, block: BlockPlan, shape: LinkedCells | None, where: str) -> Iterable[str]:
    if plan.unit is None or not plan.unit.household:
        fix = 'add [unit] with household = "hid" and largest_household'
        yield sentence("'one_member' is given, and no column tells who lives together", where=where, fix=fix)
    if len(block.variables) != 1 or len(block.given) != 1:
        what, wanted = "'one_member' needs one variable, and the size of its household", "one in each"
        fix = 'set variables = ["head"] and given = ["household_size"]'
        yield sentence(what, where=where, wanted=wanted, fix=fix)
        return
    if not isinstance(block.privacy, DifferentialPrivacy):
        fix = 'set privacy = { model = "differential", epsilon = 1.0 }'
        yield sentence("'one_member' has no epsilon of its own", where=where, fix=fix)
    if block.matrix is not None or block.rarer_than or block.prior != "uniform":
        yield sentence("'one_member' cannot be combined with matrix, rarer_than or prior", where=where)
    (name,), (size,) = block.variables, block.given
    second = block.at_most_one is not None
    yield from size_problems(plan.codebook, name, size, where, second)
    for option, value in (("one_member", block.one_member), ("at_most_one", block.at_most_one)):
        if name in plan.codebook and value is not None and value not in plan.codebook[name].categories:
            yield sentence(f"{option!r} is no category of {name!r}", where=where, got=shown(value, repr))
    if block.at_most_one == block.one_member:
        yield sentence("'at_most_one' is the category of 'one_member'", where=where, fix="name another category")
    cells = (2 + second) * (plan.codebook[size].size if size in plan.codebook else 0)
    linked = shape is not None and (shape.given != (size,) or len(shape.cells) != cells)
    if shape is None or linked:
        fix = "remove the rules, or perturb the variables together without 'one_member'"
        yield sentence(f"rules link {name!r} to other variables", where=where, fix=fix)


def one_member_of(block: BlockPlan, shape: LinkedCells, codebook: Any) -> OneMember:
    """Return where the cells of such a block are."""
    (name,), (size,) = block.variables, block.given
    known = [int(category) for category in codebook[size].categories]
    places = (shape.variables.index(name), shape.variables.index(size))
    one, second = codes_of(block, codebook)
    assert one is not None
    return OneMember.of(shape.cells, *places, one, known, second)


def codes_of(block: BlockPlan, codebook: Any) -> tuple[int | None, int | None]:
    """Return the codes of the category that one member has, and of that which at most one has; None without."""
    categories = codebook[block.variables[0]].categories
    one, second = (
        None if value is None else categories.index(value) for value in (block.one_member, block.at_most_one)
    )
    return one, second
