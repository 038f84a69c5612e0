"""What each key adds to the risk of a file: the risk without it, and with half of its categories."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from postrand.errors import UsageError
from postrand.risk.cells import CellTable, IntArray, KeyCodes, table
from postrand.risk.measures.base import first, wildcards

CLASS_ENDS = (1, 2, 4, 9, 19, 49, 99, 499)
"""The largest class of each bar of a histogram of class sizes; the last bar has all larger ones."""


@dataclass(frozen=True, slots=True)
class SizeBin:
    """The classes of ``low`` to ``high`` records, ``high`` None for no end: how many, and the records in them."""

    low: int
    high: int | None
    classes: int
    records: int


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of the risk on some keys: sample uniques, and the correct matches of the informed attacker.

    Without perturbation one link of each class is expected to be right, so that ``links`` is the number of classes.
    """

    uniques: int
    links: int


@dataclass(frozen=True, slots=True)
class KeyPart:
    """What one key adds: the risk ``without`` it, and with ``halved`` categories; None where it has two or fewer."""

    name: str
    categories: int
    without: Left
    halved: Left | None


@dataclass(frozen=True, slots=True)
class KeyParts:
    """Hold the risk on all keys together, what each key adds to it, and the histogram of class sizes."""

    together: Left
    parts: tuple[KeyPart, ...]
    sizes: tuple[SizeBin, ...]


def key_parts(cells: CellTable, ordered: Collection[str] = ()) -> KeyParts:
    """Return what each key adds to sample uniques and correct matches, the key without which fewest are left first.

    A key is halved as an office would recode it first: of ``ordered`` keys neighbouring categories are merged in pairs,
    of others the half with the fewest records becomes one. All figures come from the occupied cells: no record is read.

    Raises
    ------
    UsageError
        If a missing key matches all others.

    Examples
    --------
    >>> keys = KeyCodes(("sex", "age"), (2, 3), (np.array([0, 0, 1, 1]), np.array([0, 1, 2, 2])))
    >>> found = key_parts(table(keys))
    >>> found.together, found.parts[0].name, found.parts[0].without
    (Left(uniques=2, links=3), 'age', Left(uniques=0, links=2))
    """
    if (problem := first((bool((cells.codes < 0).any()), lambda: wildcards("the risk without a key")))) is not None:
        raise UsageError(problem)
    columns = [cells.codes[:, j] for j in range(len(cells.names))]
    parts = []
    for j, name in enumerate(cells.names):
        size = cells.shape[j]
        halved = None
        if size > 2:
            merged = _halves(columns[j], cells.counts, size, name in ordered)
            halved = _left(cells, [*columns[:j], merged, *columns[j + 1 :]])
        parts.append(KeyPart(name, size, _left(cells, [*columns[:j], *columns[j + 1 :]]), halved))
    order = sorted(parts, key=lambda part: (part.without.links, part.without.uniques))
    together = Left(int(cells.uniques.sum()), int(cells.counts.size))
    return KeyParts(together, tuple(order), tuple(size_bins(cells)))


def size_bins(cells: CellTable) -> Iterator[SizeBin]:
    """Yield the histogram of class sizes: the classes of each range, and the records in them."""
    edges = (0, *CLASS_ENDS)
    bar = np.searchsorted(CLASS_ENDS, cells.counts)
    classes = np.bincount(bar, minlength=len(edges))
    records = np.bincount(bar, weights=cells.counts, minlength=len(edges))
    for k, low in enumerate(edges):
        high = CLASS_ENDS[k] if k < len(CLASS_ENDS) else None
        yield SizeBin(low + 1, high, int(classes[k]), int(records[k]))


def _halves(codes: IntArray, counts: IntArray, size: int, is_ordered: bool) -> IntArray:
    """Return the codes of a key with half of its categories: ``ceil(size / 2)`` of them at most."""
    if is_ordered:
        return codes // 2
    held = np.bincount(codes, weights=counts, minlength=size)
    kept = np.argsort(-held, kind="stable")[: (size + 1) // 2 - 1]
    new = np.full(size, kept.size)
    new[kept] = np.arange(kept.size)
    return new[codes]


def _left(cells: CellTable, columns: list[IntArray]) -> Left:
    """Return what is left on these columns, one code of each for each occupied cell."""
    if not columns:
        return Left(int(cells.counts.sum() == 1), 1 if cells.counts.size else 0)
    shape = tuple(int(column.max(initial=0)) + 1 for column in columns)
    merged = table(KeyCodes(tuple(map(str, range(len(columns)))), shape, tuple(columns)))
    counts = np.bincount(merged.record_cell, weights=cells.counts)
    return Left(int((counts == 1).sum()), int(merged.counts.size))
