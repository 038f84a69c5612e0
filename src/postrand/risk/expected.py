"""The links that a release of an unperturbed file is expected to leave right, by draws with common random numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from postrand.errors import UsageError, sentence
from postrand.mechanism import Mechanism
from postrand.risk import loglinear, modelchoice, tau
from postrand.risk.cells import CellTable, FloatArray, IntArray, KeyCodes, cell_numbers, table
from postrand.risk.law import KeyLaw, Members
from postrand.risk.readings import inverse_population
from postrand.risk.weights import cell_inclusion
from postrand.support import loops

Summary = tuple[float, float, float, float, float]
"""Risk, its standard error, an upper bound for one release, information kept, and the share of records unchanged."""

SURE = 1.6449


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedMatches:
    """Hold an unperturbed file with ``E(1/F | f)``, or ``P(F=1 | f)``, of each of its cells: ``risk`` (C,).

    ``error`` is the relative standard error of the unperturbed file's measure: that of the population and the fitted
    parameters, and the allowance for the model's own error that the intervals of ``tau`` have.
    ``members`` are the units whose records share draws.
    """

    keys: KeyCodes
    cells: CellTable
    risk: FloatArray
    error: float
    members: Members = field(default_factory=dict)

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
        none of them is released in its cell, else 0: the average over draws of its sum is the risk. Where its household
        shares draws, "others" are those of other households, and the probability that no member of its own is
        released in the cell is exact: see :func:`apart`.
        """
        mechanism.require_no_split("the search for a level, whose draws must be the same at every level,")
        law = KeyLaw.of(mechanism, self.keys.names, self.keys.shape)
        together = outermost(law, self.members)
        rows, cell = law.groups(self.cells.codes), self.cells.record_cell
        stay = law.diagonal(self.cells.codes)
        chance, many = (stay * self.risk)[cell], 1
        if together is not None:
            chance, many = chance * apart(law, rows[cell], together), int(np.bincount(together).max(initial=1))
        totals = _drawn(self.cells, law, rows, [chance], draws, seed, self.members)[:, 0]
        mean, error = float(totals.mean()), float(totals.std(ddof=1) / math.sqrt(draws))
        # One release: who stays adds at most a Poisson variance, each match counting 1 or less; of a unit that shares
        # draws all can stay together.
        one = math.sqrt(float(totals.var(ddof=1)) + mean * many + (mean * self.error) ** 2)
        unchanged = float((stay * self.cells.counts).sum() / max(self.keys.records, 1))
        return mean, error, mean + SURE * one, information(law, self.cells), unchanged


def left_right(held: Sequence[ExpectedMatches], law: KeyLaw, draws: int, seed: int) -> list[float]:
    """Return the mean of :meth:`ExpectedMatches.under` for several measures of one file, from the same draws of a law.

    Without ``members`` all draws are taken as independent.
    """
    cells, members = held[0].cells, held[0].members
    rows, cell = law.groups(cells.codes), cells.record_cell
    stay = law.diagonal(cells.codes)[cell]
    if members and (together := outermost(law, members)) is not None:
        stay = stay * apart(law, rows[cell], together)
    totals = _drawn(cells, law, rows, [stay * one.risk[cell] for one in held], draws, seed, members)
    return [float(column.mean()) for column in totals.T]


def outermost(law: KeyLaw, members: Members) -> IntArray | None:
    """Return the numbers of the units within which draws are shared, shape (n,); None where none are.

    Raises
    ------
    UsageError
        If the numbers of a unit are not given, or some keys are drawn for persons and others for households: members
        of one's household then share draws with one another too.
    """
    units = {unit for unit, matrix in zip(law.units, law.matrices, strict=True) if unit != "record" and len(matrix) > 1}
    if not units:
        return None
    if len(units) > 1:
        what, fix = "some keys are drawn for persons and others for households", "search for a level without one unit"
        raise UsageError(sentence(what, fix=fix))
    (unit,) = units
    if unit not in members:
        what = f"keys are drawn once for a {unit}, and its numbers are not given"
        raise UsageError(sentence(what, fix="give units=Units(...), as the mechanism has them"))
    return members[unit]


