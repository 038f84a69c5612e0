"""Rounding of numbers to a base."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

import numpy as np
import pyarrow as pa

from postrand.errors import SpecificationError, sentence, shown
from postrand.recoding.base import Reads, spelt
from postrand.support.arrow import from_numpy, index_values, to_floats
from postrand.support.inputs import finite


@dataclass(frozen=True, slots=True)
class Rounding:
    """Return ``base · floor(x / base + 1/2)``: the nearest multiple of the base, halves upwards. Numbers stay numbers.

    Examples
    --------
    >>> Rounding(100).to_arrow(pa.array([149, 150, -149])).to_pylist()
    [100, 200, -100]
    >>> Rounding(0.1).to_arrow(pa.array([0.32])).to_pylist()
    [0.3]
    """

    name: ClassVar[str] = "rounding"
    marks: ClassVar[tuple[str, ...]] = ("rounding",)
    confidential: ClassVar[bool] = False
    remedy: ClassVar[str] = ""
    rounding: float

    def __post_init__(self) -> None:
        if not finite(self.rounding) > 0:
            what = "'rounding' is not a positive number"
            raise SpecificationError(sentence(what, got=shown(self.rounding, repr), fix="set rounding = 100"))

    @property
    def reads(self) -> Reads:
        """Numbers."""
        return "numbers"

    def to_arrow(self, column: pa.Array) -> pa.Array:
        """Return the rounded numbers; see :class:`postrand.recoding.Recoding`."""
        if pa.types.is_integer(column.type) and float(self.rounding).is_integer():
            base, whole = int(self.rounding), index_values(column).astype(np.int64)
            return from_numpy((whole + base // 2) // base * base)
        places = max(0, -int(Decimal(str(self.rounding)).normalize().as_tuple().exponent))
        return from_numpy(np.round(np.floor(to_floats(column) / self.rounding + 0.5) * self.rounding, places) + 0.0)

    def categories(self) -> tuple[str, ...]:
        """Return (): the values of the column decide."""
        return ()

    def in_words(self) -> str:
        """Return the base."""
        return f"rounding to multiples of {spelt(self.rounding)}"
