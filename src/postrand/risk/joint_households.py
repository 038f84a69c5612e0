"""Risk of whole households: an attacker who knows the keys of all members links the household, not a person.

The joint key of a household is its size and the multiset of its members' keys. A release links the members by its
household numbers, so that joint keys can be compared; the order of members is not known. Members are perturbed
independently, so that true members x are released as z, in any order, with probability ``perm(M[x_i, z_j]) / Π m_k!``:
the permanent of an s x s matrix, m_k counting equal released members. Keys that are drawn once for the household have
one value for all its members, true and released: their ``M[x, z]`` counts once, beside the permanent of the others.
After a split, ``M[x, z] = π_T M_T[x_T, z_T]`` of a member that shows the keys T; keys of a household count for each
member then, which is not their law. Where one random member of k shows a subset, ``π_T`` stands for the probability
that he shows T, and that the others are not chosen is the same for all households of k, so that it cancels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.risk.cells import CellTable, FloatArray, IntArray, KeyCodes, table
from postrand.risk.law import KeyLaw
from postrand.risk.split_law import Law, Part, SplitLaw, drawn_by
from postrand.risk.weights import expected_inverse
from postrand.support import loops

LARGEST = 12
"""A household of more members counts with its risk before perturbation: a permanent takes 2^s steps."""
WORK = 200_000_000
"""Steps for the pairs of households of one size; beyond, a random part are targets, each compared with all."""
TABLE = 1 << 24
"""The most pairs of a true and a released cell whose ``M[x, z]`` are held at once: 128 MB."""
RELEASES = 3
_HELD = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Sized:
    """The households of one size: their places (H,) among all, and the cell of each member (H, s), ascending."""

    places: IntArray
    members: IntArray


def by_size(cell: IntArray, household: IntArray) -> Iterator[Sized]:
    """Yield the households of each size; ``cell`` (n,) numbers the keys of each record.

    >>> [(one.places.tolist(), one.members.tolist()) for one in by_size(np.array([2, 0, 1]), np.array([5, 5, 9]))]
    [([1], [[1]]), ([0], [[0, 2]])]
    """
    order = np.lexsort((cell, household))
    _, first, sizes = np.unique(household[order], return_index=True, return_counts=True)
    for size in np.unique(sizes):
        places = np.flatnonzero(sizes == size)
        yield Sized(places, cell[order][first[places][:, None] + np.arange(size)])


def joint_frequency(cells: CellTable, household: IntArray) -> IntArray:
    """Return how many households of the file have the joint key of each, shape (H,), by ascending number.

    Examples
    --------
    >>> keys = KeyCodes(("sex",), (2,), (np.array([0, 1, 1, 0, 1]),))
    >>> joint_frequency(table(keys), np.array([7, 7, 8, 9, 9])).tolist()
    [2, 1, 2]
    """
    found = np.empty(np.unique(household).size, dtype=np.int64)
    for one in by_size(cells.record_cell, household):
        _, kind, counts = np.unique(one.members, axis=0, return_inverse=True, return_counts=True)
        found[one.places] = counts[kind.ravel()]
    return found


def register_joint_risk(
    keys: KeyCodes, weights: FloatArray, household: IntArray, law: KeyLaw | None = None
) -> FloatArray:
    """Return ``E(1/F | f) P(joint key unchanged)`` of each household, shape (H,): the register attacker.

    f and F are the households of file and population with the joint key; a household's weight is the mean of its
    members'. The draw does not depend on F. Members may have changed places: the multiset has to stay.

    Examples
    --------
    >>> keys = KeyCodes(("sex",), (2,), (np.array([0, 1, 1]),))
    >>> register_joint_risk(keys, np.array([1.0, 1.0, 4.0]), np.array([7, 7, 8])).round(3).tolist()
    [1.0, 0.462]
    """
    cells = table(keys)
    _, place, sizes = np.unique(household, return_inverse=True, return_counts=True)
    weight = np.bincount(place, weights=weights) / sizes
    risk = np.empty(sizes.size)
    for one in by_size(cells.record_cell, household):
        kinds, kind, counts = np.unique(one.members, axis=0, return_inverse=True, return_counts=True)
        kind = kind.ravel()
        of_kind = expected_inverse(counts, counts / np.bincount(kind, weights=weight[one.places]))
        if law is not None and kinds.shape[1] <= LARGEST:
            stay = _Members(law, cells.codes, cells.codes).likelihood(kinds, kinds)
            of_kind = of_kind * np.minimum(stay, 1.0)
        risk[one.places] = of_kind[kind]
    return risk


def informed_joint_risk(
    keys: KeyCodes, household: IntArray, law: Law | None = None, seed: int = 0
) -> tuple[FloatArray, ...]:
    """Return the posterior of the best link of each household, one release after the other: (H,), in no order.

    The attacker knows that the household is in the file, the matrices, and how frequent true joint keys are in the
    file: ``P(released household r is the target) = w_r / Σ_s w_s`` with ``w_r = P(z_r | x) / q(z_r)``, q being the mean
    of ``P(z_r | x')`` over the households x' of the size. Other households count as independent draws of q. Without a
    law it is ``1/f``, f households of the file having the joint key. The mean is near the share of correct
    matches. After a split he sees which keys each member shows, and a member shows T with probability ``π_T``, whatever
    its values.

    All households of a size are compared, each joint key once. Where these are more than ``WORK`` steps, the targets
    are a random part of the households, repeated in the place of the others: the best link of each is still that among
    all released households, but q is estimated from the part, and the largest posterior is that of the part. The mean
    was then too low by up to 3% in simulated files of which a quarter were targets, and by up to 8% of a sixteenth.

    Examples
    --------
    >>> keys = KeyCodes(("sex",), (2,), (np.array([0, 1, 1, 0]),))
    >>> informed_joint_risk(keys, np.array([7, 7, 8, 8]))[0].tolist()
    [0.5, 0.5]
    """
    cells = table(keys)
    before = 1 / joint_frequency(cells, household)
    if law is None:
        return (before,)
    rng = np.random.default_rng([seed, 22])
    order = np.lexsort((cells.record_cell, household))  # the order of the members in `by_size`
    first = np.unique(household[order], return_index=True)[1]
    sized = list(by_size(cells.record_cell, household))
    found = []
    seeds = rng.integers(2**31, size=RELEASES).tolist()
    for drawn in drawn_by(law, keys, seeds, household):
        shown = table(drawn)
        members, risks = _Members(law, cells.codes, shown.codes), []
        for one in sized:
            size = one.members.shape[1]
            if size > LARGEST:
                risks.append(before[one.places])
                continue
            rows = order[first[one.places][:, None] + np.arange(size)]
            risks.append(_claims(members, one.members, np.sort(shown.record_cell[rows], axis=1), rng))
        found.append(np.concatenate(risks))
    return tuple(found)


def _claims(members: _Members, true: IntArray, released: IntArray, rng: np.random.Generator) -> FloatArray:
    """Return the posterior of the best link of households of one size, (H, s) and (H, s) → (H,)."""
    kinds, kind, counts = np.unique(true, axis=0, return_inverse=True, return_counts=True)
    shown, of, many = np.unique(released, axis=0, return_inverse=True, return_counts=True)
    steps = members.steps(true.shape[1])
    if kinds.shape[0] * shown.shape[0] * steps > WORK and true.shape[0] > 2:
        m = min(max(WORK // (shown.shape[0] * steps), 2), true.shape[0])
        targets = rng.choice(true.shape[0], m, replace=False)
        own = np.bincount(of.ravel(), members.likelihood(true, released)).astype(np.float64)
        return np.resize(_of_part(members, true[targets], shown, own, many, of.ravel()[targets]), true.shape[0])
    most, total = np.zeros((2, kinds.shape[0]))
    for at in _pieces(kinds.shape[0], shown.shape[0]):
        weight = members.likelihoods(kinds, shown[at])
        weight /= counts @ weight / true.shape[0]
        total += weight @ many[at]
        np.maximum(most, weight.max(axis=1), out=most)
    return np.minimum(most / total, 1.0)[kind.ravel()]


def _of_part(
    members: _Members, true: IntArray, shown: IntArray, own: FloatArray, many: IntArray, of: IntArray
) -> FloatArray:
    """Return the posterior of the best link of the targets ``true`` (m, s), a random part of all households, (m,).

    ``shown`` (L, s) are the kinds of released households, ``many`` of each, ``own`` the sum of the likelihoods of those
    that were released as it, and ``of`` (m,) the kind that each target was released as. In q these households, and the
    target, count once, and the rest of the part for all others.
    """
    m, households = true.shape[0], many.sum()
    most, total = np.zeros((2, m))
    for at in _pieces(m, shown.shape[0]):
        weight = members.likelihoods(true, shown[at])
        mine = np.flatnonzero((of >= at.start) & (of < at.stop))
        place, its = of[mine] - at.start, weight[mine, of[mine] - at.start]
        drawn = np.bincount(place, minlength=weight.shape[1])
        rest = np.maximum(weight.sum(axis=0) - np.bincount(place, its, weight.shape[1]), 0.0)
        stands = np.maximum(households - many[at] - 1, 0) / np.maximum(m - drawn - 1, 1)
        q = own[at] + stands * rest + (1 - stands) * weight
        q[mine, place] = (own[at] + (households - many[at]) / np.maximum(m - drawn, 1) * rest)[place]
        weight *= households / q
        total += weight @ many[at]
        np.maximum(most, weight.max(axis=1), out=most)
    return np.minimum(most / total, 1.0)


def _pieces(rows: int, columns: int) -> Iterator[slice]:
    """Yield the columns of a table piece by piece, as many as are held at once."""
    step = max(_HELD // rows, 1)
    yield from (slice(start, min(start + step, columns)) for start in range(0, columns, step))


class _Members:
    """The likelihoods of released members, given true ones: cells by the codes of their keys (K, J) and (L, J)."""

    def __init__(self, law: Law, true: IntArray, released: IntArray) -> None:
        self.of = law.shown(released) if isinstance(law, SplitLaw) else np.zeros(released.shape[0], dtype=np.int64)
        self.shared = isinstance(law, KeyLaw) and law.shares_households
        self.parts = [
            PartLaw.of(part, true, released, self.of == k, shared=self.shared)
            for k, part in enumerate(law.parts if isinstance(law, SplitLaw) else (Part(1.0, _every(true), law),))
        ]
        self.cells = true.shape[0], released.shape[0]
        self.small = true.shape[0] * released.shape[0] <= TABLE
        self.held: FloatArray | None = None

    def likelihood(self, true: IntArray, released: IntArray) -> FloatArray:
        """Return ``perm(M[x_i, z_j]) / Π m_k!`` of pairs of households, (m, s) and (m, s) → (m,)."""
        found = np.empty(true.shape[0])
        size = true.shape[1]
        step = max(_HELD >> size, 1)
        for start in range(0, found.size, step):
            x, z = true[start : start + step], released[start : start + step]
            found[start : start + step] = permanent(self._entries(x, z)) / same_orders(z)
        return found * self.parts[0].once(true[:, 0], released[:, 0]) if self.shared else found

    def _entries(self, true: IntArray, released: IntArray) -> FloatArray:
        """Return ``M[x_i, z_j]`` of the members of each pair, (m, s) and (m, s) → (m, s, s)."""
        if len(self.parts) == 1:
            return self.parts[0].entries(true[:, :, None], released[:, None, :])
        entry, of = np.empty((*true.shape, released.shape[1])), self.of[released]
        for k, part in enumerate(self.parts):
            pair, member = np.nonzero(of == k)
            entry[pair, :, member] = part.entries(true[pair], released[pair, member][:, None])
        return entry

    def likelihoods(self, true: IntArray, released: IntArray) -> FloatArray:
        """Return the likelihood of every pair, (m, s) and (k, s) → (m, k)."""
        x, z = true, released
        if self.small:
            if self.held is None:
                self.held = self._table(np.arange(self.cells[0]), np.arange(self.cells[1]))
            entry = self.held
        else:
            cells, x = np.unique(true, return_inverse=True)
            shown, z = np.unique(released, return_inverse=True)
            entry = self._table(cells, shown)
        found = np.empty((true.shape[0], released.shape[0]))
        x, z = (
            np.ascontiguousarray(one, dtype=np.int32) for one in (x.reshape(true.shape), z.reshape(released.shape).T)
        )
        loops.permanents(entry, x, z, found)
        found /= same_orders(released)
        if self.shared:
            found *= self.parts[0].once(true[:, :1], released[:, 0])
        return found

    def _table(self, true: IntArray, released: IntArray) -> FloatArray:
        """Return ``M[x, z]`` of cells, (K,) and (L,) → (K, L)."""
        found, of = np.empty((true.size, released.size)), self.of[released]
        for k, part in enumerate(self.parts):
            at = np.flatnonzero(of == k)
            found[:, at] = part.entries(true[:, None], released[at])
        return found

    def steps(self, size: int) -> int:
        """Return the steps of one pair of households; where no table is held, its entries are computed each time."""
        return (size << size) * (1 if self.small else 8)


def _every(codes: IntArray) -> tuple[int, ...]:
    return tuple(range(codes.shape[1]))


@dataclass(frozen=True, slots=True, eq=False)
class PartLaw:
    """The law of members that show the same keys: ``true`` and ``released`` are rows of its matrices, by cell.

    ``blend`` are the number of each true cell, and of each released one with the probability that it is drawn anew.
    With ``shared`` the keys that are drawn once for a household are no members' own.
    """

    part: Part
    true: IntArray
    released: IntArray
    blend: tuple[IntArray, IntArray, FloatArray] | None
    shared: bool = False

    @classmethod
    def of(
        cls, part: Part, true: IntArray, released: IntArray, inside: NDArray[np.bool_], *, shared: bool = False
    ) -> PartLaw:
        """Take true cells, and those of the released ones that are ``inside`` the part."""
        law, at = part.law, list(part.positions)
        if law is None:
            return cls(part, true[:, :0], released[:, :0], None)
        rows = np.zeros((released.shape[0], len(law.positions)), dtype=np.int32)
        rows[inside] = law.groups(released[inside][:, at])
        if law.blend is None:
            return cls(part, law.groups(true[:, at]), rows, None, shared)
        keys = [at[j] for j in law.blend.positions]
        numbers, redrawn = np.full(released.shape[0], -1), np.zeros(released.shape[0])
        numbers[inside], redrawn[inside] = law.blend.rows(released[inside][:, keys])
        blend = law.blend.rows(true[:, keys])[0], numbers, redrawn
        return cls(part, law.groups(true[:, at]), rows, blend, shared)

    def entries(self, true: IntArray, released: IntArray) -> FloatArray:
        """Return ``π_T M_T[x, z]`` of cells x and z, arrays that are broadcast."""
        found = np.full(np.broadcast_shapes(true.shape, released.shape), self.part.probability)
        law = self.part.law
        for b, matrix in enumerate(() if law is None else law.matrices):
            if not self._is_shared(b):
                found *= matrix[self.true[true, b], self.released[released, b]]
        if law is not None and law.blend is not None and self.blend is not None:
            own, numbers, redrawn = self.blend
            found *= np.where(own[true] == numbers[released], law.blend.stays, 0.0) + redrawn[released]
        return found

    def once(self, true: IntArray, released: IntArray) -> FloatArray:
        """Return ``M[x, z]`` of the keys of the household, of cells: arrays that are broadcast."""
        found, law = np.ones(np.broadcast_shapes(true.shape, released.shape)), self.part.require_law()
        for b, matrix in enumerate(law.matrices):
            if self._is_shared(b):
                found *= matrix[self.true[true, b], self.released[released, b]]
        return found

    def _is_shared(self, group: int) -> bool:
        return self.shared and self.part.law is not None and self.part.law.units[group] == "household"


def same_orders(members: IntArray) -> FloatArray:
    """Return ``Π m_k!`` of sorted members, (m, s) → (m,)."""
    run = np.ones(members.shape[0])
    log = np.zeros(members.shape[0])
    for j in range(1, members.shape[1]):
        run = np.where(members[:, j] == members[:, j - 1], run + 1, 1.0)
        log += np.log(run)
    return np.exp(log)


def permanent(matrices: FloatArray) -> FloatArray:
    """Return the permanents of matrices of entries >= 0, (m, s, s) → (m,): sums over subsets, without cancellation.

    >>> permanent(np.array([[[1.0, 2.0], [3.0, 4.0]]])).tolist()
    [10.0]
    """
    m, size, _ = matrices.shape
    held = np.zeros((1 << size, m))
    held[0] = 1.0
    for subset in range(1, 1 << size):
        row = subset.bit_count() - 1
        for j in range(size):
            if subset >> j & 1:
                held[subset] += held[subset ^ (1 << j)] * matrices[:, row, j]
    found: FloatArray = held[-1]
    return found
