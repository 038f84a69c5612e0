"""The screen of the data: what is open, and the table of its variables with their roles."""

from __future__ import annotations

from htmltools import Tag, TagList, tags

from postrand.app.decisions import PAGE, Decisions
from postrand.app.entries import TYPE_TEXT
from postrand.app.notes import in_words
from postrand.app.widgets import button, control, cut, labelled, scroll, select
from postrand.codebook.variable import ROLES
from postrand.errors import sentence
from postrand.plan import free_texts
from postrand.plan.infer import perturbs
from postrand.plan.numbering import described, number_note
from postrand.support.showing import capital, few, unshown

ROLE_TEXT = {
    "": "choose …",
    "key": "key: identifying",
    "sensitive": "sensitive",
    "other": "other: released",
    "weight": "weight",
    "household": "household",
    "record_key": "record number",
    "drop": "drop: not released",
}
SENSITIVE = "perturb it, or it is released as it is"
UNCOUNTED = "without categories: no measure of risk counts it, and it is not perturbed; see Edit"
ONE_VALUE = "one value only: there is nothing to perturb, and it is released as it is"


def status(decisions: Decisions, waiting: str = "") -> Tag:
    """Return one line about the open file; ``waiting``: one that can be opened once it is said how it is read."""
    if decisions.opened is None:
        return tags.span(f"{cut(waiting)} waits for a choice" if waiting else "No file is open")
    o = decisions.opened
    demo = " (demonstration)" if o.is_demo else ""
    sizes = f"{_many(o.rows, 'record')} · {_many(len(o.drafts), 'variable')} · {len(decisions.perturbed):,} perturbed"
    words = f"{cut(o.name)}{demo} · {sizes}"
    return tags.span(words)


def is_open(decisions: Decisions) -> Tag | None:
    """Return which file is open, where one is opened; a screen reader says it when another one is."""
    if decisions.opened is None:
        return None
    o = decisions.opened
    sizes = f"{_many(o.rows, 'record')}, {_many(len(o.drafts), 'variable')}"
    words = f"{cut(o.name)} is open: {sizes}. Choose the roles in the table."
    return tags.p(words, role="status")


