"""How the model is fitted, and one draw of its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Settings:
    """Hold how the model is fitted: the truncation K, the chains, and the sweeps of each (0: chosen by the fit).

    Classes that are chosen by the fit follow the number of records, and grow where the truncation is reached. A third
    of the sweeps is burn-in.
    """

    classes: int = 0
    chains: int = 2
    sweeps: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """Hold one draw of the parameters from their posterior: class weights (K,), and θ of each variable, (K, S_j).

    ``impossible`` (B, Σ S_j) are the disjoint sets of records that the rules forbid, each a set of codes for every
    variable: the distribution of a record is the mixture without them.
    """

    weights: NDArray[np.float64]
    theta: tuple[NDArray[np.float64], ...]
    impossible: NDArray[np.bool_] | None = None

    def table(self, places: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the model's table of some variables, shape (S_a, S_b, ...): ``Σ_k w_k Π_j θ_kj``, of possible records.

        Examples
        --------
        >>> draw = Draw(np.array([0.5, 0.5]), (np.eye(2), np.array([[0.5, 0.5], [0, 1]])))
        >>> draw.table((0, 1)).tolist()
        [[0.25, 0.25], [0.0, 0.5]]
        """
        table = self._part(self.theta, places)
        for box in () if self.impossible is None else self.impossible:
            cuts = np.split(box, np.cumsum([t.shape[1] for t in self.theta])[:-1])
            table -= self._part([t * cut for t, cut in zip(self.theta, cuts, strict=True)], places)
        return np.asarray(np.maximum(table, 0) / table.sum())

    def _part(self, theta: Sequence[NDArray[np.float64]], places: tuple[int, ...]) -> NDArray[np.float64]:
        product = self.weights[:, None]
        for j, each in enumerate(theta):
            if j not in places:
                product = product * each.sum(axis=1, keepdims=True)
        for place in places:
            product = (product[:, :, None] * theta[place][:, None, :]).reshape(len(product), -1)
        return np.asarray(product.sum(axis=0).reshape([theta[p].shape[1] for p in places]))
