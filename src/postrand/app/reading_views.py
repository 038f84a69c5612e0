"""How a file is read, on the screen: its first rows, and a choice for what it does not say of itself."""

from __future__ import annotations

from typing import Any

from htmltools import Tag, tags

from postrand.app.reading import PREFIX, WORDS, Preview
from postrand.app.widgets import button, cut, labelled, scroll, select

MAX_COLUMNS = 40


def form(found: Preview, can: bool = True, is_open: bool = False) -> Tag:
    """Return the first rows and, where the file can be read in other ways and ``can`` be, the choices."""
    boxes = [
        labelled(
            WORDS[name],
            select("typed", f"{PREFIX}{name}", found.settings.get(name, ""), _offered(name, found), ""),
        )
        for name in found.choices
    ]
    parts: list[Any] = []
    if found.rows:
        parts.append(_table(found))
    if found.lines:
        parts += [
            tags.p("The first lines, as they are:", class_="soft"),
            tags.pre("\n".join(found.lines), tabindex="0"),
        ]
    if boxes and can:
        parts += [tags.div(*boxes, class_="row"), button("Read it so", "read", "")]
    words = f"{cut(found.name)}: first rows, and how it is read"
    return tags.details(tags.summary(words), *parts, open="" if is_open else None)


def _offered(name: str, found: Preview) -> list[tuple[str, str]]:
    """Return the choices; a setting that is not known yet is for the file to tell."""
    usual = [] if any(value == "" for value, _ in found.choices[name]) else [("", "as the file shows")]
    return [*usual, *found.choices[name]]


def _table(found: Preview) -> Tag:
    names = found.names[:MAX_COLUMNS]
    head = tags.tr(*(tags.th(cut(name), scope="col", class_="text") for name in names))
    rows = [tags.tr(*(tags.td(cut(value), class_="text") for value in row[:MAX_COLUMNS])) for row in found.rows]
    return scroll(tags.table(tags.thead(head), tags.tbody(*rows)), "First rows")
