"""The words of a series of releases: what a certificate states by the curator's ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from postrand.support.wordings import fill

TOTAL = (
    "release {number} of the population {population} ({kind}): a record that is in all of its releases, as far as the "
    "curator's ledger has them, is protected at ε <= {epsilon:up}{delta} in total{disjoint}."
)
INFINITE = (
    "release {number} of the population {population} ({kind}): by the curator's ledger, its releases have no finite "
    "total ε{disjoint}."
)
DELTA, DISJOINT = ", δ <= {delta:up}", "; no record is in an earlier release: {reason}"


def series(entry: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the sentence of a certificate about a series of releases, if it is one of a series.

    >>> entry = {"number": 1, "population": "p", "kind": "first", "total": {"epsilon": None}}
    >>> series(entry)
    ("release 1 of the population p (first): by the curator's ledger, its releases have no finite total ε.",)
    """
    if not entry:
        return ()
    total, reason = entry["total"], entry.get("disjoint", "")
    about = {name: entry[name] for name in ("number", "population", "kind")}
    about["disjoint"] = fill(DISJOINT, reason=reason) if reason else ""
    if total["epsilon"] is None:
        return (fill(INFINITE, **about),)
    delta = fill(DELTA, delta=total["delta"]) if total.get("delta") else ""
    return (fill(TOTAL, epsilon=total["epsilon"], delta=delta, **about),)
