"""The categories of which a release says least in a regression: those with the fewest effective records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from postrand.estimate.axes import Array
from postrand.estimate.families import Logistic, Multinomial
from postrand.estimate.latent import Index
from postrand.estimate.regression_data import Data, codes_of, is_amount
from postrand.estimate.regression_formula import amounts_of
from postrand.estimate.regression_grid import fits
from postrand.estimate.regression_moments import Factor, Records, records_of
from postrand.estimate.regression_terms import answered, answers_first, has_contrast, is_measured, unanswered
from postrand.support.showing import few

FEW = 30.0
"""A category of fewer effective records than this is named."""
MOST = 3
"""So many are named."""


def weakest(data: Data, records: Records) -> tuple[str, ...]:
    """Return the categories below ``FEW`` effective records, weakest first and ``MOST`` at most; else the weakest.

    Numbers that enter a formula as such have no categories.
    """
    if data.book is None:
        return ()
    found = sorted(effective(data, records))
    below = sum(worth < FEW for worth, _, _ in found)
    shown = found[: min(max(below, 1), MOST)]
    return tuple(f"{name} = {data.book[name].code_labels[code]}" for _, name, code in shown)


def effective(data: Data, records: Records) -> Iterator[tuple[float, str, int]]:
    """Yield the effective records of each category that counts, with its variable and code.

    With ``a_i`` the corrected weight of record i in the category, and as one that answers the response, they are
    ``t |t| / Σ a_i²``, ``t = Σ a_i``: what is negative has none.
    """
    for name, code, weights in _weights(data, records):
        each = records.weight * weights
        total, square = float(records.count @ each), float(records.count @ each**2)
        yield (total * abs(total) / square if square else 0.0, name, code)


def without_absent(data: Data) -> Data:
    """Return the data without categories of covariates that mean no answer, of numbers or with too few records.

    A number that a formula takes as an amount has none where there is no answer. Of others, coefficients of categories
    below ``FEW`` effective records would be noise, and the equations often have no root. A formula that names what a
    covariate's categories are compared with keeps them; so does an unperturbed one, if it has as many records.
    """
    covariates = [name for name in data.names if name != data.response]
    asked = [n for n in covariates if unanswered(data.book, n) and not has_contrast(data.formula, n)]
    if not asked or data.book is None:
        return data
    silent = {name: np.flatnonzero(~answered(data.book[name])) for name in asked}
    amounts = [name for name in amounts_of(data.formula) if name in silent and is_measured(data.book[name])]
    data = _without(data, {name: silent.pop(name) for name in amounts})
    if not silent or not fits(records := records_of(data)):
        return data
    worth = {(name, code): each for each, name, code in effective(data, records)}
    rare = {name: [code for code in codes if worth.get((name, int(code)), 0.0) < FEW] for name, codes in silent.items()}
    return _without(data, {name: np.array(codes, dtype=np.intp) for name, codes in rare.items() if codes})


def _without(data: Data, absent: Mapping[str, Index]) -> Data:
    """Return the data without these codes of covariates; unchanged where no record would be left."""
    clear = [~np.isin(codes_of(data, name), codes) for name, codes in absent.items() if name not in data.latent]
    kept = np.all([*clear, np.ones(data.table.num_rows, dtype=bool)], axis=0)
    return replace(data.of_records(kept), absent={**data.absent, **absent}) if kept.any() else data


def absent_covariates(data: Data) -> tuple[str, ...]:
    """Return a sentence for each covariate of which categories are left out."""
    few_count = "too few such records count for a coefficient of their own"
    why = {name: "it enters as a number" if is_amount(data, name) else few_count for name in data.absent}
    return tuple(
        f"Who has no answer of {name} ({few([data.book[name].code_labels[code] for code in codes])}) is left out: "
        f"{why[name]}.".replace("(missing)", "missing")
        for name, codes in data.absent.items()
        if data.book is not None
    )


@dataclass(frozen=True, slots=True, eq=False)
class Category:
    """Hold a category of a covariate: which of a factor's true cells have it, (X,), or of which cases it is, (N,)."""

    name: str
    code: int
    factor: Factor | None
    held: Array

    def weights(self, answering: Array) -> Array:
        """Return the corrected weight of each case in it, as one that answers the response, (N,)."""
        return self._weights(self.held, answering)

    def together(self, other: Category, answering: Array) -> Array:
        """Return the corrected weight of each case in both categories, (N,); draws of two factors are independent."""
        if self.factor is other.factor:
            return self._weights(self.held * other.held, answering)
        one = np.ones(1)
        found = np.asarray(self._weights(self.held, one) * other._weights(other.held, one))
        return found if self.is_answering or other.is_answering else np.asarray(found * answering)

    @property
    def is_answering(self) -> bool:
        """Whether the response is on the factor, whose weights then answer it."""
        return self.factor is not None and self.factor.response is not None

    def _weights(self, held: Array, answering: Array) -> Array:
        if self.factor is None:
            return np.asarray(held * answering)
        found = self.factor.weights[:, held.astype(bool)].sum(axis=1)[self.factor.cells]
        return found if self.is_answering else np.asarray(found * answering)


def categories(data: Data, records: Records) -> Iterator[Category]:
    """Yield each category of a covariate that counts."""
    amounts = amounts_of(data.formula)
    asked = [n for n in data.names if data.book is not None and n in data.book and n != data.response]
    for name in (n for n in asked if data.book is not None and not (n in amounts and is_amount(data, n))):
        if name not in data.latent:
            codes = codes_of(data, name)[records.first]
            yield from (Category(name, int(code), None, (codes == code).astype(float)) for code in np.unique(codes))
            continue
        factor = next(f for f in records.factors if name in f.names)
        own = factor.codes[:, factor.names.index(name)]
        counted = np.setdiff1d(own, data.absent.get(name, ()))
        yield from (Category(name, int(code), factor, (own == code).astype(float)) for code in counted)


def _weights(data: Data, records: Records) -> Iterator[tuple[str, int, Array]]:
    """Yield each category by its variable and code, with its weight in every case, (N,)."""
    answering = records.answering()
    yield from ((one.name, one.code, one.weights(answering)) for one in categories(data, records))
    if isinstance(records.family, Logistic | Multinomial) and data.book is not None and data.response in data.book:
        parts = [records.outcomes((), part)[:, 0] for part in records.parts(1)]
        shares = np.concatenate(parts)
        order = answers_first(data.book[data.response])  # as many as there are columns are answers
        columns = np.column_stack([answering - shares.sum(axis=1), shares])
        yield from ((data.response, int(code), each) for code, each in zip(order, columns.T, strict=False))
