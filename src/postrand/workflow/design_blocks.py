"""Design the blocks of a plan: their shapes, their assumed frequencies, their budgets and their matrices."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.codebook.rule_files import check_records
from postrand.data.table import ContingencyTable
from postrand.designers.bistochastic import round_bistochastic, shares
from postrand.designers.budget import LARGEST_SHARE, BudgetShare, Curve, allocate, curve_of, floors, is_share
from postrand.designers.by_class import Weights, design_shape, on_cells
from postrand.designers.differential.uniform_offdiagonal import UniformOffDiagonal
from postrand.designers.linked_cells import LinkedCells, select
from postrand.designers.problem import Design, DesignWarning, Prior
from postrand.designers.solve import design as solve
from postrand.errors import DesignError, PostrandError, raise_all, sentence
from postrand.mechanism import Block
from postrand.mechanism.block import Provenance
from postrand.mechanism.matrix import TransitionMatrix
from postrand.mechanism.units import Unit
from postrand.objectives import MutualInformation, Objective, needs_joint, of_file
from postrand.objectives.base import truth_of
from postrand.objectives.information import entropy, information
from postrand.plan import Plan
from postrand.plan.one_member import codes_of, one_member_of
from postrand.plan.values import BlockPlan
from postrand.privacy import (
    Bistochastic,
    DifferentialPrivacy,
    KeyTypes,
    PrivacyModel,
    level_of,
    models_of,
    needs_file,
    spent,
)
from postrand.privacy.histogram import noisy_counts
from postrand.report.text import decimal
from postrand.support.entropy import entropy_rate_lower, format_lower
from postrand.support.exact import format_upper
from postrand.support.progress import Stage, stage
from postrand.support.warned import warn
from postrand.support.worth_basis import PRIORS
from postrand.workflow.known import Known, unit_of, variables_of
from postrand.workflow.unit_budget import costs_of, divided, left_of, to_lower
from postrand.workflow.whole_record_counts import beyond_clear

MAX_CELLS = 1 << 13
"""Largest designed block: its matrix and its table for drawing take 0.5 GB each, and a run three times their sum."""

MAX_CONSTANT_CELLS = 1 << 16
"""Largest block with a matrix that is constant off the diagonal: the design takes 11 s and 1.7 GB."""

_STARVED = 1e-3
"""Part of a variable's entropy: a share of the budget that keeps less causes a warning."""

_STATUS = {
    "optimal": "the best for this level of privacy (optimal)",
    "bounded": "close to the best for this level of privacy (bounded)",
    "local": "perhaps not the best for this level of privacy (local)",
}

_MARGIN = 2**-40  # of the budget that blocks share, so that their exact sum is certainly within it


