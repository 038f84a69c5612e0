"""Small inline drawings, each beside the numbers that it shows."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

WIDTH, HEIGHT = 220, 18
_PAD = 6
SHADES = (0.0005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75)
"""Lower ends of the heat map's steps 1..9; step 0 is (almost) never."""


def shade(probability: float) -> int:
    """Return the step 0..9 of the sequential colour map.

    >>> shade(0.0), shade(0.3), shade(1.0)
    (0, 6, 9)
    """
    return int(np.searchsorted(SHADES, probability, side="right"))


def bar(share: float) -> Markup:
    """Return a bar of a share of 1."""
    length = 100 * min(max(share, 0.0), 1.0)
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" width="100" height="8"/><rect class="fill" width="{}" height="8"/></svg>'
    ).format(number(length))


def axis_end(low: NDArray[np.float64], high: NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of a common axis: 0 and a round share above every interval, or below 0 where one reaches there.

    >>> axis_end(np.array([-0.01]), np.array([0.31]))
    (-0.05, 0.4)
    """
    top, bottom = float(high.max()), float(low.min())
    step = next((s for s in (0.05, 0.1, 0.2) if top <= 4 * s), 0.25)
    end = step * math.ceil(round(top / step, 9))
    start = 0.0 if bottom >= 0 else max(-1.0, -0.05 * math.ceil(round(-bottom / 0.05, 9)))
    return start, max(end, step)


def interval(
    released: float, value: float, low: float, high: float, axis: tuple[float, float], before: float | None = None
) -> Markup:
    """Return a row of a dot plot: the released share (ring), the corrected share (dot) and its 95% interval (line).

    ``before``, on internal pages alone: the share in the file before it was perturbed (upright line).
    """
    x = [number(_place(v, axis)) for v in (0.0, low, high, released, value)]
    middle = HEIGHT / 2
    mark = (
        ""
        if before is None
        else Markup('<path class="before" d="M{} 1V{}"/>').format(number(_place(before, axis)), HEIGHT - 1)
    )
    return Markup(
        '<svg class="dots" viewBox="0 0 {w} {h}" aria-hidden="true"><path class="zero" d="M{0} 0V{h}"/>'
        '<path class="line" d="M{1} {m}H{2}"/><circle class="ring" cx="{3}" cy="{m}" r="4"/>'
        '<circle class="dot" cx="{4}" cy="{m}" r="3.5"/>{mark}</svg>'
    ).format(*x, w=WIDTH, h=HEIGHT, m=number(middle), mark=mark)


def axis(ends: tuple[float, float]) -> Markup:
    """Return the axis above the rows of a dot plot, labelled in per cent at 0 and at the end."""
    zero, end = number(_place(0.0, ends)), number(_place(ends[1], ends))
    return Markup(
        '<svg class="dots" viewBox="0 0 {w} {h}" aria-hidden="true"><text x="{0}" y="13" text-anchor="middle">0</text>'
        '<text x="{1}" y="13" text-anchor="end">{2}%</text></svg>'
    ).format(zero, end, number(100 * ends[1]), w=WIDTH, h=HEIGHT)


def _place(value: float, ends: tuple[float, float]) -> float:
    start, end = ends
    inside = min(max(value, start), end)
    return _PAD + (WIDTH - 2 * _PAD) * (inside - start) / (end - start)


def number(value: float) -> str:
    """Return a coordinate to a tenth."""
    return f"{value:.1f}".removesuffix(".0")
