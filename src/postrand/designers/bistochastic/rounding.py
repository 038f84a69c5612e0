"""From a nearly bistochastic float matrix to an exact law: rows and columns sum to exactly 2^53."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from postrand.errors import SpecificationError, raise_all, sentence
from postrand.mechanism.matrix import ROW_SUM_TOLERANCE, UNIT, TransitionMatrix
from postrand.support.entropy import column_excess
from postrand.support.inputs import real_array


def round_bistochastic(array: ArrayLike) -> TransitionMatrix:
    """Round a bistochastic float matrix to a nearby exact law, zeros staying zero.

    ``array`` has shape (S, S), rows true, columns released; rows and columns sum to 1 within 1e-9. All entries are
    rounded to the nearest unit but those of a spanning forest of the bipartite graph rows - columns, which the sums
    then fix one after the other, from the leaves. The forest takes the largest entries, which have most room; they
    move by at most about S units. An exact bistochastic law is kept verbatim.

    Raises
    ------
    SpecificationError
        If the matrix is not bistochastic, naming the column and its excess; or nearly falls into blocks, coupled
        only by entries too small to carry the rounding (about S 2^-53).

    Examples
    --------
    >>> M = round_bistochastic(np.full((3, 3), 1 / 3))
    >>> M.is_bistochastic, bool(abs(M.weights - 2**53 / 3).max() < 4)
    (True, True)
    """
    given = real_array(array, "the matrix")
    raise_all(SpecificationError, problems_of(given))
    weights = np.rint(given * UNIT).astype(np.int64)
    _settle_forest(weights, _largest_forest(given))
    if weights.min() < 0:
        raise SpecificationError(
            sentence(
                "the matrix falls into blocks that are coupled only by entries too small to round",
                wanted=f"couplings of 0, or above {given.shape[0] / UNIT:.1e}",
            )
        )
    law = TransitionMatrix(weights)
    if not law.is_bistochastic:
        column, excess = column_excess(weights)
        raise SpecificationError(
            sentence(f"column {column} does not sum to 1 on the entries that are not zero", got=f"{float(excess):+.3g}")
        )
    return law


def problems_of(array: NDArray[np.float64]) -> list[str]:
    """Return one sentence for each reason why a float matrix is not bistochastic within 1e-9."""
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.shape[0] < 1:
        return [sentence("a bistochastic matrix must be square", got=f"shape {array.shape}", wanted="(S, S), S >= 1")]
    if not np.isfinite(array).all():
        return [sentence("the matrix has entries that are not finite")]
    problems = []
    if array.min() < 0:
        i, j = (int(k) for k in np.unravel_index(array.argmin(), array.shape))
        problems.append(sentence("a probability is negative", where=f"row {i}, column {j}", got=float(array[i, j])))
    for name, sums in (("row", array.sum(axis=1)), ("column", array.sum(axis=0))):
        worst = int(np.abs(sums - 1).argmax())
        excess = float(sums[worst] - 1)
        if abs(excess) > ROW_SUM_TOLERANCE:
            problems.append(sentence(f"{name} {worst} does not sum to 1", got=f"excess {excess:+.3g}"))
    return problems


def _largest_forest(array: NDArray[np.float64]) -> list[tuple[int, int, bool]]:
    """Return the edges of a maximum spanning forest, leaves first: (row, column, whether the row is the leaf)."""
    size = array.shape[0]
    rows, columns = (at.astype(np.int32) for at in np.nonzero(array))  # before 1.17 SciPy takes no others here
    graph = scipy.sparse.coo_array((-array[rows, columns], (rows, columns + size)), shape=(2 * size, 2 * size)).tocsr()
    forest = scipy.sparse.csgraph.minimum_spanning_tree(graph)
    forest.data[:] = 1
    seen = np.zeros(2 * size, dtype=bool)
    edges: list[tuple[int, int, bool]] = []
    for root in range(2 * size):
        if not seen[root]:
            order, parent = scipy.sparse.csgraph.breadth_first_order(forest, root, directed=False)
            seen[order] = True
            edges += [
                (int(v), int(parent[v]) - size, True) if v < size else (int(parent[v]), int(v) - size, False)
                for v in order[1:]
            ]
    return edges[::-1]


def _settle_forest(weights: NDArray[np.int64], edges: list[tuple[int, int, bool]]) -> None:
    """Set each forest entry to what its leaf's row or column lacks."""
    for i, j, _ in edges:
        weights[i, j] = 0
    lack_rows, lack_columns = UNIT - weights.sum(axis=1), UNIT - weights.sum(axis=0)
    for i, j, row_is_leaf in edges:
        value = lack_rows[i] if row_is_leaf else lack_columns[j]
        weights[i, j] = value
        lack_rows[i] -= value
        lack_columns[j] -= value
