"""A user's own objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from postrand.errors import DesignError, sentence
from postrand.objectives.base import ObjectiveTraits


@dataclass(frozen=True, slots=True)
class CustomObjective:
    """Take any function of the matrix (S, S) and the prior (S,); nothing is known of it, so no bound is proven.

    Raises
    ------
    DesignError
        If ``function`` cannot be called, or returns something that is not a number.

    Examples
    --------
    >>> keep = CustomObjective(lambda M, p: float(np.linalg.det(M)))
    >>> keep.value(np.eye(2), np.array([0.5, 0.5]))
    1.0
    """

    name: ClassVar[str] = "custom"
    traits: ClassVar[ObjectiveTraits] = ObjectiveTraits(
        "A function of your own.", "its own", relabelling="none", rank=90
    )

    function: Callable[[NDArray[np.float64], NDArray[np.float64]], float]
    maximise: bool = True

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise DesignError(sentence("the objective is not a function", got=type(self.function).__name__))

    def value(self, array: NDArray[np.float64], prior: NDArray[np.float64]) -> float:
        """Return the user's number."""
        value = self.function(array, prior)
        if not isinstance(value, (int, float, np.floating)) or np.isnan(value):
            raise DesignError(sentence("the objective did not return a number", got=type(value).__name__))
        return float(value)
