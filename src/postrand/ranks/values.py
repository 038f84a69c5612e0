"""The *values* of a column after a rank law, equal ones counted as one: equal values give no protection."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.errors import SpecificationError, sentence
from postrand.ranks.apply import average
from postrand.ranks.laws import RankLaw

NEAR = 0.005
"""A value counts as known if it is known to within this share of itself: a convention, not a theorem."""
MOST = 0.5
"""A curator is warned if the release shows more than this share of the values."""
NOTHING_LEFT = 0.95
"""The release is refused if it shows more than this share of the values."""

_ERROR = 1e-12
_LARGEST = float(1 << 53)
_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class ValueLevel:
    """Hold how uncertain the values are after a release by a rank law; computed from the released values.

    Permuted: ``shown`` is an upper bound of the expected share of records that are released with their own value;
    ``bits`` is a lower bound of the mean entropy of a record's released value. Both are for an intruder who knows the
    record's rank and the cuts of the runs, which a few known records show. Averaged: ``shown`` is the share of values
    that the averages alone reveal to within half a per cent (other knowledge increases it), and ``bits`` is None,
    because nothing is drawn.
    """

    shown: float
    bits: float | None = None

    def to_dict(self) -> dict[str, float]:
        """Return plain data for JSON."""
        return {"shown": self.shown} | ({} if self.bits is None else {"bits": self.bits})

    @classmethod
    def from_dict(cls, data: Any) -> ValueLevel:
        """Read plain data; raises SpecificationError if a field is missing, unknown or not a number."""
        shape = isinstance(data, Mapping) and "shown" in data and set(data) <= {"shown", "bits"}
        if not shape or not all(type(v) in (int, float) and 0 <= v < 64 for v in data.values()) or data["shown"] > 1:
            raise SpecificationError(sentence("the level of a numerical column's values is not valid"))
        return cls(**data)


def released_level(values: NDArray[Any], law: RankLaw, form: str) -> ValueLevel:
    """Return the level of the values of a column from its released values (n,), in any order.

    A permuted column has exactly the values of the file, so the release shows which values are equal.

    Examples
    --------
    >>> from postrand.ranks import RankBlocks
    >>> released_level(np.array([1, 2, 3, 4]), RankBlocks(2), "permute").bits >= 0.999
    True
    >>> released_level(np.array([7, 7, 7, 7]), RankBlocks(2), "permute")
    ValueLevel(shown=1.0, bits=0.0)
    """
    ordered = np.sort(values)
    return _permuted(ordered, law) if form == "permute" else ValueLevel(_near(ordered.astype(np.float64), law))


def value_level(values: NDArray[Any], law: RankLaw, form: str) -> ValueLevel:
    """Return the level of the release of true values (n,)."""
    return released_level(values if form == "permute" else average(values, law), law, form)


def value_problem(values: NDArray[Any], law: RankLaw, form: str, where: str, level: ValueLevel | None = None) -> str:
    """Return a sentence if a release of these true values (n,) would protect nothing or reveal them; otherwise ''.

    ``level`` is the result of :func:`value_level`, if it is already known.
    """
    if form == "average" and solved(values, law).any():
        what = (
            "the averages reveal true values: a block has equal values only, or the averages next to it are too close"
        )
        return sentence(what, where=where, fix="choose larger blocks, form = 'permute', or make it categories")
    if form == "permute" and (level or released_level(values, law, form)).shown > NOTHING_LEFT:
        what = "nearly all records would keep their value, because it is equal to those of their neighbours in rank"
        return sentence(what, where=where, fix="make it categories and perturb it in [[blocks]], or leave it out")
    return ""


def order_keys(values: NDArray[Any]) -> tuple[bytes, bytes]:
    """Return a digest of the dense ranks (n,) of a column, and of its ranks in reverse; NaN is missing.

    Columns with the same digest rank the records alike, so their blocks contain the same records. The averages of a
    variable and of its logarithm are two equations for the values of each block; bands for each narrow a record's rank.

    >>> one, other = np.array([1.0, 3.0, 9.0]), np.array([1.0, 0.0, 2.0])
    >>> order_keys(one)[0] == order_keys(np.log(one))[0], order_keys(one)[0] in order_keys(other)
    (True, False)
    """
    held = np.isfinite(values)
    ranks = np.full(values.size, -1, dtype=np.int64)
    ranks[held] = np.unique(values[held], return_inverse=True)[1]
    reverse = np.where(held, ranks.max(initial=0) - ranks, -1)
    return hashlib.sha256(ranks.tobytes()).digest(), hashlib.sha256(reverse.tobytes()).digest()


def solved(values: NDArray[Any], law: RankLaw) -> NDArray[np.bool_]:
    """Return which true values (n,), ascending, follow exactly from their averages over the rank law's blocks.

    Known are the averages, the sizes of blocks, the smallest and the largest value, the order of the records, and the
    unit to which values are rounded. Values ascend, so block l has values from the average of block l - 1 to that of
    block l + 1. With these bounds L and U, size s and sum S, the p-th smallest is at least
    ``max(L, (S - (s-p) U) / p)`` and at most ``min(U, (S - (p-1) L) / (s-p+1))``. Both are attained, so no narrower
    bound follows. For values in whole units the bounds are rounded inwards.

    >>> from postrand.ranks import RankBlocks
    >>> solved(np.array([1, 1, 2, 4, 7, 9]), RankBlocks(2)).tolist()
    [True, True, False, False, False, False]
    """
    whole = _in_units(np.sort(values))
    x = np.sort(values).astype(np.float64) if whole is None else whole
    starts = law.starts(x.size, 0)
    sizes = np.diff(starts, append=x.size)
    sums = np.add.reduceat(x, starts)
    if whole is None:
        means = sums / sizes
        low, high = _bounds(sums, sizes, np.r_[x[0], means[:-1]], np.r_[means[1:], x[-1]])
        return np.asarray(high - low <= _ERROR * np.abs(x).max())
    floor, ceiling = sums // sizes, -(-sums // sizes)
    low, high = _bounds(sums, sizes, np.r_[x[0], ceiling[:-1]], np.r_[floor[1:], x[-1]])
    return np.asarray(low >= high)


def _bounds(sums: NDArray[Any], sizes: NDArray[np.int64], low: Any, high: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the smallest and largest possible value for each rank (n,); in whole numbers if the sums are."""
    S, s, low, high = (np.repeat(a, sizes) for a in (sums, sizes, low, high))
    p = np.arange(s.size) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    most, least = S - (p - 1) * low, S - (s - p) * high
    if S.dtype.kind == "i":
        return np.maximum(low, -(-least // p)), np.minimum(high, most // (s - p + 1))
    return np.maximum(low, least / p), np.minimum(high, most / (s - p + 1))


def _near(averages: NDArray[np.float64], law: RankLaw) -> float:
    """Return the share of values known to within NEAR from ascending averages (n,); end blocks count as unknown."""
    starts = law.starts(averages.size, 0)
    if starts.size < 3:
        return 0.0
    sizes = np.diff(starts, append=averages.size)
    means = averages[starts]
    inner = slice(1, -1)
    low, high = _bounds((means * sizes)[inner], sizes[inner], means[:-2], means[2:])
    known = high - low <= 2 * NEAR * np.abs(np.repeat(means[inner], sizes[inner]))
    return float(known.sum() / averages.size)


def _permuted(x: NDArray[Any], law: RankLaw) -> ValueLevel:
    """Return the level of ascending values (n,): each of m equal ones in a run of s is released with chance m / s.

    Given the cut, the mean entropy is ``(1/n) Σ_runs (s log s - Σ_values m log m)``, and the share that stays
    ``(1/n) Σ_runs (1 + Σ_values (m² - m) / s)``. Only equal values add to the inner sums.
    """
    n = x.size
    edges = np.flatnonzero(np.r_[True, x[1:] != x[:-1], True])
    tied = np.diff(edges) > 1
    first, end = edges[:-1][tied], edges[1:][tied]
    bits, kept = 0.0, 0.0
    for cut in range(law.cuts):
        starts = law.starts(n, cut)
        runs = np.diff(starts, append=n)
        bits, kept = bits + float((runs * np.log2(runs)).sum()), kept + float(runs.size)
        if not first.size:
            continue
        points = np.unique(np.concatenate([first, end[end < n], starts]))
        group = np.searchsorted(first, points, "right") - 1
        inside = (group >= 0) & (points < end[group])
        m = np.diff(points, append=n)[inside]
        s = runs[np.searchsorted(starts, points[inside], "right") - 1]
        bits -= float((m * np.log2(m)).sum())
        kept += float(((m * m - m) / s).sum())
    total = n * law.cuts
    shown, least = min(kept / total * (1 + _ERROR), 1.0), max(bits / total * (1 - _ERROR) - _ERROR, 0.0)
    return ValueLevel(1.0 if least == 0.0 else shown, least)


def _in_units(x: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return values (n,) in whole units above the smallest, for the largest common unit; None if there is none."""
    if x.dtype.kind in "iu":
        scaled = x
    else:
        for decimals in range(_DECIMALS + 1):
            scaled = np.rint(x * 10.0**decimals)
            if np.abs(scaled).max(initial=0.0) >= _LARGEST:
                return None
            if (scaled / 10.0**decimals == x).all():
                break
        else:
            return None
    above = scaled.astype(np.int64) - np.int64(scaled[0])
    unit = max(int(np.gcd.reduce(above)), 1)
    return np.asarray(above // unit)
