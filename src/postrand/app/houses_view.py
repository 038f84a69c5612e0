"""Whole households on the screens: the form of what is drawn once for each, and their ε by size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from htmltools import Tag, TagList, tags

from postrand.app.decisions import Decisions
from postrand.app.houses import is_offered, is_protected, once, unit
from postrand.app.widgets import control, cut, labelled, scroll
from postrand.support.exact import format_upper
from postrand.support.guesses import of_hundred, right_guesses

ONCE = "one value for each household: drawn once"
_WHY = (
    "All members of a household show the same value of such a variable, so its ε counts once, and members together "
    "tell no more than one does. Choose it only where all members have the same true value, such as a region: a file "
    "in which members differ is refused."
)
_MOST = "From the questionnaire or its rules, not from the file: it becomes public. A larger household stops the run."


def form(decisions: Decisions) -> Tag | None:
    """Return what is decided on households; None where no variable numbers them."""
    if not is_offered(decisions):
        return None
    section, is_whole = unit(decisions) or {}, is_protected(decisions)
    whole = control("input", "house", "", type="checkbox", checked="checked" if is_whole else None)
    parts: list[Any] = [
        tags.legend("Households"),
        tags.label(whole, " Protect whole households, and state their ε", class_="field"),
    ]
    if is_whole:
        most = str(section.get("largest_household") or "")
        number = control("input", "house", "most", type="number", min="1", step="1", value=most)
        boxes = [box(decisions, j, "") for j in decisions.perturbed]
        words = f"With {ONCE}: {', '.join(map(cut, once(decisions))) or 'none'}"
        parts += [
            labelled("Most members of one household", number, _MOST),
            tags.details(tags.summary(words), tags.p(_WHY, class_="soft"), *boxes, open=""),
        ]
    return tags.fieldset(*parts)


def box(decisions: Decisions, column: int, words: str = f": {ONCE}") -> Tag:
    """Return the box that draws a variable once for each household; ``words`` follow its name."""
    name = decisions.names[column]
    checked = "checked" if name in once(decisions) else None
    inner = control("input", "house", str(column), type="checkbox", checked=checked)
    return tags.label(inner, f" {cut(name)}{words}", class_="field")


def levels_view(levels: Sequence[tuple[int, float]]) -> TagList:
    """Return a table of the ε of households by their size, with what it means in guesses; nothing without levels."""
    if not levels:
        return TagList()
    heads = ("Members", "ε together, at most", "Right guesses out of 100 (50 without the perturbed values)")
    rows = [
        tags.tr(tags.th(f"{members:,}", scope="row"), tags.td(format_upper(epsilon)), tags.td(_right(epsilon)))
        for members, epsilon in levels
    ]
    head = tags.tr(*(tags.th(words, scope="col") for words in heads))
    words = (
        "The members of a household add up, because the release shows who lives together. Guesses are between two "
        "equally likely descriptions of the whole household: 50 of 100 are right without the perturbed values, and at "
        "most so many with them."
    )
    return TagList(
        tags.p(tags.strong("Households, by their size")),
        tags.p(words, class_="soft"),
        scroll(tags.table(tags.thead(head), tags.tbody(*rows)), "Households, by their size"),
    )


def _right(epsilon: float) -> str:
    return of_hundred(min(right_guesses(epsilon, 0.5), 1 - 1e-12), most=True)