@dataclass(frozen=True, slots=True)
class DesignedBlock:
    """A planned block with its matrix, and the design of the matrix (None if the plan contains the matrix).

    ``frequencies`` (K,) are the shares of its cells in the plan's prior, of all classes together, with sum 1.
    ``budget`` is the origin of its share of a divided budget; see :class:`Block`, which has the last three too.
    """

    plan: BlockPlan
    matrix: TransitionMatrix
    design: Design | None
    shape: LinkedCells | None = None
    frequencies: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)
    budget: Provenance = "public"
    unit: Unit = "record"
    one: int | None = None
    at_most_one: int | None = None

    @property
    def block(self) -> Block:
        """The block of the mechanism."""
        provenance: Provenance = "unstated" if self.design is None else self.design.provenance
        provenance = provenance if self.one is None else "public"
        spent = self.plan.prior_epsilon if provenance == "dp" else 0.0
        if self.shape is None:
            return Block(self.plan.variables, self.matrix, None, provenance, (), spent, self.budget, self.unit)
        cells = tuple(map(tuple, self.shape.cells.tolist()))
        rest = (provenance, self.shape.given, spent, self.budget, self.unit, self.one, self.at_most_one)
        return Block(self.shape.variables, self.matrix, cells, *rest)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: internal, because value and bound depend on the prior."""
        diagonal = self.matrix.diagonal
        epsilon = self.block.epsilon
        data = {
            "variables": list(self.plan.variables),
            "given": list(self.block.given),
            "categories": self.matrix.size,
            "epsilon": epsilon if math.isfinite(epsilon) else None,
            "unchanged": [float(diagonal.min()), float(diagonal.max())],
            "condition": self.matrix.condition if math.isfinite(self.matrix.condition) else None,
        }
        if self.design is not None:
            d = self.design
            data |= {"objective": self.plan.objective.name, "value": d.value}
            data |= {"bound": d.bound, "gap": d.gap} if math.isfinite(d.bound) else {}
            data |= {"status": d.status, "message": d.message, "prior": self.plan.prior}
        return data | {"budget": self.budget}

    def __str__(self) -> str:
        low, high = (float(f(self.matrix.diagonal)) for f in (np.min, np.max))
        text = f"{self.block.name}: {self.matrix.size} categories, ε <= {format_upper(self.block.epsilon)}, "
        text += f"unchanged with probability {low:.3f}" + (f" to {high:.3f}" if high - low > 5e-4 else "")
        if self.matrix.is_bistochastic and self.matrix.size > 1:
            beta = format_lower(self.matrix.beta, 3)
            text += f", β >= {beta} (the part of the uncertainty about a value that stays)"
        if self.block.given:
            text += f", given {', '.join(self.block.given)}"
        if self.one is not None:
            both = ", and who, if anybody, shows the other category" if self.at_most_one is not None else ""
            text += f"; one draw chooses the one member of each household who shows it{both}"
        if self.design is not None:
            text += f"\n  {self._reached(self.design)}"
        if self.budget != "public":
            text += f"\n  its ε depends on {self.budget} frequencies of other blocks, which share the budget with it"
        return text

    def _reached(self, design: Design) -> str:
        """Return what the matrix reaches, of how much, and whether another one that meets the claim is better."""
        objective, value = self.plan.objective, design.value
        known = math.isfinite(design.bound) and design.status != "optimal"
        digits = 6 if known else 3  # a value beside its bound needs more than three to tell the two apart
        text = f"{objective.name} {decimal(value, digits)} {objective.traits.unit}"
        if objective.maximise and self.frequencies is not None and self.frequencies.size == self.matrix.size:
            most = truth_of(objective, self.frequencies)
            text += f" of {decimal(most, digits)} in the true values ({100 * value / most:.2g}%)" if most > 0 else ""
        text += f", with {PRIORS[self.plan.prior]}"
        text += f"; no matrix of this structure reaches {decimal(design.bound, digits)}" * known
        return f"{text}; {_STATUS[design.status]}: {design.message}"


@dataclass(frozen=True, slots=True)
class _Task:
    """A block with its assumed frequencies; ``simple`` if it has no shape."""

    plan: BlockPlan
    shape: LinkedCells | None
    weights: Weights | None


def design_blocks(plan: Plan, known: Known | None = None) -> tuple[DesignedBlock, ...]:
    """Design the matrix of every block; only a prior, or a selection of records, needs what is known of the file.

    Where that is not given, the file is read once for it.

    Blocks whose privacy is a :class:`postrand.designers.budget.BudgetShare` divide the record's remaining budget.
    """
    check_sizes(plan)
    if known is None and any(block.reads_file for block in plan.blocks):
        known = Known.tables(plan)
    tasks = [_prepare(block, shape, known) for block, shape in zip(plan.blocks, plan.shapes, strict=True)]
    budgets, origins = _budgets(plan, tasks), budget_origins([(t.plan, t.weights) for t in tasks])
    designed, done = [], stage(Stage.DESIGNING, len(tasks), "matrices")
    for b, task in enumerate(tasks):
        designed.append(_design(task, budgets.get(b, task.plan.privacy), plan.codebook))
        done(1)
    units = [unit_of(plan, block) for block in plan.blocks]
    told = zip(designed, origins, units, strict=True)
    made = [dataclasses.replace(one, budget=origin, unit=unit) for one, origin, unit in told]
    return tuple(_starved(block) if b in budgets else block for b, block in enumerate(made))


def _starved(made: DesignedBlock) -> DesignedBlock:
    """Add a warning to the design's message if a block's share keeps almost no information."""
    if made.design is None or made.frequencies is None or spent(made.plan.privacy) is None:
        return made
    everything = entropy(made.frequencies)
    kept = information(made.matrix, made.frequencies)
    if kept >= _STARVED * everything:
        return made
    text = (
        f"The share of {made.block.name}, ε = {spent(made.plan.privacy):.3g}, keeps {kept / everything:.1g} of its "
        "information: almost nothing. Give it a 'floor', a 'least' or a larger 'weight', or drop the variable."
    )
    warn(text, DesignWarning, stacklevel=3)
    message = f"{made.design.message} {text}"
    return dataclasses.replace(made, design=dataclasses.replace(made.design, message=message))


def budget_origins(tasks: Sequence[tuple[BlockPlan, Weights | None]]) -> list[Provenance]:
    """Return the origin of each block's ε: the least public prior of the other blocks that share the budget with it.

    Blocks divide a budget by the information that each keeps under its prior, so a prior that was tuned on the file
    influences the ε of all blocks that share. A block with its own ε, matrix or budget does not depend on others.
    """
    sharing = {b for b, (plan, _) in enumerate(tasks) if is_share(plan.privacy) and plan.matrix is None}
    order: tuple[Provenance, ...] = ("public", "dp", "unstated", "confidential")
    told = {b: "public" if weights is None else weights.provenance for b, (_, weights) in enumerate(tasks)}
    return [
        max((told[other] for other in sharing - {b}), key=order.index, default=order[0]) if b in sharing else order[0]
        for b in range(len(tasks))
    ]


def check_rules(known: Known) -> None:
    """Refuse a file with records that contradict a rule of the codebook, or the units of the plan."""
    codebook = known.plan.codebook
    names = dict.fromkeys(rule.variables for rule in codebook.rules)
    check_records({n: known.table(n).dense() for n in names}, codebook)
    known.check_units()


def check_sizes(plan: Plan) -> None:
    """Refuse a plan with a block of too many combinations, before anything is read."""
    for block, shape in zip(plan.blocks, plan.shapes, strict=True):
        size = plan.cells_of(block) if shape is None else len(shape.cells)
        most = MAX_CONSTANT_CELLS if _is_constant(block, shape) else MAX_CELLS
        most = min(most, block.structure.traits.most_cells)
        if size > most:
            where, what = f"block {'*'.join(block.variables)!r}", "a block has too many combinations"
            fix, wanted = "perturb fewer variables jointly, or group categories", f"at most {most:,}"
            if shape is not None and shape.given:
                what += f" with the variables that rules or strata link to it ({', '.join(shape.variables)})"
                fix = _fewer(block, shape, plan)
            raise DesignError(sentence(what, where=where, got=f"{size:,}", wanted=wanted, fix=fix))


def _prepare(block: BlockPlan, shape: LinkedCells | None, known: Known | None) -> _Task:
    if known is None or not block.reads_file:
        return _Task(block, shape, None if shape is None else Weights.uniform(shape))
    table = known.table(variables_of(block, shape))
    counts = table.dense()
    if needs_file(block.privacy):
        block, shape = _on_file(block, shape, table)
    held: NDArray[np.int64] = counts.ravel() if shape is None else counts[tuple(shape.cells.T)]
    weights = _weights(block, held)
    if needs_joint(block.objective):
        block, frequencies = beyond_clear(block, shape, known)
        weights = Weights(frequencies, weights.provenance)
    if shape is not None and block.rarer_than:
        shape = select(shape, held >= block.rarer_than)
        weights = Weights(weights.counts, "confidential")  # exact counts decide which cells are perturbed
    return _Task(block, shape, weights)


def _fewer(block: BlockPlan, shape: LinkedCells, plan: Plan) -> str:
    """Return advice for fewer combinations: every combination of unperturbed variables is a cell of the block."""
    known = {name for other in plan.blocks for name in (*other.variables, *other.given)}
    clear = [name for name in shape.given if name not in known]
    fixes = ["group categories"]
    if clear:
        own = f"add a block for each of {', '.join(clear)}: {' × '.join(block.variables)} is then exchanged only "
        fixes.append(own + "among values that the rules treat alike, and a value that is treated alone does not change")
    fixes += ["name fewer variables in 'given'"] * bool(block.given)
    if any(plan.codebook[name].missing == "category" for name in shape.variables):
        what = "complete the records and set missing = 'error' ('keep' is not possible in a block that reads others)"
        fixes.append(what + ", because missing values count as one more category")
    return "; or ".join(fixes)


def _is_constant(block: BlockPlan, shape: LinkedCells | None) -> bool:
    """Whether the block is designed without a dense matrix."""
    whole = (shape is None or shape.is_simple) and block.matrix is None and not block.rarer_than
    return whole and block.structure == UniformOffDiagonal() and block.objective == MutualInformation()


def _on_file(
    block: BlockPlan, shape: LinkedCells | None, table: ContingencyTable
) -> tuple[BlockPlan, LinkedCells | None]:
    """Bind the block's privacy to the file; then every class has its own records to protect, and its own matrix."""
    types = KeyTypes.of_table(table) if shape is None else KeyTypes.of_table(table, shape.cells, shape.given)
    assert needs_file(block.privacy)
    with _naming(block):
        block = dataclasses.replace(block, privacy=block.privacy.on(types), prior="file")
    block = dataclasses.replace(block, objective=of_file(block.objective, types.records))
    if shape is not None:
        shape = dataclasses.replace(shape, laws=np.arange(len(shape.laws)))
    return block, shape


