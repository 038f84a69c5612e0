"""The loops of raking, compiled: candidates are weighted, and summed into tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from postrand.support.jit import compiled

Array = NDArray[np.float64]


@compiled
def tilt(
    codes: NDArray[np.int16],
    weights: NDArray[np.float32],
    places: NDArray[np.int64],
    strides: NDArray[np.int64],
    factor: Array,
    after: NDArray[np.int64],
    after_strides: NDArray[np.int64],
    table: Array,
) -> None:
    """Multiply candidates' weights by the factor of their cell, make each record's sum to one, add the next table.

    ``codes`` (n, C, J) are candidates, ``places`` and ``strides`` say which cell of ``factor`` one belongs to;
    ``after`` and its strides the same of ``table``, which starts at 0. A record whose factors are all 0 keeps its
    weights.
    """
    n, candidates, _ = codes.shape
    new = np.empty(candidates, np.float64)
    for i in range(n):
        total = 0.0
        for c in range(candidates):
            cell = 0
            for p in range(len(places)):
                cell += codes[i, c, places[p]] * strides[p]
            new[c] = weights[i, c] * factor[cell]
            total += new[c]
        for c in range(candidates):
            if total > 0.0:
                weights[i, c] = new[c] / total
            cell = 0
            for p in range(len(after)):
                cell += codes[i, c, after[p]] * after_strides[p]
            table[cell] += weights[i, c]
