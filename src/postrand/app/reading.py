"""How a file is read: its first rows, what it does not say of itself, and the choices of a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from postrand import formats
from postrand.app.decisions import Decisions, Opened
from postrand.errors import PostrandError
from postrand.formats import File, ReadSettings
from postrand.formats.excel import sheets_of

PREFIX = "read."
"""How the texts of its form begin among all that is typed."""
ROWS, LINES, WIDTH = 5, 5, 200
SIGNS = {",": "comma ,", ";": "semicolon ;", "\t": "tab", "|": "bar |"}
DECIMALS = {".": "point .", ",": "comma ,"}
THOUSANDS = {"": "none, or as the file shows", ",": "comma ,", ".": "point .", " ": "blank", "'": "apostrophe '"}
ENCODINGS = {
    "utf-8": "all languages",
    "windows-1252": "Western Europe, Latin-1",
    "iso-8859-15": "Western Europe, Latin-9",
    "utf-16": "all languages",
    "windows-1250": "Central Europe, Windows",
    "windows-1251": "Cyrillic, Windows",
    "windows-1253": "Greek, Windows",
    "windows-1254": "Turkish, Windows",
    "windows-1257": "Baltic, Windows",
    "iso-8859-2": "Central Europe, Latin-2",
    "iso-8859-5": "Cyrillic",
    "koi8-r": "Russian",
    "cp850": "Western Europe, DOS",
    "cp852": "Central Europe, DOS",
    "cp866": "Cyrillic, DOS",
    "mac-roman": "Western Europe, older Macintosh",
}
"""The usual ones first, each with where such files come from."""
WORDS = {
    "separator": "Columns are separated by",
    "encoding": "Encoding of the text",
    "decimal": "Sign before decimals",
    "thousands": "Sign between thousands",
    "sheet": "Sheet",
    "catalog": "File of value labels",
}


@dataclass(frozen=True, slots=True)
class Preview:
    """Hold the first rows of a file as texts, how it is read, and what can be chosen for each setting.

    ``lines`` are the first lines of a text file that cannot be read yet, as they are.
    """

    name: str
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    settings: Mapping[str, str]
    choices: Mapping[str, tuple[tuple[str, str], ...]]
    lines: tuple[str, ...] = ()


def settings_of(decisions: Decisions) -> ReadSettings:
    """Return what a person chose, and nothing where the file is to tell; raises SpecificationError."""
    typed = {k.removeprefix(PREFIX): v for k, v in decisions.texts.items() if k.startswith(PREFIX)}
    return ReadSettings(**{name: text for name, text in typed.items() if name in formats.SETTINGS})


def preview(opened: Opened) -> Preview:
    """Return the first rows of an open file, and how it is read."""
    from postrand.engines.database import open_records  # not for the first screen

    source = open_records(opened.path)
    batch = next(iter(source.batches(batch_size=ROWS)), None)
    rows = [] if batch is None else [tuple(_text(v) for v in row.values()) for row in batch.slice(0, ROWS).to_pylist()]
    path = formats.path_of(opened.path)
    settings = opened.path.settings if isinstance(opened.path, File) else formats.usual_of(path)
    return Preview(opened.name, tuple(source.schema.names), tuple(rows), settings.to_dict(), _choices(path, settings))


def unread(path: Path, name: str, settings: ReadSettings) -> Preview:
    """Return the first lines of a file that could not be read, and what can be chosen."""
    choices = _choices(path, settings)
    lines = _lines(path, settings.encoding or "latin-1") if "separator" in choices else []
    return Preview(name, (), (), settings.to_dict(), choices, tuple(lines))


def read_again(decisions: Decisions, opened: Opened) -> dict[str, str]:
    """Return the roles of columns that a file still has when it is read in another way."""
    roles = dict(zip(decisions.names, decisions.roles, strict=True))
    return {name: roles[name] for name in opened.names if roles.get(name)}


def _choices(path: Path, settings: ReadSettings) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the values of each setting that files of this format have, with words for them."""
    if path.is_dir() or not formats.is_known(path):
        return {}
    known = formats.format_of(path).settings
    offered: dict[str, Mapping[str, str]] = {
        "separator": SIGNS,
        "encoding": {name: f"{name} ({words})" for name, words in ENCODINGS.items()},
        "decimal": DECIMALS,
        "thousands": THOUSANDS,
    }
    if "sheet" in known:
        offered["sheet"] = dict.fromkeys(_sheets(path), "")
    found = {}
    for name, values in offered.items():
        if name in known and values:
            now = getattr(settings, name)
            every = {**values, **({now: ""} if now and now not in values else {})}
            found[name] = tuple((value, words or value) for value, words in every.items())
    return found


def _sheets(path: Path) -> list[str]:
    """Return the names of the sheets of a workbook; none where it cannot be opened, which reading it says."""
    try:
        return sheets_of(path)
    except PostrandError:
        return []


def _lines(path: Path, encoding: str) -> list[str]:
    try:
        with path.open(encoding=encoding, errors="replace") as file:
            return [line.rstrip("\r\n")[:WIDTH] for line in islice(file, LINES)]
    except OSError:
        return []


def _text(value: Any) -> str:
    return "" if value is None else str(value)[:WIDTH]
