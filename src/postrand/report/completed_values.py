"""What the page says of completed files: which file to open, the tests of the model, and what rests on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from postrand.estimate.evidence_variables import WEAKER, moved_told
from postrand.report import completed_pictures as pictures
from postrand.support.worth_basis import BASES

MOST_RESTS = 60
"""Tables whose errors are listed: those that rest most on the model."""

MOST_RELATIONS = 8
"""Relations to unperturbed columns that are listed: those that differ most."""


def completed_view(told: Mapping[str, Any], data: str) -> dict[str, Any]:
    """Return what the page shows of completed files: a function of ``completed.json`` alone."""
    found = told["diagnostics"]
    rests = found["rests_on_model"]
    pairs = [one for one in rests if len(one["variables"]) == min(2, len(found["variables"]))]
    pairs.sort(key=lambda one: one["effective_records"] or 0.0)
    known = [one["ratio"] for one in pairs if one["ratio"] is not None]
    return {
        "data": data,
        "file": told["file"],
        "copies": told["copies"],
        "records": told["records"],
        "perturbed": told["perturbed"],
        "seed": told["seed"],
        "found": found,
        "problems": told["problems"],
        "warnings": [*told["warnings"], *moved_told(found["approximated"])],
        "trace": pictures.trace(found["convergence"]["trace"]),
        "predicted": pictures.predicted(found["released_tables"]["points"]),
        "tables": [_table(one) for one in found["shares"]],
        "pairs": pairs[:MOST_RESTS],
        "further": len(pairs[MOST_RESTS:]),
        "basis": BASES["model"],
        "equal": BASES["equal"],
        "weaker": WEAKER,
        "on_model": sum(one["on_model"] for one in pairs),
        "ratios": (min(known), max(known)) if known else None,
        "relations": _relations(found.get("relations")),
        "worst": sorted(found["released_tables"]["tables"], key=lambda one: one["p_value"])[:8],
    }


def _relations(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the relations to unperturbed columns that differ most; None in files made before, or without any."""
    if not found or not found["compared"]:
        return None
    shown = sorted(found["compared"], key=lambda one: one["p_value"])[:MOST_RELATIONS]
    return {"p_value": found["p_value"], "shown": shown, "many": len(found["compared"]), "together": found["together"]}


def _table(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rows of one variable: its shares by the model and without it, and their picture."""
    nothing = [None] * len(one["labels"])
    unbiased, errors = one["unbiased"] or nothing, one["unbiased_error"] or nothing
    top = pictures.top_of([one["model"], unbiased])
    rows = [
        {
            "label": label,
            "model": model,
            "error": error,
            "unbiased": other,
            "unbiased_error": its,
            "plot": pictures.beside(model, error, other, its, top),
        }
        for label, model, error, other, its in zip(
            one["labels"], one["model"], one["model_error"], unbiased, errors, strict=True
        )
    ]
    return {"variable": one["variable"], "rows": rows, "top": top}
