"""The whole plan on the screen: blocks by hand, an opened plan's own design, its blocks in a table, its sentences."""

from __future__ import annotations

from typing import Any

from htmltools import Tag, TagList, tags

from postrand.app import goals, houses
from postrand.app.blocks import Blocks
from postrand.app.decisions import Decisions
from postrand.app.designing import Designed
from postrand.app.notes import without_options
from postrand.app.widgets import busy, button, control, cut, facts, labelled, scroll, select, trouble
from postrand.mechanism import Block
from postrand.report import text
from postrand.report.table_worth import TableWorth, least_and_mean, no_estimate, shown
from postrand.support.exact import format_upper
from postrand.support.showing import unshown
from postrand.support.worth_basis import BASES, MEAN
from postrand.workflow.epsilon import above_bound
from postrand.workflow.explanation import Explanation

MAX_CHOSEN = MAX_STRATA = 40
MAX_TABLES = 30


# -- the choices ------------------------------------------------------------------------------------------------------


def ways(decisions: Decisions) -> list[tuple[str, str]]:
    """Return the ways of release that can be chosen: that of an opened plan too."""
    return [*goals.WAYS.items(), *([(goals.FROM_PLAN, goals.OF_PLAN)] if "whole" in decisions.kept else [])]


def blocks_form(decisions: Decisions) -> TagList:
    """Return for each perturbed variable with which others it is drawn, and the strata of each block."""
    blocks, names = decisions.blocks, decisions.names
    joint = [one for one in blocks if len(one.variables) > 1]
    words = f"Released together: {'; '.join(cut(one.name) for one in joint) or 'none'}"
    help_text = (
        "Variables of one block are drawn together, as one variable with all their combinations: its tables keep more, "
        "and its matrix is larger."
    )
    if len(decisions.perturbed) > MAX_CHOSEN:
        many = f"More than {MAX_CHOSEN} variables are perturbed: put them together in plan.toml, and open it again."
        return TagList(tags.p(f"{words}. {many}", class_="soft"))
    rows = [_beside(blocks, j, names[j]) for j in decisions.perturbed]
    together = tags.details(tags.summary(words), tags.p(help_text, class_="soft"), *rows, open="" if joint else None)
    return TagList(together, *_strata(decisions))


def _beside(blocks: Blocks, j: int, name: str) -> Tag:
    mine = next(one for one in blocks if name in one.variables)
    others = [n for n in mine.variables if n != name]
    choices = [("", "by itself"), *((o.variables[0], f"with {o.name}") for o in blocks if o is not mine)]
    choices += [(others[0], f"with {' × '.join(others)}")] if others else []
    chosen = others[0] if others else ""
    return labelled(cut(name), select("block", str(j), chosen, [(v, cut(w)) for v, w in choices], ""))


def _strata(decisions: Decisions) -> list[Tag]:
    """Return a list of boxes for each block: the variables whose every value has a matrix of its own."""
    strata = decisions.strata[:MAX_STRATA]
    if not strata:
        return []
    words = (
        "A stratum is a group of records by a variable that is released as it is, such as a region. Each has its own "
        "matrix, and values are drawn within it."
    )
    found = [tags.p(words, class_="soft")]
    for one in decisions.blocks:
        first = decisions.names.index(one.variables[0])
        boxes = [
            tags.label(
                control(
                    "input",
                    "given",
                    f"{first}:{j}",
                    type="checkbox",
                    checked="checked" if decisions.names[j] in one.given else None,
                ),
                f" {cut(decisions.names[j])}",
                class_="field",
            )
            for j in strata
        ]
        given = ", ".join(map(cut, one.given)) or "none"
        found.append(
            tags.details(tags.summary(f"Strata of {cut(one.name)}: {given}"), *boxes, open="" if one.given else None)
        )
    given = "; ".join(
        f"{cut(one.name)} within {', '.join(map(cut, one.given))}" for one in decisions.blocks if one.given
    )
    return [tags.details(tags.summary(f"Strata: {given or 'none'}"), *found, open="" if given else None)]


def own_design(decisions: Decisions) -> TagList:
    """Return what is said of an opened plan's own design, which no form changes."""
    return TagList(
        tags.p(
            "The opened plan has its own design, and it is released as it is written: no control of this screen "
            "changes it. Its blocks and what it promises are shown beside. To change it here, choose another way above;"
            " Undo brings this one back.",
            class_="soft",
        ),
        *(tags.p(f"{words} {', '.join(map(cut, names))}.", class_="soft") for words, names in _named(decisions)),
    )


def _named(decisions: Decisions) -> list[tuple[str, list[str]]]:
    ranked = [name for one in decisions.kept.get("numerical", ()) for name in one["variables"]]
    return [("Numbers that are moved or averaged among similar values:", ranked)] if ranked else []


