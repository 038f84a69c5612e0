"""How values are shown to a person: short in a list of them, whole in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SMALL = 5
"""Counts of records from 1 to SMALL-1 are shown as fewer than SMALL."""


def counted(count: int) -> str:
    """Return a number of records, or of values that few records may have, as text.

    >>> counted(0), counted(3), counted(1200)
    ('0', 'fewer than 5', '1,200')
    """
    return f"fewer than {SMALL}" if 0 < count < SMALL else f"{count:,}"


def few(names: Sequence[str], most: int = 8) -> str:
    """Return the first names of a list in a line, and how many more there are.

    >>> few(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def capital(text: str) -> str:
    """Return a phrase as the beginning of a sentence; a Greek letter stays, because a capital one reads as Latin.

    >>> capital("two of them"), capital("τ1 and τ2 are not estimated")
    ('Two of them', 'τ1 and τ2 are not estimated')
    """
    return f"{text[0].upper()}{text[1:]}" if text[:1].isascii() and text else text


def show_whole(value: object, printer: Any, cycle: bool) -> None:
    """Show a value in a notebook as ``print`` does; a class takes this as its ``_repr_pretty_``."""
    printer.text(str(value))
