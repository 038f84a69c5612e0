"""The risk measures of the second screen: a result in, HTML out; every name is escaped by the HTML library."""

from __future__ import annotations

from typing import Any

from htmltools import HTML, Tag, TagList, tags

from postrand.app.notes import without_options
from postrand.app.widgets import cut, scroll
from postrand.risk import Assessment, Measured
from postrand.risk.measures import Unmeasured, kinds
from postrand.risk.measures.base import SHOWN, Fact, shown
from postrand.support.showing import capital
from postrand.workflow.dossier_risk import figures, picture


def measures_view(found: Assessment | None) -> TagList:
    """Return each risk measure by name, closed until it is opened, and why the others cannot be shown."""
    if found is None:
        return TagList()
    long = [kind for kind in kinds().values() if kind.cost == "long"]
    parts: list[Tag] = [tags.h3("Measure by measure")]
    parts += [_measure(one) for one in found.measured]
    left = [one for one in found.results if isinstance(one, Unmeasured)]
    parts += [
        tags.p(tags.strong(f"{without_options(one.title)}: "), without_options(one.reason), class_="soft")
        for one in left
    ]
    parts += [
        tags.p(
            tags.strong(f"{without_options(one.title)}: "),
            "it takes minutes, so this screen leaves it out. The command line has it: see below.",
            class_="soft",
        )
        for one in long
    ]
    return TagList(*parts)


def _measure(one: Measured) -> Tag:
    rows = [
        (row["Measure"], f"{fact.value:,.1f}" if _is_tau(fact) else row["Value"], row["What it means"])
        for fact, row in zip(one.facts, figures(one), strict=True)
    ]
    body = [
        tags.tr(tags.th(str(name), scope="row"), tags.td(_shown(value)), tags.td(str(words), class_="text soft"))
        for name, value, words in rows
    ]
    parts: list[Any] = [tags.p(kinds()[one.measure].meaning, class_="soft")]
    parts.append(scroll(tags.table(tags.tbody(*body)), one.title))
    if one.table:
        head = tags.tr(*(tags.th(cut(str(name)), scope="col") for name in one.table[0]))
        inner = [
            tags.tr(
                *(
                    tags.th(cut(_shown(v)), scope="row") if k == 0 else tags.td(_shown(v))
                    for k, v in enumerate(r.values())
                )
            )
            for r in one.table[:SHOWN]
        ]
        parts.append(scroll(tags.table(tags.thead(head), tags.tbody(*inner)), f"{one.title}, in detail"))
    drawn = picture(one)
    parts += [tags.div(HTML(drawn), class_="drawn")] if drawn else []
    parts += [tags.p(without_options(capital(note) + "."), class_="soft") for note in one.notes]
    return tags.details(tags.summary(one.title), *parts)


def _is_tau(fact: Fact) -> bool:
    """Whether a figure is an estimate, or an end of its interval, that other parts of the screen write to a tenth."""
    return fact.key.startswith("tau") and isinstance(fact.value, float)


def _shown(value: object) -> str:
    return f"{int(value):,}" if isinstance(value, int) else shown(value)
