"""Parts of the diagnostics as plain data: what a file keeps, and what the report draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.completion.diagnostics_unbiased import Compared
from postrand.completion.predictive import Predicted

Array = NDArray[np.float64]
MOST_POINTS = 600
"""Cells of released tables that are drawn: those that differ most, then others at equal steps."""
MOST_ROWS = 120
"""Cells of one-way tables that are drawn with their errors."""
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
    """Return the one-way tables: the model's share and the unbiased one of each category, with standard errors."""
    made, rows = [], 0
    for table in tables:
        if len(table.places) == 1 and rows + table.model.size <= MOST_ROWS:
            rows += table.model.size
            made.append(
                {
                    "variable": names[table.places[0]],
                    "labels": list(labels[table.places[0]]),
                    "model": _numbers(table.model),
                    "model_error": _numbers(np.sqrt(table.model_variance)),
                    "unbiased": None if table.unbiased is None else _numbers(table.unbiased),
                    "unbiased_error": None if table.variance is None else _numbers(np.sqrt(table.variance)),
                }
            )
    return made


def _numbers(values: Array) -> list[float | None]:
    return [number(value) for value in values]
