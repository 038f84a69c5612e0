"""Panels of lines and points as SVG: coordinates to a tenth, so that the same numbers give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from postrand.report.svg import number

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 340, 220, 52, 12, 26, 38
COLOURS = {"truth": "#b8860b", "mean": "#b22222", "one": "#1f5fa8", "two": "#666"}


@dataclass(frozen=True, slots=True)
class Series:
    """Points ``(x, y)`` as a line, as dots, or as upright bars from ``y`` to ``upper``."""

    x: Sequence[float]
    y: Sequence[float]
    colour: str
    label: str = ""
    dots: bool = False
    upper: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot with its title, the names of its axes, and what it shows."""

    title: str
    across: str
    up: str
    series: tuple[Series, ...]
    top: float = 0.0
    """The least upper end of the upright axis: panels to compare have one."""


def drawing(title: str, panels: Sequence[Panel], columns: int = 2) -> str:
    """Return the panels in rows of ``columns``, as one SVG document."""
    columns = min(columns, len(panels))
    tall = HEIGHT * -(-len(panels) // columns)
    parts = [
        Markup('<g transform="translate({} {})">{}</g>').format(WIDTH * (k % columns), HEIGHT * (k // columns), _of(p))
        for k, p in enumerate(panels)
    ]
    return str(
        Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" '
            'font-family="sans-serif" font-size="11"><title>{t}</title><rect width="{w}" height="{h}" fill="#fff"/>'
            "\n{p}\n</svg>\n"
        ).format(w=WIDTH * columns, h=tall, t=title, p=Markup("\n").join(parts))
    )


def _of(panel: Panel) -> Markup:
    xs = [v for s in panel.series for v in s.x]
    ys = [v for s in panel.series for v in (*s.y, *s.upper)]
    across, up = (min(xs), max(xs)), (min(0.0, *ys), max(panel.top, *ys))
    right, foot = WIDTH - RIGHT, HEIGHT - BOTTOM

    def place(x: float, y: float) -> tuple[str, str]:
        return (
            number(LEFT + 6 + (right - LEFT - 12) * (x - across[0]) / (across[1] - across[0])),
            number(foot - (foot - TOP) * (y - up[0]) / (up[1] - up[0])),
        )

    lines = [
        Markup('<path d="M{} {}V{}H{}" fill="none" stroke="#444"/>').format(LEFT, TOP, foot, right),
        Markup('<text x="{}" y="15" font-weight="bold">{}</text>').format(LEFT, panel.title),
        Markup('<text x="{}" y="{}">{}</text>').format(LEFT, HEIGHT - 6, panel.across),
        Markup('<text transform="translate(12 {}) rotate(-90)" text-anchor="middle">{}</text>').format(
            (TOP + foot) // 2, panel.up
        ),
    ]
    for x, anchor in ((across[0], "start"), (across[1], "end")):
        at = place(x, up[0])[0]
        lines.append(Markup('<text x="{}" y="{}" text-anchor="{}">{:.4g}</text>').format(at, foot + 14, anchor, x))
    for y in up:
        lines.append(
            Markup('<text x="{}" y="{}" text-anchor="end">{:.3g}</text>').format(LEFT - 4, place(across[0], y)[1], y)
        )
    lines += [_marks(series, place) for series in panel.series]
    names = [
        Markup('<tspan fill="{}" dx="8">{}</tspan>').format(COLOURS[s.colour], s.label) for s in panel.series if s.label
    ]
    legend = Markup('<text x="{}" y="{}" text-anchor="end">{}</text>')
    lines.append(legend.format(right, HEIGHT - 6, Markup("").join(names)))
    return Markup("").join(lines)


def _marks(series: Series, place) -> Markup:
    colour, points = COLOURS[series.colour], [place(x, y) for x, y in zip(series.x, series.y, strict=True)]
    if series.upper:
        tops = [place(x, y)[1] for x, y in zip(series.x, series.upper, strict=True)]
        path = "".join(f"M{x} {y}V{top}" for (x, y), top in zip(points, tops, strict=True))
        return Markup('<path d="{}" stroke="{}" stroke-width="5" stroke-opacity="0.35"/>').format(path, colour)
    if series.dots:
        return Markup("").join(Markup('<circle cx="{}" cy="{}" r="2.5" fill="{}"/>').format(*p, colour) for p in points)
    path = "M" + "L".join(f"{x} {y}" for x, y in points)
    return Markup('<path d="{}" fill="none" stroke="{}" stroke-width="1.5"/>').format(path, colour)
