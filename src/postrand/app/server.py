"""The connection of browser and decisions behind the first screen: actions in, screens out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from htmltools import TagList, tags
from shiny import Inputs, reactive, render

from postrand.app import (
    comparison_screen,
    computations,
    designing,
    documents,
    forms,
    houses,
    houses_view,
    levels,
    linked_view,
    plan_server,
    plan_views,
    precision,
    precision_views,
    release_screen,
    risk_screen,
    split_views,
    views,
    widgets,
)
from postrand.app.decisions import Decisions
from postrand.app.designing import Designed
from postrand.app.page import SCREENS
from postrand.app.parts import SELECTORS, Part, parts
from postrand.app.problems import Problem, attempt
from postrand.app.tabs import Tab
from postrand.certification.plain_words import household_levels


def connect(input: Inputs, tab: Callable[[], Tab]) -> None:
    """Connect the outputs that the first screen does not wait for: previews, proposals, and all other screens."""
    part = parts(tab, _SELECTORS)
    _of_data(tab, part)
    risk_screen.connect(input, tab, part)
    _design_screen(tab, part)
    comparison_screen.connect(tab, part)
    release_screen.screens(input, tab, part)
    _commands(tab)


def acted(here: Tab, action: str, key: str, value: str) -> None:
    """Do what a person asked for."""
    if action == "demo":
        here.start(here.open(None))
    elif action == "against":
        here.against.set(here.now.shaping)
    elif action == risk_screen.ACTION:
        pass  # no decision: the screen itself hears it
    elif not (release_screen.did(here, action, key, value) or plan_server.acted(here, action, value)):
        here.change(action, key, value)


_OF_ALL = ("split.", "file.")
"""How the boxes begin that are not options of a family: no variable's own design depends on them."""


def _family(decisions: Decisions) -> Any:
    return decisions.model, decisions.objective, decisions.structure


def _options(decisions: Decisions) -> Any:
    level = forms.level_of(forms.member("privacy", decisions.model))
    moving = f"privacy.{decisions.model}.{level.name}" if level else ""
    own = {k: v for k, v in decisions.values.items() if not k.startswith(_OF_ALL)}
    return tuple(sorted((k, v) for k, v in own.items() if k != moving))


def _together(decisions: Decisions) -> Any:
    deltas = levels.delta_text(decisions) if decisions.asks in ("stated", "file") else ""
    own = decisions.way, decisions.workload, decisions.core, decisions.held, decisions.goal, deltas, decisions.strata
    return *own, decisions.kept.get("unit"), houses.household(decisions)


_SELECTORS: dict[str, Callable[[Decisions], Any]] = {
    **SELECTORS,
    "keys": lambda b: (b.opened, b.keys, b.fraction, b.roles, houses.person(b)),
    "forms": lambda b: (b.opened, *_family(b), b.prior, b.perturbed, *_together(b)),
    "curve": lambda b: (b.opened, *_family(b), b.prior, _options(b), b.shown),
    "level": lambda b: (b.opened, b.model, b.way, b.goal, b.is_plain),
    "shown": lambda b: (b.opened, b.shown, b.pair, b.perturbed, b.way, b.held),
    "release": lambda b: (b.opened, b.format, b.shuffle, b.completed),
    "all": lambda b: b,
    **plan_server.SELECTORS,
}


def _of_data(tab: Callable[[], Tab], part: Part) -> None:
    @render.ui
    def linked() -> Any:
        decisions = part("roles")
        sample, _ = tab().ask("linked", decisions.opened, lambda: linked_view.sample_of(decisions))
        if sample is None or isinstance(sample, Problem):  # the table below needs no proposals
            return None
        key = ("linked", decisions.opened, decisions.roles, decisions.perturb)
        found = tab().keep(key, lambda: (linked_view.proposals(decisions, sample),))
        return linked_view.linked_card(decisions, found[0])

    plan_server.of_file(tab, part)


