"""The symmetric family (ABC §3.2.3): one diagonal value, all other entries equal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.designers.problem import Solution
from postrand.designers.suitability import ROUNDING, StructureTraits, require
from postrand.objectives import Objective
from postrand.privacy import PrivacyModel, Responding

_GRID = 101
_ENDLESS = 1e12  # in place of an infinite cost, which the refinement cannot subtract


@dataclass(frozen=True, slots=True)
class Symmetric:
    """Search ``M[k,k] = q``, every other entry ``(1-q)/(S-1)``: under ε-DP ``e^-ε/(S-1+e^-ε) <= q <= e^ε/(S-1+e^ε)``.

    That is ABC §3.2.3; other models have intervals of their own (``stays``), in closed form or by bisection.

    Information, of the whole record too, is convex in q. The variance of every linear query is ``V s² + (K - V) s -
    D²`` in ``s = 1/α``, ``α = (Sq-1)/(S-1)``, with V, K its second moments at the uniform law and at p, ``0 <= K <=
    SV``: it falls in α on (0, 1] and rises on the negative side. Expected changes are linear. So for all of these an
    end of the interval is best, exactly. Any other objective is searched on a grid and refined: nothing is proven.

    Examples
    --------
    >>> from postrand.designers import design
    >>> from postrand.privacy import DifferentialPrivacy
    >>> d = design([0.5, 0.3, 0.2], DifferentialPrivacy(1.0), structure=Symmetric())
    >>> d.status, round(float(d.matrix.array[0, 0]), 6)
    ('optimal', 0.576117)
    """

    name: ClassVar[str] = "symmetric"
    traits: ClassVar[StructureTraits] = StructureTraits(
        "Every answer stays with the same probability, and changes to any other with the same probability.",
        models=(Responding,),
        rank=20,
    )

    def contains(self, array: NDArray[np.float64]) -> bool:
        """Tell whether a matrix (S, S) has one value on the diagonal and one off it, up to rounding."""
        off = array[~np.eye(len(array), dtype=bool)]
        return bool(np.ptp(array.diagonal()) <= ROUNDING and np.ptp(off) <= ROUNDING)

    def solve(self, prior: NDArray[np.float64], privacy: PrivacyModel, objective: Objective) -> Solution:
        """Return the best end of the interval, or the best value found in it."""
        model = require(self, privacy, objective, prior.size)
        size, sign = prior.size, 1 if objective.maximise else -1
        low, high = model.stays(size)

        def score(q: float) -> float:
            return sign * objective.value(_array(q, size), prior)

        ends = {q: score(q) for q in (high, low)}
        q = max(ends, key=lambda end: ends[end])
        if objective.traits.at_ends:
            bound = sign * (ends[q] + 1e-12 * abs(ends[q])) if model.traits.ends_proven else sign * math.inf
        else:
            q, bound = _search(score, low, high), sign * math.inf
        law = model.response(size) if q == high and hasattr(model, "response") else None
        return Solution(law or _array(q, size), bound, {"q": q})


def _array(q: float, size: int) -> NDArray[np.float64]:
    array = np.full((size, size), (1 - q) / (size - 1))
    np.fill_diagonal(array, q)
    return array


def _search(score: Callable[[float], float], low: float, high: float) -> float:
    """Return the best q of a grid, refined between its neighbours."""
    grid = np.linspace(low, high, _GRID)
    values = [score(q) for q in grid]
    k = int(np.argmax(values))
    around = (grid[max(k - 1, 0)], grid[min(k + 1, _GRID - 1)])

    def cost(q: float) -> float:
        return min(-score(q), _ENDLESS)

    refined = scipy.optimize.minimize_scalar(cost, bounds=around, method="bounded", options={"xatol": 1e-10})
    return float(refined.x) if -refined.fun > values[k] else float(grid[k])
