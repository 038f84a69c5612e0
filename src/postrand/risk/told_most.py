"""What unperturbed columns say most of a perturbed one, though too little for a finding; household sizes count too."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from postrand.risk.finding import listed
from postrand.risk.household_sizes import OF_SIZE, members_of
from postrand.risk.reveals import PairReveal, told
from postrand.risk.sample import Sampled
from postrand.risk.singled import MAX_COLUMNS, Codes
from postrand.risk.telling import (
    MAX_CELLS,
    RANKED_BINS,
    RECORDS_A_CELL,
    bins_of,
    classes,
    cut_in,
    table_of,
    usable,
)

CHANCE = 2.0
"""A gain of at most so many times that of a column without any relation is one by chance."""


def told_most(
    sample: Sampled,
    coded: Collection[str],
    perturbed: Sequence[str],
    clear: Sequence[str],
    pairs: Sequence[PairReveal],
) -> PairReveal | None:
    """Return from what, beside ``pairs`` that are findings, most wrong guesses become right; None where nothing is.

    ``pairs`` are those of each unperturbed column alone. Where household numbers are released, the number of members
    is tried too, by itself and with each column. What a column that has nothing to do with it would gain by half as
    much, because it has many classes of few records, counts as no gain.
    """
    tried = [pair for pair in pairs if not pair.is_much]
    tried += _by_size(sample, coded, perturbed, clear, {(one.perturbed, one.clear) for one in pairs if one.is_much})
    tried.sort(key=_gain, reverse=True)
    held = (one for one in tried if one.gains_little or not _is_chance(sample, coded, one))
    return next(held, replace(tried[0], right=tried[0].blind) if tried else None)


def _gain(one: PairReveal) -> float:
    """Return how many more of the best guesses are right with a column than without it."""
    return one.right - one.blind


def _is_chance(sample: Sampled, coded: Collection[str], one: PairReveal) -> bool:
    """Return whether the gain is at most ``CHANCE`` times that from the column's values in another order of records."""
    if one.clear not in sample.table.column_names or one.perturbed not in sample.table.column_names:
        return False
    true = classes(sample, one.perturbed, one.perturbed in coded, RANKED_BINS)
    seen = classes(sample, one.clear, one.clear in coded, bins_of(sample))
    if true is None or seen is None:
        return False
    mixed = np.random.default_rng(0).permutation(seen[0]), seen[1]
    return _gain(one) <= CHANCE * _gain(told(table_of(true, mixed)))


def in_line(one: PairReveal, *, beside: bool = False) -> str:
    """Return it in a line, of guesses in 100; ``beside``: findings say more of other columns.

    >>> in_line(PairReveal("age", "wgt, roof", 0.1, 0.0, 0.0, right=0.45, blind=0.39))  # doctest: +NORMALIZE_WHITESPACE
    'Of all perturbed variables, age is the one that unperturbed columns tell best: of 100
    guesses from wgt and roof about 45 are right, without them about 39.'
    >>> in_line(PairReveal("age", "wgt", 0.0, 0.0, 0.0, right=0.392, blind=0.39), beside=True)
    'Beside this, no guess from unperturbed columns at a perturbed one is better by 1 in 100 than without them.'
    """
    head = "beside this, " if beside else ""
    if one.gains_little:
        text = f"{head}no guess from unperturbed columns at a perturbed one is better by 1 in 100 than without them."
    else:
        about = f"{one.perturbed} (the range)" if one.ranges else one.perturbed
        text = f"{head}of all perturbed variables, {about} is the one that unperturbed columns tell best: of 100 "
        text += f"guesses from {listed(one.clear.split(', '))} about {100 * one.right:.0f} are right, without them "
        text += f"about {100 * one.blind:.0f}."
    return text[0].upper() + text[1:]


def _by_size(
    sample: Sampled,
    coded: Collection[str],
    perturbed: Sequence[str],
    clear: Sequence[str],
    known: Collection[tuple[str, str]],
) -> Iterator[PairReveal]:
    """Yield what the number of members says of each perturbed column, alone and with a column but those ``known``."""
    sizes = members_of(sample)
    if sizes is None:
        return
    seen: dict[str, Codes] = {OF_SIZE: sizes}
    for name, held in usable({n: classes(sample, n, n in coded, bins_of(sample)) for n in clear[:MAX_COLUMNS]}).items():
        if held[1] * sizes[1] * RECORDS_A_CELL <= sizes[0].size:
            seen[f"{name}, {OF_SIZE}"] = held[0] * sizes[1] + sizes[0], held[1] * sizes[1]
    for name, true in usable({n: classes(sample, n, n in coded, RANKED_BINS) for n in perturbed}).items():
        for by, both in seen.items():
            if true[1] * both[1] <= MAX_CELLS and not {(name, by.partition(", ")[0]), (name, OF_SIZE)} & {*known}:
                yield told(table_of(true, both), name, by, cut_in(sample, name, true))
