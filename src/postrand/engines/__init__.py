"""Engines run the two verbs that touch records: counting and perturbing."""

from __future__ import annotations

from pathlib import Path

from postrand.engines.base import Engine, FolderSink, Sink, released_names, released_schema
from postrand.engines.local import LocalEngine
from postrand.errors import UsageError, nearest, sentence

__all__ = ["ENGINES", "Engine", "FolderSink", "LocalEngine", "Sink", "engine", "released_names", "released_schema"]

ENGINES = ("local", "duckdb", "spark")


def engine(name: str, scratch: Path | None = None, resume: Path | None = None) -> Engine:
    """Return the engine of this name; see :class:`LocalEngine` for its options.

    Raises
    ------
    UsageError
        If the name is unknown, or Spark is to resume: it carries out lost tasks again by itself.
    """
    if name == "spark":
        from postrand.engines.spark import SparkEngine  # needs the extra "spark"

        if resume is not None:
            raise UsageError(sentence("the spark engine keeps no journal", fix="leave --resume out"))
        return SparkEngine(scratch=scratch)
    local = LocalEngine(scratch=scratch, resume=resume)
    if name == "duckdb":
        from postrand.engines.duckdb import DuckDBEngine  # needs the extra "duckdb"

        return DuckDBEngine(local)
    if name != "local":
        raise UsageError(sentence(f"unknown engine {name!r}{nearest(name, ENGINES)}", wanted=", ".join(ENGINES)))
    return local
