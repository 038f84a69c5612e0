"""Count the members who show a split: one of each household, chosen whatever its records say."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.data.households import identities, together
from postrand.errors import DataError, sentence
from postrand.mechanism.margins import LEVEL

_WAITING = 1 << 20
MAX_TRAITS = 8
"""Variables beside the split by whose values the choice of the members is tested: 4 bytes of each household for one."""


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """Hold what is known of the members who show a subset.

    ``cells[t]`` (2, K_t) are the sums of the records of the households in each cell of subset t, and of their squares.
    ``traits[v]`` (2, S), of the first variables beside the split: the records with each value, and the sum of the
    records of the households whose chosen member has it. ``squares`` is the sum over all households.
    """

    cells: tuple[NDArray[np.int64], ...] = ()
    traits: tuple[NDArray[np.int64], ...] = field(default=())
    squares: int = 0

    def odd(self, names: Sequence[str]) -> Iterator[str]:
        """Yield the variables, of these ``names``, whose values had a say in which member was chosen.

        Of household h with k_h records each is chosen with probability 1/k_h. So the sum of k_h over the households
        whose chosen member has a value has the expectation N, the number of records with it; its terms are independent
        and in [0, k_h]. It is t or more away from N with probability ``2 exp(-2 t²/Σ k_h²)`` at most (Hoeffding): a
        right release is told odd with a probability of at most 1e-9 over all values of all variables.
        """
        tests = sum(trait.shape[1] for trait in self.traits)
        for name, (records, stands) in zip(names, self.traits, strict=False):
            gap = float(np.abs(records - stands).max(initial=0))
            if 2 * gap**2 > max(self.squares, 1) * math.log(2 * tests / LEVEL):
                yield name


class MemberCounter:
    """Add up records by household: how many there are, how many show a subset, which one, and what is in it.

    ``sizes`` are the numbers of categories of the variables beside the split.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._traits = [np.zeros(size, dtype=np.int64) for size in sizes[:MAX_TRAITS]]
        self._held: list[NDArray[Any]] = []
        self._alone: list[list[NDArray[Any]]] = []
        self._waiting: list[list[NDArray[Any]]] = []

    def add(
        self, column: pa.Array, shown: NDArray[np.int32], cells: NDArray[np.int32], beside: Sequence[NDArray[Any]]
    ) -> None:
        """Add records (n,): their household numbers, the place of the subset that each shows, -1 for none, its cell.

        ``beside`` are their codes of the variables beside the split.
        """
        names, there = identities(column, "households")
        codes = [code.astype(np.int32) for code in beside[: len(self._traits)]]
        for counts, code in zip(self._traits, codes, strict=True):
            counts += np.bincount(code[code >= 0], minlength=counts.size)
        who = shown >= 0
        ones = np.ones(shown.size, dtype=np.int32)
        held = [ones, who.astype(np.int32), shown, cells, *(np.where(who, code, np.int32(-1)) for code in codes)]
        self._alone.append([one[~there] for one in held])
        self._waiting.append(_by_household([names[there], *(one[there] for one in held)]))
        known = self._held[0].size if self._held else 0
        if sum(one[0].size for one in self._waiting) > max(known, _WAITING):
            self._merge()

    def _merge(self) -> None:
        parts = [*([self._held] if self._held else []), *self._waiting]
        if parts:
            self._held = _by_household([np.concatenate(columns) for columns in zip(*parts, strict=True)])
        self._waiting = []

    def found(self, cells: Sequence[int]) -> Members:
        """Return what is known of all; ``cells`` are the numbers of cells of each subset.

        Raises
        ------
        DataError
            If a household has not exactly one member that shows a subset.
        """
        self._merge()
        parts = [*([self._held[1:]] if self._held else []), *self._alone]
        if not parts:
            return Members(tuple(np.zeros((2, size), dtype=np.int64) for size in cells))
        sizes, showing, shown, at, *codes = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        if not (showing == 1).all():
            what = "not every household has exactly one member that shows a subset of the split"
            raise DataError(sentence(what, fix="do not use this release: its members were not chosen as it says"))
        sizes = sizes.astype(np.int64)
        sums = [_sums(sizes, np.where(shown == k, at, -1), size) for k, size in enumerate(cells)]
        stand = [_sums(sizes, code, counts.size)[0] for code, counts in zip(codes, self._traits, strict=True)]
        traits = [np.stack([counts, one]) for counts, one in zip(self._traits, stand, strict=True)]
        return Members(tuple(sums), tuple(traits), int((sizes**2).sum()))


def _sums(sizes: NDArray[np.int64], at: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Return the sums of the sizes and of their squares by place, (2, count); -1 is nowhere."""
    total = np.zeros((2, count), dtype=np.int64)
    kept = at >= 0
    for power in (1, 2):
        np.add.at(total[power - 1], at[kept], sizes[kept] ** power)
    return total


def _by_household(columns: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return one row for each name, ascending: sums of the first two columns after it, the largest of the others."""
    order, first, _ = together(columns[0])
    names, *rest = (column[order] for column in columns)
    if not first.size:
        return [names, *rest]
    sums = [np.add.reduceat(column, first) for column in rest[:2]]
    return [names[first], *sums, *(np.maximum.reduceat(column, first) for column in rest[2:])]
