"""Design the split of a plan: its assumed tables, its ε, its subsets, and the matrix of each."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from postrand.codebook import Codebook
from postrand.data.table import ContingencyTable
from postrand.designers import SplitDesign, TablePrior, split_design
from postrand.designers.budget import LARGEST_SHARE, is_share
from postrand.designers.linked_cells import BlockRequest, LinkedCells, shapes_of
from postrand.errors import DesignError, PostrandError, sentence
from postrand.mechanism import Block, Split, Subset
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.plan import Plan
from postrand.plan.split_plan import SplitPlan
from postrand.privacy import level_of, models_of, spent
from postrand.privacy.histogram import noisy_counts
from postrand.support.progress import Stage, stage
from postrand.support.worth_basis import BASES, HARMONIC, WEIGHTED, WORST
from postrand.workflow.known import Known
from postrand.workflow.unit_budget import left_of, split_cost

WHERE = "the split"

MAX_STRATA_CELLS = 1 << 12
"""The most cells of a subset and of the variables that it reads: the matrix of each stratum is dense, 128 MB."""

_MARGIN = 2**-40  # of a budget that is divided, so that the exact sum of its parts is certainly within it


@dataclass(frozen=True, slots=True)
class DesignedSplit:
    """Hold the split of a mechanism, and its design: which subsets, how often, and what that is worth."""

    plan: SplitPlan
    design: SplitDesign
    split: Split

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: internal, because value and bound depend on the prior."""
        d = self.design
        return {
            "epsilon": self.split.epsilon if math.isfinite(self.split.epsilon) else None,
            "subsets": [
                {"variables": list(s.variables), "probability": s.probability, "cells": s.matrix.size}
                for s in self.split.subsets
            ],
            "given": list(self.split.given),
            "effective_per_1000": [{"table": list(t.variables), "records": 1000 * t.share} for t in d.tables],
            "value": d.value,
            "bound": d.bound,
            "gap": d.gap,
            "status": d.status,
            "message": d.message,
            "prior": d.provenance,
        }

    def __str__(self) -> str:
        d = self.design
        who = ""
        if self.plan.of_members:
            who = "one random member of each household shows a subset; such members are the released records below\n"
        text = f"Split of {', '.join(d.variables)}: {who}{d.text()}\nall tables: 1,000 released records are worth "
        basis = BASES["equal" if self.plan.prior == "uniform" else "plan"]
        work = self.plan.workload
        mean = WORST if work.worst else HARMONIC if len({*work.weights}) <= 1 else WEIGHTED
        text += f"{1000 / d.value:.4g}, {mean}, {basis}; "
        text += f"no other probabilities of these subsets make more than {1000 / d.bound:.4g}"
        if self.split.given:
            text += f"\nwithin each combination of {', '.join(self.split.given)}; the worth is computed without it"
        return text


def design_split(plan: Plan, known: Known | None = None) -> DesignedSplit | None:
    """Design the plan's split; None if there is none. Only a prior of the file needs what is known of it.

    Raises
    ------
    DesignError
        If nothing is left of the record's ε, no subset can show a table, or a subset has too many cells with the
        variables that it reads.
    """
    asked = plan.split
    if asked is None:
        return None
    stage(Stage.DESIGNING)
    if known is None and asked.reads_file:
        known = Known.tables(plan)
    try:
        design = split_design(
            plan.codebook,
            asked.variables,
            _epsilon(plan, asked),
            asked.workload,
            asked.core,
            asked.structure or None,
            asked.objective,
            asked.max_cells,
            prior=prior_of(asked, known),
        )
    except PostrandError as error:
        raise type(error)(f"{WHERE}: {problem}" for problem in error.problems) from None
    return DesignedSplit(asked, design, _split(plan, design))


def with_noise(plan: Plan, known: Known | None) -> Plan:
    """Return the plan whose split has a prior with noise that is drawn now, once for all designs that are tried.

    Each draw of the noise spends the prior's ε anew.
    """
    if plan.split is None or plan.split.prior != "dp":
        return plan
    return dataclasses.replace(plan, split=dataclasses.replace(plan.split, prior=prior_of(plan.split, known)))


