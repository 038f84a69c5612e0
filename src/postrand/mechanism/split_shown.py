"""Which subset of a split does each released record show? What it shows says so; nothing else does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.errors import DataError, sentence
from postrand.mechanism.split import Split


def subsets_shown(codes: Mapping[str, NDArray[Any]], split: Split, sizes: Mapping[str, int]) -> NDArray[np.uint16]:
    """Return the place of the subset that each record shows, shape (n,).

    ``codes`` (n,) are released ones of every variable of the split; the code ``sizes[name]`` is "not released". Where
    one member of each household shows a subset, the others show nothing: their place is T, the number of subsets.

    Raises
    ------
    DataError
        If a record shows a set of variables that is no subset.

    Examples
    --------
    >>> from postrand.mechanism import Block
    >>> from postrand.mechanism.matrix import randomised_response
    >>> split = Split.of([0.5, 0.5], [Block((name,), randomised_response(2, 1.0)) for name in "ab"])
    >>> subsets_shown({"a": np.array([2, 0]), "b": np.array([1, 2])}, split, {"a": 2, "b": 2})
    array([1, 0], dtype=uint16)
    """
    pattern = np.zeros(len(codes[split.variables[0]]), dtype=np.uint64)
    for bit, name in enumerate(split.variables):
        shows = codes[name] != sizes[name]
        pattern |= shows.astype(np.uint64) << np.uint64(bit)
    bits = {name: 1 << bit for bit, name in enumerate(split.variables)}
    masks = np.array([sum(bits[name] for name in subset.variables) for subset in split.subsets], dtype=np.uint64)
    order = np.argsort(masks)
    ascending = masks[order]
    at = np.searchsorted(ascending, pattern).clip(max=len(masks) - 1)
    known = ascending[at] == pattern
    silent = (pattern == 0) & split.of_members
    if not (known | silent).all():
        what = "a record shows a set of variables that is no subset of the split"
        raise DataError(sentence(what, fix="use the released records with all variables of the split"))
    return np.where(silent, np.uint16(len(masks)), order.astype(np.uint16)[at])
