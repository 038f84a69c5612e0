"""One random member of each household: who shows a subset of a split that is the household's.

The member with the smallest word of its record key, under a key of the release key alone, is chosen: it depends on
which records are together, and on nothing that they say. A record without a household number is a household of its
own. So the choice is public, like the subset, and what a household spends is the level of the subset's matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.data.households import identities
from postrand.engines.wants import Piece, check_inputs, keys_of
from postrand.errors import UsageError, sentence
from postrand.formats import Source
from postrand.mechanism import Mechanism
from postrand.support.randomness import ReleaseKey, derive_members, words

_WAITING = 1 << 20

Keys = NDArray[np.uint64]
Part = tuple[Keys, Keys, Keys, Keys]


@dataclass(frozen=True, slots=True)
class MemberChoice:
    """Want the record keys of one random member of each household; see :class:`postrand.engines.wants.Want`.

    24 bytes of memory for each household, and 8 for each record without a number.
    """

    column: str
    secret: bytes = field(repr=False)
    record_key: str | None = None

    @property
    def numbered(self) -> bool:
        """Whether the places of the records are their keys."""
        return self.record_key is None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read."""
        return tuple(dict.fromkeys((self.column, *([] if self.record_key is None else [self.record_key]))))

    def check(self, source: Source, codebook: Codebook) -> None:
        """Raise DataError where a column is missing."""
        check_inputs(source, self.columns, self.record_key)

    def part(self, piece: Piece) -> Part:
        """Return households, words and keys of the members chosen of some records, and the keys of records alone."""
        names, there = identities(piece.column(self.column), self.column)
        keys = keys_of(piece.batch, piece.first, self.record_key)
        drawn = words(self.secret, keys[there], 0)[:, 0]
        return *_smallest(names[there], drawn, keys[there]), keys[~there]

    def tally(self, source: Source, codebook: Codebook) -> MemberTally:
        """Return what puts the parts together."""
        return MemberTally()


def _smallest(names: Keys, drawn: Keys, keys: Keys) -> tuple[Keys, Keys, Keys]:
    """Return of each name, ascending, the smallest word with its record key; of equal words the smaller key."""
    order = np.lexsort((keys, drawn, names))
    names, drawn, keys = names[order], drawn[order], keys[order]
    first = np.append(True, names[1:] != names[:-1])[: names.size]
    return names[first], drawn[first], keys[first]


class MemberTally:
    """Puts parts together; what is held of a household is its name, and the member chosen so far."""

    def __init__(self) -> None:
        none = np.zeros(0, dtype=np.uint64)
        self._held: tuple[Keys, Keys, Keys] = (none, none, none)
        self._alone: list[Keys] = [none]
        self._waiting: list[tuple[Keys, Keys, Keys]] = []

    def add(self, part: Part) -> None:
        """Add a part."""
        *found, alone = part
        self._alone.append(alone)
        self._waiting.append((found[0], found[1], found[2]))
        if sum(one.size for one, _, _ in self._waiting) > max(self._held[0].size, _WAITING):
            self._merge()

    def _merge(self) -> None:
        names, drawn, keys = (np.concatenate(parts) for parts in zip(self._held, *self._waiting, strict=True))
        self._held, self._waiting = _smallest(names, drawn, keys), []

    def found(self) -> Keys:
        """Return the record keys of all that show something, ascending."""
        self._merge()
        return np.sort(np.concatenate([self._held[2], *self._alone]))


def member_choice(mechanism: Mechanism, key: ReleaseKey, record_key: str | None) -> MemberChoice | None:
    """Return the want of a mechanism's members, None where every record shows something of the split."""
    if mechanism.split is None or not mechanism.split.of_members or mechanism.units is None:
        return None
    return MemberChoice(mechanism.units.household, derive_members(key), record_key)


def members_of(table: pa.Table, mechanism: Mechanism, key: ReleaseKey, record_key: str | None) -> Keys | None:
    """Return the same answer for all records in one table."""
    want = member_choice(mechanism, key, record_key)
    if want is None:
        return None
    held: Any = table.select(list(want.columns)).combine_chunks().to_batches()
    tally, first = MemberTally(), 0
    for batch in held:
        tally.add(want.part(Piece(batch, first)))
        first += batch.num_rows
    return tally.found()


def require_whole(mechanism: Mechanism) -> None:
    """Raise UsageError where the members of one household can be in several frames: who shows is then not known."""
    if mechanism.split is not None and mechanism.split.of_members:
        what = "one random member of each household shows the split, and this frame is a part of the records"
        raise UsageError(sentence(what, fix="perturb all records as one frame, or release the file by a plan"))
