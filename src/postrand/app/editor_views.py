"""The editor of a variable: its label, its categories in their order, no answer, recodes, and what they change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from htmltools import Tag, TagList, tags

from postrand.app import recode_form, recoding
from postrand.app.decisions import Decisions
from postrand.app.entries import MISSING_TEXT, TYPE_TEXT, texts_of
from postrand.app.recoding import PREFIX, Column, Effect
from postrand.app.widgets import busy, button, control, cut, facts, labelled, scroll, select, trouble
from postrand.workflow.recode_trial import tallied

MAX_OPEN = 12
"""More categories are closed at first: by keyboard each has three stops before the recodes below them."""
MAX_LISTED = 200
KEPT = "What you type or choose here is kept as soon as you leave its box; a recode when you press Use it."
HELP = {
    "groups": "Type the same name for all values that become one category.",
    "bands": "Where bands begin: 0, 15, 30 gives 0-14, 15-29 and 30 or more. Take edges that follow no person's value.",
    "dates": "The years in which bands begin: 1950, 1970 gives 1950-1969 and 1970+; what lies before needs a name.",
    "limits": "Values beyond a limit become the limit; one box can stay empty.",
    "rounding": "Each value becomes the nearest multiple of this number.",
    "merge_rare": (
        "Categories of fewer records than this (below 1: than this share of them) become one. The confidential file "
        "decides which, and the release says so."
    ),
    "hierarchy": "Copy the rows from a spreadsheet: a value, then what it belongs to at level 1, then at level 2.",
    "missing": "These values become missing, all others stay. An empty box says that all are true values.",
}
_BOXES = {
    "bands": (
        ("bands", "Bands begin at", ""),
        ("below", "Name of what lies below the first", "optional"),
        ("no_answer", "Values that mean no answer", "optional; they become missing"),
    ),
    "dates": (
        ("bands", "Years in which bands begin", ""),
        ("below", "Name of what lies below the first", "such as before 1950"),
        ("no_answer", "Values that mean no answer", "optional; they become missing; between them a semicolon"),
    ),
    "limits": (
        ("bottom", "Lowest value", ""),
        ("top", "Highest value", ""),
        ("no_answer", "Values that mean no answer", "optional; they become missing"),
    ),
    "rounding": (
        ("rounding", "Multiples of", ""),
        ("no_answer", "Values that mean no answer", "optional; they become missing"),
    ),
    "merge_rare": (("merge_rare", "Fewer records than", ""), ("others", "Name of their category", "usual: Other")),
    "hierarchy": (("level", "Level", "1 is the first above the values"),),
    "missing": (("no_answer", "Values that mean no answer", "such as -9, 999; empty: none"),),
}


_IN_BOXES = (
    (r"recode of '([^']*)' into '\1'", r"\1"),
    (
        r'name what lies below[^:,]*: below = "[^"]*"',
        "write a name such as “under {first}” into “Name of what lies below the first”",
    ),
    (r"list codes for no answer: missing = \[[^]]*\]", "write what means no answer into “Values that mean no answer”"),
    (
        r"of dates, set unit = 'year' and say how they are written: format = '[^']*'",
        "of dates, choose “bands of years, of dates” and how they are written",
    ),
    (r', or name the rest: others = "[^"]*"', ""),
)


def editor(decisions: Decisions, column: Column | None, waiting: bool = False) -> Tag | None:
    """Return the editor of the chosen variable; ``column`` is what the file holds, None while it is read."""
    at = decisions.edited
    if decisions.opened is None or at is None or at >= len(decisions.names):
        return None
    entry, name = decisions.opened.drafts[at], decisions.names[at]
    rules, kind = recoding.rules_on(decisions, name), str(entry.get("type", "string"))
    return tags.div(
        tags.div(
            tags.h3(f"Edit {cut(name)}", tabindex="-1", data_focus=str(at)),
            button("Close", "edit", ""),
            class_="row between",
        ),
        tags.p(("" if kind == "string" else f"In the file: {TYPE_TEXT.get(kind, kind)}. ") + KEPT, class_="soft"),
        _box(f"{at}:label", "Label", str(entry.get("label", ""))),
        _recode(decisions, at, column, waiting),
        _answers(entry, at),
        tags.p(tags.strong("Combinations that cannot occur")) if rules else None,
        tags.ul(*(tags.li(cut(one)) for one in rules)) if rules else None,
        class_="card",
        id="editor-card",
    )


def _box(key: str, words: str, value: str) -> Tag:
    return labelled(words, control("input", "entry", key, type="text", value=value))


def _answers(entry: Mapping[str, Any], at: int) -> TagList:
    """Return what missing values are, and the table of the categories."""
    categories = list(entry.get("categories", ()))
    choices = [(k, v) for k, v in MISSING_TEXT.items() if categories or k != "category"]
    missing = select("entry", f"{at}:missing", str(entry.get("missing", "error")), choices, "")
    parts: list[Any] = [tags.h3("Its values"), labelled("A missing value", missing)]
    if not categories:
        return TagList(*parts)
    ordered = control(
        "input", "entry", f"{at}:ordered", type="checkbox", checked="checked" if entry.get("ordered") else None
    )
    parts.append(tags.label(ordered, " The categories have an order", class_="field"))
    if len(categories) > MAX_LISTED:
        words = f"The {len(categories):,} categories are too many for this page: group them below."
        return TagList(*parts, tags.p(words, class_="soft"))
    head = [tags.th(h, scope="col", class_="text") for h in ("Value", "Text", "No answer", "Order")]
    rows = [_category(entry, at, k, value) for k, value in enumerate(categories)]
    table = tags.table(tags.thead(tags.tr(*head)), tags.tbody(*rows), class_="variables")
    few = "" if len(rows) <= MAX_OPEN else None
    return TagList(
        *parts, tags.details(tags.summary(f"Categories ({len(rows):,})"), scroll(table, "Categories"), open=few)
    )


def _category(entry: Mapping[str, Any], at: int, k: int, value: Any) -> Tag:
    text = texts_of(entry)[k]
    none = control(
        "input",
        "entry",
        f"{at}:none:{k}",
        type="checkbox",
        checked="checked" if value in entry.get("missing_codes", ()) else None,
        **{"aria-label": f"{cut(text)} means no answer"},
    )
    label = control("input", "entry", f"{at}:text:{k}", type="text", value=text, **{"aria-label": f"Text of {value}"})
    up = tags.button(
        "Up",
        type="button",
        data_act="entry",
        data_key=f"{at}:up:{k}",
        class_="button small",
        disabled="disabled" if k == 0 else None,
        **{"aria-label": f"Put {cut(text)} before the one above"},
    )
    return tags.tr(
        tags.th(cut(str(value)), scope="row"),
        tags.td(label, class_="text"),
        tags.td(none, class_="text"),
        tags.td(up, class_="text"),
    )


# -- recodes ----------------------------------------------------------------------------------------------------------


def _recode(decisions: Decisions, at: int, column: Column | None, waiting: bool) -> TagList:
    entry = recoding.recode_of(decisions, decisions.names[at])
    texts = recoding.typed(decisions)
    kind = texts.get("kind", recode_form.kind_of(entry))
    choices = list(recode_form.KINDS.items())
    choices += [(kind, "as in the opened plan")] if kind not in recode_form.KINDS else []
    parts: list[Any] = [
        tags.h3("Make it coarser"),
        tags.p("This happens before anything else: the file's own values are never released.", class_="soft"),
        labelled("Release it", select("typed", f"{PREFIX}kind", kind, choices, "")),
    ]
    if waiting or column is None:
        return TagList(*parts, busy("Reading the column …") if waiting else None)
    held = {**recode_form.boxes_of(entry, column.values, column.labels), **texts}
    parts.append(tags.p(HELP[kind], class_="soft") if kind in HELP else None)
    if kind == "groups":
        parts.append(_groups(column, held))
    for name, words, note in _BOXES.get(kind, ()):
        parts.append(
            labelled(words, control("input", "typed", PREFIX + name, type="text", value=held.get(name, "")), note)
        )
    if kind == "dates":
        written = list(recode_form.WRITTEN.items())
        chosen = select("typed", f"{PREFIX}format", held.get("format", ""), written, "")
        parts.append(labelled("How the dates are written", chosen, "for example the last day of 2020"))
    if kind == "hierarchy":
        rows = control("textarea", "typed", f"{PREFIX}rows", rows="8", cols="40")
        rows.append(held.get("rows", ""))
        parts.append(labelled("Rows", rows, "for example DE11;Stuttgart;South"))
    if kind in recode_form.KINDS and (kind or entry is not None):
        use = button("Use it", "recode", str(at), "primary")
        parts.append(tags.div(button("Show what it changes", "try", str(at)), use, class_="row"))
    return TagList(*parts)


def _groups(column: Column, held: Mapping[str, str]) -> Tag:
    if len(column.values) > recode_form.MAX_GROUPED:
        words = f"The column has {len(column.values):,} values: too many to group by hand. Take bands or a hierarchy."
        return tags.p(words, class_="soft")
    head = tags.tr(
        tags.th("Value", scope="col", class_="text"),
        tags.th("Records", scope="col"),
        tags.th("Name of its group", scope="col", class_="text"),
    )
    rows = []
    for k, (label, records) in enumerate(zip(column.labels, column.records, strict=True)):
        box = control(
            "input",
            "typed",
            f"{PREFIX}group.{k}",
            type="text",
            value=held.get(f"group.{k}", ""),
            list="group-names",
            **{"aria-label": f"Name of the group of {cut(label)}"},
        )
        rows.append(tags.tr(tags.th(cut(label), scope="row"), tags.td(f"{records:,}"), tags.td(box, class_="text")))
    return scroll(tags.table(tags.thead(head), tags.tbody(*rows)), "Groups")


def in_boxes(text: str, typed: Mapping[str, str]) -> str:
    """Return a sentence on a recode with the names of the boxes in place of the options of a codebook.

    >>> in_boxes("recode of 'a' into 'a': list codes for no answer: missing = [99].", {})
    'a: write what means no answer into “Values that mean no answer”.'
    """
    first = re.split(r"[;,\s]+", typed.get("bands", "").strip())[0] or "15"
    if typed.get("kind") == "dates":  # it is chosen already
        text = re.sub(r"of dates, set unit = 'year' and say how .*?: format = '[^']*'; ", "", text)
    for pattern, words in _IN_BOXES:
        text = re.sub(pattern, words.replace("{first}", first.replace("\\", "")), text)
    return text


def effect_view(found: Effect | None, waiting: bool, typed: Mapping[str, str] | None = None) -> TagList:
    """Return what a recode changes: categories, how many records they have, and the sample uniques of the keys."""
    if waiting:
        return TagList(busy("Trying it on the file …"))
    if found is None:
        return TagList()
    shown: list[tuple[str, Any]] = []
    trial = found.trial
    if trial is not None and trial.problem:
        return TagList(trouble(in_boxes(trial.problem, typed or {})))
    if trial is not None:
        shown.append(("Categories", f"{len(trial.before):,} → {len(trial.after):,}"))
    if found.uniques is not None:
        before = "counted only after it" if found.uniques[0] is None else f"{found.uniques[0]:,}"
        shown.append(("Sample uniques of the keys", f"{before} → {found.uniques[1]:,}"))
    parts: list[Any] = [facts(shown)] if shown else []
    if trial is not None:
        sides = (tallied(trial.before), tallied(trial.after))
        used = [name for name in sides[0] if sides[0][name] or sides[1][name]]
        head = [
            tags.th(h, scope="col", class_="text" if h == "Categories" else None)
            for h in ("Categories", "Before", "After")
        ]
        rows = [
            tags.tr(tags.th(f"with {n}" if n != "in all" else n, scope="row"), *(tags.td(f"{s[n]:,}") for s in sides))
            for n in used
        ]
        parts.append(scroll(tags.table(tags.thead(tags.tr(*head)), tags.tbody(*rows)), "Categories before and after"))
        parts.append(tags.p(trial.note, class_="soft") if trial.note else None)
    return TagList(*parts)
