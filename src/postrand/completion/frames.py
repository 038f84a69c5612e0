"""The completed copies as frames, each made when it is asked for: memory holds one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

from postrand.completion.columns import true_columns, with_true
from postrand.estimate.evidence import Modelled
from postrand.mixture import Fit


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Copies(Sequence[Any]):
    """Hold the completed copies of a released frame, in its kind; ``copies[i]`` is the same whenever it is asked.

    Each has the columns and records of the released frame in its order. Values of the perturbed variables are drawn
    given the released ones; all others are as released.
    """

    released: Any
    modelled: Modelled
    fit: Fit
    retyped: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.fit.draws)

    @overload
    def __getitem__(self, number: int) -> Any: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Any]: ...
    def __getitem__(self, number: int | slice) -> Any:
        """Return copy ``number``; of a slice, a list of them."""
        if isinstance(number, slice):
            return [self[one] for one in range(len(self))[number]]
        codes = self.fit.copy(range(len(self))[number])
        names = self.modelled.names
        held = {name: codes[:, names.index(name)] for name in self.modelled.perturbed}
        return with_true(self.released, true_columns(held, self.modelled.codebook), self.retyped)

    def __repr__(self) -> str:
        return f"Copies({len(self)} of {self.fit.evidence.records:,} records)"
