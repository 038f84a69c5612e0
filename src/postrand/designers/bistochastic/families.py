"""The parameterised bistochastic laws as structures of a plan (RDF (2), (3), (6), (7)), solved for a wanted β."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.designers.bistochastic.parameterisations import blocks, circulant, reach_beta, tridiagonal
from postrand.designers.problem import Solution
from postrand.designers.suitability import ROUNDING, StructureTraits, require
from postrand.errors import DesignError, nearest, sentence, shown
from postrand.mechanism.matrix import TransitionMatrix
from postrand.objectives import Objective
from postrand.privacy import Bistochastic, PrivacyModel
from postrand.support.inputs import finite, listed

Family = Literal["randomised-response", "blocks", "tridiagonal", "circulant"]
FAMILIES: tuple[str, ...] = get_args(Family)


@dataclass(frozen=True, slots=True)
class Parameterised:
    """Take one family of bistochastic matrices, with the parameter that just reaches β, or with your own ``values``.

    ``randomised-response`` (RDF (2)): one probability of change. ``blocks`` (3): uniform blocks of k neighbouring
    categories or one more, with the least k; or ``values`` their sizes. ``tridiagonal`` (7): one α for all, or
    ``values`` α_1, ..., α_(S-1). ``circulant`` (6): ``values`` its first row. Categories are taken in codebook order.
    Of other matrices nothing is proven: structure ``bistochastic`` finds better ones.

    Raises
    ------
    DesignError
        If the family is unknown, or the values are not numbers or not as many as it takes.

    Examples
    --------
    >>> from postrand.designers import design
    >>> found = design([0.4, 0.3, 0.2, 0.1], Bistochastic(0.5), structure=Parameterised("tridiagonal"))
    >>> found.matrix.array.round(3).tolist()[0], found.matrix.beta >= 0.5
    ([0.817, 0.183, 0.0, 0.0], True)
    """

    name: ClassVar[str] = "parameterised"
    traits: ClassVar[StructureTraits] = StructureTraits(
        "One family of matrices whose rows and columns sum to 1, with the parameter that just reaches β.",
        models=(Bistochastic,),
        rank=60,
    )
    family: Family = "randomised-response"
    values: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.family, str) or self.family not in FAMILIES:
            hint = nearest(shown(self.family), FAMILIES)
            raise DesignError(sentence(f"unknown family {shown(self.family, repr)}{hint}", wanted=", ".join(FAMILIES)))
        given = listed(self.values)
        values = tuple(finite(value) for value in given or ())
        if given is None or any(math.isnan(value) for value in values):
            raise DesignError(sentence("values is not a list of finite numbers", got=shown(self.values, repr)))
        if (self.family == "circulant") is not bool(values) and self.family in ("circulant", "randomised-response"):
            what = "takes its first row as values" if self.family == "circulant" else "takes no values"
            raise DesignError(sentence(f"family {self.family!r} {what}", got=f"{len(values)} values"))
        object.__setattr__(self, "values", values)

    def contains(self, array: NDArray[np.float64]) -> bool:
        """Tell whether the columns of a matrix (S, S) sum to 1 too, up to rounding, as in all these families."""
        return bool((np.abs(array.sum(axis=0) - 1) <= ROUNDING).all())

    def solve(self, prior: NDArray[np.float64], privacy: PrivacyModel, objective: Objective) -> Solution:
        """Return the family's member nearest to the identity with this β; raises DesignError for another model."""
        beta = require(self, privacy, objective, prior.size).beta
        law = self._own(prior.size) if self.values else self._reaching(prior.size, beta)
        notes = (f"The family {self.family!r} alone: nothing is proven of other matrices.",)
        return Solution(law, math.inf if objective.maximise else -math.inf, {"notes": notes})

    def _own(self, size: int) -> TransitionMatrix:
        """Return the law of the given values."""
        whole = all(isinstance(value, int) for value in self.values)
        found = int(sum(self.values)) if self.family == "blocks" and whole else len(self.values)
        wanted = size - (self.family == "tridiagonal")
        if found != wanted:
            what = "the block sizes do not add up" if self.family == "blocks" else "the values are too few or too many"
            raise DesignError(sentence(what, where=f"family {self.family!r}", got=found, wanted=wanted))
        if self.family == "blocks":
            return blocks([int(value) if whole else 0 for value in self.values])
        return tridiagonal(self.values) if self.family == "tridiagonal" else circulant(self.values)

    def _reaching(self, size: int, beta: float) -> TransitionMatrix:
        """Return the law with the parameter that just reaches β; raises PrivacyError where none does."""
        if self.family == "randomised-response":
            changed = reach_beta(lambda share: _response(size, share), 0.0, 1 - 1 / size, beta)
            return _response(size, changed)
        if self.family == "blocks":
            return _even_blocks(size, round(reach_beta(lambda k: _even_blocks(size, round(k)), 1, size, beta)))

        def law(alpha: float) -> TransitionMatrix:
            return tridiagonal(np.full(size - 1, alpha))

        most = scipy.optimize.minimize_scalar(lambda alpha: -law(alpha).beta, bounds=(0.0, 0.5), method="bounded").x
        return law(reach_beta(law, 0.0, float(most), beta))


def _response(size: int, changed: float) -> TransitionMatrix:
    """Return the law that changes this share of each category's values, to any other alike."""
    return circulant([1 - changed, *[changed / (size - 1)] * (size - 1)])


def _even_blocks(size: int, k: int) -> TransitionMatrix:
    """Return blocks of k neighbouring categories or one more, as many as there can be."""
    count = size // k
    return blocks([size // count + (i < size % count) for i in range(count)])
