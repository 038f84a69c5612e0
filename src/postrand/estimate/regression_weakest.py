"""The categories of which a release says least in a regression: those with the fewest effective records."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from postrand.estimate.axes import Array
from postrand.estimate.families import Logistic, Multinomial
from postrand.estimate.regression_data import Data, codes_of
from postrand.estimate.regression_formula import amounts_of
from postrand.estimate.regression_moments import Records
from postrand.estimate.regression_terms import answers_first, is_measured

FEW = 30.0
"""A category of fewer effective records than this is named."""
MOST = 3
"""So many are named."""


def weakest(data: Data, records: Records) -> tuple[str, ...]:
    """Return the categories below ``FEW`` effective records, weakest first and ``MOST`` at most; else the weakest.

    With ``a_i`` the corrected weight of record i in the category, they are ``t |t| / Σ a_i²``, ``t = Σ a_i``: what is
    negative has none. Numbers that enter a formula as such have no categories.
    """
    found = []
    for name, code, weights in _weights(data, records):
        each = records.weight * weights
        total, square = float(records.count @ each), float(records.count @ each**2)
        assert data.book is not None
        found.append((total * abs(total) / square if square else 0.0, f"{name} = {data.book[name].code_labels[code]}"))
    found.sort(key=lambda pair: pair[0])
    below = sum(effective < FEW for effective, _ in found)
    return tuple(text for _, text in found[: min(max(below, 1), MOST)])


def _weights(data: Data, records: Records) -> Iterator[tuple[str, int, Array]]:
    """Yield each category by its variable and code, with its weight in every case, (N,)."""
    amounts = amounts_of(data.formula)
    asked = [n for n in data.names if data.book is not None and n in data.book and n != data.response]
    for name in (n for n in asked if data.book is not None and not (n in amounts and is_measured(data.book[n]))):
        if name not in data.latent:
            codes = codes_of(data, name)[records.first]
            yield from ((name, int(code), (codes == code).astype(np.float64)) for code in np.unique(codes))
            continue
        factor = next(f for f in records.factors if name in f.names)
        own = factor.codes[:, factor.names.index(name)]
        yield from ((name, int(code), factor.weights[:, own == code].sum(axis=1)[factor.cells]) for code in set(own))
    if isinstance(records.family, Logistic | Multinomial) and data.book is not None and data.response in data.book:
        parts = [records.outcomes((), part)[:, 0] for part in records.parts(1)]
        shares = np.concatenate(parts)
        order = answers_first(data.book[data.response])  # as many as there are columns are answers
        columns = np.column_stack([records.answering() - shares.sum(axis=1), shares])
        yield from ((data.response, int(code), each) for code, each in zip(order, columns.T, strict=False))
