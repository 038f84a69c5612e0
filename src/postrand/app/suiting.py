"""Structures and objectives that suit a privacy model: a choice that is not possible is never made in silence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from postrand.app import forms
from postrand.errors import PostrandError

Make = Callable[[str, str], Any]
"""Makes the chosen privacy model (``"privacy"``, no name) or an objective by its name, with the options of its form."""


def suited(make: Make, objective: str, structure: str) -> tuple[str, str]:
    """Return objective and structure if they are possible; otherwise other structures, then other objectives."""
    for name in dict.fromkeys((objective, *forms.names("objective"))):
        reasons = _reasons(make, name)
        order = dict.fromkeys((structure, *reasons))
        found = next((other for other in order if not reasons.get(other, "unknown")), "")
        if found:
            return name, found
    return objective, structure


def reason(make: Make, objective: str, structure: str) -> str:
    """Return why a structure is not possible with the other choices."""
    return forms.in_titles(_reasons(make, objective).get(structure) or "no shape of the matrices suits it")


def _reasons(make: Make, objective: str) -> Mapping[str, str]:
    try:
        return forms.unsuited(make("privacy", ""), make("objective", objective))
    except PostrandError:  # an unfinished form: its own message explains the problem
        return {}