@contextmanager
def _naming(block: BlockPlan) -> Iterator[None]:
    """Add the name of the block to any problem."""
    try:
        yield
    except PostrandError as error:
        where = f"block {'*'.join(block.variables)!r}"
        raise type(error)(f"{where}: {problem}" for problem in error.problems) from None


def _weights(block: BlockPlan, counts: NDArray[np.int64]) -> Weights:
    if block.prior == "dp":
        noisy = np.maximum(noisy_counts(counts, block.prior_epsilon), 0).astype(np.float64)
        return Weights(noisy if noisy.any() else np.ones(noisy.size), "dp")
    if block.prior == "uniform":
        return Weights(np.ones(counts.size), "public")
    return Weights(counts.astype(np.float64), "confidential")


def _prior(task: _Task, codebook: Codebook) -> Prior:
    if task.weights is None:
        return Prior.uniform(math.prod(codebook[name].size for name in task.plan.variables))
    return Prior(task.weights.counts / task.weights.counts.sum(), task.weights.provenance)


def _design(task: _Task, privacy: Any, codebook: Codebook) -> DesignedBlock:
    assert not is_share(privacy)  # budgets name every block that shares
    block = dataclasses.replace(task.plan, privacy=privacy)
    if block.one_member is not None:
        assert task.shape is not None
        found = one_member_of(block, task.shape, codebook)
        one, second = codes_of(block, codebook)
        law, prior = found.law(level_of(privacy)), _prior(task, codebook).p
        return DesignedBlock(block, law, None, task.shape, prior, one=one, at_most_one=second)
    if block.matrix is not None:
        columns = any(model.traits.columns_sum for model in models_of(privacy))
        exact = round_bistochastic if columns else TransitionMatrix.from_array
        return DesignedBlock(block, exact(block.matrix), None, task.shape, _prior(task, codebook).p)
    with _naming(block):
        if task.shape is None or task.weights is None:
            sizes = [codebook[name].size for name in block.variables]
            cells = np.indices(sizes, dtype=np.int32).reshape(len(sizes), -1).T
            made = solve(_prior(task, codebook), privacy, block.objective, on_cells(block.structure, cells))
        else:
            shape, weights = task.shape, task.weights
            names = _class_names(shape, codebook)
            made = design_shape(shape, weights, privacy, block.objective, block.structure, names.__getitem__)
    return DesignedBlock(block, made.matrix, made, task.shape, _prior(task, codebook).p)


