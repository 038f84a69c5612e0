"""Draw released codes from the exact matrix: integers and comparisons, no floats.

Most matrices are drawn from alias tables. A row of weights (integers summing to 2^53) becomes ``2^k`` buckets of
``u = 2^(53-k)`` units each, k being the smallest with ``2^k >= S`` (at least 1). The top 53 bits v of a random word
choose bucket ``b = v >> (53-k)`` and ``rest = v mod u``; the released code is b where ``rest < threshold[b]``, else
``alias[b]``. Each row's weight is reproduced to the unit.

One bucket is one 64-bit entry: the threshold in the upper 53-k bits, the alias in the lower 11+k. So a draw is one
load, one comparison and one selection, without a branch. A full bucket is stored as threshold 0 with itself as alias.

Matrices of more than 1,024 categories that are constant off the diagonal need no table: see :class:`StayOrMove`. Of
smaller ones with the same weights in every row, one row is enough: see :class:`ConstantTables`. It is the same table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from postrand.errors import DataError, sentence
from postrand.mechanism.constant_tables import ConstantTables
from postrand.mechanism.matrix import TransitionMatrix
from postrand.mechanism.matrix_storage import UNIT, Constant
from postrand.support import loops
from postrand.support.memory import room_for
from postrand.support.randomness import WordStream

if TYPE_CHECKING:
    from postrand.support.loops import Block

BITS = 53
TABLE_SIZE = 1024
"""Up to here tables stay in the cache: 1 to 2 ns a draw; beyond, each waits 27 ns for memory. A division takes 2.5."""

ONE_ROW_FROM = 257
"""From here a table of all rows is as large as the second cache, and one row for all draws the same values faster."""

CHUNK = 8192
"""Records whose words are made and used at a time."""

SLOTS = 8
"""Slots whose words are made at a time: 2 MiB of plain and cipher text stay within the L3 cache. Cipher and loops
leave the interpreter's lock, and threads wait less the rarer they do."""


class Sampler(Protocol):
    """Draw the released codes of one block, exactly by its matrix, from one word for each record."""

    @property
    def size(self) -> int:
        """The number S of categories."""
        ...

    def block(self, codes: NDArray[Any], released: NDArray[Any]) -> Block:
        """Return what ``loops.draw`` asks for: the law in numbers, true codes, and where released ones go; -1 stays."""
        ...


def sampler(matrix: TransitionMatrix) -> Sampler:
    """Return the sampler of a matrix; it depends on the matrix only. Large constant matrices need one row, or none."""
    if isinstance(matrix.form, Constant) and matrix.size > TABLE_SIZE:
        return StayOrMove.of(matrix.form)
    if isinstance(matrix.form, Constant) and matrix.size >= ONE_ROW_FROM and ConstantTables.fit(matrix.form):
        return ConstantTables.of(matrix.form)
    return AliasTables.of(matrix)


@dataclass(frozen=True, slots=True, eq=False)
class StayOrMove:
    """Draw from a matrix that is constant off the diagonal: the top 53 bits v of a word choose one of S - 1 intervals.

    For true code i the released one is the ``v // off[i]``-th of the others if ``v < (S-1) off[i]``, otherwise i.
    ``off`` has shape (S + 1,): first 0, of code -1.

    Examples
    --------
    >>> law = StayOrMove.of(Constant(np.array([2**52, 2**53]), np.array([2**52, 0])))
    >>> draw(law, np.array([0, 0, 1, -1], dtype=np.int8), np.array([0, 2**63, 0, 0], dtype=np.uint64))
    array([ 1,  0,  1, -1], dtype=int8)
    """

    off: NDArray[np.int64]

    @classmethod
    def of(cls, law: Constant) -> StayOrMove:
        """Prepare to draw; time O(S)."""
        return cls(np.concatenate([[0], law.off]))

    @property
    def size(self) -> int:
        """The number S of categories."""
        return len(self.off) - 1

    def block(self, codes: NDArray[Any], released: NDArray[Any]) -> Block:
        """Return what ``loops.draw`` asks for."""
        return loops.STAY_OR_MOVE, codes, self.off, 0, released


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
        loops.fill_tables(matrix.weights, bits, entries)
        entries.setflags(write=False)
        return cls(size, bits, entries.reshape(-1))

    def block(self, codes: NDArray[Any], released: NDArray[Any]) -> Block:
        """Return what ``loops.draw`` asks for."""
        return loops.ROWS, codes, self.entries, self.bits, released

    def weights(self) -> NDArray[np.int64]:
        """Return the weights that the tables draw, shape (S, S), rows true, each row summing to 2^53."""
        buckets = self.entries.reshape(self.size + 1, -1)[1:].astype(np.int64)
        threshold, alias = buckets >> (11 + self.bits) & (UNIT >> self.bits) - 1, buckets & _low(self.bits)
        weights = np.zeros((self.size, 1 << self.bits), dtype=np.int64)
        weights += threshold
        rows = np.broadcast_to(np.arange(self.size)[:, None], alias.shape)
        np.add.at(weights, (rows, alias), (UNIT >> self.bits) - threshold)
        return weights[:, : self.size]


def draw(law: Sampler, codes: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[Any]:
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
    _check_codes(law, codes)
    loops.draw(np.ascontiguousarray(words).reshape(1, -1, 1), 0, (law.block(codes, released),))
    return released


def perturb_codes(
    laws: Sequence[Sampler],
    draw_key: bytes,
    record_keys: NDArray[np.uint64],
    codes: Sequence[NDArray[Any]],
    *,
    in_place: bool = False,
) -> Sequence[NDArray[Any]]:
    """Perturb every block of a batch of records in one pass; returns one array of released codes for each block.

    ``laws[b]`` and ``codes[b]``, shape (n,), belong to block b of the mechanism; ``record_keys`` has shape (n,).
    With ``in_place``, ``codes``, which are contiguous, are overwritten with the released ones.
    Threads can call this at the same time: the cipher and the kernel work without the interpreter's lock.

    Raises
    ------
    DataError
        If a code is outside -1..S-1.
    """
    codes = codes if in_place else [np.ascontiguousarray(column) for column in codes]
    for law, column in zip(laws, codes, strict=True):
        _check_codes(law, column)
    released = codes if in_place else room_for([(column.size, column.dtype) for column in codes])
    blocks = [law.block(*columns) for law, *columns in zip(laws, codes, released, strict=True)]
    pairs = [(slot, tuple(blocks[2 * slot : 2 * (slot + SLOTS)])) for slot in range(0, -(-len(laws) // 2), SLOTS)]
    slots = -(-len(pairs[0][1]) // 2) if pairs else 1
    size = max(1, min(CHUNK, record_keys.size))
    stream = WordStream(draw_key, size, slots)
    for start in range(0, record_keys.size, size):
        stream.load(record_keys[start : start + size])
        for slot, some in pairs:
            loops.draw(stream.words(slot, -(-len(some) // 2)), start, some)
    return released


def _low(bits: int) -> int:
    """Return the mask of the alias field."""
    return (1 << (64 - BITS + bits)) - 1


def _check_codes(law: Sampler, codes: NDArray[Any]) -> None:
    """Refuse codes outside the tables: the kernel does not check its loads."""
    if codes.size and not (codes.min() >= -1 and codes.max() < law.size):
        raise DataError(sentence("a code is outside the range of its matrix", wanted=f"-1..{law.size - 1}"))
