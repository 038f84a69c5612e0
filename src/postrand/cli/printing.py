"""Text on a terminal: lines and tables that fit its width, broken at words, and a little colour.

A file, a pipe or a program gets the text as it is, so that nothing that reads it depends on a terminal.
"""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TextIO

NARROWEST, LEAST = 40, 8
"""Characters of the narrowest terminal that texts are fitted to, and of the narrowest column of a table."""
_GAP = "  "
_COMMAND = re.compile(r"^(?:Next: )?\s*postrand \w")
"""A command to copy: the terminal breaks it, so that what is copied is one line."""
_GREEN, _YELLOW, _RED, _PLAIN = "\x1b[32m", "\x1b[33m", "\x1b[31;1m", "\x1b[0m"
_COLOURS = (
    (re.compile(r"^ok(?=  )"), _GREEN),
    (re.compile(r"^(?:said|open)(?=  )|^Warning:|^postrand: warning:|^INTERNAL\b|^NOT VERIFIED\b"), _YELLOW),
    (re.compile(r"\bFAIL\b|^postrand:|^THE RELEASE DOES NOT VERIFY\b"), _RED),
)
"""The words at the beginning of a line, or verdicts, that have a colour; the colour only repeats what the word says."""


def fitting(text: str, stream: TextIO) -> str:
    """Return text as ``stream`` should show it: fitted and coloured on a terminal, as it is elsewhere."""
    if not stream.isatty():
        return text
    width = max(shutil.get_terminal_size().columns, NARROWEST)
    lines = fitted(text, width)
    return "\n".join(map(coloured, lines) if _has_colour(os.environ) else lines)


def _has_colour(environment: Mapping[str, str]) -> bool:
    """Whether colours are wanted: not with NO_COLOR (of any value), and not on a terminal that has none."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def coloured(line: str) -> str:
    """Return a line with its verdict in colour, others as they are."""
    for words, colour in _COLOURS:
        if words.search(line):
            return words.sub(rf"{colour}\g<0>{_PLAIN}", line, count=1)
    return line


def fitted(text: str, width: int) -> list[str]:
    """Return the lines of a text, each at most ``width`` wide if no single word is longer.

    Rows of a table, lines one below the other whose columns are two blanks or more apart, are fitted together.

    >>> fitted("a sentence of some words", 12)
    ['a sentence', '  of some', '  words']
    """
    found: list[str] = []
    for is_table, lines in groupby(text.split("\n"), key=_has_columns):
        rows = list(lines)
        if all(len(line) <= width for line in rows):
            found += rows
        elif is_table and len(rows) > 1:
            found += _table(rows, width)
        else:
            found += [piece for line in rows for piece in _wrapped(line, width)]
    return found


def _has_columns(line: str) -> bool:
    return _GAP in line.strip()


def _wrapped(line: str, width: int) -> list[str]:
    """Return a line in pieces, the later ones below its text: after the bullet, or after the last column before it."""
    if len(line) <= width or _COMMAND.match(line):
        return [line]
    lead = len(line) - len(line.lstrip())
    columns = [found.end() for found in re.finditer(r"(?<=\S) {2,}(?=\S)", line) if found.end() <= width // 2]
    below = columns[-1] if columns else lead + 2
    pieces = textwrap.wrap(
        line[lead if not columns else below :],
        width,
        initial_indent=line[: lead if not columns else below],
        subsequent_indent=" " * below,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return pieces or [line]


def _table(rows: Sequence[str], width: int) -> list[str]:
    """Return rows that fit: the widest columns are narrowed and their cells wrapped; else each row becomes a list."""
    starts = _starts(rows)
    cells = [[row[a:b].rstrip() for a, b in zip(starts, [*starts[1:], None], strict=True)] for row in rows]
    right = [_is_right(column) for column in zip(*cells, strict=True)]
    cells = [[cell.strip() for cell in row] for row in cells]
    widths = _narrowed(cells, width - starts[0])
    if widths is None:
        return [piece for line in _listed(cells, starts[0]) for piece in _wrapped(line, width)]
    return [line for row in cells for line in _row(row, widths, right, starts[0])]


def _starts(rows: Sequence[str]) -> list[int]:
    """Return where columns begin: after two blanks or more that all rows have at the same place."""
    longest = max(map(len, rows))
    empty = [all(row[k : k + 1] in ("", " ") for row in rows) for k in range(longest)]
    first = empty.index(False)
    return [first, *(k for k in range(first + 2, longest) if not empty[k] and empty[k - 1] and empty[k - 2])]


def _is_right(column: Sequence[str]) -> bool:
    """Whether the cells of a column end together: those of numbers do."""
    held = [cell for cell in column if cell.strip()]
    return len({len(cell) for cell in held}) == 1 and any(cell.startswith(" ") for cell in held)


def _narrowed(cells: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return the widths of columns that fit, the widest narrowed first; None if words would have to be broken."""
    columns = list(zip(*cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    least = [max([LEAST, *(len(word) for cell in column for word in cell.split())]) for column in columns]
    least[0] += len(_GAP)
    room = width - len(_GAP) * (len(widths) - 1)
    while sum(widths) > room:
        free = [k for k in range(len(widths)) if widths[k] > least[k]]
        if not free:
            return None
        widths[max(free, key=lambda k: widths[k])] -= 1
    return widths


def _row(row: Sequence[str], widths: Sequence[int], right: Sequence[bool], lead: int) -> Iterator[str]:
    parts = [textwrap.wrap(cell, w, break_on_hyphens=False) for cell, w in zip(row, widths, strict=True)]
    parts[0] = textwrap.wrap(row[0], widths[0], subsequent_indent=_GAP, break_on_hyphens=False)
    for k in range(max(1, *map(len, parts))):
        pieces = (part[k] if k < len(part) else "" for part in parts)
        cells = (p.rjust(w) if r else p.ljust(w) for p, w, r in zip(pieces, widths, right, strict=True))
        yield (" " * lead + _GAP.join(cells)).rstrip()


def _listed(cells: Iterable[Sequence[str]], lead: int) -> Iterator[str]:
    """Yield each row of a table as a list below its first cell, each further cell after the name of its column."""
    head, *rows = cells
    for row in rows:
        yield " " * lead + (row[0] or head[0])
        for name, cell in zip(head[1:], row[1:], strict=True):
            if cell:
                yield " " * (lead + 2) + (f"{name}: {cell}" if name else cell)
