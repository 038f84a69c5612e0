"""The links that a release of an unperturbed file is expected to leave right, by draws with common random numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from postrand.mechanism import Mechanism
from postrand.risk import loglinear, modelchoice, tau
from postrand.risk.cells import CellTable, FloatArray, IntArray, KeyCodes, cell_numbers, table
from postrand.risk.law import KeyLaw
from postrand.risk.readings import inverse_population
from postrand.risk.weights import cell_inclusion

Summary = tuple[float, float, float, float, float]
"""Risk, its standard error, an upper bound for one release, information kept, and the share of records unchanged."""

SURE = 1.6449


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedMatches:
    """Hold an unperturbed file with ``E(1/F | f)``, or ``P(F=1 | f)``, of each of its cells: ``risk`` (C,).

    ``error`` is the relative standard error of the unperturbed file's measure: that of the population and the fitted
    parameters, and the allowance for the model's own error that the intervals of ``tau`` have.
    """

    keys: KeyCodes
    cells: CellTable
    risk: FloatArray
    error: float

    @classmethod
    def of(
        cls,
        keys: KeyCodes,
        measure: Literal["tau1", "tau2"],
        fraction: float | None,
        weights: FloatArray | None,
        model: loglinear.Model,
    ) -> ExpectedMatches:
        """Fit the model to the file; ``weights`` (n,) or the ``fraction`` give the inclusion probabilities."""
        return cls.both(keys, fraction, weights, model)[measure == "tau2"]

    @classmethod
    def both(
        cls, keys: KeyCodes, fraction: float | None, weights: FloatArray | None, model: loglinear.Model
    ) -> tuple[ExpectedMatches, ExpectedMatches]:
        """Return those of τ1 and of τ2 from one fit; the arguments are those of :meth:`of`."""
        cells = table(keys)
        pi: FloatArray | float = fraction if fraction is not None else 1.0
        if weights is not None:
            pi = cell_inclusion(cells, weights)
        average = keys.records / float((cells.counts / pi).sum())
        if model == "search" and average < 1:
            fit = modelchoice.choose(cells, average).fit
        else:
            fit = loglinear.fit(cells, "two-way" if model == "search" else model, tolerance=1e-3)
        mu = fit.at(cells.codes)
        alone = np.where(cells.uniques, tau.unique_risk(mu, pi)[0], 0.0)
        risks = alone, inverse_population(cells.counts, mu, pi)
        found = zip(risks, tau.estimate(fit, cells, pi), tau.MODEL_ERROR, strict=True)
        one, two = (cls._corrected(keys, cells, *each) for each in found)
        return one, two

    @classmethod
    def _corrected(
        cls, keys: KeyCodes, cells: CellTable, risk: FloatArray, found: tau.Tau, model_error: float
    ) -> ExpectedMatches:
        if not found.value > 0:
            return cls(keys, cells, risk, 0.0)
        # The second-order bias of the unperturbed measure is taken to be that of every release.
        share = found.corrected / found.value
        error = (found.standard_error or 0.0) / found.corrected if found.corrected > 0 else 0.0
        whole = math.hypot(error, model_error)  # as the interval of `assess`
        return cls(keys, cells, np.minimum(risk * share, 1.0), whole)

    def unperturbed(self) -> Summary:
        """Return the summary of the file as it is."""
        risk = float(self.risk[self.cells.uniques].sum())
        law = KeyLaw.of(None, self.keys.names, self.keys.shape)
        return risk, 0.0, risk * (1 + SURE * self.error), information(law, self.cells), 1.0

    def under(self, mechanism: Mechanism, draws: int, seed: int) -> Summary:
        """Return the summary of a release.

        Given the other records' released keys, a record's link is right with probability ``M[x,x] E(1/F_x | f_x)`` if
        none of them is released in its cell, else 0: the average over draws of its sum is the risk.
        """
        mechanism.require_no_split("the search for a level, whose draws must be the same at every level,")
        law = KeyLaw.of(mechanism, self.keys.names, self.keys.shape)
        rows = law.groups(self.cells.codes)
        stay = law.diagonal(self.cells.codes)
        totals = _drawn(self.cells, law, rows, [stay * self.risk], draws, seed)[:, 0]
        mean, error = float(totals.mean()), float(totals.std(ddof=1) / math.sqrt(draws))
        # One release: who stays adds at most a Poisson variance, each match counting 1 or less.
        one = math.sqrt(float(totals.var(ddof=1)) + mean + (mean * self.error) ** 2)
        unchanged = float((stay * self.cells.counts).sum() / max(self.keys.records, 1))
        return mean, error, mean + SURE * one, information(law, self.cells), unchanged


def left_right(held: Sequence[ExpectedMatches], mechanism: Mechanism, draws: int, seed: int) -> list[float]:
    """Return the mean of :meth:`ExpectedMatches.under` for several measures of one file, from the same draws."""
    keys, cells = held[0].keys, held[0].cells
    law = KeyLaw.of(mechanism, keys.names, keys.shape)
    rows, stay = law.groups(cells.codes), law.diagonal(cells.codes)
    totals = _drawn(cells, law, rows, [stay * one.risk for one in held], draws, seed)
    return [float(column.mean()) for column in totals.T]


def _drawn(
    cells: CellTable, law: KeyLaw, rows: IntArray, chances: Sequence[FloatArray], draws: int, seed: int
) -> FloatArray:
    """Return the expected matches given each draw of the released keys, for each chance of the cells, (draws, m)."""
    found = np.empty((draws, len(chances)))
    for d in range(draws):
        alone = _alone(cells, law, rows, seed + d)
        found[d] = [float(chance[alone].sum()) for chance in chances]
    return found


def _alone(cells: CellTable, law: KeyLaw, rows: IntArray, seed: int) -> IntArray:
    """Return the true cell of each record that would be alone in it, if it stayed, in one draw of the released keys."""
    home = rows[cells.record_cell]
    rng = np.random.default_rng([seed, 20])
    released = np.empty_like(home)
    for b, matrix in enumerate(law.matrices):
        released[:, b] = _moved(matrix, home[:, b], rng)
    sizes = tuple(m.shape[0] for m in law.matrices)
    both = cell_numbers(tuple(np.concatenate([released, rows]).T), sizes)[0]
    shown, own = both[: home.shape[0]], both[home.shape[0] :]
    ordered = np.sort(shown)
    there = np.searchsorted(ordered, own, "right") - np.searchsorted(ordered, own, "left")
    cell = cells.record_cell
    alone: IntArray = cell[there[cell] == (shown == own[cell])]
    return alone


def _moved(matrix: FloatArray, rows: IntArray, rng: np.random.Generator) -> IntArray:
    """Draw released codes so that a code stays for a uniform number below ``M[x,x]``, whatever the rest of the law."""
    stays, where = rng.random(rows.size), rng.random(rows.size)
    off = matrix * (1 - np.eye(matrix.shape[0]))
    total = off.sum(axis=1, keepdims=True)
    ladder = np.cumsum(np.divide(off, total, out=np.zeros_like(off), where=total > 0), axis=1)
    moving = np.flatnonzero(stays >= matrix[rows, rows])
    found = rows.copy()
    steps = ladder + np.arange(matrix.shape[0])[:, None]
    place = np.searchsorted(steps.ravel(), rows[moving] + where[moving], side="right") - rows[moving] * matrix.shape[0]
    last = matrix.shape[0] - 1 - np.argmax(off[:, ::-1] > 0, axis=1)
    found[moving] = np.minimum(place, last[rows[moving]])
    return found


def information(law: KeyLaw, cells: CellTable) -> float:
    """Return ``Σ I(X;Z)`` over the groups of keys, in nats, with the file's own frequencies."""
    rows = law.groups(cells.codes)
    total = 0.0
    for b, M in enumerate(law.matrices):
        p = np.bincount(rows[:, b], weights=cells.counts, minlength=M.shape[0]) / max(float(cells.counts.sum()), 1.0)
        q = p @ M
        ratio = np.divide(M, q, out=np.ones_like(M), where=(q > 0) & (M > 0))
        total += float((p[:, None] * M * np.log(ratio)).sum())
    return total
