"""Joint counts of a block's cells and of the unperturbed variables in a file."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from postrand.designers.linked_cells import LinkedCells
from postrand.errors import DesignError, sentence
from postrand.objectives import needs_joint
from postrand.plan.values import BlockPlan
from postrand.privacy.histogram import noisy_counts
from postrand.workflow.known import Known, beyond, variables_of

MAX_CELLS = 1 << 24
MAX_NOISY = 1 << 20
"""Largest private histogram: it has noise in every cell, also in empty ones."""


def beyond_clear(block: BlockPlan, shape: LinkedCells | None, known: Known) -> tuple[BlockPlan, NDArray[np.float64]]:
    """Return the block with its objective for the file's frequencies, and the frequencies of its cells, shape (K,).

    Records with a missing value that is kept in any of the variables are left out.

    Raises
    ------
    DesignError
        If the unperturbed variables have too many combinations.
    """
    objective = block.objective
    assert needs_joint(objective)
    names, codebook = variables_of(block, shape), known.plan.codebook
    clear = beyond(block, names)
    table = known.table((*names, *clear))
    sizes = tuple(codebook[name].size for name in names)
    codes, counts = table.occupied()
    index = np.ravel_multi_index(tuple(codes[:, : len(names)].T), sizes)
    cells = np.arange(math.prod(sizes)) if shape is None else np.ravel_multi_index(tuple(shape.cells.T), sizes)
    row = np.full(math.prod(sizes), -1)
    row[cells] = np.arange(cells.size)
    feasible = row[index] >= 0
    clear_sizes = tuple(codebook[name].size for name in clear)
    column = np.ravel_multi_index(tuple(codes[:, len(names) :].T), clear_sizes) if clear else np.zeros(len(codes), int)
    width = math.prod(clear_sizes)
    if block.prior == "dp":
        _check_size(cells.size * width, MAX_NOISY, block)
    else:
        occurring, column = np.unique(column, return_inverse=True)
        width = occurring.size
        _check_size(cells.size * width, MAX_CELLS, block)
    joint = np.zeros((cells.size, width), dtype=np.int64)
    np.add.at(joint, (row[index][feasible], column[feasible]), counts[feasible])
    if block.prior == "dp":
        noisy = noisy_counts(joint.ravel(), block.prior_epsilon).reshape(joint.shape)
        joint = np.maximum(noisy, 0) if (noisy > 0).any() else np.ones_like(joint)
    block = dataclasses.replace(block, objective=objective.on(joint))
    return block, joint.sum(axis=1).astype(np.float64)


def _check_size(cells: int, most: int, block: BlockPlan) -> None:
    if cells > most:
        where, fix = f"block {'*'.join(block.variables)!r}", "list fewer variables: clear = [...]"
        what = "too many combinations with the unperturbed variables"
        raise DesignError(sentence(what, where=where, got=f"{cells:,}", wanted=f"at most {most:,}", fix=fix))
