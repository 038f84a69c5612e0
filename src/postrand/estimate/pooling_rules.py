"""Rubin's rules: one estimate and its variance from those of several completed copies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from postrand.errors import EstimationError, UsageError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.tidy import check_level


@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """Hold what Rubin's rules make of estimates from m copies; all arrays of one shape.

    ``value`` is their mean, ``within`` the mean W of their variances, ``between`` the variance B of the estimates
    themselves (divisor m − 1), ``complete`` the degrees of freedom that the variance of one true file would have.

    Examples
    --------
    >>> found = combine([10.0, 12.0, 14.0], [3.0, 3.0, 3.0])
    >>> found.value.item(), found.total.item(), found.freedom.item()
    (12.0, 8.33, 4.88)

    References
    ----------
    Rubin (1987), Multiple Imputation for Nonresponse in Surveys; Barnard & Rubin (1999).
    """

    copies: int
    value: Array
    within: Array
    between: Array
    complete: Array

    @property
    def total(self) -> Array:
        """The variance ``T = W + (1 + 1/m) B``."""
        return np.asarray(self.within + (1 + 1 / self.copies) * self.between)

    @property
    def standard_error(self) -> Array:
        """The square root of T."""
        return np.sqrt(self.total)

    @property
    def share(self) -> Array:
        """The part of T that the differences between the copies make, ``λ = (1 + 1/m) B / T``; 0 where T is 0."""
        between = (1 + 1 / self.copies) * self.between
        return np.divide(between, self.total, out=np.zeros_like(between), where=self.total > 0)

    @property
    def freedom(self) -> Array:
        """Barnard and Rubin's degrees of freedom: never more than ``complete``; infinite where nothing is uncertain.

        ``1 / (1/ν_m + 1/ν_obs)`` with ``ν_m = (m − 1)/λ²`` and ``ν_obs = (1 − λ) ν (ν + 1)/(ν + 3)``, ν those of the
        complete data. Where the variance within copies is 0, these say nothing, and ``ν_m`` counts alone.
        """
        share = self.share
        with np.errstate(divide="ignore", over="ignore"):
            simulated = share**2 / (self.copies - 1)
            bounded = np.where(np.isfinite(self.complete), self.complete, 1.0)
            observed = 1 / (bounded * (bounded + 1) / (bounded + 3) * (1 - share))
            counts = np.isfinite(self.complete) & (self.within > 0)
            return np.asarray(1 / (simulated + np.where(counts, observed, 0.0)))

    @property
    def missing(self) -> Array:
        """The fraction of missing information γ: what the estimate lost as the file is not the true one.

        ``(r + 2/(ν + 3)) / (r + 1)`` with ``r = λ/(1 − λ)``; 0 where the copies agree exactly.
        """
        share = self.share
        return np.asarray(np.where(share > 0, share + (1 - share) * 2 / (self.freedom + 3), 0.0))

    @property
    def missing_error(self) -> Array:
        """The simulation error of γ, its standard error over other draws of the copies: ``λ (1 − λ) √(2/(m − 1))``.

        References
        ----------
        Harel (2007).
        """
        share = self.share
        return np.asarray(share * (1 - share) * math.sqrt(2 / (self.copies - 1)))

    @property
    def error_of_error(self) -> Array:
        """The coefficient of variation of the standard error over other draws of the copies, ``λ/√(2(m − 1))``."""
        return np.asarray(self.share / math.sqrt(2 * (self.copies - 1)))

    @property
    def simulation_error(self) -> Array:
        """The standard error of ``value`` over other draws of m copies, ``√(B/m)``: part of T already."""
        return np.sqrt(self.between / self.copies)

    def bounds(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return the ends of the intervals, from Student's t with :attr:`freedom`.

        Raises
        ------
        UsageError
            If ``level`` is not between 0 and 1.
        """
        check_level(level)
        half = quantile_t(self.freedom, (1 + level) / 2) * self.standard_error
        return self.value - half, self.value + half

    def p_value(self, null: float = 0.0) -> Array:
        """Return two-sided p-values of the hypotheses that the values are ``null``; NaN where T is 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.abs(self.value - null) / self.standard_error
        return np.asarray(2 * scipy.special.stdtr(self.freedom, -t))


def combine(values: ArrayLike, variances: ArrayLike, complete: ArrayLike = math.inf) -> Combined:
    """Combine estimates and their variances, both of shape (m, ...), over the first axis: Rubin's rules.

    ``complete`` are the degrees of freedom of the variance in one true file, for example n − k of a linear regression;
    infinite for a variance of a large sample.

    Raises
    ------
    UsageError
        If there are fewer than two copies, the shapes differ, or ``complete`` is not positive.
    EstimationError
        If a number is not finite, or a variance is negative.
    """
    given, variance = (np.asarray(x, dtype=np.float64) for x in (values, variances))
    if given.shape != variance.shape or given.ndim == 0:
        what = "estimates and variances differ in shape"
        raise UsageError(sentence(what, got=f"{given.shape} and {variance.shape}", wanted="(copies, ...) of both"))
    check_copies(len(given))
    if not (np.isfinite(given).all() and np.isfinite(variance).all() and (variance >= 0).all()):
        what = "an estimate or a variance is not a number, or a variance is negative"
        raise EstimationError(sentence(what, fix="look at the analysis of each copy"))
    freedom = np.broadcast_to(np.asarray(complete, dtype=np.float64), given.shape[1:])
    if not (freedom > 0).all():
        raise UsageError(sentence("the degrees of freedom of the complete data are not positive", wanted="> 0"))
    return Combined(len(given), given.mean(axis=0), variance.mean(axis=0), given.var(axis=0, ddof=1), freedom)


def check_copies(copies: int) -> None:
    """Raise UsageError unless there are two copies at least."""
    if copies < 2:
        what = "one copy does not show how uncertain its drawn values are"
        raise UsageError(sentence(what, got=copies, wanted="at least two copies"))


def copies_for(missing: float, precision: float = 0.05) -> int:
    """Return how many copies make a standard error reproducible to ``precision`` (its coefficient of variation).

    ``1 + ½ (γ/precision)²``, γ the fraction of missing information.

    >>> copies_for(0.5)
    51

    References
    ----------
    von Hippel (2020), How many imputations do you need?
    """
    return max(2, math.ceil(1 + (missing / precision) ** 2 / 2 - 1e-9))


def quantile_t(freedom: Array, probability: float) -> Array:
    """Return quantiles of Student's t; of the normal distribution where the degrees of freedom are infinite."""
    many = ~np.isfinite(freedom)
    found = scipy.special.stdtrit(np.where(many, 1.0, freedom), probability)
    return np.asarray(np.where(many, scipy.special.ndtri(probability), found))


