"""Records that belong together although no column numbers them: neighbours in the file share a value far beyond chance.

Members of a household stand next to each other in most files, and share what the household earns or spends. All limits
here are conventions: files of households are far above them, and other files far below.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from postrand.risk.finding import Finding, listed, share_text
from postrand.risk.regrouped import regrouped, regroups
from postrand.risk.sample import codes_of
from postrand.risk.singled import MAX_ALONE
from postrand.support import arrow
from postrand.support.showing import few

LEAST_MEAN, MOST_MEAN = 1.5, 20
"""A value that members share has so many records on average: more are those of a region, a cluster or a stratum."""
LEAST_SHARE, TIMES = 0.3, 20
"""So many neighbours are equal, and so many times as many as two records that are drawn at random."""
LEAST_PAIRS = 50
"""Fewer equal neighbours say nothing."""
IN_ORDER = 0.5
"""Of the steps from a value to the next, so many go on in the direction of the step before in a column that is sorted,
be it within small groups; in random order it is a third."""
COMMON, FEW = 0.01, 20
"""A value that a larger share of the records has, and more records than this, is none of one household: such as 0."""
LEAST_KEPT = 0.1
"""So many records at least have another value."""
REPEATED = 1.05
"""A column that is named as a number of households tells them where its values have so many records on average."""
MAX_NAMED = 3
FIX = "if the file has their number, give it the role 'household', or make one (docs/households.md)"
"""What is to be done about records that belong together without a number."""
ORDERED = "; released in the order of the file members stay next to each other: set shuffle = true in [release]"
CODE = "neighbours"
"""The code of the finding."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Hold the columns that neighbours share, that of the largest share first, which is ``share``; confidential.

    ``chance`` is the share of two records drawn at random that have equal values of the first column. ``house`` (n,)
    are the runs of its equal values from 0, -1 where it is missing. ``is_whole``: all records of the file were read.
    """

    columns: tuple[str, ...]
    share: float
    chance: float
    house: Ints
    is_whole: bool = True

    @property
    def what(self) -> str:
        """What neighbours share, and how many of them, in words that reveal no small count."""
        text = f"records next to each other share {few(self.columns, MAX_NAMED)} ("
        text += f"{share_text(self.share)} of neighbours do" + f" of {self.columns[0]}" * (len(self.columns) > 1)
        text += f", by chance {share_text(self.chance)}"
        text += "" if self.is_whole else f", of the first {self.house.size:,} records"
        return f"{text}), as members of one household do, or records of one person or place"

    @property
    def sentence(self) -> str:
        """The same, and what follows from it for claims and figures of risk."""
        text = f"{self.what}, and neither the role 'household' nor [unit] says which records belong together: "
        return f"{text}epsilon and figures of risk are of single records, and k records together spend k times epsilon"


def ordered_codes(column: pa.ChunkedArray) -> Ints:
    """Return the place of each value (n,) among those that occur, in their order; -1 where it is missing, or NaN.

    >>> ordered_codes(pa.chunked_array([[2.5, None, 10.0, 2.5]])).tolist()
    [0, -1, 1, 0]
    """
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    if pa.types.is_floating(plain.type):
        plain = pc.if_else(pc.is_nan(plain), pa.nulls(1, plain.type)[0], plain)  # a scalar of None loads pandas
    codes, size = codes_of(plain)
    _, first = np.unique(codes, return_index=True)
    order = arrow.index_values(pc.sort_indices(plain.take(arrow.from_numpy(first)))).astype(np.int64)  # missing last
    places = np.empty(size, dtype=np.int64)
    places[order] = np.arange(size)
    if plain.null_count:
        places[order[-1]] = -1
    return places[codes]


def equal_neighbours(codes: Ints) -> tuple[float, float] | None:
    """Return the share of neighbours with equal values, and of two records at random; None of what tells no household.

    ``codes`` (n,) are in the order of the values, -1 for missing ones. Only neighbours count that both have a value,
    and one that few records have::

        share = #{i : v_i = v_(i+1)} / #{i : both have a value}        chance = Σ n_v (n_v - 1) / (n (n - 1))

    >>> [round(share, 3) for share in equal_neighbours(np.random.default_rng(1).permutation(200).repeat(3))]
    [0.668, 0.003]
    >>> equal_neighbours(np.arange(200).repeat(3)) is None  # sorted by it
    True
    """
    if not _is_mean(np.bincount(codes[codes >= 0])):
        return None
    held = without_common(codes)
    counts = np.bincount(held[held >= 0])
    n = int(counts.sum())
    if n < LEAST_KEPT * codes.size or not _is_mean(counts[counts > 0]):
        return None
    both = (held[:-1] >= 0) & (held[1:] >= 0)
    equal = int((both & (held[:-1] == held[1:])).sum())
    if equal < LEAST_PAIRS or _is_in_order(held[held >= 0]):
        return None
    share, chance = equal / both.sum(), float((counts * (counts - 1.0)).sum() / (n * (n - 1.0)))
    return (float(share), chance) if share >= max(LEAST_SHARE, TIMES * chance) else None


def without_common(codes: Ints) -> Ints:
    """Return codes (n,) with -1 for values that too many records have to be of one household: such as 0.

    >>> without_common(np.repeat([0, 1, 2, -1], [2, 50, 1, 1]))[[0, 2, 52, 53]].tolist()
    [0, -1, 2, -1]
    """
    common = np.bincount(codes[codes >= 0], minlength=1) > max(FEW, COMMON * codes.size)
    return np.where((codes >= 0) & common[codes], -1, codes)


def runs(codes: Ints) -> Ints:
    """Return the number of the run of equal neighbouring values of each record (n,), -1 where there is no value.

    >>> runs(np.array([4, 4, -1, 4, 2, 2])).tolist()
    [0, 0, -1, 1, 2, 2]
    """
    begins = np.append(True, codes[1:] != codes[:-1])[: codes.size] & (codes >= 0)
    return np.where(codes >= 0, np.cumsum(begins) - 1, -1)


def neighbours(
    columns: Mapping[str, pa.ChunkedArray], numbers: Collection[str] = (), *, is_whole: bool = True
) -> Neighbours | None:
    """Return what neighbours of the first records share, in the order of the file; None where they share nothing.

    ``numbers`` are columns that are named as numbers of households or persons: where one has several records a value,
    records that belong together are known, and it is told elsewhere what that means.
    """
    codes = {name: ordered_codes(column) for name, column in columns.items()}
    if any(name in codes and _repeats(codes[name]) for name in numbers):
        return None
    found = {name: told for name, own in codes.items() if (told := equal_neighbours(own)) is not None}
    if not found:
        return None
    names = sorted(found, key=lambda name: -found[name][0])
    house = runs(without_common(codes[names[0]]))
    return Neighbours(tuple(names), *found[names[0]], house, is_whole)


def neighbour_findings(
    found: Neighbours,
    released: Mapping[str, pa.ChunkedArray],
    weights: Iterable[str] = (),
    *,
    ordered: bool = False,
) -> tuple[Finding, ...]:
    """Return the findings: that records belong together, and what ``released`` unperturbed columns put together again.

    The runs of equal values of the first column are taken as the households. ``ordered``: records are released in the
    order of the file.
    """
    clear = tuple(name for name in found.columns if name in released)
    other = tuple(name for name in found.columns if name not in released)
    figures = {"equal": found.share, "chance": found.chance}
    one = Finding(CODE, clear, other, f"{found.sentence}{ORDERED * ordered}; {FIX}", figures)
    again = regrouped(found.house, {name: codes_of(column) for name, column in released.items()})
    if again is None or max(again.share, again.every) <= MAX_ALONE:
        return (one,)
    text = f"no column numbers households, and neighbours with one value of {found.columns[0]} are taken as one:"
    whom = ("members", "households of several")
    return (one, regroups(again, found.columns[0], text, whom, [*weights], is_whole=found.is_whole))


def released_fix(names: Collection[str]) -> str:
    """Return what is to be done where such columns are released: before anybody has measured what they put together.

    >>> released_fix(["rent"])
    "released, rent puts them together again: band or round it ([[recodes]]), perturb it, or set role = 'drop'"
    """
    puts, it = ("puts", "it") if len(names) == 1 else ("put", "them")
    text = f"released, {listed([*names])} {puts} them together again: band or round {it} ([[recodes]]), perturb {it}"
    return f"{text}, or set role = 'drop'"


def _is_mean(counts: Ints) -> bool:
    return counts.size > 1 and LEAST_MEAN <= counts.mean() <= MOST_MEAN


def _repeats(codes: Ints) -> bool:
    counts = np.bincount(codes[codes >= 0])
    counts = counts[counts > 0]
    return counts.size > 0 and REPEATED <= counts.mean() <= MOST_MEAN


def _is_in_order(values: Ints) -> bool:
    """Whether steps from a value to the next other one mostly go on as the step before: sorted, up or down."""
    steps = np.sign(np.diff(values))
    steps = steps[steps != 0]
    return steps.size > 1 and bool((steps[1:] == steps[:-1]).mean() >= IN_ORDER)
