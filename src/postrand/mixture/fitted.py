"""What a fit of the model is: draws of its parameters, one for each copy, and what its chains did."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from postrand.mixture.evidence import Evidence
from postrand.mixture.packing import Packed, pack
from postrand.mixture.values import Draw, Settings


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

    @property
    def arranged(self) -> tuple[Packed, NDArray[np.int64]]:
        """The evidence as the loops read it, and the group of each record."""
        return pack(self.evidence) if self.packed is None else self.packed

    def copy(self, number: int) -> NDArray[np.int32]:
        """Return completed copy ``number`` = 0, 1, ...: true codes (n, J), drawn given release and ``draws[number]``.

        The same copy whatever was drawn before; a value that is known exactly stays.
        """
        from postrand.mixture.drawing import complete  # loads compiled loops

        return complete(self.evidence, self.draws[number], (self.seed, number), self.arranged)
