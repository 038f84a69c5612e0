"""An attack on an Anatomy release that uses all its classes together, from the two tables only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_GROUPS = 12
"""Groups of a key variable; fewer if there are few classes, so that the attack learns more than noise."""
_CLASSES_PER_CELL = 5
_CELLS = 200_000
_STEPS = 25
_LEAST = 0.002  # the smallest share of a value: an estimate excludes no value


def link_rates(
    labels: NDArray[np.int64], positions: NDArray[np.float64], own: NDArray[np.int64], values: NDArray[np.int64]
) -> tuple[float, float] | None:
    """Return the rates of correct guesses of another variable from the two tables, without and with learning.

    ``labels`` and ``own`` (n,) are the classes of the rows of either table, ``positions`` (n,) numbers of one key
    variable, ``values`` (n,) codes of the other variable. Without: the most frequent value of a record's class. With:
    the share of each value by key group is learnt from all classes, and each class's own table has these shares, scaled
    to its two margins. The second is the rate that an attacker expects from this attack, at least the first; others
    can be better. None if there are too few classes to learn from.

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
    every = max(-(-classes * width * size // _CELLS), 1)  # evenly spaced classes if all would be too many
    keys, others = _counts(labels, group, classes, width)[::every], _counts(own, values, classes, size)[::every]
    total = keys.sum()
    plain = float((others.max(axis=1)).sum() / total)
    fitted = _fitted(keys, others)
    return plain, max(float(fitted.max(axis=2).sum() / total), plain)


def _fitted(keys: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the tables of all classes (L, X, Y): the shares of values by key group, scaled to each class's margins.

    On average over all possible links, a class has ``Σ_x keys[l, x] share[x, y]`` records with value y: the shares
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
