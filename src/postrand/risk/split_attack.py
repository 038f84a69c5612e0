"""The linkage attack on a split release: each record is weighed by the law of the keys that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from postrand.errors import UsageError, sentence
from postrand.risk.blend import Blend
from postrand.risk.cells import CellTable, FloatArray, IntArray, KeyCodes, table
from postrand.risk.law import KeyLaw
from postrand.risk.linkage import Knowledge, Linkage
from postrand.risk.links import TIED, Links, distinct
from postrand.risk.others import MOST_CORRECTED, Others, others
from postrand.risk.split_law import Part, SplitLaw

ENTRIES = 1 << 22
"""Probabilities of targets and released cells that are held at a time: 32 MB."""


def link_split(
    truth: KeyCodes,
    released: KeyCodes,
    law: SplitLaw,
    knowledge: Knowledge = "matrix",
    *,
    targets: IntArray | None = None,
    people: CellTable | None = None,
) -> Linkage:
    """Link each target to the record of a split release with the largest posterior; see :func:`attack.link`.

    ``P(record r is the target) = w_r / Σ_s w_s,  w_r = M_T[x_T, z_r] / q_T(z_r)``

    with the keys T that record r shows, their law ``M_T``, and the law ``q_T`` of other records that show them, which
    the attacker fits to these: ``π_T`` is in both and cancels. A record that shows no key has weight 1 for everyone.
    ``"keys"`` knows the true keys of all persons besides, and so ``q_T(z) = Σ_i M_T[x_i, z] / n``: next to no work
    where a part has a law of randomised response alone, else a comparison of all persons with all its records.

    Raises
    ------
    UsageError
        If the files differ in keys or number of records, or the attacker does not know the matrices.
    """
    if knowledge not in ("matrix", "keys"):
        what = "after a split, only attackers who know the matrices are defined: records show different keys"
        raise UsageError(sentence(what, got=repr(knowledge), wanted="matrix or keys"))
    if (truth.names, truth.shape, released.shape) != (law.names, law.shape, law.released_shape):
        raise UsageError(sentence("truth and release do not have the keys of the law", wanted=", ".join(law.names)))
    if truth.records != released.records:
        raise UsageError(sentence("truth and release differ in the number of records"))
    if not truth.records:
        return Linkage(knowledge, np.empty(0), np.empty(0))
    chosen = np.arange(truth.records) if targets is None else np.asarray(targets)
    people, held = people or table(truth.take(chosen)), table(released)
    x, z = people.record_cell, held.record_cell[chosen]
    sights = [_Sight.of_part(part, at, held, people.codes) for part, at, _ in law.tables(held)]
    if knowledge == "keys":
        everybody = table(truth)
        models: list[Others | None] = [None] * len(sights)
        scales = [1 / sight.known(everybody) for sight in sights]
    else:
        models = [sight.others() for sight in sights]
        scales = [sight.scale(model) for sight, model in zip(sights, models, strict=True)]
    links = _joined(sights, scales)
    least = np.where(links.best > 0, links.best * TIED, np.inf)
    hit = np.zeros(x.size, dtype=bool)
    for sight, scale in zip(sights, scales, strict=True):
        mine = np.flatnonzero(np.isin(z, sight.at))
        hit[mine] = sight.reach(x[mine], np.searchsorted(sight.at, z[mine]), scale, least)
    wanted = np.bincount(x, minlength=people.codes.shape[0])
    correction = 1.0 if knowledge == "keys" else _correction(sights, models, wanted, truth.records)
    claimed = np.divide(links.best, links.total, out=np.zeros_like(links.total), where=links.total > 0)
    correct = np.where(hit, (1 / np.maximum(links.tied, 1)).take(x), 0.0)
    return Linkage(knowledge, correct, np.minimum(correction * claimed, 1.0).take(x), correction)


@dataclass(frozen=True, slots=True, eq=False)
class _Sight:
    """What the attacker sees of the records of one part.

    ``targets`` (P, J) are the distinct keys of targets that the part would show, and ``of`` (X,) which each target has.
    ``at`` (Z,) are the numbers of the cells in the released table, ascending, ``codes`` (Z, J) and ``counts`` (Z,).
    """

    part: Part
    targets: IntArray
    of: IntArray
    at: IntArray
    codes: IntArray
    counts: IntArray

    @classmethod
    def of_part(cls, part: Part, at: IntArray, held: CellTable, people: IntArray) -> _Sight:
        """Return the released cells of the part, and the targets (X, J) as it would show them."""
        keys = list(part.positions)
        targets, place = distinct(people[:, keys])
        return cls(part, targets, place, at, held.codes[at][:, keys], held.counts[at])

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of codes of the keys that are shown."""
        return () if self.part.law is None else self.part.law.shape

    def others(self, seed: int = 0) -> Others | None:
        """Fit the law of other records, key by key; None where nothing is shown, or nobody shows it."""
        return others(self.codes, self.counts, self.sizes, seed=seed) if self.sizes and self.at.size else None

    def scale(self, model: Others | None) -> FloatArray:
        """Return ``1 / q_T`` of each released cell, shape (Z,)."""
        return np.ones(self.at.size) if model is None else 1 / model.density(self.codes)

    def known(self, everybody: CellTable) -> FloatArray:
        """Return ``Σ_i M_T[x_i, z] / n`` of each released cell, shape (Z,).

        With randomised response alone it is ``stays f(z) + redrawn(z)``.
        """
        if self.part.law is None:
            return np.ones(self.at.size)
        held = everybody.codes[:, list(self.part.positions)]
        blend = self.part.law.blend if self.part.alone else None
        if blend is None:
            return self._met(*distinct(held), everybody.counts)
        true, _ = blend.rows(held)
        shown, redrawn = blend.rows(self.codes)
        cells, place = np.unique(true, return_inverse=True)
        counts = np.bincount(place, weights=everybody.counts)
        at = np.searchsorted(cells, shown).clip(max=cells.size - 1)
        own = np.where(cells[at] == shown, counts[at], 0.0)
        return np.asarray(blend.stays * own / counts.sum() + redrawn)

    def _met(self, persons: IntArray, of: IntArray, counts: IntArray) -> FloatArray:
        """Return the same by comparing all ``persons`` (X, J), ``of`` so many ``counts`` each, with every cell."""
        many, found = np.bincount(of, weights=counts), np.zeros(self.at.size)
        step = max(ENTRIES // max(self.at.size, 1), 1)
        for start in range(0, many.size, step):
            some = slice(start, start + step)
            found += many[some] @ entries(self.part.law, persons[some], self.codes)
        return np.asarray(found / many.sum())

    def links(self, scale: FloatArray) -> Links:
        """Return the best links of each target to the records of this part; ``at`` is a place among its cells."""
        if not self.at.size:
            none = np.zeros(self.of.size)
            return Links(np.zeros(self.of.size, dtype=np.int64), none, none, none)
        law = self.part.law
        blend = law.blend if law is not None and self.part.alone else None
        found = self._weighed(scale) if blend is None else self._blended(blend, scale)
        return Links(*(values[self.of] for values in found))

    def _weighed(self, scale: FloatArray) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        """Weigh every target and cell, some targets after the others."""
        size = self.targets.shape[0]
        at, best, tied, total = np.zeros(size, dtype=np.int64), np.zeros(size), np.zeros(size), np.zeros(size)
        step = max(ENTRIES // self.at.size, 1)
        for start in range(0, size, step):
            some = slice(start, start + step)
            weights = entries(self.part.law, self.targets[some], self.codes) * scale
            at[some], best[some] = weights.argmax(axis=1), weights.max(axis=1)
            tied[some] = (weights >= np.where(best[some] > 0, best[some] * TIED, np.inf)[:, None]) @ self.counts
            total[some] = weights @ self.counts
        return at, best, tied, total

    def _blended(self, blend: Blend, scale: FloatArray) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        """Compare each target's own cell with the best of all others, which is the same for every target."""
        (x, _), (z, redrawn) = blend.rows(self.targets), blend.rows(self.codes)
        moved = redrawn * scale
        most = float(moved.max())
        near = moved >= TIED * most
        order = np.argsort(z)
        place = order[np.searchsorted(z, x, sorter=order).clip(max=z.size - 1)]
        there = z[place] == x
        own = np.where(there, moved[place] + blend.stays * scale[place], 0.0)
        best = np.maximum(own, most)
        mine, theirs = own >= TIED * best, most >= TIED * best
        records = np.where(there, self.counts[place], 0)
        among = self.counts[near].sum() - np.where(there & near[place], records, 0)
        tied = np.where(mine, records, 0) + np.where(theirs, among, 0)
        total = float(moved @ self.counts) + np.where(there, blend.stays * scale[place] * records, 0.0)
        return np.where(mine, place, int(moved.argmax())), best, tied.astype(np.float64), total

    def reach(self, x: IntArray, z: IntArray, scale: FloatArray, least: FloatArray) -> NDArray[np.bool_]:
        """Tell of pairs of a target and a cell of this part whether their weight is at least that of the target."""
        weight = scale[z]
        law, place = self.part.law, self.of[x]
        if law is not None and x.size:
            for matrix, rows, columns in zip(
                law.matrices, law.groups(self.targets).T, law.groups(self.codes).T, strict=True
            ):
                weight = weight * matrix[rows[place], columns[z]]
            if law.blend is not None:
                keys = list(law.blend.positions)
                (true, _), (shown, redrawn) = law.blend.rows(self.targets[:, keys]), law.blend.rows(self.codes[:, keys])
                weight = weight * (law.blend.stays * (true[place] == shown[z]) + redrawn[z])
        return np.asarray(weight >= least[x])


def entries(law: KeyLaw | None, true: IntArray, released: IntArray) -> FloatArray:
    """Return the probability of each released cell (Z, J) for each true one (X, J), shape (X, Z)."""
    found = np.ones((true.shape[0], released.shape[0]))
    if law is not None:
        for matrix, rows, columns in zip(law.matrices, law.groups(true).T, law.groups(released).T, strict=True):
            found *= matrix[np.ix_(rows, columns)]
        if law.blend is not None:
            keys = list(law.blend.positions)
            found *= law.blend.entries(true[:, keys], released[:, keys])
    return found


def _joined(sights: Sequence[_Sight], scales: Sequence[FloatArray]) -> Links:
    """Return the best links of each target to the records of all parts; ``at`` is the number of the part."""
    found = [sight.links(scale) for sight, scale in zip(sights, scales, strict=True)]
    bests = np.stack([links.best for links in found])
    best = bests.max(axis=0)
    tied = sum(np.where(links.best >= TIED * best, links.tied, 0.0) for links in found)
    return Links(bests.argmax(axis=0), best, np.asarray(tied), np.sum([links.total for links in found], axis=0))


def _correction(sights: Sequence[_Sight], models: Sequence[Others | None], wanted: IntArray, records: int) -> float:
    """Return what links to a file drawn from the attacker's own law are worth, over what would be claimed of them.

    As :func:`attack.link` says; ``wanted`` (X,) holds the number of targets of each type.
    """
    rng = np.random.default_rng(0)
    some = np.arange(wanted.size)
    if some.size > MOST_CORRECTED:
        some = rng.choice(some.size, MOST_CORRECTED, p=wanted / wanted.sum())
        wanted = np.ones(some.size)
    shares = np.array([sight.part.probability for sight in sights])
    best, worth = np.zeros(some.size), np.zeros(some.size)
    claimed, total = np.zeros(some.size), np.zeros(some.size)
    drawn = rng.multinomial(records, shares / shares.sum()).tolist()
    for sight, model, many in zip(sights, models, drawn, strict=True):
        if not many or (model is None and sight.sizes):
            continue
        there, truth = _drawn(sight, model, many, some, rng)
        if not there.at.size:
            continue
        again = there.scale(there.others(seed=1))
        links, right = there.links(again), there.links(truth).total
        better = links.best > best
        best = np.where(better, links.best, best)
        worth = np.where(better, links.best / again[links.at] * truth[links.at], worth)
        claimed, total = claimed + links.total, total + right
    found = (claimed > 0) & (total > 0)
    expected = float(wanted[found] @ (best[found] / claimed[found]))
    return float(wanted[found] @ (worth[found] / total[found])) / expected if expected > 0 else 1.0


def _drawn(
    sight: _Sight, model: Others | None, many: int, some: IntArray, rng: np.random.Generator
) -> tuple[_Sight, FloatArray]:
    """Return records of a part drawn from the attacker's law, as seen for some targets, and their true ``1 / q_T``."""
    if model is None:
        codes, counts = np.zeros((1, 0), dtype=np.int64), np.array([many])
        return replace(sight, of=sight.of[some], at=np.zeros(1, dtype=np.int64), codes=codes, counts=counts), np.ones(1)
    codes, counts = model.draw(many, rng)
    real = sight.part.require_law().feasible(codes)  # the others' law knows no rules: what they forbid is left out
    codes, counts = codes[real], counts[real]
    there = replace(sight, of=sight.of[some], at=np.arange(len(codes)), codes=codes, counts=counts)
    return there, float(counts.sum()) / many / model.density(codes)
