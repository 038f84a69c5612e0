"""What the perturbation adds to the variance of sums of a variable, record by record: clusters do not change it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from postrand.errors import DataError, sentence
from postrand.estimate.axes import Array, Axis
from postrand.estimate.split_axis import SplitAxis
from postrand.estimate.tally import layout
from postrand.mechanism import Mechanism


@dataclass(frozen=True, slots=True, eq=False)
class Unmixing:
    """Hold what an unbiased estimate makes of a record: the ``axis`` of one perturbed variable, and its block's law.

    ``operator`` (L, R) is what each released cell contributes to the L shares. ``worth`` is 1, and of a split, that
    shows the variable of some records only, ``(Σ_s π_s a_s)² / Σ_s π_s a_s²`` over the subsets s with weights a_s; the
    axis then has them in the shares of ``π_s a_s²``.
    """

    axis: Axis
    operator: Array
    worth: float

    @property
    def names(self) -> tuple[str, ...]:
        """The variables whose true values decide: all of the block's."""
        return self.axis.names

    def places(self, codes: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the true cell of each record from the codes of ``names``, (n,); -1 where one is missing (below 0).

        Raises
        ------
        DataError
            If a combination is none that the block can have.
        """
        shape = tuple(len(texts) for texts in self.axis.labels)
        known = np.all([codes[name] >= 0 for name in self.names], axis=0)
        index = np.ravel_multi_index([np.where(known, codes[name], 0) for name in self.names], shape)
        cells = np.ravel_multi_index(list(self.axis.cells.T), shape)
        order = np.argsort(cells)
        at = order[np.searchsorted(cells[order], index).clip(max=len(cells) - 1)]
        if (cells[at] != index)[known].any():
            what = "the records contain a combination that the block does not list as feasible"
            raise DataError(sentence(what, where=f"block {'*'.join(self.names)!r}"))
        return np.where(known, at, -1)

    def added(self, scores: Array, places: NDArray[np.int64], influence: Array, weight: Array) -> Array:
        """Return the variance that the draws add to each of k sums of weighted contributions of records, (k,).

        ``scores`` (L, k) are what each category counts in the sums, ``influence`` (n, k) what the record's own counts,
        less the mean, and ``weight`` (n,) by what both are multiplied. It is ``Σ_i w_i² (Var(s_kᵀ b(released) | true
        cell) / worth + influence² (1/worth − 1))``: of the value, and of whether it is shown. Records without a place
        add nothing.
        """
        assert self.axis.matrix is not None, "perturbed"
        square, placed = weight**2, places >= 0
        project = self.axis.projection
        true = scores if project is None else project.T @ scores
        drawn = self.axis.matrix.times((self.operator.T @ scores) ** 2) - true**2
        mass = np.bincount(places[placed], weights=square[placed], minlength=len(drawn))
        shown = square[placed] @ influence[placed] ** 2
        return np.asarray(mass @ np.maximum(drawn, 0.0) / self.worth + shown * (1 / self.worth - 1))


def unmixing(mechanism: Mechanism, name: str) -> Unmixing:
    """Return how the shares of a perturbed variable are estimated without bias.

    Of a split, the law of a subset is taken under the split's prior where it depends on other variables too.

    Raises
    ------
    EstimationError
        If the release does not identify them.
    """
    (axis,) = layout(mechanism.require_codebook(), [name], mechanism).axes
    operator = axis.unbiased()
    if isinstance(axis, SplitAxis):
        shares, weights = axis.probabilities, axis.law.precision
        worth = float((shares @ weights) ** 2 / (shares @ weights**2))
        axis = replace(axis, matrix=axis.law.mixed(shares * weights**2))
    else:
        worth = 1.0
    assert operator is not None, "perturbed"
    return Unmixing(axis, operator, worth)
