"""Risk measures that need counts alone: sample uniques, k-anonymity, l-diversity, risky cells."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.errors import UsageError, sentence
from postrand.risk.cells import CellTable, IntArray, KeyCodes, class_sizes, table
from postrand.support import loops


@dataclass(frozen=True, slots=True)
class KAnonymity:
    """The smallest class size k, and the number of records in classes smaller than 2, 3, 5."""

    k: int
    records_below: dict[int, int]


@dataclass(frozen=True, slots=True)
class LDiversity:
    """The least diversity of a sensitive variable over the classes (Machanavajjhala et al. 2007).

    ``distinct`` is the least number of values in a class; ``entropy`` the least ``exp(H)`` of a class, H in nats: the
    file is entropy l-diverse for every l up to it.
    """

    distinct: int
    entropy: float


def k_anonymity(keys: KeyCodes, levels: tuple[int, ...] = (2, 3, 5)) -> KAnonymity:
    """Return the k-anonymity of the records on their keys (0 for an empty file).

    Wildcards count as matches: a record's class is then every record that agrees with it where both are present.

    Examples
    --------
    >>> keys = KeyCodes(("sex",), (2,), (np.array([0, 0, 1]),))
    >>> k_anonymity(keys).k, k_anonymity(keys).records_below[2]
    (1, 1)
    """
    if keys.has_wildcards:
        sizes = wildcard_frequencies(table(keys))
        weights = table(keys).counts
    else:
        sizes = weights = class_sizes(keys)
    below = {k: int(weights[sizes < k].sum()) for k in levels}
    return KAnonymity(int(sizes.min(initial=keys.records)), below)


def wildcard_frequencies(cells: CellTable) -> NDArray[np.int64]:
    """Return the number of records that agree with each occupied cell, -1 agreeing with every code; shape (C,)."""
    patterns, member = np.unique(cells.codes >= 0, axis=0, return_inverse=True)
    if patterns.shape[0] ** 2 * 4000 > cells.counts.size**2:  # measured: joining two patterns costs ~4,000 pairs
        found = np.empty(cells.counts.size, dtype=np.int64)
        loops.wildcard_matches(np.ascontiguousarray(cells.codes, dtype=np.int32), cells.counts, found)
        return found
    groups = [np.flatnonzero(member == p) for p in range(patterns.shape[0])]
    matches = np.zeros(cells.counts.size, dtype=np.int64)
    for a, b in itertools.product(range(len(groups)), repeat=2):
        common = np.flatnonzero(patterns[a] & patterns[b])
        matches[groups[a]] += _lookup(cells, groups[a], groups[b], common)
    return matches


def _lookup(cells: CellTable, wanted: IntArray, given: IntArray, keys: IntArray) -> NDArray[np.int64]:
    """Return, for each cell of ``wanted``, the records of ``given`` that have its codes on ``keys``."""
    if not keys.size:
        return np.full(wanted.size, cells.counts[given].sum())
    names = tuple(cells.names[j] for j in keys)
    both = np.concatenate([wanted, given])
    merged = table(KeyCodes(names, tuple(cells.shape[j] for j in keys), tuple(cells.codes[both, j] for j in keys)))
    weights = np.concatenate([np.zeros(wanted.size), cells.counts[given]])
    totals = np.bincount(merged.record_cell, weights=weights)
    return totals[merged.record_cell[: wanted.size]].astype(np.int64)


def l_diversity(keys: KeyCodes, sensitive: IntArray, size: int, cells: CellTable | None = None) -> LDiversity:
    """Return the distinct and entropy l-diversity of a sensitive variable of ``size`` codes, shape (n,).

    ``cells`` is the table of the keys, where the caller has it.

    Raises
    ------
    UsageError
        If the keys have wildcards: classes would overlap and diversity is not defined.

    Examples
    --------
    >>> keys = KeyCodes(("sex",), (2,), (np.array([0, 0, 1, 1]),))
    >>> l_diversity(keys, np.array([0, 1, 1, 1]), 2)
    LDiversity(distinct=1, entropy=1.0)
    """
    if keys.has_wildcards:
        raise UsageError(sentence("l-diversity is not defined with wildcards", fix="set missing='category'"))
    if not keys.records:
        return LDiversity(0, 0.0)
    cells = cells or table(keys)
    pair = KeyCodes(("class", "value"), (cells.counts.size, size), (cells.record_cell, sensitive))
    joint = table(pair)
    of_class = joint.codes[:, 0]
    share = joint.counts / cells.counts[of_class]
    distinct = np.bincount(of_class, minlength=cells.counts.size)
    entropy = np.bincount(of_class, weights=-share * np.log(share), minlength=cells.counts.size)
    return LDiversity(int(distinct.min()), math.exp(float(entropy.min())))


@dataclass(frozen=True, slots=True)
class RiskyCombination:
    """A combination of keys, with the number of its occupied cells below the threshold and of the records in them."""

    variables: tuple[str, ...]
    cells: int
    records: int


def risky_combinations(keys: KeyCodes, size: int = 3, threshold: int = 3) -> tuple[RiskyCombination, ...]:
    """Count, for every combination of up to ``size`` keys, the occupied cells with fewer than ``threshold`` records.

    The most records first. For use inside the agency: small counts are not for publication.

    Raises
    ------
    UsageError
        If the size or threshold is not positive, or the keys have wildcards.
    """
    if keys.has_wildcards or size < 1 or threshold < 1:
        raise UsageError(sentence("rare combinations need complete records, and a size and a threshold of at least 1"))
    whole = table(keys)
    found = []
    for k in range(1, min(size, len(keys.names)) + 1):
        for names in itertools.combinations(keys.names, k):
            at = [keys.position(name) for name in names]
            part = KeyCodes(names, tuple(keys.shape[j] for j in at), tuple(whole.codes[:, j] for j in at))
            counts = np.bincount(table(part).record_cell, weights=whole.counts)
            low = counts[counts < threshold]
            found.append(RiskyCombination(names, int(low.size), int(low.sum())))
    return tuple(sorted(found, key=lambda c: (-c.records, len(c.variables), c.variables)))


def adding(found: Sequence[RiskyCombination]) -> tuple[RiskyCombination, ...]:
    """Return the combinations that have more rare cells, or records in them, than each of their parts that was counted.

    A key that follows from others adds nothing to them: of an area and its region, the area alone is told.

    >>> area, both = RiskyCombination(("area",), 2, 3), RiskyCombination(("area", "region"), 2, 3)
    >>> adding([area, both]) == (area,)
    True
    """
    counted = {frozenset(one.variables): (one.cells, one.records) for one in found}

    def adds(one: RiskyCombination) -> bool:
        parts = (frozenset(one.variables) - {name} for name in one.variables)
        return all(counted.get(part) != (one.cells, one.records) for part in parts)

    return tuple(one for one in found if adds(one))
