"""Posterior predictive tests: whether the model could have released the tables that were released."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.completion.diagnostics_tables import Group, Places, arranged
from postrand.estimate.axes import apply

Array = NDArray[np.float64]
LEVEL = 0.01
"""Over all tables together, a right model fails with at most this probability."""
LEAST = 5.0
"""Released cells that are expected less often are taken together."""


@dataclass(frozen=True, slots=True, eq=False)
class Predicted:
    """Hold a released table beside what the model expects of it, both as shares of the records that show it.

    ``p`` is the posterior predictive p-value of the chi-square discrepancy ``Σ (O − E)²/E``.
    """

    places: Places
    records: int
    observed: Array
    expected: Array
    p: float


def predict(
    groups: Sequence[Group], expected: Sequence[Sequence[Array]], places: Places, sizes: Sequence[int]
) -> Predicted:
    """Compare one released table with what each draw of the parameters expects of it, ``expected`` (draws, groups).

    A table that a draw releases differs from its expectation by a chi-square. ``p`` is the mean over draws of the
    probability of a larger one than that of the observed table: of a right model it is seldom small.
    """
    observed = _sum([_shown(g, g.counts, places, sizes) for g in groups])
    each = [_sum([_shown(g, e, places, sizes) for g, e in zip(groups, one, strict=True)]) for one in expected]
    p = float(np.mean([_tail(observed, one) for one in each]))
    whole = _sum(each)
    return Predicted(places, int(observed.sum()), observed / observed.sum(), whole / whole.sum(), p)


def _sum(tables: Sequence[Array]) -> Array:
    return np.asarray(np.sum(tables, axis=0))


def _shown(group: Group, released: Array, places: Places, sizes: Sequence[int]) -> Array:
    """Return released cells as the table that they look like."""
    maps: list[Array | None] = []
    for axis in group.axes:
        size = int(np.prod([sizes[p] for p in axis.kept]))
        if size == len(axis.shown) and np.array_equal(axis.shown, np.arange(size)):
            maps.append(None)
            continue
        into = np.zeros((size, len(axis.shown)))
        into[axis.shown, np.arange(len(axis.shown))] = 1.0
        maps.append(into)
    return arranged(apply(maps, released), group.axes, places, sizes)


def _tail(observed: Array, expected: Array) -> float:
    """Return the probability of a larger chi-square; cells expected less than 5 times are one cell."""
    few = expected < LEAST
    o = np.append(observed[~few], observed[few].sum())
    e = np.append(expected[~few], expected[few].sum())
    o, e = (o, e) if e[-1] >= LEAST or len(e) == 1 else (_last(o), _last(e))
    if len(e) < 2:
        return 1.0
    return float(scipy.stats.chi2.sf(((o - e) ** 2 / e).sum(), len(e) - 1))


def _last(values: Array) -> Array:
    """Return cells with the last, which is expected too seldom, added to the first of the others."""
    return np.append(values[:-2], values[-2] + values[-1])


def combined(tables: Iterable[Predicted]) -> float:
    """Return the p-value of all tables together: the smallest times their number (Bonferroni)."""
    values = [table.p for table in tables]
    return min(1.0, min(values) * len(values)) if values else 1.0
