"""Intervals of shares by inverting a test: the score test, or the exact binomial one where few records are expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import scipy

from postrand.estimate.axes import Array

EXACT = 40.0
"""Below this many records, on either side, the binomial test itself is inverted, not its normal form."""

COUNTED = 0.6
"""The part of the probability of the observed count that its tail includes: 1/2 (mid-p) would cover .917 of the time
where about 3 are expected, and 1 (Clopper–Pearson) is wider than it need be. With 0.6 no p is covered less than .93."""

STEPS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Binomial:
    """Hold, cell by cell, the binomial whose mean and variance those of an estimate follow: ``low + step × X/n``.

    The contribution of one record to ``θ^ = Σ b λ^`` takes two values for a cell of randomised response or of an
    unperturbed variable, and this is then the law of θ^ itself. Else the two values are chosen so that the variance of
    θ^, and the way in which it changes with θ, agree (:func:`effective`). ``successes`` and ``trials`` need not be
    whole.
    """

    low: Array
    step: Array
    successes: Array
    trials: Array

    def bounds(self, level: float) -> tuple[Array, Array]:
        """Return the ends of the interval of ``low + step p`` for each cell."""
        lower, upper = binomial_bounds(self.successes, self.trials, level)
        return self.low + self.step * lower, self.low + self.step * upper

    def inflated(self, ratio: Array) -> Binomial:
        """Return the binomial of ``ratio`` times the variance: of as many times fewer trials.

        Where fewer than 40 successes or failures were seen, the ratio itself rests on few records, and none below 1
        counts.

        References
        ----------
        Korn & Graubard (1998), Confidence intervals for proportions with small expected number of positive counts
        estimated from survey data.
        """
        few = np.minimum(self.successes, self.trials - self.successes) < EXACT
        by = np.where(few, np.maximum(ratio, 1.0), np.maximum(ratio, 1e-12))
        return Binomial(self.low, self.step, self.successes / by, self.trials / by)

    @property
    def variance(self) -> Array:
        """The variance of θ^."""
        share = self.successes / self.trials
        return np.asarray(self.step**2 * share * (1 - share) / self.trials)

    def deviance(self, value: Array) -> Array:
        """Return twice the log-likelihood ratio of X/n against the hypothesis ``low + step p = value``."""
        p = np.clip((value - self.low) / self.step, 0.0, 1.0)
        x, n = self.successes, self.trials
        return np.asarray(2 * (scipy.special.rel_entr(x, n * p) + scipy.special.rel_entr(n - x, n * (1 - p))))


def effective(value: Array, variance: Array, slope: Array, curvature: Array) -> Binomial:
    """Return the binomial with ``Var(θ) = variance + slope (θ − value) − curvature (θ − value)²``.

    Its two values are the roots of that parabola. ``slope`` is ``κ3/κ2``, the rate at which the variance of a mean
    changes with the mean along the least favourable family; ``curvature`` is one over the number of records.

    >>> found = effective(np.array([0.25]), np.array([0.25 * 0.75 / 8]), np.array([0.5 / 8]), np.array([1 / 8]))
    >>> found.low.tolist(), found.step.tolist(), found.successes.tolist(), found.trials.tolist()
    ([0.0], [1.0], [2.0], [8.0])
    """
    width = np.sqrt(slope**2 + 4 * curvature * variance)
    below = 2 * variance / np.where(width + slope > 0, width + slope, 1.0)  # the distance of the lower root
    above = np.where(slope > 0, (width + slope) / (2 * curvature), 2 * variance / np.maximum(width - slope, 1e-300))
    below = np.where(slope > 0, below, (width - slope) / (2 * curvature))
    step = below + above
    share = np.divide(below, step, out=np.zeros_like(step), where=step > 0)
    return Binomial(value - below, step, share / curvature, 1 / curvature)


def binomial_bounds(successes: Array, trials: Array, level: float) -> tuple[Array, Array]:
    """Return the ends of an interval for p from x successes in n trials, not necessarily whole.

    Wilson's score interval; where fewer than 40 successes or failures were seen, the p at which the exact test rejects:
    ``P(X > x) + 0.6 P(X = x) = (1 − level)/2``, and likewise below.

    >>> [end.round(4).tolist() for end in binomial_bounds(np.array([0.0, 50.0]), np.array([100.0, 100.0]), 0.95)]
    [[0.0, 0.4038], [0.0313, 0.5962]]

    References
    ----------
    Wilson (1927); Lancaster (1961); Agresti & Coull (1998).
    """
    z = -NormalDist().inv_cdf((1 - level) / 2)
    p = successes / trials
    centre = (p + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * np.sqrt(p * (1 - p) / trials + (z / (2 * trials)) ** 2) / (1 + z * z / trials)
    lower, upper = centre - half, centre + half
    few = np.minimum(successes, trials - successes) < EXACT
    if few.any():
        x, n, tail = successes[few], trials[few], (1 - level) / 2
        lower[few] = _inverted(x, n, tail)
        upper[few] = 1 - _inverted(n - x, n, tail)
    return np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0)


def _inverted(x: Array, n: Array, tail: float) -> Array:
    """Return the largest p with ``P(X > x) + 0.6 P(X = x) <= tail``; 0 where x is 0.

    Newton's method on the logarithms, in which the tail is nearly a line, from the beta quantile between the two tails.
    """
    seen = x > 1e-9 * n
    x, n = np.where(seen, np.minimum(x, n), 1.0), np.where(seen, n, 2.0)
    p = scipy.special.betaincinv(x + 1 - COUNTED, n - x + COUNTED, tail)
    for _ in range(STEPS):
        reached = COUNTED * _at_least(x, n, p) + (1 - COUNTED) * _at_least(x + 1, n, p)
        rate = COUNTED * _density(x, n, p) + (1 - COUNTED) * _density(x + 1, n, p)
        p = np.minimum(p * np.exp(np.clip(np.log(tail / reached) * reached / (p * rate), -1, 1)), x / n)
    return np.where(seen, p, 0.0)


def _density(x: Array, n: Array, p: Array) -> Array:
    """Return the derivative of :func:`_at_least` by p."""
    whole = x < n + 1
    safe = np.where(whole, x, n)
    logs = (
        scipy.special.xlogy(safe - 1, p)
        + scipy.special.xlog1py(n - safe, -p)
        - scipy.special.betaln(safe, n - safe + 1)
    )
    return np.where(whole, np.exp(logs), 0.0)


def _at_least(x: Array, n: Array, p: Array) -> Array:
    """Return ``P(X >= x)`` of the binomial distribution, continued between whole x by the incomplete beta function."""
    inside = (x > 0) & (x < n + 1)
    found = scipy.special.betainc(np.where(inside, x, 1.0), np.where(inside, n - x + 1, 1.0), p)
    return np.where(inside, found, (x <= 0).astype(np.float64))


class Moments(NamedTuple):
    """Hold the first three raw moments of what a record contributes to each cell."""

    first: Array
    second: Array
    third: Array


@dataclass(frozen=True, slots=True, eq=False)
class Slope:
    """Sum up how the variance of ``Σ b λ^`` changes with its value: the regression of ``u²`` on the influences ``u``.

    For contributions of two values the regression is exact, whatever was observed. Influences are ``ω (b − mean)/Σw``;
    a weighted cell counts as ``(Σw)²/Σw²`` records of weight ``ω = Σw²/Σw`` each.
    """

    records: float
    first: Array
    second: Array
    third: Array

    @classmethod
    def of(cls, raw: Moments, mean: Array, records: float, unit: float) -> Slope:
        """Return the sums over ``records`` of influence ``unit (b − mean)``, from the raw moments of b."""
        one, two, three = raw
        first = one - mean
        second = two - 2 * mean * one + mean**2
        third = three - 3 * mean * two + 3 * mean**2 * one - mean**3
        return cls(records, records * unit * first, records * unit**2 * second, records * unit**3 * third)

    def plus(self, other: Slope) -> Slope:
        """Return the sums of both together."""
        return Slope(
            self.records + other.records,
            self.first + other.first,
            self.second + other.second,
            self.third + other.third,
        )

    @property
    def value(self) -> Array:
        """The slope of the regression, 0 where all influences are alike."""
        spread = self.second - self.first**2 / self.records
        shared = self.third - self.second * self.first / self.records
        return np.divide(shared, spread, out=np.zeros_like(spread), where=spread > 1e-12 * self.second)


def matched(value: Array, variance: Array, strata: Sequence[Slope], record: Moments, unit: float) -> Binomial:
    """Return the binomial distribution that approximates an estimate, all arrays of one shape.

    Parameters
    ----------
    variance
        Its estimated variance, divided by the numbers of records rather than by one less.
    strata
        The sums over each sampling stratum.
    record
        The raw moments of what each of two more records would contribute, one of the cell itself and one of any: they
        stand for what was not seen where few records were, and decide nothing else.
    unit
        The influence of a record of mean weight, ``Σw²/(Σw)²``.
    """
    pooled = reduce(Slope.plus, strata, Slope.of(record, value, 2.0, unit))
    shares = [stratum.second for stratum in strata]
    whole = sum(shares)
    records = sum(stratum.records for stratum in strata)
    curvature = np.full_like(value, 1.0 / records)
    if len(strata) > 1:
        spread = sum(share**2 / stratum.records for share, stratum in zip(shares, strata, strict=True))
        curvature = np.divide(spread, whole**2, out=curvature, where=whole > 0)
    return effective(value, variance, pooled.value, curvature)
