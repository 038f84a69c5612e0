"""A histogram of risks as a picture of its own, beside the same numbers in a table or text."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from postrand.report.svg import number

WIDTH, ROW, _LEFT, _RIGHT, _TOP = 420, 18, 96, 90, 22


def histogram(unit: str, edges: Sequence[float], shown: Sequence[str], lengths: Sequence[float], title: str) -> Markup:
    """Return one bar for each bin ``edges[k]`` to ``edges[k+1]``, of a length of 0 to 1, with its count as text.

    ``shown`` are the counts as they may be shown. Colours are the page's own: the picture has none.

    >>> str(histogram("persons", (0, 0.5, 1), ("10", "<5"), (1.0, 0.5), "Risk of persons"))[:4]
    '<svg'
    """
    full, bars = WIDTH - _LEFT - _RIGHT, []
    for k, (low, high, count, length) in enumerate(zip(edges, edges[1:], shown, lengths, strict=False)):
        top = _TOP + ROW * k
        bars.append(
            Markup(
                '<text x="{}" y="{}" text-anchor="end">{} to {}</text>'
                '<rect x="{}" y="{}" width="{}" height="{}" fill-opacity="0.6"/><text x="{}" y="{}">{}</text>'
            ).format(
                *(_LEFT - 8, top + 13, f"{low:g}", f"{high:g}"),
                *(_LEFT, top + 2, number(full * length), ROW - 4),
                *(number(_LEFT + full * length + 6), top + 13, count),
            )
        )
    tall = _TOP + ROW * len(bars) + 6
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" role="img" width="{w}" class="histogram" '
        'font-family="sans-serif" font-size="11" fill="currentColor"><title>{title}</title>'
        "<desc>One bar for each range of risk, with its number of {unit}.</desc>"
        '<text x="{x}" y="14" text-anchor="end">risk</text><text x="{left}" y="14">{unit}</text>{bars}</svg>'
    ).format(w=WIDTH, h=tall, title=title, unit=unit, x=_LEFT - 8, left=_LEFT, bars=Markup("").join(bars))
