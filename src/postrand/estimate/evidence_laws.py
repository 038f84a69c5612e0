"""The laws of a mechanism as the joint model reads them: what each released cell says of the true one.

A block that reads other variables (``given``) has one law for each combination of their codes, on the variables that
it perturbs. Another block may perturb what it reads, but only among codes with one and the same law
(:mod:`postrand.mechanism.reading`), so the released codes of these variables tell which law a record was drawn by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.estimate.split_axis import positions
from postrand.estimate.split_parts import response
from postrand.mechanism import Block
from postrand.mechanism.block import all_cells
from postrand.mechanism.matrix import TransitionMatrix
from postrand.mechanism.matrix_classes import part
from postrand.mechanism.matrix_storage import UNIT, Constant
from postrand.mixture import Law

Codes = Mapping[str, NDArray[np.integer]]
_ROUNDING = 8
"""Units of 2^-53 by which entries of a column differ that are one number before they are rounded."""
_ALIKE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class BlockLaws:
    """Hold the laws of one block, one for each stratum, and where each of its cells is.

    ``laws[h]`` is None where stratum h is released as it is; ``cells[h]`` (K_h, V) are the codes of its cells of the
    perturbed variables. Cell k of the block's matrix is cell ``local[k]`` of stratum ``stratum[k]``.
    """

    block: Block
    laws: tuple[Law | None, ...]
    cells: tuple[NDArray[np.int32], ...]
    stratum: NDArray[np.int32]
    local: NDArray[np.int32]

    @classmethod
    def of(cls, block: Block, book: Codebook, places: Mapping[str, int]) -> BlockLaws:
        """Take a block apart; ``places`` are those of the perturbed variables in the model."""
        table = block.cell_table(tuple(book[name].size for name in block.variables))
        own = table[:, [block.variables.index(name) for name in block.perturbed]]
        stratum, local = np.zeros(len(table), dtype=np.int32), np.arange(len(table), dtype=np.int32)
        inside = [np.arange(len(table))]
        if block.given:
            given = table[:, [block.variables.index(name) for name in block.given]]
            stratum = np.unique(given, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)
            inside = [np.flatnonzero(stratum == h) for h in range(stratum.max() + 1)]
            for rows in inside:
                local[rows] = np.arange(len(rows), dtype=np.int32)
        at = tuple(places[name] for name in block.perturbed)
        matrices = [part(block.matrix, rows) if block.given else block.matrix for rows in inside]
        cells = tuple(np.ascontiguousarray(own[rows]) for rows in inside)
        laws = tuple(law_of(matrix, at, held) for matrix, held in zip(matrices, cells, strict=True))
        return cls(block, laws, cells, stratum, local)

    def seen(self, codes: Codes, book: Codebook, rows: NDArray[np.intp] | slice) -> tuple[NDArray[np.int32], ...]:
        """Return the stratum and the released cell in it of some records, -1 where a value is missing and kept.

        Raises
        ------
        DataError
            If a combination is not among the block's cells.
        """
        columns = {name: codes[name][rows].astype(np.intp) for name in self.block.variables}
        present = np.all([column >= 0 for column in columns.values()], axis=0)
        listed = None if self.block.cells is None else self.block.cell_table(())
        where, names = self.block.name, self.block.variables
        cell = positions(names, listed, where=where, columns=columns, present=present, book=book)
        return np.where(cell < 0, -1, self.stratum[cell]), np.where(cell < 0, -1, self.local[cell])

    def blind(self) -> tuple[int, ...]:
        """Return the places of the variables of which no law tells anything, whatever is released."""
        told = {place for law in self.laws if law is not None for place in told_by(law)}
        known = any(law is None for law in self.laws)
        every = dict.fromkeys(place for law in self.laws if law is not None for place in law.variables)
        return () if known else tuple(place for place in every if place not in told)


def factors(block: Block, book: Codebook) -> tuple[Block, ...]:
    """Return a block as blocks of its single variables, where its matrix is their product; else the block itself.

    Its law is then one of few cells for each variable, and not one of all combinations.

    >>> from postrand.codebook import Variable
    >>> two = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    >>> both = TransitionMatrix.from_array(np.kron(two.array, two.array))
    >>> book = Codebook(tuple(Variable(name, role="key", categories=("no", "yes")) for name in "ab"))
    >>> [held.name for held in factors(Block(("a", "b"), both), book)]
    ['a', 'b']
    """
    shape = tuple(book[name].size for name in block.variables)
    whole = block.cells is None or np.array_equal(block.cell_table(shape), all_cells(shape))
    if len(shape) == 1 or block.given or not whole or isinstance(block.matrix.form, Constant):
        return (block,)
    array, singles = block.matrix.array, []
    for place, size in enumerate(shape):
        rows = array.reshape(*shape, *shape)[tuple(slice(None) if k == place else 0 for k in range(len(shape)))]
        others = tuple(k + 1 for k in range(len(shape)) if k != place)
        singles.append(rows.sum(axis=others).reshape(size, size))
    rest = reduce(np.kron, singles[1:])
    strips = np.split(array, shape[0])  # the whole product would be one more matrix of this size
    if any(np.abs(np.kron(row, rest) - strip).max() > _ALIKE for row, strip in zip(singles[0], strips, strict=True)):
        return (block,)
    pairs = zip(block.variables, singles, strict=True)
    return tuple(Block((name,), TransitionMatrix.from_array(single)) for name, single in pairs)


def law_of(matrix: TransitionMatrix, variables: tuple[int, ...], cells: NDArray[np.int32]) -> Law | None:
    """Return the law of one matrix, ``keep I + 1 noiseᵀ`` where it has that form; None where it changes nothing.

    >>> two = TransitionMatrix.from_array([[0.75, 0.25], [0.5, 0.5]])
    >>> law = law_of(two, (0,), np.array([[0], [1]], np.int32))
    >>> law.keep, law.noise.tolist()
    (0.25, [0.5, 0.25])
    """
    if (matrix.diagonal == 1).all():
        return None
    pair = response(matrix)
    if pair is not None and pair[0] >= pair[1]:
        return Law(variables, cells, (pair[0] - pair[1]) / UNIT, np.full(matrix.size, pair[1] / UNIT))
    if not isinstance(matrix.form, Constant):
        weights = matrix.weights
        noise = np.concatenate([weights[1:2, 0], weights[0, 1:]])
        keep = weights.diagonal() - noise
        beside = np.abs(weights - noise)
        np.fill_diagonal(beside, np.abs(keep - keep[0]))
        if beside.max() <= _ROUNDING and keep.min() >= 0:
            return Law(variables, cells, 1 - int(noise.sum()) / UNIT, noise / UNIT)
    return Law(variables, cells, 0.0, np.zeros(matrix.size), matrix.array)


def told_by(law: Law) -> tuple[int, ...]:
    """Return the places of the variables on which the law of what is released depends.

    It does not depend on a variable if cells that differ in it alone have equal rows, so far as such cells are listed.

    >>> told_by(Law((3, 5), np.array([[0, 0], [0, 1]], np.int32), 0.0, np.array([0.5, 0.5])))
    ()
    """
    if law.matrix is None:
        return law.variables if law.keep > _ALIKE else ()
    return tuple(place for at, place in enumerate(law.variables) if _depends(law.matrix, law.cells, at))


def _depends(matrix: NDArray[np.float64], cells: NDArray[np.int32], at: int) -> bool:
    others = np.delete(cells, at, axis=1)
    group = np.unique(others, axis=0, return_inverse=True)[1].reshape(-1) if others.shape[1] else np.zeros(len(cells))
    order = np.argsort(group, kind="stable")
    same = np.diff(group[order]) == 0
    return bool((np.abs(np.diff(matrix[order], axis=0)).max(axis=1)[same] > _ALIKE).any())
