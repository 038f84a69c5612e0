"""The attack of one who weighs released records by all that they show beside the keys, and knows that of nobody.

A record with a weight that is usual in a region is more likely from there, whatever region it is released in. So with
perturbed columns: what they may be of a person weighs what is released of them. The attacker knows how these columns go
with keys in this file: more than who learns it from the release (docs/risk.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from postrand.risk.cells import CellTable, FloatArray, IntArray, KeyCodes, table
from postrand.risk.latent import of_blend, of_group
from postrand.risk.law import KeyLaw
from postrand.risk.linkage import Linkage
from postrand.risk.links import TIED
from postrand.risk.shown import Shown
from postrand.risk.split_law import Law, SplitLaw

HELD, JOINED = 1 << 18, 1 << 21
"""Weights of persons and cells that are held at a time, of one part of a law and of all: 2 MB, which caches, and 16."""
KEPT = 1 << 24
"""So many weights of all persons are kept for their links: 128 MB."""
PAIRS = 50_000_000
"""Weigh so many pairs of a person and a released cell at most in one release; then fewer persons, at random."""
FEWER = 16
"""Factors of the weight are multiplied for their combinations first, if there are so many times fewer than cells."""
FEWEST = 400
"""Persons that are weighed at least, of whatever file."""


def link_shown(truth: KeyCodes, released: KeyCodes, law: Law, shown: Shown, targets: IntArray) -> Linkage:
    """Link each target to the record with the largest posterior, weighed by its other columns too.

    ``P(record r is the target) = w_r / Σ_s w_s,  w_r = M[x, z_r] P(u_r | x) / q(z_r, u_r)``

    with ``q(z, u) = Σ_i M[x_i, z] P(u | x_i) / n`` over all persons i of the file, or as many at random as ``PAIRS``
    allows: the attacker knows their keys, as with ``link(..., knowledge="keys")``. After a split, M is the law of what
    a record shows. Where ``shown`` has perturbed columns, ``truth``, ``released`` and ``law`` are those of the keys and
    then these (:meth:`Shown.attacked`), and ``M[x, z] = Σ_y P(y | x) M[(x, y), z]``: of ``truth`` the keys are known
    alone. Whether a link is right rests on no model; what is claimed rests on the columns being independent given the
    keys.
    """
    known = truth if shown.latent is None else truth.select(truth.names[: shown.latent.keys])
    everybody, people, held = table(known), table(known.take(targets)), table(shown.beside(released))
    weights, every = _Weights.of(law, held, shown), people.codes.shape == everybody.codes.shape
    is_kept = every and people.codes.shape[0] * held.counts.size <= KEPT
    pieces = list(weights.pieces(people.codes)) if is_kept else None
    q = weights.density(everybody, pieces)
    x, z = people.record_cell, weights.place[held.record_cell[targets]]
    counts = held.counts[weights.order]
    order = np.argsort(x, kind="stable")
    correct, claimed = np.empty(x.size), np.empty(x.size)
    for start, piece in pieces or weights.pieces(people.codes):
        piece /= q[:, None]
        mine = order[slice(*np.searchsorted(x, [start, start + piece.shape[1]], sorter=order))]
        best, at = piece.max(axis=0), x[mine] - start
        near = piece >= np.where(best > 0, best * TIED, np.inf)
        cells, of = np.nonzero(near)
        tied = np.maximum(np.bincount(of, counts[cells], best.size), 1)
        total = counts.astype(np.float64) @ piece
        correct[mine] = near[z[mine], at] / tied[at]
        claimed[mine] = np.divide(best, total, out=np.zeros_like(best), where=total > 0)[at]
    return Linkage("keys", correct, np.minimum(claimed, 1.0))


def persons(cells: int) -> int:
    """Return how many persons may be weighed, where a release has so many cells."""
    return max(FEWEST, PAIRS // max(cells, 1))


@dataclass(frozen=True, slots=True, eq=False)
class _Bundle:
    """Hold which of the factors of a weight are multiplied for their different combinations first.

    ``factors`` are their numbers, each with its column of the combinations (U,); ``of`` is the combination of a cell.
    """

    factors: tuple[tuple[int, IntArray], ...]
    of: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Hold the released cells of a part of a law, which are ``cells`` in the order of the parts.

    Its columns stand at the places ``columns`` of all, of which the first ``keys`` are known. Each group of the law has
    a factor for the different rows ``groups`` that cells show, one more the blend for the different cells ``blended``,
    and then each unperturbed column for its different ``classes``.
    """

    law: KeyLaw | None
    columns: list[int]
    keys: int
    cells: slice
    groups: tuple[IntArray, ...]
    blended: IntArray
    classes: tuple[IntArray, ...]
    bundles: tuple[_Bundle, ...]

    @classmethod
    def of(
        cls, law: KeyLaw | None, columns: list[int], keys: int, start: int, codes: IntArray, classes: IntArray
    ) -> _Part:
        """Return the part of cells with these codes of its columns (Z, J) and classes (Z, S), from ``start``."""
        rows = [] if law is None else list(law.groups(codes).T)
        groups = [np.unique(column, return_inverse=True) for column in rows]
        blended, inverse = np.empty((0, 0), dtype=np.int64), []
        if law is not None and law.blend is not None:
            own = codes[:, list(law.blend.positions)]
            blended, places = np.unique(own, axis=0, return_inverse=True)
            inverse = [places.ravel()]
        shown = [np.unique(column, return_inverse=True) for column in classes.T]
        all_of = [*(places for _, places in groups), *inverse, *(places for _, places in shown)]
        held = tuple(rows for rows, _ in groups), blended, tuple(rows for rows, _ in shown)
        cells = slice(start, start + codes.shape[0])
        return cls(law, columns, keys, cells, *held, tuple(_bundles(all_of, codes.shape[0])))

    def weights(self, true: IntArray, beliefs: Sequence[FloatArray], told: Sequence[FloatArray]) -> FloatArray:
        """Return ``M[x, z] P(u | x)`` of the cells for true keys (X, J), shape (Z, X).

        ``beliefs`` are ``P(y | x)`` of the columns behind the keys, (X, Y) each, and ``told`` those ``P(u | x)`` of
        unperturbed ones for all classes, (X, U) each.
        """
        held = [] if self.law is None else list(self._moved(self.law, true, beliefs))
        held += [law[:, own] for law, own in zip(told, self.classes, strict=True)]
        found = np.ones((self.cells.stop - self.cells.start, true.shape[0]))
        for bundle in self.bundles:
            product = np.ones((1, true.shape[0]))
            for factor, places in bundle.factors:
                product = product * held[factor].T[places]
            found *= product[bundle.of]  # whole rows, one for each cell
        return found

    def _moved(self, law: KeyLaw, true: IntArray, beliefs: Sequence[FloatArray]) -> Iterator[FloatArray]:
        """Yield the factor of each group, and of the blend, for its different rows: (X, U) each."""
        own = np.stack([true[:, c if c < self.keys else 0] for c in self.columns], axis=1)
        hidden = {place: beliefs[c - self.keys] for place, c in enumerate(self.columns) if c >= self.keys}
        for b, rows in enumerate(self.groups):
            if hidden.keys().isdisjoint(law.positions[b]):
                yield law.matrices[b][np.ix_(law.rows(b, own), rows)]
            else:
                yield of_group(law, b, own, hidden, rows)
        if law.blend is not None:
            yield of_blend(law.blend, own, hidden, self.blended)


