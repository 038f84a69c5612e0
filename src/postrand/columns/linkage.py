"""What the classes of an Anatomy release tell about one another: an attack from the two tables alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_GROUPS = 12
"""Groups of a key variable; fewer where there are few classes, so that the attack learns more than noise."""
_CLASSES_PER_CELL = 5
_CELLS = 200_000
_STEPS = 25
_LEAST = 0.002  # the least share of a value: none is excluded by an estimate


def link_rates(
    labels: NDArray[np.int64], positions: NDArray[np.float64], own: NDArray[np.int64], values: NDArray[np.int64]
) -> tuple[float, float] | None:
    """Return how often a value of another variable is guessed right from the two tables, without and with learning.

    ``labels`` and ``own`` (n,) are the classes of the rows of either table, ``positions`` (n,) numbers of one key
    variable, ``values`` (n,) codes of the other variable. Without: the most frequent value of a record's class. With:
    the share of each value by key group is learnt from all classes, and each class's own table has these shares, scaled
    to its two margins. The second is what an attacker expects of this attack, not less than the first; others may do
    better. None where there are too few classes to learn from.

    Examples
    --------
    >>> labels = np.repeat(np.arange(200), 2)
    >>> sex = np.tile([0.0, 1.0], 200)
    >>> plain, learnt = link_rates(labels, sex, labels, np.random.default_rng(1).integers(0, 2, 400))
    >>> plain <= learnt <= 1
    True
    """
    size, classes = int(values.max()) + 1, int(labels.max()) + 1
    groups = min(_GROUPS, classes // (_CLASSES_PER_CELL * size))
    if size < 2 or groups < 2:
        return None
    group = _grouped(positions, groups)
    if not group.any():
        return None
    width = int(group.max()) + 1
    every = max(-(-classes * width * size // _CELLS), 1)  # classes evenly spaced, where all would be too many
    keys, others = _counts(labels, group, classes, width)[::every], _counts(own, values, classes, size)[::every]
    total = keys.sum()
    plain = float((others.max(axis=1)).sum() / total)
    fitted = _fitted(keys, others)
    return plain, max(float(fitted.max(axis=2).sum() / total), plain)


def _fitted(keys: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the tables of all classes (L, X, Y): the shares of values by key group, scaled to each class's margins.

    On average over the links that could be drawn, a class counts ``Σ_x keys[l, x] share[x, y]`` of value y: the shares
    follow by least squares (ecological regression).
    """
    shares = np.maximum(np.linalg.lstsq(keys, others, rcond=None)[0], _LEAST)
    tables = np.where(keys[:, :, None] * others[:, None, :] > 0, shares / shares.sum(axis=1, keepdims=True), 0.0)
    for _ in range(_STEPS):
        tables *= _ratio(others, tables.sum(axis=1))[:, None, :]
        tables *= _ratio(keys, tables.sum(axis=2))[:, :, None]
    return tables


def _ratio(wanted: NDArray[np.float64], found: NDArray[np.float64]) -> NDArray[Any]:
    return np.divide(wanted, found, out=np.zeros_like(wanted), where=found > 0)


def _grouped(positions: NDArray[np.float64], groups: int) -> NDArray[np.int64]:
    """Return groups 0.. of about equally many records, equal positions together."""
    distinct, codes = np.unique(positions, return_inverse=True)
    if distinct.size <= groups:
        return np.asarray(codes, dtype=np.int64)
    cuts = np.quantile(positions, np.arange(1, groups) / groups, method="lower")
    return np.unique(np.searchsorted(cuts, positions, side="right"), return_inverse=True)[1].astype(np.int64)


def _counts(labels: NDArray[np.int64], codes: NDArray[np.int64], rows: int, columns: int) -> NDArray[np.float64]:
    return np.bincount(labels * columns + codes, minlength=rows * columns).reshape(rows, columns).astype(np.float64)
