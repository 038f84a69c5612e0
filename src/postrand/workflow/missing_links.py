"""Facts that hold only for some: a variable that has no answer where another one has some of its values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.risk.linked import Column
from postrand.risk.sample import Sampled
from postrand.support.showing import few
from postrand.workflow.linked_rules import values_of

LEAST = 100
"""So many records have an answer, and so many have none: fewer could be so by chance."""
MOST_VALUES = 50
_SCREEN = 2_000
Bools = NDArray[np.bool_]


def missing_links(
    columns: Mapping[str, Column], drafts: Sequence[Mapping[str, Any]], sample: Sampled, perturbed: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield each perturbed variable that has an answer for some values of another perturbed one alone, and a sentence.

    In every record that was read, such as the cause of death of those who died. Of several such others the one with the
    fewest values is named. Missing answers of the variable are a category of it.
    """
    held = {d["name"]: d for d in drafts if d["name"] in perturbed and d["name"] in columns}
    for name, draft in held.items():
        none = columns[name].codes < 0
        if draft["missing"] != "category" or min(none.sum(), (~none).sum()) < LEAST:
            continue
        by_size = sorted((other for other in held if other != name), key=lambda other: columns[other].size)
        for other in by_size:
            if (lacking := _lacking(columns[other], none)) is None:
                continue
            values = values_of(sample.table.column(other), columns[other], list(held[other].get("categories", ())))
            if values is not None:
                yield name, _told(name, other, values, lacking)
                break


def _lacking(column: Column, none: Bools) -> Bools | None:
    """Return which values of a column go with no answer, (S,), the others with one alone; None where one has both."""
    if not 1 < column.size <= MOST_VALUES or (column.codes < 0).any():
        return None
    for some in (slice(_SCREEN), slice(None)):
        records = np.bincount(column.codes[some], minlength=column.size)
        without = np.bincount(column.codes[some][none[some]], minlength=column.size)
        if not ((without == 0) | (without == records)).all():
            return None
    return np.asarray(without > 0)


def _told(name: str, other: str, values: Sequence[Any], is_lacking: Bools) -> str:
    """Return for which values of another variable one has no answer, and what to do."""
    lacking, having = ([str(v) for v, one in zip(values, of, strict=True) if one] for of in (is_lacking, ~is_lacking))
    text = f"{name} has an answer where {other} is {few(having)}, and in no other record"
    if len(lacking) <= len(having):
        text = f"{name} has no answer where {other} is {few(lacking)}, and one in all other records"
    return (
        f"{text}: perturbed apart, releases have records where this is not so. To keep it, perturb both jointly (one "
        "entry of [[blocks]]), and forbid the others with [[rules]], which name missing answers as '(missing)'"
    )
