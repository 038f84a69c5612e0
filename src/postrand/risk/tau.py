"""Population uniqueness of sample uniques under the Poisson model: record risks, ``τ1``, ``τ2`` and their errors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy
from threadpoolctl import threadpool_limits

from postrand.risk.cells import CellTable, FloatArray, IntArray
from postrand.risk.loglinear import LogLinearFit, margin_index
from postrand.support import loops
from postrand.support.showing import SMALL

MAX_PARAMETERS = 4000
MAX_ENTRIES = 60_000_000
"""Give no standard error beyond this number of parameters, or of ones in the design matrix."""

PART = 1 << 16
"""So many cells at a time are written as rows of the design matrix."""

NORMAL_95 = 1.959963984540054

MODEL_ERROR = (0.20, 0.10)
"""Relative standard deviation, of τ1 and τ2, by which a two-way model of the true keys is off where it is not true.

Measured on populations whose truth is known (``benchmarks/risk_perturbed.py``: up to 0.36 and 0.16 too high where the
release keeps nearly all). The file cannot tell it: three-way terms need more records than a release is worth. Intervals
before and after perturbation allow for it; standard errors do not."""


@dataclass(frozen=True, slots=True)
class Tau:
    """An estimate with its standard error, bias and 95% interval; all None where they were not computed.

    The text is the estimate less its bias, where the interval is centred. The interval is cut to what is possible.

    >>> str(Tau(0.4, 0.15, 0.25, (0.0, 0.444)))
    '0.2 (95% 0.0 to 0.4)'
    >>> str(Tau(1250.0))
    '1,250'
    """

    value: float
    standard_error: float | None = None
    bias: float | None = None
    interval: tuple[float, float] | None = None

    def __str__(self) -> str:
        if self.interval is None:
            return f"{self.value:,.1f}".removesuffix(".0")
        return f"{self.corrected:,.1f} (95% {self.interval[0]:,.1f} to {self.interval[1]:,.1f})"

    @property
    def corrected(self) -> float:
        """The value less its bias, within the interval; the value itself where they were not computed."""
        if self.interval is None:
            return self.value
        low, high = self.interval
        return min(max(self.value - (self.bias or 0.0), low), high)


def is_told_by_estimates(uniques: int) -> bool:
    """Return whether τ1 and τ2 of so few sample uniques, which can be no more, would tell how many there are.

    >>> is_told_by_estimates(4), is_told_by_estimates(5)
    (True, False)
    """
    return 0 < uniques < SMALL


def unique_risk(mu: FloatArray, pi: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    """Return ``P(F=1 | f=1)`` and ``E(1/F | f=1)`` of sample uniques.

    With ``λ = μ/π`` and ``x = λ(1−π)`` these are ``exp(−x)`` and ``(1 − exp(−x))/x`` (SS §2.1). ``mu`` is the expected
    *sample* frequency, ``pi`` the inclusion probability; both (m,). Where ``π = 1`` both risks are 1.

    Examples
    --------
    >>> r1, r2 = unique_risk(np.array([0.05]), 0.05)
    >>> round(float(r1[0]), 4), round(float(r2[0]), 4)
    (0.3867, 0.6456)
    """
    x = mu / pi * (1 - pi)
    return np.exp(-x), exprel(x)


def exprel(x: FloatArray) -> FloatArray:
    """Return ``φ(x) = (1 − e^−x)/x``, which is 1 at 0."""
    safe = np.where(x > 0, x, 1.0)
    return np.where(x > 0, -np.expm1(-safe) / safe, 1.0)


def exprel_slopes(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ``φ'(x)`` and ``φ''(x)``; below 0.01 their series, where the closed forms cancel."""
    small = x < 1e-2
    safe = np.where(small, 1.0, x)
    decay = np.exp(-safe)
    first = (decay * (1 + safe) - 1) / safe**2
    second = (2 - decay * (safe * (safe + 2) + 2)) / safe**3
    first = np.where(small, -1 / 2 + x * (1 / 3 + x * (-1 / 8 + x / 30)), first)
    return first, np.where(small, 1 / 3 + x * (-1 / 4 + x * (1 / 10 - x / 36)), second)


