"""What two unperturbed columns together say of a perturbed one by their exact values: each record guessed by others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from postrand.risk.reveals import PairReveal
from postrand.risk.singled import MAX_COLUMNS, Codes

RECORDS = 20_000
"""Records that are compared: of more, the first ones of the sample, which is in a random order."""
REPEATED, OFTEN = 0.5, 5
"""Two columns are compared where this share of the records has values that so many records have."""


def told_exactly(
    true: Mapping[str, Codes],
    clear: Mapping[str, Codes],
    ranges: Mapping[str, int],
    is_told: Callable[[str, str, str], bool],
) -> Iterator[tuple[tuple[str, ...], PairReveal]]:
    """Yield what two columns of exact values reveal of a perturbed one, of which bins of numbers say less.

    A rate and a benefit of the state in which somebody lives tell the state, though neither does alone. ``true`` are
    the classes of perturbed columns, ``clear`` the exact values of others. Perturbed columns of which ``is_told`` says
    that a pair tells nothing new are left out.
    """
    some = {name: (codes[:RECORDS], size) for name, (codes, size) in clear.items()}
    for one, two in itertools.combinations(list(some)[:MAX_COLUMNS], 2):
        both = np.unique(some[one][0] * some[two][1] + some[two][0], return_inverse=True)[1]
        if (np.bincount(both)[both] >= OFTEN).mean() < REPEATED:
            continue
        for name in (name for name in true if not is_told(name, one, two)):
            right, blind = guessed_by_others(true[name][0][:RECORDS], both)
            gain = max(right - blind, 0.0) / (1 - blind) if blind < 1 else 0.0
            yield (one, two), PairReveal(name, f"{one}, {two}", gain, 0.0, 0.0, right, blind, ranges[name])


def guessed_by_others(true: NDArray[np.int64], seen: NDArray[np.int64]) -> tuple[float, float]:
    """Return the share of records that are guessed rightly by the others with the same value, and by no value.

    The guess of record i is the most common true value among the other records of its value ``seen``, of all records
    where there is none: ``Σ_i [t_i = argmax_t (n_{c_i t} − [t = t_i])] / n``, a tie being right by half. Values that
    few records have cannot settle themselves, as with the best guess from counts that include the record.

    >>> guessed_by_others(np.array([0, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 2]))
    (1.0, 0.6)
    >>> guessed_by_others(np.array([0, 0, 1, 1, 1]), np.arange(5))
    (0.6, 0.6)
    """
    counts = np.bincount(true)
    most = int(counts.argmax())
    cells, place, many = np.unique(seen * counts.size + true, return_inverse=True, return_counts=True)
    value = cells // counts.size
    order = np.lexsort((-many, value))
    first = np.flatnonzero(np.r_[True, np.diff(value[order]) > 0])
    largest, second = many[order[first]], np.zeros(first.size, dtype=np.int64)
    has_two = np.r_[first[1:], order.size] - first > 1
    second[has_two] = many[order[first[has_two] + 1]]
    group = np.unique(value, return_inverse=True)[1]
    is_first = np.zeros(cells.size, dtype=bool)
    is_first[order[first]] = True
    others, own = np.where(is_first, second[group], largest[group]), many - 1
    right = np.where(own > others, 1.0, np.where((own == others) & (own > 0), 0.5, 0.0))
    alone = (own == 0) & (others == 0)
    right[alone] = cells[alone] % counts.size == most
    return float(right[place].mean()), float(counts[most] / true.size)
