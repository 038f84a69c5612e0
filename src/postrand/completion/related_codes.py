"""Codes of unperturbed columns that say more of perturbed variables than the columns' lines do, the clearest first.

A number with few values may be a code of places, occupations or offices: what it says is then no line and no curve.
Of every released record the score of a category, ``P(x | released) - P(x)``, is summed over the records of each code.
What a weighted regression of the sums on the column's own numbers leaves has, where codes say no more than these, the
variance that the scores have over records: its square is a score test of the code's indicator in the logit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.completion.related_fit import given

Array = NDArray[np.float64]
Likelihoods = Sequence[NDArray[np.float32]]
CLEAR = 1.5
"""The codes of a column count where their statistics together are so many deviations above their mean."""
MARGINS = 20
"""Steps of EM to the margin of a variable."""


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """Hold an unperturbed column's ``codes`` (n,), and the numbers ``held`` (K, k) of each code that are there already.

    ``further`` are the codes that are asked about.
    """

    codes: NDArray[np.int32]
    held: Array
    further: NDArray[np.intp]


def telling(columns: Sequence[Codes], likelihoods: Likelihoods) -> list[tuple[int, int]]:
    """Return places of columns, with codes that say more than what is there: by their statistic, the largest first.

    ``likelihoods`` (n, S_j) are P(what is released of the record | category) of each perturbed variable.
    """
    designs = [_design(column) for column in columns]
    statistics, free = [np.zeros(len(column.held)) for column in columns], 0
    for likelihood in likelihoods if columns else ():
        scores = _scores(likelihood)
        free += scores.shape[1]
        for column, (counts, projection, left), found in zip(columns, designs, statistics, strict=True):
            sums = np.stack([np.bincount(column.codes, one, len(counts)) for one in scores.T], axis=1)
            found += ((sums - counts[:, None] * (projection @ sums)) ** 2).sum(axis=1) / left
    told: list[tuple[float, int, int]] = []
    for place, (column, found) in enumerate(zip(columns, statistics, strict=True)):
        each, of = found[column.further], free * len(column.further)
        if each.sum() > of + CLEAR * np.sqrt(2 * of):
            told += [(-found[code], place, int(code)) for code in column.further if found[code] > free]
    return [(place, code) for _, place, code in sorted(told)]


def _design(column: Codes) -> tuple[NDArray[np.int64], Array, Array]:
    """Return the records of each code, what a regression on its numbers makes of sums (K, K), and the variance left.

    A code that its numbers know by themselves has nothing left, and no statistic: its variance counts as infinite.
    """
    counts = np.bincount(column.codes, minlength=len(column.held))
    x = np.column_stack([np.ones(len(counts)), column.held])
    projection = x @ np.linalg.pinv((x.T * counts) @ x, rcond=1e-10, hermitian=True) @ x.T
    left = counts * (1 - counts * np.diagonal(projection))
    return counts, projection, np.where(left > 1e-6 * np.maximum(counts, 1), left, np.inf)


def _scores(likelihood: NDArray[np.float32]) -> Array:
    """Return the scores of a variable's categories (n, at most S - 1), with mean 0 and as covariance the identity."""
    margin = np.full((1, likelihood.shape[1]), 1 / likelihood.shape[1])
    for _ in range(MARGINS):
        margin = given(margin, likelihood).mean(axis=0, keepdims=True)
    scores = given(margin, likelihood) - margin
    scores -= scores.mean(axis=0)
    values, vectors = np.linalg.eigh(scores.T @ scores / len(scores))
    kept = values > 1e-8
    return np.asarray(scores @ (vectors[:, kept] / np.sqrt(values[kept])))
