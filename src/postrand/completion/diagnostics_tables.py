"""What the records show of a table: counts of released cells, and the law that each count was seen through."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from postrand.estimate.axes import apply
from postrand.mixture import Draw, Evidence, Law

Array = NDArray[np.float64]
Places = tuple[int, ...]
Codes = tuple[tuple[int, int], ...]
EXACT, HIDDEN = -1, -2
"""Where a value comes from, if from no law: it is known, or nothing is released of it."""
PARTS = 24
"""Parts that the records are divided into, at random."""
MOST_CELLS = 2_000
"""Tables and laws of more cells are not compared: their inverse would take gigabytes."""
MOST_NUMBERS = 4_000_000
"""Numbers that a draw's table may take while it is made: classes times cells."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Hold one axis of a released table: ``to_released`` (K, R) from the true cells of ``places`` to the released ones.

    ``places`` are the variables whose true cells are needed, ``kept`` those of them in the table, and ``cells`` (K, V)
    the codes of the true cells. ``inverse`` (L, R): what each released cell says, without bias, of the table's cells.
    ``shown`` (R,) is the table's cell that a released one looks like; ``marginal`` the released cell of the axis that a
    released cell of the whole law belongs to, None where the axis has them all.
    """

    places: Places
    kept: Places
    cells: NDArray[np.int32]
    to_released: Array | None
    inverse: Array | None
    shown: NDArray[np.int64]
    marginal: NDArray[np.int64] | None

    @property
    def released(self) -> int:
        """The number R of released cells."""
        return len(self.shown)


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Hold the records that show a table in one way: counts of released cells, one axis for each of ``axes``.

    ``parts`` (B, ...) are the counts of B parts of the file, each record in one drawn at random: they tell how counts
    of several tables vary together. ``given`` are the places and codes which all these records have, and which
    their laws depend on. ``subset`` is the number of the set of variables that they show: which they show does not
    depend on their true values. ``expects``: what a model expects of the counts can be computed.
    """

    axes: tuple[Axis, ...]
    counts: Array
    parts: Array
    given: Codes
    subset: int
    expects: bool

    @property
    def records(self) -> float:
        """The number of records."""
        return float(self.counts.sum())

    @property
    def identified(self) -> bool:
        """Whether every law of the table has an inverse."""
        return all(axis.to_released is None or axis.inverse is not None for axis in self.axes)


