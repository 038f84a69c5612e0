"""Choice of the log-linear model by minimum error (Skinner and Shlomo 2008): B1, B2 and a forward search."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.errors import UsageError, sentence
from postrand.risk.cells import CellTable, FloatArray, IntArray, ravel
from postrand.risk.loglinear import LogLinearFit, Margins, fit
from postrand.risk.tau import exprel_slopes, unique_risk

SEARCH_TOLERANCE = 1e-2
SEARCH_ITERATIONS = 200
FINAL_ITERATIONS = 2000
"""Margins within 0.01 records tell one model from another: where many cells are empty, three-way terms have their
maximum at the boundary, which proportional fitting approaches slowly. The chosen model is fitted again for longer."""


@dataclass(frozen=True, slots=True)
class MinimumError:
    """The minimum-error statistics of ``τ1`` and ``τ2``, and their ratios to a standard deviation.

    They are test statistics of the model, not its error: ``z1`` is about standard normal where the model is right;
    above 0 it points to a ``τ1`` that is too high (the model underfits), below 0 to one that is too low (it overfits).
    ``b1`` is the second-order term of the error. It has the error's size only where ``λ^ − λ`` is small beside
    ``1/(1−π)`` in every cell; where the model is far off it is many times the error (under independence often 20),
    since the terms grow like the square of the misfit and the risks end at 1. The same for ``b2``, ``z2`` and ``τ2``.
    """

    b1: float
    z1: float
    b2: float
    z2: float


@dataclass(frozen=True, slots=True)
class Step:
    """One model of the search."""

    margins: Margins
    tau1: float
    tau2: float
    error: MinimumError


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The model chosen, and all models met in their order."""

    chosen: Step
    steps: tuple[Step, ...]
    fit: LogLinearFit


def minimum_error(found: LogLinearFit, cells: CellTable, pi: float) -> MinimumError:
    """Return B1 and B2 with their standard scores.

    For ``h(λ) = P(F=1|f=1)`` or ``E(1/F|f=1)`` the expected error ``Σ_j P(f_j=1) [h(λ^_j) − h(λ_j)]`` is expanded to
    second order and ``f_j − μ^_j``, ``(f_j − μ^_j)² − f_j`` put for the unknown differences::

        B = Σ_j μ_j e^(−μ_j) { −h'(λ_j) (f_j − μ_j)/π + h''(λ_j) [(f_j − μ_j)² − f_j]/(2π²) }

    For ``τ1`` this is ``Σ λ e^(−λ) (1−π) {(f−μ) + (1−π)[(f−μ)²−f]/(2π)}``. The sum is over all cells, empty ones too.
    The variance is that of Poisson frequencies with the fitted means.

    Raises
    ------
    UsageError
        If the fit does not hold every cell of its support, or ``pi`` is not in (0, 1).
    """
    if not found.complete or not 0 < pi < 1:
        raise UsageError(sentence("B1 and B2 need every cell of the model, and a fraction in (0, 1)", got=pi))
    frequency = np.zeros(found.mu.size)
    known = ravel(tuple(found.cells.T), found.shape)
    frequency[np.searchsorted(known, ravel(tuple(cells.codes.T), cells.shape))] = cells.counts
    mu, gap = found.mu, frequency - found.mu
    x = mu / pi * (1 - pi)
    odds = (1 - pi) / pi
    slope, bend = exprel_slopes(x)
    chance = mu * np.exp(-mu)
    scores = []
    for first, second in ((-np.exp(-x), np.exp(-x)), (slope, bend)):  # derivatives of h with respect to x
        a, b = -chance * first * odds, chance * second * odds**2 / 2
        total = float((a * gap + b * (gap**2 - frequency)).sum())
        deviation = math.sqrt(float((a**2 * mu + 2 * b**2 * mu**2).sum()))
        scores += [total, total / deviation if deviation else 0.0]
    return MinimumError(*scores)