def _design_screen(tab: Callable[[], Tab], part: Part) -> None:
    @render.ui
    def design_form() -> Any:
        tab().jumps()
        return views.design_form(part("forms"))

    @render.ui
    def level() -> Any:
        tab().jumps()
        return views.level_control(part("level"))

    @render.ui
    def shown() -> Any:
        decisions = part("shown")
        if not decisions.perturbed:
            return widgets.trouble(
                "No variable is perturbed yet. Choose the role key for a variable with categories on the first screen."
            )
        if not decisions.is_plain:
            return None
        return views.chooser(decisions, "shown", "", decisions.shown, "Shown for the variable")

    @reactive.calc
    def whole() -> tuple[Designed | Problem | None, bool]:
        return _whole(tab(), part("all"))

    @reactive.calc
    def now() -> computations.Point | Problem | None:
        decisions = part("all")
        if not decisions.perturbed or not decisions.is_plain:
            return None
        if not decisions.divides:
            return _attempted(tab(), decisions, decisions.shown)
        made, _ = whole()
        if not isinstance(made, Designed):
            return made
        return _attempted(tab(), decisions, decisions.shown, made)

    plan_server.of_plan(tab, part)
    _design_readouts(tab, part, now, whole)
    _design_pictures(tab, part, now, whole)


Whole = Callable[[], tuple[Designed | Problem | None, bool]]


def _design_readouts(tab: Callable[[], Tab], part: Part, now: Callable[[], Any], whole: Whole) -> None:
    @render.ui
    def readout() -> Any:
        decisions, found = part("all"), now()
        if not decisions.perturbed:
            return None
        made: Designed | None = None
        if not decisions.is_plain or decisions.divides:
            answer, waiting = whole()
            if waiting:
                return widgets.busy("Designing …")
            if isinstance(answer, Problem):
                return widgets.trouble(answer.text.split("\n"))
            if answer is not None and answer.split is not None and decisions.opened is not None:
                if not answer.plan.blocks:
                    return split_views.readout(answer.split, decisions.opened.rows)
                shown = split_views.readout(answer.split, decisions.opened.rows, "ε of the split, at most")
                return TagList(_blocks(tab(), decisions, answer), tags.h3("The split"), shown)
            if answer is not None and not decisions.is_plain:
                return _blocks(tab(), decisions, answer)
            made = answer
        if found is None:
            return None
        if isinstance(found, Problem):
            return widgets.trouble(found.text.split("\n"))
        total = None if made is None else made.certificate.account.total
        pair, error = tuple(j for j in dict.fromkeys(decisions.pair) if decisions.is_perturbed(j)), None
        tried = [_attempted(tab(), decisions, j, made) for j in pair]
        points = [p for p in tried if not isinstance(p, Problem)]
        if len(pair) == len(points) == 2:  # the problem of another variable is said where that one is shown
            error = computations.table_error(points, _counts(tab(), decisions, pair))
        return views.readout(decisions, found, error, [decisions.names[j] for j in pair], total)

    @render.ui
    def every() -> Any:
        decisions = part("all")
        made, waiting = whole()
        if waiting and decisions.is_plain:
            return widgets.busy("Designing every variable …")
        if not isinstance(made, Designed) or decisions.opened is None:
            return None  # what is wrong stands above
        rows = decisions.opened.rows
        found = tab().keep(("precisions", made), lambda: precision.precisions(made, rows))
        shown = precision_views.precision_view(decisions, found, rows)
        return TagList(shown, houses_view.levels_view(household_levels(made.mechanism)))

    @render.ui
    def file_level() -> Any:
        decisions = part("all")
        if decisions.asks in ("record", "shared") and not decisions.is_of_plan:
            return None
        made, waiting = whole()
        above = not decisions.is_plain or decisions.divides  # then the read-out says what is wrong
        if isinstance(made, Problem) and not above:
            return widgets.trouble(made.text.split("\n"))
        if waiting or not isinstance(made, Designed):
            return widgets.busy("Computing the level of the file …") if waiting and not above else None
        return split_views.file_level(made.certificate.file)

    @render.ui
    def against() -> Any:
        decisions = part("all")
        if decisions.splits and not isinstance(whole()[0], Designed):
            return None
        shown = not decisions.is_of_plan and len(decisions.perturbed) > 2
        shown = shown and (decisions.splits or decisions.model == "differential")
        return _comparison(tab(), decisions) if shown else None