def _bundles(all_of: Sequence[IntArray], cells: int) -> Iterator[_Bundle]:
    """Yield factors together, as long as their combinations are far fewer than the cells."""
    most = max(cells // FEWER, 1)
    taken: list[int] = []
    joint = np.zeros(cells, dtype=np.int64)
    for factor in sorted(range(len(all_of)), key=lambda k: int(all_of[k].max(initial=0))):
        size = int(all_of[factor].max(initial=0)) + 1
        rows, both = np.unique(joint * size + all_of[factor], return_inverse=True)
        if taken and rows.size > most:
            yield _bundle(taken, joint, all_of)
            taken, (_, both) = [], np.unique(all_of[factor], return_inverse=True)
        taken.append(factor)
        joint = both.ravel().astype(np.int64)
    if taken:
        yield _bundle(taken, joint, all_of)


def _bundle(factors: Sequence[int], joint: IntArray, all_of: Sequence[IntArray]) -> _Bundle:
    first = np.unique(joint, return_index=True)[1]
    return _Bundle(tuple((k, all_of[k][first]) for k in factors), joint)


@dataclass(frozen=True, slots=True, eq=False)
class _Weights:
    """The weights ``M[x, z] P(u | x)`` of released cells, in the ``order`` (Z,) of the ``parts`` of a law.

    ``place`` (Z,) is where a cell stands in that order.
    """

    shown: Shown
    parts: tuple[_Part, ...]
    order: IntArray
    place: IntArray

    @classmethod
    def of(cls, law: Law, held: CellTable, shown: Shown) -> _Weights:
        columns = len(held.names) - len(shown.names)
        keys = columns if shown.latent is None else shown.latent.keys
        codes, classes = held.codes[:, :columns], held.codes[:, columns:]
        found: list[tuple[list[int], KeyLaw | None, IntArray]]
        if isinstance(law, SplitLaw):
            of = law.shown(codes)
            found = [(list(part.positions), part.law, np.flatnonzero(of == k)) for k, part in enumerate(law.parts)]
        else:
            found = [(list(range(columns)), law, np.arange(codes.shape[0]))]
        parts, start = [], 0
        for names, own, cells in found:
            if cells.size:
                parts.append(_Part.of(own, names, keys, start, codes[cells][:, names], classes[cells]))
                start += cells.size
        order = np.concatenate([cells for _, _, cells in found])
        return cls(shown, tuple(parts), order, np.argsort(order))

    def pieces(self, true: IntArray) -> Iterator[tuple[int, FloatArray]]:
        """Yield the weights of all cells for some true keys after the others, (Z, X) each, and the first of these."""
        largest = max(part.cells.stop - part.cells.start for part in self.parts)
        step = max(min(HELD // largest, JOINED // self.order.size), 1)
        for start in range(0, true.shape[0], step):
            some = true[start : start + step]
            beliefs = [] if self.shown.latent is None else self.shown.latent.given(some)
            told = self.shown.likelihoods(some)
            found = [part.weights(some, beliefs, told) for part in self.parts]
            yield start, found[0] if len(found) == 1 else np.concatenate(found)

    def density(self, everybody: CellTable, pieces: Sequence[tuple[int, FloatArray]] | None = None) -> FloatArray:
        """Return ``q``, the mean of the weights over all persons, or over some at random, shape (Z,).

        ``pieces`` are the weights of all persons, where they are there.
        """
        rng, most = np.random.default_rng(23), persons(self.order.size)
        true, counts = everybody.codes, everybody.counts
        if pieces is None and true.shape[0] > most:
            some = rng.choice(true.shape[0], most, p=counts / counts.sum())
            true, counts = true[some], np.ones(most, dtype=np.int64)
        found = np.zeros(self.order.size)
        for start, piece in pieces or self.pieces(true):
            found += piece @ counts[start : start + piece.shape[1]].astype(np.float64)
        found /= counts.sum()
        return np.where(found > 0, found, found.min(initial=1.0, where=found > 0))  # that none of them would show
