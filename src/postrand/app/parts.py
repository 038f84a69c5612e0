"""Parts of the decisions: an output is drawn again only when the part changes that it depends on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shiny import reactive

from postrand.app.decisions import Decisions
from postrand.app.tabs import Tab, changed

Part = Callable[[str], Decisions]
SELECTORS: Mapping[str, Callable[[Decisions], Any]] = {
    "file": lambda b: b.opened,
    "variables": lambda b: (b.opened, b.roles, b.perturb, b.find, b.page),
    "roles": lambda b: (b.opened, b.roles, b.perturb),
    "problem": lambda b: b.problem,
}
"""The parts that the first screen depends on."""


def parts(tab: Callable[[], Tab], selectors: Mapping[str, Callable[[Decisions], Any]]) -> Part:
    """Return a function that reads the decisions and depends only on the named part of it."""
    values: dict[str, reactive.Value[Any]] = {name: reactive.Value(None) for name in selectors}

    @reactive.effect(priority=10)
    def _() -> None:
        decisions = tab().decisions()
        forms_drawn = tab().redrawn()
        for name, select in selectors.items():
            changed(values[name], (forms_drawn, select(decisions)))

    def part(name: str) -> Decisions:
        values[name]()
        return tab().now

    return part