def _design_pictures(tab: Callable[[], Tab], part: Part, now: Callable[[], Any], whole: Whole) -> None:
    @render.ui
    def map() -> Any:
        decisions, found = part("all"), now()
        if not decisions.is_plain:
            made, _ = whole()
            rows = 0 if decisions.opened is None else decisions.opened.rows
            return split_views.design_view(made.split, rows) if isinstance(made, Designed) and made.split else None
        if found is None or isinstance(found, Problem):
            return None
        key = _SELECTORS["curve"](decisions)
        counted = _counts(tab(), decisions, (decisions.shown,))
        points, waiting = tab().ask("curve", key, lambda: computations.curve(decisions, counted))
        if isinstance(points, Problem):
            return widgets.trouble(points.text.split("\n"))
        return views.map_view(decisions, points or (), found, waiting)

    @render.ui
    def matrix() -> Any:
        decisions, found = part("all"), now()
        if found is None or isinstance(found, Problem):
            return None
        variable = documents.codebook_of(decisions)[decisions.names[decisions.shown]]
        return views.matrix_view(variable.code_labels, found, variable.name)


def _whole(tab: Tab, decisions: Decisions) -> tuple[Designed | Problem | None, bool]:
    """Return the design of the whole plan, and whether it is being made; nothing while choices are missing."""
    if documents.problems(decisions):
        return None, False
    asked: tuple[Any, bool] = tab.ask("designed", decisions.shaping, lambda: tab.latest.designed(decisions, tab.folder))
    return asked


def _blocks(tab: Tab, decisions: Decisions, made: Designed) -> Any:
    """Return every block of the whole design, and what tables are worth."""
    rows = 0 if decisions.opened is None else decisions.opened.rows
    two = tab.keep(("worths", made), lambda: designing.worths(made, rows)[1])
    found = tab.keep(("precisions", made), lambda: precision.precisions(made, rows))
    one = [variable.one for variable in found]  # the same numbers as in the table of every variable
    return plan_views.whole_view(made, one, two)


def _comparison(tab: Tab, decisions: Decisions) -> Any:
    """Return the comparison if it was asked for these decisions: it takes seconds, so it does not follow the slider."""
    found, waiting = None, False
    if tab.against() == decisions.shaping:
        found, waiting = tab.ask(
            "against", decisions.shaping, lambda: designing.compared(decisions, tab.folder, tab.latest)
        )
    if isinstance(found, Problem):
        return widgets.trouble(found.text.split("\n"))
    rows = 0 if decisions.opened is None else decisions.opened.rows
    return split_views.comparison(found, waiting, rows)


def _counts(tab: Tab, decisions: Decisions, columns: tuple[int, ...]) -> Any:
    return tab.keep((decisions.opened, columns), lambda: computations.counts(decisions, columns))


def _attempted(
    tab: Tab, decisions: Decisions, column: int, whole: Designed | None = None
) -> computations.Point | Problem:
    """Return the design of one variable at its own level, or at that of the whole design, or a problem."""
    level = None if whole is None else whole.level(decisions.names[column])
    own = tuple(sorted((k, v) for k, v in decisions.values.items() if not k.startswith(_OF_ALL)))
    key = (decisions.opened, column, *_family(decisions), decisions.prior, own, level)
    counted = _counts(tab, decisions, (column,))
    found: computations.Point | Problem
    found = attempt(lambda: tab.keep(key, lambda: computations.point(decisions, counted, level)))
    return found


def _commands(tab: Callable[[], Tab]) -> None:
    for key, _, _ in SCREENS:
        _command(tab, key)


def _command(tab: Callable[[], Tab], key: str) -> None:
    def shown() -> Any:
        return widgets.copyable(documents.commands(tab().decisions(), key), "Command line")

    shown.__name__ = f"command_{key}"  # the page knows an output by the name of its function
    render.ui(shown)
