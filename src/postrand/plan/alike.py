"""Categories that differ only by spaces or capital letters: which they are, and the recode that merges them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from postrand.recoding.base import label_problems
from postrand.support.showing import few

NOTE = """\
Some categories differ only by spaces or capital letters. If they mean the same, uncomment their recode, and run
'postrand recode' with --write: it makes the variable above fit, and marks the recode confidential, because its groups
were read from the file. If these spellings are public, write provenance = "public" below its variable."""
LEAST = 20
"""Records that have a spelling, from which on it is named on the screen."""
MOST = 3
"""Spellings of one category that are named at once."""


def same_but_spelling(categories: Iterable[Any]) -> list[list[str]]:
    """Return the sets of texts that differ only by spaces or by capital letters.

    >>> same_but_spelling(["FEMALE", "Female", "female ", "Male", "Zuerich", "Zürich"])
    [['FEMALE', 'Female', 'female ']]
    """
    return [held for held in _spelt(categories) if len(held) > 1]


def merging(draft: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the recode that merges the spellings of one category; None where a group would have no name.

    No count decides on a name: it begins with a capital letter and is not all capitals, where there is such a spelling.

    >>> merging({"name": "sex", "categories": ["MALE", "Male ", "female"]})["groups"]
    {'Male': ['MALE', 'Male '], 'female': ['female']}
    """
    if not all(isinstance(category, str) for category in draft["categories"]):
        return None
    groups = {_plain(min(held, key=_untidy)): held for held in _spelt(draft["categories"])}
    named = not list(label_problems(groups, "a group"))
    return {"variable": draft["name"], "groups": groups} if named else None


def _untidy(text: str) -> tuple[bool, bool]:
    text = _plain(text)
    return not text[:1].isupper(), text.isupper()


def told(draft: Mapping[str, Any], counts: Mapping[str, int]) -> str:
    """Return the spellings of one category in words: those that ``LEAST`` records or more have, and no others.

    >>> told({"name": "sex", "categories": ["F", "M", "f", "f "]}, {"F": 90, "f": 40, "f ": 2})
    "sex ('F', 'f' and rarer ones)"
    """
    sets = []
    for held in same_but_spelling(draft["categories"]):
        often = [
            repr(text) for text in sorted(held, key=lambda text: -counts.get(text, 0)) if counts.get(text, 0) >= LEAST
        ]
        rest = "rarer ones" if often else "rare ones"
        shown = few(often, MOST)
        sets.append(shown if len(often) == len(held) else " and ".join(filter(None, (shown, rest))))
    different = list(dict.fromkeys(sets))
    more = len(different) - MOST
    return f"{draft['name']} ({'; '.join(different[:MOST])}{f' and {more:,} more' if more > 0 else ''})"


@dataclass(frozen=True, slots=True)
class Alike:
    """Hold what is proposed for spellings of one category: recodes as plain data, and each variable in words."""

    recodes: tuple[dict[str, Any], ...]
    words: tuple[str, ...]


def proposed(drafts: Iterable[Mapping[str, Any]], sample: pa.Table) -> Alike:
    """Return what is proposed for spellings of one category; ``sample`` says which spellings many records have."""
    recodes, words = [], []
    for draft in drafts:
        if (
            same_but_spelling(draft.get("categories", ()))
            and draft["role"] != "drop"
            and draft["name"] in sample.column_names
        ):
            held = pc.value_counts(sample.column(draft["name"]))
            texts = map(str, held.field("values").to_pylist())
            counts = dict(zip(texts, held.field("counts").to_pylist(), strict=True))
            words.append(told(draft, counts))
            recodes.append(merging(draft))
    return Alike(tuple(entry for entry in recodes if entry is not None), tuple(words))


def _spelt(categories: Iterable[Any]) -> list[list[str]]:
    """Return the texts, those together that differ only by spaces or by capital letters."""
    found: dict[str, list[str]] = {}
    for text in categories:
        if isinstance(text, str):
            found.setdefault(_plain(text).casefold(), []).append(text)
    return list(found.values())


def _plain(text: str) -> str:
    return " ".join(text.split())
