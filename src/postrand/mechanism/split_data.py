"""A split as plain data: one entry for each subset, its weight beside what every block has.

A split has many matrices, mostly randomised response on many cells. Such a matrix, one weight on the diagonal and one
off it, is written as these two and its size, ``{"size": K, "diagonal": d, "off": o}``; any other as in a block. Again
each matrix has one form, and the others are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from postrand.errors import SpecificationError, raise_all, sentence, shown
from postrand.mechanism.block_data import (
    BLOCK_FIELDS,
    block_from_dict,
    block_to_dict,
    declared_size,
    refuse_unknown,
    weights_to_data,
)
from postrand.mechanism.matrix import MAX_SIZE, TransitionMatrix
from postrand.mechanism.matrix_storage import Constant
from postrand.mechanism.split import MAX_SUBSETS, Split, Subset
from postrand.support.inputs import is_whole

_FIELDS = {"subsets"}
_PAIR = {"size", "diagonal", "off"}


def split_to_dict(split: Split) -> dict[str, Any]:
    """Return plain data: ``{"subsets": [{"weight": ..., "variables": ..., ...}, ...]}``."""
    return {"subsets": [_entry(subset) for subset in split.subsets]}


def _entry(subset: Subset) -> dict[str, Any]:
    pair = pair_of(subset.matrix)
    data = block_to_dict(subset.block, weights_to_data(subset.block) if pair is None else pair)
    return {"weight": subset.weight, **data}


def pair_of(matrix: TransitionMatrix) -> dict[str, int] | None:
    """Return the two weights of randomised response, and its size; None for any other matrix."""
    form = matrix.form
    if matrix.size < 2:
        return None
    if isinstance(form, Constant):
        diagonal, off = int(form.diagonal[0]), int(form.off[0])
        same = (form.diagonal == diagonal).all() and (form.off == off).all()
    else:
        diagonal, off = int(form.weights[0, 0]), int(form.weights[0, 1])
        same = (form.weights == np.where(np.eye(matrix.size, dtype=bool), diagonal, off)).all()
    return {"size": matrix.size, "diagonal": diagonal, "off": off} if same else None


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
    return [0 if _is_pair(entry["weights"]) else declared_size(entry["weights"]) for entry in entries]


def split_from_dict(entries: Iterable[Mapping[str, Any]]) -> Split | None:
    """Build a split from :func:`entries_of`, None where there is none; raises with the problems of all subsets."""
    subsets: list[Subset] = []
    problems: list[str] = []
    for place, entry in enumerate(entries, 1):
        try:
            subsets.append(_subset(entry))
        except SpecificationError as error:
            problems += error.problems
        except (KeyError, IndexError, TypeError, ValueError, OverflowError, AttributeError) as error:
            problems.append(sentence("not a valid subset", where=f"subset {place}", got=shown(error, repr)))
    raise_all(SpecificationError, problems)
    return Split(tuple(subsets)) if subsets else None


def _subset(entry: Mapping[str, Any]) -> Subset:
    weights = entry["weights"]
    matrix = _matrix_of(weights) if _is_pair(weights) else None
    subset = Subset(entry["weight"], block_from_dict(entry, matrix))
    if matrix is None and pair_of(subset.matrix) is not None:
        raise ValueError("the weights are not in the only valid form of their matrix")
    return subset


def _is_pair(weights: Any) -> bool:
    return isinstance(weights, Mapping) and "size" in weights


def _matrix_of(weights: Mapping[str, Any]) -> TransitionMatrix:
    if set(weights) != _PAIR or not all(is_whole(weights[name]) for name in _PAIR):
        raise ValueError("the weights are not a size and two whole numbers")
    size = int(weights["size"])
    if not 2 <= size <= MAX_SIZE:
        raise ValueError(f"the size of a matrix is not in 2..{MAX_SIZE}")
    return TransitionMatrix.constant(np.full(size, weights["diagonal"]), np.full(size, weights["off"]))
