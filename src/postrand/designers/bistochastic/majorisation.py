"""Majorisation (RDF Theorem 2 and appendix A.3) and Proposition 3."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from postrand.errors import SpecificationError, raise_all, sentence
from postrand.mechanism.matrix import UNIT, TransitionMatrix
from postrand.support.inputs import real_array

TOLERANCE = 1e-12


def majorises(p: ArrayLike, q: ArrayLike, tolerance: float = TOLERANCE) -> bool:
    """Tell whether ``p ≻ q``: sorted downwards, every partial sum of p is at least that of q, less ``tolerance``.

    Equivalent to ``q = Pᵀ p`` for some bistochastic P (Hardy, Littlewood & Pólya; RDF Theorem 2). Shapes (S,).

    Raises
    ------
    SpecificationError
        If the vectors differ in length, are not finite, or differ in their sums by more than 1e-9.

    Examples
    --------
    >>> majorises([0.6, 0.3, 0.1], [0.5, 0.25, 0.25]), majorises([0.5, 0.25, 0.25], [0.6, 0.3, 0.1])
    (True, False)
    """
    a, b = _pair(p, q)
    return bool((np.cumsum(-np.sort(-a)) >= np.cumsum(-np.sort(-b)) - tolerance).all())


def transfer_matrix(p: ArrayLike, q: ArrayLike) -> NDArray[np.float64]:
    """Return a bistochastic P with ``q = Pᵀ p``, shape (S, S), a product of at most S-1 transfers (RDF Theorem 2).

    Raises
    ------
    SpecificationError
        If p does not majorise q: then no bistochastic matrix leads from p to q.

    Examples
    --------
    >>> transfer_matrix([0.75, 0.25], [0.5, 0.5]).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    a, b = _pair(p, q)
    if not majorises(a, b):
        raise SpecificationError(
            sentence(
                "p does not majorise q",
                fix="exchange them if q is the original, or use a matrix that is not bistochastic",
            )
        )
    rows, columns = np.argsort(-a, kind="stable"), np.argsort(-b, kind="stable")
    x, y = a[rows], b[columns]
    P = np.eye(a.size)
    for _ in range(a.size - 1):
        above, below = np.flatnonzero(x > y), np.flatnonzero(x < y)
        above = above[above < below.max(initial=-1)]
        if not above.size:
            break
        i = above[-1]
        j = below[below > i][0]  # entries in between are settled, so the order is kept
        moved = min(x[i] - y[i], y[j] - x[j])
        t = moved / (x[i] - x[j])
        P[:, [i, j]] = P[:, [i, j]] @ np.array([[1 - t, t], [t, 1 - t]])
        settled = i if x[i] - y[i] <= y[j] - x[j] else j
        x[i], x[j] = x[i] - moved, x[j] + moved
        x[settled] = y[settled]
    result = np.empty_like(P)
    result[np.ix_(rows, columns)] = P
    return result


def is_diagonally_dominant(matrix: TransitionMatrix) -> bool:
    """Tell whether every diagonal entry exceeds 1/2, exactly: then the law is not singular (RDF Proposition 3).

    >>> is_diagonally_dominant(TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]]))
    True
    """
    return bool((2 * np.diag(matrix.weights) > UNIT).all())


def _pair(p: ArrayLike, q: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    a, b = real_array(p, "the first vector"), real_array(q, "the second vector")
    problems = []
    if a.ndim != 1 or a.shape != b.shape or not a.size:
        problems.append(sentence("the two vectors must have the same length", got=f"shapes {a.shape} and {b.shape}"))
    elif not (np.isfinite(a).all() and np.isfinite(b).all()):
        problems.append(sentence("a vector has entries that are not finite"))
    elif abs(a.sum() - b.sum()) > 1e-9 * max(1.0, abs(a.sum())):
        problems.append(sentence("the vectors differ in their sums", got=float(a.sum() - b.sum()), wanted="0"))
    raise_all(SpecificationError, problems)
    return a, b
