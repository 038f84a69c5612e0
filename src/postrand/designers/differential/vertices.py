"""The staircase of few categories by the simplex method over all sets: a value and its proof, without a solver.

    maximise Σ_A θ_A g(p(A))  with  Σ_A θ_A (1 + (e^ε - 1) [x in A]) = 1 for each category x,  θ >= 0

over the 2^S sets A. A vertex has S sets, its inverse (S, S) gives θ and the multipliers y, and one pass over all sets
finds the largest reduced cost: that is the set to enter, or the proof that none is better. A solver of linear
programmes takes longer to load than all vertices of a curve.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from postrand.designers.differential.pricing import Gain, members, sums_of_sets
from postrand.designers.differential.staircase import EXACT_SIZE, Staircase
from postrand.objectives.information import information_bound

Floats = NDArray[np.float64]

_PIVOTS = 1000
_TOLERANCE = 1e-12  # of the closed bound, and relative
_APART = 1e-9  # reduced costs nearer to zero are those of sets that are as good
_SMALL = 1e-11  # a pivot below it could be rounding


def best_vertex(p: Floats, epsilon: float) -> Staircase | None:
    """Return the only staircase of largest information for ``p`` (S,), proven to 1e-12; None where it is not found.

    That is beyond ``EXACT_SIZE`` categories, where other sets are as good (equal masses), and where pivots go round in
    circles or lose their precision: :func:`postrand.designers.differential.staircase.best_staircase` chooses there.

    Examples
    --------
    >>> found = best_vertex(np.array([0.5, 0.3, 0.2]), 1.0)
    >>> found.sets.tolist(), found.bound - found.value < 1e-12
    ([[True, False, False], [False, True, False], [False, False, True]], True)
    """
    if p.size > EXACT_SIZE:
        return None
    unit = information_bound(epsilon)
    gain = Gain(epsilon, unit)
    worth = gain.plain(sums_of_sets(p))
    chosen = 1 << np.arange(p.size)  # randomised response
    for rounds in range(1, _PIVOTS + 1):
        try:
            inverse = np.linalg.inv(1 + gain.extra * members(chosen, p.size).T)
        except np.linalg.LinAlgError:
            return None
        theta, y = inverse.sum(axis=1), worth[chosen] @ inverse
        reduced = worth - gain.extra * sums_of_sets(y) - y.sum()
        fresh = int(reduced.argmax())
        value, bound = float(worth[chosen] @ theta), float(y.sum() + max(reduced[fresh], 0.0))
        if abs(bound - value) <= _TOLERANCE * value and theta.min() >= -_TOLERANCE:
            reduced[chosen] = -1.0
            used = theta > _TOLERANCE  # zeros of a vertex, rounded
            if reduced.max() > -_APART:
                return None
            outward = max(bound, value) * unit  # rounding may leave the two in the wrong order
            return Staircase(members(chosen[used], p.size), theta[used], value * unit, outward, rounds)
        step = inverse @ (1 + gain.extra * members(np.array([fresh]), p.size)[0])
        reach = np.divide(np.maximum(theta, 0), step, out=np.full(p.size, np.inf), where=step > _SMALL)
        chosen[reach.argmin()] = fresh
    return None
