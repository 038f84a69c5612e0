"""Drawings of a law under a metric budget: a map where its points are known, a fan for ranks, else a curve of reach.

Each is a function of the release, rounded to a tenth of a pixel: whoever verifies makes the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from postrand.codebook.category_distances import ranks, shortest_paths
from postrand.mechanism.matrix import UNIT
from postrand.privacy import MetricPrivacy
from postrand.report import svg, text

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WIDTH, HEIGHT = 330, 220
_LEFT, _BOTTOM, _EDGE = 44, 34, 8
_SIDE, _MARGIN = 210, 14  # of a map; the margin holds the largest ring
_COLUMNS = 200  # of a fan
_STEPS = 120  # of a curve
_LINES = 4  # neighbours for each point, on average, that are drawn
QUANTILES = (0.025, 0.25, 0.5, 0.75, 0.975)


def picture(weights: Ints, metric: MetricPrivacy, labels: Sequence[str]) -> tuple[Markup, str]:
    """Return the drawing of a matrix (S, S), in units of 2^-53, and what it shows."""
    if metric.points:
        return map_of(weights / UNIT, metric, labels)
    if metric.edges == ranks(len(weights)):
        return fan(
            weights, labels
        ), "By true value: half of the releases (dark), 95% of them (light), the median (line)."
    words = "Share of releases up to each distance: the median category (line), and from the lowest to the highest."
    return reach(weights / UNIT, shortest_paths(metric.edges, len(weights))), words


def map_of(matrix: Floats, metric: MetricPrivacy, labels: Sequence[str]) -> tuple[Markup, str]:
    """Return three maps, one for each of three true categories: how probable every released one is."""
    points = np.array(metric.points)
    low = points.min(axis=0)
    spread = float((points.max(axis=0) - low).max()) or 1.0
    place = _MARGIN + (_SIDE - 2 * _MARGIN) * (points - low) / spread
    place[:, 1] = place[:, 1].max() + _MARGIN - place[:, 1]  # north is up
    tall = float(place[:, 1].max()) + _MARGIN
    near = np.sort(np.hypot(*(place[:, None] - place[None]).T), axis=1)[:, 1]
    radius = min(9.0, max(1.5, 0.45 * float(np.median(near))))
    lines = Markup("")
    if len(metric.edges) <= _LINES * len(points):
        ends = (f"M{_pair(place[i])}L{_pair(place[k])}" for i, k, _ in metric.edges)
        lines = Markup('<path class="line" d="{}"/>').format("".join(ends))
    moved = (matrix * shortest_paths(metric.edges, len(matrix))).sum(axis=1)
    order = np.argsort(np.round(moved / (float(moved.max()) or 1.0), 9), kind="stable")
    chosen = list(dict.fromkeys(int(order[k]) for k in (0, len(order) // 2, -1)))
    panels = Markup("").join(_panel(matrix[i], i, place, radius, tall, lines, labels[i]) for i in chosen)
    words = "Where values of the ringed category are released: a stronger colour is more probable. The maps show "
    words += "the categories that are moved least, in the middle, and most."
    return Markup('<div class="maps">{}</div>').format(panels), words


def _panel(row: Floats, true: int, place: Floats, radius: float, tall: float, lines: Markup, label: str) -> Markup:
    dots = Markup("").join(
        Markup('<circle class="h{}" cx="{}" cy="{}" r="{}"/>').format(svg.shade(p), *map(svg.number, (x, y, radius)))
        for p, (x, y) in zip(row, place, strict=True)
    )
    ring = Markup('<circle class="true" cx="{}" cy="{}" r="{}"/>').format(*map(svg.number, (*place[true], radius + 2)))
    name = text.cut(text.one_line(label), 40)
    title = f"Where values of {name} are released"
    desc = f"Unchanged with probability {text.percent(row[true])}%; the table below says how far the others go."
    return Markup(
        '<figure><svg class="map" viewBox="0 0 {} {}" role="img"><title>{}</title><desc>{}</desc>{}{}{}</svg>'
        "<figcaption>{}</figcaption></figure>"
    ).format(_SIDE, svg.number(tall), title, desc, lines, dots, ring, name)


def fan(weights: Ints, labels: Sequence[str]) -> Markup:
    """Return the quantiles of the released rank by the true one, as bands; exact, because the matrix is in integers."""
    size = len(weights)
    shown = np.unique(np.linspace(0, size - 1, min(size, _COLUMNS)).round().astype(int))
    sums = np.cumsum(weights[shown], axis=1)
    found = np.array([(sums >= int(q * UNIT)).argmax(axis=1) for q in QUANTILES])
    wide, half = ((found[low] / size, (found[high] + 1) / size) for low, high in ((0, 4), (1, 3)))
    desc = "Half and 95% of the releases of each true category, in their order; the numbers are in the table below."
    ends = np.append(shown, size) / size
    shapes = [_band("wide", ends, *wide), _band("half", ends, *half), _middle(ends, (found[2] + 0.5) / size)]
    corners = (labels[0], labels[-1], labels[0], labels[-1])
    return _chart("Released category by true category", desc, shapes, ("true", "released"), corners)


def reach(matrix: Floats, distance: Floats) -> Markup:
    """Return the share of releases within each distance: the median category, lowest and highest."""
    longest = float(distance.max())
    ends = np.linspace(0, 1, _STEPS + 1)
    within = [np.where(distance <= d * longest * (1 + 1e-9), matrix, 0.0).sum(axis=1) for d in ends[:-1]]
    low, middle, high = (np.array([f(w) for w in within]) for f in (np.min, np.median, np.max))
    desc = (
        "One curve for the median category, in a band from the lowest to the highest; numbers are in the table below."
    )
    shapes = [_band("half", ends, low, high), _middle(ends, middle)]
    corners = ("0", text.decimal(longest), "0", "100%")
    return _chart("Share of releases by distance", desc, shapes, ("distance", "share"), corners)


def _chart(
    title: str, desc: str, shapes: Iterable[Markup], axes: tuple[str, str], corners: tuple[str, str, str, str]
) -> Markup:
    """Return shapes with axes named at both ends: left and right below, bottom and top at the side."""
    left, right, bottom, top = (text.cut(text.one_line(c), 12) for c in corners)
    floor, edge = HEIGHT - _BOTTOM, WIDTH - _EDGE
    return Markup(
        '<svg class="chart" viewBox="0 0 {w} {h}" role="img"><title>{title}</title><desc>{desc}</desc>{shapes}'
        '<path class="axis" d="M{l} {t}V{f}H{e}"/><text x="{l}" y="{b}">{left}</text>'
        '<text x="{m}" y="{b}" text-anchor="middle" class="name">{x}</text>'
        '<text x="{e}" y="{b}" text-anchor="end">{right}</text>'
        '<text transform="translate({s} {f}) rotate(-90)">{bottom}</text>'
        '<text transform="translate({s} {c}) rotate(-90)" text-anchor="middle" class="name">{y}</text>'
        '<text transform="translate({s} {t}) rotate(-90)" text-anchor="end">{top}</text></svg>'
    ).format(
        w=WIDTH, h=HEIGHT, l=_LEFT, t=_EDGE, f=floor, e=edge, b=floor + 16, s=_LEFT - 8, title=title, desc=desc,
        m=svg.number((_LEFT + edge) / 2), c=svg.number((_EDGE + floor) / 2), x=axes[0], y=axes[1],
        left=left, right=right, bottom=bottom, top=top, shapes=Markup("").join(shapes),
    )  # fmt: skip


def _steps(ends: Floats, levels: Floats) -> list[tuple[float, float]]:
    """Return the corners of steps at shares (K,) of the height between shares (K+1,) of the width."""
    across = _LEFT + (WIDTH - _LEFT - _EDGE) * np.repeat(ends, 2)[1:-1]
    up = HEIGHT - _BOTTOM - (HEIGHT - _BOTTOM - _EDGE) * np.repeat(levels, 2)
    return list(zip(across.tolist(), up.tolist(), strict=True))


def _band(name: str, ends: Floats, low: Floats, high: Floats) -> Markup:
    corners = [*_steps(ends, high), *_steps(ends, low)[::-1]]
    return Markup('<path class="{}" d="M{}Z"/>').format(name, "L".join(map(_pair, corners)))


def _middle(ends: Floats, levels: Floats) -> Markup:
    return Markup('<path class="middle" d="M{}"/>').format("L".join(map(_pair, _steps(ends, levels))))


def _pair(point: Iterable[float]) -> str:
    return " ".join(map(svg.number, point))
