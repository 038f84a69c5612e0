"""The model's tables beside the unbiased ones: differences, the model's bias, how far a result rests on the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.completion.diagnostics_tables import PARTS, Group, Places, Seen, arranged
from postrand.estimate.axes import apply, apply_squares
from postrand.mixture import Draw

Array = NDArray[np.float64]
LEAST_SHARE = 0.5
"""The variance of a difference is at least this share of the unbiased one: few draws place the model's badly."""
ENOUGH = 500.0
"""A table whose unbiased estimate is worth fewer unperturbed records than this rests on the model."""

JACKKNIFE = 5
"""Groups of draws that are left out, one after the other, for the simulation error of a figure."""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Hold one table of true shares by the model and without it; all arrays in the shape of the table.

    ``variance`` is that of the unbiased estimate, drawing of records and perturbation together, ``model_variance`` that
    of the draws. ``parts`` (B, ...) are the contributions of parts of the file to ``unbiased``, whose sum it is: they
    say how the errors of several tables go together. ``unbiased`` and ``variance`` are None where no record shows the
    table: it rests on the model alone. ``simulation_error`` is that of ``effective``, from the draws of the model; None
    where there are too few.
    """

    places: Places
    model: Array
    model_variance: Array
    unbiased: Array | None
    variance: Array | None
    records: int
    parts: Array | None = None
    simulation_error: float | None = None

    @property
    def spread(self) -> Array:
        """The variance of ``unbiased − model``: at least ``V − V_model`` (Hausman 1978), and half of V."""
        assert self.variance is not None
        return np.maximum(self.variance - self.model_variance, LEAST_SHARE * self.variance)

    @property
    def standardised(self) -> Array:
        """The differences ``(unbiased − model) / sqrt(spread)``."""
        assert self.unbiased is not None
        difference = self.unbiased - self.model
        return np.asarray(difference / np.sqrt(np.maximum(self.spread, 1e-300)))

    @property
    def ratio(self) -> float | None:
        """The standard error by the model over the unbiased one, over all cells; None where there is none."""
        if self.variance is None:
            return None
        return float(np.sqrt(self.model_variance.sum() / max(float(self.variance.sum()), 1e-300)))

    @property
    def effective(self) -> float:
        """The unperturbed records that the unbiased table is worth, ``(1 − Σπ²)/ΣV``; 0 where no record shows it.

        π are the shares by the model.
        """
        return 0.0 if self.variance is None else _effective(self.model, self.variance)

    @property
    def rests_on_model(self) -> bool:
        """Whether the release alone says little of this table."""
        return self.effective < ENOUGH

    @property
    def squared_bias(self) -> tuple[float, float]:
        """The estimate ``b² = Σ|t̂ − t̄|² − tr(V − V_model)``, which can be negative, and its standard error.

        The error is that of normal differences that are independent between cells, but for their sum.
        """
        assert self.unbiased is not None
        spread = self.spread
        cells = max(spread.size - 1, 1) / spread.size
        found = float(((self.unbiased - self.model) ** 2).sum() - spread.sum())
        return found, float(np.sqrt(2 * (spread**2).sum() / cells))


def compare(
    seen: Seen,
    draws: Sequence[Draw],
    places: Places,
    groups: Sequence[Group],
    expected: Sequence[Sequence[Array]] | None,
) -> Compared:
    """Return one table by the model, and its unbiased estimate from the released records alone.

    The variance is at least what it would be if the model were right, from the released counts that it expects: of
    cells that few records have, the released counts alone say too little.
    """
    drawn = np.array([draw.table(places) for draw in draws])
    model = drawn.mean(axis=0)
    spread = drawn.var(axis=0, ddof=1) if len(draws) > 1 else np.zeros(model.shape)
    lost = {group.subset for group in groups if not group.identified}  # the rest of such a subset is not a sample
    known = [k for k, group in enumerate(groups) if group.subset not in lost]
    if not known:
        return Compared(places, model, spread, None, None, 0)
    sizes = seen.evidence.sizes
    value, least = unbiased([groups[k] for k in known], places, sizes)

    def variance(of: Sequence[int]) -> Array:
        """Return the variance where the model is taken from these draws."""
        if expected is None:
            return least
        counts = [np.mean([expected[i][k] for i in of], axis=0) for k in known]
        right = [dataclasses.replace(groups[k], counts=one) for k, one in zip(known, counts, strict=True)]
        return np.maximum(least, unbiased(right, places, sizes)[1])

    parts = contributions([groups[k] for k in known], places, sizes) if len(places) <= 2 else None
    error = jackknife(lambda of: _effective(drawn[list(of)].mean(axis=0), variance(of)), len(draws))
    records = int(sum(groups[k].records for k in known))
    return Compared(places, model, spread, value, variance(range(len(draws))), records, parts, error)


def _effective(shares: Array, variance: Array) -> float:
    return float((1 - (shares**2).sum()) / max(float(variance.sum()), 1e-300))


def jackknife(figure: Callable[[Sequence[int]], float], draws: int) -> float | None:
    """Return the error of a figure that is made from independent draws, each group of them left out once.

    ``sqrt((G − 1)/G Σ (f_g − f̄)²)``, f_g without the draws g, g + G, ...; None for one draw.

    >>> values = np.array([1.0, 2.0, 4.0])
    >>> found = jackknife(lambda of: float(values[list(of)].mean()), 3)
    >>> bool(np.isclose(found, values.std(ddof=1) / np.sqrt(3)))
    True
    """
    groups = min(JACKKNIFE, draws)
    if groups < 2:
        return None
    found = [figure([i for i in range(draws) if i % groups != g]) for g in range(groups)]
    return float(np.sqrt((groups - 1) * np.var(found)))


def unbiased(groups: Sequence[Group], places: Places, sizes: Sequence[int]) -> tuple[Array, Array]:
    """Return the unbiased table of true shares, and its variance: drawing the records, and perturbing them.

    A record contributes the inverse of its law at its released cell. Records that show other variables besides have
    other laws: those of a subset are weighted by the inverse of what one contributes in variance where all cells are
    alike, which the laws alone tell.
    """
    value, square, cross, unit, n = np.zeros(()), np.zeros(()), np.zeros(()), 0.0, 0.0
    for group, weight in zip(groups, record_weights(groups), strict=True):
        inverse = [axis.inverse for axis in group.axes]
        mean = arranged(apply(inverse, group.counts), group.axes, places, sizes)
        value = value + weight * mean
        cross = cross + weight**2 * mean
        square = square + weight**2 * arranged(apply_squares(inverse, group.counts), group.axes, places, sizes)
        unit += weight**2 * group.records
        n += group.records
    return value, np.maximum((square - 2 * value * cross + unit * value**2) * n / max(n - 1, 1), 0.0)


def contributions(groups: Sequence[Group], places: Places, sizes: Sequence[int]) -> Array:
    """Return what each part of the file contributes to the unbiased table, (B, ...)."""
    found = np.zeros((PARTS, *(sizes[p] for p in places)))
    for group, weight in zip(groups, record_weights(groups), strict=True):
        inverse = [axis.inverse for axis in group.axes]
        for part, counts in zip(found, group.parts, strict=True):
            part += weight * arranged(apply(inverse, counts), group.axes, places, sizes)
    return found


def overall(tables: Sequence[Compared]) -> tuple[float, float]:
    """Return the mean of ``|unbiased − model|²/tr(V − V_model)`` over tables, and its p-value: a right model has 1.

    With R the correlation of all their errors, each table scaled to trace 1, the sum over T tables has mean T and
    variance ``2 tr(R²)``, and nearly the distribution of ``(tr(R²)/T) χ²`` with ``T²/tr(R²)`` degrees of freedom. The
    parts of the file tell ``tr(R²)``: errors x_a, x_b of two parts are independent, and ``E (B x_a · x_b)² = tr(R²)``.
    """
    known = [table for table in tables if table.unbiased is not None and table.parts is not None]
    if not known:
        return 1.0, 1.0
    off = [float(((t.unbiased - t.model) ** 2).sum() / t.spread.sum()) for t in known if t.unbiased is not None]
    scaled = []
    for table in known:
        assert table.parts is not None
        error = table.parts - table.parts.mean(axis=0)
        scaled.append(error.reshape(PARTS, -1) / np.sqrt((error**2).sum()))
    flat = np.concatenate(scaled, axis=1)
    products = flat @ flat.T
    apart = products[~np.eye(PARTS, dtype=bool)]
    # Subtracting the mean over parts makes products of two different parts −1/(B − 1) of the squares on average.
    among = PARTS**2 * float(((apart - apart.mean()) ** 2).mean())
    trace = max(among, len(known) ** 2 / sum(t.model.size - 1 for t in known))
    total = float(np.sum(off))
    p = float(scipy.stats.chi2.sf(total * len(known) / trace, len(known) ** 2 / trace))
    return total / len(known), p


def record_weights(groups: Sequence[Group]) -> list[float]:
    """Return the weight of one record of each group; alike for all groups of a subset, and adding up to one."""
    noise: dict[int, list[float]] = {}
    for group in groups:
        lengths = [1.0 if a.inverse is None else float((a.inverse**2).sum() / a.inverse.shape[1]) for a in group.axes]
        noise.setdefault(group.subset, []).append(float(np.prod(lengths)) * group.records)
    records = {subset: sum(g.records for g in groups if g.subset == subset) for subset in noise}
    each = {subset: records[subset] / sum(noise[subset]) for subset in noise}
    whole = sum(records[subset] * each[subset] for subset in noise)
    return [each[group.subset] / whole for group in groups]


def largest(tables: Iterable[Compared]) -> tuple[Compared, float, float] | None:
    """Return the table with the largest standardised difference, that, and its p-value for so many comparisons.

    The p-value is that of a normal variable times the number of cells (Bonferroni).
    """
    known = [table for table in tables if table.unbiased is not None]
    if not known:
        return None
    most = max(known, key=lambda table: float(np.abs(table.standardised).max()))
    size = float(np.abs(most.standardised).max())
    cells = sum(table.model.size for table in known)
    return most, size, min(1.0, 2 * float(scipy.stats.norm.sf(size)) * cells)
