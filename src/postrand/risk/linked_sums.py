"""Sums among columns: which number is the sum of others, with signs, and which is a count or sum of dummies."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Codes = NDArray[np.int8]
SHARE = 0.99
"""A sum of two holds in this share of the records at least; one of more than two in all."""
MAX_COLUMNS = 40
MAX_TERMS = 12
MAX_DUMMIES = 64
MAX_WHOLE = 9
"""The largest whole number by which a dummy is multiplied in a sum of dummies."""
_LEAST_RECORDS, _FITTED, _OF_ONES = 50, 4_000, 20
_PRESENT = 0.99
_SCREEN = 200
_ROUNDING = 1e-9


def sums(columns: Mapping[str, NDArray[np.float64]]) -> dict[str, dict[str, int]]:
    """Return each column that is a sum or difference of others, with their signs; NaN is missing.

    Sums of two are tried one by one. Longer ones are found by least squares: what the other columns explain without a
    rest, with coefficients of 1 and −1, is a sum. A column is in one sum only, as the result if that has plus signs
    alone.

    >>> a, b = np.arange(20.0) % 7, np.arange(20.0) % 5
    >>> sums({"a": a, "b": b, "both": a + b})
    {'both': {'a': 1, 'b': 1}}
    """
    names = list(columns)[:MAX_COLUMNS]
    if len(names) < 3:
        return {}
    held = np.stack([columns[name] for name in names])
    found: dict[str, dict[str, int]] = {}
    used: set[int] = set()
    for target, terms in (*_of_two(held), *_of_more(held)):
        members = {target, *terms}
        if not used & members:
            used |= members
            found[names[target]] = {names[j]: sign for j, sign in terms.items()}
    return found


def _of_two(held: NDArray[np.float64]) -> list[tuple[int, dict[int, int]]]:
    part = held[:, :_SCREEN]
    found = []
    for a, b in itertools.combinations(range(len(held)), 2):
        near = _share(part, part[a] + part[b]) >= SHARE - 0.05
        for target in np.flatnonzero(near):
            moves = all((np.nan_to_num(held[j]) != 0).mean() > 1 - SHARE for j in (a, b))
            if target not in (a, b) and moves and _share(held[[target]], held[a] + held[b])[0] >= SHARE:
                found.append((int(target), {a: 1, b: 1}))
    return found


def _share(columns: NDArray[np.float64], total: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return in which share of the records with values each column is the total; 0 where most have none."""
    there = np.isfinite(columns) & np.isfinite(total)
    same = np.abs(columns - total) <= _ROUNDING * np.maximum(1.0, np.abs(total))
    enough = there.sum(axis=1) * 2 >= columns.shape[1]
    return np.where(enough, (same & there).sum(axis=1) / np.maximum(there.sum(axis=1), 1), 0.0)


def _of_more(held: NDArray[np.float64]) -> list[tuple[int, dict[int, int]]]:
    """Return the sums of three or more, one for each column that the others explain without a rest."""
    whole = held[:, np.isfinite(held).all(axis=0)]
    if whole.shape[1] < 5 * len(held) or whole.shape[1] * 2 < held.shape[1]:
        return []
    found = []
    for target in range(len(whole)):
        others = np.delete(np.arange(len(whole)), target)
        scale = np.abs(whole).max(axis=1) + 1.0
        design = (whole[others] / scale[others, None]).T
        moments = design.T @ design
        weights = np.linalg.lstsq(moments, design.T @ whole[target], rcond=1e-13)[0] / scale[others]
        signs = np.rint(weights).astype(np.int64)
        terms = {int(j): int(s) for j, s in zip(others, signs, strict=True) if s}
        plain = 3 <= len(terms) <= MAX_TERMS and set(terms.values()) <= {1, -1}
        if plain and _share(held[[target]], sum(s * held[j] for j, s in terms.items()))[0] == 1.0:
            found.append((target, terms))
    return sorted(found, key=lambda entry: min(entry[1].values()) < 0)


