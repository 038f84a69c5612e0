"""Log-linear models of the sample frequencies, fitted by iterative proportional fitting (SS §2.1).

The fitted table is zero wherever one of the model's margins is zero in the data or a rule forbids the cell. Only the
other cells, the *support*, are kept: for all two-way margins of ten census variables that is a tenth of the table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.errors import DataError, UsageError, nearest, sentence
from postrand.risk.acceleration import Accelerator
from postrand.risk.cells import CellTable, FloatArray, IntArray, cell_numbers, ravel
from postrand.risk.fitting import grouped, sweep

Margins = tuple[tuple[int, ...], ...]
Model = str | Sequence[str | Sequence[str]]

ORDERS = {"independence": 1, "two-way": 2, "three-way": 3}
MAX_BYTES = 2_000_000_000
"""Refuse a fit whose working arrays would be larger."""

STALL = 0.1
"""Stop the fit to estimated margins where twice the sweeps change less, in standard errors; a convention."""

MAX_INDEPENDENCE = 10_000_000
"""Keep every cell of an independence model up to this many, for its goodness of fit."""


@dataclass(frozen=True, slots=True, eq=False)
class LogLinearFit:
    """Hold a fitted hierarchical log-linear model of the expected sample frequencies ``μ``.

    ``cells`` (L, J) are the codes of the support in C order, ``mu`` (L,) the fitted values; every other cell is 0.
    ``deviation`` is the largest absolute difference between a fitted and an observed margin cell; ``converged``
    tells whether it is within the tolerance asked for. ``complete`` is false where only the occupied cells are kept:
    the independence model of a table too large to hold has its closed form.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    margins: Margins
    cells: IntArray
    mu: FloatArray
    iterations: int
    deviation: float
    converged: bool
    complete: bool = True

    @property
    def model(self) -> str:
        """The generating margins, for example ``age*sex, race``."""
        return ", ".join("*".join(self.names[j] for j in margin) for margin in self.margins)

    def at(self, codes: IntArray) -> FloatArray:
        """Return ``μ`` of the cells with these codes, shape (m, J) → (m,); 0 outside the support."""
        both = np.concatenate([self.cells, codes])
        number = cell_numbers(tuple(both.T), self.shape)[0]  # two lists of one numbering, the first ascending
        known, wanted = number[: self.mu.size], number[self.mu.size :]
        place = np.minimum(np.searchsorted(known, wanted), known.size - 1)
        return np.where(known[place] == wanted, self.mu[place], 0.0)


def margins_of(model: Model, names: Sequence[str]) -> Margins:
    """Return the generating margins of a model as sorted positions of key variables, none within another.

    ``model`` is ``"independence"``, ``"two-way"``, ``"three-way"``, or a list of names and tuples of names. A variable
    that the list leaves out enters as a main effect: without it the model would not be hierarchical in the keys.

    Raises
    ------
    UsageError
        If the model or a variable is not known.

    Examples
    --------
    >>> margins_of([("sex", "age")], ["age", "sex", "race"])
    ((0, 1), (2,))
    """
    everything = range(len(names))
    if isinstance(model, str):
        if model not in ORDERS:
            hint = nearest(model, ORDERS)
            raise UsageError(sentence(f"unknown model {model!r}{hint}", wanted=f"{', '.join(ORDERS)}, search"))
        return tuple(itertools.combinations(everything, min(ORDERS[model], len(names))))
    if not isinstance(model, Sequence):
        raise UsageError(sentence("the model is not a list of margins", got=type(model).__name__))
    sets = [frozenset([term] if isinstance(term, str) else term) for term in model]
    unknown = sorted({name for term in sets for name in term if name not in names})
    if unknown:
        raise UsageError(
            [
                sentence(f"no key variable {n!r}{nearest(n, names)}", where="model", wanted=", ".join(names))
                for n in unknown
            ]
        )
    sets += [frozenset([name]) for name in names]
    generating = {s for s in sets if s and not any(s < other for other in sets)}
    return tuple(sorted(tuple(sorted(names.index(name) for name in term)) for term in generating))


def fit(
    table: CellTable,
    model: Model = "two-way",
    *,
    forbidden: Iterable[Mapping[str, int]] = (),
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    start: LogLinearFit | None = None,
) -> LogLinearFit:
    """Fit ``log μ_j = z_j'β`` by iterative proportional fitting: maximum likelihood under ``f_j ~ Poisson(μ_j)``.

    ``forbidden`` lists combinations of codes that cannot occur, ``{"age": 0, "marital": 2}``: their cells are fixed at
    0. ``tolerance`` bounds the absolute difference between every fitted and observed margin cell. ``start`` is
    a fit of a smaller model to begin with. Independence without rules has a closed form and needs no support.

    Raises
    ------
    UsageError
        If the model is unknown, or its support is too large to hold.
    DataError
        If there are records in a forbidden cell.
    """
    margins = margins_of(model, table.names)
    rules = [_rule(table.names, combination) for combination in forbidden]
    if not rules and all(len(margin) == 1 for margin in margins) and math.prod(table.shape) > MAX_INDEPENDENCE:
        return _independence(table, margins)
    _check_rules(table, rules)
    tables = [_margin(table, margin) for margin in margins]
    cells = _support(table.shape, margins, tables, rules)
    targets = [target.ravel() for target in tables]
    groups = grouped(cells, table.shape, margins, targets)
    mu = np.full(len(cells[0]), table.counts.sum() / max(len(cells[0]), 1))
    codes = np.stack(cells, axis=1)
    if start is not None:
        mu = start.at(codes)
    number = ravel(cells, table.shape)
    place = np.searchsorted(number, ravel(tuple(table.codes.T), table.shape))
    accelerator = Accelerator(place, table.counts.astype(np.float64))
    iterations, deviation = sweep(mu, groups, accelerator, tolerance, max_iterations)
    converged = deviation <= tolerance
    return LogLinearFit(table.names, table.shape, margins, codes, mu, iterations, deviation, converged)