class Seen:
    """Count what the records of the evidence show of any table; made once, asked for many tables."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        source = np.where(evidence.exact >= 0, EXACT, HIDDEN).astype(np.int32)
        self._cell = evidence.exact.copy()
        record = np.repeat(np.arange(evidence.records), np.diff(evidence.start))
        for number, law in enumerate(evidence.laws):
            at = np.flatnonzero(evidence.law == number)
            places = np.array(law.variables, np.intp)
            source[np.ix_(record[at], places)] = number
            self._cell[np.ix_(record[at], places)] = evidence.released[at][:, None]
        self._patterns, which = np.unique(source, axis=0, return_inverse=True)
        self._order = np.argsort(which.ravel(), kind="stable")
        self._ends = np.concatenate([[0], np.cumsum(np.bincount(which.ravel(), minlength=len(self._patterns)))])
        _, self._subset = np.unique(self._patterns != HIDDEN, axis=0, return_inverse=True)
        self._part = np.random.default_rng(0).integers(PARTS, size=evidence.records)
        self._axes: dict[tuple[int, Places], Axis] = {}

    @cached_property
    def _given(self) -> dict[tuple[int, int], Codes]:
        """The known codes that records share because of where a value comes from, by (source, place).

        A law of one stratum stands beside others on the same variables: its records share the stratum. A value that is
        known in some records alone (a missing value that is kept, a category released unchanged) is a reason too.
        """
        found: dict[tuple[int, int], Codes] = {}
        alike = [law.variables for law in self.evidence.laws]
        sources = {(int(s), j) for j in range(self._patterns.shape[1]) for s in np.unique(self._patterns[:, j])}
        for source, place in sources:
            others = {s for s, j in sources if j == place and s != source}
            beside = EXACT in others or (source >= 0 and alike.count(alike[source]) > 1)
            if source == HIDDEN or not others or not (source == EXACT or beside):
                continue
            rows = self.evidence.exact[self._records(self._patterns[:, place] == source)]
            low, high = rows.min(axis=0), rows.max(axis=0)
            found[source, place] = tuple((j, int(low[j])) for j in np.flatnonzero((low == high) & (low >= 0)).tolist())
        return found

    @cached_property
    def _blind(self) -> set[int]:
        """The laws, and EXACT, whose records were chosen by something that the evidence does not have."""
        blind: set[int] = set()
        for (source, place), shared in self._given.items():
            known = self.evidence.exact[:, place]
            known = known[known >= 0]
            one = known.size > 0 and (known == known[0]).all()  # a missing value that is kept is a reason by itself
            if not shared and not one:
                blind.add(source)
        return blind

    @cached_property
    def _chosen(self) -> set[int]:
        """The laws that were chosen by what another law released: what is expected of their records is not computed.

        Laws on the same variables are so where the records of each show cells of another law which those of the others
        never show.
        """
        found: set[int] = set()
        alike: dict[Places, list[int]] = {}
        for number, law in enumerate(self.evidence.laws):
            alike.setdefault(law.variables, []).append(number)
        found |= self._blind
        for laws in alike.values():
            at = [self._records((self._patterns == law).any(axis=1)) for law in laws]
            used = [(law, rows) for law, rows in zip(laws, at, strict=True) if rows.size]
            for place in range(len(self.evidence.sizes)):
                cells = [set(self._cell[rows, place].tolist()) for _, rows in used]
                hidden = any(-1 in codes for codes in cells)
                known = all((self.evidence.exact[rows, place] >= 0).all() for _, rows in used)
                apart = sum(map(len, cells)) == len(set().union(*cells))
                if len(used) > 1 and apart and not hidden and not known:
                    found |= {law for law, _ in used}
        return found

    def _records(self, patterns: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the numbers of the records of some patterns."""
        ends = zip(self._ends[:-1][patterns], self._ends[1:][patterns], strict=True)
        return np.concatenate([self._order[a:b] for a, b in ends] or [self._order[:0]])

    def shows(self, places: Places) -> bool:
        """Return whether any record shows all of these variables."""
        return bool(self._showing(places).any())

    def records(self, places: Places) -> int:
        """Return how many records show all of these variables."""
        return int(np.diff(self._ends)[self._showing(places)].sum())

    def compares(self, places: Places) -> bool:
        """Return whether a table is small enough to be compared."""
        return math.prod(self.evidence.sizes[p] for p in places) <= MOST_CELLS

    def perturbed(self, places: Places) -> bool:
        """Return whether any record shows one of these variables through a law."""
        return bool((self._patterns[:, list(places)] >= 0).any())

    def _showing(self, places: Places) -> NDArray[np.bool_]:
        return np.asarray((self._patterns[:, list(places)] != HIDDEN).all(axis=1))

    def groups(self, places: Places) -> Iterator[Group]:
        """Yield the records that show all of some variables, by the laws that they were seen through."""
        for group, *_ in self.located(places):
            yield group

    def located(self, places: Places) -> Iterator[tuple[Group, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the same groups with the numbers of their records, and the released cell of each in C order."""
        showing = np.flatnonzero(self._showing(places))
        sources = self._patterns[showing][:, list(places)]
        ways = np.concatenate([sources, self._subset.ravel()[showing][:, None]], axis=1)
        for way in np.unique(ways, axis=0):
            chosen = np.zeros(len(self._patterns), bool)
            chosen[showing[(ways == way).all(axis=1)]] = True
            yield self._group(places, [int(s) for s in way[:-1]], int(way[-1]), self._records(chosen))

    def _group(
        self, places: Places, sources: Sequence[int], subset: int, at: NDArray[np.int64]
    ) -> tuple[Group, NDArray[np.int64], NDArray[np.int64]]:
        axes, shape, index = [], [], np.zeros(len(at), np.int64)
        for axis, first in self._axes_of(places, sources):
            cell = self._cell[at, first].astype(np.int64)
            index = index * axis.released + (cell if axis.marginal is None else axis.marginal[cell])
            axes.append(axis)
            shape.append(axis.released)
        given: dict[int, int] = {}
        for source, place in zip(sources, places, strict=True):
            given |= dict(self._given.get((source, place), ()))
        size, expects = math.prod(shape), self._chosen.isdisjoint(sources)
        parts = np.bincount(self._part[at] * size + index, minlength=PARTS * size).reshape([PARTS, *shape])
        counts, shared = parts.sum(axis=0).astype(np.float64), tuple(sorted(given.items()))
        return Group(tuple(axes), counts, parts.astype(np.float64), shared, subset, expects), at, index

    def _axes_of(self, places: Places, sources: Sequence[int]) -> Iterator[tuple[Axis, int]]:
        """Yield each axis, and the place where its released cells stand."""
        done = set()
        for place, source in zip(places, sources, strict=True):
            if source in done:
                continue
            if source == EXACT:
                yield exact_axis(place, self.evidence.sizes[place]), place
                continue
            done.add(source)
            kept = tuple(p for p, s in zip(places, sources, strict=True) if s == source)
            law = self.evidence.laws[source]
            if (source, kept) not in self._axes:
                self._axes[source, kept] = law_axis(law, kept, self.evidence.sizes)
            yield self._axes[source, kept], place


def exact_axis(place: int, size: int) -> Axis:
    """Return the axis of a variable that is known."""
    cells = np.arange(size, dtype=np.int32)[:, None]
    return Axis((place,), (place,), cells, None, None, np.arange(size), None)


def law_axis(law: Law, kept: Places, sizes: Sequence[int]) -> Axis:
    """Return the axis of some variables of a law; all its true cells are needed where it is any matrix.

    Of ``M = keep I + 1 noiseᵀ`` the law of the kept variables has the same form, with the noise summed; its inverse is
    ``(I − 1 noiseᵀ) / keep``. The inverse is None where the law says nothing, or not enough.
    """
    shape = [sizes[p] for p in kept]
    codes = law.cells[:, [law.variables.index(p) for p in kept]]
    into = np.asarray(np.ravel_multi_index(tuple(codes.T), shape), np.int64)
    size = math.prod(shape)
    if law.matrix is None:
        possible, marginal = np.unique(into, return_inverse=True)
        noise = np.bincount(marginal, law.noise)
        cells = np.array(np.unravel_index(possible, shape), np.int32).T
        inverse = None
        if law.keep > 0:
            inverse = np.zeros((size, len(possible)))
            inverse[possible] = (np.eye(len(possible)) - noise[:, None]) / law.keep
        released = law.keep * np.eye(len(possible)) + noise
        return Axis(kept, kept, cells, released, inverse, possible, marginal)
    project = np.zeros((len(law.cells), size))
    project[np.arange(len(into)), into] = 1.0
    return Axis(law.variables, kept, law.cells, law.matrix, _solved(law.matrix, project), into, None)


def _solved(matrix: Array, wanted: Array) -> Array | None:
    """Return C (L, R) with ``matrix Cᵀ = wanted``, or None where there is none, or only one of rounding errors."""
    if max(matrix.shape) > MOST_CELLS:
        return None
    found, *_ = np.linalg.lstsq(matrix, wanted, rcond=1e-10)
    return np.ascontiguousarray(found.T) if np.allclose(matrix @ found, wanted, atol=1e-8) else None


def arranged(values: Array, axes: Sequence[Axis], places: Places, sizes: Sequence[int]) -> Array:
    """Return a tensor over the kept cells of each axis as an array with one axis for each place, in their order."""
    kept = [p for axis in axes for p in axis.kept]
    return np.ascontiguousarray(values.reshape([sizes[p] for p in kept]).transpose([kept.index(p) for p in places]))


def expected(draws: Sequence[Draw], groups: Sequence[Group], sizes: Sequence[int]) -> list[list[Array]] | None:
    """Return the released counts that each draw expects of each group, through its laws; None where it cannot."""
    if not all(group.expects for group in groups):
        return None
    found = []
    for draw in draws:
        made: dict[object, Array | None] = {}
        each = []
        for group in groups:
            key = (tuple((axis.places, len(axis.cells)) for axis in group.axes), group.given)
            if key not in made:
                made[key] = true_table(draw, group, sizes)
            true = made[key]
            if true is None:
                return None
            laws = [None if axis.to_released is None else axis.to_released.T for axis in group.axes]
            each.append(group.records * apply(laws, true))
        found.append(each)
    return found


def true_table(draw: Draw, group: Group, sizes: Sequence[int]) -> Array | None:
    """Return what a draw says of the true cells of a group's axes, given what its records share; None if too large."""
    given = dict(group.given)
    places = tuple(p for axis in group.axes for p in axis.places)
    free = tuple(p for p in places if p not in given)
    if math.prod(sizes[p] for p in free) * len(draw.weights) > MOST_NUMBERS:
        return None
    whole = np.zeros([sizes[p] for p in places])
    whole[tuple(given.get(p, slice(None)) for p in places)] = conditional(draw, group.given).table(free)
    index, shape = [], []
    for axis in group.axes:
        own = [sizes[p] for p in axis.places]
        index.append(np.ravel_multi_index(tuple(axis.cells.T), own))
        shape.append(math.prod(own))
    possible = whole.reshape(shape)[np.ix_(*index)]
    total = possible.sum()
    return np.asarray(possible / total if total > 0 else np.full(possible.shape, 1 / possible.size))


def conditional(draw: Draw, given: Codes) -> Draw:
    """Return the distribution of the records that have some codes."""
    weights, theta = draw.weights, list(draw.theta)
    for place, code in given:
        weights = weights * theta[place][:, code]
        theta[place] = np.zeros_like(theta[place])
        theta[place][:, code] = 1.0
    return dataclasses.replace(draw, weights=weights / max(float(weights.sum()), 1e-300), theta=tuple(theta))
