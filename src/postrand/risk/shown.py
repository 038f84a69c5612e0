"""What unperturbed columns show of keys: a weight goes with the region, whatever region a record is released in."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import scipy

from postrand.risk.cells import FloatArray, IntArray, KeyCodes, ravel
from postrand.risk.latent import Latent
from postrand.risk.sample import Sampled
from postrand.risk.singled import Codes
from postrand.risk.split_law import Law
from postrand.risk.telling import bins_of, classes, frequent, information, is_more, table_of, usable

MOST_RECORDS = 100_000
"""No file of more records is weighed: every record can be a cell of its own."""
MOST_CLASSES, MOST_CELLS = 1_000, 1 << 20
RECORDS_A_CELL = 20
COLUMNS_A_KEY = 3
"""Columns at most that are weighed for what they say of one key: more found a tenth more at most in four surveys."""
COARSER = (10, 4, 2)
"""Bins of a number of which the finest classes have too few records."""
FITTED, MOST_BELIEFS = 20_000, 1 << 23
"""Records by which columns are pooled at most, and of these and the values of a key together: 64 MB."""


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """Hold unperturbed columns in classes, each with the keys that it goes with: ``laws[s][x, u] = P(u | x)``.

    ``positions[s]`` are the places of the keys, and x numbers their cells; ``codes[s]`` (n,) is the class u of each
    record, ``laws[s]`` (K, U). Columns are taken as independent given the keys. A key has one column that says most of
    it, and further ones as far as they say more: the laws of these are powers of ``P(u | x)``. ``latent`` are perturbed
    columns beside the keys: where there are some, a release is drawn of the keys and these (:meth:`attacked`).
    """

    names: tuple[str, ...]
    positions: tuple[tuple[int, ...], ...]
    sizes: tuple[tuple[int, ...], ...]
    codes: tuple[IntArray, ...]
    laws: tuple[FloatArray, ...]
    latent: Latent | None = None

    def attacked(self, truth: KeyCodes, law: Law) -> tuple[KeyCodes, Law]:
        """Return the true values, and the law, of what the attacker sees released: those of the keys by default."""
        return (truth, law) if self.latent is None else (self.latent.truth, self.latent.law)

    def take(self, records: IntArray) -> Shown:
        """Return what some records show; the laws stay those of the file."""
        return replace(self, codes=tuple(column[records] for column in self.codes))

    def without(self, name: str) -> Shown | None:
        """Return what the other columns show; None where there are none."""
        at = [s for s, own in enumerate(self.names) if own != name]
        if not at and self.latent is None:
            return None
        names, positions = tuple(self.names[s] for s in at), tuple(self.positions[s] for s in at)
        sizes, codes = tuple(self.sizes[s] for s in at), tuple(self.codes[s] for s in at)
        return Shown(names, positions, sizes, codes, tuple(self.laws[s] for s in at), self.latent)

    def beside(self, released: KeyCodes) -> KeyCodes:
        """Return released keys with the classes as further columns."""
        sizes = tuple(law.shape[1] for law in self.laws)
        names = tuple(f"\0{s}" for s in range(len(self.names)))  # no key has such a name
        return KeyCodes(released.names + names, released.shape + sizes, released.codes + self.codes)

    def likelihoods(self, true: IntArray) -> list[FloatArray]:
        """Return ``P(u_s | x_s)`` of true keys (X, J) for all classes of each column, shape (X, U_s) each."""
        held = zip(self.positions, self.sizes, self.laws, strict=True)
        return [law[ravel([true[:, j] for j in at], sizes)] for at, sizes, law in held]

    def pairs(self, keys: KeyCodes) -> tuple[tuple[str, str], ...]:
        """Return each column with each of its keys, by name: those that say most first."""
        held = zip(self.names, self.positions, strict=True)
        return tuple((name, keys.names[j]) for name, positions in held for j in positions)


def shown_of(keys: KeyCodes, columns: Mapping[str, pa.ChunkedArray], coded: Collection[str]) -> Shown | None:
    """Return what unperturbed ``columns`` show of the keys; None where none says anything, or keys are missing.

    ``coded`` are those with categories. A column says something of a key where their information is more than chance
    explains (:func:`postrand.risk.telling.is_more`).
    Columns that say most come first. A further key of a column is taken where ``RECORDS_A_CELL`` records are left for
    each class that occurs with the keys. The law is that of the file, with one record more for each cell of keys,
    spread as the whole. Further columns of a key follow (:func:`_further`).

    >>> region, n = np.arange(400) % 2, 400
    >>> found = shown_of(KeyCodes(("region",), (2,), (region,)), {"pay": pa.chunked_array([region * 1.0])}, [])
    >>> found.names, found.laws[0].round(2).tolist()
    (('pay',), [[1.0, 0.0], [0.0, 1.0]])
    """
    if not columns or keys.has_wildcards or not 0 < keys.records <= MOST_RECORDS:
        return None
    held = {name: cut for name, column in columns.items() if (cut := _Cut.of(name, column, name in coded))}
    says = _says(keys, held)
    parts = list(_first(keys, held, says))
    for j in range(len(keys.names)):
        first = [part for part in parts if j in part.positions]
        own = {part.name for part in first}
        parts += _further(keys, j, first, [held[name] for name, k in says if k == j and name not in own])
    return _shown(keys, parts) if parts else None


def classes_of(columns: Mapping[str, pa.ChunkedArray], coded: Collection[str]) -> dict[str, Codes]:
    """Return unperturbed columns in the classes in which they are weighed; without those of one class or too many."""
    found = {name: _Cut.of(name, column, name in coded) for name, column in columns.items()}
    return {name: cut.fine for name, cut in found.items() if cut is not None}


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Hold a column with the keys that it goes with: the class of each record (n,), and ``P(u | x)`` (K, U)."""

    name: str
    positions: tuple[int, ...]
    codes: IntArray
    law: FloatArray


