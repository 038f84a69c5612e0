"""Compiled inverses of many small positive definite matrices: no threads of a BLAS that get in each other's way."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray


@numba.njit(cache=True, nogil=True, fastmath={"contract"})  # type: ignore[untyped-decorator]
def invert(matrices: NDArray[np.float64]) -> bool:
    """Replace each symmetric positive definite matrix (n, S, S) by its inverse; False where a pivot vanishes."""
    size = matrices.shape[1]
    for m in range(matrices.shape[0]):
        a = matrices[m]
        for k in range(size):
            pivot = a[k, k]
            if not pivot > 1e-300:
                return False
            a[k, k] = 1.0
            for j in range(size):
                a[k, j] /= pivot
            for i in range(size):
                if i != k:
                    factor = a[i, k]
                    a[i, k] = 0.0
                    for j in range(size):
                        a[i, j] -= factor * a[k, j]
    return True
