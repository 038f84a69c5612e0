"""The corrected normal equations of linear regression, factor by factor.

``G θ = S`` with ``G = Σ_i w_i Σ_x B[r_i, x] d d'`` and ``S = Σ_i w_i Σ_x B[r_i, x] d y``. A column of the design
depends on
the latent axes and clear variables of its own term, and weights over several axes are products: so the entry of two
terms
that share no axis is a product of two corrected columns, and one of two that do needs the cells of their axes alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from postrand.errors import EstimationError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.latent import Index
from postrand.estimate.regression_data import Data, codes_of, design_on, distinct, model_of
from postrand.estimate.regression_moments import Records, cells_of, check_identified
from postrand.estimate.regression_terms import terms_of

MAX_UNION = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Hold the columns that share latent ``factors`` and clear variables: ``design`` (V, X, p), ``row`` (N,) in it."""

    columns: Index
    factors: tuple[int, ...]
    row: Index
    design: Array

    def rows(self, part: slice, place: Index) -> Array:
        """Return the columns for a chunk of cases over cells numbered ``place``, (c, X, p); (1, X, p) if all agree."""
        if len(self.design) == 1:
            return self.design[:, place]
        return self.design[np.ix_(self.row[part], place)]


@dataclass(frozen=True, slots=True, eq=False)
class Normal:
    """Hold the normal equations ``gram`` (P, P) and ``moment`` (P,), and ``mean`` and ``fixed`` (N, P) of each case.

    ``mean`` are the corrected columns, ``fixed`` the corrected columns times the response.
    """

    records: Records
    groups: tuple[Group, ...]
    mean: Array
    fixed: Array
    gram: Array
    moment: Array

    @property
    def parameters(self) -> int:
        """The number P of coefficients."""
        return len(self.moment)

    def total(self, theta: Array, convex: bool = False) -> tuple[Array, Array]:
        """Return the equation U (P,) and its negative Jacobian, the same at every θ."""
        return self.moment - self.gram @ theta, self.gram

    def each(self, theta: Array, directions: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Yield each case's part of U, (c, P), and of ``t'Gt`` for the columns t of ``directions``, (c, q)."""
        width = directions.shape[1]
        largest = max(math.prod(self.records.factors[i].size for i in g.factors) for g in self.groups)
        for part in self.records.parts(max(1, largest) * max(width, 8)):
            mean = self.mean[part]
            pull = self.fixed[part].copy()
            bent = np.zeros((len(mean), width))
            for g, h in itertools.combinations_with_replacement(self.groups, 2):
                twice = 1.0 if g is h else 2.0
                if not set(g.factors) & set(h.factors):
                    left, right = mean[:, g.columns], mean[:, h.columns]
                    bent += twice * (left @ directions[g.columns]) * (right @ directions[h.columns])
                    pull[:, g.columns] -= left * (right @ theta[h.columns])[:, None]
                    if g is not h:
                        pull[:, h.columns] -= right * (left @ theta[g.columns])[:, None]
                    continue
                chosen, here, there = _union(self.records, g, h)
                weights = self.records.weights(chosen, part)
                left, right = g.rows(part, here), h.rows(part, there)
                bent += twice * _mixed(weights, (left @ directions[g.columns]) * (right @ directions[h.columns]))
                pull[:, g.columns] -= _mixed(weights, left * (right @ theta[h.columns])[..., None])
                if g is not h:
                    pull[:, h.columns] -= _mixed(weights, right * (left @ theta[g.columns])[..., None])
            yield part, pull, bent


def normal_of(data: Data, records: Records) -> tuple[Normal, tuple[str, ...]]:
    """Return the corrected normal equations, and the names of the design's columns.

    Raises
    ------
    EstimationError
        If one term has too many cells, or a singular matrix does not identify the moments that are needed.
    """
    spec = model_of(data)
    names = terms_of(spec, data.names, data.book)
    groups = groups_of(data, records, spec)
    for i in range(len(records.factors)):
        _check(data, records, groups, i)
    size = len(names)
    mean, fixed = np.empty((len(records.count), size)), np.empty((len(records.count), size))
    gram = np.zeros((size, size))
    for g in groups:
        everywhere = np.arange(g.design.shape[1])
        for part in records.parts(g.design.shape[1] * len(g.columns)):
            rows = g.rows(part, everywhere)
            mean[part, g.columns] = _mixed(records.weights(g.factors, part), rows)
            fixed[part, g.columns] = _mixed(records.outcomes(g.factors, part)[:, :, 0], rows)
    weight = records.count * records.weight
    for g, h in itertools.combinations_with_replacement(groups, 2):
        block = _block(records, g, h, mean, weight)
        gram[np.ix_(g.columns, h.columns)] = block
        gram[np.ix_(h.columns, g.columns)] = block.T
    return Normal(records, groups, mean, fixed, gram, weight @ fixed), names


def groups_of(data: Data, records: Records, spec: Any) -> tuple[Group, ...]:
    """Return the columns of a design by the latent axes and unperturbed variables of their terms."""
    return tuple(_groups(data, records, spec))


def place_of(records: Records, chosen: Sequence[int], factors: Sequence[int]) -> Index:
    """Return the cell over some ``factors`` of each cell over all ``chosen`` ones, in C order."""
    shape = tuple(records.factors[i].size for i in chosen)
    index = dict(zip(chosen, np.unravel_index(np.arange(math.prod(shape)), shape), strict=True)) if chosen else {}
    sizes = tuple(records.factors[i].size for i in factors)
    if not factors:
        return np.zeros(math.prod(shape), dtype=np.intp)
    return np.ravel_multi_index([index[i] for i in factors], sizes).astype(np.intp)


def _groups(data: Data, records: Records, spec: Any) -> Iterator[Group]:
    covariates = {n for n in data.names if n != data.response}
    held: dict[tuple[tuple[int, ...], tuple[str, ...]], list[int]] = {}
    for term, columns in spec.term_indices.items():
        used = {str(v) for v in spec.term_variables[term]} & covariates
        axes = {data.home(n) for n in used & data.latent}
        factors = tuple(i for i, f in enumerate(records.factors) if f.axis in axes)
        held.setdefault((factors, tuple(sorted(used - data.latent))), []).extend(columns)
    for (factors, clear), columns in held.items():
        size, known = cells_of(records, factors)
        _check_size(size)
        codes = {name: known.get(name, np.zeros(size, dtype=np.intp)) for name in data.latent}
        row_of, rows = distinct([codes_of(data, n) for n in clear], data.table.num_rows)
        at = np.array(columns, dtype=np.intp)
        yield Group(at, factors, row_of[records.first], design_on(data, spec, rows, codes, size)[:, :, at])


def _check_size(size: int) -> None:
    if size > MAX_UNION:
        what, fix = "a term has too many perturbed cells", "merge categories, or use fewer interactions"
        raise EstimationError(sentence(what, got=size, wanted=f"<= {MAX_UNION}", fix=fix))


def _union(records: Records, g: Group, h: Group) -> tuple[tuple[int, ...], Index, Index]:
    """Return the factors of two groups, and the cell of each group in every cell of them."""
    chosen = tuple(sorted({*g.factors, *h.factors}))
    _check_size(math.prod(records.factors[i].size for i in chosen))
    return chosen, place_of(records, chosen, g.factors), place_of(records, chosen, h.factors)


def _block(records: Records, g: Group, h: Group, mean: Array, weight: Array) -> Array:
    if not set(g.factors) & set(h.factors):
        return np.asarray(mean[:, g.columns].T @ (weight[:, None] * mean[:, h.columns]))
    chosen, here, there = _union(records, g, h)
    alike = len(g.design) == len(h.design) == 1
    block = np.zeros((len(g.columns), len(h.columns)))
    table = np.zeros(len(here))
    for part in records.parts(len(here) * (1 if alike else max(block.shape))):
        weights = records.weights(chosen, part) * weight[part, None]
        if alike:
            table += weights.sum(axis=0)
            continue
        block += _outer(weights, g.rows(part, here), h.rows(part, there))
    return g.design[0, here].T @ (table[:, None] * h.design[0, there]) if alike else block


def _outer(weights: Array, left: Array, right: Array) -> Array:
    """Return ``Σ_cx weights[c, x] left[c, x] right[c, x]'``; a first axis of 1 stands for all cases."""
    c, x = weights.shape
    one = np.broadcast_to(left, (c, x, left.shape[2])).reshape(c * x, -1)
    two = np.broadcast_to(right, (c, x, right.shape[2])).reshape(c * x, -1)
    return np.asarray(one.T @ (weights.reshape(-1, 1) * two))


def _mixed(weights: Array, values: Array) -> Array:
    """Return ``Σ_x weights[c, x] values[c, x]``, shape (c, q); a first axis of 1 stands for all cases."""
    if len(values) == 1:
        return np.asarray(weights @ values[0])
    return np.asarray(np.matmul(weights[:, None, :], values)[:, 0])


def _check(data: Data, records: Records, groups: Sequence[Group], at: int) -> None:
    """Check that a singular matrix identifies the columns, their products, and the columns times the response."""
    factor = records.factors[at]
    if factor.exact:
        return
    columns = [np.ones((factor.size, 1))]
    for g in groups:
        if at in g.factors:
            shape = tuple(records.factors[i].size for i in g.factors)
            by_axis = np.moveaxis(g.design.reshape(len(g.design), *shape, -1), g.factors.index(at) + 1, 0)
            columns.append(by_axis.reshape(factor.size, -1))
    left, scale, _ = np.linalg.svd(np.concatenate(columns, axis=1), full_matrices=False)
    basis = left[:, scale > 1e-10 * scale[0]]
    products = (basis[:, :, None] * basis[:, None, :]).reshape(factor.size, -1)
    check_identified(data, factor, products, basis)
