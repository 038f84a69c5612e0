"""The connection of browser and decisions for whole files and plans: reading, editing, recommending, explaining."""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shiny import reactive, render

from postrand.app import (
    advice_views,
    advising,
    designing,
    documents,
    editor_views,
    frontier,
    frontier_views,
    plan_views,
    reading,
    reading_views,
    recoding,
    widgets,
)
from postrand.app.decisions import Decisions
from postrand.app.problems import Problem, attempt
from postrand.app.tabs import WAITING, Tab
from postrand.formats import ReadSettings, path_of, suffix_of
from postrand.workflow.advice import Advice

Part = Callable[[str], Decisions]
SELECTORS: dict[str, Callable[[Decisions], Any]] = {
    "editor": lambda b: (b.opened, b.edited, b.kept, recoding.typed(b).get("kind")),
    "tried": lambda b: (b.opened, b.edited, b.kept, b.roles, recoding.typed(b)),
    "asked": lambda b: (b.opened, b.perturbed, frontier.can_draw(b)),
    "drawn": lambda b: (b.opened, b.perturbed, b.model, b.way, b.held, b.goal, b.values),
}
"""What the screens of this module depend on."""


def acted(here: Tab, action: str, value: str) -> bool:
    """Take an action that reads the file or shows more of it; return whether it was one."""
    if action not in _ACTIONS:
        return False
    _ACTIONS[action](here, value)
    return True


def uploaded(folder: Path, name: str) -> Path:
    """Return where an uploaded file waits until it is read: a folder of its own, so that messages have its name."""
    suffix = suffix_of(name)
    stem = re.sub(r"[^\w.\- ]", "_", Path(name).name.removesuffix(suffix))[:100] or "file"
    own = folder / f"{WAITING}{secrets.token_hex(8)}"
    own.mkdir(mode=0o700)
    return own / f"{stem}{suffix}"


def _read(here: Tab, value: str) -> None:
    """Read the file again in the way that was chosen: the one that waits, otherwise the one that is open."""
    with reactive.isolate():
        waiting, opened = here.pending(), here.now.opened
    given = attempt(lambda: reading.settings_of(here.now))
    if isinstance(given, Problem):
        here.opening.set(given)
    elif waiting is not None:
        here.start(here.open(waiting[0], waiting[1], given))
    elif here.now.kept:
        here.opening.set(Problem("The plan depends on how the file is read. Open the file anew to read it otherwise."))
    elif opened is not None:
        path = path_of(opened.path)
        here.start(here.open(path, opened.name if here.folder in path.parents else "", given))


def _taken(here: Tab, value: str) -> None:
    """Make one of the recommended plans the decisions."""
    with reactive.isolate():
        asked = here.advising()
        found, _ = (None, False) if asked is None else here.ask("advice", asked, lambda: None)
    if isinstance(found, Advice) and value.isdecimal():
        here.start(here.edit(lambda decisions: advising.taken(decisions, found, int(value), here.folder)))


def _recoded(here: Tab, action: str, value: str) -> None:
    """Use the recode in the editor of a column, or show what it changes."""
    at = here.now.edited
    if at is None or value != str(at):
        return
    asked = (here.now.shaping, at, recoding.typed(here.now))
    if action == "recode":
        # What is wrong stands below the form once, whichever button was pressed: the trial finds the same.
        here.start(here.edit(lambda decisions: recoding.used(decisions, at), lambda _: here.trying.set(asked)))
    else:
        here.trying.set(asked)


def _explain(here: Tab, value: str) -> None:
    here.explaining.set(here.now.shaping)


def _draw(here: Tab, value: str) -> None:
    target = attempt(lambda: frontier.target_of(here.now))
    if isinstance(target, Problem):
        here.decisions.set(dataclasses.replace(here.now, problem=target.text))
    else:
        here.drawing.set((here.now, target))


def _point(here: Tab, value: str) -> None:
    """Take a point of the frontier: a way of release, and a level of a record."""
    way, _, level = value.partition(":")
    after = attempt(lambda: frontier.at_level(here.now, way, float(level or "nan")))
    if not isinstance(after, Problem):
        here.decide(after)


def _advise(here: Tab, value: str) -> None:
    here.advising.set(here.now)