def _class_names(shape: LinkedCells, codebook: Codebook) -> list[str]:
    """Return a text for each class: its values of the given variables, otherwise its number."""
    names = []
    for c in range(len(shape.laws)):
        row = shape.cells[int(np.argmax(shape.labels == c))]
        given = [f"{n} = {codebook[n].code_labels[row[shape.variables.index(n)]]}" for n in shape.given]
        names.append(", ".join(given) or f"class {c + 1}")
    return names


def _budgets(plan: Plan, tasks: Sequence[_Task]) -> dict[int, PrivacyModel]:
    """Return the budget of each block that shares the record's remaining budget."""
    sharing = {b: task.plan.privacy for b, task in enumerate(tasks) if is_share(task.plan.privacy)}
    if not sharing:
        return {}
    if not plan.privacy.traits.budget:
        fix = "set [privacy] model = 'differential' or 'bistochastic', or give each block its own privacy"
        raise DesignError(sentence("blocks share a budget, but the record's claim has no budget", fix=fix))
    if plan.privacy.traits.composition == "bits":
        return _bits(level_of(plan.privacy), sharing, tasks, plan.codebook)
    given = [tasks[b].plan for b in sharing if tasks[b].plan.matrix is not None]
    raise_all(DesignError, [_has_own(block) for block in given] if len(given) < len(sharing) else [])
    taken = [e for t in tasks for model in models_of(t.plan.privacy) if (e := spent(model)) is not None]
    taken += [t.plan.prior_epsilon for t in tasks if t.weights is not None and t.weights.provenance == "dp"]
    taken += [] if plan.split is None else [plan.split.spent]
    left = level_of(plan.privacy) - math.fsum(taken)
    if not left > 0:
        what = "the record's epsilon is used up: nothing is left to share"
        raise DesignError(sentence(what, got=f"{left:g}", fix=f"raise [privacy] epsilon, or {to_lower(plan)}"))
    if plan.unit is not None and plan.unit.epsilon is not None:
        return _unit_budgets(plan, tasks, sharing, left)
    if len(sharing) == 1 and next(iter(sharing.values())).least <= left:  # nothing to divide
        return {b: DifferentialPrivacy(min(left * (1 - _MARGIN), LARGEST_SHARE)) for b in sharing}
    asked_for = _criterion([tasks[b].plan for b in sharing])
    curves = [_curve(tasks[b], asked_for, plan.codebook) for b in sharing]
    asked = list(sharing.values())
    found = allocate(curves, left * (1 - _MARGIN), [s.weight for s in asked], _least(asked, left))
    return {b: DifferentialPrivacy(min(e, LARGEST_SHARE)) for b, e in zip(sharing, found.epsilons, strict=True)}


