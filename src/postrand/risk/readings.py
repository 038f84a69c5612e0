"""The three attackers that practitioners know: prosecutor, journalist, marketer (El Emam and Dankar 2008)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from postrand.risk.cells import FloatArray, IntArray
from postrand.risk.tau import exprel
from postrand.support.showing import outward

JOURNALIST = (
    "several figures are about one attacker, who has a register and does not know who is in the file: the journalist's "
    "(all records, by a model of the keys), tau2 (sample uniques only, by such a model), and those of 'from weights', "
    "'individual', 'households', 'advise', 'explain', 'compare' and the dossier (all records, by the weights or the "
    "sampling fraction alone); all are estimates: give on the largest"
)
"""Why several figures of one attacker differ."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The highest and average risk of a record, and the share of records whose risk exceeds the threshold."""

    highest: float
    average: float
    at_risk: float


@dataclass(frozen=True, slots=True)
class Readings:
    """The same file in three readings.

    ``prosecutor`` knows that the target is in the file: ``1/f``. ``journalist`` does not, and looks for anybody:
    ``E(1/F | f)``. ``marketer`` is the expected share of records that are re-identified when all are linked.
    """

    prosecutor: Reading
    journalist: Reading | None
    marketer: float

    def __str__(self) -> str:
        parts = [
            ("prosecutor (knows who is in the file)", self.prosecutor),
            ("journalist (does not)", self.journalist),
        ]
        shown = [
            f"{name} {outward(r.average)} on average, {outward(r.highest)} at most"
            for name, r in parts
            if r is not None
        ]
        return "; ".join([*shown, f"marketer (share of right links when all are linked) {outward(self.marketer)}"])


def readings(frequency: IntArray, inverse_population: FloatArray | None = None, *, threshold: float = 0.2) -> Readings:
    """Return the three readings of a file of n records.

    ``frequency`` (n,) is the size of each record's class in the file, ``inverse_population`` (n,) each record's
    ``E(1/F)``; without it the file is taken for the population.

    Examples
    --------
    >>> readings(np.array([1, 2, 2])).prosecutor
    Reading(highest=1.0, average=0.6667, at_risk=1.0)
    """
    own = _reading(1 / np.maximum(frequency, 1), threshold)
    if inverse_population is None:
        return Readings(own, None, own.average)
    other = _reading(inverse_population, threshold)
    return Readings(own, other, other.average)


def readings_after(claimed: FloatArray, correct: FloatArray, *, threshold: float = 0.2) -> Readings:
    """Return the prosecutor's and marketer's readings of a released file from a linkage attack that knows the matrix.

    ``claimed`` and ``correct`` are those of :class:`postrand.risk.attack.Linkage`: the prosecutor holds the posterior
    of the best link, the marketer gets the measured share of correct links.
    """
    return Readings(_reading(claimed, threshold), None, float(correct.mean()) if correct.size else 0.0)


def inverse_population(frequency: IntArray, mu: FloatArray, pi: FloatArray | float) -> FloatArray:
    """Return ``E(1/F | f)`` where ``F − f ~ Poisson(λ(1−π))`` for every f >= 1 (SS §2.1), λ = μ/π.

    For f = 1 it is ``(1 − e^−x)/x``; for larger f ``I_f = ∫_0^1 t^(f−1) e^(−x(1−t)) dt``, by Gauss quadrature.
    """
    x = np.broadcast_to(mu / pi * (1 - pi), frequency.shape)
    pairs, place = np.unique(np.stack([frequency, x]), axis=1, return_inverse=True)
    f, rate = pairs
    nodes, weights = np.polynomial.legendre.leggauss(64)
    # Mass sits within about 1/(f+x) of t = 1; substitute t = 1 − s and stop where the integrand is below 1e-17.
    width = np.minimum(1.0, 40.0 / (f - 1 + rate + 1e-300))
    s = width[:, None] * (nodes + 1) / 2
    logs = (f[:, None] - 1) * np.log1p(-np.minimum(s, 1 - 1e-16)) - rate[:, None] * s
    integral = (np.exp(logs) * weights).sum(axis=1) * width / 2
    found: FloatArray = np.where(f == 1, exprel(rate), integral)[place]
    return found


def _reading(risk: FloatArray, threshold: float) -> Reading:
    if not risk.size:
        return Reading(0.0, 0.0, 0.0)
    return Reading(float(risk.max()), float(risk.mean()), float((risk > threshold).mean()))
