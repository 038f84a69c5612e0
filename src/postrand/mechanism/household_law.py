"""The law of a household with a category of one member, and another of at most one, from the law of one of its records.

What is charged is the law of the household: that of a record has smaller ratios, because several states show it alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from postrand.mechanism.matrix import MAX_SIZE, TransitionMatrix
from postrand.mechanism.matrix_storage import UNIT


def household_law(weights: NDArray[np.int64]) -> TransitionMatrix:
    """Return the law of the k² states of a household of k: who has the one category, and who the other, or nobody.

    ``weights`` (3, 3) are those of a record: it has the one category, the other, none of them. With a the weight of the
    true state and b that of each other one, a record without both gets them with ``k b`` and ``(k − 1) b``, and who has
    the one keeps it with ``a + (k − 1) b``; so a, b and k follow. Weights that are no such law have no finite ε.
    """
    if weights.shape == (1, 1):  # a household of one record has one state
        return TransitionMatrix(weights)
    none = TransitionMatrix.identity(2)
    if weights.shape != (3, 3):
        return none
    (keeps, *_), _, (one, other, _) = ([int(value) for value in row] for row in weights)
    a, b = keeps - other, one - other
    if not 0 < b <= a:
        return none
    size = one // b
    states = size * size
    if size < 2 or states > MAX_SIZE or a + (states - 1) * b != UNIT:
        return none
    if (weights != b * np.array(shares(size)) + (a - b) * np.eye(3, dtype=np.int64)).any():
        return none
    return TransitionMatrix.constant(np.full(states, a), np.full(states, b))


def shares(size: int) -> tuple[int, int, int]:
    """Return in how many of the states a record has the one category, the other, and none of them.

    >>> shares(4)
    (4, 3, 9)
    """
    return size, size - 1, (size - 1) ** 2
