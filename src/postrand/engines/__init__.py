"""Engines run the two verbs that touch records: counting and perturbing."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from postrand.engines.base import Engine, EngineKind, FolderSink, Sink, released_names, released_schema
from postrand.engines.local import LocalEngine
from postrand.errors import UsageError, nearest, sentence

__all__ = [
    "Engine",
    "EngineKind",
    "FolderSink",
    "LocalEngine",
    "Sink",
    "engine",
    "engines",
    "released_names",
    "released_schema",
]


@cache
def engines() -> dict[str, EngineKind]:
    """Return every engine of this package by name: what its modules call ``ENGINE``.

    >>> sorted(engines())
    ['duckdb', 'local', 'spark']
    """
    modules = (importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    return {module.ENGINE.name: module.ENGINE for module in modules if hasattr(module, "ENGINE")}


def engine(name: str, scratch: Path | None = None, resume: Path | None = None) -> Engine:
    """Return the engine of this name; see :class:`LocalEngine` for its options.

    Raises
    ------
    UsageError
        If the name is unknown, or the engine does not take an option.
    """
    known = engines()
    if name not in known:
        raise UsageError(sentence(f"unknown engine {name!r}{nearest(name, known)}", wanted=", ".join(known)))
    return known[name].make(scratch=scratch, resume=resume)
