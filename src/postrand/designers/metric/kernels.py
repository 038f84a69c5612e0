"""Compiled inverses of many small positive definite matrices: no threads of a BLAS that get in each other's way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from postrand.support.jit import compiled_with


@compiled_with(fastmath={"contract"})
def invert(matrices: NDArray[np.float64]) -> bool:
    """Replace each symmetric positive definite matrix (n, S, S) by its inverse; False where a pivot vanishes."""
    size = matrices.shape[1]
    v = np.empty(size)
    for m in range(matrices.shape[0]):
        a = matrices[m]
        for k in range(size):  # sweep every row: the lower triangle alone, turning it into minus the inverse
            pivot = a[k, k]
            if not pivot > 1e-300:
                return False
            for j in range(size):
                v[j] = a[k, j] if j <= k else a[j, k]
            for i in range(size):
                factor = v[i] / pivot
                for j in range(i + 1):
                    a[i, j] -= factor * v[j]
            for j in range(size):
                if j < k:
                    a[k, j] = v[j] / pivot
                else:
                    a[j, k] = v[j] / pivot
            a[k, k] = -1.0 / pivot
        for i in range(size):
            for j in range(i + 1):
                a[i, j] = -a[i, j]
                a[j, i] = a[i, j]
    return True
