"""How far values move: the law of a block under a metric budget, seen by distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.certification.certificate import Certificate
from postrand.codebook.category_distances import Edge, shortest_paths
from postrand.mechanism import Block

_SLACK = 1e-9  # relative: the length of a path is a rounded sum
MAX_BANDS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """Hold, for each true category, how far its released value is away.

    ``ends`` (B,): upper ends of bands of distance, the first 0; ``shares`` (S, B): the probability of each band;
    ``expected`` (S,): the expected distance; ``reach`` (S,): the least distance that at least 95% of releases keep to.
    """

    ends: tuple[float, ...]
    shares: NDArray[np.float64]
    expected: NDArray[np.float64]
    reach: NDArray[np.float64]


def metric_of(block: Block, certificate: Certificate) -> Any:
    """Return the model that is claimed for a block and has a map, of edges and points; None where there is none."""
    for claim in certificate.claims:
        if getattr(claim.privacy, "edges", ()) and claim.variables == block.variables and block.cells is None:
            return claim.privacy
    return None


def moves(matrix: NDArray[np.float64], edges: Sequence[Edge]) -> Moves:
    """Return how far a matrix (S, S) moves values on a connected map.

    Bands end at 0, at the median distance to the nearest other value, and at its doubles; the last takes what
    lies beyond.

    >>> from postrand.codebook.category_distances import ranks
    >>> found = moves(np.full((4, 4), 0.25), ranks(4))
    >>> found.ends, found.shares[0].tolist(), found.expected.tolist(), found.reach.tolist()
    ((0.0, 1.0, 2.0, 3.0), [0.25, 0.25, 0.25, 0.25], [1.5, 1.0, 1.0, 1.5], [3.0, 2.0, 2.0, 3.0])
    """
    distance = shortest_paths(edges, len(matrix))
    nearest = np.where(distance > 0, distance, np.inf).min(axis=1)
    longest, step = float(distance.max()), float(np.median(nearest))
    ends = [0.0]
    while ends[-1] < longest * (1 - _SLACK):
        end = step * 2 ** (len(ends) - 1)
        ends.append(longest if len(ends) == MAX_BANDS - 1 or end >= longest * (1 - _SLACK) else end)
    band = np.searchsorted(np.array(ends) * (1 + _SLACK), distance, side="left")
    shares = np.stack([np.where(band == b, matrix, 0.0).sum(axis=1) for b in range(len(ends))], axis=1)
    order = np.argsort(distance, axis=1, kind="stable")
    kept = np.cumsum(np.take_along_axis(matrix, order, axis=1), axis=1)
    last = (kept >= 0.95 - _SLACK).argmax(axis=1)
    reach = np.take_along_axis(distance, np.take_along_axis(order, last[:, None], axis=1), axis=1)[:, 0]
    return Moves(tuple(ends), shares, (matrix * distance).sum(axis=1), reach)
