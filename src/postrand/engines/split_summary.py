"""Count the released records of a split: how many show each subset, and in which of its cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.data.households import identities, together
from postrand.engines.cells import Cells
from postrand.errors import DataError, sentence
from postrand.mechanism import Split
from postrand.mechanism.split_sampling import grouped
from postrand.mechanism.split_shown import subsets_shown

_WAITING = 1 << 20
MAX_AMONG, MAX_AMONG_COUNTS = 45, 1 << 16
"""Variables beside the split by whose values the subsets are counted, and counts of each."""


class SplitCounter:
    """Add up batches; ``records`` (T,) and ``cells``, (K_T,) for each subset, are the counts so far.

    A missing value that is kept is in no cell, but its record shows the subset. ``among[name]`` (S, T) are the records
    that show each subset, by the released values of a variable that is not in the split. ``members`` adds up the
    households of which one member shows a subset; None where every record shows one.
    """

    __slots__ = ("_cells", "_sizes", "_split", "among", "cells", "members", "records")

    def __init__(self, split: Split, codebook: Codebook) -> None:
        self._split, self.members = split, MemberCounter() if split.of_members else None
        self._sizes = {name: codebook[name].size for name in split.variables}
        self._cells = [Cells.of(block, codebook) for block in split.blocks]
        self.records = np.zeros(len(split.subsets), dtype=np.int64)
        self.cells = [np.zeros(block.matrix.size, dtype=np.int64) for block in split.blocks]
        beside = [v for v in codebook.variables if v.is_categorical and v.name not in split.variables]
        small = [v for v in beside if v.size * self.records.size <= MAX_AMONG_COUNTS][:MAX_AMONG]
        self.among = {v.name: np.zeros((v.size, self.records.size), dtype=np.int64) for v in small}

    def add(self, codes: Mapping[str, NDArray[Any]], households: pa.Array | None = None) -> None:
        """Count the released codes (n,) of a batch; ``households`` are their numbers, where one member shows a subset.

        Raises
        ------
        DataError
            If a record shows no subset of the split, or a combination that is not a cell of its subset.
        """
        shown = subsets_shown(codes, self._split, self._sizes)
        held = np.full(shown.size, -1, dtype=np.int32)
        who = shown < self.records.size
        self.records += np.bincount(shown[who], minlength=self.records.size)
        for name, counts in self.among.items():
            place = codes[name].astype(np.int64) * self.records.size + shown
            counts += np.bincount(place[(codes[name] >= 0) & who], minlength=counts.size).reshape(counts.shape)
        for k, at in grouped(shown, self.records.size + 1):
            if k == self.records.size:
                continue
            cells = self._cells[k]
            found = cells.find({name: codes[name][at] for name in cells.names})
            if cells.table is not None and (found < 0).any():
                what = "the release contains a combination that is not a cell of the subset"
                raise DataError(sentence(what, where=f"subset {' × '.join(cells.names)!r}"))
            self.cells[k] += np.bincount(found[found >= 0], minlength=self.cells[k].size)
            held[at] = found
        if self.members is not None:
            assert households is not None
            self.members.add(households, np.where(who, shown.astype(np.int32), np.int32(-1)), held)

    def weighed(self) -> tuple[NDArray[np.int64], ...]:
        """Return the sums of the records of the households in each cell and of their squares, (2, K_t) by subset.

        Nothing where every record shows a subset. Raises as :meth:`MemberCounter.found`.
        """
        if self.members is None:
            return ()
        sizes, shown, cells = self.members.found()
        made = []
        for k, counts in enumerate(self.cells):
            at = np.flatnonzero((shown == k) & (cells >= 0))
            total = np.zeros((2, counts.size), dtype=np.int64)
            for power in (1, 2):
                np.add.at(total[power - 1], cells[at], sizes[at].astype(np.int64) ** power)
            made.append(total)
        return tuple(made)


class MemberCounter:
    """Add up records by household: how many there are, how many show a subset, which one, and what is in it."""

    def __init__(self) -> None:
        self._held: list[NDArray[Any]] = []
        self._alone: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
        self._waiting: list[list[NDArray[Any]]] = []

    def add(self, column: pa.Array, shown: NDArray[np.int32], cells: NDArray[np.int32]) -> None:
        """Add records (n,): their household numbers, the place of the subset that each shows, -1 for none, its cell."""
        names, there = identities(column, "households")
        self._alone.append((shown[~there], cells[~there]))
        ones = np.ones(int(there.sum()), dtype=np.int32)
        self._waiting.append(
            _by_household([names[there], ones, (shown[there] >= 0).astype(np.int32), shown[there], cells[there]])
        )
        held = self._held[0].size if self._held else 0
        if sum(one[0].size for one in self._waiting) > max(held, _WAITING):
            self._merge()

    def _merge(self) -> None:
        parts = [*([self._held] if self._held else []), *self._waiting]
        if parts:
            self._held = _by_household([np.concatenate(columns) for columns in zip(*parts, strict=True)])
        self._waiting = []

    def found(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return of each household its records, the subset that its member shows, and the cell.

        Raises
        ------
        DataError
            If a household has not exactly one member that shows a subset.
        """
        self._merge()
        none = np.zeros(0, dtype=np.int32)
        _, sizes, showing, shown, cells = self._held or [none] * 5
        alone = [np.concatenate([none, *column]) for column in zip(*self._alone, strict=True)] or [none, none]
        if not (showing == 1).all() or not (alone[0] >= 0).all():
            what = "not every household has exactly one member that shows a subset of the split"
            raise DataError(sentence(what, fix="do not use this release: its members were not chosen as it says"))
        ones = np.ones(alone[0].size, dtype=np.int32)
        pairs = ((sizes, ones), (shown, alone[0]), (cells, alone[1]))
        a, b, c = (np.concatenate(pair) for pair in pairs)
        return a, b, c


def _by_household(columns: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return one row for each name, ascending: sums of the first two columns after it, the largest of the others."""
    order, first, _ = together(columns[0])
    names, *rest = (column[order] for column in columns)
    if not first.size:
        return [names, *rest]
    sums = [np.add.reduceat(column, first) for column in rest[:2]]
    return [names[first], *sums, *(np.maximum.reduceat(column, first) for column in rest[2:])]
