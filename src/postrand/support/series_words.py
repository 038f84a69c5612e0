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
TWICE = (
    "If the same persons are in another release, earlier or later, whoever puts the two side by side can know as much "
    "as from one release with the sum of their epsilons."
)
"""What no release guarantees alone."""
LATER = "A later release of the same persons adds its own ε to this one."
EARLIER = "The levels of this release are those of this release alone. With the earlier ones together, {guesses}."
ALONE = (
    "All else that is said of guesses, households and risk is of this release alone: who also has the earlier ones "
    "finds more, and unperturbed columns that several releases have link the records of a person in them. How many can "
    "be linked is not measured."
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


def beside_others(entry: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return what a page says of the other releases of the same persons: the total, and what it means for guesses.

    >>> total = {"number": 2, "population": "p", "kind": "wave", "total": {"epsilon": 6.0}}
    >>> beside_others(total)[1].partition(" together, ")[2]
    'of 100 guesses between two equally likely values, 50 are right without and at most 99.8 with the perturbed values.'
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


def total_first(entry: Mapping[str, Any] | None, size: int = 2) -> tuple[str, ...]:
    """Return what is said before the claims of a later release: the total, its guesses, and that the rest is without.

    ``size`` is the number of values that the largest claim is about.

    >>> total = {"number": 2, "population": "p", "kind": "wave", "total": {"epsilon": 10.0}}
    >>> total_first(total, 2160)[0].rpartition("; ")[2]
    'of 100 guesses among 2,160 equally likely values, 0.046 without and at most 91.1 with them.'
    >>> total_first(total)[1].rpartition(". ")[2]
    'How many can be linked is not measured.'
    >>> total_first({**total, "number": 1})
    ()
    """
    if not entry or entry["number"] == 1 or entry.get("disjoint"):
        return ()
    epsilon, delta, number = entry["total"]["epsilon"], entry["total"].get("delta", 0.0), entry["number"]
    who = f"A record in all {number} releases of the population {entry['population']}"
    if epsilon is None:
        return (f"{who} has no finite ε in total, and so no bound on guesses.", ALONE)
    level = fill("ε <= {epsilon:up}", epsilon=epsilon) + (fill(DELTA, delta=delta) if delta else "")
    return (f"{who} has {level} in total: {guesses_in_words(epsilon, size, delta)}.", ALONE)


def together(entry: Mapping[str, Any]) -> str:
    """Return in a few words where a release stands in its series, and the total.

    >>> together({"number": 2, "population": "p", "kind": "wave", "total": {"epsilon": 6.0}})
    'ε <= 6 with all releases so far; this is number 2 of the population p'
    """
    total = entry["total"]
    level = "no finite ε" if total["epsilon"] is None else fill("ε <= {epsilon:up}", epsilon=total["epsilon"])
    level += fill(DELTA, delta=total["delta"]) if total.get("delta") else ""
    return f"{level} with all releases so far; this is number {entry['number']} of the population {entry['population']}"
