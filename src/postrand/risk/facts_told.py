"""What somebody guesses of a perturbed column who knows the keys of a person, and which released record is theirs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from postrand.risk.cells import FloatArray, IntArray, KeyCodes, ravel
from postrand.risk.informed import sampled
from postrand.risk.latent import Belief, Hidden, Latent
from postrand.risk.law import KeyLaw
from postrand.risk.split_law import SplitLaw, drawn_by

BoolArray = NDArray[np.bool_]
PERSONS, RELEASES, DRAWN = 20_000, 3, 15_000
"""Persons of whom a column is guessed at most, at random, and releases that are drawn of them, or so many records."""
SURE = 0.95
"""Of which persons a guess is surer than this is told apart; a convention."""
ENTRIES = 1 << 22
"""What may be true of persons is summed up for so many combinations at a time: 32 MB."""


FEWEST, SOME = 100, 0.01
"""Persons of whom the keys alone tell a column, or do not, are told apart where both are so many, and this share."""


class Open(NamedTuple):
    """Hold right guesses, and those ``without`` the record, of the persons of whom the keys alone do not tell a column.

    These are a ``share`` of all: the keys alone make no guess of theirs more than ``SURE`` sure.
    """

    share: float
    right: float
    without: float


@dataclass(frozen=True, slots=True)
class Told:
    """Say how often the best guess of a column is right from the keys and the released record, and ``without`` it.

    ``sure``: of which share of the persons such a guess is more than ``SURE`` sure. ``open``: the same of the persons
    of whom the keys alone do not tell the column, such as the cause of death of those who died, where a key is whether
    they did; None where these are nearly all, or hardly any.
    """

    name: str
    right: float
    without: float
    sure: float = 0.0
    open: Open | None = None

    @property
    def gain(self) -> float:
        """What the record adds to right guesses, of all persons or of those whose keys do not tell, whichever is more.

        >>> round(Told("cause", 0.87, 0.84, open=Open(0.28, 0.56, 0.43)).gain, 6)
        0.13
        """
        return max(self.right - self.without, 0.0 if self.open is None else self.open.right - self.open.without)

    @property
    def most(self) -> float:
        """What a record would add that shows the true value."""
        return 1 - min(self.without, 1.0 if self.open is None else self.open.without)

    def of(self, measure: str) -> float:
        """Return what a rule is about: ``guess_gain``, ``sure_guesses`` or ``right_guesses``.

        >>> Told("cause", 0.75, 0.5, sure=0.1).of("guess_gain"), Told("cause", 0.75, 0.5, sure=0.1).of("sure_guesses")
        (0.25, 0.1)
        """
        return {"guess_gain": self.gain, "sure_guesses": self.sure, "right_guesses": self.right}[measure]

    @property
    def is_of_open(self) -> bool:
        """Whether ``gain`` is that of the persons whose keys do not tell the column."""
        return self.gain > self.right - self.without


def told_facts(
    latent: Latent,
    answers: Mapping[str, int],
    *,
    keys: int | None = None,
    household: IntArray | None = None,
    seed: int = 0,
) -> tuple[Told, ...]:
    """Return how often who knows keys and record guesses each of these columns rightly, of persons with an answer.

    Of the known columns of ``latent`` the first ``keys``, by default all, are known without the record, which shows the
    others unperturbed. ``answers``: of each column that is wanted, how many of its values are answers, the first ones.

    The guess is the y with the largest ``P(y | x) Σ_v P(v | x) M[(x, y, v), z]``, with v what may be true of the other
    columns, which are taken as independent given the keys, and the shares P of this file; without the release that with
    the largest ``P(y | x)``, or the value that is most frequent. Right guesses are counted in simulated releases, of
    all persons and of those of whom no ``P(y | x)`` is more than ``SURE``.
    """
    wanted = [s for s, name in enumerate(latent.names) if name in answers]
    if not wanted:
        return ()
    rng = np.random.default_rng([seed, 4])
    some = sampled(latent.truth.records, PERSONS, household, rng)
    own = latent.law.among(some) if isinstance(latent.law, SplitLaw) else latent.law
    truth = latent.truth.take(some)
    true = np.stack(truth.codes, axis=1).astype(np.int64)
    sizes = {s: answers[latent.names[s]] for s in wanted}
    has = {s: true[:, latent.keys + s] < sizes[s] for s in wanted}
    alone = latent.truth.select(latent.truth.names[: latent.keys if keys is None else keys])
    before = {s: _before(latent, s, alone, true, sizes[s]) for s in wanted}
    kinds = {s: np.stack([has[s], has[s] & (before[s].max(axis=1) <= SURE)]) for s in wanted}
    right, sure = {s: np.zeros(2) for s in wanted}, dict.fromkeys(wanted, 0.0)
    step = max(ENTRIES // sum(latent.truth.shape[latent.keys :]), 1)
    many = max(min(RELEASES, DRAWN // max(some.size, 1)), 1)
    for drawn in drawn_by(own, truth, rng.integers(2**31, size=many).tolist()):
        seen = np.stack(drawn.codes, axis=1).astype(np.int64)
        for start in range(0, some.size, step):
            piece = slice(start, start + step)
            beliefs = latent.given(true[piece, : latent.keys])
            for s in wanted:
                posterior = beliefs[s] * _likelihood(latent, s, true[piece], beliefs, seen[piece])
                answers_of = posterior[:, : sizes[s]]
                hit = answers_of.argmax(axis=1) == true[piece, latent.keys + s]
                right[s] += (hit & kinds[s][:, piece]).sum(axis=1) / many
                is_sure = answers_of.max(axis=1) > SURE * posterior.sum(axis=1)
                sure[s] += float(is_sure[has[s][piece]].sum()) / many
    found = (_told(latent.names[s], true[:, latent.keys + s], before[s], kinds[s], right[s], sure[s]) for s in wanted)
    return tuple(one for one in found if one is not None)


def _before(latent: Latent, s: int, alone: KeyCodes, true: IntArray, size: int) -> FloatArray:
    """Return ``P(y | x)`` of the answers of a column from the keys ``alone``, of these persons: shape (n, size)."""
    column = latent.truth.codes[latent.keys + s]
    belief = Belief.of(alone, column, latent.truth.shape[latent.keys + s])
    return belief.given(true[:, : len(alone.names)])[:, :size]


def _told(
    name: str, values: IntArray, before: FloatArray, kinds: BoolArray, right: FloatArray, sure: float
) -> Told | None:
    """Return what is told of a column; ``kinds``, shape (2, n): who has an answer, and of whom the keys do not tell it.

    ``right`` are the guesses of each that are right in a release, ``sure`` those that are more than ``SURE`` sure.
    """
    every, unknown = kinds.sum(axis=1).tolist()
    if not every:
        return None
    guess, found = before.argmax(axis=1), []
    for kind, hits in zip(kinds, right.tolist(), strict=True):
        own, many = values[kind], max(int(kind.sum()), 1)
        without = max(float((guess[kind] == own).sum()), float(np.bincount(own, minlength=1).max())) / many
        found.append((max(hits / many, without), without))
    is_apart = min(unknown, every - unknown) >= max(FEWEST, SOME * every)
    return Told(name, *found[0], sure / every, Open(unknown / every, *found[1]) if is_apart else None)


def _likelihood(latent: Latent, s: int, true: IntArray, beliefs: list[FloatArray], seen: IntArray) -> FloatArray:
    """Return ``Σ_v P(v | x) M[(x, y, v), z]`` of each person and y up to a factor, (n, Y): all ones if not shown."""
    found, at = np.ones_like(beliefs[s]), latent.keys + s
    for law, columns, records in _parts(latent, seen):
        if law is None or at not in columns or not records.size:
            continue
        hidden = {
            place: beliefs[c - latent.keys][records] for place, c in enumerate(columns) if c >= latent.keys and c != at
        }
        own, shown = true[records][:, columns], seen[records][:, columns]
        found[records] = _of_law(law, list(columns).index(at), own, hidden, shown, found.shape[1])
    return found


def _parts(latent: Latent, seen: IntArray) -> Iterator[tuple[KeyLaw | None, list[int], IntArray]]:
    """Yield the law of each part with its columns, and the records that show it."""
    law = latent.law
    if isinstance(law, KeyLaw):
        yield law, list(range(seen.shape[1])), np.arange(seen.shape[0])
        return
    of = law.shown(seen)
    yield from ((part.law, list(part.positions), np.flatnonzero(of == k)) for k, part in enumerate(law.parts))


def _of_law(law: KeyLaw, at: int, true: IntArray, hidden: Hidden, seen: IntArray, size: int) -> FloatArray:
    """Return the same for records that a law without a split shows; ``at`` is the place of the column there."""
    blend = law.blend
    if blend is not None and at in blend.positions:
        stays = np.full(true.shape[0], blend.stays)
        for j in (j for j in blend.positions if j != at):
            stays *= hidden[j][np.arange(true.shape[0]), seen[:, j]] if j in hidden else true[:, j] == seen[:, j]
        found = np.tile(blend.rows(seen[:, list(blend.positions)])[1][:, None], (1, size))
        found[np.arange(true.shape[0]), seen[:, at]] += stays
        return found
    b = next(b for b, group in enumerate(law.positions) if at in group)
    return _of_group(law, b, at, true, hidden, seen, size)


def _of_group(law: KeyLaw, b: int, at: int, true: IntArray, hidden: Hidden, seen: IntArray, size: int) -> FloatArray:
    places, cells, order, matrix = law.positions[b], law.cells[b], law.order[b], law.matrices[b]
    if len(places) == 1 and cells.size == size:
        return np.asarray(matrix[order].T[law.rows(b, seen)])
    rest = [j for j in places if j in hidden]
    combined = np.indices([size, *(hidden[j].shape[1] for j in rest)]).reshape(1 + len(rest), -1)
    values: Mapping[int, IntArray] = dict(zip([at, *rest], combined, strict=True))
    column, found = law.rows(b, seen), np.zeros((true.shape[0], size))
    sizes = [law.shape[j] for j in places]
    step = max(ENTRIES // combined.shape[1], 1)
    for start in range(0, true.shape[0], step):
        some = slice(start, start + step)
        shape = true[some].shape[0], combined.shape[1]
        codes = [
            np.broadcast_to(values[j] if j in values else true[some, j][:, None], shape).astype(np.int64)
            for j in places
        ]
        number = ravel(codes, sizes)
        place = np.searchsorted(cells, number).clip(max=cells.size - 1)
        chance = np.where(cells[place] == number, matrix[order[place], column[some][:, None]], 0.0)
        for j in rest:
            chance = chance * hidden[j][some][:, values[j]]
        found[some] = chance.reshape(shape[0], size, math.prod(hidden[j].shape[1] for j in rest)).sum(axis=2)
    return found
