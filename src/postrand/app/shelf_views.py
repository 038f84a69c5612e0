"""The finished releases as screens: files, saving, verification, the list; undo and redo; opening by a path."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from htmltools import Tag, TagList, tags

from postrand.app.changes import changes
from postrand.app.decisions import Decisions
from postrand.app.finished import FILES, Finished, Shelf
from postrand.app.history import History, differences
from postrand.app.notes import without_options
from postrand.app.projects import is_uploaded, takes_data, usual_folder
from postrand.app.release_views import AGAIN, progress
from postrand.app.views import document
from postrand.app.watch import Watch
from postrand.app.widgets import button, control, cut, labelled, scroll, trouble
from postrand.release import Verification
from postrand.support.guesses import of_hundred, right_guesses

MAX_SUMMED = 6

_OUTCOMES = {
    "passed": "Right",
    "failed": "Wrong",
    "said": "Only said",
    "not run": "Not checked here",
}
_CHECKS = {
    "files": "The folder holds plain files, and nothing else.",
    "manifest": "The list of its files can be read.",
    "digests": "No file was changed since: each has the size and the fingerprint that the list has.",
    "codebook": "The description of the variables can be read.",
    "mechanism": "The chances with which values were drawn add up to 1, exactly.",
    "certificate": "Every promise was computed again from these chances, and holds.",
    "data": "Every released value is one that the description and the chances allow.",
    "margins": "The released counts are such as these chances produce.",
    "bytes": "The data file holds the records, and nothing hidden.",
    "copies_said": "The description of the completed copies can be read.",
    "copies": "Every completed copy has the released records, and fills in only what was perturbed or not released.",
    "copies_bytes": "The file of the completed copies holds them, and nothing hidden.",
    "derived": "The report and the other files follow from the rest.",
}
"""What a check that passed means, in words without terms."""
_VERDICTS = {"verified": "Verified.", "failed": "Not verified: a check failed.", "incomplete": "Not all checks ran."}


def files_view(one: Finished, typed: Mapping[str, str], told: str) -> TagList:
    """Return the files of a release, and the form that saves it; ``typed`` is what a person wrote in its boxes."""
    links = [
        tags.li(tags.a(words, href=f"files/{one.number}/{place}", target="_blank", rel="noopener"))
        for place, words in FILES
        if one.has(place)
    ]
    return TagList(
        tags.p(tags.strong(one.title)),
        tags.ul(*links),
        tags.p(f"Saved in {one.saved}", class_="soft") if one.is_borrowed else _save_form(one, typed, told),
    )


def _save_form(one: Finished, typed: Mapping[str, str], told: str) -> Tag:
    """Return the form that saves plan, codebook, release and internal report in a folder of a person's choice."""
    key = f"save:{one.number}"
    written = typed.get(key, usual_folder(one))
    typed_box = control("input", "written", key, type="text", value=written, spellcheck="false")
    checked = "checked" if takes_data(one, typed) else None
    box = control("input", "written", f"data:{one.number}", type="checkbox", checked=checked)
    why = "Without it the plan cannot be opened again: the workbench has the only copy of the uploaded file."
    return tags.div(
        tags.h3("Save the project"),
        labelled("New folder on this machine", typed_box, "Plan, codebook, release and internal report go there."),
        tags.label(box, " Put a copy of the confidential file there too", class_="field"),
        tags.p(why, class_="soft") if is_uploaded(one) else None,
        button("Save", "save", str(one.number)),
        tags.p(told, role="status") if told else None,
    )


def plan_view(one: Finished, now: Any = None) -> TagList:
    """Return the plan and the codebook that a release was made of; ``now`` is the plan as it is decided now."""
    return TagList(
        document("The plan of this release, as text", f"plan.toml of release {one.number}", one.plan),
        document("The codebook of this release, as text", f"codebook.toml of release {one.number}", one.codebook),
        None if now is None else tags.details(tags.summary("The plan as it is decided now"), now),
    )


def verification_view(one: Finished, found: Verification | str | None, running: tuple[int, Watch] | None) -> Tag:
    """Return the button that verifies a release, its progress, or its lines, as the terminal prints them."""
    words = "Everything is computed again from the files of the release alone, as anyone can do who has them."
    parts: list[Any] = [tags.h3("Verify"), tags.p(words, class_="soft")]
    if running is not None and running[0] == one.number:
        return tags.div(*parts, progress(running[1]))
    parts.append(button("Verify this release", "verify", str(one.number), disabled="disabled" if running else None))
    if isinstance(found, str):
        parts.append(trouble(found.split("\n")))
    elif found is not None:
        parts.append(tags.p(tags.strong(_VERDICTS[found.verdict]), role="status", data_here="yes"))
        parts.append(_checks(found))
        lines = tags.pre(str(found), tabindex="0", class_="lines")
        parts.append(tags.details(tags.summary("The same as the terminal prints it"), lines))
    return tags.div(*parts)


