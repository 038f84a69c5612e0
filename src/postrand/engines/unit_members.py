"""One member of each household: who shows a subset of a split that is the household's, or a category that one has.

The member with the smallest word of its record key, under a key of the release key alone, is chosen: it depends on
which records are together, and on nothing that they say. A record without a household number is a household of its
own. So the choice is public, like the subset, and what a household spends is the level of the subset's matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.data.households import identities, together
from postrand.engines.wants import Piece, check_inputs, keys_of, numbered
from postrand.errors import DataError, UsageError, sentence
from postrand.formats import Source
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix_storage import UNIT
from postrand.mechanism.one_member import OneMember
from postrand.support.randomness import ReleaseKey, UnitKeys, derive_members, derive_unit, words

_WAITING = 1 << 20
_LAST = np.uint64(2**64 - 1)

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
    order, first, many = together(names)
    names, drawn, keys = names[order], drawn[order], keys[order]
    if not first.size:
        return names, drawn, keys
    least = np.minimum.reduceat(drawn, first)
    mine = np.where(drawn == np.repeat(least, many), keys, _LAST)
    return names[first], least, np.minimum.reduceat(mine, first)


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


@dataclass(frozen=True, slots=True)
class OneChoice:
    """Want the record keys of the member of each household who is released with a category that exactly one has.

    The true one stays with the probability ``stays[k]`` / 2^53, k being the records of the household; else it is, of
    the others, the one with the smallest word of its record key, so each is equally likely. ``known`` are the records
    that each code of ``size`` stands for. 80 bytes of memory for each household.

    With ``at_most_one``, the code of a category that at most one other member has, the draw is of both. With a =
    ``stays[k]`` and b = ``moved``, the true state stays with a − b; with k b, the member with the smallest word has the
    one and nobody the other; with k (k − 1) b the member with the second smallest has it. So each state has b, and the
    true one b more than a − b. 120 bytes.
    """

    column: str
    name: str
    size: str
    one: int
    known: tuple[int, ...]
    stays: tuple[tuple[int, int], ...]
    keys: UnitKeys = field(repr=False)
    record_key: str | None = None
    at_most_one: int | None = None

    @property
    def numbered(self) -> bool:
        """Whether the places of the records are their keys."""
        return self.record_key is None

    @property
    def named(self) -> tuple[int, ...]:
        """The codes of the categories that are chosen."""
        return (self.one,) if self.at_most_one is None else (self.one, self.at_most_one)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read."""
        own = [] if self.record_key is None else [self.record_key]
        return tuple(dict.fromkeys((self.column, self.name, self.size, *own)))

    def check(self, source: Source, codebook: Codebook) -> None:
        """Raise DataError where a column is missing."""
        check_inputs(source, self.columns, self.record_key)

    def part(self, piece: Piece) -> OnePart:
        """Return what is known of each household of some records, and of records alone."""
        names, there = identities(piece.column(self.column), self.column)
        keys, codes = keys_of(piece.batch, piece.first, self.record_key), piece.codes(self.name)
        has = [codes == code for code in self.named]
        sizes = np.array(self.known, dtype=np.int64)[piece.codes(self.size)]
        wrong = bool((~has[0] | (sizes != 1))[~there].any())
        ask = there if self.at_most_one is not None else there & ~has[0]  # who can be drawn
        least = _least(names[ask], words(self.keys.alone, keys[ask], 0)[:, 0], keys[ask], len(has))
        held: list[NDArray[Any]] = [names, np.ones(keys.size, dtype=np.int64), sizes, sizes]
        for one in has:
            held += [one.astype(np.int64), np.where(one, keys, np.uint64(0))]
        return OnePart(_states([one[there] for one in held]), least, keys[~there], wrong)

    def tally(self, source: Source, codebook: Codebook) -> OneTally:
        """Return what puts the parts together."""
        return OneTally(self)


