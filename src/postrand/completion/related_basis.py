"""Unperturbed columns as numbers that explain the perturbed variables: lines, categories, curves, codes, products."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.completion.related_codes import Codes, Likelihoods, telling
from postrand.estimate.evidence_clear import MISSING
from postrand.estimate.evidence_variables import ModelVariable

MOST_COLUMNS = 48
RECORDS_EACH = 50
"""A file has one column of the basis for so many records, at most; a further code has an indicator for so many."""
MOST_INDICATORS = 12
"""Categories of an unperturbed column whose indicators come before squares, one of them by default."""
MOST_BANDS = 6
"""Bands of a number, and categories besides all others together, that copies are compared with the release in."""

Array = NDArray[np.float64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """Hold the basis φ (n, D): ones, then columns with mean 0 and deviation 1; ``of`` (D,) numbers their sources.

    A source is an unperturbed column (1 to C), its square (from C + 1), all products together (2C + 1), or further
    codes of a column (from 2C + 2); 0 is the ones. ``left_out`` names the columns for which there is no room.
    ``bands`` (n, C) are the columns in few bands or categories.
    """

    values: Floats
    of: NDArray[np.int64]
    left_out: tuple[str, ...]
    bands: NDArray[np.int8]

    def columns(self, source: int) -> NDArray[np.intp]:
        """Return which columns of the basis an unperturbed column is itself, numbered from 0."""
        return np.flatnonzero(self.of == source + 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Own:
    """Hold numbers of each code of one column (K,): its line, its square if it is a number, indicators of categories.

    ``further`` are codes that an indicator may be added for.
    """

    line: Array
    square: list[Array]
    indicators: list[Array]
    further: NDArray[np.intp]

    @classmethod
    def of(cls, codes: NDArray[np.int32], variable: ModelVariable) -> _Own:
        """Return those of one column."""
        counts = np.bincount(codes, minlength=variable.size)
        line, each = _line(counts, variable), np.arange(variable.size)
        ranked = np.argsort(-counts, kind="stable")
        many = ranked[counts[ranked] >= RECORDS_EACH]
        if not _is_number(variable):
            indicators = [(each == code).astype(np.float64) for code in ranked[1:MOST_INDICATORS]]
            return cls(line, [], indicators, np.setdiff1d(many, ranked[:MOST_INDICATORS]))
        missing = [(each == each[-1]).astype(np.float64)] if variable.labels[-1] == MISSING else []
        further = many[many < variable.size - len(missing)] if variable.distinct else many[:0]
        return cls(line, [line**2], missing, np.sort(further))

    @property
    def itself(self) -> list[Array]:
        """The column itself, beside its square."""
        return [*([self.line] if self.square else []), *self.indicators]


def basis_of(codes: NDArray[np.int32], variables: Sequence[ModelVariable], likelihoods: Likelihoods = ()) -> Basis:
    """Return the basis of unperturbed columns with codes (n, C).

    It has, as far as there are records for it, first what loses most when it is left out: the normal score of each
    number; indicators of the frequent categories; squares of the scores; indicators of further categories, and of the
    values of a number that has few, where the release says that they matter (:mod:`.related_codes`); products of two
    columns. ``likelihoods`` (n, S_j) are P(what is released of the record | category) of each perturbed variable.
    """
    n = len(codes)
    most = min(MOST_COLUMNS, max(1, n // RECORDS_EACH))
    own = [_Own.of(codes[:, c], variable) for c, variable in enumerate(variables)]
    sources = [c for c, one in enumerate(own) if one.square] + [c for c, one in enumerate(own) for _ in one.indicators]
    lost = set(sources[most - 1 :])
    values, of = _standardised(_ordered(codes, own, likelihoods), n, most)
    bands = np.stack([_bands(codes[:, c], variable) for c, variable in enumerate(variables)], axis=1)
    return Basis(values, of, tuple(v.name for c, v in enumerate(variables) if c in lost), bands)


def _ordered(codes: NDArray[np.int32], own: Sequence[_Own], likelihoods: Likelihoods) -> Iterator[tuple[int, Array]]:
    """Yield each column that the basis can have, (n,), after its source; what matters most comes first."""
    many = len(own)
    for c, one in enumerate(own):
        yield from ((c + 1, line[codes[:, c]]) for line in one.itself[: len(one.square)])
    for c, one in enumerate(own):
        yield from ((c + 1, column[codes[:, c]]) for column in one.indicators)
    for c, one in enumerate(own):
        yield from ((many + 1 + c, square[codes[:, c]]) for square in one.square)
    asked = [c for c, one in enumerate(own) if one.further.size]
    told = [Codes(codes[:, c], np.stack([*own[c].itself, *own[c].square], axis=1), own[c].further) for c in asked]
    for place, code in telling(told, likelihoods):
        yield 2 * many + 2 + asked[place], (codes[:, asked[place]] == code).astype(np.float64)
    for a, b in itertools.combinations(range(many), 2):
        yield 2 * many + 1, _centred(own[a].line[codes[:, a]]) * _centred(own[b].line[codes[:, b]])


def _standardised(columns: Iterator[tuple[int, Array]], n: int, most: int) -> tuple[Floats, NDArray[np.int64]]:
    """Return ones and the first columns with mean 0 and deviation 1, (n, D), and their sources; none that is constant.

    Columns are made one at a time, and none that there is no room for: of a large file all would be too many.
    """
    values, of = np.ones((n, most), np.float32), [0]
    while len(of) < most and (found := next(columns, None)) is not None:
        centred = _centred(found[1])
        deviation = float(centred.std())
        if deviation > 1e-6:
            values[:, len(of)] = centred / deviation
            of.append(found[0])
    return np.ascontiguousarray(values[:, : len(of)]), np.array(of)


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


def _line(counts: NDArray[np.int64], variable: ModelVariable) -> Array:
    """Return the normal score of each code's rank, 0 where it is missing; the code itself where they have no order.

    Where a number is normal given the true record, the logit of a category is a straight line in it, and not in ranks.
    """
    each = np.arange(variable.size)
    if not _is_number(variable):
        return each.astype(np.float64) if variable.size == 2 else (each == 0).astype(np.float64)
    share = counts / counts.sum()
    missing = variable.labels[-1] == MISSING
    if missing:
        share[-1] = 0.0
    middle = (np.cumsum(share) - share / 2) / max(float(share.sum()), 1e-12)
    score = scipy.special.ndtri(np.clip(middle, 1e-6, 1 - 1e-6))
    if missing:
        score[-1] = 0.0
    return np.asarray(score, np.float64)


def _centred(column: Array) -> Array:
    return np.asarray(column - column.mean())
