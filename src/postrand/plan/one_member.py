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
        if block.one_member is not None:
            yield from _problems(plan, block, shape, f"{where}, block {'*'.join(block.variables)!r}")


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
    yield from size_problems(plan.codebook, name, size, where)
    if name in plan.codebook and block.one_member not in plan.codebook[name].categories:
        got = shown(block.one_member, repr)
        yield sentence(f"'one_member' is no category of {name!r}", where=where, got=got)
    linked = shape is not None and (shape.given != (size,) or len(shape.cells) != 2 * plan.codebook[size].size)
    if shape is None or linked:
        fix = "remove the rules, or perturb the variables together without 'one_member'"
        yield sentence(f"rules link {name!r} to other variables", where=where, fix=fix)


def one_member_of(block: BlockPlan, shape: LinkedCells, codebook: Any) -> OneMember:
    """Return where the cells of such a block are."""
    (name,), (size,) = block.variables, block.given
    known = [int(category) for category in codebook[size].categories]
    one = codebook[name].categories.index(block.one_member)
    return OneMember.of(shape.cells, shape.variables.index(name), shape.variables.index(size), one, known)
