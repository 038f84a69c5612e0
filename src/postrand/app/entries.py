"""Edits of a variable's entry in the codebook: labels, order of categories, no answer; entries in, entries out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from postrand.codebook.variable import MISSING_POLICIES
from postrand.errors import UsageError, sentence

Entry = Mapping[str, Any]
TYPE_TEXT = {"int64": "whole numbers", "double": "numbers", "string": "text"}
MISSING_TEXT = {
    "error": "must not occur: it stops the run",
    "category": "a category of its own, perturbed like the others",
    "keep": "released as missing",
}


def edited(entry: Entry, field: str, at: int, value: str) -> dict[str, Any]:
    """Return an entry with one edit: of its ``field``, at a category where it is about one.

    >>> entry = {"name": "sex", "categories": [1, 2], "labels": ["man", "woman"]}
    >>> edited(entry, "up", 1, "")["categories"], edited(entry, "text", 0, "Man")["labels"]
    ([2, 1], ['Man', 'woman'])
    >>> edited(entry, "none", 1, "true")["missing_codes"]
    [2]

    Raises
    ------
    UsageError
        If there is no such field or category, or the entry cannot have this value.
    """
    if field not in _EDITS:
        raise UsageError(sentence(f"{field!r} is no part of a variable that can be edited here"))
    if field in _OF_CATEGORY and at >= len(entry.get("categories", ())):
        raise UsageError(sentence("there is no such category"))
    found = dict(entry)
    _EDITS[field](found, at, value)
    return {name: held for name, held in found.items() if held not in ([], "") or name in ("role", "notes")}


def texts_of(entry: Entry) -> list[str]:
    """Return a text for each category."""
    return list(entry.get("labels") or [str(value) for value in entry.get("categories", ())])


def _label(entry: dict[str, Any], at: int, value: str) -> None:
    entry["label"] = " ".join(value.split())[:500]


def _text(entry: dict[str, Any], at: int, value: str) -> None:
    texts = texts_of(entry)
    texts[at] = " ".join(value.split())[:500] or str(entry["categories"][at])
    entry["labels"] = texts if texts != [str(one) for one in entry["categories"]] else []


def _up(entry: dict[str, Any], at: int, value: str) -> None:
    """Put a category before the one above it."""
    if at == 0:
        return
    for name in ("categories", "labels"):
        if held := list(entry.get(name, ())):
            held[at - 1], held[at] = held[at], held[at - 1]
            entry[name] = held


def _none(entry: dict[str, Any], at: int, value: str) -> None:
    """Say whether a category means "no answer"; their order is that of the categories."""
    category, held = entry["categories"][at], list(entry.get("missing_codes", ()))
    held = [one for one in held if one != category] + ([category] if value == "true" else [])
    entry["missing_codes"] = [one for one in entry["categories"] if one in held]


def _ordered(entry: dict[str, Any], at: int, value: str) -> None:
    if value == "true":
        entry["ordered"] = True
    else:
        entry.pop("ordered", None)


def _missing(entry: dict[str, Any], at: int, value: str) -> None:
    if value not in MISSING_POLICIES or (value == "category" and not entry.get("categories")):
        raise UsageError(sentence(f"{value!r} is not a choice for missing values"))
    entry["missing"] = value


_EDITS: dict[str, Callable[[dict[str, Any], int, str], None]] = {
    "label": _label,
    "text": _text,
    "up": _up,
    "none": _none,
    "ordered": _ordered,
    "missing": _missing,
}
_OF_CATEGORY = ("text", "up", "none")
