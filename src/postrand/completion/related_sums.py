"""Sums of unperturbed columns over the records of a true category, or of a pair of them: unbiased, and in copies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.completion.diagnostics_tables import Places, Seen
from postrand.completion.diagnostics_unbiased import record_weights
from postrand.estimate.axes import kronecker

Array = NDArray[np.float64]
MOST_CELLS = 100
"""Pairs of variables with more cells are left out: what two of them do together is then not seen."""


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """Hold what some records show of true cells (K): record ``records[i]`` has the released cell ``cells[i]``.

    A record with released cell r contributes ``values[r]`` (K,) to the indicators of its true cell, without bias for
    the sum over all records of the file, those that do not show the variables contributing nothing.
    """

    records: NDArray[np.int64]
    cells: NDArray[np.int64]
    values: Array

    def summed(self, columns: Array) -> Array:
        """Return the sums of columns (n, D) over the records of each released cell, (R, D)."""
        return np.asarray(indicators(self.cells, len(self.values)) @ columns[self.records])


def indicators(cells: NDArray[np.integer], size: int) -> scipy.sparse.csr_array:
    """Return the indicators of each cell, (size, records)."""
    places = np.arange(len(cells) + 1)
    return scipy.sparse.csc_array((np.ones(len(cells)), cells, places), shape=(size, len(cells))).tocsr()


def shown(seen: Seen, places: Places) -> list[Shown]:
    """Return what the records show of the table of some variables; empty where none shows it, or it is too large."""
    sizes = [seen.evidence.sizes[p] for p in places]
    if math.prod(sizes) > MOST_CELLS or not seen.shows(places):
        return []
    found = list(seen.located(places))
    lost = {group.subset for group, *_ in found if not group.identified}
    found = [one for one in found if one[0].subset not in lost]
    made = []
    for (group, records, cells), weight in zip(found, record_weights([one[0] for one in found]), strict=True):
        kept = [p for axis in group.axes for p in axis.kept]
        whole = kronecker([axis.inverse for axis in group.axes], [axis.released for axis in group.axes])
        shape = [seen.evidence.sizes[p] for p in kept]
        table = whole.reshape(*shape, -1).transpose([*(kept.index(p) for p in places), len(kept)])
        made.append(Shown(records, cells, weight * seen.evidence.records * table.reshape(math.prod(shape), -1).T))
    return made


def unbiased_sums(parts: Sequence[Shown], columns: Array) -> tuple[Array, Array]:
    """Return ``Σ_i z_i c_i`` (D, K), and ``Σ_i z_i² c_i c_iᵀ`` (D, K, K): c a record's contributions, z its columns.

    The first is unbiased for the sums of z over the records of each true cell. Its covariance, given the true records,
    is the second less a diagonal of the sums of z² over the records of each true cell.
    """
    cells = parts[0].values.shape[1]
    total, square = np.zeros((columns.shape[1], cells)), np.zeros((columns.shape[1], cells, cells))
    for part in parts:
        total += part.summed(columns).T @ part.values
        for d, weights in enumerate(part.summed(columns**2).T):
            square[d] += (part.values * weights[:, None]).T @ part.values
    return total, square


def cells_of(codes: NDArray[np.integer], places: Places, sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return the cell of each record (n,) in the table of some variables."""
    return np.ravel_multi_index(tuple(codes[:, p] for p in places), [sizes[p] for p in places])


def true_sums(codes: NDArray[np.int32], places: Places, sizes: Sequence[int], columns: Array) -> Array:
    """Return the sums of columns (n, D) over the records of each cell of a copy, (D, K)."""
    size = math.prod(sizes[p] for p in places)
    return np.ascontiguousarray((indicators(cells_of(codes, places, sizes), size) @ columns).T)
