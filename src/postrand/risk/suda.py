"""Minimal sample uniques and their scores (SUDA; Elliot, Manning and Ford 2002)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.errors import UsageError, sentence
from postrand.risk.cells import CellTable, FloatArray, IntArray, KeyCodes, ravel, table

MAX_SUBSETS = 200_000


@dataclass(frozen=True, slots=True)
class KeySet:
    """A set of keys, the records that it singles out, and those of them that no part of it singles out."""

    names: tuple[str, ...]
    records: int
    minimal: int


@dataclass(frozen=True, slots=True, eq=False)
class Suda:
    """Hold the minimal sample uniques of n records on J keys.

    ``score`` (n,) sums ``Π_{i=k}^{M} (J−i)`` over a record's minimal sample uniques, k being the size of each and M
    the largest size below J that was searched; ``found`` (n,) is their number; ``smallest`` (n,) the size of the
    smallest, 0 where there is none. ``contribution`` has one entry for each key: the share of all scores that comes
    from minimal sample uniques with that key. ``sets`` are all sets that were searched, by size; ``first`` (n,) is the
    place there of a record's first minimal sample unique, -1 where it has none.
    """

    names: tuple[str, ...]
    max_size: int
    score: FloatArray
    found: IntArray
    smallest: IntArray
    contribution: FloatArray
    sets: tuple[KeySet, ...]
    first: IntArray


def suda(keys: KeyCodes, max_size: int | None = None) -> Suda:
    """Find every minimal sample unique of up to ``max_size`` keys (all sizes where None) and score the records.

    A set of keys is a sample unique of a record when no other record has its values on the set, and minimal when no
    proper subset is one. Sets are visited by size; a set is minimal where none of its subsets one smaller is unique.

    Raises
    ------
    UsageError
        If ``max_size`` is outside 1..J, there are more than 200,000 sets, or the keys have wildcards.

    Examples
    --------
    >>> keys = KeyCodes(("a", "b", "c"), (2, 2, 2), tuple(np.array([[0, 0, 0], [0, 0, 1], [1, 0, 0]]).T))
    >>> suda(keys).score.tolist(), suda(keys).smallest.tolist()
    ([1.0, 2.0, 2.0], [2, 1, 1])
    >>> suda(keys).sets[0]
    KeySet(names=('a',), records=1, minimal=1)
    """
    size = len(keys.names)
    largest = size if max_size is None else max_size
    if (found_wrong := problem(keys, largest)) is not None:
        raise UsageError(found_wrong)
    cells = table(keys)
    candidates = np.flatnonzero(cells.uniques)
    score, contribution = np.zeros(candidates.size), np.zeros(size)
    found, smallest = np.zeros((2, candidates.size), dtype=np.int64)
    first = np.full(candidates.size, -1, dtype=np.int64)
    sets: list[KeySet] = []
    for subset, unique, minimal in _searched(cells, candidates, largest):
        k = len(subset)
        worth = float(math.prod(size - i for i in range(k, min(largest, size - 1) + 1)))
        score += worth * minimal
        found += minimal
        smallest[minimal & (smallest == 0)] = k
        first[minimal & (first < 0)] = len(sets)
        contribution[list(subset)] += worth * minimal.sum()
        sets.append(KeySet(tuple(keys.names[j] for j in subset), int(unique.sum()), int(minimal.sum())))
    total = score.sum()
    contribution = contribution / total if total else contribution
    score, found, smallest = (_to_records(cells, candidates, values, 0) for values in (score, found, smallest))
    first = _to_records(cells, candidates, first, -1)
    return Suda(keys.names, largest, score, found, smallest, contribution, tuple(sets), first)


def _searched(
    cells: CellTable, candidates: IntArray, largest: int
) -> Iterator[tuple[tuple[int, ...], NDArray[np.bool_], NDArray[np.bool_]]]:
    """Yield each set of keys by size, and which candidate cells it singles out: with its parts, and without them."""
    size = len(cells.names)
    before: dict[tuple[int, ...], NDArray[np.bool_]] = {(): np.zeros(candidates.size, dtype=bool)}
    for k in range(1, largest + 1):
        here = {}
        for subset in itertools.combinations(range(size), k):
            unique = _unique_on(cells, subset, candidates)
            covered = np.logical_or.reduce([before[part] for part in itertools.combinations(subset, k - 1)])
            here[subset] = unique | covered
            yield subset, here[subset], unique & ~covered
        before = here


def problem(keys: KeyCodes, largest: int) -> str | None:
    """Return why sets of up to ``largest`` keys cannot be searched, as a sentence, or None where they can."""
    size = len(keys.names)
    if not 1 <= largest <= size:
        return sentence("max_size is outside its range", got=largest, wanted=f"1..{size}")
    if keys.has_wildcards:
        return sentence("minimal sample uniques need complete records", fix="set missing='category'")
    subsets = sum(math.comb(size, k) for k in range(1, largest + 1))
    if subsets > MAX_SUBSETS:
        return sentence("too many sets of keys", got=subsets, wanted=f"<= {MAX_SUBSETS}", fix="set a smaller max_size")
    return None


def _unique_on(cells: CellTable, subset: tuple[int, ...], candidates: IntArray) -> NDArray[np.bool_]:
    shape = tuple(cells.shape[j] for j in subset)
    number = ravel(tuple(cells.codes[:, j] for j in subset), shape)
    if math.prod(shape) > 8 * number.size:
        number = np.unique(number, return_inverse=True)[1]
    unique: NDArray[np.bool_] = np.bincount(number, weights=cells.counts)[number[candidates]] == 1
    return unique


def _to_records(cells: CellTable, candidates: IntArray, values: IntArray, otherwise: int) -> IntArray:
    of_cell = np.full(cells.counts.size, otherwise, dtype=values.dtype)
    of_cell[candidates] = values
    return of_cell[cells.record_cell]
