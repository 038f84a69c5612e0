"""Unperturbed variables on the screen that protects a file: every finding, and the decisions that are needed."""

from __future__ import annotations

from typing import Any

from htmltools import TagList, tags

from postrand.app.charts import cut
from postrand.app.decisions import Decisions
from postrand.app.widgets import control
from postrand.risk import Findings


def clear_view(decisions: Decisions, found: Findings, decide: bool = True) -> TagList:
    """Return every finding about unperturbed variables, and a box for each column that needs a decision."""
    if not found.sentences:
        return TagList(tags.p("No unperturbed variable singles out more than 1% of the records.", class_="soft"))
    parts: list[Any] = [tags.p(tags.strong("Unperturbed variables")), tags.ul(*(tags.li(s) for s in found.sentences))]
    asked = [n for n in decisions.names if n in found.undecided or n in decisions.decided] if decide else []
    for name in asked:
        checked = "checked" if name in decisions.as_is else None
        box = control("input", "as_is", str(decisions.names.index(name)), type="checkbox", checked=checked)
        parts.append(tags.label(box, f" Release {cut(name)} as it is", class_="field"))
    if decide and found.undecided:
        parts.append(tags.p("Or set the role drop on the first screen.", class_="soft"))
    return TagList(*parts)
