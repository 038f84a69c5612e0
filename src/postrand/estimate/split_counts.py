"""The tally of variables of a split from counts of the cells of each subset, without the records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from postrand.errors import EstimationError, sentence
from postrand.estimate.axes import Layout
from postrand.estimate.split_axis import split_axis
from postrand.estimate.split_members import household_of
from postrand.estimate.tally import Tally, Whole
from postrand.mechanism import Mechanism


def from_split_counts(
    variables: Sequence[str],
    mechanism: Mechanism,
    shown: NDArray[np.int64],
    cells: Sequence[NDArray[np.int64]],
    members: Sequence[NDArray[np.int64]] = (),
) -> Tally:
    """Return what :func:`postrand.estimate.tally.tally` counts of a release without weights and strata.

    ``shown`` (T,) are the records that show each subset, ``cells[t]``, (K_t,), those released in each of its cells.
    Where one member of each household shows a subset, ``members[t]``, (2, K_t), are the sums over its cells of the
    records of the households, and of their squares.

    Raises
    ------
    EstimationError
        If no subset shows all variables, or too few records do.
    """
    split, book = mechanism.split, mechanism.require_codebook()
    assert split is not None, "a mechanism with a split"
    household = household_of(mechanism, [*variables])
    axis, blocks = split_axis(split, book, variables, household=household), split.blocks
    weights, shape = axis.weights, tuple(book[name].size for name in variables)
    seen = np.array([int(found.sum()) for found in cells])
    n = int(seen[weights > 0].sum())
    if members:  # a household counts as often as it has records, in the counts as in the weights of records
        cells = [sums[0] for sums in members]
        seen = shown = np.array([int(found.sum()) for found in cells])
    whole = float(weights @ seen)
    if not whole > 0 or float(weights.max()) >= 0.5 * whole:
        what = "too few records show every variable of the table"
        raise EstimationError(sentence(what, fix="use fewer variables, or more records"))
    records, used = int(shown.sum()), weights > 0
    a = weights / whole
    combined = weights * float(shown.sum()) / float(weights @ shown)
    terms = a**2 / (1 - 2 * a)  # as for records: the covariance of their weighted sum is exactly unbiased
    terms *= float(combined @ seen) ** 2 / (1 + float(terms @ seen)) * (n - 1) / n
    if members:
        terms = combined**2
    counts, squares = np.zeros(axis.size), np.zeros(axis.size)
    place = {tuple(row): k for k, row in enumerate(axis.cells.tolist())}
    for part, at in zip(axis.law.parts, axis.law.slices, strict=True):
        for k in part.places:
            found = np.stack([cells[k], members[k][1] if members else cells[k]])
            if part.closed:
                block = blocks[k]
                codes = block.cell_table(tuple(book[name].size for name in block.variables))
                number = np.ravel_multi_index([codes[:, block.variables.index(name)] for name in variables], shape)
                index = np.full(int(np.prod(shape)), -1)
                index[np.ravel_multi_index(list(axis.cells.T), shape)] = np.arange(len(place))
                found = np.stack([np.bincount(index[number], weights=one, minlength=len(place)) for one in found])
            counts[at] += found[0] * combined[k]
            squares[at] += found[1] * terms[k]
    layout = Layout((axis,), tuple(variables), tuple(variables))
    total = records * float(weights @ seen) / float(weights @ shown)
    missed = 0 if members else int(shown[used].sum()) - n  # who misses a value shows no cell, and is not weighed
    law = Whole(total, 1 / records)
    return Tally(layout, counts[None], squares[None], np.array([n]), missed, bool(members), law)
