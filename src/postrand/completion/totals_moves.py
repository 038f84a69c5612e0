"""Move as few records as needed to other possible true values, so that totals are met exactly."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.completion.diagnostics_tables import Places
from postrand.completion.raking import Target
from postrand.completion.totals import Totals, forbidden
from postrand.errors import EstimationError, UsageError, sentence
from postrand.mixture import Draw, Evidence, Law

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
MOST_CELLS = 3_000
"""Cells of all variables whose totals hang together; the whole numbers that meet them are found by a program."""
SHARE = 40
"""Records that are looked at for each one to move, at least 2,000."""


def meet(
    codes: NDArray[np.int32], evidence: Evidence, draw: Draw, totals: Totals, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Return true codes (n, J) that meet all totals exactly, from ones that nearly do.

    Records move from cells with too many to cells with too few, drawn by the odds of the new true record given the
    release and the parameters. What is known of a record stays, and every record stays possible.

    Raises
    ------
    UsageError
        If no table of whole numbers meets all totals, or their variables have too many cells together.
    EstimationError
        If no choice among the records' possible true values meets them.
    """
    codes = codes.copy()
    for tables in components(totals.tables):
        places = tuple(sorted({p for table in tables for p in table.places}))
        goal = _goal(codes, evidence, tables, places)
        _Moving(codes, evidence, draw, places, rng).reach(goal)
    return codes


def components(tables: Sequence[Target]) -> list[list[Target]]:
    """Return the tables in groups that share variables."""
    groups: list[list[Target]] = []
    for table in tables:
        touching = [g for g in groups if any(set(t.places) & set(table.places) for t in g)]
        groups = [g for g in groups if g not in touching]
        groups.append([table, *itertools.chain(*touching)])
    return groups


def _goal(codes: NDArray[np.int32], evidence: Evidence, tables: Sequence[Target], places: Places) -> Ints:
    """Return the counts of all cells of some variables that meet the tables, as near to the present ones as can be."""
    shape = [evidence.sizes[p] for p in places]
    size = math.prod(shape)
    if len(tables) == 1:
        order = [tables[0].places.index(p) for p in places]
        return np.asarray(np.round(tables[0].counts.transpose(order).ravel()), np.int64)
    names = ", ".join(evidence.names[p] for p in places)
    if size > MOST_CELLS:
        fix = "give totals of fewer variables that overlap"
        raise UsageError(sentence("the totals hang together in too large a table", where=names, got=size, fix=fix))
    now = np.bincount(_cells(codes, places, shape), minlength=size)
    known = evidence.exact[:, list(places)]
    fixed = np.bincount(_cells(known[(known >= 0).all(axis=1)], tuple(range(len(places))), shape), minlength=size)
    sums = scipy.sparse.csr_array(np.concatenate([_sums(table, places, shape) for table in tables]))
    wanted = np.concatenate([table.counts.ravel() for table in tables])
    eye = scipy.sparse.csr_array(np.eye(size))
    free = scipy.sparse.csr_array(sums.shape)
    # Variables: the new counts, and how far each is above and below the present one.
    constraints = [
        scipy.optimize.LinearConstraint(scipy.sparse.hstack([sums, free, free]), wanted, wanted),
        scipy.optimize.LinearConstraint(scipy.sparse.hstack([eye, -eye, eye]), now, now),
    ]
    top = np.where(forbidden(evidence, places).ravel(), 0.0, np.inf)
    found = scipy.optimize.milp(
        np.concatenate([np.zeros(size), np.ones(2 * size)]),
        constraints=constraints,
        integrality=np.concatenate([np.ones(size), np.zeros(2 * size)]),
        bounds=scipy.optimize.Bounds(
            np.concatenate([fixed, np.zeros(2 * size)]), np.concatenate([top, np.full(2 * size, np.inf)])
        ),
        options={"time_limit": 60.0},
    )
    if found.x is None:
        fix = "compare the totals with each other and with the rules"
        raise UsageError(sentence("no file meets all of the totals", where=names, fix=fix))
    return np.asarray(np.round(found.x[:size]), np.int64)


