"""Households whose number is not released, and whose members unperturbed columns put together again.

Members of a household often share a value exactly, such as a calibrated weight. Where no other household has it, the
records with this value are the household.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.risk.finding import Finding
from postrand.risk.sample import Sampled
from postrand.risk.shared import CONSTANT
from postrand.risk.singled import MAX_ALONE, Codes, joined

ROUND = "round or calibrate the weight (rounding in [[recodes]])"
GROUP = "put such columns into bands or groups, or round them ([[recodes]]), perturb them, or drop them"
SAMPLED = "measured on a sample, in which other records with the same values can be missing"


@dataclass(frozen=True, slots=True)
class Regrouped:
    """Hold which share of the households of two records or more are put together again: confidential.

    ``share``: the records with one value of ``column``, which members share, are exactly one household; ``every``: the
    same of the values of all such ``columns`` together.
    """

    column: str
    share: float
    columns: tuple[str, ...]
    every: float


def regrouped(house: NDArray[np.int64], codes: Mapping[str, Codes]) -> Regrouped | None:
    """Return what columns regroup: ``house`` (n,) from 0, -1 for records without a number; None where none is shared.

    >>> house = np.array([0, 0, 1, 1, 2, 2])
    >>> found = regrouped(house, {"weight": (np.array([0, 0, 1, 1, 1, 1]), 2), "sex": (np.arange(6) % 2, 2)})
    >>> found.column, round(found.share, 3), found.columns
    ('weight', 0.333, ('weight',))
    """
    known = house >= 0
    sizes = np.bincount(house[known]) if known.any() else np.zeros(0, dtype=np.int64)
    several = sizes >= 2
    if not several.any():
        return None

    def of_one(code: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return whether all members of each household have one code, and the largest that one has."""
        least, most = np.full(sizes.size, np.iinfo(np.int64).max), np.full(sizes.size, -1)
        np.minimum.at(least, house[known], code[known])
        np.maximum.at(most, house[known], code[known])
        return least == most, most

    def share(code: NDArray[np.int64]) -> float:
        same, held = of_one(code)
        exact = same & (np.bincount(code, minlength=1)[np.maximum(held, 0)] == sizes)
        return float((exact & several).sum() / several.sum())

    shared = {n: c for n, (c, _) in codes.items() if (of_one(c)[0] & several).sum() >= CONSTANT * several.sum()}
    if not shared:
        return None
    alone = {name: share(code) for name, code in shared.items()}
    best = max(alone, key=alone.__getitem__)
    together, _ = functools.reduce(joined, (codes[name] for name in shared))
    return Regrouped(best, alone[best], tuple(shared), share(together))


def regrouping(sample: Sampled, codebook: Codebook) -> tuple[Finding, ...]:
    """Return the finding that records are put together again although the number that they share is not released."""
    grouped = sample.grouped
    if grouped is None or not sample.table.num_rows:
        return ()
    name = grouped.name
    codes, _ = sample.codes(name)
    house = codes - 1 if sample.table.column(name).null_count else codes
    found = regrouped(house, {column: sample.codes(column) for column in sample.alone})
    if found is None or max(found.share, found.every) <= MAX_ALONE:
        return ()
    weights = [v.name for v in codebook.with_role("weight")]
    what = {"households": ("members", "households of several"), "persons": ("records", "persons with several")}
    text = f"{name} seems to number {grouped.whom}, and is not released, but"
    return (regroups(found, name, text, what[grouped.whom], weights, is_whole=sample.is_whole),)


def regroups(
    found: Regrouped, name: str, begin: str, whom: tuple[str, str], weights: Collection[str], *, is_whole: bool
) -> Finding:
    """Return the finding, which begins by how records are known to belong together: by the column ``name``.

    ``whom`` are the words for records that belong together, and for the households or persons that have several.
    """
    adds = at_least(found.every) != at_least(found.share)
    names = found.columns if adds or found.share <= MAX_ALONE else (found.column,)
    what, units = whom
    text = f"{begin} the values of {found.column}, released unperturbed, put the {what} of {at_least(found.share)} of "
    text += f"the {units} together again"
    text += f", those of {', '.join(found.columns)} together {at_least(found.every)}" if adds else ""
    text += "" if is_whole else f" ({SAMPLED})"
    fix = ", ".join([ROUND] * bool({*weights} & {*names}) + [GROUP])
    figures = {"share": found.share, "every": found.every}
    return Finding("regroups", names, (name,), f"{text}; {fix}", figures, share=max(found.share, found.every))


def at_least(share: float) -> str:
    """Return a share as a number that is not too large, and that reveals no small count.

    >>> at_least(0.9981), at_least(0.126), at_least(0.002)
    ('more than 99%', 'at least 12%', 'fewer than 1%')
    """
    if share < 0.01:
        return "fewer than 1%"
    return "more than 99%" if share > 0.99 else f"at least {math.floor(100 * share)}%"