def apart(law: KeyLaw, rows: IntArray, together: IntArray) -> FloatArray:
    """Return the probability that no other record of one's unit is released in one's cell, if all keys stay, (n,).

    If those of record i stay, so do the shared ones of all its unit. The others are drawn apart: ``Π_m (1 − Π_b
    M_b[x_m, x_i])`` over the unit's other records m and the groups b that are not shared.
    """
    found, order = np.ones(together.size), np.argsort(together, kind="stable")
    sorted_units = together[order]
    for distance in range(1, together.size):
        pairs = np.flatnonzero(sorted_units[distance:] == sorted_units[:-distance])
        if not pairs.size:
            break
        for i, other in ((order[pairs], order[pairs + distance]), (order[pairs + distance], order[pairs])):
            near = np.ones(pairs.size)
            for b, matrix in enumerate(law.matrices):
                own, theirs = rows[i, b], rows[other, b]
                near *= matrix[theirs, own] if law.units[b] == "record" else theirs == own
            found[i] *= 1 - near
    return found


def _drawn(
    cells: CellTable,
    law: KeyLaw,
    rows: IntArray,
    chances: Sequence[FloatArray],
    draws: int,
    seed: int,
    members: Members,
) -> FloatArray:
    """Return the expected matches given each draw of the released keys, for each chance of the records, (draws, m)."""
    found = np.empty((draws, len(chances)))
    for d in range(draws):
        alone = _alone(cells, law, rows, seed + d, members)
        found[d] = [float(chance[alone].sum()) for chance in chances]
    return found


def _alone(cells: CellTable, law: KeyLaw, rows: IntArray, seed: int, members: Members) -> IntArray:
    """Return the records that would be alone in their cell, if they stayed, in one draw of the released keys.

    Of members, who share draws, those of other units count alone.
    """
    rng, cell, columns = np.random.default_rng([seed, 20]), cells.record_cell, []
    sizes = tuple(m.shape[0] for m in law.matrices)
    for b, matrix in enumerate(law.matrices):
        true = rows[:, b].astype(np.min_scalar_type(-sizes[b]))  # records are many: a byte each, for most keys
        released = _moved(matrix, true.take(cell), rng, members.get(law.units[b]))
        columns.append(np.concatenate([released, true]))
    both = cell_numbers(columns, sizes)[0]
    shown, own = both[: cell.size], both[cell.size :]
    there = _count(shown, own, math.prod(sizes))
    together = outermost(law, members) if members else None
    inside = (shown == own[cell]) if together is None else _inside(shown, own[cell], together)
    alone: IntArray = np.flatnonzero(there[cell] == inside)
    return alone


def _inside(shown: IntArray, own: IntArray, together: IntArray) -> IntArray:
    """Return how many records of each one's unit are released in its own cell, (n,)."""
    _, cell = np.unique(np.concatenate([shown, own]), return_inverse=True)
    number = np.tile(together, 2) * (int(cell.max()) + 1) + cell
    return _count(number[: shown.size], number[shown.size :])


def _count(values: IntArray, of: IntArray, size: int | None = None) -> IntArray:
    """Return how often each number is among values; all are below ``size``, if it is given."""
    if size is not None and size <= 4 * values.size + 1000:
        return np.bincount(values, minlength=size)[of]
    ordered = np.sort(values)
    found: IntArray = np.searchsorted(ordered, of, "right") - np.searchsorted(ordered, of, "left")
    return found


def _moved(matrix: FloatArray, rows: IntArray, rng: np.random.Generator, of: IntArray | None) -> IntArray:
    """Draw released codes so that a code stays for a uniform number below ``M[x,x]``, whatever the rest of the law.

    ``of`` (n,) numbers the units whose records have one draw; None: each has its own.
    """
    drawn = rng.random((2, rows.size))
    drawn = drawn if of is None else np.ascontiguousarray(drawn[:, of])
    size = matrix.shape[0]
    off = matrix * (1 - np.eye(size))
    total = off.sum(axis=1, keepdims=True)
    ladder = np.cumsum(np.divide(off, total, out=np.zeros_like(off), where=total > 0), axis=1)
    last = size - 1 - np.argmax(off[:, ::-1] > 0, axis=1)
    found = rows.copy()
    loops.move_codes(found, drawn, matrix.diagonal().copy(), ladder + np.arange(size)[:, None], last.astype(np.int64))
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
