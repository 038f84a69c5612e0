"""Perturbed columns beside the keys: what their released values say of who is who, to one who knows none of them.

Such an attacker weighs a released record by ``Σ_y P(y | x) M[(x, y), z]``: over what may be true of the person.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from postrand.risk.blend import Blend
from postrand.risk.cells import FloatArray, IntArray, KeyCodes, ravel
from postrand.risk.law import Group, KeyLaw
from postrand.risk.split_law import Law
from postrand.risk.telling import MAX_CELLS, information, is_more, table_of

Places = tuple[int, ...]
MOST_COLUMNS, MOST_TRUE = 20, 1024
"""Columns that are weighed at most, and combinations of their true values that one block perturbs together."""
FITTED, TRIED = 3_000, 5
"""Records by which powers are fitted at most, and keys or pairs of keys that are tried for a column."""
RECORDS_A_CELL, FEWEST_A_CELL = 10, 3
"""Records on average for each class that occurs with a pair of keys, and with one."""
HALVINGS = 10


class _Told(NamedTuple):
    """Keys by their places, their cell of each record (n,), its counts with a column (K, Y), and degrees of freedom."""

    places: Places
    cell: IntArray
    counts: IntArray
    free: int


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """Hold ``log P(y)`` (Y,), and what some keys add for each of their values, ``γ log P(y | x) / P(y)``, (K, Y).

    Each of ``adds`` is of one key, or of two together: their places, their numbers of values, and the matrix.
    """

    alone: FloatArray
    adds: tuple[tuple[Places, Places, FloatArray], ...]

    @classmethod
    def of(cls, keys: KeyCodes, column: IntArray, size: int) -> Belief:
        """Return how the true values of a column, codes (n,) below ``size``, go with the keys of this file.

        Of the keys, and pairs of them, with enough records for each class that occurs (``RECORDS_A_CELL``), the
        ``TRIED`` that say most beyond chance are added one after the other: with the power γ of [0, 1] by which the
        true values are likeliest, where that gains more than chance explains. One record more is spread as the whole.

        >>> keys = KeyCodes(("sex", "age"), (2, 2), (np.arange(800) % 2, np.arange(800) // 2 % 2))
        >>> found = Belief.of(keys, np.arange(800) % 2, 2)
        >>> [places for places, *_ in found.adds], found.given(np.array([[0, 1]])).round(2).tolist()
        ([(0,)], [[1.0, 0.0]])
        """
        share = (np.bincount(column, minlength=size) + 1 / size) / (column.size + 1)
        alone, some = np.log(share), np.arange(0, keys.records, -(-keys.records // FITTED))
        held, adds = np.tile(alone, (some.size, 1)), []
        for places, cell, counts, free in _most(keys, column, size):
            law = counts + share
            more = np.log(law / law.sum(axis=1, keepdims=True)) - alone
            beside = more[cell[some]]
            power, gain = _power(held, beside, column[some])
            if is_more(2 * gain * keys.records / some.size, free):
                held += power * beside
                adds.append((places, tuple(keys.shape[j] for j in places), power * more))
        return cls(alone, tuple(adds))

    def given(self, true: IntArray) -> FloatArray:
        """Return ``P(y | x)`` for true keys (X, J), shape (X, Y)."""
        found = np.tile(self.alone, (true.shape[0], 1))
        for places, sizes, more in self.adds:
            found += more[ravel([true[:, j] for j in places], sizes)]
        share = np.exp(found - found.max(axis=1, keepdims=True))
        return np.asarray(share / share.sum(axis=1, keepdims=True))


def _most(keys: KeyCodes, column: IntArray, size: int) -> Iterator[_Told]:
    """Yield keys and pairs that say most of a column, of these the best first."""
    every, found = range(len(keys.names)), list[tuple[float, _Told]]()
    for places in (*itertools.combinations(every, 1), *itertools.combinations(every, 2)):
        sizes = [keys.shape[j] for j in places]
        if math.prod(sizes) * size > MAX_CELLS:
            continue
        cell = ravel([keys.codes[j] for j in places], sizes).astype(np.int64)
        counts = table_of((cell, math.prod(sizes)), (column, size))
        nats, free = information(counts)
        least = FEWEST_A_CELL if len(places) == 1 else RECORDS_A_CELL
        is_many = np.count_nonzero(counts) * least <= keys.records
        if is_many and is_more(2 * keys.records * nats, free):
            found.append((nats - free / (2 * keys.records), _Told(places, cell, counts, free)))
    yield from (told for _, told in sorted(found, key=lambda one: -one[0])[:TRIED])


def _power(held: FloatArray, beside: FloatArray, true: IntArray) -> tuple[float, float]:
    """Return the γ of [0, 1] by which ``held + γ beside`` (n, Y) makes true values likeliest, and the nats it gains.

    The loss is convex: its slope, the mean of what is added less what is added to the true values, is halved on.
    """
    own, low, high = (np.arange(true.size), true), 0.0, 1.0
    added = float(beside[own].sum())
    for _ in range(HALVINGS):
        power = (low + high) / 2
        share = np.exp(held + power * beside)  # of logarithms of shares: none is too large
        slope = float(((share * beside).sum(axis=1) / share.sum(axis=1)).sum()) - added
        low, high = (low, power) if slope > 0 else (power, high)
    power = (low + high) / 2
    plain, more = (np.log(np.exp(logs).sum(axis=1)).sum() for logs in (held, held + power * beside))
    return power, float(plain - more + power * added)


@dataclass(frozen=True, slots=True, eq=False)
class Latent:
    """Hold perturbed columns beside J keys: ``truth`` (n,) has the keys and then these, and ``law`` is that of both."""

    keys: int
    truth: KeyCodes
    law: Law
    beliefs: tuple[Belief, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self.truth.names[self.keys :]

    def given(self, true: IntArray) -> list[FloatArray]:
        """Return ``P(y | x)`` of each column for true keys (X, J), shape (X, Y) each."""
        return [belief.given(true) for belief in self.beliefs]

    def on_keys(self) -> KeyLaw | None:
        """Return the law of the keys, which blocks perturb together with these columns; None of a split.

        ``M[x, z] = Σ_y P(y | x) Σ_v M[(x, y), (z, v)]`` of each group, with the shares P of this file.
        """
        law = self.law
        if not isinstance(law, KeyLaw):
            return None
        held = [b for b, at in enumerate(law.positions) if any(j < self.keys for j in at)]
        groups = [_averaged(law, b, self.truth, self.keys) for b in held]
        units = [law.units[b] for b in held]
        return KeyLaw.of_groups(self.truth.shape[: self.keys], groups, units)


def _averaged(law: KeyLaw, b: int, truth: KeyCodes, keys: int) -> Group:
    """Return group b of a law on its keys alone: the mean over what is true beside them in this file."""
    at = law.positions[b]
    known = [place for place, j in enumerate(at) if j < keys]
    sizes, positions = [law.shape[j] for j in at], tuple(at[place] for place in known)
    if len(known) == len(at):
        return at, law.matrices[b], law.cells[b], law.order[b]
    matrix = law.matrices[b][np.ix_(law.order[b], law.order[b])]
    codes = np.unravel_index(law.cells[b], sizes)
    cells, of = np.unique(ravel([codes[k] for k in known], [sizes[k] for k in known]), return_inverse=True)
    number = ravel([truth.codes[j] for j in at], sizes)
    place = np.searchsorted(law.cells[b], number).clip(max=law.cells[b].size - 1)
    real = law.cells[b][place] == number  # what the block does not have is refused elsewhere
    counts = np.bincount(place[real], minlength=law.cells[b].size).astype(np.float64)
    counts[np.bincount(of, counts)[of] == 0] = 1.0  # keys that nobody has
    share = np.zeros((cells.size, counts.size))
    share[of, np.arange(counts.size)] = counts / np.bincount(of, counts)[of]
    together = np.zeros((counts.size, cells.size))
    together[np.arange(counts.size), of] = 1.0
    return positions, share @ matrix @ together, cells, np.arange(cells.size)


Hidden = Mapping[int, FloatArray]
"""What may be true of the columns that nobody knows, by place among those of a law: ``P(y | x)``, (X, Y)."""


def of_group(law: KeyLaw, b: int, true: IntArray, hidden: Hidden, rows: IntArray) -> FloatArray:
    """Return ``Σ_y P(y | x) M_b[(x, y), z]`` of group b for true values (X, J) and released ``rows`` (U,): (X, U).

    What stands in ``true`` at a hidden place is not read. Combinations that the group does not have count as 0.
    """
    at, matrix = law.positions[b], law.matrices[b]
    if len(at) == 1 and law.cells[b].size == hidden[at[0]].shape[1]:  # one column, of which the group has all values
        return np.asarray(hidden[at[0]] @ matrix[np.ix_(law.order[b], rows)])
    unknown = [j for j in at if j in hidden]
    combined = np.indices([hidden[j].shape[1] for j in unknown]).reshape(len(unknown), -1)
    weight = np.ones((true.shape[0], combined.shape[1]))
    for j, values in zip(unknown, combined, strict=True):
        weight *= hidden[j][:, values]
    known = [j for j in at if j not in hidden]
    different, of = np.unique(true[:, known], axis=0, return_inverse=True)
    found = np.zeros((true.shape[0], rows.size))
    for k, own in enumerate(different):
        held = [
            combined[unknown.index(j)] if j in hidden else np.full(combined.shape[1], own[known.index(j)]) for j in at
        ]
        number = ravel(held, [law.shape[j] for j in at])
        place = np.searchsorted(law.cells[b], number).clip(max=law.cells[b].size - 1)
        real = law.cells[b][place] == number
        mine = of.ravel() == k
        found[mine] = weight[np.ix_(mine, real)] @ matrix[np.ix_(law.order[b][place[real]], rows)]
    return found


def of_blend(blend: Blend, true: IntArray, hidden: Hidden, released: IntArray) -> FloatArray:
    """Return ``stays [x = z] Π P(z_s | x) + redrawn[z]`` for true values (X, J) and released cells (U, |blend|)."""
    found: FloatArray = np.full((true.shape[0], released.shape[0]), blend.stays)
    for place, (j, _) in enumerate(zip(blend.positions, blend.sizes, strict=True)):
        if j in hidden:
            found *= hidden[j][:, released[:, place]]
    known = [place for place, j in enumerate(blend.positions) if j not in hidden]
    if known:
        sizes = [blend.sizes[place] for place in known]
        x = ravel([true[:, blend.positions[place]] for place in known], sizes)
        found *= x[:, None] == ravel([released[:, place] for place in known], sizes)
    found += blend.rows(released)[1]
    return found
