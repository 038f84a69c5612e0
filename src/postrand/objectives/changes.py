"""Expected changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from postrand.objectives.base import ObjectiveTraits


@dataclass(frozen=True, slots=True)
class ExpectedChanges:
    """Cost the expected share of records whose value changes, ``1 - Σ_x p_x M[x,x]``.

    Examples
    --------
    >>> ExpectedChanges().value(np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([0.5, 0.5]))
    0.25
    """

    name: ClassVar[str] = "changes"
    traits: ClassVar[ObjectiveTraits] = ObjectiveTraits(
        "Change as few answers as possible.",
        "share of records",
        relabelling="both",
        at_ends=True,
        adds_up=True,
        rank=40,
    )
    maximise: ClassVar[bool] = False

    def value(self, array: NDArray[np.float64], prior: NDArray[np.float64]) -> float:
        """Return the expected share of changed records."""
        return float(prior @ (1 - np.diagonal(array)))

    def loss(self, size: int) -> NDArray[np.float64]:
        """Return 0 on the diagonal and 1 elsewhere, (S, S)."""
        return 1.0 - np.eye(size)
