"""Records as the corrected equations see them: distinct cases, and on each latent axis the weights of true cells.

With M rows true and columns released and ``B = M^-1``, row ``B[r]`` holds signed weights of the true cells of a record
that was released in r: ``Σ_r M[t, r] Σ_k B[r, k] f(k) = f(t)`` for every function f. Weights over several axes are
products, and cells that differ only in variables which a formula does not name are summed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from postrand.errors import EstimationError, sentence
from postrand.estimate.axes import Array, Axis
from postrand.estimate.families import Family, Multinomial
from postrand.estimate.functionals import IDENTIFIED
from postrand.estimate.latent import Index
from postrand.estimate.regression_data import Data, codes_of, distinct, response_of
from postrand.estimate.split_axis import SplitAxis

MAX_WEIGHTS = 1 << 26
"""Released cells times true cells of one axis: 512 MB in float64."""
CHUNK = 1 << 20
"""Numbers that one step over a chunk of records may hold in one array."""


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """Hold one latent axis: ``weights`` (R, X) of its true cells, for each released cell.

    ``cells`` (N,) are the cases' released cells; ``codes`` (X, J) the codes of ``names``, the covariates that the axis
    shows. ``response`` (R, X, m) has the response multiplied in, where it is on this axis. ``pick`` (R,) is the true
    cell that looks like the released one, ``outcome`` (R, m) the response there, and ``answered`` (R,) is 0 where it
    means no answer, or a covariate is left out, of which true cells have no weight. ``axis`` is its place among the
    latent axes; ``exact`` tells whether M was inverted.
    """

    axis: int
    names: tuple[str, ...]
    cells: Index
    codes: Index
    weights: Array
    response: Array | None
    pick: Index
    outcome: Array | None
    answered: Array
    exact: bool

    @property
    def size(self) -> int:
        """The number X of true cells."""
        return len(self.codes)

    def naive(self) -> Factor:
        """Return the same with released cells taken for true ones."""
        unit = np.eye(self.size)[self.pick] * self.answered[:, None]
        response = None if self.outcome is None else unit[:, :, None] * self.outcome[:, None, :]
        return replace(self, weights=unit, response=response)


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Hold the distinct cases: each stands for ``count`` records of one ``weight``; weights have mean 1.

    ``first`` (N,) is a record of each case, ``number`` (n,) the case of each record, ``rows`` the records with distinct
    clear covariates and ``row`` (N,) the place of each case among them, ascending; ``response`` (N, m) is None where it
    is latent.
    """

    family: Family
    factors: tuple[Factor, ...]
    response: Array | None
    first: Index
    number: Index
    row: Index
    rows: Index
    count: Array
    weight: Array
    stratum: Index

    def weights(self, chosen: Sequence[int], part: slice) -> Array:
        """Return the weights of the true cells of some factors, shape (c, X), in C order of their cells."""
        out = np.ones((len(self.count[part]), 1))
        for f in (self.factors[i] for i in chosen):
            out = (out[:, :, None] * f.weights[f.cells[part]][:, None, :]).reshape(len(out), -1)
        return out

    def outcomes(self, chosen: Sequence[int], part: slice) -> Array:
        """Return the same weights times the response, shape (c, X, m)."""
        if self.response is not None:
            return np.asarray(self.weights(chosen, part)[:, :, None] * self.response[part][:, None, :])
        at, held = next((i, f.response[f.cells[part]]) for i, f in enumerate(self.factors) if f.response is not None)
        if at not in chosen:
            return np.asarray(self.weights(chosen, part)[:, :, None] * held.sum(axis=1)[:, None, :])
        before = self.weights([i for i in chosen if i < at], part)
        after = self.weights([i for i in chosen if i > at], part)
        out = before[:, :, None, None, None] * held[:, None, :, None, :] * after[:, None, None, :, None]
        return out.reshape(len(held), -1, held.shape[-1])

    def answering(self) -> Array:
        """Return the weight with which each case answers the response, shape (N,): 1 where it is not perturbed."""
        held = next((f for f in self.factors if f.response is not None), None)
        return np.ones(len(self.count)) if held is None else held.weights.sum(axis=1)[held.cells]

    def parts(self, width: int) -> Iterator[slice]:
        """Yield slices of the cases, so that ``width`` numbers for each case stay within a chunk."""
        step = max(1, CHUNK // max(1, width))
        return (slice(i, i + step) for i in range(0, len(self.count), step))

    def naive(self) -> Records:
        """Return the same with released cells taken for true ones."""
        return replace(self, factors=tuple(f.naive() for f in self.factors))


def records_of(data: Data) -> Records:
    """Return the distinct cases of the records.

    Raises
    ------
    DataError
        If the response does not fit the family.
    EstimationError
        If an axis has too many cells.
    """
    n = data.table.num_rows
    clear = [name for name in data.names if name != data.response and name not in data.latent]
    latent = data.response in data.latent
    codes = np.arange(data.book[data.response].size) if latent and data.book is not None else None
    family, values = response_of(data, codes)
    row_of, rows = distinct([codes_of(data, name) for name in clear], n)
    weight = data.weights * data.combination
    weight = weight / weight.mean()
    parts = [row_of, *data.cells, *([] if latent else [values]), weight, data.strata]
    number, first = distinct(parts, n)
    outcome = _spread(family, values)
    return Records(
        family=family,
        factors=tuple(_factor(data, i, first, outcome if latent else None) for i in range(len(data.axes))),
        response=None if latent else outcome[first],
        first=first,
        number=number,
        row=row_of[first],
        rows=rows,
        count=np.bincount(number).astype(np.float64),
        weight=weight[first],
        stratum=data.strata[first],
    )


def check_identified(data: Data, factor: Factor, functions: Array, outcomes: Array) -> None:
    """Raise EstimationError where a singular matrix does not identify the functions of its axis that are needed.

    ``functions`` (X, f) are needed by themselves, ``outcomes`` (X, g) times the response.
    """
    matrix = data.axes[factor.axis].matrix
    if factor.exact or matrix is None:
        return
    needed = functions[factor.pick] * factor.answered[:, None]
    if factor.outcome is not None:
        held = outcomes[factor.pick]
        needed = np.concatenate([needed, *(held * column[:, None] for column in factor.outcome.T)], axis=1)
    solved = np.linalg.pinv(matrix.array, rcond=1e-12) @ needed
    if np.abs(matrix.times(solved) - needed).max() > IDENTIFIED * max(1.0, float(np.abs(needed).max())):
        raise EstimationError(
            sentence(
                "the regression is not identified: it needs categories that a singular transition matrix merges",
                where="*".join(data.axes[factor.axis].names),
                fix="merge these categories, or leave the variable out",
            )
        )


def _factor(data: Data, at: int, first: Index, outcome: Array | None) -> Factor:
    axis = data.axes[at]
    wanted = [n for n in data.names if n in axis.names and data.home(n) == at]
    names = tuple(n for n in wanted if n != data.response)
    true = axis.cells[:, [axis.names.index(n) for n in names]].astype(np.intp)
    codes, place = np.unique(true, axis=0, return_inverse=True) if names else (true[:1], np.zeros(len(true), np.intp))
    place = place.ravel().astype(np.intp)
    own = None
    if outcome is not None and data.response in wanted:
        responses = axis.cells[:, axis.names.index(data.response)]
        own = outcome[responses]
    width = len(codes) * (1 + (0 if own is None else own.shape[1]))
    if axis.size * width > MAX_WEIGHTS:
        what = "a block has too many categories for a regression"
        raise EstimationError(sentence(what, where="*".join(axis.names), got=axis.size, fix="merge categories"))
    answered = _counted(data, axis, names)
    if own is not None:
        answered *= data.answers[responses]
    unit = (place[:, None] == np.arange(len(codes))) * answered[:, None]
    wide = unit if own is None else np.concatenate([unit, *(unit * own[:, [c]] for c in range(own.shape[1]))], axis=1)
    solved, exact = _solved(data, at, wide)
    is_one = not names and bool(answered.all())
    weights = np.ones((axis.size, 1)) if is_one else solved[:, : len(codes)]  # rows of B sum to one
    response = None
    if own is not None:
        response = solved[:, len(codes) :].reshape(axis.size, own.shape[1], len(codes)).transpose(0, 2, 1)
    seen = None if own is None else own[axis.looks]
    looks = axis.looks
    return Factor(
        at, names, data.cells[at][first], codes, weights, response, place[looks], seen, answered[looks], exact
    )


def _counted(data: Data, axis: Axis, names: Sequence[str]) -> Array:
    """Return 1 for each true cell of an axis, 0 where a covariate is a category whose records are left out."""
    absent = [np.isin(axis.cells[:, axis.names.index(name)], data.absent.get(name, ())) for name in names]
    return np.where(np.any(absent, axis=0), 0.0, np.ones(len(axis.cells)))


def _solved(data: Data, at: int, functions: Array) -> tuple[Array, bool]:
    """Return ``B F`` with ``M B F = F``, and whether M was inverted; else by the pseudo-inverse."""
    matrix = data.axes[at].matrix
    if matrix is None:
        return functions, True
    if isinstance(data.axes[at], SplitAxis):
        data.axes[at].unbiased()  # refuses where a matrix of a subset is singular
    try:
        return matrix.factor().solve(functions), True
    except EstimationError:
        return np.asarray(np.linalg.pinv(matrix.array, rcond=1e-12) @ functions), False


def _spread(family: Family, values: Array) -> Array:
    """Return the response with one column for each linear predictor: an indicator for a multinomial one."""
    if isinstance(family, Multinomial):
        return np.asarray(values[:, None] == np.arange(1, family.categories), dtype=np.float64)
    return np.asarray(values, dtype=np.float64)[:, None]


def cells_of(records: Records, chosen: Sequence[int]) -> tuple[int, dict[str, Index]]:
    """Return the number of true cells of some factors, and the code of each of their covariates in each."""
    shape = tuple(records.factors[i].size for i in chosen)
    size = math.prod(shape)
    index = np.unravel_index(np.arange(size), shape) if chosen else ()
    codes: dict[str, Index] = {}
    for i, cell in zip(chosen, index, strict=True):
        f = records.factors[i]
        codes |= {name: f.codes[cell, j] for j, name in enumerate(f.names)}
    return size, codes
