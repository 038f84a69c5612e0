"""How many persons of the population have the keys of a record: two estimates, of which each figure takes the larger.

F is not counted but estimated. The weights tell of each combination of keys for itself how many persons its records
stand for. A log-linear model of all keys knows besides which combinations are rare by their margins: in a file that is
sparse in its keys the weights alone make the largest risk of a person far too low. Neither is the truth, and a risk
that is too low is the wrong side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from postrand.errors import UsageError
from postrand.risk import loglinear
from postrand.risk.cells import CellTable, FloatArray, KeyCodes, table
from postrand.risk.readings import inverse_population
from postrand.risk.weights import cell_inclusion, individual_risk

Inverse = Callable[[CellTable, FloatArray], FloatArray]
"""Returns ``E(1/F | f)`` of each record, shape (n,), from the cells of the keys and the weights of a file."""


@dataclass(frozen=True, slots=True, eq=False)
class ByModel:
    """Return ``E(1/F | f)`` of each record of one file by the two-way log-linear model, fitted once for each key set.

    >>> import numpy as np
    >>> keys = KeyCodes(("sex",), (2,), (np.array([0, 1, 1]),))
    >>> ByModel()(table(keys), np.ones(3)).tolist()
    [1.0, 0.5, 0.5]
    """

    _held: dict[tuple[str, ...], FloatArray] = field(default_factory=dict, repr=False)

    def __call__(self, cells: CellTable, weights: FloatArray) -> FloatArray:
        """Return the estimates, shape (n,); raises UsageError where the model is too large."""
        if cells.names not in self._held:
            mu = loglinear.fit(cells, "two-way").at(cells.codes)
            found = inverse_population(cells.counts, mu, cell_inclusion(cells, weights))
            self._held[cells.names] = found[cells.record_cell]
        return self._held[cells.names]

    def estimates(self, keys: KeyCodes, weights: FloatArray) -> tuple[Inverse, ...]:
        """Return the estimates that can be had of a file: by the weights, and by the model unless it is too large."""
        try:
            self(table(keys), weights)
        except UsageError:
            return (individual_risk,)
        return (individual_risk, self)
