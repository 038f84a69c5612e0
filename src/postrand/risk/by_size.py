"""The attack of one who knows how many records the target's household has: household numbers show this of each record.

Household numbers are released as they are, whatever is perturbed, and so are the records of the households of one
size: the attacker compares the target with these alone. Which column says the size in the file, and whether it is
released, does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from postrand.risk.attack import link
from postrand.risk.cells import CellTable, IntArray, KeyCodes, table
from postrand.risk.linkage import Knowledge, Linkage
from postrand.risk.shown import Shown
from postrand.risk.shown_attack import link_shown
from postrand.risk.split_law import Law, SplitLaw

LARGEST = 12
"""Households of more members count as of one size: so many records nobody counts from outside."""


def members(household: IntArray | None) -> IntArray | None:
    """Return how many records the household of each record has, shape (n,), at most ``LARGEST + 1``; None without.

    >>> members(np.array([7, 8, 7])).tolist()
    [2, 1, 2]
    """
    if household is None:
        return None
    _, of = np.unique(household, return_inverse=True)
    return np.minimum(np.bincount(of)[of], LARGEST + 1)


def alike(keys: KeyCodes, household: IntArray | None) -> IntArray:
    """Return how many records share the keys of each, in households of its size where these are known, shape (n,).

    >>> keys = KeyCodes(("sex",), (2,), (np.array([0, 0, 0]),))
    >>> alike(keys, np.array([7, 8, 7])).tolist(), alike(keys, None).tolist()
    ([2, 1, 2], [3, 3, 3])
    """
    found = np.empty(keys.records, dtype=np.int64)
    for records in _strata(household, keys.records):
        cells = table(keys.take(records))
        found[records] = cells.counts[cells.record_cell]
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Stratum:
    """Hold the records (m,) of a file in households of one size, their true keys, and the law of their release.

    ``places`` are those of its targets among all targets, ``targets`` their positions among the records.
    """

    records: IntArray
    truth: KeyCodes
    law: Law
    places: IntArray
    targets: IntArray
    people: CellTable


def strata(truth: KeyCodes, law: Law, household: IntArray | None, targets: IntArray) -> tuple[Stratum, ...]:
    """Return the households of each size that has targets, ascending; one for the whole file without households."""
    found = []
    for records in _strata(household, truth.records):
        place = np.searchsorted(records, targets).clip(max=records.size - 1)
        places = np.flatnonzero(records[place] == targets)
        if places.size:
            own, mine = truth.take(records), place[places]
            inside = law.among(records) if isinstance(law, SplitLaw) else law
            found.append(Stratum(records, own, inside, places, mine, table(own.take(mine))))
    return tuple(found)


def linked(
    attacked: Sequence[Stratum], released: KeyCodes, knowledge: Knowledge, shown: Shown | None = None
) -> Linkage:
    """Return :func:`postrand.risk.attack.link` of all targets, each compared with households of the same size.

    With what records have ``shown`` unperturbed, :func:`postrand.risk.shown_attack.link_shown`.
    """
    size = sum(one.places.size for one in attacked)
    correct, claimed = np.empty(size), np.empty(size)
    for one in attacked:
        own = released.take(one.records)
        if shown is None:
            found = link(one.truth, own, one.law, knowledge, targets=one.targets, people=one.people)
        else:
            found = link_shown(one.truth, own, one.law, shown.take(one.records), one.targets)
        correct[one.places], claimed[one.places] = found.correct, found.claimed
    return Linkage(knowledge, correct, claimed)


def _strata(household: IntArray | None, records: int) -> list[IntArray]:
    sizes = members(household)
    return [np.arange(records)] if sizes is None else [np.flatnonzero(sizes == size) for size in np.unique(sizes)]
