"""Unperturbed columns as numbers that explain the perturbed variables: straight lines, curves, categories, products."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.estimate.evidence_clear import MISSING
from postrand.estimate.evidence_variables import ModelVariable

MOST_COLUMNS = 48
RECORDS_EACH = 50
"""A file has one column of the basis for so many records, at most."""
MOST_INDICATORS = 12
MOST_BANDS = 6
"""Bands of a number, and categories besides all others together, that copies are compared with the release in."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """Hold the basis φ (n, D): ones, then columns with mean 0 and deviation 1; ``of`` (D,) numbers their sources.

    A source is an unperturbed column (1 to C), its square, or all products together; 0 is the ones. ``left_out`` names
    the columns for which there is no room. ``bands`` (n, C) are the columns in few bands or categories.
    """

    values: Floats
    of: NDArray[np.int64]
    left_out: tuple[str, ...]
    bands: NDArray[np.int8]

    def columns(self, source: int) -> NDArray[np.intp]:
        """Return which columns of the basis an unperturbed column is itself, numbered from 0."""
        return np.flatnonzero(self.of == source + 1)


def basis_of(codes: NDArray[np.int32], variables: Sequence[ModelVariable]) -> Basis:
    """Return the basis of unperturbed columns with codes (n, C).

    First the normal scores of each number and an indicator of each category; then, as far as there are records for it,
    the scores' squares and products of two columns.
    """
    n = len(codes)
    most = min(MOST_COLUMNS, max(1, n // RECORDS_EACH))
    lines = [_line(codes[:, c], variable) for c, variable in enumerate(variables)]
    held: list[tuple[int, NDArray[np.float64]]] = []
    for c, variable in enumerate(variables):
        columns = [lines[c]] if _is_number(variable) else []
        held += [(c + 1, column) for column in (*columns, *_indicators(codes[:, c], variable))]
    left_out = tuple(dict.fromkeys(variables[c - 1].name for c, _ in held[most - 1 :]))
    curves = len(variables) + 1
    held += [(curves + c, lines[c] ** 2) for c, variable in enumerate(variables) if _is_number(variable)]
    products = 2 * len(variables) + 1
    held += [(products, a * b) for a, b in itertools.combinations(map(_centred, lines), 2)]
    kept = [(0, np.ones(n))]
    for of, column in held:
        centred = _centred(column)
        deviation = float(centred.std())
        if len(kept) < most and deviation > 1e-6:
            kept.append((of, centred / deviation))
    values = np.stack([column for _, column in kept], axis=1).astype(np.float32)
    bands = np.stack([_bands(codes[:, c], variable) for c, variable in enumerate(variables)], axis=1)
    return Basis(values, np.array([of for of, _ in kept]), left_out, bands)


def _bands(codes: NDArray[np.int32], variable: ModelVariable) -> NDArray[np.int8]:
    """Return which band of about equal size each number is in, missing ones apart; of categories the frequent ones."""
    counts = np.bincount(codes, minlength=variable.size)
    if not _is_number(variable):
        rank = np.argsort(np.argsort(-counts, kind="stable"), kind="stable")
        return np.minimum(rank, MOST_BANDS)[codes].astype(np.int8)
    missing = variable.labels[-1] == MISSING
    inside = counts[: variable.size - missing]
    middle = (np.cumsum(inside) - inside / 2) / max(int(inside.sum()), 1)
    band = np.append(np.minimum((MOST_BANDS * middle).astype(int), MOST_BANDS - 1), [MOST_BANDS] * missing)
    return np.asarray(band[codes], np.int8)


def _is_number(variable: ModelVariable) -> bool:
    return variable.kind != "categories" and variable.size > 2


def _line(codes: NDArray[np.int32], variable: ModelVariable) -> NDArray[np.float64]:
    """Return the normal score of each record's rank, 0 where it is missing; codes where they have no order.

    Where a number is normal given the true record, the logit of a category is a straight line in it, and not in ranks.
    """
    if not _is_number(variable):
        return codes.astype(np.float64) if variable.size == 2 else (codes == 0).astype(np.float64)
    share = np.bincount(codes, minlength=variable.size) / len(codes)
    missing = variable.labels[-1] == MISSING
    if missing:
        share[-1] = 0.0
    middle = (np.cumsum(share) - share / 2) / max(float(share.sum()), 1e-12)
    score = scipy.special.ndtri(np.clip(middle, 1e-6, 1 - 1e-6))
    if missing:
        score[-1] = 0.0
    return np.asarray(score[codes])


def _indicators(codes: NDArray[np.int32], variable: ModelVariable) -> list[NDArray[np.float64]]:
    """Return an indicator of each category but the most frequent one; of numbers, of the missing ones."""
    if _is_number(variable):
        return [(codes == variable.size - 1).astype(np.float64)] if variable.labels[-1] == MISSING else []
    frequent = np.argsort(-np.bincount(codes, minlength=variable.size), kind="stable")[1:MOST_INDICATORS]
    return [(codes == code).astype(np.float64) for code in frequent]


def _centred(column: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(column - column.mean())
