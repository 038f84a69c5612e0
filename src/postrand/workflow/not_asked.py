"""Categories of whom a question does not concern, which are the records of a category of another variable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook.no_answer import not_asked
from postrand.codebook.variable import RELEASED_ROLES
from postrand.errors import sentence
from postrand.recoding.base import key_of
from postrand.risk.finding import listed
from postrand.support.arrow import index_values, is_null

MOST = 3
"""So many categories of another variable are named at most: their terms together repeat that of the category."""
Places = NDArray[np.intp]
Draft = Mapping[str, Any]


def not_asked_lines(table: pa.Table, drafts: Sequence[Draft]) -> Iterator[str]:
    """Yield a sentence for each group of released variables of which the same records are not asked.

    Of variables with categories that a regression compares. The categories of another one that are these records are
    named where they are at most ``MOST``; a variable alone without such a one is not told.
    """
    held = {d["name"]: d for d in drafts if _is_compared(d) and d["name"] in table.column_names}
    places = {name: _places(table, draft) for name, draft in held.items()}
    groups: dict[bytes, list[str]] = {}
    for name, draft in held.items():
        for place, label in enumerate(_labels(draft)):
            mask = places[name] == place
            if not_asked(label) and mask.any() and not mask.all():
                groups.setdefault(mask.tobytes(), []).append(f"{name} = {label}")
    for mask, said in groups.items():
        names = {text.partition(" = ")[0] for text in said}
        others = [name for name in held if name not in names]
        same = [f"{n} = {found}" for n in others if (found := _same(held[n], places[n], np.frombuffer(mask, bool)))]
        if len(said) + len(same) > 1:
            what = f"{listed([*said, *same])} are the same records, so that a regression on two of these variables "
            what += "cannot be fitted at any epsilon"
            fix = "for such a regression, merge all but one of these categories with others ([[recodes]] in "
            yield sentence(what, fix=f"{fix}codebook.toml; missing_codes do not help), or use one variable")


def _is_compared(draft: Draft) -> bool:
    """Whether a released variable has categories that are no numbers, as a regression compares them."""
    is_released = draft["role"] in RELEASED_ROLES and bool(draft.get("categories"))
    return is_released and (bool(draft.get("labels")) or all(isinstance(c, str) for c in draft["categories"]))


def _labels(draft: Draft) -> list[str]:
    return list(map(str, draft.get("labels") or draft["categories"]))


def _places(table: pa.Table, draft: Draft) -> Places:
    """Return the place of each record's category among those of a draft, -1 for any other value, (n,)."""
    column = table.column(draft["name"]).unify_dictionaries().combine_chunks()
    held = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    place = {key_of(category): at for at, category in enumerate(draft["categories"])}
    of = np.array([*(place.get(key_of(value), -1) for value in held.dictionary.to_pylist()), -1])
    return of[np.where(is_null(held.indices), -1, index_values(held.indices))].astype(np.intp)


def _same(draft: Draft, places: Places, mask: NDArray[np.bool_]) -> str:
    """Return the categories of a variable that are exactly these records, in words; "" if there are none."""
    inside = np.unique(places[mask])
    if len(inside) > MOST or inside[0] < 0 or np.isin(places[~mask], inside).any():
        return ""
    labels = _labels(draft)
    return listed([labels[at] for at in inside], "or")
