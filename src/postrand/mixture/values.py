"""What a fit of the model is: draws of its parameters, one for each copy, and what its chains did."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.mixture.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Settings:
    """Hold how the model is fitted: the truncation K, the chains, and the sweeps of each (0: chosen by the fit)."""

    classes: int = 0
    chains: int = 2
    sweeps: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """Hold one draw of the parameters from their posterior: class weights (K,), and θ of each variable, (K, S_j)."""

    weights: NDArray[np.float64]
    theta: tuple[NDArray[np.float64], ...]

    def table(self, places: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the model's table of some variables, shape (S_a, S_b, ...): ``Σ_k w_k Π_j θ_kj``."""
        product = self.weights[:, None]
        for place in places:
            product = (product[:, :, None] * self.theta[place][:, None, :]).reshape(len(product), -1)
        return np.asarray(product.sum(axis=0).reshape([self.theta[p].shape[1] for p in places]))


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Hold a fitted model: ``draws``, one for each copy, far apart in the chains and spread over them.

    ``traces`` (chains, sweeps, F) are functionals after the burn-in (the shares of one-way cells, and others named in
    ``traced``), for tests of convergence; ``occupied`` (chains, sweeps) the number of classes with a record.
    """

    evidence: Evidence
    settings: Settings
    seed: int
    draws: tuple[Draw, ...]
    traces: NDArray[np.float64]
    traced: tuple[str, ...]
    occupied: NDArray[np.int64]

    def copy(self, number: int) -> NDArray[np.int32]:
        """Return completed copy ``number`` = 0, 1, ...: true codes (n, J), drawn given the release and ``draws[number]``.

        The same copy whatever was drawn before; a value that is known exactly stays.
        """
        from postrand.mixture.drawing import complete  # loads compiled loops

        return complete(self.evidence, self.draws[number], (self.seed, number))
