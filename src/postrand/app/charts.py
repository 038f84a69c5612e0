"""Drawings of the workbench as inline SVG, without a script; a table beside each shows the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from htmltools import HTML, Tag, tags
from numpy.typing import NDArray

from postrand.app.computations import Margin, Point
from postrand.app.widgets import cut, scroll
from postrand.report import svg, text
from postrand.risk.tau import NORMAL_95

WIDTH, HEIGHT = 500, 360
LEFT, RIGHT, TOP, BOTTOM = 62, 18, 18, 52
_DOT = 24
MAX_ROWS = 40
"""Of a table with more cells, so many are shown."""
Shares = NDArray[np.float64]


def tradeoff(curve: Sequence[Point], now: Point | None, symbol: str, can_take: bool = False) -> Tag:
    """Draw the risk-utility map: ± 95% of a corrected share (across) against the attacker's chance (up).

    With ``can_take`` each point is a button that takes its level; the table beside it has the same for the keyboard.
    """
    points = [p for p in (*curve, *([now] if now else [])) if math.isfinite(p.error) and p.error > 0]
    if not points:
        return tags.p("No point can be drawn, because the shares cannot be corrected at any level.", class_="soft")
    plain = points[0].plain or min(p.error for p in points)
    low, high = min(plain, *(p.error for p in points)) * 0.9, max(p.error for p in points) * 1.15

    def x(error: float) -> float:
        span = math.log(high / low) or 1.0
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(max(error, low) / low) / span

    def y(chance: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - chance)

    parts = [_grid(x, y, low, high)]
    blind = points[0].blind
    parts.append(_line(LEFT, y(blind), WIDTH - RIGHT, y(blind), "reference"))
    parts.append(_label(LEFT + 6, y(blind) + 15, "guessing without the release", "start"))
    drawn = sorted((p for p in curve if math.isfinite(p.error) and p.error > 0), key=lambda p: p.level)
    if len(drawn) > 1:
        path = "M" + "L".join(f"{x(p.error):.1f} {y(p.guess):.1f}" for p in drawn)
        parts.append(f'<path class="curve" d="{path}"/>')
    dots = [(p, x(p.error), y(p.guess)) for p in drawn]
    parts += [f'<circle class="step" cx="{across:.1f}" cy="{up:.1f}" r="3.5"/>' for _, across, up in dots]
    named = drawn[:: max(1, len(drawn) // 4)]
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    for p in named:
        side, anchor = (7, "start") if x(p.error) < middle else (0, "middle")
        parts.append(_label(x(p.error) + side, max(y(p.guess) - 8, TOP + 4), f"{symbol} {p.level:g}", anchor))
    if now and math.isfinite(now.error):
        parts.append(f'<circle class="now" cx="{x(now.error):.1f}" cy="{y(now.guess):.1f}" r="8"/>')
    parts += [_taken(p, across, up, symbol) for p, across, up in dots] if can_take else []
    name = "Risk-utility map: chance of a correct guess against the precision of a corrected share"
    return _figure(parts, name + "; the table has the same points", "group" if can_take else "img")


def _taken(point: Point, x: float, y: float, symbol: str) -> str:
    """Return a point as a button, over its dot and as large as a finger needs."""
    words = f"Take {symbol} = {point.level:g}: {100 * point.guess:.1f}% guessed rightly"
    inner = f'data-act="level" data-key="{point.level:g}" tabindex="-1" title="{words}" aria-label="{words}"'
    place = f'x="{x - _DOT / 2:.1f}" y="{y - _DOT / 2:.1f}" width="{_DOT}" height="{_DOT}"'
    return f'<foreignObject {place}><button type="button" class="over" {inner}></button></foreignObject>'


def _grid(across: Callable[[float], float], up: Callable[[float], float], low: float, high: float) -> str:
    parts = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(_line(LEFT, up(share), WIDTH - RIGHT, up(share), "grid"))
        parts.append(_label(LEFT - 8, up(share) + 4, f"{100 * share:.0f}%", "end"))
    for value in (tick / NORMAL_95 for tick in _ticks(NORMAL_95 * low, NORMAL_95 * high)):
        parts.append(_line(across(value), TOP, across(value), HEIGHT - BOTTOM, "grid"))
        parts.append(_label(across(value), HEIGHT - BOTTOM + 18, f"{100 * NORMAL_95 * value:g}", "middle"))
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    parts.append(_label(middle, HEIGHT - 12, "a corrected share, ± (95%), percentage points (log scale)", "middle"))
    return "".join(parts)


def _ticks(low: float, high: float) -> list[float]:
    """Return round values 1, 2, 5 times a power of ten inside the range."""
    first = math.floor(math.log10(low))
    found = [m * 10.0**k for k in range(first, first + 8) for m in (1, 2, 5) if low <= m * 10.0**k <= high]
    return found if len(found) <= 8 else found[::2]


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<path class="{kind}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'


def _label(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def _figure(parts: Sequence[str], name: str, role: str = "img") -> Tag:
    inner = "".join(parts)
    return tags.div(
        HTML(f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="{role}" aria-label="{name}">{inner}</svg>'),
        class_="drawn",
    )


def heat(matrix: NDArray[np.float64], labels: Sequence[str], name: str) -> Tag:
    """Draw a matrix as a table with shaded cells that show their numbers."""
    turned = "turned" if len(labels) > 5 else None
    head = tags.tr(tags.td(), *(tags.th(tags.span(cut(c)), scope="col", class_=turned) for c in labels))
    rows = [
        tags.tr(
            tags.th(cut(label), scope="row"),
            *(
                tags.td(text.cell(float(p)), class_=f"h{svg.shade(float(p))}{' same' if i == j else ''}")
                for j, p in enumerate(row)
            ),
        )
        for i, (label, row) in enumerate(zip(labels, matrix, strict=True))
    ]
    wide = "heat wide" if len(labels) > 10 else "heat"
    return scroll(tags.table(tags.thead(head), tags.tbody(*rows), class_=wide), f"Transition matrix of {name}")


def margins(found: Margin, before: str = "Before") -> Tag:
    """Show a table of one or two variables: counts before, released and corrected, with three marks in each row.

    Cells without a record before and released are left out; of many cells those with most records are shown.
    """
    places, left = _shown_cells(found)
    share = [a / max(found.true.sum(), 1) for a in (found.true, found.released)]
    total = max(found.true.sum(), 1)
    ends = (0.0, 1.0)
    if found.low is not None and found.high is not None:
        ends = svg.axis_end(
            np.append(found.low.ravel() / total, 0), np.append(found.high.ravel() / total, max(s.max() for s in share))
        )
    heads = ["Cell", before, "Released", "Corrected", "95% interval"]
    head = [tags.th(h, scope="col", class_="text" if h == "Cell" else None) for h in heads]
    head.append(tags.th(HTML(str(svg.axis(ends))), scope="col", class_="plot"))
    rows = [_margin_row(found, index, share, ends) for index in places]
    table = scroll(tags.table(tags.thead(tags.tr(*head)), tags.tbody(*rows)), f"{before}, released and corrected")
    return tags.div(table, tags.p(left, class_="soft") if left else None)


def _shown_cells(found: Margin) -> tuple[list[tuple[int, ...]], str]:
    """Return the cells to show, in the order of the table, and a sentence on the others."""
    held = np.flatnonzero((found.true.ravel() > 0) | (found.released.ravel() > 0))
    empty, shown = found.true.size - held.size, held
    if held.size > MAX_ROWS:
        largest = np.argsort(-found.true.ravel()[held], kind="stable")[:MAX_ROWS]
        shown = held[np.sort(largest)]
    places = [tuple(int(i) for i in np.unravel_index(k, found.true.shape)) for k in shown]
    said = [f"The {MAX_ROWS} cells with most records before, of {held.size:,}."] if held.size > MAX_ROWS else []
    said += [f"Not shown: {empty:,} cells without a record before and released."] if empty else []
    return places, " ".join(said)


def _margin_row(found: Margin, index: tuple[int, ...], share: Sequence[Shares], ends: tuple[float, float]) -> Tag:
    total = max(found.true.sum(), 1)
    label = " × ".join(cut(texts[i]) for texts, i in zip(found.labels, index, strict=True))
    cells = [tags.th(label, scope="row"), *(tags.td(f"{a[index]:,.0f}") for a in (found.true, found.released))]
    if found.corrected is None or found.low is None or found.high is None:
        return tags.tr(*cells, tags.td("–"), tags.td("–"), tags.td())
    low, high, value = (float(a[index]) for a in (found.low, found.high, found.corrected))
    true, released = (float(s[index]) for s in share)
    missed = found.misses is not None and bool(found.misses[index])
    drawn = svg.interval(released, value / total, low / total, high / total, ends, before=true)
    return tags.tr(
        *cells,
        tags.td(tags.strong(f"{value:,.0f}".replace("-", "−"))),
        tags.td(
            f"{low:,.0f} to {high:,.0f}".replace("-", "−"),
            tags.span(" ✗", title="does not contain the count before") if missed else None,
        ),
        tags.td(HTML(str(drawn)), class_="plot"),
    )
