"""Mutual information between true and released category (ABC (7))."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from postrand.mechanism.matrix import TransitionMatrix
from postrand.mechanism.matrix_storage import UNIT, Constant
from postrand.objectives.base import ObjectiveTraits

_SERIES = np.array([(-1.0) ** k / (k * (k - 1)) for k in range(2, 15)])[::-1]
_SMALL = 0.05  # the 13 terms of the series then leave out less than 1e-17, relative

_CHUNK = 1 << 20  # entries at a time, so that large matrices are not copied several times over


@dataclass(frozen=True, slots=True)
class MutualInformation:
    """Keep as much of ``I(X;Z) = Σ_x p_x Σ_z M[x,z] ln(M[x,z] / m_z)``, ``m = pᵀM``, as possible; in nats (ABC (7)).

    Convex in ``M``: a maximum sits at a vertex of the privacy constraints.

    Examples
    --------
    >>> import numpy as np
    >>> MutualInformation().value(np.eye(2), np.array([0.5, 0.5])) == math.log(2)
    True
    """

    name: ClassVar[str] = "information"
    traits: ClassVar[ObjectiveTraits] = ObjectiveTraits(
        "Keep as much information about the true answers as possible.",
        "nats",
        at_ends=True,
        per_class=True,
        rank=10,
    )
    maximise: ClassVar[bool] = True

    def value(self, array: NDArray[np.float64], prior: NDArray[np.float64]) -> float:
        """Return ``I(X;Z)`` in nats, as a sum of terms that are not negative (so small ε lose no digits)."""
        marginal = prior @ array
        used = np.flatnonzero(marginal > 0)
        kept, step = 0.0, max(1, _CHUNK // max(1, len(array)))
        for start in range(0, used.size, step):
            columns = used[start : start + step]
            excess = array[:, columns] / marginal[columns] - 1
            kept += float(marginal[columns] @ (prior @ entropy_excess(excess)))
        return kept

    def by_definition(self, array: NDArray[np.float64], prior: NDArray[np.float64]) -> float:
        """Return ``Σ j ln(j / (p m))`` over the joint table j of true and released category."""
        joint = prior[:, None] * array
        apart = np.outer(prior, joint.sum(axis=0))
        there = joint > 0
        return float((joint[there] * np.log(joint[there] / apart[there])).sum())

    def of_law(self, matrix: TransitionMatrix, prior: NDArray[np.float64]) -> float:
        """Return the value of an exact law: see :func:`information`."""
        return information(matrix, prior)

    def most(self, epsilon: float) -> float:
        """Return a bound for all ε-DP matrices: see :func:`information_bound`."""
        return information_bound(epsilon)

    def truth(self, prior: NDArray[np.float64]) -> float:
        """Return the entropy of the prior."""
        return entropy(prior)


def information(matrix: TransitionMatrix, prior: NDArray[np.float64]) -> float:
    """Return ``I(X;Z)`` of an exact law in nats; of one constant off the diagonal in time O(S) for each constant.

    >>> from postrand.mechanism.matrix import randomised_response
    >>> law, p = randomised_response(99, 3.0), np.full(99, 1 / 99)
    >>> bool(abs(information(law, p) / MutualInformation().value(law.array, p) - 1) < 1e-12)
    True
    """
    if not isinstance(matrix.form, Constant):
        return MutualInformation().value(matrix.array, prior)
    stay, off = matrix.diagonal, matrix.form.off / float(UNIT)
    marginal = prior @ off + prior * (stay - off)
    used = marginal > 0
    m, p = marginal[used], prior[used]  # of unused columns no row of positive prior has any mass
    kept = float((p * m) @ (entropy_excess(stay[used] / m - 1) - entropy_excess(off[used] / m - 1)))
    for value in np.unique(off):
        kept += float(prior[off == value].sum() * (m @ entropy_excess(value / m - 1)))
    return kept


def entropy_excess(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``(1+t) ln(1+t) - t`` for ``t >= -1``, to full relative accuracy near 0 where it is ``t²/2``."""
    t = np.asarray(t, dtype=np.float64)
    grown = np.maximum(1 + t, 0)
    found = np.asarray(grown * np.log(np.where(grown > 0, grown, 1)) - t)
    small = np.abs(t) < _SMALL
    if small.any():
        near = t[small]
        found[small] = near * near * np.polyval(_SERIES, near)
    return found


def information_bound(epsilon: float) -> float:
    """Return ``Z - 1 - ln Z``, ``Z = ε e^ε / (e^ε - 1)``: no ε-DP channel keeps more nats, for any prior and size.

    It is the largest ``h(P) / m(P)`` over ``0 <= P <= 1`` of the staircase columns (Kairouz, Oh & Viswanath 2016),
    ``h(P) = ε e^ε P - m ln m``, ``m = 1 + (e^ε - 1) P``.

    >>> information_bound(1.0) > 0.1232712131
    True
    """
    if epsilon < 0.01:  # both differences would cancel
        excess = epsilon / 2 + epsilon**2 / 12 - epsilon**4 / 720
        return excess**2 * (1 / 2 - excess / 3 + excess**2 / 4 - excess**3 / 5 + excess**4 / 6)
    excess = epsilon / -math.expm1(-epsilon) - 1
    return excess - math.log1p(excess)


def entropy(prior: NDArray[np.float64]) -> float:
    """Return ``H(p)`` in nats."""
    positive = prior[prior > 0]
    return float(-(positive @ np.log(positive)))