def _unit_budgets(
    plan: Plan, tasks: Sequence[_Task], sharing: dict[int, BudgetShare], left: float
) -> dict[int, PrivacyModel]:
    """Return the budget of each block that shares what is ``left`` of the record's and of the unit's."""
    own = [math.fsum(e for model in models_of(t.plan.privacy) if (e := spent(model)) is not None) for t in tasks]
    besides = [t.plan.prior_epsilon for t in tasks if t.weights is not None and t.weights.provenance == "dp"]
    of_unit = left_of(plan, own, math.fsum(besides))
    asked_for, costs = _criterion([tasks[b].plan for b in sharing]), costs_of(plan)
    curves = [_curve(tasks[b], asked_for, plan.codebook) for b in sharing]
    budgets = (left * (1 - _MARGIN), of_unit * (1 - _MARGIN))
    found = divided(curves, list(sharing.values()), [costs[b] for b in sharing], *budgets)
    return {b: DifferentialPrivacy(min(e, LARGEST_SHARE)) for b, e in zip(sharing, found, strict=True)}


def _has_own(block: BlockPlan) -> str:
    """Say that a given matrix takes no share of the ε that designed blocks divide, and which ε it has."""
    epsilon = TransitionMatrix.from_array(block.matrix or ()).epsilon
    what = "a given matrix has an epsilon of its own, so it takes no share of the record's"
    own = f"its block needs privacy = {{ model = 'differential', epsilon = {format_upper(epsilon)} }}"
    fix = own if math.isfinite(epsilon) else "give the matrix no 0, or every other block an epsilon"
    return sentence(what, where=f"[[blocks]] {', '.join(block.variables)}", fix=fix)


