"""Count the released households: each shows one value of what is drawn for it, and is counted once.

Records that share a draw are not independent, so tables of records cannot be held against the matrix; tables of
households can. Persons' numbers are not released, so blocks that are drawn for persons are not tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.data.households import identities, together
from postrand.errors import DataError, sentence
from postrand.mechanism import Mechanism
from postrand.mechanism.one_member import OneMember

_WAITING = 1 << 20


class HouseholdCounter:
    """Add up batches; memory for each household: its number, its records, and one cell for each of its blocks."""

    def __init__(self, mechanism: Mechanism, codebook: Codebook) -> None:
        units = mechanism.units
        self.name = "" if units is None else units.household
        self._most = 0 if units is None else units.largest_household
        of_houses = [place for place, block in enumerate(mechanism.blocks) if block.unit == "household"]
        self.places = [place for place in of_houses if mechanism.blocks[place].one is None]
        self._sizes = [mechanism.blocks[place].matrix.size for place in self.places]
        ones = [place for place in of_houses if place not in self.places]
        self._ones = {place: OneCounter(OneMember.of_block(mechanism.blocks[place], codebook)) for place in ones}
        chosen = mechanism.split is not None and mechanism.split.of_members
        if (of_houses or chosen) and self.name not in codebook:
            what = "draws are for households, but their numbers are not released, so nobody could tell whose they are"
            raise DataError(sentence(what, where=f"variable {self.name!r}", fix="release it, with role 'household'"))
        self.is_counted = bool(self.name) and self.name in codebook
        self._alone = [np.zeros(size, dtype=np.int64) for size in self._sizes]
        self._held: list[NDArray[Any]] = []
        self._waiting: list[list[NDArray[Any]]] = []

    def add(self, column: pa.Array, positions: Sequence[NDArray[Any]]) -> None:
        """Count the records of a batch; ``positions`` are the released cells of every block of the mechanism."""
        names, there = identities(column, self.name)
        for place, one in self._ones.items():
            one.add(names, there, positions[place])
        cells = [positions[place] for place in self.places]
        for counts, found in zip(self._alone, cells, strict=True):
            counts += _counted(found[~there], counts.size)
        ones = np.ones(int(there.sum()), dtype=np.int32)
        part: list[NDArray[Any]] = [names[there], ones, *(found[there] for found in cells)]
        self._waiting.append(_grouped(part))
        held = self._held[0].size if self._held else 0
        if sum(one[0].size for one in self._waiting) > max(held, _WAITING):
            self._merge()

    def _merge(self) -> None:
        parts = [*([self._held] if self._held else []), *self._waiting]
        self._held, self._waiting = _grouped([np.concatenate(columns) for columns in zip(*parts, strict=True)]), []

    def counts(self) -> dict[int, NDArray[np.int64]]:
        """Return the households in each cell of their blocks, and the sums of squares of their records, (2, K).

        By the place of the block. A record without a household number is a household of one record.

        Raises
        ------
        DataError
            If a household shows two values, is larger than the mechanism says, or has not exactly one member with a
            category that one has.
        """
        if self._waiting:
            self._merge()
        sizes = self._held[1] if self._held else np.zeros(0, dtype=np.int32)
        if sizes.size and sizes.max() > self._most:
            what, wanted = "a household has more records than the mechanism says", f"at most {self._most}"
            raise DataError(sentence(what, where=f"variable {self.name!r}", wanted=wanted))
        for one in self._ones.values():
            one.check()
        found = {}
        for k, (place, alone) in enumerate(zip(self.places, self._alone, strict=True)):
            cells = self._held[2 + k] if self._held else np.zeros(0, dtype=np.int32)
            squares = np.zeros(alone.size, dtype=np.int64)
            kept = cells >= 0
            np.add.at(squares, cells[kept], sizes[kept].astype(np.int64) ** 2)
            found[place] = np.stack([alone + _counted(cells, alone.size), alone + squares])
        return found


class OneCounter:
    """Add up households: their records, the sizes that they say, and those with each category that one has."""

    def __init__(self, law: OneMember) -> None:
        self._law, self._wrong = law, False
        self._held: list[NDArray[Any]] = []
        self._waiting: list[list[NDArray[Any]]] = []

    def add(self, names: NDArray[np.uint64], there: NDArray[np.bool_], cells: NDArray[Any]) -> None:
        """Add records (n,)."""
        role, sizes = self._law.role[cells], self._law.sizes[cells]
        self._wrong |= bool(((role != 0) | (sizes != 1))[~there].any())
        has = [(role == number).astype(np.int64) for number in range(self._law.named)]
        rows = [names, np.ones(role.size, dtype=np.int64), sizes, sizes, *has]
        self._waiting.append(_ones([row[there] for row in rows]))
        known = self._held[0].size if self._held else 0
        if sum(one[0].size for one in self._waiting) > max(known, _WAITING):
            self._merge()

    def _merge(self) -> None:
        parts = [*([self._held] if self._held else []), *self._waiting]
        self._held, self._waiting = _ones([np.concatenate(columns) for columns in zip(*parts, strict=True)]), []

    def check(self) -> None:
        """Raise DataError where a household has not exactly one, two of a second, or not its size of records."""
        if self._waiting:
            self._merge()
        if self._held:
            _, count, low, high, has, *second = self._held
            self._wrong |= bool(((has != 1) | (low != count) | (high != count)).any())
            self._wrong |= any(bool((several > 1).any()) for several in second)
        if self._wrong:
            more = ", has two with a category that at most one has" if self._law.named > 1 else ""
            what = f"a household does not have exactly one member with a category that one has{more}, or not its size"
            fix = "do not use this release: its records were not drawn with its mechanism"
            raise DataError(sentence(what, fix=fix))


def _ones(columns: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    order, first, _ = together(columns[0])
    if not first.size:
        return [*columns]
    names, count, low, high, *has = (column[order] for column in columns)
    sizes = [np.minimum.reduceat(low, first), np.maximum.reduceat(high, first)]
    return [names[first], np.add.reduceat(count, first), *sizes, *(np.add.reduceat(one, first) for one in has)]


def _counted(cells: NDArray[Any], size: int) -> NDArray[np.int64]:
    return np.bincount(cells.astype(np.int64) + 1, minlength=size + 1)[1:]  # -1: a missing value that is kept


def _grouped(columns: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return one row for each name, ascending, with its records; raises DataError where its cells differ."""
    order, first, many = together(columns[0])
    names, sizes, *cells = (column[order] for column in columns)
    if any((column != np.repeat(column[first], many)).any() for column in cells):
        what = "the records of a household show several values of a variable that is drawn once for all of them"
        fix = "do not use this release: its records were not drawn with its mechanism"
        raise DataError(sentence(what, fix=fix))
    total = np.add.reduceat(sizes, first) if names.size else sizes
    return [names[first], total, *(column[first] for column in cells)]