def inverse_variance(x: FloatArray) -> FloatArray:
    """Return the variance of ``1/F`` for ``F = 1 + Poisson(x)``: ``e^−x (Ei(x) − ln x − γ)/x − φ(x)²``."""
    safe = np.clip(x, 1e-3, 500.0)
    square = np.exp(-safe) * (scipy.special.expi(safe) - np.log(safe) - np.euler_gamma) / safe
    square = np.where(x < 1e-3, 1 - 3 * x / 4, np.where(x > 500, 1 / np.maximum(x, 1.0) ** 2, square))
    variance: FloatArray = np.maximum(square - exprel(x) ** 2, 0.0)
    return variance


def estimate(fit: LogLinearFit, cells: CellTable, pi: FloatArray | float) -> tuple[Tau, Tau]:
    """Return ``τ1`` and ``τ2`` of a fitted model, with standard errors, biases and intervals.

    ``pi`` is the inclusion probability, a number or an array over the occupied cells (C,). The standard error has two
    parts: that of the population given the model, ``Σ r1(1−r1)`` and ``Σ Var(1/F | f=1)``, and that of the fitted
    ``β`` by the delta method, ``g'(X' diag(μ) X)^-1 g``. The interval is centred at the value less its second-order
    bias: a cell with ``f = 1`` pulls its own fitted value up, so that flexible models understate the risk. It allows
    for ``MODEL_ERROR``, and knows no more of whether the model is right: see ``modelchoice``. Of a perturbed file:
    ``perturbed.estimate``.
    """
    unique = cells.uniques
    codes, pi = cells.codes[unique], np.broadcast_to(pi, cells.counts.shape)[unique]
    mu = fit.at(codes)
    x = mu / pi * (1 - pi)
    r1, r2 = np.exp(-x), exprel(x)
    curvature = Curvature.of(fit, codes, mu)
    first, second = exprel_slopes(x)
    return (
        _tau(r1, r1 * (1 - r1), -x * r1, x * (x - 1) * r1, curvature, MODEL_ERROR[0]),
        _tau(r2, inverse_variance(x), x * first, x * (x * second + first), curvature, MODEL_ERROR[1]),
    )


def _tau(
    risk: FloatArray,
    variance: FloatArray,
    slope: FloatArray,
    bend: FloatArray,
    curvature: Curvature | None,
    model_error: float,
) -> Tau:
    """``slope`` and ``bend`` are the first two derivatives of the risk with respect to ``η = ln μ``."""
    value = float(risk.sum())
    if curvature is None:
        return Tau(value)
    error = math.sqrt(float(variance.sum()) + curvature.variance(slope))
    bias = curvature.bias(slope, bend)
    centre, most = value - bias, float(risk.size)
    half = NORMAL_95 * math.hypot(error, model_error * max(centre, 0.0))
    low, high = centre - half, centre + half
    return Tau(value, error, bias, (min(max(low, 0.0), most), min(max(high, 0.0), most)))


