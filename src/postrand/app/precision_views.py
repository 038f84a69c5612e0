"""The table of all variables on the screen Design: the budget of each, and what its tables are worth."""

from __future__ import annotations

from collections.abc import Sequence

from htmltools import Tag, TagList, tags

from postrand.app.decisions import Decisions
from postrand.app.precision import Precision
from postrand.app.widgets import button, cut, scroll
from postrand.report.table_worth import USELESS_RECORDS, USELESS_SHARE, TableWorth, shown
from postrand.support.exact import format_upper
from postrand.support.worth_basis import BASES

HEADS = ("Variable", "ε at most", "Its table", "Its worst table of two")


def precision_view(decisions: Decisions, found: Sequence[Precision], records: int) -> TagList:
    """Return one row for each perturbed variable, that whose table is worth least first."""
    if not found:
        return TagList()
    head = tags.tr(*(tags.th(h, scope="col", class_="text" if h == HEADS[0] else None) for h in HEADS))
    can_show = decisions.is_plain and len(found) > 1
    rows = [_row(one, decisions if can_show else None) for one in found]
    words = (
        f"Effective records: so many unperturbed records would give the table as precisely, of {records:,}, "
        f"{BASES[found[0].basis]}. The least comes first. Of little use: fewer than {USELESS_RECORDS}, or less than "
        f"{100 * USELESS_SHARE:g}% of the file."
    )
    return TagList(
        tags.h3("Every variable"),
        tags.p(words, class_="soft"),
        scroll(tags.table(tags.thead(head), tags.tbody(*rows)), "Every variable: its ε and what its tables are worth"),
    )


def _row(one: Precision, decisions: Decisions | None) -> Tag:
    """Return the row of a variable; with ``decisions`` its name is a button that shows its map and its matrix."""
    name: Tag | str = cut(one.name)
    is_shown = False
    if decisions is not None:
        at = decisions.names.index(one.name)
        is_shown = at == decisions.shown
        label = f"Show the map of {cut(one.name)}"
        name = button(cut(one.name), "shown", str(at), "small", aria_label=label, aria_pressed=str(is_shown).lower())
    others = [cut(other) for other in one.together if other != one.name]
    level = format_upper(one.epsilon) if one.epsilon < 1e4 else "no bound"
    shared = tags.span(f"with {', '.join(others)}", class_="soft") if others else None
    return tags.tr(
        tags.th(name, scope="row"),
        tags.td(level, shared),
        tags.td(*_worth(one.one)),
        tags.td("–") if one.worst is None else tags.td(*_worth(one.worst, f"with {cut(one.other)}")),
        class_="same" if is_shown else None,
    )


def _worth(one: TableWorth, words: str = "") -> list[str | Tag]:
    """Return effective records, and below them with which variable, and whether the table is of little use."""
    said = [text for text in (words, "of little use" if one.is_of_little_use else "") if text]
    below = tags.span(one.why or "; ".join(said), class_="soft") if one.why or said else None
    return [shown(one.effective_records, one.records), *([] if below is None else [below])]
