"""Engines run the two verbs that touch records: counting and perturbing."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from functools import cache
from pathlib import Path

from postrand.engines.base import Engine, EngineKind, FolderSink, Sink, released_names, released_schema
from postrand.engines.local import LocalEngine
from postrand.engines.resources import NOTHING, Resources
from postrand.errors import SpecificationError, UsageError, nearest, raise_all, sentence, shown

__all__ = [
    "Engine",
    "EngineKind",
    "FolderSink",
    "LocalEngine",
    "Resources",
    "Sink",
    "chosen",
    "engine",
    "engines",
    "released_names",
    "released_schema",
    "resource_problems",
]


@cache
def engines() -> dict[str, EngineKind]:
    """Return every engine of this package by name: what its modules call ``ENGINE``.

    >>> sorted(engines())
    ['duckdb', 'local', 'spark']
    """
    modules = (importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    return {module.ENGINE.name: module.ENGINE for module in modules if hasattr(module, "ENGINE")}


def engine(
    name: str, scratch: Path | None = None, resume: Path | None = None, resources: Resources = NOTHING
) -> Engine:
    """Return the engine of this name, with what it may use; see :class:`LocalEngine` for ``resume``.

    Raises
    ------
    UsageError
        If the name is unknown, or the engine does not take an option.
    """
    raise_all(UsageError, resource_problems(name, resources))
    asked = {} if dataclasses.replace(resources, name="") == NOTHING else {"resources": resources}
    return engines()[name].make(scratch=resources.scratch or scratch, resume=resume, **asked)


def resource_problems(name: str, resources: Resources) -> list[str]:
    """Say where a name is that of no engine, or the engine does not take an option."""
    known = engines()
    if name not in known:
        return [sentence(f"unknown engine {shown(name, repr)}{nearest(shown(name), known)}", wanted=", ".join(known))]
    fix = "choose an engine that takes it, or leave it out"
    return [
        sentence(f"{option!r} cannot be used with the engine {name!r}", wanted=", ".join(known[name].takes), fix=fix)
        for option in resources.given
        if option not in known[name].takes
    ]


def chosen(
    asked: Engine | str | None, given: Resources | None, planned: Resources, scratch: Path, resume: str | Path | None
) -> tuple[Engine, Resources]:
    """Return the engine that is asked for, else that of the plan, and what it may use; the call has the last word.

    Of a plan's options those serve that the engine takes.

    Raises
    ------
    UsageError
        If the name is unknown, or options are given to an engine that does not take them, or has its own.
    """
    if asked is not None and not isinstance(asked, str):
        if given is not None:
            raise UsageError(sentence("this engine was created with its own options", fix="leave these options out"))
        return asked, NOTHING
    here = given or NOTHING
    name = asked or here.name or planned.name or "local"
    kind = engines().get(name)
    try:
        wanted = here.over(planned.of(kind.takes) if kind is not None else NOTHING)
    except SpecificationError as error:
        raise UsageError(error.problems) from None
    made = engine(name, scratch, None if resume is None else Path(resume), wanted)
    return made, dataclasses.replace(wanted, name=name)