@dataclass(frozen=True, slots=True, eq=False)
class Curvature:
    """The inverse of ``A = X' diag(μ) X`` and what follows from it for the sample uniques."""

    covariance: FloatArray
    index: IntArray
    leverage: FloatArray
    eta_bias: FloatArray

    @classmethod
    def of(
        cls, fit: LogLinearFit, codes: IntArray, mu: FloatArray, covariance: FloatArray | None = None
    ) -> Curvature | None:
        """Return None where the matrix or the work on it would be too large; ``covariance`` is A^-1 if it is known."""
        sizes = margin_sizes(fit)
        if sizes is None:
            return None
        if covariance is None:
            covariance = inverse_information(fit, sizes)
        of_uniques, index = np.empty(mu.size), columns(fit, codes, sizes)
        loops.leverage(covariance, index, of_uniques)
        # Cox and Snell's bias of β, and the pull of a cell's own count f = 1 on its fitted value.
        score = np.zeros(sum(sizes))
        for place, part in in_parts(fit, sizes):
            of_cells = np.empty(len(part))
            loops.leverage(covariance, part, of_cells)
            add_into(score, part, fit.mu[place] * of_cells)
        beta_bias = -(covariance @ score) / 2
        return cls(covariance, index, of_uniques, beta_bias[index].sum(axis=1) + (1 - mu) * of_uniques)

    def variance(self, slope: FloatArray) -> float:
        """Return the variance of ``Σ slope_j η^_j``."""
        gradient = np.zeros(self.covariance.shape[0])
        add_into(gradient, self.index, slope)
        return max(float(gradient @ self.covariance @ gradient), 0.0)

    def bias(self, slope: FloatArray, bend: FloatArray) -> float:
        """Return the second-order bias of the sum of risks."""
        return float((slope * self.eta_bias + bend * self.leverage / 2).sum())


def margin_sizes(fit: LogLinearFit) -> list[int] | None:
    """Return the number of cells of each margin; None where the errors would take too much memory or time."""
    sizes = [math.prod(fit.shape[j] for j in margin) for margin in fit.margins]
    many = sum(sizes) > MAX_PARAMETERS or len(sizes) * fit.mu.size > MAX_ENTRIES
    return None if many or not fit.complete else sizes


def columns(fit: LogLinearFit, codes: IntArray, sizes: list[int]) -> IntArray:
    """Return the columns of X that are one in each cell's row, shape (cells, margins)."""
    columns, edges = list(codes.T), np.cumsum([0, *sizes])
    found = np.empty((codes.shape[0], len(sizes)), dtype=np.int32)
    for m, margin in enumerate(fit.margins):
        found[:, m] = margin_index(columns, fit.shape, margin)
        found[:, m] += edges[m]
    return found


def in_parts(fit: LogLinearFit, sizes: list[int]) -> Iterator[tuple[slice, IntArray]]:
    """Yield the columns of X of the fitted cells, see :func:`columns`, in parts: those of all cells fill the memory."""
    for start in range(0, fit.mu.size, PART):
        place = slice(start, start + PART)
        yield place, columns(fit, fit.cells[place], sizes)


def add_into(gradient: FloatArray, index: IntArray, values: FloatArray) -> None:
    """Add ``X' values`` to the gradient, X having a one in each column that its row of ``index`` names."""
    for column in index.T:
        gradient += np.bincount(column, weights=values, minlength=gradient.size)


def inverse_information(fit: LogLinearFit, sizes: list[int]) -> FloatArray:
    """Return an inverse of ``A = X' diag(μ) X``.

    The columns of X, one for each margin cell, are dependent; gradients lie in their span, so that a ridge far below
    the diagonal makes the inverse exist and leaves quadratic forms as they are.
    """
    size = sum(sizes)
    matrix = np.zeros((size, size))
    for place, part in in_parts(fit, sizes):
        loops.sum_products(part, fit.mu[place], matrix)
    upper = np.triu(matrix)
    whole = upper + np.triu(upper, 1).T
    diagonal = whole.diagonal()
    whole[np.diag_indices(size)] += 1e-9 * diagonal + 1e-10 * float(diagonal.max()) * (diagonal == 0) + 1e-12
    linalg = scipy.linalg  # loaded here: the limit is for what is loaded already
    with threadpool_limits(1, "blas"):  # on processors that are busy more threads wait for each other
        factor = linalg.cho_factor(whole, overwrite_a=True)
        inverse: FloatArray = linalg.cho_solve(factor, np.eye(size, order="F"), overwrite_b=True)
    return inverse.T  # it is symmetric, and so its rows are in the order that the loops want
