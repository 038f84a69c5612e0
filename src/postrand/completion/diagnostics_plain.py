"""The diagnostics as plain data: what a file keeps, and what the report draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from postrand.completion.diagnostics_unbiased import Compared
from postrand.completion.predictive import Predicted

if TYPE_CHECKING:
    from postrand.completion.diagnostics import Diagnostics

Array = NDArray[np.float64]
MOST_POINTS = 600
"""Cells of released tables that are drawn: those that differ most, then others at equal steps."""
MOST_ROWS = 120
"""Cells of one-way tables that are drawn with their errors."""
MOST_SWEEPS = 150
"""Points of a drawn trace."""


def plain(found: Diagnostics) -> dict[str, Any]:
    """Return the diagnostics as lists, numbers and text; a number that is not finite is None."""
    chains = found.chains
    bias, error = found.bias
    return {
        "ok": found.ok,
        "problems": list(found.problems),
        "warnings": list(found.warnings),
        "variables": list(found.names),
        "records": found.records,
        "copies": found.copies,
        "anchored": found.anchored,
        "totals": None if found.totals is None else found.totals.to_dict(),
        "left_out": dict(found.left_out),
        "approximated": dict(found.approximated),
        "convergence": {
            "chains": chains.chains,
            "sweeps": chains.sweeps,
            "largest_r_hat": _number(chains.r_hat[chains.worst]),
            "of": chains.traced[chains.worst],
            "fewest_effective_draws": _number(chains.effective.min()),
            "classes_used": chains.occupied,
            "classes": chains.classes,
            "trace": _thinned(found.worst_trace),
        },
        "released_tables": {
            "p_value": _number(found.predictive),
            "tables": [
                {"variables": _names(found, t.places), "records": t.records, "p_value": _number(t.p)}
                for t in found.predicted
            ],
            "points": _points(found.predicted),
        },
        "bias": {"relative": _number(bias), "error": _number(error)},
        "rests_on_model": [
            {
                "variables": list(one.names),
                "ratio": None if one.ratio is None else _number(one.ratio),
                "effective_records": _number(one.effective),
                "on_model": one.on_model,
                "sentence": str(one),
            }
            for one in found.rests_on_model
        ],
        "shares": _shares(found),
    }


def _names(found: Diagnostics, places: tuple[int, ...]) -> list[str]:
    return [found.names[p] for p in places]


def _number(value: Any) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None


def _thinned(trace: Array) -> list[list[float | None]]:
    at = np.unique(np.linspace(0, trace.shape[1] - 1, min(trace.shape[1], MOST_SWEEPS)).astype(int))
    return [[_number(v) for v in chain[at]] for chain in trace]


def _points(tables: tuple[Predicted, ...]) -> list[list[float | None]]:
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
    return [[_number(observed[k]), _number(expected[k]), _number(apart[k])] for k in kept]


def _shares(found: Diagnostics) -> list[dict[str, Any]]:
    """Return the one-way tables: the model's share and the unbiased one of each category, with standard errors."""
    tables, rows = [], 0
    for table in found.compared:
        if len(table.places) == 1 and rows + table.model.size <= MOST_ROWS:
            rows += table.model.size
            tables.append(_share(found, table))
    return tables


def _share(found: Diagnostics, table: Compared) -> dict[str, Any]:
    known = table.unbiased is not None and table.variance is not None
    return {
        "variable": found.names[table.places[0]],
        "labels": list(found.labels[table.places[0]]),
        "model": [_number(v) for v in table.model],
        "model_error": [_number(v) for v in np.sqrt(table.model_variance)],
        "unbiased": [_number(v) for v in table.unbiased] if known and table.unbiased is not None else None,
        "unbiased_error": [_number(v) for v in np.sqrt(table.variance)] if table.variance is not None else None,
    }