@dataclass(frozen=True, slots=True, eq=False)
class OnePart:
    """Hold what is known of the households of some records.

    ``states``: see :func:`_states`; ``least``: names, words and keys of who can be drawn, see :func:`_least`; ``alone``
    the keys of records without a household number, and ``wrong`` whether one of these breaks the rule.
    """

    states: list[NDArray[Any]]
    least: tuple[Keys, Keys, Keys]
    alone: Keys
    wrong: bool


def _least(names: Keys, drawn: Keys, keys: Keys, many: int) -> tuple[Keys, Keys, Keys]:
    """Return the smallest words of each name with their record keys: one, or the second after all first ones."""
    found = _smallest(names, drawn, keys)
    if many == 1 or not names.size:
        return found
    rest = keys != found[2][np.searchsorted(found[0], names)]
    second = _smallest(names[rest], drawn[rest], keys[rest])
    return np.append(found[0], second[0]), np.append(found[1], second[1]), np.append(found[2], second[2])


def _states(columns: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return one row for each household, ascending, from rows of records or of parts of it.

    Of each: its name; how many there are; the least and largest size that they say; and of each category that is
    chosen how many have it, and the key of one who does.
    """
    order, first, _ = together(columns[0])
    if not first.size:
        return [*columns]
    names, count, low, high, *roles = (column[order] for column in columns)
    reduced = [np.add.reduceat(count, first), np.minimum.reduceat(low, first), np.maximum.reduceat(high, first)]
    for many, keys in zip(roles[::2], roles[1::2], strict=True):
        reduced += [np.add.reduceat(many, first), np.maximum.reduceat(keys, first)]
    return [names[first], *reduced]


class OneTally:
    """Puts parts together, and chooses."""

    def __init__(self, want: OneChoice) -> None:
        self._want, self._wrong = want, False
        self._parts: list[OnePart] = []
        self._rows = 0

    def add(self, part: OnePart) -> None:
        """Add a part."""
        self._parts.append(part)
        if sum(one.states[0].size for one in self._parts) > 2 * max(self._rows, _WAITING):
            self._merge()

    def _merge(self) -> None:
        states = _states([np.concatenate(columns) for columns in zip(*(p.states for p in self._parts), strict=True)])
        names, drawn, keys = (np.concatenate(columns) for columns in zip(*(p.least for p in self._parts), strict=True))
        alone = np.concatenate([part.alone for part in self._parts])
        least = _least(names, drawn, keys, len(self._want.named))
        self._parts = [OnePart(states, least, alone, any(part.wrong for part in self._parts))]
        self._rows = states[0].size

    def found(self) -> tuple[Keys, ...]:
        """Return the record keys of those who show each category, ascending.

        Raises
        ------
        DataError
            If a household does not have exactly one member with the category, has two with the second one, or not as
            many records as its size says.
        """
        if not self._parts:
            return tuple(np.zeros(0, dtype=np.uint64) for _ in self._want.named)
        self._merge()
        (part,) = self._parts
        _, count, low, high, heads, head, *second = part.states
        wrong = (heads != 1) | (low != count) | (high != count)
        if part.wrong or wrong.any() or (second and (second[0] > 1).any()):
            raise DataError(self._problem())
        chosen = self._pair(part, head, *second) if second else [self._one(part, head)]
        chosen[0] = np.append(chosen[0], part.alone)
        return tuple(np.sort(keys) for keys in chosen)

    def _problem(self) -> str:
        want = self._want
        more = ", has two with the category that at most one has" if want.at_most_one is not None else ""
        what = f"a household does not have exactly one member with the category of {want.name!r}{more}, or not as "
        what += f"many records as {want.size!r} says"
        return sentence(what, where=want.column, fix="correct the records, or remove 'one_member' from the block")

    def _one(self, part: OnePart, head: Keys) -> Keys:
        names, count = part.states[:2]
        other = np.zeros_like(head)  # who lives alone stays
        other[np.searchsorted(names, part.least[0])] = part.least[2]
        return np.where(self._words(names) < self._stays()[count], head, other)

    def _pair(self, part: OnePart, head: Keys, spouses: NDArray[np.int64], spouse: Keys) -> list[Keys]:
        """Return who has the one category in each household, and who the other, where somebody has."""
        names, count = part.states[:2]
        first, second = np.zeros_like(head), np.zeros_like(head)
        at = np.searchsorted(names, part.least[0])
        first[at[: names.size]] = part.least[2][: names.size]
        second[at[names.size :]] = part.least[2][names.size :]
        a, word = self._stays()[count], self._words(names)
        b = (UNIT - a) // np.maximum(count**2 - 1, 1)
        true, nobody = word < a - b, word < a - b + count * b
        shown = np.where(true, spouses == 1, ~nobody)
        return [np.where(true, head, first), np.where(true, spouse, second)[shown]]

    def _words(self, names: Keys) -> NDArray[np.int64]:
        return (words(self._want.keys.numbered, names, 0)[:, 0] >> np.uint64(11)).astype(np.int64)

    def _stays(self) -> NDArray[np.int64]:
        stays = np.zeros(max(self._want.known) + 1, dtype=np.int64)
        for size, weight in self._want.stays:
            stays[size] = weight
        return stays


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Hold the record keys of members, ascending: who shows the ``split``, None where all do, and who each block's one.

    ``ones`` is by the place of the block: who shows the category, and who the second one of a block with two.
    """

    split: Keys | None = None
    ones: Mapping[int, tuple[Keys, ...]] = field(default_factory=dict)


def choices_of(
    mechanism: Mechanism, key: ReleaseKey, content: bytes, record_key: str | None
) -> tuple[MemberChoice | None, dict[int, OneChoice]]:
    """Return what must be known of the members of households, for the split and by the place of a block.

    ``content`` is the tag that draws are bound to. Who shows the split needs none, for it reads no value.
    """
    units, split = mechanism.units, mechanism.split
    if units is None:
        return None, {}
    of_split = None
    if split is not None and split.of_members:
        of_split = MemberChoice(units.household, derive_members(key), record_key)
    ones, book = {}, mechanism.require_codebook()
    for place, block in enumerate(mechanism.blocks):
        if block.one is None:
            continue
        keys = derive_unit(key, mechanism.digest(), content, f"household, one of block {place}")
        known = tuple(int(category) for category in book[block.given[0]].categories)
        stays = tuple(OneMember.of_block(block, book).stays(block.matrix).items())
        names = (units.household, block.perturbed[0], block.given[0])
        ones[place] = OneChoice(*names, block.one, known, stays, keys, record_key, block.at_most_one)
    return of_split, ones


def chosen_of(wants: tuple[MemberChoice | None, dict[int, OneChoice]], answer: Callable[[list[Any]], Any]) -> Chosen:
    """Return who was chosen; ``answer`` gives what is known of some wants."""
    of_split, ones = wants
    asked: list[Any] = [*([] if of_split is None else [of_split]), *ones.values()]
    if not asked:
        return Chosen()
    found = answer(asked)
    return Chosen(None if of_split is None else found[of_split], {place: found[want] for place, want in ones.items()})


def members_of(
    table: pa.Table, mechanism: Mechanism, key: ReleaseKey, content: bytes, record_key: str | None
) -> Chosen:
    """Return who was chosen of all records in one table."""

    def answer(wants: list[Any]) -> dict[Any, Any]:
        found, book = {}, mechanism.require_codebook()
        for want in wants:
            tally = want.tally(None, book)
            for first, batch in numbered(table.select(list(want.columns)).to_batches()):
                tally.add(want.part(Piece(batch, first, book)))
            found[want] = tally.found()
        return found

    return chosen_of(choices_of(mechanism, key, content, record_key), answer)


def require_whole(mechanism: Mechanism) -> None:
    """Raise UsageError where the members of one household can be in several frames: who shows is then not known."""
    split = mechanism.split
    if (split is not None and split.of_members) or any(block.one is not None for block in mechanism.blocks):
        what = "one member of each household is chosen, and this frame is a part of the records"
        raise UsageError(sentence(what, fix="perturb all records as one frame, or release the file by a plan"))
