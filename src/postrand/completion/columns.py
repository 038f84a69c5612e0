"""Columns of true values in a frame of any kind: the released columns, with their true types back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook, Variable, coding
from postrand.data import frames


def true_columns(codes: Mapping[str, NDArray[np.int32]], book: Codebook) -> dict[str, pa.Array]:
    """Return the values of true codes (n,); the code S, after the last, is a missing value that is kept.

    >>> sex = Variable("sex", role="key", categories=("F", "M"), missing="keep")
    >>> true_columns({"sex": np.array([1, 2], np.int32)}, Codebook((sex,)))["sex"].to_pylist()
    ['M', None]
    """
    return {name: _decoded(held, book[name]) for name, held in codes.items()}


def _decoded(codes: NDArray[np.int32], variable: Variable) -> pa.Array:
    if variable.missing == "keep":
        codes = np.where(codes == variable.size, coding.KEPT_MISSING, codes)
    return coding.decode(codes, variable)


def with_true(frame: Any, columns: dict[str, pa.Array], retyped: tuple[str, ...]) -> Any:
    """Return ``frame`` with these columns in place of its own; those of ``retyped`` get the type of their values.

    A variable of a split is released as text with one category more, so its column cannot hold the true type.
    """
    return frames.like(frame, columns, categorical=retyped)
