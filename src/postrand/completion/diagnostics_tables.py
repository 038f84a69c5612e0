"""What the records show of a table: counts of released cells, and the law that each count was seen through."""

from __future__ import annotations

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
EXACT, HIDDEN = -1, -2
"""Where a value comes from, if from no law: it is known, or nothing is released of it."""
MOST_CELLS = 2_000
"""Tables and laws of more cells are not compared: their inverse would take gigabytes."""
MOST_NUMBERS = 4_000_000
"""Numbers that a draw's table may take while it is made: classes times cells."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Hold one axis of a released table: ``to_released`` (K, R) from the true cells of ``places`` to the released ones.

    ``places`` are the variables whose true cells are needed, ``kept`` those of them in the table, and ``cells`` (K, V)
    the codes of the true cells. ``inverse`` (L, R): what each released cell says, without bias, of the table's cells.
    ``shown`` (R,) is the table's cell that a released one looks like.
    """

    places: Places
    kept: Places
    cells: NDArray[np.int32]
    to_released: Array | None
    inverse: Array | None
    shown: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Hold the records that show a table in one way: counts of released cells, one axis for each of ``axes``.

    ``given`` are known places and codes which all these records share, and which their laws depend on. ``subset`` are
    the places that the records show: which records show what does not depend on their true values.
    """

    axes: tuple[Axis, ...]
    counts: Array
    given: tuple[tuple[int, int], ...]
    subset: Places

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
        n, variables = evidence.exact.shape
        source = np.where(evidence.exact >= 0, EXACT, HIDDEN).astype(np.int32)
        self._cell = evidence.exact.copy()
        record = np.repeat(np.arange(n), np.diff(evidence.start))
        for number, law in enumerate(evidence.laws):
            at = np.flatnonzero(evidence.law == number)
            source[np.ix_(record[at], law.variables)] = number
            self._cell[np.ix_(record[at], law.variables)] = evidence.released[at][:, None]
        self._patterns, which = np.unique(source, axis=0, return_inverse=True)
        self._order = np.argsort(which.ravel(), kind="stable")
        self._ends = np.concatenate([[0], np.cumsum(np.bincount(which.ravel(), minlength=len(self._patterns)))])
        self._axes: dict[tuple[int, Places], Axis] = {}

    @cached_property
    def _given(self) -> dict[int, tuple[tuple[int, int], ...]]:
        """The known codes that all records of a law share, for laws that others on the same variables stand beside."""
        evidence, found = self.evidence, {}
        alike = [law.variables for law in evidence.laws]
        record = np.repeat(np.arange(evidence.records), np.diff(evidence.start))
        for number, law in enumerate(evidence.laws):
            at = record[evidence.law == number]
            if alike.count(law.variables) < 2 or not at.size:
                continue
            low, high = evidence.exact[at].min(axis=0), evidence.exact[at].max(axis=0)
            found[number] = tuple((j, int(low[j])) for j in np.flatnonzero((low == high) & (low >= 0)).tolist())
        return found

    def shows(self, places: Places) -> bool:
        """Return whether any record shows all of these variables."""
        return bool((self._patterns[:, list(places)] != HIDDEN).all(axis=1).any())

    def records(self, places: Places) -> int:
        """Return how many records show all of these variables."""
        shown = (self._patterns[:, list(places)] != HIDDEN).all(axis=1)
        return int(np.diff(self._ends)[shown].sum())

    def compares(self, places: Places) -> bool:
        """Return whether a table is small enough to be compared."""
        return math.prod(self.evidence.sizes[p] for p in places) <= MOST_CELLS

    def perturbed(self, places: Places) -> bool:
        """Return whether any record shows one of these variables through a law."""
        return bool((self._patterns[:, list(places)] >= 0).any())

    def groups(self, places: Places) -> Iterator[Group]:
        """Yield the records that show all of some variables, by the laws that they were seen through."""
        for number, pattern in enumerate(self._patterns):
            sources = [int(pattern[p]) for p in places]
            at = self._order[self._ends[number] : self._ends[number + 1]]
            if HIDDEN in sources or not at.size:
                continue
            axes, index, shape = [], np.zeros(len(at), np.int64), []
            given: dict[int, int] = {}
            for axis, first, marginal in self._axes_of(places, sources):
                size = len(axis.shown)
                cell = self._cell[at, first].astype(np.int64)
                index = index * size + (cell if marginal is None else marginal[cell])
                axes.append(axis)
                shape.append(size)
            for source in set(sources):
                given |= dict(self._given.get(source, ()))
            counts = np.bincount(index, minlength=math.prod(shape)).reshape(shape).astype(np.float64)
            subset = tuple(np.flatnonzero(pattern != HIDDEN).tolist())
            yield Group(tuple(axes), counts, tuple(sorted(given.items())), subset)

    def _axes_of(self, places: Places, sources: Sequence[int]) -> Iterator[tuple[Axis, int, NDArray[np.int64] | None]]:
        """Yield each axis, the place where its released cells stand, and which cell of the axis each of these is."""
        done = set()
        for place, source in zip(places, sources, strict=True):
            if source in done:
                continue
            if source == EXACT:
                yield exact_axis(place, self.evidence.sizes[place]), place, None
                continue
            done.add(source)
            kept = tuple(p for p, s in zip(places, sources, strict=True) if s == source)
            law = self.evidence.laws[source]
            if (source, kept) not in self._axes:
                self._axes[source, kept] = law_axis(law, kept, self.evidence.sizes)
            axis = self._axes[source, kept]
            yield axis, place, _cells(law, kept, self.evidence.sizes) if law.matrix is None else None


def exact_axis(place: int, size: int) -> Axis:
    """Return the axis of a variable that is known."""
    cells = np.arange(size, dtype=np.int32)[:, None]
    return Axis((place,), (place,), cells, None, None, np.arange(size))


def law_axis(law: Law, kept: Places, sizes: Sequence[int]) -> Axis:
    """Return the axis of some variables of a law; all its true cells are needed where it is any matrix.

    Of ``M = keep I + 1 noiseᵀ`` the law of the kept variables has the same form, with the noise summed; its inverse is
    ``(I − 1 noiseᵀ) / keep``. The inverse is None where the law says nothing, or not enough.
    """
    shape = [sizes[p] for p in kept]
    into, size = _cells(law, kept, sizes), math.prod(shape)
    if law.matrix is None:
        noise = np.bincount(into, law.noise, size)
        cells = np.array(np.unravel_index(np.arange(size), shape), np.int32).T
        inverse = (np.eye(size) - noise[:, None]) / law.keep if law.keep > 0 else None
        return Axis(kept, kept, cells, law.keep * np.eye(size) + noise, inverse, np.arange(size))
    project = np.zeros((len(law.cells), size))
    project[np.arange(len(into)), into] = 1.0
    return Axis(law.variables, kept, law.cells, law.matrix, _solved(law.matrix, project), into)


def _solved(matrix: Array, wanted: Array) -> Array | None:
    """Return C (L, R) with ``matrix Cᵀ = wanted``, or None where there is none, or only one of rounding errors."""
    if max(matrix.shape) > MOST_CELLS:
        return None
    found, *_ = np.linalg.lstsq(matrix, wanted, rcond=1e-10)
    return np.ascontiguousarray(found.T) if np.allclose(matrix @ found, wanted, atol=1e-8) else None


def _cells(law: Law, kept: Places, sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return the table's cell of each cell of a law."""
    codes = [law.cells[:, law.variables.index(p)] for p in kept]
    return np.asarray(np.ravel_multi_index(codes, [sizes[p] for p in kept]), np.int64)


def arranged(values: Array, axes: Sequence[Axis], places: Places, sizes: Sequence[int]) -> Array:
    """Return a tensor over the kept cells of each axis as an array with one axis for each place, in their order."""
    kept = [p for axis in axes for p in axis.kept]
    return np.ascontiguousarray(values.reshape([sizes[p] for p in kept]).transpose([kept.index(p) for p in places]))


def expected(draws: Sequence[Draw], groups: Sequence[Group], sizes: Sequence[int]) -> list[list[Array]] | None:
    """Return the released counts that each draw expects of each group, through its laws; None where too large."""
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
    if math.prod(sizes[p] for p in (*free, *given)) * len(draw.weights) > MOST_NUMBERS:
        return None
    table = draw.table((*free, *given))[(..., *given.values())]
    table = table / table.sum()
    whole = np.zeros([sizes[p] for p in places])
    whole[tuple(given[p] if p in given else slice(None) for p in places)] = table
    index, shape = [], []
    for axis in group.axes:
        own = [sizes[p] for p in axis.places]
        index.append(np.ravel_multi_index(tuple(axis.cells.T), own))
        shape.append(math.prod(own))
    possible = whole.reshape(shape)[np.ix_(*index)]
    return np.asarray(possible / possible.sum())
