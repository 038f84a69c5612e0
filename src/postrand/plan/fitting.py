"""Do the parts of a plan go together? Checks of blocks, split and codebook beside one another."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

from postrand.codebook import Codebook
from postrand.codebook.rules import feasible_cells
from postrand.codebook.survey_design import WITHOUT
from postrand.designers import STRUCTURES, Setting, supports
from postrand.designers.budget import is_share
from postrand.designers.linked_cells import LinkedCells
from postrand.errors import SpecificationError, nearest, sentence
from postrand.mechanism.matrix import MAX_SIZE
from postrand.objectives import needs_joint
from postrand.plan.split_plan import SplitPlan
from postrand.plan.unit_plan import reading_problems, unit_problems
from postrand.plan.values import BlockPlan, Plan, budget_of
from postrand.privacy import DifferentialPrivacy, needs_file, split_problems
from postrand.support.showing import few


def unsuited(plan: Plan, shapes: Sequence[LinkedCells | None], where: str) -> Iterable[str]:
    """Say which blocks ask for what does not go together, and which structures would do."""
    for block, shape in zip(plan.blocks, shapes, strict=False):
        privacy: Any = plan.privacy if is_share(block.privacy) else block.privacy
        if (
            block.one_member is not None
            or block.matrix is not None
            or (is_share(block.privacy) and not plan.privacy.traits.budget)
        ):
            continue
        classes = block.rarer_than > 0 or not (shape is None or shape.is_simple)
        size = plan.cells_of(block) if shape is None else 0
        setting = Setting(size, shape is not None, classes, block.prior)
        problem = supports(privacy, block.objective, block.structure, setting)
        if problem is not None:
            members: Sequence[Any] = STRUCTURES
            others = [s.name for s in members if supports(privacy, block.objective, s(), setting) is None]
            hint = f" Structures that do: {', '.join(others)}." if others else ""
            yield f"{where}, block {'*'.join(block.variables)!r}: {problem}{hint}"


def with_clear(block: BlockPlan, blocks: Iterable[BlockPlan], split: Iterable[str], codebook: Codebook) -> BlockPlan:
    """Set the unperturbed variables of an objective that lists none: all categorical ones released as they are."""
    if not needs_joint(block.objective) or block.objective.clear:
        return block
    perturbed = {*split, *(name for other in blocks for name in other.variables)}
    released = codebook.with_role("key", "sensitive", "other")
    clear = tuple(v.name for v in released if v.is_categorical and v.name not in perturbed)
    return dataclasses.replace(block, objective=block.objective.beyond(clear))


def fit_problems(blocks: list[BlockPlan], split: SplitPlan | None, codebook: Codebook, where: str) -> Iterable[str]:
    """Say which variables are in two places, or cannot be perturbed or read."""
    names = [name for block in blocks for name in block.variables]
    both = set(names).intersection(() if split is None else split.variables)
    for name in sorted({n for n in names if names.count(n) > 1}):
        yield sentence(f"variable {name!r} is in two places", where=f"{where} [[blocks]]", fix="keep one block")
    for name in sorted(both):
        fix = "keep it in a block, or in the split"
        yield sentence(f"variable {name!r} is in two places", where=f"{where} [split]", fix=fix)
    names += [] if split is None else [n for n in split.variables if n not in both]
    yield from survey_problems(codebook, names)
    clear = {n for b in blocks if needs_joint(b.objective) for n in b.objective.clear}
    for name in sorted(clear.intersection(names)):
        yield sentence(f"{name!r} is in 'clear', but a block perturbs it", where=f"{where} [[blocks]] objective")
    names += [*(name for block in blocks for name in block.given), *sorted(clear), *(split.given if split else ())]
    for name in dict.fromkeys(names):
        if name not in codebook:
            what = f"no variable {name!r} in the codebook{nearest(name, codebook.names)}"
            fix = "use its name in the codebook, everywhere in the plan, or describe it there"
            yield sentence(what, where=where, wanted=f"one of {few(codebook.names)}", fix=fix)
        elif not codebook[name].is_categorical:
            yield sentence(
                f"variable {name!r} has no categories to perturb", where=where, fix="list them in the codebook"
            )
        elif codebook[name].role not in ("key", "sensitive", "other"):
            yield sentence(f"variable {name!r} has role {codebook[name].role!r}", where=where, wanted="a released role")


def survey_problems(codebook: Codebook, perturbed: Sequence[str]) -> Iterable[str]:
    """Say which columns of the recorded survey design analysts would not get as they are."""
    for name, part in () if codebook.survey is None else codebook.survey.parts:
        gone = codebook[name].role in ("drop", "record_key")
        if gone or name in perturbed:
            what = "dropped" if gone else "perturbed"
            fix = f"leave {part} out of [survey] ({WITHOUT[part]}), or release {name!r} as it is"
            fix += ", if it does not give a perturbed variable away" if gone else ""
            what = f"{name!r} is {what}, so it cannot be in the survey design ({part})"
            yield sentence(what, where="codebook [survey]", fix=fix)


def uncovered_problems(split: SplitPlan, codebook: Codebook, where: str) -> Iterable[str]:
    """Say which tables of the workload no subset can show: the smallest is of the table's variables and the core."""
    bare = []
    for table in split.workload.tables:
        names = tuple(name for name in split.variables if name in table or name in split.core)
        if math.prod(codebook[name].size for name in names) <= split.max_cells:
            continue
        try:
            cells = len(feasible_cells(codebook, names, codebook.rules))
        except SpecificationError:  # more than are ever enumerated
            cells = MAX_SIZE + 1
        bare += [" × ".join(table)] if cells > split.max_cells else []
    if bare:
        what = f"no subset of at most {split.max_cells:,} cells shows {few(bare)}"
        fix = "raise max_cells, group categories, or name fewer core variables"
        yield sentence(what, where=f"{where} [split]", fix=fix)


