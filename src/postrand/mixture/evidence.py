"""What released records say of true ones: values known exactly, and cells seen through a published law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

UNKNOWN = -1
"""The code of a value that is not known exactly."""


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """Hold the law of one released cell given the true one, ``M = keep I + 1 noiseᵀ`` or any matrix.

    ``variables`` (V,) are places among the variables of the model, ``cells`` (K, V) the codes of each true cell: true
    cells that are not listed cannot occur where this law applies. Released cells are numbered as true ones.
    ``keep`` is the probability that the cell is kept and ``noise`` (K,) that of each cell otherwise, so that
    ``keep + Σ noise = 1``; ``matrix`` (K, R), rows true, is None then. Else it is the law, and keep is 0.
    """

    variables: tuple[int, ...]
    cells: NDArray[np.int32]
    keep: float
    noise: NDArray[np.float64]
    matrix: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Hold n released records as measurements of true ones on J variables with codes 0..S_j - 1.

    ``exact`` (n, J): the true code where the release shows it, else ``UNKNOWN``. Record i is seen through the laws
    ``law[start[i]:start[i + 1]]``, independent given the true record, which released the cells ``released[...]``; no
    variable is in two of them, or both exact and in one. ``rules`` (F, J, max S) bool: a true record is impossible if,
    for some f, every one of its codes is marked.

    Examples
    --------
    >>> law = Law((0,), np.array([[0], [1]], np.int32), 0.5, np.array([0.25, 0.25]))
    >>> two = Evidence(("sex",), (2,), np.full((2, 1), -1, np.int32), np.arange(3), np.zeros(2, np.int32),
    ...                np.array([0, 1], np.int32), (law,), np.zeros((0, 1, 2), bool))
    >>> two.records
    2
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    exact: NDArray[np.int32]
    start: NDArray[np.int64]
    law: NDArray[np.int32]
    released: NDArray[np.int32]
    laws: tuple[Law, ...]
    rules: NDArray[np.bool_]

    @property
    def records(self) -> int:
        """The number n of records."""
        return len(self.exact)