def counts(targets: Mapping[str, NDArray[np.float64]], dummies: Mapping[str, Ints]) -> dict[str, dict[str, int]]:
    """Return each number that is ``c + sum_j k_j d_j`` of dummies, exactly, with the whole numbers ``k_j``.

    NaN, and -1 in the codes 0 and 1 of a dummy, are missing. Least squares on a part of the records, in which all rare
    dummies occur, propose whole numbers; the sum must then hold in all records that have its columns.

    >>> a, b, c = (np.arange(120) // 2**j % 2 for j in range(3))
    >>> counts({"many": a + b + c + 0.0}, {"a": a, "b": b, "c": c})
    {'many': {'a': 1, 'b': 1, 'c': 1}}
    """
    names = list(dummies)[:MAX_DUMMIES]
    if len(names) < 2:
        return {}
    codes = np.array([dummies[name] for name in names], dtype=np.int8)
    present = codes >= 0
    found = {}
    for target, values in list(targets.items())[:MAX_COLUMNS]:
        asked = np.isfinite(values)
        if asked.sum() < _LEAST_RECORDS or (values[asked] != np.rint(values[asked])).any():
            continue
        beside = np.flatnonzero(np.count_nonzero(present & asked, axis=1) >= _PRESENT * asked.sum())
        there = np.flatnonzero(asked & present[beside].all(axis=0))
        if beside.size < 2 or there.size < max(_LEAST_RECORDS, 5 * beside.size):
            continue
        if terms := _whole_sum(values, codes, beside, there):
            found[target] = {names[j]: k for j, k in sorted(terms.items())}
    return found


def _whole_sum(values: NDArray[np.float64], codes: Codes, beside: Ints, there: Ints) -> dict[int, int]:
    """Return which of the dummies ``beside`` make the target in all records; {} where none do.

    ``there`` are the records that have all of them. A few of these rule out nearly every number that is no sum.
    """
    few = _spread(there, max(_SCREEN, 5 * beside.size))
    design, moved = _design(codes, beside, few), values[few] - values[few[0]]
    rest = moved - design @ np.linalg.lstsq(design, moved, rcond=None)[0]
    if np.abs(rest).max() > 1e-6 * (1 + np.abs(moved).max()):
        return {}
    part = _spread(there, _FITTED)
    rare = beside[(codes[np.ix_(beside, part)] == 1).sum(axis=1) < _OF_ONES]
    ones = [there[codes[j, there] == 1][:_OF_ONES] for j in rare]
    part = np.unique(np.concatenate([part, *ones]))
    sums_ = []
    # Which of dependent dummies is left out depends on their order: of two sums the shorter one is said.
    for order in (beside, beside[::-1]):
        terms, is_only = _fitted(values[part], _design(codes, order, part), order)
        if terms and _holds(values, codes, terms):
            sums_.append(terms)
        if is_only:
            break
    return min(sums_, key=len, default={})


def _spread(there: Ints, many: int) -> Ints:
    """Return about so many of these records, from the first to the last."""
    return there[:: -(-there.size // many)]


def _design(codes: Codes, order: Ints, part: Ints) -> NDArray[np.float64]:
    return np.vstack([np.ones(part.size), codes[np.ix_(order, part)]]).T


def _fitted(values: NDArray[np.float64], design: NDArray[np.float64], order: Ints) -> tuple[dict[int, int], bool]:
    """Return the dummies and whole numbers that least squares propose, and whether no others fit as well."""
    sizes = np.abs(np.diag(np.linalg.qr(design, mode="r")))
    free = np.flatnonzero(sizes > _ROUNDING * len(design))  # those that do not follow from columns before them
    weights = np.linalg.lstsq(design[:, free], values, rcond=None)[0]
    whole = np.rint(weights).astype(np.int64)
    terms = {int(order[j - 1]): int(k) for j, k in zip(free, whole, strict=True) if j and k}
    plain = np.abs(weights - whole).max() <= 1e-6 and len(terms) >= 2 and max(map(abs, terms.values())) <= MAX_WHOLE
    return terms if plain else {}, free.size == design.shape[1]


def _holds(values: NDArray[np.float64], codes: Codes, terms: Mapping[int, int]) -> bool:
    """Whether the sum is the target, up to a constant, in all records that have its columns."""
    asked = np.flatnonzero(np.isfinite(values) & (codes[list(terms)] >= 0).all(axis=0))
    rest = values[asked] - np.array(list(terms.values())) @ codes[list(terms)][:, asked]
    return bool((rest == rest[0]).all())
