"""The risk of the informed and of the register attacker: the prosecutor, the journalist and the marketer of others.

These names are of El Emam and Dankar (2008); what is shown has one name for one attacker (docs/notation.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from postrand.risk.cells import FloatArray, IntArray
from postrand.risk.tau import exprel
from postrand.support.measure_names import BY_MODEL, BY_WEIGHTS
from postrand.support.showing import outward, outward_percent

LINE = "  {:<22}{}"
"""A line of a report: its name, and what it says."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The highest and average risk of a record, and the share of records whose risk exceeds the threshold."""

    highest: float
    average: float
    at_risk: float

    def shown(self, records: int) -> str:
        """Return the figures as text, of a file of so many ``records``."""
        mean, largest = outward_percent(self.average), outward_percent(self.highest)
        links = outward(self.average * records)
        return f"{links} correct matches of all records; risk of a person: mean {mean}, largest {largest}"


@dataclass(frozen=True, slots=True)
class Readings:
    """The same file in several readings.

    ``prosecutor`` is the informed attacker, who knows that the target is in the file: ``1/f``. ``journalist`` is the
    register attacker, who does not, and looks for anybody: ``E(1/F | f)`` by the model of population frequencies, and
    ``by_weights`` the same by the weights or the sampling fraction. ``marketer`` is the expected share of records that
    the register attacker re-identifies by linking all, by the model.
    """

    prosecutor: Reading
    journalist: Reading | None
    marketer: float
    by_weights: Reading | None = None

    @property
    def register(self) -> Reading | None:
        """The larger figure of each of the two estimates of the register attacker; None without an estimate."""
        held = [one for one in (self.journalist, self.by_weights) if one is not None]
        if not held:
            return None
        return Reading(*(max(getattr(one, name) for one in held) for name in ("highest", "average", "at_risk")))

    def lines(self, records: int) -> Iterator[str]:
        """Yield the lines of a report on a file of so many ``records``."""
        yield LINE.format("informed attacker", self.prosecutor.shown(records))
        estimates = ((BY_WEIGHTS, self.by_weights), (BY_MODEL, self.journalist))
        if self.register is not None:
            yield LINE.format("register attacker", self.register.shown(records))
            yield from (LINE.format("", f"{name}: {one.shown(records)}") for name, one in estimates if one is not None)


def readings(
    frequency: IntArray,
    inverse_population: FloatArray | None = None,
    *,
    by_weights: FloatArray | None = None,
    threshold: float = 0.2,
) -> Readings:
    """Return the readings of a file of n records.

    ``frequency`` (n,) is the size of each record's class in the file, ``inverse_population`` (n,) each record's
    ``E(1/F)`` by the model, ``by_weights`` (n,) by the weights; without the first the marketer takes the file for the
    population.

    Examples
    --------
    >>> readings(np.array([1, 2, 2])).prosecutor
    Reading(highest=1.0, average=0.6667, at_risk=1.0)
    """
    own = _reading(1 / np.maximum(frequency, 1), threshold)
    weighed = None if by_weights is None else _reading(by_weights, threshold)
    if inverse_population is None:
        return Readings(own, None, own.average, weighed)
    other = _reading(inverse_population, threshold)
    return Readings(own, other, other.average, weighed)


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