_ACTIONS: dict[str, Callable[[Tab, str], None]] = {
    "read": _read,
    "advise": _advise,
    "take": _taken,
    "recode": lambda here, value: _recoded(here, "recode", value),
    "try": lambda here, value: _recoded(here, "try", value),
    "explain": _explain,
    "draw": _draw,
    "point": _point,
}


def of_file(tab: Callable[[], Tab], part: Part) -> None:
    """Show the first rows of the file, and the editor of a variable."""

    @render.ui
    def preview() -> Any:
        here, decisions, waiting = tab(), part("file"), tab().pending()
        if waiting is not None:
            chosen = attempt(lambda: reading.settings_of(decisions))
            settings = ReadSettings() if isinstance(chosen, Problem) else chosen
            return reading_views.form(reading.unread(*waiting, settings), is_open=True)
        opened = decisions.opened
        if opened is None:
            return None
        found, _ = here.ask("preview", opened.path, lambda: reading.preview(opened))
        return reading_views.form(found, can=not decisions.kept) if isinstance(found, reading.Preview) else None

    @render.ui
    def editor() -> Any:
        here, decisions = tab(), part("editor")
        at = decisions.edited
        if decisions.opened is None or at is None:
            return None
        key = (decisions.opened.path, at, recoding.recode_of(decisions, decisions.names[at]))
        found, waiting = here.ask("column", key, lambda: recoding.column_of(decisions, at))
        if isinstance(found, Problem):
            return widgets.trouble(found.text.split("\n"))
        return editor_views.editor(decisions, found, waiting)

    @render.ui
    def effect() -> Any:
        here, decisions = tab(), part("tried")
        at = decisions.edited
        key = (decisions.shaping, at, recoding.typed(decisions))
        if at is None or here.trying() != key:  # what is shown is of what is in the boxes, or nothing is
            return None
        found, waiting = here.ask("effect", key, lambda: recoding.effect(decisions, at))
        if isinstance(found, Problem):
            return widgets.trouble(
                [editor_views.in_boxes(one, recoding.typed(decisions)) for one in found.text.split("\n")]
            )
        return editor_views.effect_view(found, waiting, recoding.typed(decisions))


def of_plan(tab: Callable[[], Tab], part: Part) -> None:
    """Show the recommended plans, and the plan in sentences."""

    @render.ui
    def advice_form() -> Any:
        decisions = part("asked")
        return advice_views.form(decisions) if decisions.opened is not None else None

    @render.ui
    def advice() -> Any:
        here, asked = tab(), tab().advising()
        if asked is None:
            return None
        found, waiting = here.ask("advice", asked, lambda: advising.advised(asked, here.folder))
        if isinstance(found, Problem):
            return widgets.trouble(found.text.split("\n"))
        return advice_views.advice(found, waiting)

    @render.ui
    def frontier_form() -> Any:
        decisions = part("asked")
        return frontier_views.form(decisions) if frontier.can_draw(decisions) else None

    @render.ui
    def points() -> Any:
        here, asked, now = tab(), tab().drawing(), part("drawn")
        if asked is None or not frontier.can_draw(now):
            return None
        decisions, target = asked
        found, waiting = here.ask(
            "frontier", asked, lambda: frontier.levels(decisions, here.folder, here.latest, target)
        )
        if isinstance(found, Problem):
            return widgets.trouble(found.text.split("\n"))
        if waiting:
            return widgets.busy("Designing every level …")
        if target.limit is None:  # it takes long, so it is measured where somebody asks for it
            return frontier_views.points(found, {}, target, now, measuring=False)
        wanted = (asked, "risk")
        told, measuring = here.ask("frontier risk", wanted, lambda: frontier.risks(decisions, found, target.measure))
        measured = told if isinstance(told, dict) else {}
        return frontier_views.points(found, measured, target, now, measuring)

    @render.ui
    def explained() -> Any:
        here, decisions = tab(), part("all")
        if documents.problems(decisions) or (here.explaining() != decisions.shaping and not decisions.is_of_plan):
            return plan_views.explained(None, waiting=False) if decisions.perturbed else None
        asked = (decisions.shaping, decisions.fraction)
        found, waiting = here.ask("explained", asked, lambda: designing.explained(decisions, here.folder, here.latest))
        if isinstance(found, Problem):  # where the plan cannot be designed, the read-out above says it
            return None if decisions.is_of_plan else widgets.trouble(found.text.split("\n"))
        return plan_views.explained(found, waiting)