def _bits(
    beta: float, sharing: dict[int, BudgetShare], tasks: Sequence[_Task], codebook: Codebook
) -> dict[int, PrivacyModel]:
    """Return the β of each block that shares the record's β; bits of other models' blocks are not counted."""
    if any(share.least for share in sharing.values()):
        raise DesignError(sentence("'least' is an epsilon, but the record's claim is a beta", fix="remove 'least'"))
    designed = [b for b in sharing if tasks[b].plan.matrix is None]
    others = []
    for b, task in enumerate(tasks):
        size = _prior(task, codebook).p.size
        own = [] if b in sharing else [level_of(m) for m in models_of(task.plan.privacy) if m.traits.columns_sum]
        if task.plan.matrix is not None:
            with _naming(task.plan):
                others.append((entropy_rate_lower(round_bistochastic(np.array(task.plan.matrix)).weights), size))
        elif b not in sharing:
            others.append((max(own, default=0.0) * math.log(size), size))
    priors = [_prior(tasks[b], codebook).p for b in designed]
    found = shares(beta, priors, [sharing[b].weight for b in designed], others=others)
    betas = dict(zip(designed, found, strict=True))
    return {b: Bistochastic(betas.get(b, 0.0)) for b in sharing}


def _least(asked: Sequence[BudgetShare], left: float) -> list[float]:
    """Return the least share of each; the margin is taken from blocks that ask for all of the remaining budget."""
    least = floors(asked, left)
    fits = left * (1 - _MARGIN) < math.fsum(least) <= left
    return [e * (1 - 2 * _MARGIN) for e in least] if fits else least


def _criterion(blocks: Sequence[BlockPlan]) -> type[Objective] | None:
    """Return the objective of all blocks if its values add up; otherwise None: then information is divided."""
    kinds = {type(block.objective) for block in blocks}
    return kinds.pop() if len(kinds) == 1 and all(block.objective.traits.adds_up for block in blocks) else None


def _curve(task: _Task, criterion: type[Objective] | None, codebook: Codebook) -> Curve:
    """Return the information that a block keeps as a function of its budget, mean over its classes."""
    shape, weights, asked = task.shape, task.weights, task.plan.objective
    if criterion is None and not needs_joint(asked):
        asked = MutualInformation()
    if shape is None or weights is None:
        return curve_of([(1.0, _prior(task, codebook).p, asked)], task.plan.structure)
    total, classes = weights.counts.sum(), []
    for law in sorted(set(shape.laws)):
        members = [np.flatnonzero(shape.labels == c) for c in np.flatnonzero(shape.laws == law)]
        pooled = np.sum([weights.counts[rows] for rows in members], axis=0)
        if len(pooled) > 1 and pooled.sum() > 0:
            part = asked.part(members) if needs_joint(asked) else asked
            classes.append((float(pooled.sum() / total), pooled / pooled.sum(), part))
    return curve_of(classes, task.plan.structure)
