"""The words of a series of releases: what a certificate states by the curator's ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from postrand.support.guesses import guesses_in_words
from postrand.support.wordings import fill

TOTAL = (
    "release {number} of the population {population} ({kind}): a record that is in all of its releases, as far as the "
    "curator's ledger has them, is protected at ε <= {epsilon:up}{delta} in total{disjoint}."
)
INFINITE = (
    "release {number} of the population {population} ({kind}): by the curator's ledger, its releases have no finite "
    "total ε{disjoint}."
)
LATER = "A later release of the same persons adds its own ε to this one."
EARLIER = "The levels of this release are those of this release alone. With the earlier ones together, {guesses}."
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


def beside_others(entry: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return what a page says of the other releases of the same persons: the total, and what it means for guesses.

    >>> total = {"number": 2, "population": "p", "kind": "wave", "total": {"epsilon": 6.0}}
    >>> beside_others(total)[1].partition(" together, ")[2]
    'of 100 guesses between two equally likely values, 50 are right without the release and at most 99.8 with it.'
    >>> beside_others(None)
    ()
    """
    if not entry:
        return ()
    epsilon, delta = entry["total"]["epsilon"], entry["total"].get("delta", 0.0)
    told = tuple(f"This is {text}" for text in series(entry))
    if entry["number"] == 1:
        return (*told, LATER)
    if entry.get("disjoint") or epsilon is None:
        return told
    return (*told, fill(EARLIER, guesses=guesses_in_words(epsilon, delta=delta)))