def choose(cells: CellTable, pi: float, *, forbidden: Iterable[Mapping[str, int]] = (), order: int = 3) -> ModelChoice:
    """Search forward for the model whose minimum-error statistic of ``τ1`` is nearest to 0 in standard deviations.

    Starts from main effects, or from all two-way interactions where those still underfit (``z1 > 1.96``). Adds the
    interaction that the current model misses most, by its standardised likelihood ratio (three-way ones several at
    a time), until B1 changes sign or nothing significant is missed, and returns the model with the smallest ``|z1|``.

    Raises
    ------
    UsageError
        If the table is too large, or ``pi`` is not in (0, 1).
    """
    search = _Search(cells, pi, tuple(forbidden))
    variables = range(len(cells.names))
    pairs: list[tuple[int, ...]] = list(itertools.combinations(variables, 2))
    search.visit(tuple((j,) for j in variables))
    if search.underfits and pairs:
        start = search.last
        search.visit(tuple(pairs))
        if search.underfits and order >= 3:
            search.extend(pairs, list(itertools.combinations(variables, 3)), batch=20)
        else:
            search.last = start
            search.extend([], pairs, batch=len(pairs))
    steps = tuple(search.steps)
    best = min(range(len(steps)), key=lambda i: abs(steps[i].error.z1))
    refit = search.fit(steps[best].margins, SEARCH_TOLERANCE, FINAL_ITERATIONS, None)
    return ModelChoice(steps[best], steps, refit)


class _Search:
    """The models visited so far; the last fit is where the next one starts."""

    def __init__(self, cells: CellTable, pi: float, forbidden: tuple[Mapping[str, int], ...]) -> None:
        self.cells, self.pi, self.forbidden = cells, pi, forbidden
        self.steps: list[Step] = []
        self.last: LogLinearFit | None = None

    @property
    def underfits(self) -> bool:
        return self.steps[-1].error.z1 > 1.96

    def fit(self, margins: Margins, tolerance: float, most: int, start: LogLinearFit | None) -> LogLinearFit:
        names = [tuple(self.cells.names[j] for j in margin) for margin in margins]
        return fit(self.cells, names, forbidden=self.forbidden, tolerance=tolerance, max_iterations=most, start=start)

    def visit(self, margins: Margins) -> None:
        found = self.fit(margins, SEARCH_TOLERANCE, SEARCH_ITERATIONS, self.last)
        r1, r2 = unique_risk(found.at(self.cells.codes[self.cells.uniques]), self.pi)
        error = minimum_error(found, self.cells, self.pi)
        self.steps.append(Step(found.margins, float(r1.sum()), float(r2.sum()), error))
        self.last = found

    def extend(self, terms: list[tuple[int, ...]], rest: list[tuple[int, ...]], batch: int) -> None:
        """Add terms of ``rest`` to the model, in about ``batch`` steps at most."""
        many = math.ceil(len(rest) / batch)
        while rest:
            missed = {term: self._missed(term) for term in rest}
            best = sorted((t for t in rest if missed[t] > 1), key=lambda t: -missed[t])[:many]
            if not best:
                return
            terms = [*terms, *best]
            rest = [t for t in rest if t not in best]
            self.visit(tuple(terms))
            if self.steps[-1].error.z1 <= 0:
                return

    def _missed(self, term: tuple[int, ...]) -> float:
        """Return ``(G² − d)/sqrt(2d)`` of a margin under the current model."""
        assert self.last is not None
        shape = tuple(self.cells.shape[j] for j in term)
        size = math.prod(shape)
        expected = _sums(self.last.cells, self.last.mu, term, shape, size)
        observed = _sums(self.cells.codes, self.cells.counts, term, shape, size)
        held = observed > 0
        ratio = 2 * float((observed[held] * np.log(observed[held] / expected[held])).sum())
        freedom = max(1, math.prod(s - 1 for s in shape))
        return (ratio - freedom) / math.sqrt(2 * freedom)


def _sums(
    codes: IntArray, weights: NDArray[Any], term: tuple[int, ...], shape: tuple[int, ...], size: int
) -> FloatArray:
    number = ravel(tuple(codes[:, j] for j in term), shape)
    return np.asarray(np.bincount(number, weights=weights, minlength=size), dtype=np.float64)
