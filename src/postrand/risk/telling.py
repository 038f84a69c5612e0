"""What unperturbed columns say of perturbed ones, one by one and two together: from the codes of a sample."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from postrand.risk.reveals import PairReveal, told
from postrand.risk.sample import Sampled, numbers
from postrand.risk.singled import MAX_COLUMNS, Codes

MAX_CELLS = 100_000
"""Of a table of a perturbed variable and unperturbed ones; larger ones are not tried."""
MAX_TOLD = 1_000  # pairs of a perturbed and an unperturbed variable that are tried
MAX_CATEGORIES = 1_000
"""Different values with which a weight is compared."""
RANKED_BINS, MAX_BINS, RECORDS_A_CELL = 10, 50, 50
"""Numbers are cut at their quantiles: into 10 bins where they are perturbed, else with 50 records a bin, at most 50."""


def best_guess(held: Sequence[PairReveal]) -> str:
    """Return in words how far the best of these guesses goes."""
    return most_told(held).in_words


def most_told(held: Sequence[PairReveal]) -> PairReveal:
    """Return the one of them whose guess goes farthest."""
    return max(held, key=lambda pair: (pair.settled, pair.right))


def told_pairs(
    sample: Sampled, coded: Collection[str], perturbed: Sequence[str], clear: Sequence[str]
) -> tuple[tuple[PairReveal, ...], list[tuple[tuple[str, ...], PairReveal]], int]:
    """Return what each unperturbed column reveals, what only two together reveal, and the number of pairs left out."""
    bins = max(2, min(MAX_BINS, sample.table.num_rows // RECORDS_A_CELL))
    true = usable({name: classes(sample, name, name in coded, RANKED_BINS) for name in perturbed})
    seen = usable({name: classes(sample, name, name in coded, bins) for name in clear})
    tried = [(p, c) for p in true for c in seen if true[p][1] * seen[c][1] <= MAX_CELLS][:MAX_TOLD]
    ranges = {p: cut_in(sample, p, codes) for p, codes in true.items()}
    pairs = [told(table_of(true[p], seen[c]), p, c, ranges[p]) for p, c in tried]
    known = {(pair.perturbed, pair.clear) for pair in pairs if pair.is_much}
    joint: list[tuple[tuple[str, ...], PairReveal]] = []
    for one, two in itertools.combinations(list(seen)[:MAX_COLUMNS], 2):
        size = seen[one][1] * seen[two][1]
        if size * RECORDS_A_CELL > sample.table.num_rows:
            continue
        both = seen[one][0] * seen[two][1] + seen[two][0], size
        for p in true:
            if size * true[p][1] <= MAX_CELLS and not {(p, one), (p, two)} & known:
                found = told(table_of(true[p], both), p, f"{one}, {two}", ranges[p])
                joint += [((one, two), found)] * found.is_much
    return tuple(pairs), joint, len(perturbed) * len(clear) - len(tried)


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