def _checks(found: Verification) -> Tag:
    """Return each check in plain words with its outcome; what did not pass, or has no such words, as the terminal."""
    rows = []
    for check in found.checks:
        words = _CHECKS.get(check.name, "") if check.ok else ""
        own = without_options(check.sentence.removeprefix("stated by the curator, not checked: "))
        told = tags.td(words or own[:1].upper() + own[1:], class_="text")
        rows.append(tags.tr(tags.th(_OUTCOMES[check.outcome], scope="row"), told))
    said = "Only said: nobody can compute it from the release, so it rests on the word of the curator."
    return tags.div(
        scroll(tags.table(tags.tbody(*rows)), "What was checked"),
        tags.p(said, class_="soft") if found.stated else None,
    )


def shelf_view(shelf: Shelf, chosen: int, removing: int, decisions: Decisions) -> Tag | None:
    """Return the list of finished releases, the newest first, each with what can be done with it."""
    if not shelf.held:
        return None
    items = [_item(one, one.number == chosen, removing == one.number, decisions) for one in reversed(shelf.held)]
    words = "Each stays here with its own plan until you remove it, or end the workbench. Saved projects stay."
    if len(shelf.held) > 1:
        words += f" {AGAIN}"
    sums = [tags.p(together(name, held)) for name, held in shelf.several()]
    return tags.div(tags.h3("Releases"), tags.p(words, class_="soft"), *sums, tags.ul(*items, class_="shelf"))


def together(name: str, held: Sequence[Finished]) -> str:
    """Return what several releases of one file cost a record that is in all of them: the sum, as each has its own key.

    The variables that are not perturbed have no level, and are no part of it.
    """
    levels = [one.level for one in held]
    total = functools.reduce(operator.add, levels)
    which = f"The {len(held):,} releases of {cut(name)} together"
    if total.epsilon is None:
        return f"{which} have no finite ε: one of them promises none of a whole record."
    parts = " + ".join(map(str, levels[:MAX_SUMMED])) + (" + …" if len(levels) > MAX_SUMMED else "")
    right = of_hundred(min(right_guesses(total.epsilon, 0.5), 1 - 1e-12), most=True)
    return (
        f"{which}: ε of a record is at most {total} ({parts}) where all are given away. Of 100 guesses between two "
        f"equally likely combinations of perturbed values, at most {right} are right, in place of 50."
    )


def _item(one: Finished, is_shown: bool, is_asked: bool, decisions: Decisions) -> Tag:
    number = str(one.number)
    state = "shown" if is_shown else ""
    state += ("; " if state else "") + ("of the decisions now" if one.is_of(decisions) else "of other decisions")
    state += f"; saved in {one.saved}" if one.saved.startswith(("/", "~")) else f"; {one.saved}" if one.saved else ""
    if is_asked:
        lost = "" if one.saved else " It is saved nowhere else."
        kept = "The list forgets it; its folder stays." if one.is_borrowed else f"Its files are deleted.{lost}"
        actions = tags.div(
            tags.p(f"Remove {one.title}? {kept}"),
            tags.div(
                button("Yes, remove it", "remove", number, "small"),
                button("Keep it", "removing", "0", "small"),
                class_="row",
            ),
            class_="warning",
            role="alert",
        )
    else:
        actions = tags.div(
            None if is_shown else button("Show", "choose", number, "small", aria_label=f"Show {one.title}"),
            button("Remove …", "removing", number, "small", aria_label=f"Remove {one.title}"),
            class_="row",
        )
    return tags.li(tags.strong(one.title), " ", tags.span(state, class_="soft"), actions)


def history_view(history: History, heard: int = 0) -> Tag:
    """Return the buttons that undo and redo a decision, with what they would change.

    ``heard`` is the number of the last action that the page sent: while it has sent more, it hides what they change.
    """
    return tags.div(
        _turn("Undo the last decision", "undo", history.past[-1:], history),
        _turn("Redo", "redo", history.undone[-1:], history),
        class_="row",
        data_heard=f"{heard}",
    )


def _turn(words: str, act: str, target: tuple[Decisions, ...], history: History) -> Tag:
    states = (*target, history.now) if act == "undo" else (history.now, *target)  # as it was decided, before → then
    found = changes(*states) or differences(*states) if target else ()
    more = f" and {len(found) - 1:,} more" if len(found) > 1 else ""
    said = tags.span(cut(found[0]) + more, class_="soft") if found else None
    return tags.span(button(words, act, kind="small", disabled=None if target else "disabled"), " ", said)


def open_form(typed: str) -> TagList:
    """Return the form that opens a file, a plan or a project by its path on this machine."""
    box = control(
        "input", "written", "open", type="text", value=typed, spellcheck="false", placeholder="~/surveys/2024"
    )
    words = "A file of records, a plan.toml, or the folder of a saved project. The file is read where it is."
    return TagList(labelled("Open by its path on this machine", box, words), button("Open", "open_typed"))
