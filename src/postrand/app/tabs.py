"""One tab for each browser tab: its decisions, its results and its background work; a reload keeps it."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import shutil
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from shiny import reactive

from postrand.app import history, opening
from postrand.app.decisions import Decisions, open_decisions
from postrand.app.finished import Finished, Shelf, finish, verified
from postrand.app.history import History
from postrand.app.problems import Problem, attempt, guarded
from postrand.app.projects import plan_of, release_of, save_project, takes_data, typed_path, usual_folder
from postrand.app.reading import read_again
from postrand.app.start import Start
from postrand.app.watch import Watch
from postrand.errors import PostrandError, UsageError, sentence
from postrand.formats import ReadSettings, is_known, moved

if TYPE_CHECKING:
    from postrand.app.checking import ReleaseCheck
    from postrand.app.designing import Designed, Latest
    from postrand.app.frontier import Target

WAITING = ".in-"
"""How the folder of an upload begins that was not opened yet."""
MAX_TABS = 20
MAX_KEPT = 200
TOO_LATE = "The release was complete before you cancelled. It is in the list of releases, where you can remove it."


class Tab:
    """Hold the state of one tab. Values that the page shows are reactive; work runs in threads, one of each kind."""

    def __init__(self, name: str, folder: Path, shelf: reactive.Value[Shelf] | None = None) -> None:
        self.name, self.folder = name, folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.decisions: reactive.Value[Decisions] = reactive.Value(Decisions())
        self.opening: reactive.Value[str | Problem] = reactive.Value("")
        self.watch: reactive.Value[Watch | None] = reactive.Value(None)
        self.ended: reactive.Value[str] = reactive.Value("")
        self.shelf: reactive.Value[Shelf] = reactive.Value(Shelf()) if shelf is None else shelf
        self.chosen: reactive.Value[int] = reactive.Value(0)
        self.removing: reactive.Value[int] = reactive.Value(0)
        self.verifying: reactive.Value[tuple[int, Watch] | None] = reactive.Value(None)
        self.redrawn: reactive.Value[int] = reactive.Value(0)
        self.history = History()
        self.typed: dict[str, str] = {}
        self.jumps: reactive.Value[int] = reactive.Value(0)
        self.counted: dict[Any, Any] = {}
        self.against: reactive.Value[Any] = reactive.Value(None)
        self.advising: reactive.Value[Decisions | None] = reactive.Value(None)
        self.pending: reactive.Value[tuple[Path, str] | None] = reactive.Value(None)
        self.drawing: reactive.Value[tuple[Decisions, Target] | None] = reactive.Value(None)
        self.trying: reactive.Value[Any] = reactive.Value(None)
        self.explaining: reactive.Value[Any] = reactive.Value(None)
        self._opens = 0
        self._is_running = False
        self._beforehand: Any = None
        self._results: dict[str, reactive.Value[tuple[Any, Any]]] = {}
        self._pending: dict[str, Any] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @cached_property
    def latest(self) -> Latest:
        """What is known of the file, and its last design; imported when first asked for, after the first screen."""
        from postrand.app.designing import Latest  # not for the first screen

        return Latest()

    # -- results ------------------------------------------------------------------------------------------------------

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

    def beforehand(self, key: Any, function: Callable[[], Any]) -> None:
        """Do work of which nothing is shown in the background, once for a key; its problems are told later."""
        if self._beforehand != key:
            self._beforehand = key
            self.start(guarded(function))

    def wants(self, kind: str, key: Any) -> bool:
        """Return whether the result for ``key`` is still the one that was asked for last."""
        return bool(self._pending.get(kind) == key)

    async def _work(self, kind: str, key: Any, function: Callable[[], Any]) -> None:
        # A level that moves asks again and again: what waited for a thread and is no longer wanted does nothing.
        value = await guarded(lambda: function() if self.wants(kind, key) else None)
        if self.wants(kind, key):
            await self._set(self._results[kind], (key, value))

    # -- files --------------------------------------------------------------------------------------------------------

    async def open(
        self, path: Path | None, name: str = "", given: ReadSettings | None = None, start: Start | None = None
    ) -> None:
        """Open a file, or the demonstration survey if there is no path; on failure the decisions do not change.

        ``name`` is the name of an uploaded file, which has a folder of its own: an earlier file of that name stays for
        the decisions that can be undone. ``given``: how it is read, where a person chose that, once more. ``start`` may
        have read it.
        """

        def work() -> tuple[Decisions, Finished | None]:
            before = self.now if self.now.opened else None
            if path is None:
                source, roles = opening.demo_file(self.folder)
                opened = opening.open_file(source, "gss.parquet", is_demo=True)
                return open_decisions(opened, roles, before), None
            place = path if name else plan_of(path)
            if place.suffix == ".toml":
                found = _of_plan(place, name, self.folder)
                return found, release_of(place.parent, found, self._held().next, self.folder / f"packed-{turn}")
            opened = (start and start.take(None)) or opening.open_file(place, name, given=given)
            if self._waits(path):
                room = place.parent.rename(self.folder / f"file-{turn}")
                opened = dataclasses.replace(opened, path=moved(opened.path, room / place.name))
            held = None if given is None or before is None else read_again(before, opened)
            return open_decisions(opened, held, before), None

        self._opens += 1
        turn = self._opens
        await self._set(self.opening, f"Reading {name or (path.name if path else 'the demonstration survey')} …")
        found = await guarded(work)
        if turn != self._opens:  # another file was chosen in the meantime: the last choice counts
            return
        async with reactive.lock():
            self._settle(path, name, found)
            await reactive.flush()

    def begin(self, start: Start) -> None:
        """Open the file of the start: at once where it has been read, so that it is on the first screen."""
        opened = start.take()
        if opened is not None:
            return self._settle(start.file, "", (open_decisions(opened), None))
        self.start(self.open(start.file, start=start))

    def _settle(self, path: Path | None, name: str, found: tuple[Decisions, Finished | None] | Problem) -> None:
        """Take over a file that was read, or say why it could not be; uploads that no decision needs are removed."""
        with reactive.isolate():
            waiting = self.pending()
        if isinstance(found, Problem):
            self.opening.set(found)
            can = path is not None and is_known(path) and path.is_file()  # it can be read otherwise, as it is chosen
            self.pending.set((path, name or path.name) if path is not None and can else None)
        else:
            self.pending.set(None)
            self.counted.clear()
            self._turn(found[0])
            self.opening.set("")
            self.ended.set("")
            self._borrow(found[1])
        with reactive.isolate():
            kept = self.pending()
        for one in (path, None if waiting is None else waiting[0]):
            if self._waits(one) and (kept is None or kept[0] != one):
                shutil.rmtree(one.parent, ignore_errors=True)

    def _waits(self, path: Path | None) -> TypeGuard[Path]:
        """Whether a path is that of an upload that was not opened yet, in a folder of its own."""
        return path is not None and path.parent.parent == self.folder and path.parent.name.startswith(WAITING)

    def open_typed(self) -> None:
        """Open the file, plan or project whose path was typed."""
        try:
            path = typed_path(self.typed.get("open", ""))
        except PostrandError as error:
            self.opening.set(Problem(str(error)))
        else:
            self.start(self.open(path))

    def _borrow(self, one: Finished | None) -> None:
        """Show the release of a project that was opened; one that is in the list already is not put there twice."""
        if one is not None:
            held = next((old for old in self._held().held if old.folder.resolve() == one.folder.resolve()), None)
            self.shelf.set(self._held().put(one if held is None else dataclasses.replace(one, number=held.number)))
            self.chosen.set(one.number if held is None else held.number)

    # -- releases -----------------------------------------------------------------------------------------------------

    def protect(self) -> None:
        """Run the plan of the decisions, with progress and cancel, unless a run is under way."""
        if not self._is_running:
            self._is_running = True
            self.start(self._protect(self.now))

    async def _protect(self, decisions: Decisions) -> None:
        watch, check = Watch(), self._check_of(decisions)
        async with reactive.lock():
            self.ended.set("")
            self.watch.set(watch)
            await reactive.flush()
        room = attempt(self._reserve)
        if isinstance(room, Problem):
            found: Any = room
        else:
            if check is not None and check.made is not None:
                self._measure(decisions, check.made)
            found = await guarded(lambda: finish(decisions, room[1], room[0], watch, check, self.latest))
        async with reactive.lock():
            self.watch.set(None)
            self._is_running = False
            if isinstance(found, Problem):
                self.ended.set(found.text)
            else:
                self.shelf.set(self._held().put(found).lighter(found.number))
                self.chosen.set(found.number)
                self.ended.set(TOO_LATE if watch.stop else "")
            await reactive.flush()

    def _measure(self, decisions: Decisions, made: Designed) -> None:
        """Begin to measure the risk, where it was not begun: a run that finds none would wait for it at its end."""
        latest = self.latest
        self.start(guarded(lambda: latest.measured(decisions, made)))

    def _reserve(self) -> tuple[int, Path]:
        """Return a number that no release has, also not of a run in another tab, and its new folder."""
        number, room = self._held().next, self.folder.parent / "releases"
        while (room / f"{number}").exists():
            number += 1
        (room / f"{number}").mkdir(mode=0o700, parents=True)
        return number, room / f"{number}"

    def _check_of(self, decisions: Decisions) -> ReleaseCheck | None:
        with reactive.isolate():
            key, value = self._results["check"]() if "check" in self._results else (None, None)
        is_of = key is not None and key[0] == check_key(decisions)  # of these decisions, and of the file as it was
        if not is_of or value is None or isinstance(value, Problem):
            return None
        with reactive.isolate():
            made, risk = self._results["plan risk"]() if "plan risk" in self._results else (None, None)
        is_known = made is not None and made is value.made and not isinstance(risk, Problem)
        check: ReleaseCheck = dataclasses.replace(value, risk=risk) if is_known else value
        return check

    def made(self) -> tuple[Any, Decisions] | None:
        """Return the release that the screens show, and the decisions that it was made of."""
        one = self.shelf().find(self.chosen())
        return None if one is None else (one.release, one.decisions)

    def choose(self, number: int) -> None:
        """Show another release."""
        if self._held().find(number):
            self.shelf.set(self._held().lighter(number))
            self.chosen.set(number)

    def recall(self, number: int) -> None:
        """Go back to the decisions that a release was made of; this can be undone."""
        one = self._held().find(number)
        if one is not None:
            self._turn(dataclasses.replace(one.decisions, problem=""))

    def remove(self, number: int) -> None:
        """Remove a release for good, if the person was asked before; a project's own folder is only left alone."""
        with reactive.isolate():
            one, asked = self._held().find(number), self.removing() == number
        if one is None or not asked:
            return
        self.removing.set(0)
        self.shelf.set(self._held().without(number))
        with reactive.isolate():
            if self.chosen() == number:
                self.chosen.set(0)
        if (place := one.room if one.is_borrowed else one.folder) is not None:
            shutil.rmtree(place, ignore_errors=True)

    def verify(self, number: int) -> None:
        """Verify a release as the command line does, with progress, one at a time."""
        with reactive.isolate():
            one, free = self._held().find(number), self.verifying() is None
        if one is not None and free:
            watch = Watch()
            self.verifying.set((number, watch))
            self.start(self._verify(one, watch))

    async def _verify(self, one: Finished, watch: Watch) -> None:
        found = await guarded(lambda: verified(one, watch), "Cancelled: the release was not verified.")
        async with reactive.lock():
            self.verifying.set(None)
            self.shelf.set(self._held().check(one.number, found.text if isinstance(found, Problem) else found))
            await reactive.flush()

    async def save(self, number: int) -> None:
        """Save a release with its plan in the folder whose path was typed."""
        one = self._held().find(number)
        if one is None:
            return
        await self._set(self.shelf, self._held().tell(number, "Saving …"))
        text, data = self.typed.get(f"save:{number}", usual_folder(one)), takes_data(one, self.typed)
        found = await guarded(lambda: save_project(one, typed_path(text), with_data=data))
        async with reactive.lock():
            shelf = self._held()
            if isinstance(found, Problem):
                shelf = shelf.tell(number, f"Not saved: {found.text}")
            elif shelf.find(number) is not None:
                shelf = shelf.put(dataclasses.replace(one, saved=str(found))).tell(number, f"Saved in {found}")
            self.shelf.set(shelf)
            await reactive.flush()

    def stop(self) -> None:
        """Ask the run and the verification to stop; where nothing runs any more, say so."""
        with reactive.isolate():
            said = self.ended()
        if not self.halt() and not said:
            self.ended.set(TOO_LATE)

    def halt(self) -> bool:
        """Ask what runs to stop, and return whether anything did."""
        with reactive.isolate():
            watch, verifying = self.watch(), self.verifying()
        asked = [one for one in (watch, None if verifying is None else verifying[1]) if one is not None]
        for one in asked:
            one.stop = True
        return bool(asked)

    # -- decisions ----------------------------------------------------------------------------------------------------

    def change(self, action: str, key: str, value: str) -> None:
        """Make one decision; where it is refused, all forms are drawn again from the decisions that hold."""
        self._put(history.decide(self._history, action, key, value), jumped=action != "option")
        if self.now.problem:
            self._redraw()

    async def edit(
        self, work: Callable[[Decisions], Decisions], refused: Callable[[Problem], object] | None = None
    ) -> None:
        """Make a decision that reads the file, in the background; a problem changes nothing else.

        It is shown above the screen, or handed to ``refused``, which shows it where the decision was asked for.
        """
        before = self.now
        found = await guarded(lambda: work(before))
        async with reactive.lock():
            now = self.now
            if now.shaping != before.shaping:
                found = Problem("The choices have changed in the meantime, so this one was not made. Make it again.")
            if isinstance(found, Problem) and refused is not None:
                refused(found)
            elif isinstance(found, Problem):
                self.decisions.set(dataclasses.replace(now, problem=found.text))
            else:
                self.decide(found)
            await reactive.flush()

    def decide(self, after: Decisions) -> None:
        """Take the decisions that one step leads to; those before can be had again."""
        self._put(history.settled(self._history, after))

    def seen(self) -> None:
        """Take a message away: it belongs to the screen that was left."""
        self.decisions.set(dataclasses.replace(self.now, problem=""))

    def undo(self) -> None:
        """Go back to the decisions before the last one."""
        self._put(history.undo(self._history))

    def redo(self) -> None:
        """Decide again what was undone last."""
        self._put(history.redo(self._history))

    def _turn(self, decisions: Decisions) -> None:
        self._put(history.turned(self._history, decisions))

    @property
    def _history(self) -> History:
        return dataclasses.replace(self.history, now=self.now)

    def _put(self, found: History, jumped: bool = True) -> None:
        """Take over a history; where texts of boxes changed that nobody typed into them, the forms are drawn anew."""
        if jumped and found.now.values != self.now.values:
            with reactive.isolate():
                self.jumps.set(self.jumps() + 1)
        self.history = found
        self.decisions.set(found.now)

    def _redraw(self) -> None:
        with reactive.isolate():
            self.redrawn.set(self.redrawn() + 1)

    def _held(self) -> Shelf:
        with reactive.isolate():
            return self.shelf()

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, so that nothing is lost with the tab but its decisions."""
        return not self._is_running

    @property
    def now(self) -> Decisions:
        """The decisions, read without a reactive dependency."""
        with reactive.isolate():
            return self.decisions()

    async def _set(self, value: reactive.Value[Any], new: Any) -> None:
        async with reactive.lock():
            value.set(new)
            await reactive.flush()


def check_key(decisions: Decisions) -> Any:
    """Return what a release check depends on: the share of the population too, which a policy can ask for."""
    return decisions.shaping, decisions.fraction


def _of_plan(path: Path, name: str, folder: Path) -> Decisions:
    if name:  # it was uploaded alone
        fix = f"write its path under 'Open by its path', or end the workbench, and run postrand app {name}"
        raise UsageError(sentence("a plan is opened where its file and its codebook are", where=name, fix=fix))
    from postrand.app.plans import open_plan  # not for the first screen

    return open_plan(path, folder)


class Store:
    """Hold the tabs, and the finished releases, which outlive the tab that made them."""

    def __init__(self, folder: Path, start: Start) -> None:
        self.folder, self.start, self.tabs = folder, start, dict[str, Tab]()
        self.shelf: reactive.Value[Shelf] = reactive.Value(Shelf())

    def tab(self, name: str) -> Tab:
        """Return the tab of this name; a new one begins with the file of the command line."""
        name = name if re.fullmatch(r"[0-9a-f]{16}", name) else "0" * 16
        if name not in self.tabs:
            idle = [key for key, tab in self.tabs.items() if tab.is_idle]
            if len(self.tabs) >= MAX_TABS and idle:
                self.tabs.pop(idle[0])
            tab = self.tabs[name] = Tab(name, self.folder / name, self.shelf)
            tab.begin(self.start)
        return self.tabs[name]

    @property
    def unsaved(self) -> int:
        """The number of releases that are nowhere else."""
        with reactive.isolate():
            return len(self.shelf().unsaved)

    def release(self, number: int) -> Finished | None:
        """Return a finished release by its number."""
        with reactive.isolate():
            return self.shelf().find(number)

    async def taken(self, number: int) -> None:
        """Note that the release was downloaded: it is somewhere else now."""
        async with reactive.lock():
            one = self.release(number)
            if one is not None and not one.saved:
                with reactive.isolate():
                    self.shelf.set(self.shelf().put(dataclasses.replace(one, saved="downloaded")))
                await reactive.flush()


def changed(value: reactive.Value[Any], new: Any) -> None:
    """Set a reactive value only if it differs, so that its dependents are not computed again."""
    with reactive.isolate():
        same = value() == new
    if not same:
        value.set(new)
