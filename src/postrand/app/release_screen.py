"""The screens of the release, connected: the check before it, the run, the list of releases, files and verification."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from htmltools import TagList, tags
from shiny import Inputs, reactive, render

from postrand.app import check_view, checking, houses, release_views, shelf_views, views, widgets
from postrand.app.decisions import Decisions
from postrand.app.designing import read_state
from postrand.app.finished import Finished
from postrand.app.problems import Problem
from postrand.app.tabs import Tab, check_key
from postrand.errors import PostrandError

Part = Callable[[str], Decisions]


def did(tab: Tab, action: str, key: str, value: str) -> bool:
    """Do what an action asks of releases and of the history; return False for every other action."""
    number = int(key) if key.isascii() and key.isdigit() and len(key) <= 8 else 0
    plain: dict[str, Callable[[], object]] = {
        "protect": tab.protect,
        "cancel": tab.stop,
        "undo": tab.undo,
        "redo": tab.redo,
        "seen": tab.seen,
        "open_typed": tab.open_typed,
        "written": lambda: tab.typed.update({key[:40]: value[:4000]}),
        "choose": lambda: tab.choose(number),
        "recall": lambda: tab.recall(number),
        "removing": lambda: tab.removing.set(number),
        "remove": lambda: tab.remove(number),
        "verify": lambda: tab.verify(number),
        "save": lambda: tab.start(tab.save(number)),
        "house": lambda: tab.decide(houses.chosen(tab.now, key, value)),
    }
    if action in plain:
        plain[action]()
    return action in plain


def shown(tab: Tab) -> Finished | None:
    """Return the finished release that the screens show."""
    return tab.shelf().find(tab.chosen())


def banner(tab: Tab) -> Any:
    """Return the banner of a release whose decisions are no longer those of the screens, or nothing."""
    one = shown(tab)
    return None if one is None else release_views.stale(one, tab.decisions())


def screens(input: Inputs, tab: Callable[[], Tab], part: Part) -> None:
    """Connect the outputs of the screens Protect and Download, and the buttons of the history."""
    _protect_screen(tab, part)
    _take_screen(tab)

    @render.ui
    def history() -> Any:
        here = tab()
        here.decisions()
        heard = input.act().get("sent", 0) if input.act.is_set() else 0
        return shelf_views.history_view(here.history, int(heard))

    @render.ui
    def by_path() -> Any:
        return shelf_views.open_form(tab().typed.get("open", ""))


def is_listed(one: Finished | None, decisions: Decisions) -> bool:
    """Return whether a release has the check of these decisions beside it; one that was opened again has none."""
    return one is not None and one.check is not None and one.is_of(decisions)


def check_of(tab: Tab, decisions: Decisions) -> tuple[checking.ReleaseCheck | str | None, bool]:
    """Return the check of a release by these decisions of the file as it is now, and whether it is being made."""
    key = check_key(decisions), read_state(decisions)
    found, waiting = tab.ask("check", key, lambda: checking.checked(decisions, tab.folder, tab.latest))
    return (found.text if isinstance(found, Problem) else found), waiting


def risk_of(tab: Tab, decisions: Decisions, check: checking.ReleaseCheck) -> checking.RiskTable | str | None:
    """Return the risk of a design that was checked, or why it is not known; None while it is being measured.

    What else a run needs is computed after it.
    """
    made = check.made
    assert made is not None
    wanted = partial(tab.wants, "plan risk", made)
    found, _ = tab.ask("plan risk", made, lambda: checking.risk_of(decisions, check, tab.latest, wanted))
    if isinstance(found, checking.RiskTable):
        tab.beforehand(made, lambda: checking.prepared(decisions, made, tab.latest))
    risk: checking.RiskTable | str | None = found.text if isinstance(found, Problem) else found
    return risk


def _protect_screen(tab: Callable[[], Tab], part: Part) -> None:
    @render.ui
    def protect_form() -> Any:
        return release_views.protect_form(part("release"))

    @reactive.calc
    def asked() -> tuple[checking.ReleaseCheck | str | None, bool]:
        here = tab()
        return (None, False) if here.watch() is not None else check_of(here, part("all"))

    @render.ui
    def check() -> Any:
        found, _ = asked()
        one = shown(tab())
        if not isinstance(found, checking.ReleaseCheck) or is_listed(one, part("all")):
            return None
        return check_view.check_view(part("all"), found)

    @render.ui
    def check_risk() -> Any:
        here, decisions, found = tab(), part("all"), asked()[0]
        if not isinstance(found, checking.ReleaseCheck) or found.made is None or is_listed(shown(here), decisions):
            return None
        return check_view.risk_view(risk_of(here, decisions, found), found.warnings)

    @render.ui
    def protect() -> Any:
        here = tab()
        watch = here.watch()
        if watch is not None:
            reactive.invalidate_later(0.25)
        found, waiting = asked()
        return release_views.protect_view(part("all"), watch, here.ended(), shown(here), found, waiting)


def _take_screen(tab: Callable[[], Tab]) -> None:
    @render.ui
    def downloads() -> Any:
        here, one = tab(), shown(tab())
        if one is None and here.watch() is not None:
            return tags.p("The file is being protected. Its release will be here when it is done.", role="status")
        if one is None:
            words = "Protect the file first, or choose a release. The plan as it is decided now is already shown here."
            return tags.p(words, class_="soft")
        return shelf_views.files_view(one, here.typed, here.shelf().told.get(one.number, ""))

    @render.ui
    def verification() -> Any:
        here, one = tab(), shown(tab())
        if one is None:
            return None
        running = here.verifying()
        if running is not None:
            reactive.invalidate_later(0.25)
        return shelf_views.verification_view(one, here.shelf().verified.get(one.number), running)

    @render.ui
    def take() -> Any:
        here, one, decisions = tab(), shown(tab()), tab().decisions()
        if one is None:
            return _safe(lambda: views.take_view(decisions, here.folder))
        now = None if one.is_of(decisions) else _safe(lambda: views.take_view(decisions, here.folder))
        return shelf_views.plan_view(one, now)

    @render.ui
    def releases() -> Any:
        here = tab()
        listed = shelf_views.shelf_view(here.shelf(), here.chosen(), here.removing(), here.decisions())
        return TagList(banner(here), listed)


def _safe(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except PostrandError as error:
        return widgets.trouble(error.told)
