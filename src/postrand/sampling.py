"""Draw released codes from the exact law: integer alias tables, integer comparisons, no float.

A row of weights (integers summing to 2^53) becomes ``2^k`` buckets of ``u = 2^(53-k)`` units each, k being the
smallest with ``2^k >= S`` (at least 1). The top 53 bits v of a random word choose bucket ``b = v >> (53-k)`` and
``rest = v mod u``; the released code is b where ``rest < threshold[b]``, else ``alias[b]``. Each row's weight is
reproduced to the unit.

One bucket is one 64-bit entry: the threshold in the upper 53-k bits, the alias in the lower 11+k. So a draw is one
load, one comparison and one selection, without a branch. A full bucket is stored as threshold 0 with itself as alias.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from postrand.errors import DataError, sentence
from postrand.matrix import UNIT, TransitionMatrix
from postrand.randomness import WordStream

if TYPE_CHECKING:
    from types import ModuleType

BITS = 53
CHUNK = 8192
"""Records whose words are made and used at a time: 256 KiB of plain and cipher text stay within the L2 cache."""


@dataclass(frozen=True, slots=True, eq=False)
class AliasTables:
    """Hold the alias table of every row of one transition matrix.

    ``entries`` has shape ((S + 1) 2^k,): first the row of code -1 (a kept missing value, released as -1), then the rows
    of codes 0..S-1, 2^k buckets each.

    Examples
    --------
    >>> M = TransitionMatrix.from_array([[0.75, 0.25, 0], [0, 1, 0], [0.5, 0.25, 0.25]])
    >>> tables = AliasTables.of(M)
    >>> tables.bits, np.array_equal(tables.weights(), M.weights)
    (2, True)
    """

    size: int
    bits: int
    entries: NDArray[np.uint64]

    @classmethod
    def of(cls, matrix: TransitionMatrix) -> AliasTables:
        """Build the tables of a matrix; time O(S 2^k)."""
        size = matrix.size
        bits = max(1, (size - 1).bit_length())
        entries = np.full((size + 1, 1 << bits), _low(bits), dtype=np.uint64)  # row 0: threshold 0, alias -1
        _kernels().fill_tables(matrix.weights, bits, entries)
        entries.setflags(write=False)
        return cls(size, bits, entries.reshape(-1))

    def weights(self) -> NDArray[np.int64]:
        """Return the law that the tables draw, shape (S, S), rows true, each row summing to 2^53."""
        buckets = self.entries.reshape(self.size + 1, -1)[1:].astype(np.int64)
        threshold, alias = buckets >> (11 + self.bits) & (UNIT >> self.bits) - 1, buckets & _low(self.bits)
        weights = np.zeros((self.size, 1 << self.bits), dtype=np.int64)
        weights += threshold
        rows = np.broadcast_to(np.arange(self.size)[:, None], alias.shape)
        np.add.at(weights, (rows, alias), (UNIT >> self.bits) - threshold)
        return weights[:, : self.size]


def draw(tables: AliasTables, codes: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[Any]:
    """Return the released code of each true code, shape (n,), same dtype; -1 stays -1.

    ``codes`` is int8, int16 or int32 in -1..S-1, ``words`` uint64, one for each code.

    Raises
    ------
    DataError
        If a code is outside -1..S-1.

    Examples
    --------
    >>> tables = AliasTables.of(TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]]))
    >>> draw(tables, np.array([0, 1, -1], dtype=np.int8), np.array([0, 2**63, 7], dtype=np.uint64))
    array([ 0,  1, -1], dtype=int8)
    """
    codes = np.ascontiguousarray(codes)
    released = np.empty_like(codes)
    _check_codes(tables, codes)
    _draw_into(tables, np.ascontiguousarray(words).reshape(-1, 1), 0, codes, 0, released)
    return released


def perturb_codes(
    tables: Sequence[AliasTables], draw_key: bytes, record_keys: NDArray[np.uint64], codes: Sequence[NDArray[Any]]
) -> list[NDArray[Any]]:
    """Perturb every block of a batch of records in one pass; returns one array of released codes for each block.

    ``tables[b]`` and ``codes[b]``, shape (n,), belong to block b of the mechanism; ``record_keys`` has shape (n,).
    Threads may call this at the same time: the cipher and the kernel work without the interpreter's lock.

    Raises
    ------
    DataError
        If a code is outside -1..S-1.
    """
    codes = [np.ascontiguousarray(column) for column in codes]
    for table, column in zip(tables, codes, strict=True):
        _check_codes(table, column)
    released = [np.empty_like(column) for column in codes]
    stream = WordStream(draw_key, max(1, min(CHUNK, record_keys.size)))
    for start in range(0, record_keys.size, CHUNK):
        stream.load(record_keys[start : start + CHUNK])
        for slot in range((len(tables) + 1) // 2):
            words = stream.words(slot)
            for b in range(2 * slot, min(2 * slot + 2, len(tables))):
                _draw_into(tables[b], words, b & 1, codes[b], start, released[b])
    return released


def _low(bits: int) -> int:
    """Return the mask of the alias field."""
    return (1 << (64 - BITS + bits)) - 1


def _check_codes(tables: AliasTables, codes: NDArray[Any]) -> None:
    """Refuse codes outside the tables: the kernel does not check its loads."""
    if codes.size and not (codes.min() >= -1 and codes.max() < tables.size):
        raise DataError(sentence("a code is outside the range of its matrix", wanted=f"-1..{tables.size - 1}"))


def _draw_into(
    tables: AliasTables, words: NDArray[np.uint64], lane: int, codes: NDArray[Any], start: int, released: NDArray[Any]
) -> None:
    """Draw for as many codes from ``start`` as there are words."""
    _kernels().draw(words, lane, codes, start, tables.entries, tables.bits, released)
    if 8 * codes.dtype.itemsize > 64 - BITS + tables.bits:  # the code type is wider than it need be, and than the alias
        drawn = released[start : start + len(words)]
        drawn &= _low(tables.bits)
        drawn[codes[start : start + len(words)] < 0] = -1


@functools.cache
def _kernels() -> ModuleType:
    """Import the compiled kernels when first needed: numba takes longer to import than all else."""
    from postrand import _kernels

    return _kernels
