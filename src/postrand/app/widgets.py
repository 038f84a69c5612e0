"""The elements of screens; the HTML library escapes every text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from htmltools import HTML, Tag, tags

from postrand.report import svg, text


def control(kind: str, act: str, key: str = "", **attributes: Any) -> Tag:
    """Return a form control that sends an action when a person changes it."""
    return Tag(kind, data_act=act, data_key=key, **attributes)


def select(act: str, key: str, chosen: str, choices: Sequence[tuple[str, str]], label: str, **more: Any) -> Tag:
    """Return a drop-down list; ``label`` is read by a screen reader if there is no visible label."""
    found = control("select", act, key, **({"aria-label": label} if label else {}), **more)
    for value, words in choices:
        found.append(tags.option(words, value=value, selected="selected" if value == chosen else None))
    return found


def labelled(words: str, inner: Tag, help_text: str = "") -> Tag:
    """Return a control below its visible label."""
    return tags.label(
        tags.span(words, class_="name"),
        inner,
        tags.span(help_text, class_="soft") if help_text else None,
        class_="field",
    )


def button(words: str, act: str, key: str = "", kind: str = "", **more: Any) -> Tag:
    """Return a button that sends an action."""
    return tags.button(words, type="button", data_act=act, data_key=key, class_=f"button {kind}".strip(), **more)


def trouble(problems: Sequence[str] | str) -> Tag:
    """Return messages that a screen reader announces."""
    listed_problems = [problems] if isinstance(problems, str) else list(problems)
    return tags.div(*(tags.p(p) for p in listed_problems[:12]), class_="warning", role="alert")


def busy(words: str) -> Tag:
    """Return a sign that a computation is running."""
    return tags.p(tags.span(class_="spinner", aria_hidden="true"), words, class_="soft busy", role="status")


def facts(pairs: Sequence[tuple[str, Any]]) -> Tag:
    """Return a row of figures, each under its name."""
    return tags.dl(*(tags.div(tags.dt(name), tags.dd(value)) for name, value in pairs), class_="facts")


def share_bar(share: float) -> HTML:
    """Return a bar of a share of 1; drawn without styles in attributes, which the content security policy forbids."""
    return HTML(svg.bar(share))


def copyable(words: str, name: str) -> Tag:
    """Return a text with a button that copies it."""
    return tags.div(
        tags.div(
            tags.span(name, class_="name"),
            tags.button("Copy", type="button", class_="button small copy", aria_label=f"Copy: {name}"),
            class_="row between",
        ),
        tags.pre(tags.code(words), tabindex="0"),
        class_="copyable",
    )


def scroll(table: Tag, name: str) -> Tag:
    """Return a table in its own scrolling frame, which also works with the keyboard."""
    return tags.div(table, class_="scroll", tabindex="0", role="region", aria_label=name)


def cut(words: str) -> str:
    """Return at most 60 characters."""
    return text.cut(str(words), 60)