def _epsilon(plan: Plan, asked: SplitPlan) -> float:
    """Return the split's own ε, or what blocks and priors leave of the record's."""
    if asked.epsilon is not None:
        return asked.epsilon
    taken = [e for b in plan.blocks for model in models_of(b.privacy) if (e := spent(model)) is not None]
    assert not any(is_share(block.privacy) for block in plan.blocks)  # a plan refuses both
    taken += [block.prior_epsilon for block in plan.blocks if block.prior == "dp"]
    taken += [asked.spent] if asked.spent else []
    left = level_of(plan.privacy) - math.fsum(taken)
    if not left > 0:
        what = "the record's epsilon is used up: nothing is left for the split"
        fix = "raise [privacy] epsilon, or lower those of the blocks and priors"
        raise DesignError(sentence(what, where=WHERE, got=f"{left:g}", fix=fix))
    if plan.unit is not None and plan.unit.epsilon is not None:
        own = [math.fsum(e for model in models_of(b.privacy) if (e := spent(model)) is not None) for b in plan.blocks]
        priors = math.fsum(block.prior_epsilon for block in plan.blocks if block.prior == "dp")
        of_unit, taken = left_of(plan, own, priors) / split_cost(plan), [*taken, 0.0]
        left = min(left, of_unit)
    return min(left if not taken else left * (1 - _MARGIN), LARGEST_SHARE)


def prior_of(asked: SplitPlan, known: Known | None) -> TablePrior:
    """Return the tables to which a split is designed; only a prior of the file needs what is known of it."""
    if isinstance(asked.prior, TablePrior):
        return asked.prior
    if known is None or not asked.reads_file:  # design_split reads the file where it must
        return TablePrior({}, "public")
    tables = [known.table(names) for names in asked.tables]
    if asked.prior == "file":
        return TablePrior.of(tables)
    each = asked.prior_epsilon * (1 - _MARGIN) / len(tables)  # so that their exact sum is certainly within it
    return TablePrior({table.variables: _noisy(table, each) for table in tables}, "dp")


def _noisy(table: ContingencyTable, epsilon: float) -> Any:
    noisy = np.maximum(noisy_counts(table.dense(), epsilon), 0).astype(np.float64)
    return noisy if noisy.any() else np.ones(noisy.shape)


def _split(plan: Plan, design: SplitDesign) -> Split:
    """Return the law: each subset on its feasible cells, within the combinations of what it reads."""
    asked, reads = plan.split, plan.split_reads
    assert asked is not None
    spent = asked.prior_epsilon if design.provenance == "dp" else 0.0
    split = design.split(plan.codebook, spent) if not reads else _within(plan.codebook, design, reads, spent)
    if asked.unit != "record":
        held = (dataclasses.replace(s, block=dataclasses.replace(s.block, unit=asked.unit)) for s in split.subsets)
        split = Split(tuple(held))
    if left := [name for name in asked.variables if name not in split.variables]:
        what = f"no subset shows {', '.join(left)}"  # rounding took the last one: never release them unperturbed
        raise DesignError(sentence(what, where=WHERE, fix="give a larger weight to a table with it"))
    return split


def _within(book: Codebook, design: SplitDesign, reads: Sequence[str], spent: float) -> Split:
    """Return the law within each combination of what the subsets read."""
    subsets = []
    for found in design.subsets:
        shape = _shape(book, found.variables, reads, design.variables)
        law, cells = _by_stratum(shape, design.epsilon), tuple(map(tuple, shape.cells.tolist()))
        block = Block(shape.variables, law, cells, design.provenance, shape.given, spent)
        subsets.append(Subset(found.weight, block))
    return Split(tuple(subsets))


def _shape(codebook: Codebook, names: Sequence[str], reads: Sequence[str], every: Sequence[str]) -> LinkedCells:
    """Return the cells of a subset with what it reads, a class for each combination of that.

    A rule about a variable of the split that this subset does not show cannot be contradicted by it.
    """
    away = {*every} - {*names}
    book = Codebook(codebook.variables, tuple(rule for rule in codebook.rules if away.isdisjoint(rule.variables)))
    (shape,) = shapes_of(book, [BlockRequest(tuple(names), tuple(reads))])
    if len(shape.cells) > MAX_STRATA_CELLS:
        what = f"a subset has too many combinations with the variables that it reads ({', '.join(shape.given)})"
        fix = "put the variables that rules link to it into the split; or lower max_cells, or shorten 'given'"
        where, got, wanted = ", ".join(names), f"{len(shape.cells):,}", f"at most {MAX_STRATA_CELLS:,}"
        raise DesignError(sentence(what, where=f"{WHERE}, {where}", got=got, wanted=wanted, fix=fix))
    return shape


def _by_stratum(shape: LinkedCells, epsilon: float) -> TransitionMatrix:
    """Return randomised response within each class."""
    weights = np.zeros((len(shape.cells), len(shape.cells)), dtype=np.int64)
    for c in range(len(shape.laws)):
        inside = np.flatnonzero(shape.labels == c)
        weights[np.ix_(inside, inside)] = randomised_response(len(inside), epsilon).weights
    return TransitionMatrix(weights)
