"""Loops of ``_loops.c`` that numpy does well enough where it was not compiled: no compiler is loaded for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_PIECE = 1 << 14
"""Indices that are widened at a time: 128 KiB."""


def look_up(table: NDArray[Any], indices: NDArray[Any], out: NDArray[Any]) -> None:
    """Write ``table[indices]``, (n,), into ``out``, of the table's type; indices beyond it find its last entry.

    Indices are whole numbers with signs; negative ones are beyond the table.
    """
    for start in range(0, indices.size, _PIECE):
        piece = indices[start : start + _PIECE].astype(np.intp)
        piece[piece < 0] = table.size - 1
        np.take(table, piece, out=out[start : start + _PIECE], mode="clip")  # any other mode makes a copy of out