class FReference(NamedTuple):
    """Hold the increase r of the variance, averaged over k numbers, and the degrees of freedom of their joint test."""

    increase: float
    freedom: float


def reference_of(increase: float, numbers: int, copies: int, complete: float = math.inf) -> FReference:
    """Return the denominator's degrees of freedom of a joint test of k ``numbers``, given the average increase r.

    Li, Raghunathan and Rubin's for large files; Reiter's where ``complete`` is finite and ``k (m − 1) > 4``.

    References
    ----------
    Li, Raghunathan & Rubin (1991); Reiter (2007), Small-sample degrees of freedom for multi-component significance
    tests.
    """
    k, t = numbers, numbers * (copies - 1)
    if increase <= 0:
        return FReference(0.0, complete)
    if t <= 4:
        large = t * (1 + 1 / k) * (1 + 1 / increase) ** 2 / 2
        return FReference(increase, min(large, complete))
    if math.isinf(complete):
        return FReference(increase, 4 + (t - 4) * (1 + (1 - 2 / t) / increase) ** 2)
    return FReference(increase, _reiter(increase, t, complete))


def _reiter(increase: float, t: int, complete: float) -> float:
    """Return Reiter's degrees of freedom, equations 1 and 2; 4 where the file is too small for them."""
    a = increase * t / (t - 2)
    star = complete * (complete + 1) / (complete + 3)
    one, two = star - 2 * (1 + a), star - 4 * (1 + a)
    if two <= 0:  # the expansion holds for larger files only
        return 4.0
    z = 1 / two + 1 / (t - 4) * (
        a**2 * one / ((1 + a) ** 2 * two)
        + 8 * a**2 * one / ((1 + a) * two**2)
        + 4 * a**2 / ((1 + a) * two)
        + 4 * a**2 / (two * one)
        + 16 * a**2 * one / two**3
        + 8 * a**2 / two**2
    )
    return 4 + 1 / z


def joint_test(
    value: Array, within: Array, between: Array, copies: int, complete: float = math.inf
) -> tuple[float, FReference]:
    """Return D1, the statistic of the hypothesis that all k ``value`` are 0, and what refers it to F with k and ν.

    ``valueᵀ W^-1 value / (k (1 + r))`` with ``r = (1 + 1/m) tr(B W^-1)/k``, (k, k) matrices within and between.

    Raises
    ------
    EstimationError
        If W is singular: some of the numbers are functions of others.
    """
    k = value.size
    scale = 1 / np.sqrt(np.maximum(np.diag(within), np.finfo(np.float64).tiny))
    if np.linalg.matrix_rank(within * np.outer(scale, scale), hermitian=True) < k:
        what = "the numbers of a joint test depend on each other"
        raise EstimationError(sentence(what, fix="leave one out, for example one of the shares that add up to 1"))
    inverse = np.linalg.inv(within)
    increase = (1 + 1 / copies) * float(np.trace(between @ inverse)) / k
    reference = reference_of(increase, k, copies, complete)
    return float(value @ inverse @ value) / (k * (1 + increase)), reference


def upper_f(statistic: float, numbers: int, freedom: float) -> float:
    """Return the p-value of an F statistic; of chi-squared over its degrees of freedom where ν is infinite."""
    if math.isinf(freedom):
        return float(scipy.special.chdtrc(numbers, numbers * statistic))
    return float(scipy.special.fdtrc(numbers, freedom, statistic))


def covariance_between(values: NDArray[np.float64]) -> Array:
    """Return the covariance (P, P) of estimates (m, P) over the copies, divisor m − 1."""
    centred = values - values.mean(axis=0)
    return np.asarray(centred.T @ centred / (len(values) - 1))
