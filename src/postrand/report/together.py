"""A picture of which variables of a split appear together, and how often."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from postrand.report import svg, text

_SIDE, _SMALL_SIDE = 46, 18
_NUMBERED = 16
"""Up to so many variables, each square has its number; with more it would be too small to read."""
_LETTER, _LONGEST = 8.0, 20


def scale_of(shares: NDArray[np.float64]) -> float:
    """Return the share that has the darkest colour, over that of a matrix: twice the largest of a pair, at most 1.

    With many variables no pair is in a large share of the records.

    >>> scale_of(np.array([[0.6, 0.1], [0.1, 0.5]]))
    0.2
    """
    largest = float(np.triu(shares, 1).max(initial=0.0))
    return min(1.0, 2 * largest) if largest > 0 else 1.0


def together(names: Sequence[str], shares: NDArray[np.float64]) -> Markup:
    """Return a heat map of the probabilities that two variables are shown by one record, (J, J); symmetric.

    The half below the diagonal is drawn: rows have their names at the left, columns below. Colours are relative to
    :func:`scale_of`.

    >>> str(together(["a", "b"], np.array([[0.6, 0.1], [0.1, 0.5]])))[:12]
    '<svg class="'
    """
    labels = [text.cut(text.one_line(name), _LONGEST) for name in names]
    side = _SIDE if len(names) <= _NUMBERED else _SMALL_SIDE
    left = 14 + _LETTER * max(len(label) for label in labels)
    size = side * len(names)
    squares, scale = [], scale_of(shares)
    for i, row in enumerate(shares.tolist()):
        squares.append(_label(left - 8, side * (i + 0.5) + 4, labels[i]))
        squares.append(_turned(left + side * (i + 0.5) + 4, size + 8, labels[i]))
        for j in range(i + 1):
            squares.append(_square(left + side * j, side * i, side, row[j], scale, alone=i == j))
    whole = np.triu(shares, 1)[np.triu_indices(len(names), 1)]
    desc = f"One square for each pair of {len(names)} variables, darker where more records show both."
    if whole.size:
        desc += f" The pairs range from {text.percent(float(whole.min()))}% to {text.percent(float(whole.max()))}%."
    desc += " The squares on the diagonal are the single variables. The numbers are in the table below."
    return Markup(
        '<svg class="together" viewBox="0 0 {w} {h}" width="{w}" role="img"><title>{title}</title>'
        "<desc>{desc}</desc>{squares}</svg>"
    ).format(
        w=svg.number(left + size + 2),
        h=svg.number(size + left),
        title="How often two variables appear in one record",
        desc=desc,
        squares=Markup("").join(squares),
    )


def _square(x: float, y: float, side: int, share: float, scale: float, *, alone: bool) -> Markup:
    step = svg.shade(share / scale)
    inner = Markup("")
    if side == _SIDE:
        inner = Markup('<text class="on{}" x="{}" y="{}" text-anchor="middle">{}</text>').format(
            step, svg.number(x + side / 2), svg.number(y + side / 2 + 4), "–" if share == 0 else text.cell(share)
        )
    return Markup('<rect class="h{}{}" x="{}" y="{}" width="{}" height="{}"/>{}').format(
        step, " alone" if alone else "", *map(svg.number, (x + 0.5, y + 0.5, side - 1, side - 1)), inner
    )


def _label(x: float, y: float, label: str) -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="end">{}</text>').format(svg.number(x), svg.number(y), label)


def _turned(x: float, y: float, label: str) -> Markup:
    return Markup('<text transform="translate({} {}) rotate(-90)" text-anchor="end">{}</text>').format(
        svg.number(x), svg.number(y), label
    )
