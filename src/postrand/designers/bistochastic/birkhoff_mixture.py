"""The Birkhoff–von Neumann decomposition of an exact law (RDF Theorem 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.errors import SpecificationError, sentence
from postrand.mechanism.matrix import UNIT, TransitionMatrix
from postrand.support.entropy import column_excess


@dataclass(frozen=True, slots=True, eq=False)
class Birkhoff:
    """Hold ``M = Σ_j λ_j P_j``: ``shares[j] = 2^53 λ_j`` (J,), and ``permutations[j, u]`` the category that u becomes.

    Exact: the shares are positive integers that sum to 2^53.
    """

    shares: NDArray[np.int64]
    permutations: NDArray[Any]

    def matrix(self) -> TransitionMatrix:
        """Return ``Σ_j λ_j P_j``, the law that was decomposed."""
        size = self.permutations.shape[1]
        weights = np.zeros((size, size), dtype=np.int64)
        for u in range(size):
            np.add.at(weights[u], self.permutations[:, u], self.shares)
        return TransitionMatrix(weights)

    def draw(self, codes: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[Any]:
        """Release each code through a permutation of its own, drawn with its share by the top 53 bits of its word.

        The released code of a record follows exactly the matrix. ``codes`` (n,) in 0..S-1, or -1 (missing, kept);
        ``words`` (n,) uniform on 64 bits.
        """
        ends = np.cumsum(self.shares)
        chosen = np.searchsorted(ends, (words >> np.uint64(11)).astype(np.int64), side="right")
        released = self.permutations[chosen, codes].astype(codes.dtype)
        return np.where(codes < 0, codes, released)


def birkhoff(matrix: TransitionMatrix) -> Birkhoff:
    """Decompose an exact bistochastic law into at most ``S² - 2S + 2`` permutations (RDF Theorem 1), exactly.

    Each step takes off a permutation as often as its least entry allows, which lowers the dimension of the face of the
    Birkhoff polytope that the rest lies on; that dimension is at most ``(S-1)²`` to begin with.

    Raises
    ------
    SpecificationError
        If the law is not bistochastic, naming the column and its excess.

    Examples
    --------
    >>> parts = birkhoff(TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]]))
    >>> (parts.shares / 2**53).tolist(), parts.permutations.tolist()
    ([0.75, 0.25], [[0, 1], [1, 0]])
    """
    if not matrix.is_bistochastic:
        column, excess = column_excess(matrix.weights)
        raise SpecificationError(
            sentence(
                f"column {column} does not sum to 1: not a mixture of permutations", got=f"excess {float(excess):+.3g}"
            )
        )
    from postrand.designers.bistochastic.kernels import peel  # compiled

    size = matrix.size
    _, column_of = scipy.optimize.linear_sum_assignment(
        np.where(matrix.weights > 0, -matrix.array, size), maximize=False
    )
    most = min(size * size - 2 * size + 2, int((matrix.weights > 0).sum()))
    permutations = np.empty((most, size), dtype=np.min_scalar_type(-size))
    shares = np.empty(most, dtype=np.int64)
    count = peel(matrix.weights.copy(), column_of.astype(np.int64), permutations, shares)
    assert int(shares[:count].sum()) == UNIT
    return Birkhoff(shares[:count].copy(), permutations[:count].copy())
