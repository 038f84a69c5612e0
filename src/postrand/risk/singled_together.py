"""Combinations of many unperturbed columns that single out records: minimal ones, within a stated number of trials.

A set of columns singles out at least what a part of it does. So all columns together say whether there is any such
combination, and from a set that singles out too many a minimal one follows by halving, without trying every subset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.risk.finding import share_text
from postrand.risk.sample import Sampled

Codes = tuple[NDArray[np.int64], int]

MAX_TRIALS = 200
"""So many combinations are tried at most."""
MAX_SETS = 6
"""Of so many combinations a curator is told at most."""
_SEED = 20_261_122


@dataclass(frozen=True, slots=True)
class Together:
    """Hold minimal sets of columns that single out more than a share of the records, each with its share: confidential.

    ``every`` is the share of all columns together: where it is not above the limit, no combination is. ``trials``: how
    many combinations were tried.
    """

    sets: tuple[tuple[tuple[str, ...], float], ...]
    every: float
    trials: int


def together(codes: Mapping[str, Codes], limit: float, trials: int = MAX_TRIALS) -> Together:
    """Search for minimal sets of columns that single out more than ``limit`` of the records; at most ``MAX_SETS``.

    ``codes`` are the columns, the most identifying first. A set is minimal where without any of its columns it is
    within the limit. Records are compared by a sum of random 64-bit words, one for each value: two of n records
    that differ are taken for alike with a probability below ``n² / 2^65``.

    >>> a, b = (np.array([0, 0, 1, 1]), 2), (np.array([0, 1, 0, 1]), 2)
    >>> together({"a": a, "b": b, "c": a}, 0.5).sets
    ((('a', 'b'), 1.0), (('b', 'c'), 1.0))
    """
    search = _Search(codes, limit, trials)
    every = search.share(list(codes))
    sets: dict[frozenset[str], float] = {}
    if every > limit:
        for order in _orders(list(codes)):
            found = search.minimal(order)
            if found is None or len(sets) == MAX_SETS:
                break
            sets.setdefault(frozenset(found), search.share(found))
    listed = tuple((tuple(name for name in codes if name in own), share) for own, share in sets.items())
    return Together(listed, every, len(search.held))


def singled_by_all(codes: Mapping[str, Codes]) -> float:
    """Return the share of the records that all these columns single out together; compared as :func:`together` does.

    >>> a, b = (np.array([0, 0, 1, 1]), 2), (np.array([0, 1, 1, 1]), 2)
    >>> singled_by_all({"a": a, "b": b}), singled_by_all({})
    (0.5, 0.0)
    """
    return _Search(codes, 0.0, 0).share(list(codes)) if codes else 0.0


@dataclass(frozen=True, slots=True)
class Every:
    """Hold which share of the records all unperturbed columns single out together; ``sample`` records, 0 if all are."""

    share: float
    sample: int = 0

    @property
    def in_words(self) -> str:
        """What they single out, and where this was looked at."""
        most = f"{share_text(self.share)} of the records" if self.share else "no record"
        return f"single out {most}" + f" in a sample of {self.sample:,} records" * bool(self.sample)


def all_together(sample: Sampled, names: Sequence[str]) -> Every | None:
    """Return what all these columns single out together; None where there are fewer than two."""
    if len(names) < 2:
        return None
    share = singled_by_all({name: sample.codes(name) for name in names})
    return Every(share, 0 if sample.is_whole else sample.table.num_rows)


def _orders(names: list[str]) -> Iterator[list[str]]:
    """Yield orders of the columns: a minimal set is one of the first of them that suffice."""
    yield names
    yield names[::-1]
    for place in range(1, len(names)):
        yield names[place:] + names[:place]


class _Search:
    """Tries sets of columns, and remembers what it tried."""

    def __init__(self, codes: Mapping[str, Codes], limit: float, trials: int) -> None:
        random = np.random.default_rng(_SEED)
        words = {name: random.integers(0, 2**64, size, dtype=np.uint64) for name, (_, size) in codes.items()}
        self.words = {name: words[name][code] for name, (code, _) in codes.items()}
        self.limit, self.trials = limit, trials
        self.held: dict[frozenset[str], float] = {}

    def share(self, names: Sequence[str]) -> float:
        """Return the share of the records that these columns single out together."""
        place = frozenset(names)
        if place not in self.held:
            total = np.sum([self.words[name] for name in names], axis=0, dtype=np.uint64)
            _, counts = np.unique(total, return_counts=True)
            self.held[place] = float((counts == 1).sum()) / max(total.size, 1)
        return self.held[place]

    def minimal(self, order: list[str]) -> list[str] | None:
        """Return a minimal set above the limit, all columns being above it; None where the trials are used up.

        The last column of the shortest beginning of ``order`` that suffices is needed; the rest is found before it.
        """
        needed: list[str] = []
        while not needed or self.share(needed) <= self.limit:
            low, high = 1, len(order)
            while low < high:
                middle = (low + high) // 2
                if len(self.held) >= self.trials:
                    return None
                low, high = (low, middle) if self.share([*needed, *order[:middle]]) > self.limit else (middle + 1, high)
            needed.append(order[low - 1])
            order = order[: low - 1]
        return needed