def _shown(keys: KeyCodes, parts: Sequence[_Part]) -> Shown:
    names, positions = tuple(part.name for part in parts), tuple(part.positions for part in parts)
    sizes = tuple(tuple(keys.shape[j] for j in at) for at in positions)
    return Shown(names, positions, sizes, tuple(part.codes for part in parts), tuple(part.law for part in parts))


def _says(keys: KeyCodes, held: Mapping[str, _Cut]) -> list[tuple[str, int]]:
    """Return each column with each key that it says something of, by its place: what says most first."""
    found: list[tuple[float, str, int]] = []
    for name, cut in held.items():
        for j in range(len(keys.names)):
            nats, free = information(table_of(_joint(keys, (j,)), cut.fine))
            if is_more(2 * keys.records * nats, free):
                found.append((nats, name, j))
    return [(name, j) for _, name, j in sorted(found, reverse=True)]


def _first(keys: KeyCodes, held: Mapping[str, _Cut], says: Sequence[tuple[str, int]]) -> Iterator[_Part]:
    """Yield for each key the column that says most of it, with all keys of which it is that, as far as records go."""
    of: dict[str, tuple[int, ...]] = {}
    for name, j in says:
        more, fine = (*of.get(name, ()), j), held[name].fine
        taken = any(j in positions for positions in of.values()) or _cells(keys, more) * fine[1] > MOST_CELLS
        if not taken and (len(more) == 1 or _is_few(table_of(_joint(keys, more), fine))):
            of[name] = more
    for name, at in of.items():
        yield _Part(name, at, held[name].fine[0], _law(_joint(keys, at), held[name].fine))


