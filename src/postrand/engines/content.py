"""What a release key is bound to: a keyed digest of the records, whatever their order, batches, engine or file format.

Draws of two versions of a file must not share words: a released value that differs would show which true value changed.
So the words follow the content. Of record r with true cells c_b of the mechanism's blocks, of S_b cells each (and then
the true codes of the variables that a split shows or reads)::

    n_g = the digits c_b + 1 in bases S_b + 1    of as many blocks as a 64-bit number holds: groups g = 0, 1, ...
    v = Σ_{g >= 1} AES-256(k', n_g ‖ g)          2 x 64 bits, all additions modulo 2^64; 0 where one group suffices
    h = AES-256(k, r + v_0 ‖ n_0 + v_1)
    content = (number of records, Σ_r h) both halves; the same once more over the values that are released by ranks

Two records collide with probability 2^-128 at most, and sums of a pseudorandom function over two files that differ are
equal with that probability. Content is added over batches, and tells nothing without the release key. Unperturbed
columns are not part of it: they are no input of a draw. Where a block is drawn for a household, its number decides the
word, so v is the sum with ``AES-256(k', number ‖ slot)`` of its records: who lives together is part of the content.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from postrand.codebook import Variable
from postrand.columns.source import numbers
from postrand.engines.cells import Cells
from postrand.engines.split_records import SplitCells
from postrand.engines.units import Identities, drawn_by
from postrand.errors import DataError, sentence
from postrand.mechanism import Mechanism
from postrand.ranks.apply import number_bits
from postrand.support import loops
from postrand.support.randomness import ContentKeys, ReleaseKey, content_keys, encryptor, words

_CHUNK = 1 << 14
"""Records that are digested at a time: 640 KiB of numbers, plain and cipher text stay within the L2 cache."""

_RANKED_SLOT = 1 << 32
"""Slots of the words of ranked values; those of groups are their places."""

_UNIT_SLOT = {"person": 1 << 33, "household": (1 << 33) + 1}
"""Slots of the words of units."""


@dataclass(frozen=True, slots=True)
class Content:
    """Hold the digest of some records under one release key; those of disjoint records are added.

    ``cells`` is of the true values of the mechanism's blocks, ``ranked`` of those that are released by their ranks;
    each is two numbers modulo 2^64.

    Examples
    --------
    >>> Content(1, (2**64 - 1, 3), (0, 0)) + Content(2, (2, 4), (0, 1))
    Content(records=3, cells=(1, 7), ranked=(0, 1))
    """

    records: int = 0
    cells: tuple[int, int] = (0, 0)
    ranked: tuple[int, int] = (0, 0)

    def __add__(self, other: Content) -> Content:
        return Content(self.records + other.records, _sum(self.cells, other.cells), _sum(self.ranked, other.ranked))

    def tag(self) -> bytes:
        """Return 40 bytes, different for different contents."""
        return struct.pack("<5Q", self.records, *self.cells, *self.ranked)

    @classmethod
    def of_tag(cls, tag: bytes) -> Content:
        """Return the content of a tag."""
        records, *sums = struct.unpack("<5Q", tag)
        return cls(records, (sums[0], sums[1]), (sums[2], sums[3]))

    def check_same_cells(self, other: Content) -> None:
        """Raise DataError unless the perturbed values of the other content are the same."""
        if (self.records, self.cells) != (other.records, other.cells):
            what = "the records are not the same at two readings"
            fix = "release a file or table that does not change, by a record key that it contains (not random(), ...)"
            raise DataError(sentence(what, fix=fix))


def _sum(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    return (left[0] + right[0]) % (1 << 64), (left[1] + right[1]) % (1 << 64)


def _groups(bases: Sequence[int]) -> list[list[int]]:
    """Return the places of blocks, in order, as many together as a number below 2^64 can distinguish.

    >>> _groups([2**33, 2**31, 2, 2**40])
    [[0, 1], [2, 3]]
    """
    groups: list[list[int]] = []
    held = 0
    for place, base in enumerate(bases):
        if not groups or held * base > 1 << 64:
            groups.append([])
            held = 1
        groups[-1].append(place)
        held *= base
    return groups


@dataclass(frozen=True, slots=True, eq=False)
class ContentReader:
    """Hold what a mechanism and a release key need to digest any batch; threads can share it."""

    cells: tuple[Cells, ...]
    split: SplitCells
    bases: tuple[int, ...]
    ranked: tuple[str, ...]
    keys: ContentKeys = field(repr=False)
    units: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, mechanism: Mechanism, key: ReleaseKey) -> ContentReader:
        """Prepare a mechanism that is bound to its codebook."""
        codebook = mechanism.require_codebook()
        cells = [Cells.of(block, codebook) for block in mechanism.blocks]
        split = SplitCells.of(mechanism.split, codebook)
        return cls.of_cells(cells, [c.variable for c in mechanism.numerical], key, split, drawn_by(mechanism))

    @classmethod
    def of_cells(
        cls,
        cells: Sequence[Cells],
        ranked: Sequence[str],
        key: ReleaseKey,
        split: SplitCells | None = None,
        units: Mapping[str, str] | None = None,
    ) -> ContentReader:
        """Prepare blocks of these cells, which need no matrix, numerical variables, and the cells of a split.

        ``units`` are the columns by which blocks are drawn: see :func:`postrand.engines.units.drawn_by`.
        """
        held = SplitCells((), (), ()) if split is None else split
        bases = tuple(block.size + 1 for block in cells)  # -1: a missing value that is kept
        return cls(tuple(cells), held, (*bases, *held.bases), tuple(ranked), content_keys(key), dict(units or {}))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns to read."""
        return tuple(dict.fromkeys([*(v.name for v in self.variables), *self.ranked, *self.units.values()]))

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The categorical variables to read, each once: those of the blocks, then those of the split."""
        every = [*(v for cells in self.cells for v in cells.variables), *self.split.variables]
        return tuple({v.name: v for v in every}.values())

    def of_positions(
        self,
        positions: Sequence[NDArray[Any]],
        record_keys: NDArray[np.uint64],
        digits: Sequence[NDArray[Any]] = (),
        units: Mapping[str, Identities] | None = None,
    ) -> Content:
        """Return the content of records with these cells, one array (n,) for each block; nothing of ranked values.

        ``digits`` are the codes of the split's variables, ``units`` what :func:`postrand.engines.units.units_of` found.
        """
        total = np.zeros(2, dtype=np.uint64)
        held = [np.ascontiguousarray(column) for column in (*positions, *digits)]
        groups = [(tuple(self.bases[b] for b in g), tuple(held[b] for b in g)) for g in _groups(self.bases)]
        size = max(1, min(_CHUNK, record_keys.size))
        # Made once for all chunks: memory that is new each time costs more than the cipher.
        mixed, numbers_of, sums = (
            np.empty((size, 2), dtype="<u8"),
            np.empty(size, dtype=np.uint64),
            _Sums(self.keys, size),
        )
        for start in range(0, record_keys.size, size):
            keys = record_keys[start : start + size]
            part, number = mixed[: keys.size], numbers_of[: keys.size]
            part[:, 0] = part[:, 1] = 0
            for slot, (bases, columns) in enumerate(groups):
                loops.join_digits(number, bases, columns, start)
                if slot:
                    part += words(self.keys.table, number, slot)
                else:
                    part[:, 1] = number
            for unit, (names, there) in (units or {}).items():
                at = slice(start, start + keys.size)
                part += words(self.keys.table, names[at], _UNIT_SLOT[unit]) * there[at, None]
            total += sums.of(part, keys)
        return Content(record_keys.size, (int(total[0]), int(total[1])))

    def of_ranked(self, batch: pa.RecordBatch | pa.Table, record_keys: NDArray[np.uint64]) -> tuple[int, int]:
        """Return the part of a content for values that are released by ranks; (0, 0) if there are none."""
        if not self.ranked:
            return 0, 0
        mixed = np.zeros((record_keys.size, 2), dtype=np.uint64)
        for place, name in enumerate(self.ranked):
            column = batch.column(name)
            present = pc.is_valid(column).to_numpy(zero_copy_only=False)
            mixed[present] += words(self.keys.table, number_bits(numbers(column, name)), _RANKED_SLOT + place)
        total = _Sums(self.keys, record_keys.size).of(mixed, record_keys)
        return int(total[0]), int(total[1])


class _Sums:
    """Sum the cipher of up to ``capacity`` records at a time, in a buffer that is used again."""

    __slots__ = ("_drawn", "_encrypt")

    def __init__(self, keys: ContentKeys, capacity: int) -> None:
        self._encrypt = encryptor(keys.record)
        # The cipher asks for one byte less than a block of room at the end.
        self._drawn = np.empty(capacity * 16 + 15, dtype=np.uint8)

    def of(self, mixed: NDArray[np.uint64], record_keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the sum over records of the cipher of ``(key + mixed_0, mixed_1)``, shape (2,); changes ``mixed``."""
        mixed[:, 0] += record_keys
        self._encrypt.update_into(mixed.astype("<u8", copy=False).data.cast("B"), self._drawn.data)
        drawn = self._drawn[: mixed.size * 8].view("<u8")
        return np.array([drawn[0::2].sum(), drawn[1::2].sum()])  # ten times as fast as the sum over an axis
