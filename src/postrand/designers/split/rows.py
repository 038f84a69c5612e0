"""What subsets say of questions, (m, Q): a sparse table, or an array where they are few.

scipy's sparse tables take longer to import than a design of few subsets takes. Both kinds add in the same order, subset
by subset and question by question, so that a design does not depend on the kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEW = 1 << 16
"""Numbers, zeros too, up to which they are held as an array."""


@dataclass(frozen=True, slots=True, eq=False)
class Few:
    """Hold every number, (m, Q); with ``@``, ``T``, ``[places]`` and ``toarray`` like a sparse table.

    >>> rows = Few(np.array([[1.0, 2.0], [0.0, 3.0]]))
    >>> (rows @ np.array([1.0, 10.0])).tolist(), (rows.T @ np.array([1.0, 10.0])).tolist(), rows[[1]].toarray().tolist()
    ([21.0, 30.0], [1.0, 32.0], [[0.0, 3.0]])
    """

    array: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of subsets and questions."""
        m, q = self.array.shape
        return m, q

    @property
    def T(self) -> Few:  # the name that arrays and sparse tables have for it
        """The same, questions first."""
        return Few(self.array.T)

    def __matmul__(self, numbers: Floats) -> Floats:
        # Line by line, as a sparse table adds; along what is contiguous, numpy would add in pairs.
        return np.asarray(np.multiply(self.array.T, numbers[:, None], order="C").sum(axis=0))

    def __getitem__(self, places: Any) -> Few:
        return Few(self.array[places])

    def toarray(self) -> Floats:
        """Return the numbers."""
        return self.array

    def copy(self) -> Few:
        """Return the same in memory of its own."""
        return Few(self.array.copy())


Rows: TypeAlias = "Few | scipy.sparse.csr_array"


def rows_of(values: Sequence[Floats], subsets: Sequence[NDArray[np.intp]], count: int) -> Rows:
    """Return the numbers of ``count`` subsets: ``values[q]`` are those of the places ``subsets[q]``, else 0."""
    if count * len(values) <= FEW:
        array = np.zeros((count, len(values)))
        for q, (places, own) in enumerate(zip(subsets, values, strict=True)):
            array[places, q] = own
        return Few(array)
    ends = np.cumsum([0, *map(len, subsets)])
    made = scipy.sparse.csc_array((np.concatenate(values), np.concatenate(subsets), ends), (count, len(values)))
    return made.tocsr()


def stacked(one: Rows, two: Rows) -> Rows:
    """Return the rows of both, one below the other."""
    if isinstance(one, Few) and isinstance(two, Few):
        return Few(np.concatenate([one.array, two.array]))
    return scipy.sparse.csr_array(scipy.sparse.vstack([one, two]))


def best(rows: Rows) -> NDArray[np.intp]:
    """Return the place of the subset that says most of each question, (Q,), the first of several."""
    found = rows.array.argmax(axis=0) if isinstance(rows, Few) else rows.tocsc().argmax(axis=0)
    return np.asarray(found).ravel()


def most(rows: Rows) -> Floats:
    """Return the most that a subset says of each question, (Q,)."""
    found = rows.array.max(axis=0) if isinstance(rows, Few) else rows.tocsc().max(axis=0).toarray()
    return np.asarray(found).ravel()


def answered(rows: Rows, place: int) -> NDArray[Any]:
    """Return the questions of which a subset says something."""
    if isinstance(rows, Few):
        return np.flatnonzero(rows.array[place])
    return np.asarray(rows.indices[rows.indptr[place] : rows.indptr[place + 1]])


def write(rows: Rows, place: int, values: Floats) -> None:
    """Write what a subset says of the questions of :func:`answered`."""
    if isinstance(rows, Few):
        rows.array[place, answered(rows, place)] = values
    else:
        rows.data[rows.indptr[place] : rows.indptr[place + 1]] = values
