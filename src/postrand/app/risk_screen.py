"""The risk screen's part of the server: what is computed when, in the background, and shown where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from htmltools import TagList
from shiny import Inputs, reactive, render

from postrand.app import computations, documents, exploring, houses, measure_views, risk_views, views, widgets
from postrand.app.decisions import Decisions
from postrand.app.problems import Problem
from postrand.app.tabs import Tab
from postrand.risk.file import RiskFile

ACTION = "records"
"""A request to see single records. It is no decision: nothing keeps it, and a page that is loaded anew has none."""
Part = Callable[[str], Decisions]


def keys_of(tab: Tab, decisions: Decisions) -> tuple[RiskFile | Problem | None, bool]:
    """Return the keys of the open file, read once for all results, and whether they are being read."""
    found: tuple[RiskFile | Problem | None, bool]
    found = tab.ask("keys", read_as(decisions), lambda: computations.read_keys(decisions))
    return found


def read_as(decisions: Decisions) -> tuple[Any, ...]:
    """Return all that the keys of a file depend on."""
    return decisions.opened, decisions.roles, decisions.kept


def whole_of(tab: Tab, decisions: Decisions) -> tuple[RiskFile | Problem | None, bool]:
    """Return the keys with the share of the population, and whether they are being read."""
    file, waiting = keys_of(tab, decisions)
    if waiting or file is None or isinstance(file, Problem):
        return file, waiting
    wanted = (file, decisions.fraction)
    found: tuple[RiskFile | Problem | None, bool]
    found = tab.ask("share", wanted, lambda: computations.included(decisions, file))
    return found


def connect(input: Inputs, tab: Callable[[], Tab], part: Part) -> None:
    """Show the risk of the open file; what takes long comes later."""

    @render.ui
    def risk_form() -> Any:
        return views.risk_form(part("keys"))

    @render.ui
    def risk() -> Any:
        decisions = part("keys")
        file, reading = keys_of(tab(), decisions)
        if isinstance(file, Problem):
            return widgets.trouble(file.text.split("\n"))
        counted, counting = (
            (None, False)
            if file is None
            else tab().ask("counted", file, lambda: computations.assess(decisions, False, file))
        )
        if reading or counting:
            return widgets.busy("Counting …")
        if isinstance(counted, Problem):
            return widgets.trouble(counted.text.split("\n"))
        recoded = counted is not None and bool(documents.codebook_of(decisions).recodes)
        modelled, waiting = None, False
        if file is not None and (decisions.fraction or "weight" in decisions.roles):
            modelled, waiting = reported(tab(), decisions)
        if isinstance(modelled, Problem):
            said = widgets.trouble(modelled.text.split("\n"))
            return TagList(said, risk_views.risk_view(counted, None, False, recoded, person=houses.person(decisions)))
        _, answer, _ = explored_of(tab(), decisions)
        attacks = answer.attacks if isinstance(answer, exploring.Explored) else None
        return risk_views.risk_view(counted, modelled, waiting, recoded, attacks, houses.person(decisions))

    _explore(input, tab, part)

    @render.ui
    def measures() -> Any:
        decisions = part("keys")
        file, waiting = whole_of(tab(), decisions)
        found: Any = file
        if isinstance(file, RiskFile) and file.has_inclusion:
            _, waiting = reported(tab(), decisions)  # first: it is shown above, and the measures use its model
        if isinstance(file, RiskFile) and not waiting:
            found, waiting = tab().ask("measures", file, lambda: computations.measures(decisions, file))
        if isinstance(found, Problem):
            return widgets.trouble(found.text.split("\n"))
        return widgets.busy("Measuring …") if waiting else measure_views.measures_view(found)


def reported(tab: Tab, decisions: Decisions) -> tuple[Any, bool]:
    """Return the report of the file as it is, with τ1 and τ2 where the share of the population is known."""
    file, waiting = whole_of(tab, decisions)
    if waiting or not isinstance(file, RiskFile):
        return file, waiting
    answer: tuple[Any, bool] = tab.ask("modelled", file, lambda: computations.assess(decisions, True, file))
    return answer


def explored_of(tab: Tab, decisions: Decisions) -> tuple[Any, Any, bool]:
    """Return the keys of the open file, what was explored of them, and whether something of it is being computed."""
    file, waiting = keys_of(tab, decisions)
    if not isinstance(file, RiskFile):
        return file, None, waiting
    book = documents.codebook_of(decisions)
    answer, waiting = tab.ask("explored", file, lambda: exploring.explored(file, book))
    return file, answer, waiting


def _explore(input: Inputs, tab: Callable[[], Tab], part: Part) -> None:
    asked: reactive.Value[Any] = reactive.Value(None)

    @reactive.effect
    @reactive.event(input.act)
    def _() -> None:
        said = input.act()
        if said.get("act") == ACTION:
            now = tab().now
            asked.set(read_as(now) if said.get("key") == "show" else None)

    @render.ui
    def explored() -> Any:
        decisions = part("keys")
        file, answer, waiting = explored_of(tab(), decisions)
        if waiting:
            return widgets.busy("Looking for what singles records out …")
        if isinstance(answer, Problem):
            return widgets.trouble(answer.text.split("\n"))
        if not isinstance(file, RiskFile):
            return None
        return risk_views.explored_view(answer, houses.person(decisions))

    @render.ui
    def records() -> Any:
        decisions = part("keys")
        file, answer, waiting = explored_of(tab(), decisions)
        if waiting or not isinstance(answer, exploring.Explored):
            return None
        wanted = asked() == read_as(decisions)
        shown = exploring.exposed(file, answer.search, documents.codebook_of(decisions)) if wanted else None
        return risk_views.records_view(decisions.keys, shown)
