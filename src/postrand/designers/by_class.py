"""Design the law of a block class by class, and put it together."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.designers.linked_cells import LinkedCells
from postrand.designers.problem import Design, Prior, Status
from postrand.designers.solve import design
from postrand.designers.suitability import Structure
from postrand.errors import DesignError, PostrandError, sentence
from postrand.mechanism.block import Provenance
from postrand.mechanism.matrix import TransitionMatrix
from postrand.objectives import Objective, needs_joint
from postrand.privacy import PrivacyModel, needs_file

_ORDER: tuple[Status, ...] = ("optimal", "bounded", "local")


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """How often each cell of a shape is thought to occur, (K,), not negative, and where that came from."""

    counts: NDArray[np.float64]
    provenance: Provenance

    @classmethod
    def uniform(cls, shape: LinkedCells) -> Weights:
        """Weigh all cells alike: public, since it says nothing about the data."""
        return cls(np.ones(len(shape.cells)), "public")


def design_shape(
    shape: LinkedCells,
    weights: Weights,
    privacy: PrivacyModel,
    objective: Objective,
    structure: Structure,
    name_class: Callable[[int], str] = str,
) -> Design:
    """Return the block-diagonal law whose classes are each designed for their own frequencies.

    Classes of one law are designed once, for their pooled frequencies; a class of one cell stays as it is, and so does
    one without records under a model of the file's frequencies, which is met on the records of each class alone. Of the
    information objective, ``value`` and ``bound`` are the mean over classes, weighted by their frequency: what is kept
    about a value beyond its class. Other objectives are evaluated on the whole matrix, without a bound.

    Raises
    ------
    DesignError
        If a class of several cells has no weight at all, named by ``name_class``, or a design fails.
    """
    made: dict[int, Design | None] = {}
    for law in range(int(shape.laws.max()) + 1):
        members = [np.flatnonzero(shape.labels == c) for c in np.flatnonzero(shape.laws == law)]
        pooled = np.sum([weights.counts[inside] for inside in members], axis=0)
        if len(pooled) == 1 or (needs_file(privacy) and not pooled.sum() > 0):
            made[law] = None
        elif not pooled.sum() > 0:
            where = name_class(int(np.flatnonzero(shape.laws == law)[0]))
            fix = "set prior = 'uniform', or merge it with another stratum"
            raise DesignError(sentence("a stratum has no records to design a matrix for", where=where, fix=fix))
        else:
            prior = Prior(pooled / pooled.sum(), weights.provenance)
            try:
                asked = privacy.part(np.concatenate(members)) if needs_file(privacy) else privacy
                part = objective.part(members) if needs_joint(objective) else objective
                made[law] = design(prior, asked, part, _told(structure, shape, members[0]))
            except PostrandError as error:
                if shape.is_simple:
                    raise
                where = name_class(int(np.flatnonzero(shape.laws == law)[0]))
                raise type(error)(f"{where}: {problem}" for problem in error.problems) from None
    if shape.is_simple and made[0] is not None:
        return made[0]
    matrix = _assemble(shape, [made[int(law)] for law in shape.laws])
    return _summary(shape, weights, [made[int(law)] for law in shape.laws], matrix, objective)


def on_cells(structure: Any, cells: NDArray[np.int32]) -> Structure:
    """Return the structure, told which combinations (K, J) its categories are where it asks for them."""
    told: Structure = structure.on_cells(cells) if hasattr(structure, "on_cells") else structure
    return told


def _told(structure: Structure, shape: LinkedCells, inside: NDArray[np.intp]) -> Structure:
    """Tell a structure that asks for them which combinations its categories are."""
    perturbed = [at for at, name in enumerate(shape.variables) if name not in shape.given]
    return on_cells(structure, shape.cells[inside][:, perturbed])


def _assemble(shape: LinkedCells, designs: list[Design | None]) -> TransitionMatrix:
    total = np.zeros((len(shape.cells), len(shape.cells)), dtype=np.int64)
    for c, found in enumerate(designs):
        inside = np.flatnonzero(shape.labels == c)
        total[np.ix_(inside, inside)] = (
            TransitionMatrix.identity(len(inside)) if found is None else found.matrix
        ).weights
    return TransitionMatrix(total)


def _summary(
    shape: LinkedCells, weights: Weights, designs: list[Design | None], matrix: TransitionMatrix, objective: Objective
) -> Design:
    p = weights.counts / weights.counts.sum()
    mass = np.bincount(shape.labels, weights=p, minlength=len(designs))
    perturbed = [(m, d) for m, d in zip(mass, designs, strict=True) if d is not None]
    status: Status = max((d.status for _, d in perturbed), key=_ORDER.index, default="optimal")
    if objective.traits.per_class:
        value = math.fsum(m * d.value for m, d in perturbed)
        bound = math.fsum(m * d.bound for m, d in perturbed)
    else:
        value, status = float(objective.value(matrix.array, p)), "local"
        bound = math.inf if objective.maximise else -math.inf
    laws = len(set(shape.laws.tolist()))
    alone = sum(d is None for d in designs)
    message = f"{len(designs)} classes with {laws} matrices; {alone} classes of one value stay as they are."
    return Design(matrix, value, bound, status, message, {"classes": len(designs)}, weights.provenance)
