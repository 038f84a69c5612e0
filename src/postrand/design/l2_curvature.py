"""The L2 loss as a function of expected moves, with the sparse Hessian that its designs use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, hstack, vstack

from postrand.design.l2_programme import Moves, Rows
from postrand.objectives.l2 import L2Loss

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class MoveLoss:
    """Hold ``n² l2`` of the moves ``y``: about twice the expected number of changes near the identity.

    ``weights`` are the expected records ``n p`` of each type; ``unit`` as in the programme. The Hessian is the part of
    the exact one that remains where ``M`` is diagonal (there it is exact): diagonal but for one entry for each type and
    each pair of opposite moves, in ``y`` and the auxiliary flows of :meth:`flow_rows`, out of each type (as a
    probability) and into each (in records). An interior point method needs no more, even far from the identity.
    """

    moves: Moves
    weights: Vector
    unit: Vector

    def matrix(self, y: Vector) -> NDArray[np.float64]:
        """Return the transition matrix that makes these moves."""
        return self.moves.matrix(y, self.unit)

    def value(self, y: Vector) -> float:
        """Return ``n² l2``."""
        return self._loss.value(self.matrix(y), self._prior)

    def gradient(self, y: Vector) -> Vector:
        """Return its gradient, shape (V,)."""
        return self.slope(self.matrix(y), self.moves)

    def slope(self, M: NDArray[np.float64], moves: Moves) -> Vector:
        """Return the derivative at ``M`` along any moves, in use or not."""
        G = self._loss.gradient(M, self._prior)
        return np.asarray((G[moves.rows, moves.columns] - G[moves.rows, moves.rows]) / self.unit[moves.rows])

    @property
    def _loss(self) -> L2Loss:
        return L2Loss(records=1 / self.weights.sum())

    @property
    def _prior(self) -> Vector:
        return np.asarray(self.weights / self.weights.sum())

    def flow_rows(self) -> Rows:
        """Return the definitions of the auxiliary flows, the last 2K variables of a programme."""
        V, K = len(self.moves), len(self.unit)
        rate = 1 / self.unit[self.moves.rows]
        out = csr_array((rate, (self.moves.rows, np.arange(V))), shape=(K, V))
        into = csr_array((self.weights[self.moves.rows] * rate, (self.moves.columns, np.arange(V))), shape=(K, V))
        eye = csr_array((np.ones(2 * K), (np.arange(2 * K), np.arange(2 * K))), shape=(2 * K, 2 * K))
        zero, infinite = np.zeros(2 * K), np.full(2 * K, np.inf)
        return Rows(csc_array(hstack([vstack([out, into]), -eye])), zero, zero, -infinite, infinite)

    def pattern(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return rows and columns (row <= column) of the Hessian's entries, of a programme of ``size`` variables."""
        V, K = len(self.moves), len(self.unit)
        out, into = size - 2 * K + np.arange(K), size - K + np.arange(K)
        pairs = self._opposite()
        own = np.arange(V)
        return np.concatenate([own, out, out, pairs[:, 0]]), np.concatenate([own, out, into, pairs[:, 1]])

    def hessian(self, y: Vector) -> Vector:
        """Return the entries of the Hessian in the order of :meth:`pattern`."""
        M, i, j = self.matrix(y), self.moves.rows, self.moves.columns
        u = self.unit[i]
        # d²f = 2 tr(S δ P δᵀ) + 4 tr(T δ A δ) - 4 tr(D_δ A δ P), S = AᵀDA, P = AAᵀ, T = PDA, D_δ = diag(δᵀ n p),
        # with A, P, S and T replaced by their diagonals.
        inverse = np.linalg.inv(M)
        released = self.weights @ M
        A, P = inverse.diagonal(), (inverse**2).sum(axis=1)
        S, T = (inverse**2 * released[:, None]).sum(axis=0), P * released * A
        pairs = self._opposite()
        a, b = i[pairs[:, 0]], j[pairs[:, 0]]
        opposite = 2 * (T[a] * A[b] + T[b] * A[a]) / (u[pairs[:, 0]] * u[pairs[:, 1]])
        row = 2 * S * P + 4 * T * A - 4 * self.weights * A * P
        return np.concatenate([2 * S[i] * P[j] / u**2, row, 2 * A * P, opposite])

    def _opposite(self) -> NDArray[np.int64]:
        """Return the pairs of opposite moves ``i → j``, ``j → i`` as positions, smaller first, shape (·, 2)."""
        K = len(self.unit)
        forward, backward = (
            a * K + b for a, b in ((self.moves.rows, self.moves.columns), (self.moves.columns, self.moves.rows))
        )
        order = np.argsort(forward)
        place = np.minimum(np.searchsorted(forward[order], backward), max(len(order) - 1, 0))
        partner = order[place]
        first = np.arange(len(order))
        kept = (forward[partner] == backward) & (first < partner)
        return np.stack([first[kept], partner[kept]], axis=1)
