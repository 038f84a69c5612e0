"""What unperturbed columns say of perturbed ones, one by one and two together: from the codes of a sample."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.risk.finding import WHERE, WHOSE
from postrand.risk.reveals import SETTLED, TWICE, PairReveal, hit_most, one_value, told
from postrand.risk.sample import Sampled, numbers
from postrand.risk.singled import MAX_COLUMNS, Codes
from postrand.risk.told_exactly import told_exactly

Revealed = tuple[tuple[str, ...], PairReveal]
Joint = Sequence[Revealed]
"""What several columns reveal together, with their names."""
MAX_CELLS = 100_000
"""Of a table of a perturbed variable and unperturbed ones; larger ones are not tried."""
MAX_TOLD = 1_000  # pairs of a perturbed and an unperturbed variable that are tried
MAX_CATEGORIES = 1_000
"""Different values with which a weight is compared."""
FREQUENT = 20
"""Records that a value needs to be compared by itself."""
SURE = 6.0
RANKED_BINS, MAX_BINS, RECORDS_A_CELL = 10, 50, 50
"""Numbers are cut at their quantiles: into 10 bins where they are perturbed, else with 50 records a bin, at most 50."""


def best_guess(held: Sequence[PairReveal]) -> str:
    """Return in words how far the best of these guesses goes."""
    return most_told(held).in_words


def most_told(held: Sequence[PairReveal]) -> PairReveal:
    """Return the one of them whose guess goes farthest."""
    return max(held, key=lambda pair: (pair.settled, pair.right))


def told_pairs(
    sample: Sampled,
    coded: Collection[str],
    perturbed: Sequence[str],
    clear: Sequence[str],
    binned: Collection[str] = (),
) -> tuple[tuple[PairReveal, ...], list[Revealed], dict[str, list[str]], Iterator[Revealed]]:
    """Return what each unperturbed column reveals, what only two together reveal, and which pairs are left out.

    And what two reveal by their exact values alone, which is looked for when it is asked for.

    Alone, values that many records have are compared one by one, and others in bins, if they are numbers. ``binned``
    are columns whose exact values are compared elsewhere. Two together are compared as bins; and by exact values where
    bins do not show them.
    """
    bins = bins_of(sample)
    true = usable({name: classes(sample, name, name in coded, RANKED_BINS) for name in perturbed})
    seen = usable({name: classes(sample, name, name in coded, bins) for name in clear})
    alone = seen | usable({name: _exact(sample, name, seen.get(name)) for name in clear if name not in binned})
    tried = [(p, c) for p in true for c in alone if true[p][1] * alone[c][1] <= MAX_CELLS][:MAX_TOLD]
    ranges = {p: cut_in(sample, p, codes) for p, codes in true.items()}
    pairs = [told(table_of(true[p], alone[c]), p, c, ranges[p]) for p, c in tried]
    pairs = [_located(pair, sample, coded, true[pair.perturbed], alone[pair.clear]) for pair in pairs]
    left: dict[str, list[str]] = {}
    compared = {*tried}
    for p, c in itertools.product(perturbed, clear):
        if (p, c) not in compared:
            left.setdefault(c, []).append(p)
    known = {(pair.perturbed, pair.clear) for pair in pairs if pair.is_much}
    certain = {(pair.perturbed, pair.clear) for pair in pairs if pair.is_certain}
    joint: list[Revealed] = []
    whole: set[tuple[str, ...]] = set()
    for one, two in itertools.combinations(list(seen)[:MAX_COLUMNS], 2):
        size = seen[one][1] * seen[two][1]
        if size * RECORDS_A_CELL > sample.table.num_rows:
            continue
        both = seen[one][0] * seen[two][1] + seen[two][0], size
        if all(seen[name][1] >= sample.codes(name)[1] for name in (one, two)):
            whole.add((one, two))
        for p in true:
            if size * true[p][1] <= MAX_CELLS and not {(p, one), (p, two)} & known:
                found = told(table_of(true[p], both), p, f"{one}, {two}", ranges[p])
                joint += [((one, two), found)] * found.is_much
    told_jointly = {(found.perturbed, *both) for both, found in joint}

    def is_told(p: str, *both: str) -> bool:
        ones = {(p, name) for name in both}
        return (p, *both) in told_jointly or bool(ones & certain) or (both in whole and not ones & known)

    def is_new(found: PairReveal, names: Sequence[str]) -> bool:
        return found.is_much and (found.is_certain or not {(found.perturbed, name) for name in names} & known)

    values = {name: sample.codes(name) for name in alone if name not in binned}
    exact = told_exactly(true, values, ranges, is_told)
    return tuple(pairs), joint, left, ((names, found) for names, found in exact if is_new(found, names))


def _located(pair: PairReveal, sample: Sampled, coded: Collection[str], true: Codes, seen: Codes) -> PairReveal:
    """Return a pair with the words for the one value in clear that settles most, where it can be named.

    And for the true value whose records are settled more often than ``TWICE`` the share of all. Missing and categories
    are named, of ``FREQUENT`` records or more; no other value is.
    """
    if not pair.is_much or pair.settled < SETTLED or pair.ranges:
        return pair
    told = _where(pair, sample, coded, true, seen), _whose(pair, sample, coded, true, seen)
    return replace(pair, where="; ".join(filter(None, told)))


def _whose(pair: PairReveal, sample: Sampled, coded: Collection[str], true: Codes, seen: Codes) -> str:
    place, share = hit_most(table_of(true, seen))
    name = _name_of(sample, pair.perturbed, coded, true[0] == place)
    if name is None or share < TWICE * pair.settled:
        return ""
    return f"{WHOSE}{pair.perturbed} is {name}, for about {100 * share:.0f} of 100"


def _where(pair: PairReveal, sample: Sampled, coded: Collection[str], true: Codes, seen: Codes) -> str:
    found = one_value(table_of(true, seen))
    if found is None:
        return ""
    has, both = seen[0] == found[1], (seen[0] == found[1]) & (true[0] == found[0])
    said = _name_of(sample, pair.clear, coded, has), _name_of(sample, pair.perturbed, coded, both)
    if both.sum() < FREQUENT or None in said:
        return ""
    is_ = "is" if both.sum() == has.sum() else "is mostly"
    return f"{WHERE}{pair.clear} is {said[0]}, {pair.perturbed} {is_} {said[1]}"


def _name_of(sample: Sampled, name: str, coded: Collection[str], records: NDArray[np.bool_]) -> str | None:
    """Return the one value of these records, ``missing`` or a category; None of several, and of what is no category.

    ``coded`` can have the labels of the categories of each column.
    """
    values = sample.table.column(name).filter(pa.array(records)).unique()
    if len(values) != 1:
        return None
    value = values[0].as_py()
    if value is None or name not in coded:
        return "missing" if value is None else None
    labels = coded[name] if isinstance(coded, Mapping) else {}
    return str(labels.get(str(value), value))


def frequent(exact: Codes, bins: Codes) -> Codes | None:
    """Return one class for each value that many records have, and the bins of the others; None where there is none.

    >>> exact, bins = (np.array([0] * 20 + [1, 2]), 3), (np.array([0] * 21 + [1]), 2)
    >>> found, size = frequent(exact, bins)
    >>> found[[0, 20, 21]].tolist(), size
    ([0, 1, 2], 3)
    """
    many = np.bincount(exact[0], minlength=exact[1]) >= FREQUENT
    if not many.any():
        return None
    codes = np.where(many[exact[0]], exact[0], exact[1] + bins[0])
    kept, found = np.unique(codes, return_inverse=True)
    return found.astype(np.int64), int(kept.size)


def _exact(sample: Sampled, name: str, bins: Codes | None) -> Codes | None:
    """Return a class for each value that many records have, and the bins, or one class, of the others; None of none."""
    exact = sample.codes(name)
    if bins is not None and bins[1] >= exact[1]:
        return bins
    return frequent(exact, (np.zeros_like(exact[0]), 1) if bins is None else bins)


def bins_of(sample: Sampled) -> int:
    """Return in how many bins unperturbed numbers are cut."""
    return max(2, min(MAX_BINS, int(sample.table.num_rows) // RECORDS_A_CELL))


def in_ranges(sample: Sampled, clear: Sequence[str], coded: Collection[str]) -> list[str]:
    """Return the columns of numbers that are compared in ranges alone: most values have too few records each."""
    bins = bins_of(sample)
    found = []
    for name in clear:
        codes, size = sample.codes(name)
        counts = np.bincount(codes, minlength=size)
        rare = counts[counts < FREQUENT].sum() * 2 > codes.size and (counts == 1).sum() * 2 <= codes.size
        if rare and size > bins and name not in coded and numbers_of(sample, name) is not None:
            found.append(name)
    return found


def usable(classes: Mapping[str, Codes | None]) -> dict[str, Codes]:
    """Return the columns that have classes."""
    return {name: held for name, held in classes.items() if held is not None}


def categories(sample: Sampled, name: str, is_coded: bool) -> Codes | None:
    """Return the values of a column as classes, also where it is not released and has no categories; None of many."""
    codes, size = sample.codes(name)
    return (codes, size) if size <= MAX_CATEGORIES else classes(sample, name, is_coded, RANKED_BINS)


def cut_in(sample: Sampled, name: str, held: Codes) -> int:
    """Return in how many ranges that occur the values of a column were cut; 0 where its classes are its own values."""
    ranges = int(np.count_nonzero(np.bincount(held[0])))
    return ranges if ranges < sample.codes(name)[1] else 0


def classes(sample: Sampled, name: str, is_coded: bool, bins: int) -> Codes | None:
    """Return the values of a column as few classes: categories, or bins of numbers; None of text with many values."""
    codes, size = sample.codes(name)
    if is_coded or size <= bins:
        return codes, size
    number = numbers_of(sample, name)
    if number is None:
        return None
    cuts = np.unique(np.nanquantile(number, np.arange(1, bins) / bins)) if np.isfinite(number).any() else number[:0]
    classes = np.searchsorted(cuts, number, side="right").astype(np.int64)
    classes[np.isnan(number)] = cuts.size + 1
    return classes, int(cuts.size + 2)


def numbers_of(sample: Sampled, name: str) -> NDArray[np.float64] | None:
    """Return a column as numbers, NaN for missing ones; None of text that is none."""
    return numbers(sample.table.column(name))


def table_of(true: Codes, seen: Codes) -> NDArray[np.int64]:
    """Return the counts of two columns together, (I, C)."""
    return np.bincount(true[0] * seen[1] + seen[0], minlength=true[1] * seen[1]).reshape(true[1], seen[1])


def information(counts: NDArray[np.int64]) -> tuple[float, int]:
    """Return the information I of two columns of one another, in nats a record, and its degrees of freedom d.

    >>> information(np.array([[5, 0], [0, 5]]))
    (0.693..., 1)
    """
    counts = counts[counts.any(axis=1)][:, counts.any(axis=0)]
    joint = counts / counts.sum()
    product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    ratio = np.divide(joint, product, out=np.ones_like(product), where=joint > 0)
    return float((joint * np.log(ratio)).sum()), math.prod(size - 1 for size in counts.shape)


def is_more(information: float, free: int) -> bool:
    """Return whether ``2nI`` is more than chance explains: ``2nI > d + SURE sqrt(2d)``.

    This is the mean of chi-square with d degrees of freedom, and its standard deviations.
    """
    return information > free + SURE * math.sqrt(2 * free)