def _further(keys: KeyCodes, j: int, first: Sequence[_Part], further: Sequence[_Cut]) -> Iterator[_Part]:
    """Yield further columns of a key, as far as they say more than those before: ``COLUMNS_A_KEY`` with these.

    Columns can say the same. So the law of a further one is ``P(u | x)^γ``, with the γ of [0, 1] by which the true keys
    are likeliest, ``max Σ_i log P(x_i | u_i)``, given the columns before (logarithmic pooling; Genest and Zidek, 1986):
    0 for a copy of one of these. It is taken where that gains more than chance explains. It is cut into so many classes
    that ``RECORDS_A_CELL`` records are left for each.
    """
    key, left = _joint(keys, (j,)), COLUMNS_A_KEY - len(first)
    some = np.arange(0, keys.records, -(-keys.records // FITTED))
    if left <= 0 or not further or some.size * key[1] > MOST_BELIEFS:
        return
    belief = np.tile(np.log(np.maximum(np.bincount(key[0], minlength=key[1]), 0.5)), (some.size, 1))
    for part in first:
        belief += np.log(_law(key, (part.codes, part.law.shape[1]))[:, part.codes[some]].T)
    for cut in further:
        held = next((seen for seen in cut.to_coarser() if _is_few(table_of(key, seen))), None)
        if held is None:
            continue
        law, (_, free) = _law(key, held), information(table_of(key, held))
        beside = np.log(law[:, held[0][some]].T)
        share, gain = _pooled(belief, beside, key[0][some])
        if is_more(2 * gain, free):
            belief += share * beside
            left -= 1
            yield _Part(cut.name, (j,), held[0], law**share)
        if not left:
            return


def _pooled(belief: FloatArray, beside: FloatArray, true: IntArray) -> tuple[float, float]:
    """Return the γ of [0, 1] by which ``belief + γ beside`` (n, K) tells true keys best, and what it gains in nats."""
    own = np.arange(true.size), true

    def loss(share: float) -> float:
        both = belief + share * beside
        return float((scipy.special.logsumexp(both, axis=1) - both[own]).sum())

    found = scipy.optimize.minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-3})
    return float(found.x), loss(0.0) - float(found.fun)


def _joint(keys: KeyCodes, positions: tuple[int, ...]) -> Codes:
    """Return the cell of some keys of each record, and how many cells there are."""
    sizes = [keys.shape[j] for j in positions]
    return ravel([keys.codes[j] for j in positions], sizes).astype(np.int64), math.prod(sizes)


def _cells(keys: KeyCodes, positions: tuple[int, ...]) -> int:
    return math.prod(keys.shape[j] for j in positions)


def _is_few(counts: IntArray) -> bool:
    """Whether enough records are left for each class that occurs with some keys."""
    return bool(np.count_nonzero(counts) * RECORDS_A_CELL <= counts.sum())


def _law(key: Codes, seen: Codes) -> FloatArray:
    """Return ``P(u | x)``, shape (K, U)."""
    counts = table_of(key, seen)
    law = counts + counts.sum(axis=0) / counts.sum()
    return np.asarray(law / law.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True, eq=False)
class _Cut:
    """Hold a column cut into classes: ``fine`` are values that many records have, and the others in bins."""

    name: str
    fine: Codes
    _sample: Sampled
    _is_coded: bool

    @classmethod
    def of(cls, name: str, column: pa.ChunkedArray, is_coded: bool) -> _Cut | None:
        """Return the column in classes; None of other texts, and of a column with one class or too many."""
        sample = Sampled(pa.table({name: column}), len(column), {})
        bins = usable({name: classes(sample, name, is_coded, bins_of(sample))}).get(name)
        exact = sample.codes(name)
        fine = frequent(exact, (np.zeros_like(exact[0]), 1) if bins is None else bins) or bins
        return cls(name, fine, sample, is_coded) if fine is not None and 1 < fine[1] <= MOST_CLASSES else None

    def to_coarser(self) -> Iterator[Codes]:
        """Yield the fine classes, then a number in fewer and fewer bins."""
        yield self.fine
        for bins in COARSER:
            found = classes(self._sample, self.name, self._is_coded, bins)
            if found is not None and found[1] < self.fine[1]:
                yield found
