"""The connection of browser and bench: actions in, screens out. No decision is made here."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from htmltools import TagList, tags
from shiny import Inputs, Outputs, Session, reactive, render

from postrand.app import bench as benches
from postrand.app import documents, forms, measure_views, release_views, studies, views, widgets
from postrand.app.bench import Bench
from postrand.app.page import SCREENS
from postrand.app.slots import Problem, Slot, Store, attempt, changed
from postrand.errors import PostrandError


def make_server(store: Store) -> Callable[[Inputs, Outputs, Session], None]:
    """Return the server function of a store of slots."""

    def server(input: Inputs, output: Outputs, session: Session) -> None:
        @reactive.calc
        def slot() -> Slot:
            return store.slot(str(input.bench()))

        _listen(input, slot)
        part = _parts(slot)
        _data_screen(slot, part)
        _risk_screen(slot, part)
        _design_screen(slot, part)
        _last_screens(slot, part)
        _commands(slot)

    return server


def _listen(input: Inputs, slot: Callable[[], Slot]) -> None:
    @reactive.effect
    @reactive.event(input.act)
    def _() -> None:
        said = input.act()
        action, key, value = (str(said.get(k, "")) for k in ("act", "key", "value"))
        here = slot()
        if action == "demo":
            here.start(here.open(None))
        elif action == "protect":
            with reactive.isolate():
                free = here.watch() is None
            if free:
                here.start(here.protect())
        elif action == "cancel":
            here.stop()
        else:
            here.bench.set(benches.act(here.bench_now, action, key, value))

    @reactive.effect
    @reactive.event(input.file)
    def _() -> None:
        files = input.file()
        if files:
            here, name = slot(), str(files[0]["name"])
            incoming = here.folder / f".{secrets.token_hex(8)}{Path(name).suffix.lower()}"
            shutil.move(files[0]["datapath"], incoming)
            here.start(here.open(incoming, name))


Part = Callable[[str], Bench]


def _parts(slot: Callable[[], Slot]) -> Part:
    """Return a function that reads the bench and depends only on the named part of it."""
    values: dict[str, reactive.Value[Any]] = {name: reactive.Value(None) for name in _SELECTORS}

    @reactive.effect(priority=10)
    def _() -> None:
        bench = slot().bench()
        for name, select in _SELECTORS.items():
            changed(values[name], select(bench))

    def part(name: str) -> Bench:
        values[name]()
        return slot().bench_now

    return part


_DECISIONS = ("opened", "roles", "perturb", "model", "objective", "structure", "values", "prior", "format", "shuffle")


def _family(bench: Bench) -> Any:
    return bench.model, bench.objective, bench.structure


def _options(bench: Bench) -> Any:
    level = forms.level_of(forms.member("privacy", bench.model))
    moving = f"privacy.{bench.model}.{level.name}" if level else ""
    return tuple(sorted((k, v) for k, v in bench.values.items() if k != moving))


_SELECTORS: dict[str, Callable[[Bench], Any]] = {
    "file": lambda b: b.opened,
    "variables": lambda b: (b.opened, b.roles, b.perturb, b.find, b.page),
    "roles": lambda b: (b.opened, b.roles, b.perturb),
    "keys": lambda b: (b.opened, b.keys, b.fraction, b.roles),
    "forms": lambda b: (b.opened, *_family(b), b.prior),
    "curve": lambda b: (b.opened, *_family(b), b.prior, _options(b), b.shown),
    "level": lambda b: (b.opened, b.model),
    "shown": lambda b: (b.opened, b.shown, b.pair, b.perturbed),
    "release": lambda b: (b.opened, b.format, b.shuffle),
    "all": lambda b: b,
    "problem": lambda b: b.problem,
}


def _safe(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except PostrandError as error:
        return widgets.trouble(error.problems)


def _data_screen(slot: Callable[[], Slot], part: Part) -> None:
    @render.ui
    def status() -> Any:
        return views.status(part("roles"))

    @render.ui
    def problem() -> Any:
        said = part("problem").problem
        return widgets.trouble(said) if said else None

    @render.ui
    def opening() -> Any:
        said = slot().opening()
        if isinstance(said, Problem):
            return widgets.trouble(said.text.split("\n"))
        return widgets.busy(said) if said else None

    @render.ui
    def variables() -> Any:
        return views.variables(part("variables"))


def _risk_screen(slot: Callable[[], Slot], part: Part) -> None:
    @render.ui
    def risk_form() -> Any:
        return views.risk_form(part("keys"))

    @render.ui
    def risk() -> Any:
        bench = part("keys")
        key = (bench.opened, bench.keys)
        counted, waiting = slot().ask("counted", key, lambda: studies.assess(bench, with_model=False))
        if isinstance(counted, Problem):
            return widgets.trouble(counted.text.split("\n"))
        if waiting:
            return widgets.busy("Counting …")
        modelled = None
        if counted is not None and (bench.fraction or "weight" in bench.roles):
            wanted = (*key, bench.fraction, bench.roles)
            modelled, waiting = slot().ask("modelled", wanted, lambda: studies.assess(bench, with_model=True))
        if isinstance(modelled, Problem):
            return TagList(widgets.trouble(modelled.text.split("\n")), views.risk_view(counted, None, False))
        return views.risk_view(counted, modelled, waiting)

    @render.ui
    def measures() -> Any:
        bench = part("keys")
        wanted = (bench.opened, bench.keys, bench.fraction, bench.roles)
        found, waiting = slot().ask("measures", wanted, lambda: studies.measures(bench))
        if isinstance(found, Problem):
            return widgets.trouble(found.text.split("\n"))
        return widgets.busy("Measuring …") if waiting else measure_views.measures_view(found)


def _design_screen(slot: Callable[[], Slot], part: Part) -> None:
    @render.ui
    def design_form() -> Any:
        return views.design_form(part("forms"))

    @render.ui
    def level() -> Any:
        return views.level_control(part("level"))

    @render.ui
    def shown() -> Any:
        bench = part("shown")
        if not bench.perturbed:
            return widgets.trouble(
                "No variable is perturbed yet. Choose the role key for a variable with categories on the first screen."
            )
        return views.chooser(bench, "shown", "", bench.shown, "Shown for the variable")

    @reactive.calc
    def now() -> studies.Point | Problem | None:
        bench = part("all")
        found: studies.Point | Problem | None = None
        if bench.perturbed:
            found = attempt(lambda: _point(slot(), bench, bench.shown))
        return found

    @render.ui
    def readout() -> Any:
        bench, found = part("all"), now()
        if found is None:
            return None
        if isinstance(found, Problem):
            return widgets.trouble(found.text.split("\n"))
        pair = tuple(dict.fromkeys(bench.pair))
        try:
            points = [_point(slot(), bench, j) for j in pair]
            error = studies.table_error(points, _counts(slot(), bench, pair)) if len(pair) == 2 else None
        except PostrandError:  # the other variable has its own message when it is shown
            error = None
        return views.readout(bench, found, error, [bench.names[j] for j in pair])

    @render.ui
    def map() -> Any:
        bench, found = part("all"), now()
        if found is None or isinstance(found, Problem):
            return None
        key = _SELECTORS["curve"](bench)
        counted = _counts(slot(), bench, (bench.shown,))
        points, waiting = slot().ask("curve", key, lambda: studies.curve(bench, counted))
        if isinstance(points, Problem):
            return widgets.trouble(points.text.split("\n"))
        return views.map_view(bench, points or (), found, waiting)

    @render.ui
    def matrix() -> Any:
        bench, found = part("all"), now()
        if found is None or isinstance(found, Problem):
            return None
        variable = documents.codebook_of(bench)[bench.names[bench.shown]]
        return views.matrix_view(variable.code_labels, found, variable.name)


def _counts(slot: Slot, bench: Bench, columns: tuple[int, ...]) -> Any:
    return slot.keep((bench.opened, columns), lambda: studies.counts(bench, columns))


def _point(slot: Slot, bench: Bench, column: int) -> studies.Point:
    key = (bench.opened, column, *_family(bench), bench.prior, tuple(sorted(bench.values.items())))
    found: studies.Point = slot.keep(key, lambda: studies.point(bench, _counts(slot, bench, (column,))))
    return found


def _last_screens(slot: Callable[[], Slot], part: Part) -> None:
    @render.ui
    def protect_form() -> Any:
        return release_views.protect_form(part("release"))

    @render.ui
    def protect() -> Any:
        here = slot()
        watch, made = here.watch(), here.made()
        if watch is not None:
            reactive.invalidate_later(0.25)
        bench = part("all")
        release, is_current = (None, False) if made is None else (made[0], _same(made[1], bench))
        asked = tuple(getattr(bench, name) for name in (*_DECISIONS, "as_is"))
        found, waiting = None, False
        if watch is None:  # a run measures the same itself
            found, waiting = here.ask("clear", asked, lambda: studies.findings(bench, here.folder))
        found = found.text if isinstance(found, Problem) else found
        return release_views.protect_view(bench, watch, here.ended(), release, is_current, found, waiting)

    @render.ui
    def pair() -> Any:
        bench = part("shown")
        if not bench.perturbed:
            return None
        first, second = bench.pair
        return TagList(
            views.chooser(bench, "pair", "first", first, "Variable"),
            views.chooser(bench, "pair", "second", second, "by"),
        )

    @render.ui
    def compare() -> Any:
        here, made = slot(), slot().made()
        if made is None:
            return tags.p(
                "Protect the file first. Then this screen shows its tables before, released and corrected.",
                class_="soft",
            )
        release, bench = made
        shown, chosen = part("shown").pair, replace(bench, fraction=part("keys").fraction)
        frame, reading = here.ask("frame", id(release), release.frame)
        if reading or isinstance(frame, Problem):
            return widgets.busy("Reading the release …") if reading else widgets.trouble(frame.text)
        single, one = here.ask(
            "single", (id(release), shown[0]), lambda: studies.margin(bench, release, frame, shown[:1])
        )
        double, two = None, False
        if shown[0] != shown[1]:
            double, two = here.ask("double", (id(release), shown), lambda: studies.margin(bench, release, frame, shown))
        risks, three = here.ask("risks", (id(release), chosen.fraction), lambda: studies.risks(chosen, release))
        found = [f.text if isinstance(f, Problem) else f for f in (single, double)]
        return views.compare_view(
            found[0], found[1], None if isinstance(risks, Problem) else risks, one or two or three
        )

    @render.ui
    def take() -> Any:
        return _safe(lambda: views.take_view(part("all"), slot().folder))

    @render.ui
    def downloads() -> Any:
        made, here = slot().made(), slot()
        if made is None:
            return tags.p("Protect the file first. The plan and the codebook are already shown here.", class_="soft")
        named = [
            ("release.zip", "The release, as one zip file"),
            ("report.html", "The public report"),
            ("dossier.html", "The internal report: for authorised staff only"),
            ("plan.toml", "The plan"),
            ("codebook.toml", "The codebook"),
        ]
        links = [
            tags.li(tags.a(words, href=f"files/{here.name}/{name}", target="_blank", rel="noopener"))
            for name, words in named
        ]
        return TagList(
            tags.ul(*links), tags.p(tags.strong("On this machine: "), tags.code(str(here.folder)), class_="soft")
        )


def _same(made: Bench, bench: Bench) -> bool:
    """Whether the decisions that shape a release are the same."""
    return all(getattr(made, n) == getattr(bench, n) for n in (*_DECISIONS, "as_is"))


def _commands(slot: Callable[[], Slot]) -> None:
    for key, _, _ in SCREENS:
        _command(slot, key)


def _command(slot: Callable[[], Slot], key: str) -> None:
    def shown() -> Any:
        return widgets.copyable(documents.commands(slot().bench(), key), "Command line")

    shown.__name__ = f"command_{key}"  # the page knows an output by the name of its function
    render.ui(shown)
