"""A least-loss design problem on one file: its moves, its conditions, and what a float matrix still misses of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.designers.recognition.programme import (
    Cells,
    Moves,
    Pairs,
    Rows,
    diagonal_rows,
    invariant_rows,
    ratio_rows,
    recognition_rows,
)
from postrand.mechanism.matrix import TransitionMatrix
from postrand.privacy import KeyTypes, SpontaneousRecognition

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_INSIDE = 1e-8  # α is taken so much smaller, relative: room for the solver's tolerance and for rounding
_KEPT = 1e-6  # records by which a margin may move and still count as kept: rounding, and the solver's tolerance
_DIAGONAL = 1e-10  # the diagonal is kept so much above its floor: rounding to 2^-53 does not fall below it


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Hold what a search needs: the model on its file, expected records of each type, and the further conditions.

    ``reach`` is ``"all"`` or ``"cover"``, ``floor`` the smallest diagonal allowed, ``invariant`` the key sets whose
    margins are kept, ``epsilon`` the level of ε-DP or None.
    """

    model: SpontaneousRecognition
    weights: Vector
    reach: str
    floor: float
    invariant: tuple[tuple[str, ...], ...]
    epsilon: float | None

    @property
    def types(self) -> KeyTypes:
        """The key types of the file."""
        return self.model.file

    @property
    def unit(self) -> Vector:
        """``u_i`` of the programme."""
        return np.maximum(self.weights, 1.0)

    @property
    def rare(self) -> NDArray[np.int64]:
        """The types that carry conditions of C1."""
        return self.model.rare_types()

    def at(self, floor: float) -> Problem:
        """Return the same problem with another smallest diagonal."""
        return replace(self, floor=floor)

    def cells(self, inside: float = _INSIDE) -> Cells:
        """Return the cells (π, k0), with α a little inside (or outside, where ``inside`` is negative)."""
        members = self.types.incidence(self.model.key_sets)
        return Cells(self.types, members, float(self.model.limit) * (1 - inside))

    def outer(self) -> Cells:
        """Return the cells with α a little outside: minima over them are bounds whatever the tolerances."""
        return self.cells(-_INSIDE)

    @property
    def moves(self) -> Moves:
        """Every move that may be used."""
        everyone = np.arange(self.types.size)
        if self.epsilon is not None:
            return Moves.among(everyone, everyone)
        if self.reach == "all":
            return Moves.among(self.types.occurring, everyone)
        limit = self.model.limit
        frequent = self.types.counts * limit.numerator >= limit.denominator
        return Moves.among(np.flatnonzero(frequent), np.flatnonzero(~frequent))

    def rows(self, moves: Moves, cells: Cells, pairs: Pairs) -> dict[str, Rows]:
        """Return the named conditions on these moves."""
        floor = min(self.floor + _DIAGONAL, 1.0) if self.floor else 0.0
        named = {"recognition": recognition_rows(cells, moves, pairs, self.unit)}
        named["diagonal"] = diagonal_rows(moves, self.unit, floor)
        if self.invariant:
            named["invariant"] = invariant_rows(self.kept, self.types.counts, moves, self.unit)
        if self.epsilon is not None:
            named["differential"] = ratio_rows(moves, self.unit, math.exp(self.epsilon) * (1 - 1e-9))
        return named

    @property
    def kept(self) -> scipy.sparse.csr_array:
        """The cells of the margins that are kept, (K, C) 0/1."""
        return self.types.incidence(self.types.key_sets(self.invariant))

    def conditions(self) -> Pairs:
        """Return the conditions of C1 to begin with; those that a solution misses are added."""
        return self.cells().conditions(self.rare, max(self.floor, 0.5))

    def missed(self, M: Matrix, cells: Cells, known: Pairs, tolerance: float) -> Pairs:
        """Return the conditions of C1, other than the known ones, that ``M`` misses by more than the tolerance."""
        found = cells.violated(M, self.rare, tolerance)
        seen = set(map(tuple, known.tolist()))
        return np.array([pair for pair in found.tolist() if tuple(pair) not in seen], dtype=np.int64).reshape(-1, 2)

    def allows(self, law: TransitionMatrix) -> bool:
        """Tell whether a law has the diagonal, the moves and the margins asked for (margins within 1e-6 records)."""
        there = self.types.occurring
        stays = law.weights.diagonal()[there] if self.epsilon is None else law.weights.diagonal()
        if stays.min() < Fraction(self.floor) * int(law.weights[0].sum()):
            return False
        used = law.weights * (self.types.counts > 0)[:, None] > 0
        moves = self.moves
        np.fill_diagonal(used, False)
        used[moves.rows, moves.columns] = False
        if used.any():
            return False
        if not self.invariant:
            return True
        moved = self.types.counts @ (law.array - np.eye(law.size))
        return bool(np.abs(moved @ self.kept).max() <= _KEPT)
