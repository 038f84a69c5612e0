"""Alias tables of a matrix with one weight d on its diagonal and one weight o off it, such as k-RR: one row for all.

Walker's method in ascending order makes almost the same row for every category i. With buckets of u units (see
:mod:`postrand.mechanism.sampling`) and ``o >= u``, each category b has ``o - u`` units too many, i has ``d - u``, and
the buckets S, S + 1, ... are empty, with room for u units each. The categories fill them in ascending order, and one
that thereby falls below u takes the rest from the next. So the sum of what categories 0..b have too many decides::

    X(b) = (b + 1) (o - u) + (d - o) [b >= i]
    bucket b < S    threshold X(b) mod u, alias b + 1; full where that is 0
    bucket S + e    threshold 0, alias: the first b with X(b) > e u

The first needs two entries, for i > b and i <= b. The alias of an empty bucket is i, unless the bucket is filled
without the surplus of i (by a category before i) or even with it alone (after i): ``min(max(i, first), last)``. Where
``o < u``, only i has too much: every bucket b < S has threshold o, and all aliases are i.

So 2 x 2^k entries replace (S + 1) x 2^k, and draw the same values. They stay in the first cache, where tables of 1,000
categories, 8 MiB, wait for memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from postrand.mechanism.matrix_storage import UNIT, Constant
from postrand.support import loops

if TYPE_CHECKING:
    from postrand.support.loops import Block


@dataclass(frozen=True, slots=True, eq=False)
class ConstantTables:
    """Hold two entries for each bucket, shape (2^(k+1),): for codes above the bucket's number, and for the others.

    An entry has the threshold in its upper 53-k bits; below, k bits of the last and k bits of the first category that
    can be its alias: 2k <= 11+k, so there are at most 2,048 categories.

    Examples
    --------
    >>> from postrand.mechanism.sampling import draw
    >>> tables = ConstantTables.of(Constant(np.full(3, 2**52), np.full(3, 2**51)))
    >>> draw(tables, np.array([0, 2, 2, -1], dtype=np.int8), np.array([0, 0, 2**64 - 1, 0], dtype=np.uint64))
    array([ 0,  0,  2, -1], dtype=int8)
    """

    size: int
    bits: int
    entries: NDArray[np.uint64]

    @staticmethod
    def fit(law: Constant) -> bool:
        """Return whether all rows have the same two weights, the larger one on the diagonal, if they differ."""
        return bool((law.off == law.off[0]).all() and law.diagonal[0] >= law.off[0])  # rows sum to one

    @classmethod
    def of(cls, law: Constant) -> ConstantTables:
        """Prepare to draw; time O(S)."""
        size, off, more = len(law.off), int(law.off[0]), int(law.diagonal[0] - law.off[0])
        bits = max(1, (size - 1).bit_length())
        unit = UNIT >> bits
        own, empty = np.arange(size), np.arange((1 << bits) - size)
        threshold, first, last = np.zeros((3, 1 << bits, 2), dtype=np.int64)
        last[:] = size - 1
        if off < unit:
            threshold[:size] = off
        else:
            surplus = off - unit
            threshold[:size] = ((own + 1) * surplus % unit)[:, None]
            threshold[:size, 1] = ((own + 1) * surplus + more) % unit
            first[:size] = last[:size] = own[:, None] + (threshold[:size] > 0)
            if surplus:
                last[size:] = (empty * unit // surplus).clip(max=size - 1)[:, None]
                first[size:] = ((empty * unit - more) // surplus).clip(min=0)[:, None]
        entries = (threshold << (11 + bits) | last << bits | first).astype(np.uint64).reshape(-1)
        entries.setflags(write=False)
        return cls(size, bits, entries)

    def block(self, codes: NDArray[Any], released: NDArray[Any]) -> Block:
        """Return what ``loops.draw`` asks for."""
        return loops.ONE_ROW, codes, self.entries, self.bits, released
