"""What an analyst would conclude from a released table, in plain sentences, and whether the true file agrees."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.errors import EstimationError
from postrand.estimate import Estimate
from postrand.risk.tau import NORMAL_95

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Hold a sentence of an analyst, what the true file says, and whether they agree; None: the analyst cannot tell."""

    said: str
    truth: str
    agrees: bool | None


def conclusions(found: Estimate, true: Array) -> tuple[Conclusion, ...]:
    """Return what an analyst would conclude of a table of one or two variables; ``true`` are the counts of the file.

    Of one variable: the most frequent value, beside the one that comes closest to it. Of two: the difference of the
    shares that the most frequent value of the first has in the two largest groups of the second. Intervals are
    ``d ± 1.96 se(d)``, with the covariance of the estimate. Nothing where it is too large to hold, or a group is empty.
    """
    try:
        return tuple((_largest if found.value.ndim == 1 else _difference)(found, true))
    except EstimationError:
        return ()


def _largest(found: Estimate, true: Array) -> Iterator[Conclusion]:
    if found.value.size < 2:
        return
    first, second = _closest(found.value, found.covariance)
    gradient = np.zeros(found.value.size)
    gradient[[first, second]] = 1, -1
    between = _Difference.of(found, float(found.value[first] - found.value[second]), gradient)
    a, b = found.labels[0][first], found.labels[0][second]
    real = float(true[first] - true[second]) / max(float(true.sum()), 1.0)
    top = found.labels[0][int(true.argmax())]
    name = found.variables[0]
    if between.is_told:
        said = f"“{a}” is the most frequent value of {name}, before “{b}”: {between.text}."
    else:
        said = f"“{a}” comes first, but “{b}” may be the most frequent value of {name}: {between.text}."
    truth = f"“{top}” is the most frequent; “{a}” minus “{b}” is {_points(real)}."
    yield Conclusion(said, truth, bool(true[first] == true.max()) if between.is_told else None)


def _closest(value: Array, covariance: Array) -> tuple[int, int]:
    """Return the largest share, and the other that is least surely smaller: of the smallest ``d − 1.96 se(d)``."""
    first = int(value.argmax())
    variance = covariance[first, first] + covariance.diagonal() - 2 * covariance[first]
    low = value[first] - value - NORMAL_95 * np.sqrt(np.maximum(variance, 0.0))
    low[first] = np.inf
    return first, int(low.argmin())


def _difference(found: Estimate, true: Array) -> Iterator[Conclusion]:
    value, groups = found.value, found.value.sum(axis=0)
    if value.shape[1] < 2 or value.shape[0] < 2:
        return
    g, h = np.argsort(-groups, kind="stable")[:2].tolist()
    at = int(value.sum(axis=1).argmax())
    real_groups = true.sum(axis=0)
    if min(groups[g], groups[h]) <= 0 or min(real_groups[g], real_groups[h]) <= 0:
        return
    shares = value[at] / groups
    g, h = (g, h) if shares[g] >= shares[h] else (h, g)
    gradient = np.zeros(value.shape)
    for group, sign in ((g, 1.0), (h, -1.0)):
        gradient[:, group] = -sign * shares[group] / groups[group]
        gradient[at, group] += sign / groups[group]
    between = _Difference.of(found, float(shares[g] - shares[h]), gradient.ravel())
    real = float(true[at, g] / real_groups[g] - true[at, h] / real_groups[h])
    what, one, other = found.labels[0][at], found.labels[1][g], found.labels[1][h]
    name = found.variables[1]
    if between.is_told:
        said = f"“{what}” is more frequent where {name} is “{one}” than where it is “{other}”: {between.text}."
    else:
        said = f"“{what}” may be as frequent where {name} is “{one}” as where it is “{other}”: {between.text}."
    agrees = real > 0 if between.is_told else None
    yield Conclusion(said, f"the share in “{one}” minus that in “{other}” is {_points(real)}.", agrees)


@dataclass(frozen=True, slots=True)
class _Difference:
    value: float
    low: float
    high: float

    @classmethod
    def of(cls, found: Estimate, value: float, gradient: Array) -> _Difference:
        """Return a difference with its 95% interval, by the gradient in the cells of the table."""
        half = NORMAL_95 * math.sqrt(max(float(gradient @ found.covariance @ gradient), 0.0))
        return cls(value, value - half, value + half)

    @property
    def is_told(self) -> bool:
        """Whether the interval says which is larger."""
        return self.low > 0 or self.high < 0

    @property
    def text(self) -> str:
        """The difference in percentage points, with its interval."""
        low, high = (f"{100 * end:.1f}".replace("-", "−") for end in (self.low, self.high))
        return f"the shares differ by {_points(self.value)} (95% interval {low} to {high})"


def _points(share: float) -> str:
    return f"{100 * share:.1f} percentage points".replace("-", "−")
