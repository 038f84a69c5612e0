"""Parts of the diagnostics as plain data: what a file keeps, and what the report draws."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.completion.diagnostics_unbiased import Compared
from postrand.completion.predictive import Predicted

Array = NDArray[np.float64]
MOST_POINTS = 600
"""Cells of released tables that are drawn: those that differ most, then others at equal steps."""
MOST_ROWS = 160
"""Cells of tables that are drawn with their errors."""
PAIRS, MOST_PAIR = 3, 36
"""Tables of two variables that are drawn with their errors, and the most cells of one."""
MOST_SWEEPS = 150
"""Points of a drawn trace."""


def number(value: Any) -> float | None:
    """Return a number with six digits; None if it is not finite."""
    return float(f"{value:.6g}") if np.isfinite(value) else None


def thinned(trace: Array) -> list[list[float | None]]:
    """Return some sweeps of each chain at equal steps."""
    at = np.unique(np.linspace(0, trace.shape[1] - 1, min(trace.shape[1], MOST_SWEEPS)).astype(int))
    return [[number(v) for v in chain[at]] for chain in trace]


def points(tables: Sequence[Predicted]) -> list[list[float | None]]:
    """Return ``[observed share, expected share, standard errors apart]`` of cells of released two-way tables."""
    pairs = [t for t in tables if len(t.places) <= 2]
    if not pairs:
        return []
    observed = np.concatenate([t.observed.ravel() for t in pairs])
    expected = np.concatenate([t.expected.ravel() for t in pairs])
    records = np.concatenate([np.full(t.observed.size, t.records) for t in pairs])
    apart = (observed - expected) / np.sqrt(np.maximum(expected * (1 - expected), 1e-12) / records)
    order = np.argsort(-np.abs(apart), kind="stable")
    rest = order[MOST_POINTS // 2 :]
    kept = np.concatenate([order[: MOST_POINTS // 2], rest[:: max(1, -(-len(rest) // (MOST_POINTS // 2)))]])
    return [[number(observed[k]), number(expected[k]), number(apart[k])] for k in kept]


def shares(tables: Sequence[Compared], names: Sequence[str], labels: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Return tables with the model's share and the unbiased one of each cell, and standard errors.

    All of one variable, and those of two with the largest standardised differences, as far as rows last.
    """
    pairs = [t for t in tables if len(t.places) == 2 and t.unbiased is not None and t.model.size <= MOST_PAIR]
    pairs.sort(key=lambda t: -float(np.abs(t.standardised).max()))
    made, rows = [], 0
    for table in (*(t for t in tables if len(t.places) == 1), *pairs[:PAIRS]):
        if rows + table.model.size <= MOST_ROWS:
            rows += table.model.size
            made.append(_share(table, names, labels))
    return made


def _share(table: Compared, names: Sequence[str], labels: Sequence[Sequence[str]]) -> dict[str, Any]:
    cells = itertools.product(*(labels[p] for p in table.places))
    return {
        "variable": " by ".join(names[p] for p in table.places),
        "labels": [", ".join(cell) for cell in cells],
        "model": _numbers(table.model),
        "model_error": _numbers(np.sqrt(table.model_variance)),
        "unbiased": None if table.unbiased is None else _numbers(table.unbiased),
        "unbiased_error": None if table.variance is None else _numbers(np.sqrt(table.variance)),
    }


def _numbers(values: Array) -> list[float | None]:
    return [number(value) for value in values.ravel()]