def goal_problems(plan: Plan, where: str) -> Iterable[str]:
    """Say why no ε of a record can be solved from the file's: each design that is tried would draw a prior's noise."""
    drawn = [" × ".join(block.variables) for block in plan.blocks if block.prior == "dp"]
    if plan.file is not None and plan.file.epsilon is not None and drawn:
        what = f"file_epsilon tries several designs, and each would draw the noise of a prior anew ({few(drawn)})"
        fix = "set prior = 'uniform' or 'file' for these blocks, or epsilon and delta in place of file_epsilon"
        yield sentence(what, where=f"{where} [privacy]", fix=fix)


def beside_problems(plan: Plan, where: str) -> Iterable[str]:
    """Say why the split cannot stand beside the rest of the plan."""
    split, part = plan.split, f"{where} [split]"
    if split is None:
        return
    if split.of_members and (plan.unit is None or not plan.unit.household):
        what, fix = "no column tells who lives together", 'add [unit] with household = "hid" and largest_household'
        if plan.unit is not None and plan.unit.person:
            one = f"household = {plan.unit.person!r} and largest_household = {plan.unit.most_records}"
            fix = f"write {one} in [unit] too, and give it this role in the codebook: then one random record of each "
            fix += "person shows a subset"
        yield sentence(f"one member of each household shows a subset, and {what}", where=part, fix=fix)
    if not needs_file(plan.privacy):
        for model in (plan.privacy, *plan.also):
            yield from (f"{where} [privacy]: {problem}" for problem in split_problems(model, split.variables))
    if split.epsilon is None and budget_of(plan.privacy) is None:
        yield sentence("the split has no epsilon, and the record's claim has no budget", where=part, fix="set epsilon")
    if split.epsilon is None and any(is_share(block.privacy) for block in plan.blocks):
        what, fix = "blocks share the record's budget, so the split needs an epsilon of its own", "set epsilon"
        yield sentence(what, where=part, fix=fix)
    yield from uncovered_problems(split, plan.codebook, where)
    if plan.split_reads and split.structure:
        what = f"'structure' cannot be combined with variables that every subset reads ({', '.join(plan.split_reads)})"
        yield sentence(what, where=part, fix="remove 'structure': each stratum then has randomised response")
    inside = {name for block in plan.blocks for name in block.variables}
    for name in sorted({*split.given} & {*plan.perturbed}):
        yield sentence(f"given variable {name!r} is perturbed", where=part, fix="leave it out of 'given'")
    own = {*split.variables}
    mixed = {n for r in plan.codebook.rules if not own.isdisjoint(r.variables) for n in r.variables if n in inside}
    if mixed:
        what = f"rules link {', '.join(sorted(mixed))}, of other blocks, to variables of the split"
        yield sentence(what, where=part, fix="put all variables of a rule into the split, or all into one block")
    shown = {name for block in plan.blocks for name in block.given} & own
    for name in sorted(shown):
        yield sentence(f"a block reads {name!r}, which some records do not show", where=f"{where} [[blocks]]")


def units_problems(plan: Plan, shapes: Sequence[LinkedCells | None], where: str) -> Iterable[str]:
    """Say which parts of the plan do not go with its units."""
    unit, part = plan.unit, f"{where} [unit]"
    if unit is None:
        return
    elsewhere = [*(n for entry in plan.numerical for n in entry.variables)]
    in_split = [] if plan.split is None else [*plan.split.variables, *plan.split.given]
    one = plan.split is not None and plan.split.of_members
    elsewhere += [] if one else in_split
    yield from unit_problems(unit, plan.blocks, elsewhere, part, in_split if one else [])
    read = [
        [*block.variables, *block.given] if shape is None else [*shape.variables]
        for block, shape in zip(plan.blocks, shapes, strict=False)
    ]
    yield from reading_problems(unit, plan.blocks[: len(read)], read, part)
    if unit.epsilon is not None and plan.privacy.name != DifferentialPrivacy.name:
        what = "the unit has an epsilon, and the record's claim has none"
        yield sentence(what, where=part, fix="set [privacy] model = 'differential', or remove epsilon here")
    shared = [n for names in unit.variables.values() for n in names if n in plan.perturbed]
    if not shared and not one:
        return
    if needs_file(plan.privacy):
        what = "the record's claim takes the draws of all records as independent"
        yield sentence(what, where=part, fix="set [privacy] model = 'differential'")
    if plan.release.completed is not None:
        what = "completed files are not made where records share a draw, or one member of a household is shown: their "
        what += "model takes the draws of all records as independent"
        fix = "remove 'completed'; docs/households.md, 'Completed files of households', says what to use instead"
        yield sentence(what, where=f"{where} [release] completed", fix=fix)
    if plan.file is not None and plan.file.epsilon is not None:
        what = "the file has no level where the records of a unit share a draw, or one member of a household is shown"
        yield sentence(what, where=f"{where} [privacy] file_epsilon", fix="remove file_epsilon and delta")
