"""One tab for each browser tab: its decisions, its results and its background work; a reload keeps it."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import shutil
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shiny import reactive

from postrand.app import computations
from postrand.app.computations import Watch
from postrand.app.decisions import Decisions, act, open_decisions
from postrand.app.designing import Latest
from postrand.app.frontier import Target
from postrand.app.plans import open_plan
from postrand.app.reading import read_again
from postrand.errors import PostrandError, UsageError, sentence
from postrand.formats import ReadSettings, is_known, moved, suffix_of

MAX_TABS = 20
MAX_PAST = 200
MAX_KEPT = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem, as text for a person."""

    text: str


@dataclass(frozen=True, slots=True)
class Start:
    """The file that a new tab opens: the one on the command line, otherwise the demonstration survey."""

    file: Path | None = None


class Tab:
    """Hold the state of one tab. Values that the page shows are reactive; work runs in threads, one of each kind."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.decisions: reactive.Value[Decisions] = reactive.Value(Decisions())
        self.opening: reactive.Value[str | Problem] = reactive.Value("")
        self.watch: reactive.Value[Watch | None] = reactive.Value(None)
        self.ended: reactive.Value[str] = reactive.Value("")
        self.made: reactive.Value[tuple[Any, Decisions] | None] = reactive.Value(None)
        self.past: list[Decisions] = []
        self.jumps: reactive.Value[int] = reactive.Value(0)
        self._step: tuple[str, str] | None = None
        self.counted: dict[Any, Any] = {}
        self.latest = Latest()
        self.against: reactive.Value[Any] = reactive.Value(None)
        self.advising: reactive.Value[Decisions | None] = reactive.Value(None)
        self.pending: reactive.Value[tuple[Path, str] | None] = reactive.Value(None)
        self.drawing: reactive.Value[tuple[Decisions, Target] | None] = reactive.Value(None)
        self.trying: reactive.Value[Any] = reactive.Value(None)
        self.explaining: reactive.Value[Any] = reactive.Value(None)
        self._opens = 0
        self._results: dict[str, reactive.Value[tuple[Any, Any]]] = {}
        self._pending: dict[str, Any] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def keep(self, key: Any, function: Callable[[], Any]) -> Any:
        """Return a value that is quick to compute, or the stored one."""
        found = self.counted.get(key)
        if found is None:
            if len(self.counted) >= MAX_KEPT:
                self.counted.clear()
            found = self.counted[key] = function()  # returned from here: another thread may clear meanwhile
        return found

    def ask(self, kind: str, key: Any, function: Callable[[], Any]) -> tuple[Any, bool]:
        """Return the result for ``key``, or None while it is computed in the background, and whether it is computed."""
        held = self._results.setdefault(kind, reactive.Value((None, None)))
        known, value = held()
        if known == key:
            return value, False
        if self._pending.get(kind) != key:
            self._pending[kind] = key
            self.start(self._work(kind, key, function))
        return None, True

    def start(self, work: Any) -> None:
        """Run a coroutine in parallel with the session, and keep a reference to it."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, kind: str, key: Any, function: Callable[[], Any]) -> None:
        # A level that moves asks again and again: what waited for a thread and is no longer wanted does nothing.
        value = await guarded(lambda: function() if self._pending.get(kind) == key else None)
        if self._pending.get(kind) == key:
            async with reactive.lock():
                self._results[kind].set((key, value))
                await reactive.flush()

    async def open(self, path: Path | None, name: str = "", given: ReadSettings | None = None) -> None:
        """Open a file, or the demonstration survey if there is no path; on failure the decisions does not change.

        ``name`` is the name of an uploaded file: after it is read, it is moved to the tab's folder and replaces an
        earlier file of that name. ``given``: how it is read, where a person chose that; the same file is read again.
        """

        def work() -> Decisions:
            before = self.now if self.now.opened else None
            if path is None:
                source, roles = computations.demo_file(self.folder)
                return open_decisions(computations.open_file(source, "gss.parquet", is_demo=True), roles, before)
            if path.suffix == ".toml":
                return _of_plan(path, name, self.folder)
            opened = computations.open_file(path, name, given=given)
            if name and path.parent != self.folder:
                suffix = suffix_of(path)
                kept = self.folder / (re.sub(r"[^\w.\- ]", "_", Path(name).name[: -len(suffix)])[:100] + suffix)
                opened = dataclasses.replace(opened, path=moved(opened.path, path.replace(kept)))
            held = None if given is None or before is None else read_again(before, opened)
            return open_decisions(opened, held, before)

        self._opens += 1
        turn = self._opens
        await self._set(self.opening, f"Reading {name or (path.name if path else 'the demonstration survey')} …")
        found = await guarded(work)
        if turn != self._opens:  # another file was chosen in the meantime: the last choice counts
            return
        async with reactive.lock():
            with reactive.isolate():
                waiting = self.pending()
            if waiting is not None and waiting[0] != path:  # an earlier upload that could not be read
                shutil.rmtree(waiting[0].parent, ignore_errors=True)
            if isinstance(found, Problem):
                self.opening.set(found)
                is_upload = path is not None and name and path.parent != self.folder and is_known(path)
                self.pending.set((path, name) if is_upload and path is not None else None)
            else:
                self.pending.set(None)
                if path is not None and path.parent.parent == self.folder:
                    shutil.rmtree(path.parent, ignore_errors=True)  # the upload was moved out of it
                self.counted.clear()
                self.past.clear()
                self.decisions.set(found)
                self.opening.set("")
                self.made.set(None)
                self.ended.set("")
            await reactive.flush()

    async def protect(self) -> None:
        """Run the plan of the decisions, with progress and cancel."""
        decisions, watch = self.now, Watch()
        async with reactive.lock():
            self.ended.set("")
            self.made.set(None)
            self.watch.set(watch)
            await reactive.flush()
        found = await guarded(lambda: computations.protect(decisions, self.folder, watch))
        if not isinstance(found, Problem):
            packed = await guarded(lambda: computations.packed(self.folder))
            found = packed if isinstance(packed, Problem) else found
        async with reactive.lock():
            self.watch.set(None)
            if isinstance(found, Problem):
                self.ended.set(found.text)
            else:
                self.made.set((found, decisions))
            await reactive.flush()

    def change(self, action: str, key: str, value: str) -> None:
        """Make one decision; where it changes the release, the state before it can be had again."""
        after = act(self.now, action, key, value)
        if after.problem:  # the browser shows the choice that was refused, until its form is drawn anew
            with reactive.isolate():
                self.jumps.set(self.jumps() + 1)
        self.decide(after, (action, key))

    async def edit(self, work: Callable[[Decisions], Decisions]) -> None:
        """Make a decision that reads the file, in the background; a problem is shown, and changes nothing else."""
        before = self.now
        found = await guarded(lambda: work(before))
        async with reactive.lock():
            now = self.now
            if now.shaping != before.shaping:
                found = Problem("The choices have changed in the meantime, so this one was not made. Make it again.")
            if isinstance(found, Problem):
                self.decisions.set(dataclasses.replace(now, problem=found.text))
            else:
                self.decide(found, ("edit", ""))
                self._step = None
            await reactive.flush()

    def decide(self, after: Decisions, step: tuple[str, str]) -> None:
        """Take the decisions that one step leads to; those before can be had again."""
        before = self.now
        if (after.shaping, after.fraction) != (before.shaping, before.fraction):
            if self._step != step or not self.past:  # a level that moves is one step
                self.past = [*self.past[-MAX_PAST:], before]
            self._step = step
        self._set_decisions(after, jumped=step[0] != "option")

    def _set_decisions(self, after: Decisions, jumped: bool) -> None:
        """Set the decisions; where texts of boxes changed that nobody typed into them, the forms are drawn anew."""
        if jumped and after.values != self.now.values:
            with reactive.isolate():
                self.jumps.set(self.jumps() + 1)
        self.decisions.set(after)

    def undo(self) -> None:
        """Go back to the decisions before the last change of the release."""
        if self.past:
            self._set_decisions(dataclasses.replace(self.past.pop(), problem=""), jumped=True)
        else:
            self.decisions.set(dataclasses.replace(self.now, problem="there is no decision to undo"))
        self._step = None

    def stop(self) -> None:
        """Ask the run to stop, if there is one."""
        with reactive.isolate():
            watch = self.watch()
        if watch is not None:
            watch.stop = True

    @property
    def now(self) -> Decisions:
        """The decisions, read without a reactive dependency."""
        with reactive.isolate():
            return self.decisions()

    async def _set(self, value: reactive.Value[Any], new: Any) -> None:
        async with reactive.lock():
            value.set(new)
            await reactive.flush()


