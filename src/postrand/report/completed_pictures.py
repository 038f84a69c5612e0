"""The pictures of completed files: a trace, released tables against the model's, shares beside unbiased ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from postrand.report.svg import HEIGHT, WIDTH, number

_WIDE, _TALL, _LEFT, _BOTTOM, _TOP = 420, 190, 52, 30, 10
_COLOURS = 4
Numbers = Sequence[float | None]


def trace(chains: Sequence[Numbers]) -> Markup:
    """Return the path of a quantity through the sweeps of each chain, one line for each."""
    known = [value for chain in chains for value in chain if value is not None]
    if not known:
        return Markup("")
    low, high = _ends(known)
    lines = []
    for k, chain in enumerate(chains):
        step = (_WIDE - _LEFT - 8) / max(len(chain) - 1, 1)
        places = [
            f"{number(_LEFT + step * t)} {number(_up(v, low, high))}" for t, v in enumerate(chain) if v is not None
        ]
        lines.append(Markup('<path class="chain c{}" d="M{}"/>').format(k % _COLOURS, "L".join(places)))
    ticks = Markup("").join(_tick(value, low, high) for value in (low, (low + high) / 2, high))
    words = Markup('<text x="{}" y="{}">first sweep shown</text><text x="{}" y="{}" text-anchor="end">last</text>')
    return _drawn(
        Markup("").join([ticks, *lines, words.format(_LEFT, _TALL - 8, _WIDE - 8, _TALL - 8)]),
        "Traces of the chains",
        "One line for each chain; chains that have converged cover the same range all the time.",
    )


def predicted(points: Sequence[Sequence[float | None]]) -> Markup:
    """Return observed against expected shares of released cells, on square-root scales, far ones as rings."""
    known = [(o, e, z) for o, e, z in points if o is not None and e is not None and z is not None]
    if not known:
        return Markup("")
    top = max(max(o, e) for o, e, _ in known)
    marks = []
    for observed, expected, apart in sorted(known, key=lambda point: abs(point[2])):
        x, y = _across(math.sqrt(expected / top)), _up(math.sqrt(observed / top), 0.0, 1.0)
        kind = "far" if abs(apart) > 4 else "near"
        radius = "3.5" if kind == "far" else "2"
        marks.append(Markup('<circle class="{}" cx="{}" cy="{}" r="{}"/>').format(kind, number(x), number(y), radius))
    diagonal = Markup('<path class="axis" d="M{} {}L{} {}"/>').format(
        *(number(v) for v in (_across(0), _up(0, 0, 1), _across(1), _up(1, 0, 1)))
    )
    ticks = [_tick(math.sqrt(share), 0.0, 1.0, f"{100 * share * top:.2g}%") for share in (0.0, 0.1, 0.4, 1.0)]
    below = [
        Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(
            number(_across(math.sqrt(share))), _TALL - 16, f"{100 * share * top:.2g}%"
        )
        for share in (0.1, 0.4)
    ]
    words = Markup('<text x="{}" y="{}" text-anchor="end">expected by the model</text>').format(_WIDE - 8, _TALL - 3)
    return _drawn(
        Markup("").join([diagonal, *ticks, *below, *marks, words]),
        "Released shares against those that the model expects",
        "Each point is a cell of a released table of one or two variables; on the line, both agree.",
    )


def beside(model: float, error: float, unbiased: float | None, its_error: float | None, top: float) -> Markup:
    """Return a row with the model's share (dot) and the unbiased one (ring), each with its 95% interval (line)."""
    marks = [Markup('<path class="zero" d="M{0} 0V{1}"/>').format(number(_share(0, top)), HEIGHT)]
    if unbiased is not None and its_error is not None:
        marks.append(_interval(unbiased, its_error, top, HEIGHT * 0.7, "other"))
        marks.append(
            Markup('<circle class="ring" cx="{}" cy="{}" r="3.5"/>').format(
                number(_share(unbiased, top)), number(HEIGHT * 0.7)
            )
        )
    marks.append(_interval(model, error, top, HEIGHT * 0.3, "line"))
    marks.append(
        Markup('<circle class="dot" cx="{}" cy="{}" r="3"/>').format(number(_share(model, top)), number(HEIGHT * 0.3))
    )
    return Markup('<svg class="dots" viewBox="0 0 {} {}" aria-hidden="true">{}</svg>').format(
        WIDTH, HEIGHT, Markup("").join(marks)
    )


def _interval(value: float, error: float, top: float, y: float, kind: str) -> Markup:
    ends = [number(_share(value + side * 1.96 * error, top)) for side in (-1, 1)]
    return Markup('<path class="{}" d="M{} {}H{}"/>').format(kind, ends[0], number(y), ends[1])


def _share(value: float, top: float) -> float:
    return 6 + (WIDTH - 12) * min(max(value / top, 0.0), 1.0)


def _ends(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _across(part: float) -> float:
    return _LEFT + (_WIDE - _LEFT - 12) * part


def _up(value: float, low: float, high: float) -> float:
    return _TOP + (_TALL - _TOP - _BOTTOM) * (1 - (value - low) / (high - low))


def _tick(value: float, low: float, high: float, text: str | None = None) -> Markup:
    y = _up(value, low, high)
    return Markup('<path class="grid" d="M{} {}H{}"/><text x="{}" y="{}" text-anchor="end">{}</text>').format(
        _LEFT, number(y), _WIDE - 8, _LEFT - 5, number(y + 4), f"{value:.3g}" if text is None else text
    )


def _drawn(inside: Markup, title: str, words: str) -> Markup:
    return Markup('<svg class="fit" viewBox="0 0 {} {}" role="img"><title>{}</title><desc>{}</desc>{}</svg>').format(
        _WIDE, _TALL, title, words, inside
    )


def top_of(shares: Sequence[Numbers]) -> float:
    """Return the end of a common axis of shares: a round number above all of them, at most 1.

    >>> top_of([[0.31, None], [0.02]])
    0.4
    """
    largest = max((value for one in shares for value in one if value is not None), default=1.0)
    steps = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0])
    return float(steps[min(int(np.searchsorted(steps, largest)), len(steps) - 1)])
