"""The part of the server for the screen before and after: what is computed when, and shown where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from htmltools import TagList, tags
from shiny import render

from postrand.app import (
    comparison_views,
    computations,
    documents,
    houses,
    recoding,
    release_screen,
    risk_screen,
    widgets,
)
from postrand.app.decisions import Decisions
from postrand.app.problems import Problem
from postrand.app.tabs import Tab
from postrand.release import Release
from postrand.risk import RiskReport

RUNNING = "The file is being protected. When that is done, this screen shows the risk and tables of the release."
NOTHING = "Protect the file first. Then this screen shows the risk and its tables before, released and corrected."


def connect(tab: Callable[[], Tab], part: risk_screen.Part) -> None:
    """Show what the last release still tells, and to whom."""

    @render.ui
    def pair() -> Any:
        return comparison_views.table_form(part("shown"))

    @render.ui
    def compare() -> Any:
        here, made = tab(), tab().made()
        if made is None:
            return tags.p(RUNNING, role="status") if here.watch() is not None else tags.p(NOTHING, class_="soft")
        release, decisions = made
        is_here = _is_same_file(part("shown"), decisions)
        columns = tuple(dict.fromkeys(part("shown").pair if is_here else decisions.pair))
        chosen = replace(decisions, fraction=part("keys").fraction) if is_here else decisions
        frame, reading = here.ask("frame", id(release), release.frame)
        if reading or isinstance(frame, Problem):
            return widgets.busy("Reading the release …") if reading else widgets.trouble(frame.text)
        table, one = here.ask("table", (release, columns), lambda: _margin(here, decisions, release, columns))
        risks, two = _risks(here, chosen, release, part("keys"))
        attacks, three = here.ask("attacks", release, lambda: computations.attacks(release))
        recoded = bool(documents.codebook_of(decisions).recodes)
        came, four = here.ask("as it came", chosen, lambda: _as_it_came(chosen)) if recoded else (None, False)
        found = comparison_views.compare_view(
            table.text if isinstance(table, Problem) else table,
            None if isinstance(risks, Problem) else risks,
            one or two or three or four,
            release.mechanism.split,
            () if attacks is None or isinstance(attacks, Problem) else attacks,
            recoded,
            _together(here),
            came if isinstance(came, RiskReport) else None,
            houses.person(decisions),
        )
        return TagList(release_screen.banner(here), found)


def _as_it_came(decisions: Decisions) -> RiskReport | None:
    return computations.as_it_came(recoding.without_recodes(decisions))


def _together(here: Tab) -> str:
    """Return what the unperturbed variables of the release that is shown single out together; empty if not known."""
    one = release_screen.shown(here)
    return "" if one is None or one.check is None else one.check.together


def _is_same_file(now: Decisions, made: Decisions) -> bool:
    """Whether the release is one of the open file, whose variables can have been edited since."""
    if now.opened is None or made.opened is None:
        return False
    return (now.opened.path, now.names) == (made.opened.path, made.names)


def _risks(tab: Tab, chosen: Decisions, release: Release, now: Decisions) -> tuple[Any, bool]:
    """Return the risk before and after; what the risk screen has found of the same file is not computed again."""
    before: Any = None
    if risk_screen.read_as(now) == risk_screen.read_as(chosen):
        before, waiting = risk_screen.reported(tab, chosen)
        if waiting:
            return None, True
    known = before if isinstance(before, RiskReport) else None
    wanted = (release, chosen.fraction, known)
    answer: tuple[Any, bool] = tab.ask("risks", wanted, lambda: computations.risks(chosen, release, known))
    return answer


def _margin(tab: Tab, decisions: Decisions, release: Release, columns: tuple[int, ...]) -> computations.Margin:
    known = {name for name in release.codebook.names if release.codebook[name].is_categorical}
    left = [decisions.names[j] for j in columns if decisions.names[j] not in known]
    computations.require_released(left)
    counted = tab.keep((decisions.opened, columns), lambda: computations.counts(decisions, columns))
    return computations.margin(decisions, release, counted, columns)
