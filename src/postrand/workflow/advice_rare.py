"""Rare categories that are merged where the records may choose: by a stated rule, marked confidential."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from postrand.codebook import Codebook, Variable
from postrand.errors import SpecificationError
from postrand.formats import Source
from postrand.recoding import Recode
from postrand.recoding.base import key_of
from postrand.risk.merged import too_few
from postrand.workflow.advice_bands import unbanded
from postrand.workflow.recodes import counted, prepared

LEAST_SHARES = (0.05, 0.075, 0.1)
"""Categories of a smaller share of the records are merged, by the first of these that leaves the merged ones no rarer
than that: at most 20 categories remain."""


def merged(book: Codebook, names: tuple[str, ...], source: Source) -> tuple[Codebook, tuple[Mapping[str, Any], ...]]:
    """Return the codebook with the rare categories of unordered variables of many categories merged, and the recodes.

    Of those without bands (:func:`postrand.workflow.advice_bands.unbanded`). Variables that are ordered, recoded
    already or named by a rule stay, and those of which fewer than two categories are rare, or all.
    """
    variables = {name: book[name] for name in unbanded(book, names) if _may_merge(book, book[name])}
    found = {name: made for name, one in variables.items() if (made := _entry(one, source)) is not None}
    if not found:
        return book, ()
    changed = tuple(_of_merged(v, found[v.name][1]) if v.name in found else v for v in book.variables)
    recodes = (*book.recodes, *(recode for _, recode in found.values()))
    return dataclasses.replace(book, variables=changed, recodes=recodes), tuple(entry for entry, _ in found.values())


def _may_merge(book: Codebook, variable: Variable) -> bool:
    ruled = any(variable.name in rule.variables for rule in book.rules)
    return not (variable.ordered or ruled or book.recode_of(variable.name) is not None)


def _entry(variable: Variable, source: Source) -> tuple[Mapping[str, Any], Recode] | None:
    """Return the recode as plain data and as a value; None where the rule has too few categories to merge, or all."""
    missing = {"missing": list(variable.missing_codes)} if variable.missing_codes else {}
    for share in LEAST_SHARES:
        asked = {"variable": variable.name, "merge_rare": share, **missing}
        try:
            made = prepared([asked], Path(), source, "the rule on rare categories")
        except SpecificationError:  # nothing is left, or a category is called as the merged ones are
            return None
        recode = made.recodes[0]
        counts = counted(made.of(source), [variable.name])[variable.name]
        if len(_rare(recode)) > 1 and not too_few(recode, counts):
            return made.entries[0], recode
    return None


def _rare(recode: Recode) -> set[str]:
    kind: Any = recode.kind
    return {key_of(value) for value in kind.merged}


def _of_merged(variable: Variable, recode: Recode) -> Variable:
    """Return the variable with what remains for categories; codes for "no answer" have become missing values."""
    kind: Any = recode.kind
    gone = _rare(recode) | {key_of(code) for code in variable.missing_codes}
    kept = [place for place, category in enumerate(variable.categories) if key_of(category) not in gone]
    categories = (*(key_of(variable.categories[place]) for place in kept), kind.others)
    labels = (*(variable.labels[place] for place in kept), kind.others) if variable.labels else ()
    missing = "category" if variable.missing_codes and variable.missing == "error" else variable.missing
    return dataclasses.replace(
        variable, type="string", categories=categories, labels=labels, missing_codes=(), missing=missing
    )
