"""Structures and objectives that suit a privacy model: a choice that is not possible is never made in silence."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from postrand.app import forms
from postrand.errors import PostrandError

if TYPE_CHECKING:  # the decisions use this room's file
    from postrand.app.decisions import Decisions


def suit(decisions: Decisions) -> Decisions:
    """Keep objective and structure if they are possible; otherwise try other structures, then other objectives."""
    if _suited(decisions) == decisions.structure:
        return decisions
    for objective in dict.fromkeys((decisions.objective, *forms.names("objective"))):
        tried = dataclasses.replace(decisions, objective=objective)
        if found := _suited(tried):
            return dataclasses.replace(tried, structure=found)
    return decisions


def reason(decisions: Decisions, structure: str) -> str:
    """Return why a structure is not possible with the other choices."""
    try:
        reasons = forms.unsuited(decisions.make("privacy"), decisions.make("objective"))
    except PostrandError:  # an unfinished form: its own message explains the problem
        reasons = {}
    return reasons.get(structure) or "no shape of the matrices suits it"


def _suited(decisions: Decisions) -> str:
    """Return the curator's structure if it is possible, otherwise the first possible one, or an empty text."""
    try:
        reasons = forms.unsuited(decisions.make("privacy"), decisions.make("objective"))
    except PostrandError:  # an unfinished form: its own message explains the problem
        return ""
    order = dict.fromkeys((decisions.structure, *reasons))
    return next((name for name in order if not reasons.get(name, "unknown")), "")
