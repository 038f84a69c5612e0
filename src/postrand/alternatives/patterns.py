"""What local suppression can choose: for each kind of record, which of its key values are suppressed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.risk.cells import KeyCodes, cell_numbers, table

Ints = NDArray[np.int64]
MOST_CHOICES = 2_000_000
"""Choices that are looked at; with more, records lose few or all of their values, and nothing between."""


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """Hold U kinds of records (one combination of key values, and of the sensitive value) and their O choices.

    A choice o suppresses ``cost[o]`` values of the records of kind ``kind[o]``: those of ``masks[pattern[o]]``. Then
    they show what all records of the class ``group[o]`` show. ``counts`` (U,) are the records of each kind,
    ``values`` (U,) their sensitive values, -1 where it is missing, ``record_kind`` (n,) the kind of each record.
    ``is_whole`` tells whether every choice is there. A class needs ``k`` records with ``diversity`` sensitive values.
    """

    counts: Ints
    values: Ints
    record_kind: Ints
    kind: Ints
    pattern: Ints
    group: Ints
    cost: Ints
    masks: NDArray[np.bool_]
    k: int
    diversity: int
    is_whole: bool

    @property
    def groups(self) -> int:
        """How many classes there are, open or not."""
        return int(self.group.max(initial=-1)) + 1

    def holds(self, records: NDArray[np.float64] | Ints) -> NDArray[np.bool_]:
        """Return which classes have records and diversity enough, from the number of records of each choice, (O,)."""
        size = np.bincount(self.group, weights=records, minlength=self.groups)
        if self.diversity <= 1:
            return size >= self.k
        there = (records > 0) & (self.values[self.kind] >= 0)
        pairs = np.unique(np.stack([self.group[there], self.values[self.kind[there]]]), axis=1)
        return (size >= self.k) & (np.bincount(pairs[0], minlength=self.groups) >= self.diversity)

    def take(self, kept: NDArray[np.bool_], is_whole: bool) -> Choices:
        """Return some of the choices; classes are numbered anew."""
        _, group = np.unique(self.group[kept], return_inverse=True)
        held = (self.kind[kept], self.pattern[kept], group, self.cost[kept])
        common = (self.counts, self.values, self.record_kind)
        return Choices(*common, *held, self.masks, self.k, self.diversity, is_whole)

    def least(self) -> Ints:
        """Return the fewest values that a record of each kind can lose, if all others help it, (U,)."""
        found = np.full(self.counts.size, np.iinfo(np.int64).max)
        np.minimum.at(found, self.kind, self.cost)
        return found


def choices_of(keys: KeyCodes, sensitive: Ints, k: int, diversity: int) -> Choices:
    """Return the choices that classes of all records together allow; -1 is a value that the file does not have.

    Raises
    ------
    UsageError
        As :class:`postrand.risk.cells.KeyCodes`.
    """
    cells = table(keys)
    size = int(sensitive.max(initial=0)) + 1
    both = table(KeyCodes(("cell", "value"), (cells.counts.size, size), (cells.record_cell, sensitive)))
    codes = cells.codes[both.codes[:, 0]]
    masks = _with_last(np.array(list(_masks(len(keys.names), MOST_CHOICES // max(len(codes), 1))), dtype=bool), codes)
    kinds, patterns, rows = [], [], []
    for number, mask in enumerate(masks):
        at = np.flatnonzero((codes[:, mask] >= 0).all(axis=1))
        kinds.append(at)
        patterns.append(np.full(at.size, number))
        rows.append(np.where(mask, -1, codes[at]))
    shown = np.concatenate(rows).astype(np.int64) + 1
    numbers, _ = cell_numbers(list(shown.T), [size + 1 for size in keys.shape])
    _, group = np.unique(numbers, return_inverse=True)
    kind, pattern = np.concatenate(kinds), np.concatenate(patterns)
    held = (kind, pattern, group, masks.sum(axis=1)[pattern], masks, k, diversity, len(masks) == 2 ** len(keys.names))
    every = Choices(both.counts, both.codes[:, 1].astype(np.int64), both.record_cell.astype(np.int64), *held)
    return every.take(every.holds(every.counts[kind])[every.group], every.is_whole)


def _with_last(masks: NDArray[np.bool_], codes: Ints) -> NDArray[np.bool_]:
    """Return masks with those by which records that miss values lose all others, so that every kind has a choice."""
    have = {mask.tobytes() for mask in masks}
    lacking = [mask for mask in np.unique(codes >= 0, axis=0) if mask.tobytes() not in have]
    return np.concatenate([masks, np.stack(lacking)]) if lacking else masks


def _masks(keys: int, most: int) -> Iterator[tuple[bool, ...]]:
    """Yield which keys are suppressed, the fewest first; all of them even where there are too many."""
    given = 0
    for size in range(keys + 1):
        for chosen in itertools.combinations(range(keys), size):
            if given >= most and size < keys:
                continue
            given += 1
            yield tuple(j in chosen for j in range(keys))
