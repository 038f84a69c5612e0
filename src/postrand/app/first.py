"""The first screen, and the other ones behind it: they are imported and connected when the first has been sent.

What this module imports is what the first screen needs: the file as it was read, and the table of its variables. What
measures, designs and releases belongs behind :func:`_others`; ``tests/test_imports.py`` names the rooms.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

from shiny import Inputs, Outputs, Session, reactive, render
from shiny.session import session_context

from postrand.app import data_views, widgets
from postrand.app.framework import quick_turns, uncollected
from postrand.app.notes import without_options
from postrand.app.parts import SELECTORS, Part, parts
from postrand.app.problems import Problem
from postrand.app.tabs import Store, Tab


@cache
def _others() -> ModuleType:
    """Return the module of everything behind the first screen; the first call imports it, and what it computes with."""
    with uncollected(), quick_turns():
        from postrand.app import server  # the first screen is sent before
    return server


def make_server(store: Store) -> Callable[[Inputs, Outputs, Session], None]:
    """Return the server function of a store of tabs."""

    def server(input: Inputs, output: Outputs, session: Session) -> None:
        @reactive.calc
        def tab() -> Tab:
            return store.tab(str(input.tab()))

        _listen(input, tab)
        _data_screen(tab, parts(tab, SELECTORS))
        _follow(input, tab, session)

    return server


def _follow(input: Inputs, tab: Callable[[], Tab], session: Session) -> None:
    """Connect the other screens once the first one has been sent with its file, or with what is wrong with it."""

    async def connected() -> None:
        others = await asyncio.to_thread(_others)
        async with reactive.lock():
            with session_context(session):
                others.connect(input, tab)
            await reactive.flush()

    def begin() -> None:
        task = asyncio.ensure_future(connected())

        @session.on_ended
        def _() -> None:
            task.cancel()

    @reactive.effect
    def waits() -> None:
        said = tab().opening()
        if not said or isinstance(said, Problem):
            waits.destroy()
            session.on_flushed(begin)


def _listen(input: Inputs, tab: Callable[[], Tab]) -> None:
    @reactive.effect
    @reactive.event(input.act)
    def _() -> None:
        said = input.act()
        _others().acted(tab(), *(str(said.get(k, "")) for k in ("act", "key", "value")))

    @reactive.effect
    @reactive.event(input.file)
    def _() -> None:
        files = input.file()
        if files:
            here, name = tab(), str(files[0]["name"])
            incoming = _others().plan_server.uploaded(here.folder, name)
            shutil.move(files[0]["datapath"], incoming)
            here.start(here.open(incoming, name))


def _data_screen(tab: Callable[[], Tab], part: Part) -> None:
    @render.ui
    def status() -> Any:
        return data_views.status(part("roles"), _waiting(tab()))

    @render.ui
    def problem() -> Any:
        said = part("problem").problem
        return widgets.trouble(said) if said else None

    @render.ui
    def opening() -> Any:
        said = tab().opening()
        if isinstance(said, Problem):
            return widgets.trouble([without_options(one) for one in said.text.split("\n")])
        return widgets.busy(said) if said else data_views.is_open(part("file"))

    @render.ui
    def variables() -> Any:
        return data_views.variables(part("variables"), _waiting(tab()))


def _waiting(tab: Tab) -> str:
    """Return the name of a file that waits for a choice of how it is read; "" where none does."""
    found = tab.pending()
    return "" if found is None else found[1]
