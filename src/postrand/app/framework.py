"""Import the framework without what the workbench has no use for, and import without collecting garbage.

The framework imports other packages when it is imported itself: one for a kind of input that the workbench has not,
and two for questions in a terminal, which its own command line asks. With what they import they take a third of it.
Nothing here changes the framework: its import of them finds stand-ins, by Python's own protocol of finders.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

UNUSED = ("shinychat", "questionary", "prompt_toolkit")


class _Unused:
    """Stand in for whatever is taken from an unused package; it can be made and does nothing."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        pass


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> type[_Unused]:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (_Unused,), {})


class _StandIns(MetaPathFinder, Loader):
    """Find a stand-in for each module of the unused packages."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if _belongs(name, UNUSED) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def load() -> None:
    """Import the framework without the unused packages, unless it or one of them is there already.

    A version of the framework that does more with them while it is imported gets them: then this only takes longer.
    Afterwards the packages can be imported as always.
    """
    if any(name in sys.modules for name in ("shiny", *UNUSED)):
        return
    finder = _StandIns()
    sys.meta_path.insert(0, finder)
    try:
        import shiny  # noqa: F401  # for the modules that it leaves in sys.modules
    except Exception:  # whatever a stand-in cannot do: the next import finds the packages themselves
        _forget("shiny")
    finally:
        sys.meta_path.remove(finder)
        _forget(*UNUSED)


@contextmanager
def uncollected() -> Iterator[None]:
    """Import without looking for garbage: modules are none, and the looks take a tenth of the time, then and later."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


@contextmanager
def quick_turns() -> Iterator[None]:
    """Let other threads have their turn ten times as often: imports leave it to nobody by themselves.

    The server hands each part of a page from thread to thread several times, and would wait for each of these turns.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 10)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _belongs(name: str, packages: Sequence[str]) -> bool:
    return name.partition(".")[0] in packages


def _forget(*packages: str) -> None:
    for name in [name for name in sys.modules if _belongs(name, packages)]:
        del sys.modules[name]
