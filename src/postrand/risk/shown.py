"""What unperturbed columns show of keys: a weight goes with the region, whatever region a record is released in."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from postrand.risk.cells import FloatArray, IntArray, KeyCodes, ravel
from postrand.risk.sample import Sampled
from postrand.risk.singled import Codes
from postrand.risk.telling import bins_of, classes, frequent, table_of, usable

MOST_RECORDS = 100_000
"""No file of more records is weighed: every record can be a cell of its own."""
MOST_CLASSES, MOST_CELLS = 1_000, 1 << 20
RECORDS_A_CELL, SURE = 20, 6.0


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """Hold unperturbed columns in classes, each with the keys that it goes with: ``laws[s][x, u] = P(u | x)``.

    ``positions[s]`` are the places of the keys, and x numbers their cells; ``codes[s]`` (n,) is the class u of each
    record, ``laws[s]`` (K, U). Columns are taken as independent given the keys, and a key belongs to one column alone.
    """

    names: tuple[str, ...]
    positions: tuple[tuple[int, ...], ...]
    sizes: tuple[tuple[int, ...], ...]
    codes: tuple[IntArray, ...]
    laws: tuple[FloatArray, ...]

    def take(self, records: IntArray) -> Shown:
        """Return what some records show; the laws stay those of the file."""
        return replace(self, codes=tuple(column[records] for column in self.codes))

    def beside(self, released: KeyCodes) -> KeyCodes:
        """Return released keys with the classes as further columns."""
        sizes = tuple(law.shape[1] for law in self.laws)
        names = tuple(f"\0{name}" for name in self.names)  # no key has such a name
        return KeyCodes(released.names + names, released.shape + sizes, released.codes + self.codes)

    def likelihoods(self, true: IntArray, classes: Sequence[IntArray]) -> list[FloatArray]:
        """Return ``P(u_s | x_s)`` of true keys (X, J) for some classes (U_s,) of each column, shape (X, U_s) each."""
        held = zip(self.positions, self.sizes, self.laws, classes, strict=True)
        return [law[np.ix_(ravel([true[:, j] for j in at], sizes), own)] for at, sizes, law, own in held]

    def pairs(self, keys: KeyCodes) -> tuple[tuple[str, str], ...]:
        """Return each column with each of its keys, by name."""
        held = zip(self.names, self.positions, strict=True)
        return tuple((name, keys.names[j]) for name, positions in held for j in positions)


def shown_of(keys: KeyCodes, columns: Mapping[str, pa.ChunkedArray], coded: Collection[str]) -> Shown | None:
    """Return what unperturbed ``columns`` show of the keys; None where none says anything, or keys are missing.

    ``coded`` are those with categories. A column says something of a key where their information is more than chance
    explains: ``2nI > d + SURE sqrt(2d)``, the mean of chi-square with d degrees of freedom and its standard deviations.
    Columns that say most come first. A further key of a column is taken where ``RECORDS_A_CELL`` records are left for
    each class that occurs with the keys. The law is that of the file, with one record more for each cell of keys,
    spread as the whole.

    >>> region, n = np.arange(400) % 2, 400
    >>> found = shown_of(KeyCodes(("region",), (2,), (region,)), {"pay": pa.chunked_array([region * 1.0])}, [])
    >>> found.names, found.laws[0].round(2).tolist()
    (('pay',), [[1.0, 0.0], [0.0, 1.0]])
    """
    if not columns or keys.has_wildcards or not 0 < keys.records <= MOST_RECORDS:
        return None
    held = {name: seen for name, column in columns.items() if (seen := _classes(name, column, name in coded))}
    says: list[tuple[float, str, int]] = []
    for name, seen in held.items():
        for j in range(len(keys.names)):
            counts = table_of(_joint(keys, (j,)), seen)
            information, free = _information(counts)
            if 2 * keys.records * information > free + SURE * math.sqrt(2 * free):
                says.append((information, name, j))
    of: dict[str, tuple[int, ...]] = {}
    for _, name, j in sorted(says, reverse=True):
        more = (*of.get(name, ()), j)
        taken = any(j in positions for positions in of.values()) or _cells(keys, more) * held[name][1] > MOST_CELLS
        if not taken and (len(more) == 1 or _is_few(table_of(_joint(keys, more), held[name]))):
            of[name] = more
    sizes = tuple(tuple(keys.shape[j] for j in positions) for positions in of.values())
    codes, laws = tuple(held[name][0] for name in of), tuple(_law(keys, at, held[name]) for name, at in of.items())
    return Shown(tuple(of), tuple(of.values()), sizes, codes, laws) if of else None


def _joint(keys: KeyCodes, positions: tuple[int, ...]) -> Codes:
    """Return the cell of some keys of each record, and how many cells there are."""
    sizes = [keys.shape[j] for j in positions]
    return ravel([keys.codes[j] for j in positions], sizes).astype(np.int64), math.prod(sizes)


def _cells(keys: KeyCodes, positions: tuple[int, ...]) -> int:
    return math.prod(keys.shape[j] for j in positions)


def _is_few(counts: IntArray) -> bool:
    """Whether enough records are left for each class that occurs with some keys."""
    return bool(np.count_nonzero(counts) * RECORDS_A_CELL <= counts.sum())


def _law(keys: KeyCodes, positions: tuple[int, ...], seen: Codes) -> FloatArray:
    """Return ``P(u | x)``, shape (K, U)."""
    counts = table_of(_joint(keys, positions), seen)
    law = counts + counts.sum(axis=0) / counts.sum()
    return np.asarray(law / law.sum(axis=1, keepdims=True))


def _classes(name: str, column: pa.ChunkedArray, is_coded: bool) -> Codes | None:
    """Return the classes of a column: values that many records have, and the others in bins; None of other texts."""
    sample = Sampled(pa.table({name: column}), len(column), {})
    bins = usable({name: classes(sample, name, is_coded, bins_of(sample))}).get(name)
    exact = sample.codes(name)
    seen = frequent(exact, (np.zeros_like(exact[0]), 1) if bins is None else bins) or bins
    return seen if seen is not None and 1 < seen[1] <= MOST_CLASSES else None


def _information(counts: IntArray) -> tuple[float, int]:
    """Return the information of two columns of one another, in nats a record, and its degrees of freedom."""
    counts = counts[counts.any(axis=1)][:, counts.any(axis=0)]
    joint = counts / counts.sum()
    product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    ratio = np.divide(joint, product, out=np.ones_like(product), where=joint > 0)
    return float((joint * np.log(ratio)).sum()), math.prod(size - 1 for size in counts.shape)
