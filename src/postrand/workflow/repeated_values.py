"""Columns that number persons or households whatever they are called: their values repeat, and others with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.plan.numbering import numbers_persons
from postrand.risk.sample import Sampled
from postrand.support.showing import few

LEAST_MEAN, MOST = 1.05, 15
"""The records of a value: so many on average, and at most so many of nearly every value."""
LEAST_REPEATED = 50
"""Fewer values with several records say nothing."""
SAME, NEARLY = 0.98, 0.9
"""Of the records of repeated values so many agree in what persons keep; and so many values have few records."""
BY_CHANCE = 30
"""So many records at least would differ, if others were by chance alike."""
_NAMED = 3
_TYPES = ("int", "uint", "string", "large_string")

Ints = NDArray[np.int64]


def repeated(sample: Sampled, drafts: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the columns whose values repeat as numbers of persons do, with the columns that stay the same in a value.

    A column counts if it has no categories, no role of its own, a few records a value, and two others at least that
    are the same in all or nearly all records of a value, far beyond chance, and of which none follows from another.
    Of a sample of a large file fewer values repeat, and none may be found.
    """
    known = {*sample.table.column_names}
    held = {d["name"]: d for d in drafts if d["name"] in known}
    codes = {name: sample.codes(name)[0] for name in held}
    found = {}
    for name, draft in held.items():
        if draft["role"] in ("", "drop", "other") and not draft.get("categories") and draft["type"].startswith(_TYPES):
            others = [other for other in held if other != name and not numbers_persons(held[other])]
            same = _kept_in(codes[name], {other: codes[other] for other in others})
            if len(same) > 1:
                found[name] = same
    return found


def words_of(name: str, same: Sequence[str]) -> str:
    """Return what is said of such a column.

    >>> print(words_of("patient", ["sex", "birthyear"]))
    patient: its values repeat, and sex, birthyear are the same in all or nearly all records of a value, so that it \
seems to number persons or households; if it does: --person patient --most-records N, or --household patient
    """
    what = f"{name}: its values repeat, and {few(same, _NAMED)} are the same in all or nearly all records of a value"
    options = f"--person {name} --most-records N, or --household {name}"
    return f"{what}, so that it seems to number persons or households; if it does: {options}"


def with_repeated(
    drafts: Iterable[Mapping[str, Any]], found: Mapping[str, Sequence[str]], named: Collection[str]
) -> list[dict[str, Any]]:
    """Return drafts with a note on such columns, which get no role by '*'."""
    made = []
    for draft in drafts:
        name = draft["name"]
        if name in found:
            role = draft["role"] if name in named or draft["role"] == "drop" else ""
            draft = {**draft, "role": role, "notes": [*draft["notes"], words_of(name, found[name])]}
        made.append(dict(draft))
    return made


def _kept_in(codes: Ints, others: Mapping[str, Ints]) -> tuple[str, ...]:
    """Return the columns that repeated values keep, the first of those that follow from each other alone."""
    counts = np.bincount(codes)
    if not LEAST_MEAN <= codes.size / max(counts.size, 1) <= MOST or (counts <= MOST).mean() < NEARLY:
        return ()
    if (counts > 1).sum() < LEAST_REPEATED:
        return ()
    kept: dict[str, Ints] = {}
    for name, other in others.items():
        if int(other.max()) + 1 > NEARLY * counts.size or not _agrees(codes, other):
            continue
        if not any(_agrees(own, other) or _agrees(other, own) for own in kept.values()):
            kept[name] = other
    return tuple(kept)


def _agrees(codes: Ints, other: Ints) -> bool:
    """Whether a column is the same in all or nearly all records of a value, far beyond chance."""
    _, first = np.unique(codes, return_index=True)
    again = np.ones(codes.size, dtype=bool)
    again[first] = False
    same = other[first][codes] == other
    shares = np.bincount(other) / other.size
    differ = again.sum() * (1 - (shares**2).sum())
    return bool(differ >= BY_CHANCE and (again & ~same).sum() <= (1 - SAME) * differ)
