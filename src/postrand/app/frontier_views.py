"""The frontier of the whole file on the screen: a picture whose points can be taken, and the same as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from htmltools import HTML, Tag, TagList, tags

from postrand.app import frontier
from postrand.app.decisions import Decisions
from postrand.app.frontier import MEASURES, PREFIX, Level, Target
from postrand.app.widgets import busy, button, control, cut, labelled, scroll, select
from postrand.report.table_worth import shown
from postrand.report.text import decimal
from postrand.support.measure_names import KEYS_ALONE
from postrand.support.showing import capital, outward, outward_percent

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 56, 24, 20, 56
_DOT = 26


def form(decisions: Decisions) -> Tag:
    """Return the targets that the points are held against, and the button that draws them."""
    held = {k.removeprefix(PREFIX): v for k, v in decisions.texts.items() if k.startswith(PREFIX)}
    tables = [("", "–"), *((name, cut(name)) for name in (decisions.names[j] for j in decisions.perturbed))]
    return tags.div(
        tags.h3("All levels"),
        tags.p(
            "What each level of a record buys for the tables of the whole file. Take a point to use it.", class_="soft"
        ),
        tags.div(
            labelled("A cell of the table of", select("typed", f"{PREFIX}first", held.get("first", ""), tables, "")),
            labelled("by", select("typed", f"{PREFIX}second", held.get("second", ""), tables, "")),
            labelled("within ± points", _number("points", held)),
            labelled("Risk", select("typed", f"{PREFIX}measure", held.get("measure", ""), list(MEASURES.items()), "")),
            labelled("at most", _number("limit", held)),
            class_="row",
        ),
        button("Draw all levels", "draw"),
    )


def _number(name: str, held: Mapping[str, str]) -> Tag:
    return control("input", "typed", PREFIX + name, type="number", step="any", min="0", value=held.get(name, ""))


def points(
    found: Sequence[Level], risks: Mapping[str, float | None], target: Target, now: Decisions, measuring: bool
) -> TagList:
    """Return the picture and the table; a point that keeps what is asked is filled, the one in use is framed."""
    used = next((one.key for one in found if _is_used(one, now)), "")
    kept = {one.key: frontier.meets(one, risks.get(one.key), target) for one in found}
    return TagList(
        tags.p(
            "Across: effective records of a table of two variables, the harmonic mean of all tables, if every "
            "combination were equally frequent. Up: ε of a record; smaller protects more.",
            class_="soft",
        ),
        _picture(found, kept, used),
        tags.p(f"{capital(KEYS_ALONE)}.", class_="soft"),
        busy("Measuring the risk at every level …") if measuring else None,
        _said(found, kept),
        *(tags.p(text, class_="soft") for text in (found[0].drawn.sentences if found and target.table else ())),
        _table(found, risks, target, kept, used),
        tags.details(
            tags.summary("What is not drawn, and why"),
            tags.ul(*(tags.li(f"{text}.") for text in frontier.left_out(now, tuple(found)))),
        ),
    )


def _is_used(one: Level, now: Decisions) -> bool:
    made = frontier.at_level(now, one.way, one.epsilon)
    sides = [(state.way, state.held, state.goal, state.structure, dict(state.values)) for state in (made, now)]
    return sides[0] == sides[1]


def _said(found: Sequence[Level], kept: Mapping[str, bool | None]) -> Tag | None:
    """Return which point that keeps all that is asked has the least ε, and which is worth most."""
    if all(value is None for value in kept.values()):
        return None
    good = [one for one in found if kept[one.key]]
    if not good:
        return tags.p("No level that is drawn keeps what you ask: allow more risk, or ask for less precision.")
    least, most = min(good, key=lambda one: (one.epsilon, -one.two)), max(good, key=lambda one: one.two)
    words = f"The least ε that keeps what you ask: {least.epsilon:g}, {frontier.words(least.way)}."
    words += f" The most for tables: ε = {most.epsilon:g}, {frontier.words(most.way)}." if most is not least else ""
    return tags.p(tags.strong(words))


def _picture(found: Sequence[Level], kept: Mapping[str, bool | None], used: str) -> Tag:
    drawn = [one for one in found if one.two > 0]
    if not drawn:
        return tags.p("No table of two variables can be estimated at these levels.", class_="soft")
    low, high = min(one.two for one in drawn), max(one.two for one in drawn)
    least, most = math.log(min(one.epsilon for one in drawn)), math.log(max(one.epsilon for one in drawn))

    def place(one: Level) -> tuple[float, float]:
        across = math.log(one.two / low) / (math.log(high / low) or 1.0)
        up = (math.log(one.epsilon) - least) / ((most - least) or 1.0)
        x = LEFT + _DOT / 2 + (WIDTH - LEFT - RIGHT - _DOT) * across
        return x, HEIGHT - BOTTOM - _DOT / 2 - (HEIGHT - TOP - BOTTOM - _DOT) * up

    parts = [_axes(drawn, place)]
    for k, way in enumerate(dict.fromkeys(one.way for one in drawn)):
        mine = [one for one in drawn if one.way == way]
        line = "M" + "L".join("{:.1f} {:.1f}".format(*place(one)) for one in mine)
        x, y = place(mine[-1 - min(2 * k, len(mine) - 1)])  # at another height than the other names
        anchor = "end" if x > WIDTH / 2 else "start"
        parts.append(f'<path class="curve" d="{line}"/>')
        parts.append(f'<text x="{x:.1f}" y="{y - 16:.1f}" text-anchor="{anchor}">{frontier.words(way)}</text>')
    parts += [_dot(one, *place(one), kept[one.key], one.key == used) for one in drawn]
    return tags.div(
        HTML(
            f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" '
            f'aria-label="All levels; the table below has the same points">{"".join(parts)}</svg>'
        ),
        class_="drawn frontier",
    )


def _axes(drawn: Sequence[Level], place: Any) -> str:
    """Return a line for each level, and the least and the most effective records."""
    parts = []
    for epsilon in dict.fromkeys(one.epsilon for one in drawn):
        _, y = place(next(one for one in drawn if one.epsilon == epsilon))
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}L{WIDTH - RIGHT} {y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{epsilon:g}</text>')
    ends = min(drawn, key=lambda one: one.two), max(drawn, key=lambda one: one.two)
    for one, anchor in zip(ends, ("start", "end"), strict=True):
        x, _ = place(one)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="{anchor}">{shown(one.two)}</text>')
    middle = f'<text x="{WIDTH / 2:.1f}" y="{HEIGHT - 12}" text-anchor="middle">'
    return "".join(parts) + f"{middle}effective records (log scale)</text>"


def _dot(one: Level, x: float, y: float, kept: bool | None, used: bool) -> str:
    kind = "dot" + (" good" if kept else "") + (" used" if used else "")
    size = f'x="{x - _DOT / 2:.1f}" y="{y - _DOT / 2:.1f}" width="{_DOT}" height="{_DOT}"'
    words = f"ε = {one.epsilon:g}, {frontier.words(one.way)}: {shown(one.two)} effective records"
    inner = f'data-act="point" data-key="{one.key}" tabindex="-1" title="{words}" aria-label="{words}"'
    return f'<foreignObject {size}><button type="button" class="{kind}" {inner}></button></foreignObject>'


def _table(
    found: Sequence[Level],
    risks: Mapping[str, float | None],
    target: Target,
    kept: Mapping[str, bool | None],
    used: str,
) -> Tag:
    heads = ["ε of a record", "Released", "Tables of one", "Tables of two"]
    if target.table:
        basis = found[0].drawn.basis if found else ""
        heads.append(f"± points at most, at the least favourable shares{basis}: {' × '.join(map(cut, target.table))}")
    if target.limit is not None:
        heads.append(capital(MEASURES[target.measure]))
    heads += ["Keeps what is asked", ""]
    head = [tags.th(h, scope="col", class_="text" if h == "Released" else None) for h in heads]
    rows = [_row(one, risks.get(one.key), target, kept[one.key], used) for one in found]
    return scroll(tags.table(tags.thead(tags.tr(*head)), tags.tbody(*rows)), "All levels")


def _row(one: Level, risk: float | None, target: Target, kept: bool | None, used: str) -> Tag:
    cells = [tags.td(frontier.words(one.way), class_="text"), *map(tags.td, one.said)]
    if target.table:
        cells.append(tags.td("not known" if one.points is None else decimal(one.points)))
    if target.limit is not None:
        is_share = target.measure.startswith("individual")
        cells.append(tags.td("–" if risk is None else outward_percent(risk) if is_share else outward(risk)))
    cells += [tags.td("–" if kept is None else "yes" if kept else "no")]
    label = f"Take ε = {one.epsilon:g}, {frontier.words(one.way)}"
    take = button("In use" if one.key == used else "Take", "point", one.key, "small", aria_label=label)
    return tags.tr(
        tags.th(f"{one.epsilon:g}", scope="row"), *cells, tags.td(take), class_="same" if one.key == used else None
    )
