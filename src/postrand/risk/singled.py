"""How many records unperturbed columns single out: one column, and with one or two others."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.risk.sample import Sampled
from postrand.support.measure_names import MAX_ALONE as MAX_ALONE

MAX_COLUMNS = 12
"""So many columns, the most identifying ones, are tried together."""
_DENSE = 1 << 22
Codes = tuple[NDArray[np.int64], int]


@dataclass(frozen=True, slots=True)
class Singled:
    """Hold which share of the records a column singles out: confidential.

    ``alone``: its value is that of one record. ``pair`` and ``triple``: so is the combination with ``one`` other
    column, or with ``two``, those with which the share is largest; None where that was not tried. ``more`` is the
    largest share with two others, ``beyond``, where all three single out too many and no pair of them does, or more
    than ``MAX_ALONE`` beyond each of their pairs: else the third column adds nothing to two.
    """

    name: str
    alone: float
    pair: float | None = None
    triple: float | None = None
    one: tuple[str, ...] = ()
    two: tuple[str, ...] = ()
    more: float | None = None
    beyond: tuple[str, ...] = ()

    @property
    def is_much(self) -> bool:
        """Whether the column singles out so many alone that a decision is needed."""
        return self.alone > MAX_ALONE

    @property
    def largest(self) -> float:
        """The largest of the shares."""
        return max(self.alone, self.pair or 0.0, self.triple or 0.0)


def singled_out(sample: Sampled, names: Sequence[str]) -> tuple[Singled, ...]:
    """Return what each column singles out, the most identifying first.

    Columns that single out more than ``MAX_ALONE`` are not combined with others, which would single out as many. Of the
    rest the ``MAX_COLUMNS`` with the least ``Σ (n_c / n)²`` are combined, n_c being the records with value c.
    """
    alone = {name: sample.share_alone(name) for name in names}
    codes = {name: sample.codes(name) for name in names if alone[name] <= MAX_ALONE}
    tried = sorted(codes, key=lambda name: _repeats(codes[name]))[:MAX_COLUMNS]
    best = combined({name: codes[name] for name in tried})
    found = [Singled(name, alone[name], *best.get(name, ())) for name in names]
    return tuple(sorted(found, key=lambda s: (-s.alone if s.is_much else 0.0, -s.largest)))


Best = tuple[float | None, float | None, tuple[str, ...], tuple[str, ...], float | None, tuple[str, ...]]


def combined(codes: Mapping[str, Codes]) -> dict[str, Best]:
    """Return for each column the largest share singled out with one other and with two, with which, and ``beyond``.

    >>> a, b = (np.array([0, 0, 1, 1]), 2), (np.array([0, 1, 0, 0]), 2)
    >>> combined({"a": a, "b": b})["a"]
    (0.5, None, ('b',), (), None, ())
    """
    pairs: dict[tuple[str, ...], float] = {}
    triples: dict[tuple[str, ...], float] = {}
    names = list(codes)
    for first, second in itertools.combinations(names, 2):
        n = codes[first][0].size
        if not n:
            continue
        joint, size = joined(codes[first], codes[second])
        counts = np.bincount(joint, minlength=size)
        single = counts[joint] == 1
        pairs[first, second] = float(single.mean())
        rest = np.flatnonzero(~single)  # who is single in two columns is so in three, and in nobody else's class
        few = (joint[rest], size)
        for third in names[names.index(second) + 1 :]:
            both, wide = joined(few, (codes[third][0][rest], codes[third][1]))
            further = int((np.bincount(both, minlength=wide) == 1).sum())
            triples[first, second, third] = float(single.mean()) + further / n
    adding = {own: share for own, share in triples.items() if _adds(own, share, pairs)}
    found: dict[str, Best] = {}
    for name in names:
        (pair, one), (triple, two), (more, beyond) = (_best(held, name) for held in (pairs, triples, adding))
        found[name] = (pair, triple, one, two, more, beyond)
    return found


def _adds(names: tuple[str, ...], share: float, pairs: Mapping[tuple[str, ...], float]) -> bool:
    """Whether three columns single out too many, and more than two of them do."""
    within = max(pairs[pair] for pair in itertools.combinations(names, 2))
    return share > MAX_ALONE and (within <= MAX_ALONE or share - within > MAX_ALONE)


def _best(shares: Mapping[tuple[str, ...], float], name: str) -> tuple[float | None, tuple[str, ...]]:
    held = [(share, names) for names, share in shares.items() if name in names]
    if not held:
        return None, ()
    share, names = max(held, key=lambda entry: entry[0])
    return share, tuple(other for other in names if other != name)


def joined(left: Codes, right: Codes) -> Codes:
    """Return the combination of two columns as one, its codes packed where they would be too many."""
    joint, size = left[0] * right[1] + right[0], left[1] * right[1]
    if size <= _DENSE:
        return joint, size
    values, places = np.unique(joint, return_inverse=True)
    return places, int(values.size)


def _repeats(codes: Codes) -> float:
    share = np.bincount(codes[0], minlength=codes[1]) / max(codes[0].size, 1)
    return float((share**2).sum())
