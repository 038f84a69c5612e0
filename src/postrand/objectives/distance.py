"""How far values move: the expected distance between true and released category."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from postrand.codebook.category_distances import Edges, as_edges, ranks, shortest_paths
from postrand.objectives.base import ObjectiveTraits


@dataclass(frozen=True, slots=True)
class ExpectedDistance:
    """Move values as little as possible: ``Σ_i p_i Σ_j M[i,j] d(i,j)``, d the shortest path along ``edges``.

    Without edges, neighbours in codebook order are at distance 1; a plan fills in those of the block's privacy.

    Raises
    ------
    SpecificationError
        If the edges are not ``(code, code, length)``.

    Examples
    --------
    >>> ExpectedDistance(((0, 1, 1.0), (1, 2, 1.0))).value(np.full((3, 3), 1 / 3), np.array([0.0, 1.0, 0.0]))
    0.6666666666666666
    """

    name: ClassVar[str] = "distance"
    traits: ClassVar[ObjectiveTraits] = ObjectiveTraits(
        "Move values as little as possible on a map or a scale.",
        "unit of the distance",
        relabelling="none",
        rank=50,
    )
    maximise: ClassVar[bool] = False
    edges: Edges = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", as_edges(self.edges))

    def value(self, array: NDArray[np.float64], prior: NDArray[np.float64]) -> float:
        """Return the expected distance of ``array`` (S, S), rows true, at ``prior`` (S,), in the unit of the edges."""
        return float(prior @ (array * self.distances(len(prior))).sum(axis=1))

    def distances(self, size: int) -> NDArray[np.float64]:
        """Return the distance matrix (S, S)."""
        return shortest_paths(self.edges or ranks(size), size)

    def loss(self, size: int) -> NDArray[np.float64]:
        """Return the distances (S, S)."""
        return self.distances(size)

    def beside(self, privacy: object) -> ExpectedDistance:
        """Return the distance of the block's privacy model, where this one names no edges."""
        return self if self.edges else ExpectedDistance(getattr(privacy, "edges", ()))