def fit_margins(
    names: tuple[str, ...],
    shape: tuple[int, ...],
    margins: Margins,
    tables: Sequence[FloatArray],
    *,
    forbidden: Iterable[Mapping[str, int]] = (),
    tolerance: float = 1e-3,
    max_iterations: int = 200,
) -> LogLinearFit:
    """Fit a log-linear model to margins that were estimated, not counted: ``tables[m]`` has the shape of margin m.

    Margin cells that no cell of the support has are left out, and the others raised to the same total. Margins that
    were estimated one by one agree on the smaller margins that they share, and still no table need have them all: then
    none meets the ``tolerance``, and a little goes on moving into ever fewer cells. The fit stops at the tolerance,
    where a doubling of the sweeps moved no margin cell by more than a tenth of its Poisson standard error (``STALL``),
    or at ``max_iterations``; ``deviation`` says what is left.

    Raises
    ------
    UsageError
        If the support is too large to hold.
    """
    cells = _support(shape, margins, tables, [_rule(names, combination) for combination in forbidden])
    total = float(tables[0].sum())
    groups = [group.raised(total) for group in grouped(cells, shape, margins, [table.ravel() for table in tables])]
    mu = np.full(len(cells[0]), total / max(len(cells[0]), 1))
    iterations, deviation = sweep(mu, groups, None, tolerance, max_iterations, STALL)
    return LogLinearFit(
        names, shape, margins, np.stack(cells, axis=1), mu, iterations, deviation, deviation <= tolerance
    )


def _independence(table: CellTable, margins: Margins) -> LogLinearFit:
    """Return ``μ_j = n Π_v f_v/n`` at the occupied cells."""
    total = float(table.counts.sum())
    mu = np.full(table.counts.size, total)
    for j, margin in enumerate(margins):
        mu *= _margin(table, margin)[table.codes[:, j]] / total
    codes = table.codes
    return LogLinearFit(table.names, table.shape, margins, codes, mu, 0, 0.0, converged=True, complete=False)


def _rule(names: tuple[str, ...], combination: Mapping[str, int]) -> dict[int, int]:
    unknown = [name for name in combination if name not in names]
    if unknown:
        hint = nearest(unknown[0], names)
        raise UsageError(sentence(f"no key variable {unknown[0]!r}{hint}", where="structural zeros"))
    return {names.index(name): int(code) for name, code in combination.items()}


def _check_rules(table: CellTable, rules: Sequence[Mapping[int, int]]) -> None:
    for number, rule in enumerate(rules, 1):
        if np.logical_and.reduce([table.codes[:, j] == code for j, code in rule.items()]).any():
            where = f"structural zero {number}"
            raise DataError(sentence("the file contains records in a cell that cannot occur", where=where))


def _margin(table: CellTable, margin: tuple[int, ...]) -> FloatArray:
    shape = tuple(table.shape[j] for j in margin)
    number = ravel(tuple(table.codes[:, j] for j in margin), shape)
    sums = np.bincount(number, weights=table.counts, minlength=math.prod(shape))
    return np.asarray(sums, dtype=np.float64).reshape(shape)


def _support(
    shape: tuple[int, ...], margins: Margins, tables: Sequence[FloatArray], rules: Sequence[Mapping[int, int]]
) -> list[NDArray[np.int16]]:
    """Return the codes of the cells that no zero margin and no rule excludes, a column for each variable, in C order.

    Variables are added one at a time; a margin or rule is applied as soon as its last variable is there.
    """
    marks = [(margin, table > 0) for margin, table in zip(margins, tables, strict=True)]
    columns: list[NDArray[np.int16]] = []
    length = 1
    for j, size in enumerate(shape):
        if length * size * (2 * len(shape) + 2 * len(margins) + 16) > MAX_BYTES:
            raise UsageError(
                sentence(
                    "the log-linear model needs too many cells",
                    got=f"more than {length * size:,} cells x {len(margins)} margins",
                    fix="use fewer or coarser keys, a model with fewer margins, or latent_class.fit, which is sparse",
                )
            )
        columns = [np.repeat(column, size) for column in columns]
        columns.append(np.tile(np.arange(size, dtype=np.int16), length))
        keep = np.ones(length * size, dtype=bool)
        for margin, occupied in marks:
            if margin[-1] == j:
                keep &= occupied[tuple(columns[i] for i in margin)]
        for rule in rules:
            if max(rule) == j:
                keep &= ~np.logical_and.reduce([columns[i] == code for i, code in rule.items()])
        columns = [column[keep] for column in columns]
        length = len(columns[0])
    return columns


def margin_index(cells: Sequence[IntArray], shape: Sequence[int], margin: tuple[int, ...]) -> IntArray:
    """Return the margin cell of each cell, in the smallest unsigned type: the sweeps are bound by memory."""
    sizes = [shape[j] for j in margin]
    return ravel([cells[j] for j in margin], sizes).astype(np.min_scalar_type(math.prod(sizes) - 1))
