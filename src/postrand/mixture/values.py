"""What a fit of the model is: draws of its parameters, one for each copy, and what its chains did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from postrand.mixture.evidence import Evidence
from postrand.mixture.packing import Packed


@dataclass(frozen=True, slots=True)
class Settings:
    """Hold how the model is fitted: the truncation K, the chains, and the sweeps of each (0: chosen by the fit)."""

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


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Hold a fitted model: ``draws``, one for each copy, far apart in the chains and spread over them.

    ``traces`` (chains, sweeps, F) are functionals after the burn-in (the shares of one-way cells, and others named in
    ``traced``), for tests of convergence; ``occupied`` (chains, sweeps) the number of classes with a record. ``packed``
    is the evidence as the loops read it, kept for the copies.
    """

    evidence: Evidence
    settings: Settings
    seed: int
    draws: tuple[Draw, ...]
    traces: NDArray[np.float64]
    traced: tuple[str, ...]
    occupied: NDArray[np.int64]
    packed: tuple[Packed, NDArray[np.int64]] | None = field(default=None, repr=False)

    def copy(self, number: int) -> NDArray[np.int32]:
        """Return completed copy ``number`` = 0, 1, ...: true codes (n, J), drawn given release and ``draws[number]``.

        The same copy whatever was drawn before; a value that is known exactly stays.
        """
        from postrand.mixture.drawing import complete  # loads compiled loops

        return complete(self.evidence, self.draws[number], (self.seed, number), self.packed)
