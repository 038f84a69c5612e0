"""The classes of a matrix: sets of categories that values never leave, so a released value discloses its class.

A matrix with one class can satisfy ε-differential privacy. A matrix with several can do so within each class: a block
that keeps a stratum unchanged, perturbs high-risk records only, or exchanges equivalent categories only.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.mechanism.matrix import TransitionMatrix
from postrand.mechanism.matrix_storage import Constant


def classes_of(matrix: TransitionMatrix) -> NDArray[np.int32]:
    """Return the class 0..C-1 of each category, shape (S,): the connected components of ``M[i,j] > 0``.

    >>> classes_of(TransitionMatrix.from_array([[0.5, 0, 0.5], [0, 1, 0], [0.25, 0, 0.75]])).tolist()
    [0, 1, 0]
    """
    form = matrix.form
    if isinstance(form, Constant) and not form.off.any():
        return np.arange(matrix.size, dtype=np.int32)
    if isinstance(form, Constant) or form.columns()[1].any():  # one column that every row reaches connects all
        return np.zeros(matrix.size, dtype=np.int32)
    graph = scipy.sparse.csr_array(form.weights > 0)
    labels: NDArray[np.int32] = scipy.sparse.csgraph.connected_components(graph, directed=False)[1].astype(np.int32)
    return labels


def moves(matrix: TransitionMatrix) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return pairs (i, j) with ``M[i,j] > 0``: all of them, or those of one row that reaches every category.

    >>> moves(TransitionMatrix.from_array([[0.5, 0.5], [0, 1]]))
    (array([0, 0, 1]), array([0, 1, 1]))
    """
    form = matrix.form
    if not isinstance(form, Constant):
        i, j = np.nonzero(form.weights)
        return i, j
    everything = np.arange(matrix.size)
    return (np.full_like(everything, form.off.argmax()), everything) if form.off.any() else (everything, everything)


def part(matrix: TransitionMatrix, inside: NDArray[np.intp]) -> TransitionMatrix:
    """Return the matrix of these categories, which must be whole classes: then rows still sum to 1."""
    if isinstance(matrix.form, Constant):  # one class, or each category its own
        return matrix if len(inside) == matrix.size else TransitionMatrix.identity(len(inside))
    return TransitionMatrix(matrix.weights[np.ix_(inside, inside)])


def parts(matrix: TransitionMatrix) -> tuple[TransitionMatrix, ...]:
    """Return the matrix within each class; the matrix itself if there is one class."""
    return tuple(law for _, law in classed(matrix))


def classed(matrix: TransitionMatrix) -> tuple[tuple[NDArray[np.intp], TransitionMatrix], ...]:
    """Return the categories of each class, and the matrix within it; see :func:`parts`."""
    labels = classes_of(matrix)
    if not labels.any():
        return ((np.arange(matrix.size), matrix),)
    insides = [np.flatnonzero(labels == c) for c in range(labels.max() + 1)]
    return tuple((inside, part(matrix, inside)) for inside in insides)


def join(laws: list[TransitionMatrix]) -> TransitionMatrix:
    """Return the block-diagonal matrix of several matrices, one after the other.

    >>> join([TransitionMatrix.identity(1), TransitionMatrix.from_array([[0.5, 0.5], [0.25, 0.75]])]).array.tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.25, 0.75]]
    """
    ends = np.cumsum([law.size for law in laws])
    weights = np.zeros((ends[-1], ends[-1]), dtype=np.int64)
    for law, end in zip(laws, ends, strict=True):
        weights[end - law.size : end, end - law.size : end] = law.weights
    return TransitionMatrix(weights)
