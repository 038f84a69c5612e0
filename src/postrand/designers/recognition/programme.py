"""The constraints of a least-loss design as one sparse programme over moves, with an auxiliary variable for each cell.

Variables are expected moves ``y[v] = u_i x`` of a move ``v = (i → j)``: ``M[i,j] = x``, and ``M[i,i]`` is what the row
has left; ``u_i = max(U0(i), 1)`` makes them of one size. ``t_c = Σ_l U0(l) Σ_{k∈c} M[l,k]`` is the number of records
expected in the cell ``c = (π, k0)``: with it every row is sparse (CHR (1) as it stands has dense ones).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.privacy.key_types import KeyTypes

Pairs = NDArray[np.int64]
"""Conditions of C1 as rows (m, c), shape (R, 2)."""


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """Hold every move that a design may use: ``rows[v] → columns[v]``, never a diagonal entry."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]

    @classmethod
    def among(cls, sources: NDArray[np.int64], receivers: NDArray[np.int64]) -> Moves:
        """Return all moves from ``sources`` into ``receivers``."""
        rows, columns = (a.ravel() for a in np.meshgrid(sources, receivers, indexing="ij"))
        proper = rows != columns
        return cls(rows[proper], columns[proper])

    def __len__(self) -> int:
        return len(self.rows)

    def matrix(self, amounts: NDArray[np.float64], unit: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the transition matrix that makes these expected moves."""
        M = np.zeros((len(unit), len(unit)))
        np.add.at(M, (self.rows, self.columns), amounts / unit[self.rows])
        np.fill_diagonal(M, M.diagonal() + 1 - M.sum(axis=1))
        return M


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Hold linear rows ``low <= A [y; z] <= high`` (z: auxiliary variables within ``z_low, z_high``)."""

    A: scipy.sparse.csc_array
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    z_low: NDArray[np.float64]
    z_high: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Hold the cells (π, k0) of a file: ``members`` (K, C) 0/1, and the conditions of C1 on them."""

    types: KeyTypes
    members: scipy.sparse.csr_array
    alpha: float

    @property
    def frequencies(self) -> NDArray[np.float64]:
        """``U_π(k0)`` of each cell, shape (C,)."""
        return np.asarray(self.types.counts @ self.members, dtype=np.float64)

    def conditions(self, rare: NDArray[np.int64], gamma: float) -> Pairs:
        """Return the conditions that suffice where the diagonal exceeds γ: ``U_π(k0) <= 1/(γα)`` and ``m_π = k0``.

        The second needs ``(1-γ)/γ < α`` (CHR (5)); whatever γ is, the complete check comes afterwards.
        """
        dense = self.members[rare].toarray() > 0
        m, c = np.nonzero(dense & (self.frequencies * gamma * self.alpha <= 1))
        return np.stack([rare[m], c], axis=1)

    def violated(self, M: NDArray[np.float64], rare: NDArray[np.int64], tolerance: float) -> Pairs:
        """Return every condition of C1 that the float matrix misses by more than ``tolerance`` (complete check)."""
        mass = M @ self.members
        excess = mass[rare] - self.alpha * (self.types.counts @ mass)
        m, c = np.nonzero(excess > tolerance)
        return np.stack([rare[m], c], axis=1)


def recognition_rows(cells: Cells, moves: Moves, pairs: Pairs, unit: NDArray[np.float64]) -> Rows:
    """Return ``t_c`` as auxiliary variables and C1 for the given conditions: ``s_mc - α t_c <= 0``."""
    used, position = np.unique(pairs[:, 1], return_inverse=True)
    change = _changes(cells.members[:, used], moves)
    share = cells.types.counts[moves.rows] / unit[moves.rows]
    count = len(used)
    balance = scipy.sparse.hstack([change.multiply(share[:, None]).T, -_eye(count)])
    frequency = cells.frequencies[used]
    own = _own_rows(change, moves, pairs, position, unit)
    limit = scipy.sparse.csr_array(
        (np.full(len(pairs), -cells.alpha), (np.arange(len(pairs)), position)), shape=(len(pairs), count)
    )
    stays = -cells.members[pairs[:, 0]].multiply(_eye(cells.members.shape[1])[pairs[:, 1]]).sum(axis=1)
    A = scipy.sparse.csc_array(scipy.sparse.vstack([balance, scipy.sparse.hstack([own, limit])]))
    low = np.concatenate([-frequency, np.full(len(pairs), -np.inf)])
    return Rows(A, low, np.concatenate([-frequency, stays]), np.zeros(count), np.full(count, np.inf))


def invariant_rows(
    members: scipy.sparse.csr_array, counts: NDArray[np.int64], moves: Moves, unit: NDArray[np.float64]
) -> Rows:
    """Return ``Σ_l U0(l) Σ_{k∈c} M[l,k] = U_π(k0)``: these margins keep their expectation."""
    change = _changes(members, moves)
    A = scipy.sparse.csc_array(change.multiply((counts[moves.rows] / unit[moves.rows])[:, None]).T)
    return _no_auxiliaries(A, np.zeros(A.shape[0]), np.zeros(A.shape[0]))


def diagonal_rows(moves: Moves, unit: NDArray[np.float64], gamma: float) -> Rows:
    """Return ``M[i,i] >= γ`` (γ = 0: rows are distributions)."""
    V, K = len(moves), len(unit)
    A = scipy.sparse.csc_array((np.ones(V), (moves.rows, np.arange(V))), shape=(K, V))
    return _no_auxiliaries(A, np.full(K, -np.inf), unit * (1 - gamma))


def ratio_rows(moves: Moves, unit: NDArray[np.float64], ratio: float) -> Rows:
    """Return ``z_j <= M[i,j] <= ratio z_j`` for all i, j, one auxiliary ``z_j`` for each column (ε-DP).

    ``moves`` must be all K(K-1) of them.
    """
    K, V = len(unit), len(moves)
    off = scipy.sparse.csr_array((1 / unit[moves.rows], (np.arange(V), np.arange(V))), shape=(V, V))
    diagonal = scipy.sparse.csr_array((-1 / unit[moves.rows], (moves.rows, np.arange(V))), shape=(K, V))
    entries = scipy.sparse.vstack([off, diagonal])
    column = np.concatenate([moves.columns, np.arange(K)])
    constant = np.concatenate([np.zeros(V), np.ones(K)])
    pick = scipy.sparse.csr_array((np.ones(V + K), (np.arange(V + K), column)), shape=(V + K, K))
    A = scipy.sparse.csc_array(
        scipy.sparse.vstack([scipy.sparse.hstack([entries, -pick]), scipy.sparse.hstack([entries, -ratio * pick])])
    )
    infinite = np.full(V + K, np.inf)
    low, high = np.concatenate([-constant, -infinite]), np.concatenate([infinite, -constant])
    return Rows(A, low, high, np.zeros(K), np.ones(K))


def stack(parts: Sequence[Rows], moves: int) -> Rows:
    """Return all rows of a programme; each part keeps its own auxiliary variables."""
    extra = [part.A.shape[1] - moves for part in parts]
    blocks = []
    for index, part in enumerate(parts):
        padding = [scipy.sparse.csc_array((part.A.shape[0], width)) for width in extra]
        padding[index] = part.A[:, moves:]
        blocks.append(scipy.sparse.hstack([part.A[:, :moves], *padding]))
    joined = [np.concatenate([getattr(p, name) for p in parts]) for name in ("low", "high", "z_low", "z_high")]
    return Rows(scipy.sparse.csc_array(scipy.sparse.vstack(blocks)), *joined)


def _changes(members: scipy.sparse.csr_array, moves: Moves) -> scipy.sparse.csr_array:
    """Return ``[j∈c] - [i∈c]`` for each move i → j and cell c, shape (V, C)."""
    change = scipy.sparse.csr_array(members[moves.columns] - members[moves.rows])
    change.eliminate_zeros()
    return change


def _own_rows(
    change: scipy.sparse.csr_array, moves: Moves, pairs: Pairs, position: NDArray[np.int64], unit: NDArray[np.float64]
) -> scipy.sparse.csr_array:
    """Return what the moves out of m change in ``s_mc``, one row for each condition."""
    coo = change.tocoo()
    entry_type, entry_cell = moves.rows[coo.row], coo.col
    width = change.shape[1]
    order = np.argsort(pairs[:, 0] * width + position)
    sought = entry_type * width + entry_cell
    keys = (pairs[:, 0] * width + position)[order]
    place = np.searchsorted(keys, sought)
    found = keys[np.minimum(place, len(keys) - 1)] == sought if len(keys) else np.zeros(len(sought), bool)
    rows, columns = order[place[found]], coo.row[found]
    return scipy.sparse.csr_array(
        (coo.data[found] / unit[moves.rows[columns]], (rows, columns)), shape=(len(pairs), len(moves))
    )


def _no_auxiliaries(A: scipy.sparse.csc_array, low: NDArray[np.float64], high: NDArray[np.float64]) -> Rows:
    return Rows(A, low, high, np.zeros(0), np.zeros(0))


def _eye(size: int) -> scipy.sparse.csr_array:
    return scipy.sparse.csr_array((np.ones(size), (np.arange(size), np.arange(size))), shape=(size, size))
