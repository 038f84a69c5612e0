"""A split as plain data: one entry for each subset, its weight beside what every block has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from postrand.errors import SpecificationError, raise_all, sentence, shown
from postrand.mechanism.block_data import BLOCK_FIELDS, block_from_dict, block_to_dict, declared_size, refuse_unknown
from postrand.mechanism.split import MAX_SUBSETS, Split, Subset

_FIELDS = {"subsets"}


def split_to_dict(split: Split) -> dict[str, Any]:
    """Return plain data: ``{"subsets": [{"weight": ..., "variables": ..., ...}, ...]}``."""
    return {"subsets": [{"weight": subset.weight, **block_to_dict(subset.block)} for subset in split.subsets]}


def entries_of(data: Any) -> list[Mapping[str, Any]]:
    """Return the entries of a split's plain data; none where there is no split.

    Raises
    ------
    SpecificationError
        If they are not a list of tables, or have fields that are not known here.
    """
    if data in (None, "", [], {}):  # how files of earlier versions could say that there is none
        return []
    entries = data.get("subsets") if isinstance(data, Mapping) else None
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise SpecificationError(sentence("the split of a mechanism is not a list of subsets"))
    if not 1 <= len(entries) <= MAX_SUBSETS:
        what = "the number of subsets is too small or too large"
        raise SpecificationError(sentence(what, got=len(entries), wanted=f"1..{MAX_SUBSETS}"))
    refuse_unknown(data, _FIELDS)
    for entry in entries:
        refuse_unknown(entry, BLOCK_FIELDS | {"weight"})
    return entries


def sizes_of(entries: Iterable[Mapping[str, Any]]) -> list[int]:
    """Return the size of the dense matrix that each entry needs; raises KeyError or TypeError where it has none."""
    return [declared_size(entry["weights"]) for entry in entries]


def split_from_dict(entries: Iterable[Mapping[str, Any]]) -> Split | None:
    """Build a split from :func:`entries_of`, None where there is none; raises with the problems of all subsets."""
    subsets: list[Subset] = []
    problems: list[str] = []
    for place, entry in enumerate(entries, 1):
        try:
            subsets.append(Subset(entry["weight"], block_from_dict(entry)))
        except SpecificationError as error:
            problems += error.problems
        except (KeyError, IndexError, TypeError, ValueError, OverflowError, AttributeError) as error:
            problems.append(sentence("not a valid subset", where=f"subset {place}", got=shown(error, repr)))
    raise_all(SpecificationError, problems)
    return Split(tuple(subsets)) if subsets else None