def _of_plan(path: Path, name: str, folder: Path) -> Decisions:
    if name:  # it was uploaded alone
        fix = f"end the workbench, and run postrand app {name}"
        raise UsageError(sentence("a plan is opened where its file and its codebook are", where=name, fix=fix))
    return open_plan(path, folder)


async def guarded(function: Callable[[], Any]) -> Any:
    """Run a function in a thread; any exception becomes a Problem, so that the server continues."""
    return await asyncio.to_thread(attempt, function)


def attempt(function: Callable[[], Any]) -> Any:
    """Return the result of a function, or a Problem if it raises."""
    try:
        return function()
    except computations.Cancelled:
        return Problem("Cancelled: nothing was released.")
    except PostrandError as error:
        return Problem("\n".join(error.problems))
    except MemoryError:
        return Problem("There is not enough memory for this file.")
    except Exception as error:  # an error in the workbench must not stop the other tabs
        traceback.print_exc(file=sys.stderr)
        return Problem(f"Something went wrong in the workbench ({type(error).__name__}). Your choices are kept.")


class Store:
    """Hold the tabs."""

    def __init__(self, folder: Path, start: Start) -> None:
        self.folder, self.start, self.tabs = folder, start, dict[str, Tab]()

    def tab(self, name: str) -> Tab:
        """Return the tab of this name; a new one begins with the file of the command line."""
        name = name if re.fullmatch(r"[0-9a-f]{16}", name) else "0" * 16
        if name not in self.tabs:
            if len(self.tabs) >= MAX_TABS:
                self.tabs.pop(next(iter(self.tabs)))
            tab = self.tabs[name] = Tab(name, self.folder / name)
            tab.start(tab.open(self.start.file))
        return self.tabs[name]


def changed(value: reactive.Value[Any], new: Any) -> None:
    """Set a reactive value only if it differs, so that its dependents are not computed again."""
    with reactive.isolate():
        same = value() == new
    if not same:
        value.set(new)