def _many(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def variables(decisions: Decisions, waiting: str = "") -> TagList:
    """Return the table of variables with their roles; ``waiting`` as for :func:`status`."""
    if decisions.opened is None:
        words = "Choose above how the file is read" if waiting else "Open a file"
        return TagList(tags.p(f"{words} to see its variables.", class_="soft"))
    shown, matching = listed(decisions)
    head = ["Variable", "Role", "Perturb", "Categories", "Missing", "First categories"]
    cells = [
        tags.th(h, scope="col", class_="text" if h in ("Variable", "Role", "First categories") else None) for h in head
    ]
    table = tags.table(
        tags.thead(tags.tr(*cells)), tags.tbody(*(_variable(decisions, j) for j in shown)), class_="variables"
    )
    said = (_asked(decisions), _texts(decisions))
    return TagList(*said, _filter(decisions, matching), scroll(table, "Variables"), _pages(decisions, matching))


def listed(decisions: Decisions) -> tuple[tuple[int, ...], int]:
    """Return the columns on the current page, and the number of columns that match the search."""
    wanted = decisions.find.casefold()
    drafts = () if decisions.opened is None else decisions.opened.drafts
    found = [j for j, d in enumerate(drafts) if wanted in f"{d['name']} {d.get('label', '')}".casefold()]
    start = min(decisions.page, max(0, (len(found) - 1) // PAGE)) * PAGE
    return tuple(found[start : start + PAGE]), len(found)


def _asked(decisions: Decisions) -> Tag | None:
    """Return which variables still need a role, where others have one; None where all or none have."""
    unset = decisions.unset
    if not 0 < len(unset) < len(decisions.roles):
        return None
    named = few([cut(decisions.names[j]) for j in unset], 12)
    one = "1 variable has" if len(unset) == 1 else f"{len(unset):,} variables have"
    words = f"{one} no role yet: {named}. Choose one for each below: until then nothing can be protected."
    return tags.p(words, class_="warning", role="status")


def _texts(decisions: Decisions) -> Tag | None:
    """Return which columns hold free text, as 'postrand init' says it; None where none is left."""
    drafts = () if decisions.opened is None else decisions.opened.drafts
    held = zip(drafts, decisions.roles, strict=True)
    names = [cut(d["name"]) for d, role in held if free_texts.NOTE in d.get("notes", ()) and role != "drop"]
    if not names:
        return None
    words = sentence(f"{capital(free_texts.HOLDING)}: {few(names, 12)}", fix="choose the role drop")
    return tags.p(words, class_="warning", role="status")


def _filter(decisions: Decisions, matching: int) -> Tag:
    unset = len(decisions.unset)
    parts = []
    if len(decisions.roles) > 12 or decisions.find:
        box = control("input", "find", type="search", value=decisions.find, placeholder="name or label")
        parts.append(labelled(f"Find ({matching:,} of {len(decisions.roles):,})", box))
    if unset:
        words = f"Give all {unset:,} variables without a role the role"
        roles = ("key", "sensitive", "other", "drop")
        named = (button(r, "rest", r, "small", aria_label=f"{words} {r}") for r in roles)
        parts.append(tags.div(tags.span(f"{words}:", class_="name"), *named, class_="row"))
    return tags.div(*parts, class_="row")


def _variable(decisions: Decisions, j: int) -> Tag:
    assert decisions.opened is not None
    draft = decisions.opened.drafts[j]
    name, categories = str(draft["name"]), draft.get("categories", [])
    kind = str(draft.get("type", "string"))  # a codebook leaves the usual one out
    texts = draft.get("labels") or [str(c) for c in categories]
    left = unshown(len(texts), 4)
    some = ", ".join(cut(t) for t in texts[: len(texts) - left]) + " …" * bool(left)
    perturb: Tag | str = "–"
    if perturbs(draft) and decisions.roles[j] in ("key", "sensitive", "other"):
        checked = "checked" if decisions.is_perturbed(j) else None
        perturb = control(
            "input", "perturb", str(j), type="checkbox", checked=checked, **{"aria-label": f"Perturb {cut(name)}"}
        )
    number = number_note(*described(draft)) if decisions.roles[j] not in ("household", "record_key", "drop") else ""
    told = dict.fromkeys([*([number] if number else []), *draft.get("notes", ())])
    notes = [tags.span(in_words(note), class_="soft note") for note in list(told)[:2]]
    role = select("role", str(j), decisions.roles[j], [(r, ROLE_TEXT[r]) for r in ("", *ROLES)], f"Role of {cut(name)}")
    can = perturbs(draft) or not categories
    is_bare = decisions.roles[j] == "sensitive" or (decisions.roles[j] == "key" and not can)
    is_uncounted = decisions.roles[j] == "key" and not categories
    is_bare = is_bare and not decisions.is_perturbed(j)
    bare = UNCOUNTED if is_uncounted else "" if not is_bare else SENSITIVE if can else ONE_VALUE
    edit = tags.div(button("Edit", "edit", str(j), "small", aria_label=f"Edit {cut(name)}"))
    share = decisions.opened.missing[j] / max(decisions.opened.rows, 1)
    return tags.tr(
        tags.th(cut(name), tags.span(cut(draft.get("label", "")), class_="soft"), *notes, edit, scope="row"),
        tags.td(role, tags.span(bare, class_="soft") if bare else None, class_="text"),
        tags.td(perturb),
        tags.td(f"{len(categories):,}" if categories else "–"),
        tags.td(f"{100 * share:.1f}%"),
        tags.td(some or TYPE_TEXT.get(kind, kind), class_="text soft"),
    )


def _pages(decisions: Decisions, matching: int) -> Tag | None:
    pages = -(-matching // PAGE)
    if pages <= 1:
        return None
    at = min(decisions.page, pages - 1)
    return tags.div(
        button("Previous", "page", str(at - 1), "small", disabled="disabled" if at == 0 else None),
        tags.span(f"Page {at + 1:,} of {pages:,}", class_="soft"),
        button("Next", "page", str(at + 1), "small", disabled="disabled" if at == pages - 1 else None),
        class_="row",
    )
