"""Households that a release singles out by what the household number shows: which records are one, so how many."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.data.households import identities
from postrand.errors import PostrandError
from postrand.risk.sample import Sampled
from postrand.risk.singled import MAX_ALONE, MAX_COLUMNS, Codes, Singled

OF_SIZE = "the number of members of the household"
"""What household numbers show, in the place of a column's name."""
_SEED = 20_261_123
_MIX = np.uint64(0xBF58476D1CE4E5B9)


@dataclass(frozen=True, slots=True)
class HouseholdSizes:
    """Hold which share of the records are in households that no other one is like: confidential.

    ``alone``: no other household has their size, ``lone`` of them. ``share``: nor, of this size, the same values of the
    unperturbed ``columns`` in its members, at most two columns; those with which the share is largest. ``rest``: of all
    columns that do not single out too many records alone, of which other findings tell; ``every``: of all columns.
    """

    name: str
    alone: float
    columns: tuple[str, ...]
    share: float
    every: float
    rest: float
    lone: int = 0

    @property
    def is_much(self) -> bool:
        """Whether a curator is warned: for what the size adds, and not for what a column singles out alone."""
        return max(self.alone, self.share, self.rest) > MAX_ALONE


def household_sizes(sample: Sampled, singled: Sequence[Singled]) -> HouseholdSizes | None:
    """Return what sizes single out, alone and with these columns; None without household numbers.

    The first ``MAX_COLUMNS`` are tried one and two together; those that single out too many records alone count beside
    all others only.
    Households are compared by sums of random 64-bit words, one for the values of each member, as
    :mod:`postrand.risk.singled_together` does.
    """
    house = houses_of(sample)
    if house is None or sample.household is None:
        return None
    others = [one for one in singled if one.name != sample.household]
    codes = {one.name: sample.codes(one.name) for one in others}
    rest = [one.name for one in others if not one.is_much]
    return compared(sample.household, house, codes, rest)


def houses_of(sample: Sampled) -> NDArray[np.int64] | None:
    """Return the place of each record's household, shape (n,); None without household numbers, or without records.

    A record without a number is a household of its own.
    """
    if sample.household is None or not sample.table.num_rows:
        return None
    try:
        numbers, there = identities(sample.table.column(sample.household).combine_chunks(), sample.household)
    except PostrandError:  # other steps say that these are no numbers
        return None
    own = np.where(there, 0, np.arange(numbers.size, dtype=np.uint64) + np.uint64(1))
    _, house = np.unique(np.stack([numbers, own]), axis=1, return_inverse=True)
    return np.ravel(house).astype(np.int64)


def members_of(sample: Sampled) -> Codes | None:
    """Return the number of members of each record's household as codes; None where :func:`houses_of` is."""
    house = houses_of(sample)
    if house is None:
        return None
    _, size = np.unique(np.bincount(house)[house], return_inverse=True)
    return np.ravel(size).astype(np.int64), int(size.max()) + 1


def compared(
    name: str, house: NDArray[np.int64], codes: Mapping[str, Codes], rest: Sequence[str] | None = None
) -> HouseholdSizes:
    """Return the same for the place of each record's household (n,), and the codes of columns.

    ``rest`` are the columns of which the first ``MAX_COLUMNS`` are combined, one and two of them; None for all.

    >>> house = np.array([0, 0, 1, 2, 2, 3])
    >>> found = compared("hh", house, {"roof": (np.array([0, 0, 0, 1, 1, 0]), 2)})
    >>> found.alone, found.columns, round(found.share, 3)
    (0.0, ('roof',), 0.667)
    """
    rest = [*codes] if rest is None else rest
    random = np.random.default_rng(_SEED)
    words = {key: random.integers(0, 2**64, size, dtype=np.uint64)[code] for key, (code, size) in codes.items()}
    sizes = np.bincount(house)

    def share(columns: Sequence[str]) -> float:
        record = np.full(house.size, np.uint64(1), dtype=np.uint64)
        for key in columns:
            record += words[key]
        record = (record ^ (record >> np.uint64(31))) * _MIX
        held = np.zeros(sizes.size, dtype=np.uint64)
        np.add.at(held, house, record ^ (record >> np.uint64(29)))
        _, place, many = np.unique(held, return_inverse=True, return_counts=True)
        return float(sizes[many[np.ravel(place)] == 1].sum() / house.size)

    sets = [own for k in (1, 2) for own in itertools.combinations(rest[:MAX_COLUMNS], k)]
    found = {own: share(own) for own in sets}
    best = max(found, key=lambda own: (found[own], -len(own)), default=())
    alone, lone = share(()), int(np.count_nonzero(np.bincount(sizes) == 1))
    return HouseholdSizes(name, alone, best, found.get(best, alone), share(tuple(codes)), share(rest), lone)
