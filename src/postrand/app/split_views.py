"""How variables are released together, and what a split is worth: choices and read-outs in, HTML out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from htmltools import HTML, Tag, TagList, tags
from numpy.typing import NDArray

from postrand.app import goals, levels, plan_views
from postrand.app.decisions import Decisions
from postrand.app.designing import Ways
from postrand.app.widgets import busy, button, control, cut, facts, labelled, scroll, select, share_bar, trouble
from postrand.certification.file_level import FileLevel
from postrand.mechanism import Split
from postrand.privacy import DifferentialPrivacy
from postrand.report import text
from postrand.report.split_values import co_appearance
from postrand.report.together import together
from postrand.support import wordings
from postrand.support.exact import format_upper
from postrand.support.showing import few
from postrand.workflow.design_split import DesignedSplit

MAX_SUBSETS, MAX_TABLES, MAX_NAMED, MAX_SQUARE = 12, 60, 12, 30
PRIOR_WORDS = {
    "uniform": "This reveals nothing about the file.",
    "file": "This keeps more, and reveals a little about the shares of the file: the certificate says so.",
}
NOT_HERE = (
    "A split has differential privacy, and its matrices are randomised response on the combinations that it shows. "
    "Other structures, tables with weights and variables that it depends on are stated in a plan, which you can open."
)
KEPT = "Options of this plan's split that are not shown here are kept as they are."

NEAR = 1e-6
"""Below this relative gap a design is said to be the best."""


# -- the choices ------------------------------------------------------------------------------------------------------


def way_form(decisions: Decisions) -> Tag:
    """Return the choice between blocks and a split, and what a split is made for."""
    parts: list[Any] = [
        tags.legend("Variables are released"),
        select("way", "", decisions.way, plan_views.ways(decisions), "The perturbed variables are released"),
    ]
    if decisions.is_of_plan:
        parts.append(plan_views.own_design(decisions))
    elif not decisions.splits and len(decisions.perturbed) > 0:
        parts.append(plan_views.blocks_form(decisions))
    if decisions.splits:
        tables = [*goals.WORKLOADS.items(), *_held(decisions, "workload", "the tables of the opened plan")]
        words = (
            "Each record shows a few variables, drawn at random, with the whole ε of the record. The others are not "
        )
        parts += [
            tags.p(words + "released for it.", class_="soft"),
            labelled("Tables that must be precise", select("workload", "", decisions.workload, tables, "")),
            _core(decisions),
            tags.p(KEPT if "split" in decisions.kept else NOT_HERE, class_="soft"),
        ]
    return tags.fieldset(*parts)


def _core(decisions: Decisions) -> Tag:
    shown = decisions.shown_by_all
    boxes = [
        tags.label(
            control("input", "core", str(j), type="checkbox", checked="checked" if name in shown else None),
            f" {cut(name)}",
            class_="field",
        )
        for j, name in ((j, decisions.names[j]) for j in decisions.perturbed)
    ]
    words = f"Variables that every record shows: {', '.join(map(cut, shown)) or 'none'}"
    return tags.details(tags.summary(words), tags.p("Each makes all combinations larger.", class_="soft"), *boxes)


def _held(decisions: Decisions, name: str, words: str) -> list[tuple[str, str]]:
    return [(goals.FROM_PLAN, words)] if goals.unlisted(decisions.kept, name) else []


def goal_form(decisions: Decisions) -> Tag | None:
    """Return what the level is about, with its δ; None where the model has no level of a file."""
    if not (decisions.splits or decisions.model == DifferentialPrivacy.name):
        return None
    parts: list[Any] = [
        tags.legend("The level is"),
        select("goal", "", decisions.asks, _goals(decisions), "The level is"),
    ]
    if decisions.asks == "file":
        parts.append(tags.p("The ε of a record follows from it and from the number of records.", class_="soft"))
    if decisions.asks in ("stated", "file"):
        box = control("input", "option", goals.DELTA, type="text", value=levels.delta_text(decisions))
        parts.append(labelled("δ of the file", box, "far below 1 / records"))
        words = "The records must be shuffled, and nothing may be released unperturbed or tuned to the file."
        parts.append(tags.p(words, class_="soft"))
    return tags.fieldset(*parts)


def _goals(decisions: Decisions) -> list[tuple[str, str]]:
    """Return what the level can be about: a split has one level for the record, which nothing shares."""
    one = "of a record" if decisions.splits else "of each block"
    each = {**goals.GOALS, "record": one}
    return [(name, words) for name, words in each.items() if name != "shared" or not decisions.splits]


def priors(decisions: Decisions) -> list[tuple[str, str]]:
    """Return the choices of the shares to which matrices are tuned."""
    return [
        ("uniform", "all values equally frequent"),
        ("file", "the file's own shares"),
        *(_held(decisions, "prior", "the prior of the opened plan") if decisions.splits else ()),
    ]


# -- the levels -------------------------------------------------------------------------------------------------------


def file_level(found: FileLevel | None) -> TagList:
    """Return the level of the file, or the conditions that fail."""
    if found is None:
        return TagList()
    if found.epsilon is None:
        return TagList(trouble(wordings.no_file_level(found.to_dict())))
    shown = (f"ε of the whole file, δ = {found.delta:g}, at most", format_upper(found.epsilon))
    words = "All records in random order, and a change of one of them. It makes the number of records public."
    return TagList(facts([shown]), tags.p(words, class_="soft"))


# -- the design -------------------------------------------------------------------------------------------------------


def _reached(gap: float) -> str:
    """Return in words how near a design is to the best one."""
    return "it is reached" if gap < NEAR else f"this design is within {100 * gap:.2g}%"


def readout(made: DesignedSplit, records: int, level: str = "ε of a record, at most") -> TagList:
    """Return what all tables of a split are worth together, with what is proven of it, and its ``level``."""
    d = made.design
    worth = (
        "The least precise table" if d.worst else f"All {len(d.tables):,} tables" if len(d.tables) > 1 else "The table"
    )
    shown: list[tuple[str, Any]] = [
        (f"{worth}: effective records", _beside(number(records / d.value), f"of {records:,} released")),
        (level, _beside(format_upper(made.split.epsilon), "the largest of all subsets")),
        ("Subsets", _beside(f"{len(d.subsets):,}", "one is drawn for each record")),
        ("The most with these subsets", _beside(number(records / d.bound), _reached(d.relative_gap))),
    ]
    words = "Effective records: so many unperturbed records, drawn anew from the population, would be as precise"
    words += " on average over these tables." if len(d.tables) > 1 and not d.worst else "."
    given = made.split.given
    inside = (
        f" Within each combination of {', '.join(map(cut, given))}; the worth is computed without it." if given else ""
    )
    return TagList(facts(shown), tags.p(f"{words} {d.message}{inside}", class_="soft"))


def _beside(value: str, words: str) -> TagList:
    return TagList(value, tags.span(words, class_="soft"))


def number(value: float) -> str:
    """Return a number of records with two digits, or as a whole number.

    >>> number(2163.4), number(1.66)
    ('2,163', '1.7')
    """
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.2g}"


def design_view(made: DesignedSplit, records: int) -> TagList:
    """Return which variables appear together and how often, the most frequent subsets, and the worth of each table."""
    order = sorted(made.design.subsets, key=lambda subset: -subset.weight)
    return TagList(
        tags.h3("Which variables appear together"),
        picture(made.split, made.design.variables),
        tags.div(
            tags.div(
                tags.h3("The most frequent subsets" if len(order) > MAX_SUBSETS else "The subsets"),
                _subsets(order[:MAX_SUBSETS]),
            ),
            tags.div(tags.h3("Each table"), _tables(made, records)),
            class_="two",
        ),
    )


def picture(split: Split, names: Sequence[str]) -> TagList:
    """Return the picture of the pairs, and the pairs that no record shows."""
    shares = co_appearance(split, names)
    words = "Share of the records, in per cent, that show both; on the diagonal, one variable."
    return TagList(
        tags.p(words, class_="soft"),
        scroll(tags.div(HTML(str(together(names, shares)))), "Which variables appear together"),
        _numbers(names, shares) if len(names) <= MAX_SQUARE else None,
        coverage(split, names),
    )


def _numbers(names: Sequence[str], shares: NDArray[np.float64]) -> Tag:
    head = tags.tr(tags.td(), *(tags.th(cut(name), scope="col") for name in names))
    rows = [
        tags.tr(tags.th(cut(name), scope="row"), *(tags.td(_percent(share)) for share in row))
        for name, row in zip(names, shares.tolist(), strict=True)
    ]
    table = scroll(tags.table(tags.thead(head), tags.tbody(*rows)), "Which variables appear together, in numbers")
    return tags.details(tags.summary("The same numbers as a table"), table)


def coverage(split: Split, names: Sequence[str]) -> Tag:
    """Return which tables of two variables can be estimated, and for the others the way out."""
    pairs = [(a, b) for k, a in enumerate(names) for b in names[k + 1 :]]
    never = [pair for pair in pairs if not any({*pair} <= {*s.variables} for s in split.subsets)]
    if not never:
        return tags.p("Every table of two of these variables can be estimated.", class_="soft")
    named = few([f"{cut(a)} × {cut(b)}" for a, b in never], MAX_NAMED)
    words = f"No record shows these together, so their tables cannot be estimated: {named}. "
    return trouble(words + "Put them into the tables of the workload, or make them core variables, and release anew.")


def _subsets(subsets: Sequence[Any]) -> Tag:
    heads = ("Variables", "Share of records", "Combinations", "Unchanged")
    head = tags.tr(*(tags.th(h, scope="col", class_="text" if h == "Variables" else None) for h in heads))
    rows = [
        tags.tr(
            tags.th(", ".join(cut(n) for n in s.variables), scope="row"),
            tags.td(_percent(s.weight / 2**53)),
            tags.td(f"{s.cells:,}"),
            tags.td(_percent(float(s.matrix.diagonal.min()))),
        )
        for s in subsets
    ]
    return scroll(tags.table(tags.thead(head), tags.tbody(*rows)), "Subsets")


def _percent(share: float) -> str:
    return f"{text.percent(share)}%"


def _tables(made: DesignedSplit, records: int) -> Tag:
    found = sorted(made.design.tables, key=lambda table: -table.share)
    best = max((table.share for table in found), default=1.0)
    axis = f"Effective records of {records:,}; bars end at {number(records * best)}, the most precise table"
    head = tags.tr(tags.th("Table", scope="col", class_="text"), tags.th(axis, scope="col"))
    rows = [
        tags.tr(
            tags.th(" × ".join(cut(n) for n in table.variables), scope="row"),
            tags.td(number(records * table.share), share_bar(table.share / best)),
        )
        for table in found[:MAX_TABLES]
    ]
    left = len(found) - MAX_TABLES
    more = tags.p(f"The {MAX_TABLES} most precise; {left:,} more are in the output of postrand design.", class_="soft")
    shown = scroll(tags.table(tags.thead(head), tags.tbody(*rows)), "Effective records of each table")
    return tags.div(shown, more if left > 0 else None)


# -- the comparison ---------------------------------------------------------------------------------------------------


def comparison(found: Ways | None, waiting: bool, records: int) -> TagList:
    """Return what the same guarantee buys as blocks and as a split, or the button that computes it."""
    parts: list[Any] = [tags.h3("What the same guarantee buys")]
    if waiting:
        parts.append(busy("Comparing blocks and a split …"))
    elif found is None:
        parts.append(button("Compare blocks and a split", "against"))
    else:
        head = tags.tr(tags.th("Way of release", scope="col", class_="text"), tags.th("Effective records", scope="col"))
        rows = [
            tags.tr(
                tags.th(name, tags.span(cut_long(words), class_="soft"), scope="row"),
                tags.td(number(records * worth)),
                class_="same" if name == found.best else None,
            )
            for name, words, worth in found.rows
        ]
        parts.append(scroll(tags.table(tags.thead(head), tags.tbody(*rows)), "What the same guarantee buys"))
        words = f"At ε = {found.epsilon:.4g} of a record. {found.assumed} Marked: the most."
        parts.append(tags.p(words, class_="soft"))
    return TagList(*parts)


def cut_long(words: str) -> str:
    """Return at most 300 characters: names of many variables."""
    return text.cut(words, 300)
