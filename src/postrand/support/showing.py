"""How values are shown to a person: short in a list of them, whole in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def few(names: Sequence[str], most: int = 8) -> str:
    """Return the first names of a list in a line, and how many more there are.

    >>> few(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def show_whole(value: object, printer: Any, cycle: bool) -> None:
    """Show a value in a notebook as ``print`` does; a class takes this as its ``_repr_pretty_``."""
    printer.text(str(value))
