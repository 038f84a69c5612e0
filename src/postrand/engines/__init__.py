"""Engines run the two verbs that touch records: counting and perturbing."""

from __future__ import annotations

from postrand.engines.base import Engine, Sink, released_names, released_schema
from postrand.engines.local import LocalEngine

__all__ = ["Engine", "LocalEngine", "Sink", "released_names", "released_schema"]
