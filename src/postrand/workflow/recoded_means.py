"""Means that a recode changes, of bands of a skewed amount or of numbers with a limit; and recodes with one result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.columns.recoded import needed_for, recoded_batch, unrecoded
from postrand.errors import DataError, sentence
from postrand.estimate.nominal import number_of
from postrand.formats import Source
from postrand.recoding import Recode
from postrand.recoding.bands import Bands
from postrand.recoding.base import Recoding, is_settled, key_of
from postrand.recoding.steps import Steps
from postrand.support.arrow import to_floats
from postrand.workflow.swallowed import MAX_RECORDS, first_values

STEPS = (0.05, 0.1, 0.2, 0.5, 1.0)
"""How much a mean differs is told by these steps, and not at all below the first."""
LEAST = 20
"""Groups of fewer records are not looked at."""
MOST = 0.5
"""A result that makes a larger share of the difference is named."""
FIX = (
    "make bands narrower where values differ most, or label each by a number nearer to its values; unless a public "
    'table chose them, mark the recode: provenance = "confidential"'
)
LIKEWISE = "; totals and regressions on its numbers are off likewise"


@dataclass(frozen=True, slots=True)
class RecodedMean:
    """Hold a mean before and after a recode, over the records that have a number in both: confidential.

    ``most`` is the result whose records make most of the difference, "" where none makes half of it. ``scale`` is the
    mean absolute value before: a mean near 0 is not compared with itself.
    """

    recode: Recode
    before: float
    after: float
    scale: float
    most: str = ""
    is_cut: bool = False

    @property
    def change(self) -> float:
        """How much larger the mean is after the recode, as a share of the mean absolute value before."""
        return (self.after - self.before) / self.scale if self.scale else 0.0

    @property
    def is_told(self) -> bool:
        """Whether the difference is larger than the first of ``STEPS``."""
        return abs(self.change) > STEPS[0]

    @property
    def text(self) -> str:
        """How the means differ, in words: by more than one of ``STEPS``, without the means; of those that are told.

        >>> from postrand.recoding import Recode
        >>> recode = Recode.from_dict({"variable": "band", "from": "pay", "bands": [0, 10], "labels": ["5", "20"]})
        >>> RecodedMean(recode, 40.0, 10.0, 40.0, "20").text
        'the mean of band is more than 50% below the mean of pay before recoding, mostly by values that count as 20'
        """
        step = max(step for step in STEPS if abs(self.change) > step)
        off = f"the mean of {self.recode.variable} is more than {step:.0%} {'below' if self.change < 0 else 'above'}"
        by = f", mostly by values that count as {self.most}" if self.most else ""
        first = f" (of the first {MAX_RECORDS:,} records)" if self.is_cut else ""
        return f"{off} the mean of {self.recode.source} before recoding{by}{first}"

    @property
    def sentence(self) -> str:
        """The warning, with what to do."""
        return sentence(f"{self.text}{LIKEWISE}", fix=_fix(self.recode))


@dataclass(frozen=True, slots=True)
class OneResult:
    """Hold a recode that gives all records the same result, as edges that are ages do with a column of years."""

    recode: Recode
    result: str
    is_cut: bool = False

    @property
    def is_told(self) -> bool:
        """Whether it is told: always."""
        return True

    @property
    def text(self) -> str:
        """What is wrong, in words."""
        first = f" (of the first {MAX_RECORDS:,})" if self.is_cut else ""
        return f"all records{first} fall into one category of {self.recode.variable}: {self.result}"

    @property
    def sentence(self) -> str:
        """The warning, with what to do."""
        fix = f"compare the edges with the values of {self.recode.source}: ages are no edges of years of birth"
        return sentence(self.text, fix=fix)


def in_short(warnings: Iterable[str]) -> str:
    """Return warnings in one line: how each mean differs, and what can be done once."""
    told = (text.partition(LIKEWISE)[0].partition(". Next: ")[0] for text in warnings)
    return f"{'; '.join(told)}. Next: {FIX}"


def recoded_means(source: Source, recodes: Sequence[Recode] = ()) -> dict[str, RecodedMean | OneResult]:
    """Return the means that recodes of numbers change by more than the first of ``STEPS``, by the name of the result.

    A recode that gives all records the same result is told in its place.

    ``source`` as :func:`postrand.workflow.swallowed.swallowed` takes it. Of bands, those count whose labels are mostly
    numbers within their bands: other numbers are codes. The first ``MAX_RECORDS`` records are read.
    """
    if not recodes:
        source, recodes = unrecoded(source)
    settled = [recode for recode in recodes if is_settled(recode.kind)]
    asked = [recode for recode in settled if has_amounts(recode) or isinstance(_last(recode), Bands)]
    values = first_values(source, sorted({recode.source for recode in asked}))
    found = {recode.variable: _compared(recode, values[recode.source]) for recode in asked}
    return {name: one for name, one in found.items() if one is not None and one.is_told}


def changed_in_groups(source: Source, response: str, groups: Sequence[str], book: Codebook | None = None) -> str:
    """Return in which group a recode changes the mean of a variable most, and what to do; "" where none by much.

    The mean over all records can stay where those of groups do not: of bands of visits, the healthy gain what the ill
    lose. Groups of ``LEAST`` records or more count, of the first ``MAX_RECORDS``; ``book`` has their labels.
    """
    plain, recodes = unrecoded(source)
    recode = next((one for one in recodes if one.variable == response and is_settled(one.kind)), None)
    if recode is None or not groups or not has_amounts(recode):
        return ""
    wanted = [one for one in recodes if one.variable in (response, *groups)]
    before, after, keys = list[NDArray[np.float64]](), list[NDArray[np.float64]](), list[tuple[Any, ...]]()
    for batch in plain.batches(needed_for([response, *groups], recodes)):
        raw, made = batch.column(recode.source), recoded_batch(batch, wanted)
        if not is_number(raw.type):
            return ""
        before.append(to_floats(raw))
        after.append(_numbers(made.column(response).dictionary_encode()))
        keys += zip(*(made.column(name).to_pylist() for name in groups), strict=True)
        if len(keys) >= MAX_RECORDS:
            break
    first, second = np.concatenate(before), np.concatenate(after)
    worst, more = _worst_group(first, second, keys)
    if worst is None:
        return ""
    step = max(step for step in STEPS if abs(worst[0]) > step)
    where = " and ".join(f"{name} is {_label(book, name, value)}" for name, value in zip(groups, worst[1], strict=True))
    text = f"where {where}, the mean of {response} is more than {step:.0%} {'below' if worst[0] < 0 else 'above'} "
    others = f"; {more} other group{'s are' if more > 1 else ' is'} off, too" * (more > 0)
    return f"{text}the mean of {recode.source} before recoding{others}. Next: {_fix(recode)}"


def _fix(recode: Recode) -> str:
    return FIX if recode.kind.categories() else "choose limits that fewer values are beyond"


def _label(book: Codebook | None, name: str, value: Any) -> str:
    variable = None if book is None else book[name]
    codes = {} if variable is None else dict(zip(map(key_of, variable.categories), variable.code_labels, strict=False))
    return str(codes.get(key_of(value), key_of(value)))


def _worst_group(
    before: NDArray[np.float64], after: NDArray[np.float64], keys: Sequence[tuple[Any, ...]]
) -> tuple[tuple[float, tuple[Any, ...]] | None, int]:
    """Return the largest change of a mean with its group, None where none is told; and how many others are."""
    place: dict[tuple[Any, ...], int] = {}
    group = np.array([place.setdefault(key, len(place)) for key in keys])
    held = np.isfinite(before) & np.isfinite(after) & np.array([None not in key for key in keys])
    asked = (None, (after - before)[held], np.abs(before)[held])
    many, off, size = (np.bincount(group[held], weights, len(place)) for weights in asked)
    change = np.divide(off, size, out=np.zeros(len(place)), where=(size > 0) & (many >= LEAST))
    told = np.flatnonzero(np.abs(change) > STEPS[0])
    if not told.size:
        return None, 0
    best = int(told[np.argmax(np.abs(change[told]))])
    return (float(change[best]), list(place)[best]), told.size - 1


def _last(recode: Recode) -> Recoding:
    """Return what makes the results: of several steps the last one."""
    return recode.kind.steps[-1] if isinstance(recode.kind, Steps) else recode.kind


def is_number(of: pa.DataType) -> bool:
    """Return whether a column of this type has numbers."""
    return bool(pa.types.is_integer(of) or pa.types.is_floating(of))


def has_amounts(recode: Recode) -> bool:
    """Whether the results of a recode of numbers are amounts: numbers without categories, or within their bands."""
    kind = _last(recode)
    if recode.kind.reads != "numbers" or kind.reads != "numbers":
        return False
    names = kind.categories()
    if not names:
        return True
    if not isinstance(kind, Bands):
        return False
    ends = [*([-math.inf] if kind.below else []), *kind.edges().tolist(), math.inf]
    numbers = [number_of(name) for name in names]
    within = [n is not None and low <= n <= high for n, low, high in zip(numbers, ends[:-1], ends[1:], strict=True)]
    return bool(sum(within) > len(names) / 2)


def _compared(recode: Recode, column: pa.Array) -> RecodedMean | OneResult | None:
    """Return the means before and after; None where no record has both, or a value has no place in the recode."""
    try:
        made = recode.apply(column)
    except DataError:  # refused where the records are read
        return None
    if recode.kind.categories():
        results = made.drop_null().unique()
        if len(results) == 1 and len(column.unique()) > 1:
            return OneResult(recode, key_of(results[0].as_py()), len(column) >= MAX_RECORDS)
        if not has_amounts(recode):
            return None
    if not is_number(column.type):
        return None
    before, names = to_floats(column), made.dictionary_encode()
    after = _numbers(names)
    held = np.isfinite(before) & np.isfinite(after)
    if not held.any():
        return None
    off = after[held] - before[held]
    means = float(before[held].mean()), float(after[held].mean()), float(np.abs(before[held]).mean())
    return RecodedMean(recode, *means, _most(names, held, off), len(column) >= MAX_RECORDS)


def _numbers(names: pa.DictionaryArray) -> NDArray[np.float64]:
    """Return the number that each result is or spells, shape (n,); nan for what is none."""
    held = [number_of(value) for value in names.dictionary.to_pylist()]
    codes = to_floats(names.indices)
    numbers = np.array([math.nan if n is None else n for n in held] + [math.nan])
    return numbers[np.where(np.isnan(codes), len(held), codes).astype(np.int64)]


def _most(names: pa.DictionaryArray, held: NDArray[np.bool_], off: NDArray[np.float64]) -> str:
    """Return the result whose records make more than ``MOST`` of the difference ``off``, shape (held,)."""
    codes = to_floats(names.indices)[held].astype(np.int64)
    sums = np.bincount(codes, weights=off, minlength=len(names.dictionary)) * np.sign(off.sum())
    best = int(np.argmax(sums))
    return key_of(names.dictionary[best].as_py()) if sums[best] > MOST * abs(off.sum()) else ""
