"""Joint tables of pairs of blocks, counted from few larger tables: a pass over the codes for each of these.

A table of several blocks has the table of each of their pairs as a margin. Ten blocks have 45 pairs, and about six
tables of :data:`MAX_CELLS` cells contain them all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_CELLS = 1 << 14
"""The most cells of a table that is counted for its margins: it stays in the processor's cache."""


def covering(pairs: Iterable[tuple[int, int]], sizes: Sequence[int], most: int = MAX_CELLS) -> list[tuple[int, ...]]:
    """Return ascending sets of blocks that contain every pair, each with at most ``most`` combinations or only a pair.

    Greedy: the first pair that is left, then, as long as there is room, the block that adds most pairs.

    >>> covering([(0, 1), (0, 2), (1, 2)], [3, 4, 5])
    [(0, 1, 2)]
    >>> covering([(0, 1), (0, 2), (1, 2)], [3, 4, 5], most=20)
    [(0, 1), (0, 2), (1, 2)]
    """
    left, found = set(pairs), []
    while left:
        group = set(min(left))
        while True:
            room = most // math.prod(sizes[block] for block in group)
            gains = {
                block: len(left & {(min(block, other), max(block, other)) for other in group})
                for block, size in enumerate(sizes)
                if size <= room and block not in group
            }
            best = max(gains, key=lambda block: (gains[block], -sizes[block]), default=None)
            if best is None or not gains[best]:
                break
            group.add(best)
        found.append(tuple(sorted(group)))
        left -= set(combinations(found[-1], 2))
    return found


class JointCounts:
    """Adds up the records in each combination of the cells of some blocks; position -1, a kept missing value, too.

    ``sizes`` are the numbers of cells of the blocks, and ``kept`` says which have positions -1.
    """

    def __init__(self, blocks: Sequence[int], sizes: Sequence[int], kept: Sequence[bool]) -> None:
        self.blocks = tuple(blocks)
        self._first = [int(kept[block]) for block in blocks]  # one cell in front for -1
        self._shape = tuple(sizes[block] + first for block, first in zip(blocks, self._first, strict=True))
        self._counts = np.zeros(math.prod(self._shape), dtype=np.int64)

    def add(self, positions: Sequence[NDArray[Any]]) -> None:
        """Count a batch by the positions of its records in every block, (n,) each."""
        index: NDArray[Any] = np.zeros(len(positions[0]), dtype=np.min_scalar_type(self._counts.size))
        for block, first, size in zip(self.blocks, self._first, self._shape, strict=True):
            index *= index.dtype.type(size)
            index += positions[block].astype(index.dtype)  # -1 is the largest number, and one more is 0
            if first:
                index += index.dtype.type(1)
        self._counts += np.bincount(index, minlength=self._counts.size)

    def margin(self, *blocks: int) -> NDArray[np.int64]:
        """Return the table of some of the blocks, in ascending order, of the records where each has a cell."""
        others = tuple(axis for axis, block in enumerate(self.blocks) if block not in blocks)
        table = self._counts.reshape(self._shape).sum(axis=others)
        here = [first for block, first in zip(self.blocks, self._first, strict=True) if block in blocks]
        return np.ascontiguousarray(table[tuple(slice(first, None) for first in here)])
