"""The screen of the release: its choices, the progress of a run, the result, and the banner of an old one."""

from __future__ import annotations

from typing import Any

from htmltools import HTML, Tag, TagList, tags

from postrand.app import documents
from postrand.app.check_view import check_view, promised
from postrand.app.checking import ReleaseCheck
from postrand.app.decisions import Decisions
from postrand.app.finished import Finished
from postrand.app.notes import without_options
from postrand.app.watch import Watch
from postrand.app.widgets import busy, button, control, cut, labelled, select, trouble
from postrand.certification.plain_words import household_claims, household_levels
from postrand.formats import written_names
from postrand.report import text
from postrand.support.showing import unshown
from postrand.workflow.series import NOT_COUNTED
from postrand.workflow.unit_budget import unit_advice

MAX_CHANGES = 12
AGAIN = "If you give away more than one release of the same records, their levels add up for each record."
"""What is said wherever a second release of a file can be made or taken."""


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
        "In each copy every perturbed value, and every value that is not released, is replaced by a plausible value "
        "that is drawn, for analyses with any software. They are made from the release alone, so they are protected "
        "exactly as the release is."
    )
    if copies is None:
        return [switch, tags.p(words, class_="soft")]
    number = control("input", "completed", "copies", type="number", min="2", step="1", value=str(copies))
    return [switch, labelled("Number of copies", number, words)]


def protect_view(
    decisions: Decisions,
    watch: Watch | None,
    ended: str,
    one: Finished | None = None,
    check: ReleaseCheck | str | None = None,
    waiting: bool = False,
) -> TagList:
    """Return the next step, the progress or the result; ``check``: the release check, or why there is none."""
    missing = documents.problems(decisions)
    if watch is not None:
        return progress(watch)
    parts: list[Any] = []
    if missing:
        parts.append(trouble(missing))
    else:
        names = ", ".join(cut(decisions.names[j]) for j in decisions.perturbed[:20])
        called = "To be perturbed, as a split: " if decisions.splits else "To be perturbed: "
        parts.append(tags.p(tags.strong(called), names))
    if waiting:
        parts.append(busy("Making the release check …"))
    if isinstance(check, str):
        parts.append(trouble(check.split("\n")))
    halted = bool(missing) or waiting or isinstance(check, str) or (check is not None and not check.is_ready)
    parts.append(button("Protect the file", "protect", kind="primary", disabled="disabled" if halted else None))
    if one is not None:
        parts.append(tags.p(AGAIN, class_="soft"))
    if ended:
        parts.append(tags.div(trouble(ended.split("\n")), data_here="yes"))
    return TagList(*parts, None if one is None else _done(decisions, one))


def progress(watch: Watch) -> TagList:
    """Return where a run is, with a button that cancels it; after the cancel, what it waits for."""
    step = watch.latest
    known: dict[str, str | float | bool | HTML | None]
    known = {} if step.share is None else {"value": f"{step.share:.3f}", "max": "1"}
    said = f"{step.stage.capitalize()} …"
    if watch.stop:
        said = f"Cancelling: a part of this stage ends first ({step.stage}) …"
    return TagList(
        tags.p(said, role="status"),
        tags.progress(known, aria_label=f"Part of this stage that is done, in {step.unit}"),
        tags.p(str(step), class_="soft"),
        button("Cancel", "cancel", disabled="disabled" if watch.stop else None),
    )


def _done(decisions: Decisions, one: Finished) -> TagList:
    """Return what a finished release guarantees, and its release check."""
    made = one.release
    largest = getattr(made.findings, "largest_household", 0)
    next_step = "Every claim was recomputed from the exact matrices. Next: compare before and after, then download."
    check = None if one.check is None else check_view(one.decisions, one.check, decide=False)
    return TagList(
        tags.h3("Done", data_here="yes"),
        tags.p(tags.strong(one.title)),
        stale(one, decisions),
        tags.ul(*(tags.li(s) for s in made.certificate_sentences[:30])),
        tags.p(tags.strong("In words")),
        *promised(
            made.plain_claims, household_claims(made.mechanism, largest), household_levels(made.mechanism, largest)
        ),
        *_copies(one),
        *_advice(one),
        tags.p(next_step),
        None if check is None else tags.p(tags.strong("The release check of this release")),
        check,
    )


def _advice(one: Finished) -> list[Tag]:
    """Return what ``postrand protect`` advises after a release: on units with many records, and on its ledger."""
    counted = "ledger" in one.decisions.kept
    told = [*unit_advice(one.release.mechanism), *([] if counted else [f"{NOT_COUNTED}."])]
    return [tags.p(without_options(text)) for text in told]


def _copies(one: Finished) -> list[Tag]:
    """Return where the completed copies of a release are, if it has some."""
    copies = one.decisions.completed
    words = f"The release has {copies} completed copies too, one below the other in the file whose name is completed."
    return [] if copies is None else [tags.p(words)]


def stale(one: Finished, decisions: Decisions) -> Tag | None:
    """Return the banner of a release whose decisions are no longer those of the screens; None where they are."""
    changed = one.changed(decisions)
    if not changed:
        return None
    more = unshown(len(changed), MAX_CHANGES)
    left = [tags.li(f"and {more:,} more")] if more else []
    return tags.div(
        tags.p(f"{one.title}, was made with other decisions. Decided otherwise since then (then → now):"),
        tags.ul(*(tags.li(text.cut(said, 300)) for said in changed[: len(changed) - more]), *left),
        tags.p("What is shown here is of that release; protect again to use the new decisions."),
        button("Return to the decisions of this release", "recall", str(one.number), "small"),
        class_="warning",
        role="status",
    )
