"""The screen of the release: its choices, the unperturbed variables, the progress of a run, and the result."""

from __future__ import annotations

from typing import Any

from htmltools import HTML, Tag, TagList, tags

from postrand.app import documents
from postrand.app.charts import cut
from postrand.app.clear import clear_view
from postrand.app.computations import Watch
from postrand.app.decisions import Decisions
from postrand.app.widgets import busy, button, control, labelled, select, trouble
from postrand.formats import written_names
from postrand.risk import Findings


def protect_form(decisions: Decisions) -> TagList:
    """Return the choices about the release itself."""
    formats = [("same", "as the source"), *((n, f".{n} ({called})") for n, called in written_names().items())]
    return TagList(
        labelled("Format of the released data", select("format", "", decisions.format, formats, "")),
        tags.label(
            control("input", "shuffle", type="checkbox", checked="checked" if decisions.shuffle else None),
            " Put the records in random order",
            class_="field",
        ),
        *_completed(decisions),
        tags.p("Each release uses a new secret key, which is not stored.", class_="soft"),
    )


def _completed(decisions: Decisions) -> list[Tag]:
    """Return the switch for completed copies and, where they are added, the box of their number."""
    copies = decisions.completed
    box = control("input", "completed", type="checkbox", checked=None if copies is None else "checked")
    switch = tags.label(box, " Add completed copies", class_="field")
    words = (
        "In each copy every perturbed value, and every value that is not released, is replaced by a true value that is "
        "drawn, for analyses with any software. They are made from the release alone, so they are protected exactly as "
        "the release is."
    )
    if copies is None:
        return [switch, tags.p(words, class_="soft")]
    number = control("input", "completed", "copies", type="number", min="2", step="1", value=str(copies))
    return [switch, labelled("Number of copies", number, words)]


def protect_view(
    decisions: Decisions,
    watch: Watch | None,
    ended: str,
    made: Any,
    is_current: bool,
    found: Findings | str | None = None,
    waiting: bool = False,
) -> TagList:
    """Return the next step, the progress or the result; ``found``: findings on unperturbed variables, or a problem."""
    missing = documents.problems(decisions)
    if watch is not None:
        step = watch.latest
        known: dict[str, str | float | bool | HTML | None]
        known = {} if step.share is None else {"value": f"{step.share:.3f}", "max": "1"}
        return TagList(
            tags.p(f"{step.stage.capitalize()} …", role="status"),
            tags.progress(known, aria_label=f"Part of this stage that is done, in {step.unit}"),
            tags.p(str(step), class_="soft"),
            button("Cancel", "cancel"),
        )
    parts: list[Any] = []
    if missing:
        parts.append(trouble(missing))
    else:
        names = ", ".join(cut(decisions.names[j]) for j in decisions.perturbed[:20])
        called = "To be perturbed, as a split: " if decisions.splits else "To be perturbed: "
        parts.append(tags.p(tags.strong(called), names))
    if waiting:
        parts.append(busy("Measuring the unperturbed variables …"))
    if isinstance(found, str):
        parts.append(trouble(found.split("\n")))
    elif found is not None:
        parts.append(clear_view(decisions, found))
    halted = bool(missing) or waiting or isinstance(found, str) or (found is not None and bool(found.undecided))
    parts.append(button("Protect the file", "protect", kind="primary", disabled="disabled" if halted else None))
    if ended:
        parts.append(trouble(ended.split("\n")))
    if made is not None:
        parts.append(tags.h3("Done"))
        if not is_current:
            parts.append(tags.p("The choices have changed since then. Protect again to use them.", class_="warning"))
        parts += [
            tags.ul(*(tags.li(s) for s in made.certificate_sentences[:30])),
            tags.p(tags.strong("In words")),
            tags.ul(*(tags.li(s) for s in made.plain_claims[:30])),
            tags.p(
                "Every claim was recomputed from the exact matrices. Next: compare before and after, then download."
            ),
        ]
        if made.findings is not None and not (is_current and found == made.findings):  # they are already shown above
            parts.append(clear_view(decisions, made.findings, decide=False))
    return TagList(*parts)
