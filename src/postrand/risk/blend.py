"""Randomised response on many cells, as two numbers for each: a record stays, or its cell is drawn anew.

A split has many such matrices, some of tens of thousands of cells, and a part of their variables as keys. The law of
any of the variables has the same form, so nothing needs the whole matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from postrand.mechanism import Block
from postrand.mechanism.matrix_storage import UNIT
from postrand.mechanism.split_data import pair_of
from postrand.risk.cells import FloatArray, IntArray, ravel


@dataclass(frozen=True, slots=True, eq=False)
class Blend:
    """Hold ``M[x, y] = stays [x = y] + redrawn[y]`` on the cells of the keys ``positions``, of ``sizes`` codes each.

    ``cells`` (K,) are numbers of cells in C order, ascending: those that the block has. ``redrawn`` (K,) sums to
    ``1 - stays``.
    """

    positions: tuple[int, ...]
    sizes: tuple[int, ...]
    stays: float
    cells: IntArray
    redrawn: FloatArray

    @classmethod
    def of(cls, block: Block, positions: Sequence[int], sizes: Sequence[int], shown: Sequence[int]) -> Blend | None:
        """Return the law of the block's variables number ``shown``, the keys ``positions``; None for other matrices."""
        size, pair = block.matrix.size, pair_of(block.matrix)
        if block.given or (pair is None and size > 1):
            return None
        off = UNIT if pair is None else pair["off"]  # one cell: drawn anew it is the same
        stays = 1 - size * off / UNIT
        if not (off > 0 and stays >= 0):
            return None
        codes = block.cell_table(tuple(sizes))[:, list(shown)]
        kept = tuple(sizes[j] for j in shown)
        cells, many = np.unique(ravel(list(codes.T), kept), return_counts=True)
        return cls(tuple(positions), kept, stays, cells, np.asarray(many * (off / UNIT), dtype=np.float64))

    def rows(self, codes: IntArray) -> tuple[IntArray, FloatArray]:
        """Return the number of the cell of each row of codes, (m, J), and the probability that it is drawn anew."""
        number = ravel(list(codes.T), self.sizes)
        place = np.searchsorted(self.cells, number).clip(max=self.cells.size - 1)
        return number, np.where(self.cells[place] == number, self.redrawn[place], 0.0)

    def entries(self, true: IntArray, released: IntArray) -> FloatArray:
        """Return the probabilities of released codes (Z, J) for true ones (X, J), shape (X, Z)."""
        (x, _), (z, redrawn) = self.rows(true), self.rows(released)
        found: FloatArray = np.where(x[:, None] == z, self.stays, 0.0)
        found += redrawn
        return found

    def diagonal(self, codes: IntArray) -> FloatArray:
        """Return the probability that codes (m, J) stay, shape (m,)."""
        return np.asarray(self.stays + self.rows(codes)[1], dtype=np.float64)

    def drawn(self, codes: IntArray, rng: np.random.Generator) -> IntArray:
        """Return released codes for true ones, shape (m, J)."""
        ends: FloatArray = np.cumsum(self.redrawn, dtype=np.float64)
        chance = rng.random((codes.shape[0],))
        moving = np.flatnonzero(chance >= self.stays)
        anew = np.asarray((chance[moving] - self.stays) / (1 - self.stays), dtype=np.float64)
        at: IntArray = np.searchsorted(ends, anew * float(ends[-1]), side="right")
        found = codes.copy()
        found[moving] = np.stack(np.unravel_index(self.cells[at.clip(max=ends.size - 1)], self.sizes), axis=1)
        return found

    def apply(self, table: FloatArray, variables: Sequence[int], *, adjoint: bool = False) -> FloatArray:
        """Carry a table of the keys ``variables``, ascending axes, through the law of those that are the blend's."""
        axes = tuple(i for i, j in enumerate(variables) if j in self.positions)
        if not axes:
            return table
        redrawn = self.margin([variables[i] for i in axes])
        redrawn = redrawn.reshape([s if i in axes else 1 for i, s in enumerate(table.shape)])
        inside = table * (redrawn > 0)
        if adjoint:
            out = self.stays * inside + (inside * redrawn).sum(axis=axes, keepdims=True)
        else:
            out = self.stays * inside + inside.sum(axis=axes, keepdims=True) * redrawn
        return np.asarray(out * (redrawn > 0))

    def margin(self, variables: Sequence[int]) -> FloatArray:
        """Return the probabilities of drawing anew of these of its keys, in their order."""
        codes = np.unravel_index(self.cells, self.sizes)
        at = [self.positions.index(j) for j in variables]
        kept = tuple(self.sizes[k] for k in at)
        number = ravel([codes[k] for k in at], kept)
        found = np.bincount(number, weights=self.redrawn, minlength=math.prod(kept))
        return np.asarray(found.reshape(kept), dtype=np.float64)

    def information(self, shares: FloatArray, variables: Sequence[int]) -> float:
        """Return the share of the information on these keys that the law keeps, with released ``shares`` of them.

        The variance of unperturbed shares over that of the unbiased estimate, ``(r - c) / stays``: 0..1.
        """
        inside = [j for j in variables if j in self.positions]
        if not inside or not self.stays > 0:
            return 1.0 if not inside else 0.0
        released = shares.sum(axis=tuple(i for i, j in enumerate(variables) if j not in self.positions))
        redrawn = self.margin(inside)
        true = (released - redrawn) / self.stays
        second = (released * (1 - 2 * redrawn)).sum() + (redrawn**2).sum()
        least, most = 1 - float((true**2).sum()), float(second) / self.stays**2 - float((true**2).sum())
        return min(max(least / most, 0.0), 1.0) if most > 0 else 1.0

    def group(self) -> tuple[tuple[int, ...], FloatArray, IntArray, IntArray]:
        """Return the whole matrix, as a group of keys has it."""
        matrix = np.tile(self.redrawn, (self.cells.size, 1))
        matrix[np.diag_indices_from(matrix)] += self.stays
        return self.positions, matrix, self.cells, np.arange(self.cells.size)

    @staticmethod
    def mean(laws: Sequence[Blend], shares: FloatArray) -> Blend:
        """Return the mixture of laws of the same keys, with shares that sum to 1."""
        cells = np.unique(np.concatenate([law.cells for law in laws]))
        redrawn = np.zeros(cells.size)
        for law, share in zip(laws, shares.tolist(), strict=True):
            redrawn[np.searchsorted(cells, law.cells)] += share * law.redrawn
        stays = float(shares @ [law.stays for law in laws])
        return Blend(laws[0].positions, laws[0].sizes, stays, cells, redrawn)
