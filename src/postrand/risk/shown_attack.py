"""The attack of one who weighs released records by what they show unperturbed, and knows that of nobody.

A record with a weight that is usual in a region is more likely from there, whatever region it is released in. The
attacker knows how such a column goes with a key in this file: 5 to 10% more than who learns it from the release.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from postrand.risk.cells import CellTable, FloatArray, IntArray, KeyCodes, table
from postrand.risk.law import KeyLaw
from postrand.risk.linkage import Linkage
from postrand.risk.links import TIED
from postrand.risk.shown import Shown
from postrand.risk.split_attack import entries
from postrand.risk.split_law import Law, SplitLaw

HELD = 1 << 21
"""Weights of persons and released cells that are held at a time: 16 MB."""
PAIRS = 50_000_000
"""Weigh so many pairs of a person and a released cell at most in one release; then fewer persons, at random."""
FEWEST = 400
"""Persons that are weighed at least, of whatever file."""


def link_shown(truth: KeyCodes, released: KeyCodes, law: Law, shown: Shown, targets: IntArray) -> Linkage:
    """Link each target to the record with the largest posterior, weighed by its unperturbed columns too.

    ``P(record r is the target) = w_r / Σ_s w_s,  w_r = M[x, z_r] P(u_r | x) / q(z_r, u_r)``

    with ``q(z, u) = Σ_i M[x_i, z] P(u | x_i) / n`` over all persons i of the file, or as many at random as ``PAIRS``
    allows: the attacker knows their keys, as with ``link(..., knowledge="keys")``. After a split, M is the law of what
    a record shows. Whether a link is right rests on no model; what is claimed rests on the columns being independent
    given the keys.
    """
    people, held = table(truth.take(targets)), table(shown.beside(released))
    weights = _Weights.of(law, held, shown)
    q = weights.density(table(truth))
    x, z = people.record_cell, held.record_cell[targets]
    order = np.argsort(x, kind="stable")
    correct, claimed = np.empty(x.size), np.empty(x.size)
    for start, piece in weights.pieces(people.codes):
        piece /= q
        mine = order[slice(*np.searchsorted(x, [start, start + piece.shape[0]], sorter=order))]
        best, at = piece.max(axis=1), x[mine] - start
        near = piece >= np.where(best > 0, best * TIED, np.inf)[:, None]
        tied, total = np.maximum(near @ held.counts, 1), piece @ held.counts
        correct[mine] = near[at, z[mine]] / tied[at]
        claimed[mine] = np.divide(best, total, out=np.zeros_like(best), where=total > 0)[at]
    return Linkage("keys", correct, np.minimum(claimed, 1.0))


def persons(cells: int) -> int:
    """Return how many persons may be weighed, where a release has so many cells."""
    return max(FEWEST, PAIRS // max(cells, 1))


@dataclass(frozen=True, slots=True, eq=False)
class _Weights:
    """The weights ``M[x, z] P(u | x)`` of released cells: keys z (Z, J), classes u (Z, S), in the ``parts`` of a law.

    ``parts`` are places of keys, their law, and the cells that show them.
    """

    shown: Shown
    codes: IntArray
    classes: IntArray
    parts: tuple[tuple[list[int], KeyLaw | None, IntArray], ...]

    @classmethod
    def of(cls, law: Law, held: CellTable, shown: Shown) -> _Weights:
        keys = len(held.names) - len(shown.names)
        codes, classes = held.codes[:, :keys], held.codes[:, keys:]
        if not isinstance(law, SplitLaw):
            return cls(shown, codes, classes, ((list(range(keys)), law, np.arange(codes.shape[0])),))
        of = law.shown(codes)
        parts = ((list(part.positions), part.law, np.flatnonzero(of == k)) for k, part in enumerate(law.parts))
        return cls(shown, codes, classes, tuple(part for part in parts if part[2].size))

    def pieces(self, true: IntArray) -> Iterator[tuple[int, FloatArray]]:
        """Yield the weights of all cells for some true keys after the others, (X, Z) each, and the first of these."""
        step = max(HELD // self.codes.shape[0], 1)
        for start in range(0, true.shape[0], step):
            some = true[start : start + step]
            found = self.shown.likelihood(some, self.classes)
            for keys, law, cells in self.parts:
                found[:, cells] *= entries(law, some[:, keys], self.codes[cells][:, keys])
            yield start, found

    def density(self, everybody: CellTable) -> FloatArray:
        """Return ``q``, the mean of the weights over all persons, or over some at random, shape (Z,)."""
        rng, most = np.random.default_rng(23), persons(self.codes.shape[0])
        true, counts = everybody.codes, everybody.counts
        if true.shape[0] > most:
            some = rng.choice(true.shape[0], most, p=counts / counts.sum())
            true, counts = true[some], np.ones(most, dtype=np.int64)
        found = np.zeros(self.codes.shape[0])
        for start, piece in self.pieces(true):
            found += counts[start : start + piece.shape[0]] @ piece
        found /= counts.sum()
        return np.where(found > 0, found, found.min(initial=1.0, where=found > 0))  # that none of them would show
