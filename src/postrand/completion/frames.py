"""The completed copies as frames, each made when it is asked for: memory holds one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from postrand.data import frames
from postrand.estimate.evidence_columns import true_columns
from postrand.estimate.evidence_variables import Modelled


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Copies(Sequence[Any]):
    """Hold the completed copies of a released frame, in its kind; ``copies[i]`` is the same whenever it is asked.

    Each has the columns and records of the released frame in its order. Values of the perturbed variables are drawn
    given the released ones, and have the type and categories of the codebook; all others are as released. ``codes(i)``
    are the true codes of copy i; ``retyped`` the variables of a split, which are released as text with one category
    more.
    """

    released: Any
    modelled: Modelled
    number: int
    codes: Callable[[int], NDArray[np.int32]]
    retyped: tuple[str, ...]

    def __len__(self) -> int:
        return self.number

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Any]: ...
    def __getitem__(self, place: int | slice) -> Any:
        """Return one copy; of a slice, a list of them."""
        if isinstance(place, slice):
            return [self[one] for one in range(len(self))[place]]
        codes = self.codes(range(len(self))[place])  # which raises IndexError, so that loops end
        columns = true_columns(codes, self.modelled, self.modelled.perturbed)
        return frames.like(self.released, columns, categorical=self.retyped)

    def __repr__(self) -> str:
        return f"Copies({self.number} of {len(self.released):,} records)"
