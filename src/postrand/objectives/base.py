"""What every design objective offers."""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@runtime_checkable
class Objective(Protocol):
    """A number that says how much a transition matrix keeps (``maximise``) or costs, for a prior.

    Implementations are frozen dataclasses; their fields are the options of plans, command line and forms.
    """

    name: ClassVar[str]

    @property
    def maximise(self) -> bool:
        """Whether larger values are better."""
        ...

    def value(self, array: NDArray[np.float64], prior: NDArray[np.float64]) -> float:
        """Return the objective of ``array`` (S, S), rows true, columns released, at ``prior`` (S,)."""
        ...
