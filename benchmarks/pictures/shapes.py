"""Shapes of a picture as SVG, on a white card, so that it is readable in light and dark: coordinates to a tenth.

The same numbers give the same bytes. Sizes and fonts are those of the papers' figures.
"""

from markupsafe import Markup

from postrand.report.svg import number

WIDTH = 720
INK, GREY, PALE, BLUE, RED, GOLD = "#222", "#666", "#d9d9d9", "#1f5fa8", "#b22222", "#8a6d00"


def card(title, height, parts, width=WIDTH):
    """Return a whole picture."""
    return str(
        Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" '
            'font-family="sans-serif" font-size="13" fill="{ink}"><title>{title}</title>'
            '<rect width="{w}" height="{h}" rx="6" fill="#fff"/>\n{parts}\n</svg>\n'
        ).format(w=width, h=height, ink=INK, title=title, parts=Markup("\n").join(parts))
    )


def text(x, y, words, colour=INK, anchor="start", size=13, bold=False):
    """Return words whose base line starts, ends or has its middle at a point."""
    weight = Markup(' font-weight="bold"') if bold else Markup("")
    return Markup('<text x="{}" y="{}" fill="{}" text-anchor="{}" font-size="{}"{}>{}</text>').format(
        number(x), number(y), colour, anchor, size, weight, words
    )


def box(x, y, wide, tall, fill=PALE, line="none"):
    """Return a rectangle."""
    return Markup('<rect x="{}" y="{}" width="{}" height="{}" fill="{}" stroke="{}"/>').format(
        number(x), number(y), number(wide), number(tall), fill, line
    )


def line(points, colour=GREY, width=1.0):
    """Return a line through points."""
    path = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return Markup('<path d="{}" fill="none" stroke="{}" stroke-width="{}"/>').format(path, colour, number(width))


def dot(x, y, colour=BLUE, radius=4.0):
    """Return a filled circle."""
    return Markup('<circle cx="{}" cy="{}" r="{}" fill="{}"/>').format(number(x), number(y), number(radius), colour)


def ring(x, y, colour=GREY, radius=4.0):
    """Return an open circle."""
    shape = '<circle cx="{}" cy="{}" r="{}" fill="#fff" stroke="{}" stroke-width="1.5"/>'
    return Markup(shape).format(number(x), number(y), number(radius), colour)


def arrow(start, end, colour=GREY, width=1.5):
    """Return an arrow to the right, as thick as ``width``."""
    to, down = end
    head = f"M{number(to)} {number(down)}l-9 -5v10z"
    return line([start, (to - 8, down)], colour, width) + Markup('<path d="{}" fill="{}"/>').format(head, colour)


def people(x, y, found, of=200, columns=20):
    """Return ``of`` small squares in rows, the first ``found`` of them red: so many persons of so many."""
    parts = []
    for colour, members in ((RED, range(found)), (PALE, range(found, of))):
        squares = (f"M{number(x + 10 * (k % columns))} {number(y + 10 * (k // columns))}h8v8h-8z" for k in members)
        parts.append(Markup('<path d="{}" fill="{}"/>').format("".join(squares), colour))
    return Markup("").join(parts)


def table_rows(x, y, labels, shares, top, wide=260, tall=30):
    """Return a row for each category: true (mark), released (ring), corrected (dot) with its interval (line).

    ``shares`` has the lists true, released, corrected, lower, upper; the axis starts at ``x`` and ends at ``top``.
    """
    low = min(0.0, *shares["lower"])

    def at(share):
        return x + wide * (share - low) / (top - low)

    parts, foot = [], y + tall * len(labels)
    for share in (0, 0.2, 0.4, 0.6):
        parts += [line([(at(share), y - 6), (at(share), foot - 4)], PALE)]
        parts += [text(at(share), foot + 9, f"{share:.0%}", GREY, "middle", 11)]
    for k, label in enumerate(labels):
        middle = y + tall * k + tall / 2 - 4
        parts += [
            text(x - 10, middle + 4, label, anchor="end"),
            line([(at(shares["lower"][k]), middle), (at(shares["upper"][k]), middle)], BLUE, 2),
            ring(at(shares["released"][k]), middle),
            line([(at(shares["true"][k]), middle - 9), (at(shares["true"][k]), middle + 9)], INK, 2.5),
            dot(at(shares["corrected"][k]), middle),
        ]
    return parts


def key_of_rows(x, y):
    """Return what the marks of ``table_rows`` mean, in one line."""
    return [
        line([(x, y - 11), (x, y + 3)], INK, 2.5),
        text(x + 8, y, "true"),
        ring(x + 58, y - 4),
        text(x + 68, y, "released, as it is"),
        line([(x + 186, y - 4), (x + 214, y - 4)], BLUE, 2),
        dot(x + 200, y - 4),
        text(x + 220, y, "corrected, 95% interval"),
    ]
