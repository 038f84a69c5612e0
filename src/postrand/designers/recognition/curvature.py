"""The L2 loss as a function of expected moves, with the sparse Hessian that its designs use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.designers.recognition.programme import Moves, Rows
from postrand.objectives.l2 import L2Loss

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class MoveLoss:
    """Hold ``n² l2`` of the moves ``y``: about twice the expected number of changes near the identity.

    ``weights`` are the expected records ``n p`` of each type; ``unit`` as in the programme. The Hessian is the part of
    the exact one that remains where ``M`` is diagonal (there it is exact): diagonal but for one entry for each type and
    each pair of opposite moves, in ``y`` and the auxiliary flows of :meth:`flow_rows`, out of each type (as a
    probability) and into each (in records). An interior point method needs no more, even far from the identity.

    Types without a move in use have a row and a column of the identity, and are left out of the inverse.
    """

    moves: Moves
    weights: Vector
    unit: Vector

    def matrix(self, y: Vector) -> NDArray[np.float64]:
        """Return the transition matrix that makes these moves."""
        return self.moves.matrix(y, self.unit)

    def value(self, y: Vector) -> float:
        """Return ``n² l2``."""
        if self._one_way:
            _, stays, squares = self._rows(y)
            return float(self.weights @ ((1 - stays**2 + squares) / stays))
        active, _ = self._active()
        return L2Loss().value(self.matrix(y)[np.ix_(active, active)], self.weights[active])

    def gradient(self, y: Vector) -> Vector:
        """Return its gradient, shape (V,)."""
        if self._one_way:
            x, stays, squares = self._rows(y)
            slope = self.weights * (1 - stays**2 + squares) / stays**2
            own = self.moves.rows
            return np.asarray((slope[own] + 2 * (self.weights / stays)[own] * (stays[own] + x)) / self.unit[own])
        active, (i, j) = self._active()
        G = L2Loss().gradient(self.matrix(y)[np.ix_(active, active)], self.weights[active])
        if not np.isfinite(G).all():  # singular: no direction is better than another
            return np.full(len(y), np.inf)
        return np.asarray((G[i, j] - G[i, i]) / self.unit[self.moves.rows])

    def slope(self, M: NDArray[np.float64], moves: Moves) -> Vector:
        """Return the derivative at ``M`` along any moves, in use or not."""
        G = L2Loss().gradient(M, self.weights)
        return np.asarray((G[moves.rows, moves.columns] - G[moves.rows, moves.rows]) / self.unit[moves.rows])

    @property
    def _one_way(self) -> bool:
        """Whether no type that receives is changed itself: the inverse is explicit, ``1/d_l (e_l - x_l)`` by rows."""
        return not np.intersect1d(self.moves.rows, self.moves.columns).size

    def _rows(self, y: Vector) -> tuple[Vector, Vector, Vector]:
        """Return the moves as probabilities x, (V,), and of each row the diagonal d and ``|x|²``, (K,)."""
        x, K = y / self.unit[self.moves.rows], len(self.unit)
        leaves, squares = (np.bincount(self.moves.rows, w, K).astype(np.float64) for w in (x, x**2))
        return x, 1 - leaves, squares

    def _diagonals(self, y: Vector) -> tuple[Vector, Vector, Vector, Vector]:
        """Return the diagonals of ``A = M^-1``, ``P = AAᵀ``, ``S = AᵀDA`` and ``T = PDA``, D the records released."""
        if self._one_way:
            x, stays, squares = self._rows(y)
            i, j, K = self.moves.rows, self.moves.columns, len(stays)
            inflow = np.bincount(j, weights=self.weights[i] * x, minlength=K)
            released = self.weights * stays + inflow
            spread = np.bincount(j, weights=(self.weights / stays)[i] * x**2, minlength=K)
            A, P = 1 / stays, (1 + squares) / stays**2
            return A, P, released * A**2 + spread, P * released * A
        M, (active, _) = self.matrix(y), self._active()
        M = M[np.ix_(active, active)]
        inverse, released = np.linalg.inv(M), self.weights[active] @ M
        A, P = np.ones(len(self.unit)), np.ones(len(self.unit))
        S, T = self.weights.copy(), self.weights.copy()
        A[active], P[active] = inverse.diagonal(), (inverse**2).sum(axis=1)
        S[active] = (inverse**2 * released[:, None]).sum(axis=0)
        T[active] = P[active] * released * A[active]
        return A, P, S, T

    def _active(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the types with a move in use, and the rows and columns of the moves among them, shape (2, V)."""
        both = np.stack([self.moves.rows, self.moves.columns])
        active, place = np.unique(both, return_inverse=True)
        return active, place.reshape(both.shape)

    def flow_rows(self) -> Rows:
        """Return the definitions of the auxiliary flows, the last 2K variables of a programme."""
        V, K = len(self.moves), len(self.unit)
        rate = 1 / self.unit[self.moves.rows]
        out = scipy.sparse.csr_array((rate, (self.moves.rows, np.arange(V))), shape=(K, V))
        into = scipy.sparse.csr_array(
            (self.weights[self.moves.rows] * rate, (self.moves.columns, np.arange(V))), shape=(K, V)
        )
        eye = scipy.sparse.csr_array((np.ones(2 * K), (np.arange(2 * K), np.arange(2 * K))), shape=(2 * K, 2 * K))
        zero, infinite = np.zeros(2 * K), np.full(2 * K, np.inf)
        return Rows(
            scipy.sparse.csc_array(scipy.sparse.hstack([scipy.sparse.vstack([out, into]), -eye])),
            zero,
            zero,
            -infinite,
            infinite,
        )

    def pattern(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return rows and columns (row <= column) of the Hessian's entries, of a programme of ``size`` variables."""
        V, K = len(self.moves), len(self.unit)
        out, into = size - 2 * K + np.arange(K), size - K + np.arange(K)
        pairs = self._opposite()
        own = np.arange(V)
        return np.concatenate([own, out, out, pairs[:, 0]]), np.concatenate([own, out, into, pairs[:, 1]])

    def hessian(self, y: Vector) -> Vector:
        """Return the entries of the Hessian in the order of :meth:`pattern`."""
        i, j = self.moves.rows, self.moves.columns
        u = self.unit[i]
        # d²f = 2 tr(S δ P δᵀ) + 4 tr(T δ A δ) - 4 tr(D_δ A δ P), S = AᵀDA, P = AAᵀ, T = PDA, D_δ = diag(δᵀ n p),
        # with A, P, S and T replaced by their diagonals.
        A, P, S, T = self._diagonals(y)
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