def kept_parts(decisions: Decisions) -> Tag | None:
    """Return the parts of an opened plan that have no control, in plain words; None if there are none."""
    kept, said = decisions.kept, []
    said += [f"{words} {', '.join(map(cut, names))}" for words, names in _named(decisions)]
    if (unit := kept.get("unit")) and (not houses.is_offered(decisions) or {*unit} - {*houses.SHOWN}):
        named = ", ".join(cut(str(unit[name])) for name in ("household", "person") if unit.get(name))
        said.append(f"Whole households or persons are protected too, by the column {named}")
    if also := kept.get("claims"):
        said.append(f"More is claimed, and checked: {', '.join(cut(str(one.get('model', ''))) for one in also)}")
    if kept.get("policy"):
        said.append("The rules of the office are checked before anything is written")
    if uses := kept.get("analysts", {}).get("uses"):
        said.append(f"What analysts will do is tried in simulated releases: {'; '.join(map(cut, uses))}")
    if kept.get("ledger"):
        said.append("The release is counted in the ledger of its population")
    if kept.get("chosen_with") == "file":
        said.append("Blocks or levels were chosen with the file, and the certificate says so")
    if not said:
        return None
    return tags.div(
        tags.p(tags.strong("Kept from the opened plan")), tags.ul(*(tags.li(f"{one}.") for one in said)), class_="soft"
    )


# -- what it is -------------------------------------------------------------------------------------------------------


def whole_view(made: Designed, one: list[TableWorth], two: list[TableWorth]) -> TagList:
    """Return the level of a record, every block, and what tables of one and two variables are worth."""
    total = made.certificate.account.total
    parts: list[Any] = [("ε of a record, at most", format_upper(total))] if total < 1e4 else []
    records = next((t.records for t in (*one, *two)), 0)
    for words, tables in (("one variable", one), ("two variables", two)):
        if found := least_and_mean(tables):
            none = f"; {text}" if (text := no_estimate(tables)) else ""
            small = tags.span(f"worst {shown(found[0])}, of {records:,} released{none}", class_="soft")
            parts.append((f"Tables of {words}: effective records", TagList(shown(found[1]), small)))
    assumed = f"Effective records: {MEAN} of all such tables, {BASES[(*one, *two)[0].basis]}." if one else ""
    told = [*made.said, *map(without_options, above_bound(total))]
    return TagList(
        trouble(told) if told else None,
        facts(parts),
        tags.p(assumed, class_="soft"),
        tags.h3("The blocks"),
        _blocks(made),
        _tables([*one, *two]),
    )


def _blocks(made: Designed) -> Tag:
    heads = ("Drawn together", "Strata", "ε at most", "Combinations", "Unchanged, at least")
    head = tags.tr(*(tags.th(h, scope="col", class_="text" if h in heads[:2] else None) for h in heads))
    rows = [_block(one) for one in made.mechanism.blocks]
    return scroll(tags.table(tags.thead(head), tags.tbody(*rows)), "The blocks")


def _block(one: Block) -> Tag:
    level = one.epsilon
    return tags.tr(
        tags.th(cut(" × ".join(one.perturbed)), scope="row"),
        tags.td(cut(", ".join(one.given)) or "–", class_="text"),
        tags.td(format_upper(level) if level < 1e4 else "no bound"),
        tags.td(f"{one.matrix.size:,}"),
        tags.td(f"{text.percent(float(one.matrix.diagonal.min()))}%"),
    )


def _cell(one: TableWorth) -> str:
    return "no estimate" if one.has_no_estimate else shown(one.effective_records)


def _tables(tables: list[TableWorth]) -> Tag | None:
    if not tables:
        return None
    more = unshown(len(tables), MAX_TABLES)
    rows = [
        tags.tr(
            tags.th(cut(one.name), scope="row"),
            tags.td("no estimate" if one.has_no_estimate else shown(one.effective_records)),
        )
        for one in tables[: len(tables) - more]
    ]
    head = tags.tr(tags.th("Table", scope="col", class_="text"), tags.th("Effective records", scope="col"))
    return tags.details(
        tags.summary(f"Each table ({len(tables):,})"),
        scroll(tags.table(tags.thead(head), tags.tbody(*rows)), "Each table"),
        tags.p(f"and {more:,} more", class_="soft") if more else None,
    )


def explained(found: Explanation | None, waiting: bool) -> TagList:
    """Return the plan in sentences, as ``postrand explain`` gives them, or the button that asks for them."""
    head = tags.h3("The plan in sentences")
    if waiting:
        return TagList(head, busy("Measuring the plan on the file …"))
    if found is None:
        words = "What is released, who is protected against what, and what analysts can do with it."
        return TagList(head, tags.p(words, class_="soft"), button("Explain this plan", "explain"))
    parts: list[Any] = [head, tags.p("Internal: these are figures of the confidential file.", class_="soft")]
    for title, sentences in found.sections:
        parts += [tags.p(tags.strong(title)), tags.ul(*(tags.li(one) for one in sentences))]
    return TagList(*parts)