def _sums(table: Target, places: Places, shape: Sequence[int]) -> Array:
    """Return the 0/1 matrix that sums all cells into those of one table."""
    cells = np.array(np.unravel_index(np.arange(math.prod(shape)), shape))
    own = np.ravel_multi_index(tuple(cells[places.index(p)] for p in table.places), table.counts.shape)
    out = np.zeros((table.counts.size, cells.shape[1]))
    out[own, np.arange(cells.shape[1])] = 1.0
    return out


def _cells(codes: NDArray[np.int32], places: Sequence[int], shape: Sequence[int]) -> Ints:
    return np.asarray(np.ravel_multi_index(tuple(codes[:, p] for p in places), shape), np.int64)


class _Moving:
    """Moves records between the cells of some variables, all others as they are; changes ``codes``."""

    def __init__(
        self, codes: NDArray[np.int32], evidence: Evidence, draw: Draw, places: Places, rng: np.random.Generator
    ) -> None:
        self.codes, self.evidence, self.draw, self.places, self.rng = codes, evidence, draw, places, rng
        self.shape = [evidence.sizes[p] for p in places]
        self.size = math.prod(self.shape)
        self.cell = _cells(codes, places, self.shape)
        self.parts = np.array(np.unravel_index(np.arange(self.size), self.shape)).T
        self.laws = [k for k, law in enumerate(evidence.laws) if set(law.variables) & set(places)]
        self.where = {k: _lookup(evidence.laws[k], evidence.sizes) for k in self.laws}

    def reach(self, goal: Ints) -> None:
        """Move records until every cell has as many as wanted."""
        left = goal - np.bincount(self.cell, minlength=self.size)
        for cell in np.argsort(left, kind="stable").tolist():
            if left[cell] >= 0:
                break
            self._from(cell, left)
        while (left < 0).any():
            self._along(self._path(left), left)

    def _from(self, cell: int, left: Ints) -> None:
        """Move records out of one cell to those with too few, by their odds; some can be left over."""
        many, to = int(-left[cell]), np.flatnonzero(left > 0)
        records = self._some(cell, max(SHARE * many, 2_000))
        odds = self._odds(records, to)
        scores = odds - np.log(-np.log(self.rng.random(odds.shape)))
        order = np.argsort(-scores, axis=None, kind="stable")[: int(np.isfinite(scores).sum())]
        used = np.zeros(len(records), bool)
        for i, v in zip(*np.unravel_index(order, scores.shape), strict=True):
            if not used[i] and left[to[v]] > 0:
                used[i] = True
                self._move(int(records[i]), int(to[v]))
                left[to[v]] -= 1
                left[cell] += 1
                if left[cell] == 0:
                    return

    def _path(self, left: Ints) -> list[int]:
        """Return the shortest chain of cells, from one with too many to one with too few, that records can follow."""
        start = np.flatnonzero(left < 0).tolist()
        before: dict[int, int] = dict.fromkeys(start, -1)
        queue = deque(start)
        while queue:
            cell = queue.popleft()
            records = self._some(cell, self.cell.size)
            unseen = np.array([v for v in range(self.size) if v not in before], np.int64)
            if not len(records) or not len(unseen):
                continue
            for v in unseen[np.isfinite(self._odds(records, unseen)).any(axis=0)].tolist():
                before[v] = cell
                if left[v] > 0:
                    path = [v]
                    while before[path[-1]] >= 0:
                        path.append(before[path[-1]])
                    return path[::-1]
                queue.append(v)
        names = ", ".join(self.evidence.names[p] for p in self.places)
        what = "no choice among the records' possible true values meets the totals"
        raise EstimationError(sentence(what, where=names, fix="compare the totals with the release"))

    def _along(self, path: Sequence[int], left: Ints) -> None:
        """Move one record along each step of a chain."""
        for cell, to in itertools.pairwise(path):
            records = self._some(cell, self.cell.size)
            scores = self._odds(records, np.array([to]))[:, 0]
            scores = scores - np.log(-np.log(self.rng.random(len(scores))))
            self._move(int(records[np.argmax(scores)]), to)
        left[path[0]] += 1
        left[path[-1]] -= 1

    def _some(self, cell: int, many: int) -> Ints:
        records = np.flatnonzero(self.cell == cell)
        return records if len(records) <= many else np.sort(self.rng.choice(records, many, replace=False))

    def _move(self, record: int, cell: int) -> None:
        self.cell[record] = cell
        self.codes[record, list(self.places)] = self.parts[cell]

    def _odds(self, records: Ints, to: Ints) -> Array:
        """Return the log of each record's probability in each cell over the present one, −inf where impossible."""
        here, parts = self.codes[records], self.parts[to]
        now = here[:, list(self.places)]
        share = self._shares(here, parts, now)
        with np.errstate(divide="ignore"):
            odds = np.log(share[:, :-1]) - np.log(np.maximum(share[:, -1:], 1e-300))
            odds += np.log(self._released(records, here, parts)) - np.log(self._released(records, here, None))
        known = self.evidence.exact[records][:, list(self.places)]
        odds[((known[:, None] >= 0) & (known[:, None] != parts[None])).any(axis=2)] = -np.inf
        odds[self._broken(here, parts)] = -np.inf
        return np.asarray(odds)

    def _shares(self, here: NDArray[np.int32], parts: Ints, now: NDArray[np.int32]) -> Array:
        """Return the model's share of each record with other codes, (n, cells), and as it is, in the last column."""
        draw = self.draw
        rest = [j for j in range(here.shape[1]) if j not in self.places]
        log = np.log(draw.weights + 1e-300) + sum(
            (np.log(draw.theta[j][:, here[:, j]].T + 1e-300) for j in rest), np.zeros((len(here), len(draw.weights)))
        )
        weight = np.exp(log - log.max(axis=1, keepdims=True))
        cells, own = np.ones((len(draw.weights), len(parts))), np.ones(weight.shape)
        for k, p in enumerate(self.places):
            cells = cells * draw.theta[p][:, parts[:, k]]
            own = own * draw.theta[p][:, now[:, k]].T
        return np.concatenate([weight @ cells, (weight * own).sum(axis=1, keepdims=True)], axis=1)

    def _released(self, records: Ints, here: NDArray[np.int32], parts: Ints | None) -> Array:
        """Return the probability of what was released of each record, in each cell, or (n, 1) as it is."""
        evidence = self.evidence
        out = np.ones((len(records), 1 if parts is None else len(parts)))
        at = np.concatenate([np.arange(evidence.start[r], evidence.start[r + 1]) for r in records] or [records])
        row = np.repeat(np.arange(len(records)), evidence.start[records + 1] - evidence.start[records])
        for number in self.laws:
            mine = np.flatnonzero(evidence.law[at] == number)
            if not mine.size:
                continue
            law, rows, released = evidence.laws[number], row[mine], evidence.released[at[mine]]
            for k in range(out.shape[1]):
                true = here[rows][:, list(law.variables)].copy()
                for place, p in enumerate(law.variables):
                    if parts is not None and p in self.places:
                        true[:, place] = parts[k, self.places.index(p)]
                shape = [evidence.sizes[p] for p in law.variables]
                cell = self.where[number][np.ravel_multi_index(tuple(true.T), shape)]
                out[rows, k] *= np.where(cell >= 0, _chance(law, cell, released), 0.0)
        return out

    def _broken(self, here: NDArray[np.int32], parts: Ints) -> NDArray[np.bool_]:
        """Return whether a rule forbids a record in a cell, (n, cells)."""
        out = np.zeros((len(here), len(parts)), bool)
        for rule in self.evidence.rules:
            rest = np.ones(len(here), bool)
            for j in range(here.shape[1]):
                if j not in self.places:
                    rest &= rule[j, here[:, j]]
            marked = np.all([rule[p, parts[:, k]] for k, p in enumerate(self.places)], axis=0)
            out |= rest[:, None] & marked
        return out


def _chance(law: Law, cell: Ints, released: NDArray[np.int32]) -> Array:
    if law.matrix is not None:
        return np.asarray(law.matrix[cell, released])
    return np.asarray(law.keep * (cell == released) + law.noise[released])


def _lookup(law: Law, sizes: Sequence[int]) -> Ints:
    """Return the number of each combination of a law's variables among its cells, -1 where it cannot occur."""
    shape = [sizes[p] for p in law.variables]
    out = np.full(math.prod(shape), -1, np.int64)
    out[_cells(law.cells, tuple(range(len(shape))), shape)] = np.arange(len(law.cells))
    return out
