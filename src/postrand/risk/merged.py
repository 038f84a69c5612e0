"""Rare categories that were merged: together still too few, or published by name; said once for every surface."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.data.table import ContingencyTable
from postrand.errors import sentence
from postrand.recoding import Recode
from postrand.recoding.base import key_of
from postrand.recoding.steps import merged_into
from postrand.risk.data import Coded
from postrand.support.warned import warn


class MergedWarning(UserWarning):
    """A recode that merges rare categories into one that is rare itself."""


def merging(codebook: Codebook) -> tuple[Recode, ...]:
    """Return the recodes that have merged rare categories, and whose results are counted by category."""
    recodes = (recode for recode in codebook.recodes if codebook[recode.variable].is_categorical)
    return tuple(recode for recode in recodes if any(True for _ in merged_into(recode.kind)))


def too_few(recode: Recode, counts: Mapping[str, int]) -> str:
    """Return the warning that merged categories have too few records together, or "".

    ``counts`` are the numbers of records of the recode's results, by category, without missing ones. A share is of
    these records. The sentence tells the rule and the name, no number of records.
    """
    for rule, name in merged_into(recode.kind):
        if counts.get(name, 0) < rule.least(sum(counts.values())):
            what = f"the rare categories that are merged into {name!r} have together still fewer than {rule.asks}"
            fix = "raise merge_rare, or group them with another category in 'groups'"
            return sentence(what, where=f"recode of {recode.variable!r}", fix=fix)
    return ""


def published(recode: Recode) -> str:
    """Return the warning that the release names the categories that were merged as rare, or ""."""
    if not any(True for _ in merged_into(recode.kind)):
        return ""
    what = "the release says by name which categories were merged because few records have them"
    fix = "if their names must not be known, list the frequent ones in 'groups', and leave the rest to 'others'"
    return sentence(what, where=f"recode of {recode.variable!r}", fix=fix)


def said_of(codebook: Codebook, table: Callable[[tuple[str]], ContingencyTable]) -> dict[str, str]:
    """Return the warnings of each variable with merged categories; those of too few from tables of one."""
    found = {}
    for recode in merging(codebook):
        counts = _by_category(codebook, recode.variable, table((recode.variable,)).dense())
        found[recode.variable] = " ".join(filter(None, (too_few(recode, counts), published(recode))))
    return found


def warn_of(codebook: Codebook | None, columns: Mapping[str, Coded], names: Collection[str]) -> None:
    """Warn of each of these variables whose merged categories are too few, in a file that is read as codes."""
    if codebook is None:
        return
    for recode in merging(codebook):
        if recode.variable in names:
            codes = columns[recode.variable].codes
            counts = _by_category(codebook, recode.variable, np.bincount(codes[codes >= 0]))
            if said := too_few(recode, counts):
                warn(said, MergedWarning, stacklevel=3)


def _by_category(codebook: Codebook, name: str, counts: NDArray[Any]) -> dict[str, int]:
    """Return counts by code as counts by category; missing, the code after them, is left out."""
    held = zip_longest(map(key_of, codebook[name].categories), counts[: len(codebook[name].categories)], fillvalue=0)
    return {str(category): int(count) for category, count in held}
