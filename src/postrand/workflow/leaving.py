"""Findings on columns that stay as they are, of the file that leaves: what was not suppressed is in it anyway."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from postrand.data.frames import TableSource
from postrand.risk.finding import Finding
from postrand.risk.findings import Findings
from postrand.risk.sample import Sampled, sampled
from postrand.risk.telling import MAX_BINS, RANKED_BINS, classes, cut_in, table_of

LEAST = 20
"""Suppressed values of a sample, of which a share is told: of fewer it could tell of one record."""
TRUE = "the true values of"


def of_suppressed(told: Findings, before: pa.Table, frame: pa.Table) -> Findings:
    """Return what columns that stay as they are tell of suppressed values: others are in the file.

    ``told`` are the findings of the file ``before``, and ``frame`` is what suppression made of it, in the same order.
    A guess is the most frequent value among the released ones, with the value of the other column or without.
    """

    def again(one: Finding, sample: Sampled, gone: dict[str, NDArray[np.bool_]]) -> Iterator[Finding]:
        about = tuple(name for name in one.about if gone[name].any())
        if about and one.code == "tells":
            text = _guessed(sample, about[0], one.variables, gone[about[0]])
            yield from [dataclasses.replace(one, sentence=text)] * bool(text)
        elif about:
            text = one.sentence.replace(f"{TRUE} {', '.join(one.about)}", f"suppressed values of {', '.join(about)}")
            yield dataclasses.replace(one, about=about, sentence=text)

    return _each(
        told, before, frame, lambda true, left: np.asarray(pc.and_(pc.is_valid(true), pc.is_null(left))), again
    )


def of_averaged(told: Findings, before: pa.Table, frame: pa.Table) -> Findings:
    """Return what columns that stay as they are tell of true values of averaged columns, beyond the averages."""

    def again(one: Finding, sample: Sampled, own: dict[str, NDArray[np.bool_]]) -> Iterator[Finding]:
        name = one.about[0]
        if one.code != "tells" or _right(sample, name, one.variables) > _right(sample, name, [_left(name)]):
            yield one

    return _each(told, before, frame, lambda true, left: np.zeros(0, dtype=bool), again)


_Again = Callable[[Finding, Sampled, dict[str, NDArray[np.bool_]]], Iterator[Finding]]
_Marked = Callable[[pa.ChunkedArray, pa.ChunkedArray], NDArray[np.bool_]]


def _each(told: Findings, before: pa.Table, frame: pa.Table, marked: _Marked, again: _Again) -> Findings:
    """Return the findings with those on changed columns told again, from a sample of both files side by side."""
    names = list(dict.fromkeys(name for one in told.found for name in one.about))
    if not names:
        return told
    both = before
    for name in names:
        both = both.append_column(_left(name), frame.column(name))
    sample = sampled(TableSource(both), both.column_names, ())
    marks = {name: marked(sample.table.column(name), sample.table.column(_left(name))) for name in names}
    found = ([one] if not one.about else again(one, sample, marks) for one in told.found)
    return dataclasses.replace(told, found=tuple(one for several in found for one in several))


def _left(name: str) -> str:
    """Return the name of a changed column beside the one before, which no file has."""
    return f"{name}\0left"


def _guessed(sample: Sampled, name: str, others: Sequence[str], gone: NDArray[np.bool_]) -> str:
    """Return how often suppressed values are guessed from other columns, "" where no better than without them."""
    true = classes(sample, name, False, RANKED_BINS)
    if true is None:
        return ""
    best, by, blind = 0.0, "", 0.0
    for other in others:
        seen = classes(sample, other, False, MAX_BINS)
        if seen is None or gone.all():
            continue
        kept = (true[0][~gone], true[1]), (seen[0][~gone], seen[1])
        counts = table_of(*kept)
        usual = int(counts.sum(axis=1).argmax())
        guess = np.where(counts.any(axis=0), counts.argmax(axis=0), usual)
        right = float((guess[seen[0][gone]] == true[0][gone]).mean())
        if right > best:
            best, by, blind = right, other, float((true[0][gone] == usual).mean())
    if best <= blind:
        return ""
    text = f"suppressed values of {name} can be guessed from columns that stay as they are, {', '.join(others)}"
    if np.count_nonzero(gone) < LEAST:
        return text
    ranges = cut_in(sample, name, true)
    of = f", of the range in which it lies (one of {ranges}, cut at its tenths)," if ranges else ""
    many = f"about {100 * best:.0f}, without in about {100 * blind:.0f}"
    return f"{text}: of 100 of them, the best guess from {by}{of} is right in {many}"


def _right(sample: Sampled, name: str, others: Sequence[str]) -> float:
    """Return the share of records whose value, or range of it, the best guess from one of other columns names."""
    true = classes(sample, name, False, RANKED_BINS)
    seen = [held for other in others if (held := classes(sample, other, False, MAX_BINS)) is not None]
    if true is None or not seen:
        return 0.0
    return max(float(table_of(true, held).max(axis=0).sum() / true[0].size) for held in seen)
