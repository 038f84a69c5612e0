"""The pictures, each a function of the numbers of docs/pictures/numbers.json."""

import math

from benchmarks.pictures.shapes import (
    BLUE,
    GOLD,
    GREY,
    INK,
    PALE,
    RED,
    arrow,
    box,
    card,
    dot,
    key_of_rows,
    line,
    people,
    ring,
    table_rows,
    text,
)

HIDDEN = "(not released)"
PERSONS = 200


def at_most(share, digits):
    """Return so many of 100, rounded up: the levels are upper bounds."""
    return f"{math.ceil(share * 100 * 10**digits - 1e-9) / 10**digits:.{digits}f}"


def who(n):
    """Draw a file and who could attack it."""
    heads = ("region", "woman", "school", "work", "happy")
    starts = (24, 138, 196, 258, 376)
    parts = [text(24, 28, f"A file: {n['records']:,} persons", bold=True)]
    parts += [text(x, 56, head, GREY) for x, head in zip(starts, heads, strict=True)]
    parts.append(line([(20, 63), (470, 63)]))
    for k, row in enumerate(n["rows"]):
        cells = [row[0], "yes" if row[1] == "1" else "no", f"{float(row[2]):.0f} years", row[3], row[4]]
        parts += [text(x, 84 + 24 * k, cell) for x, cell in zip(starts, cells, strict=True)]
    parts += [
        text(24, 184, "…", GREY),
        line([(20, 198), (362, 198)], GOLD, 4),
        text(20, 218, "what others may know", GOLD),
        line([(372, 198), (470, 198)], RED, 4),
        text(372, 218, "what they want"),
        text(500, 28, "Who could attack it", bold=True),
        text(500, 60, "A neighbour or colleague", bold=True),
        text(500, 79, "knows you are in the file,"),
        text(500, 97, "and looks for your row."),
        text(500, 128, "Somebody with a list", bold=True),
        text(500, 147, "compares it with every row."),
        text(500, 184, f"{n['unique']:,} persons are alone with", RED),
        text(500, 202, "their first four answers.", RED),
    ]
    return card("A file, and who could attack it", 236, parts)


def answer(n):
    """Draw one answer on its way through the matrix."""
    chances = n["matrix"][1]
    parts = [
        text(24, 30, "True answer", bold=True),
        text(250, 30, "Drawn with these chances", bold=True),
        text(520, 30, "Released answer", bold=True),
        box(24, 90, 130, 36, "#eef3fa", BLUE),
        text(89, 113, n["happy"][1], anchor="middle"),
    ]
    for k, (name, chance) in enumerate(zip(n["happy"], chances, strict=True)):
        y = 68 + 40 * k
        parts += [
            arrow((158, 108), (512, y), BLUE if k == 1 else GREY, 10 * chance),
            box(312, y - 13 + (108 - y) * 0.35, 56, 20, "#fff"),
            text(340, y + 2 + (108 - y) * 0.35, f"{chance:.0%}", anchor="middle", bold=True),
            box(520, y - 18, 150, 32, "#eef3fa" if k == 1 else "#fff", BLUE if k == 1 else GREY),
            text(595, y + 3, name, anchor="middle"),
        ]
    parts.append(text(24, 196, "Each row of the matrix M has such chances for one true answer. M is published.", GREY))
    return card("One answer through a transition matrix", 212, parts)


def correction(n):
    """Draw a table: true, released, corrected."""
    parts = [text(24, 30, f"How happy? Shares of {n['records']:,} persons", bold=True)]
    parts += table_rows(150, 56, n["happy"], n["table"], 0.65, 400, 38)
    for k in range(3):
        shares = [n["table"][name][k] for name in ("true", "released", "corrected")]
        parts.append(text(700, 75 + 38 * k, " → ".join(f"{share:.1%}" for share in shares), GREY, "end", 12))
    parts.append(text(700, 50, "true → released → corrected", GREY, "end", 12))
    parts += key_of_rows(150, 204)
    return card("A table: true, released, corrected", 222, parts)


def two(n):
    """Draw ε as two probabilities of the same released value."""
    parts = []
    for k, person in enumerate((2, 0)):
        x = 24 + 250 * k
        parts.append(text(x, 30, f"True answer: {n['happy'][person]}", bold=True))
        for j, chance in enumerate(n["matrix"][person]):
            colour = RED if j == 2 else PALE
            parts += [
                box(x + 74 * j, 150 - 150 * chance, 56, 150 * chance, colour),
                text(x + 74 * j + 28, 144 - 150 * chance, f"{chance:.1%}", anchor="middle"),
                text(x + 74 * j + 28, 168, n["happy"][j].rsplit(" ", 1)[0], anchor="middle", size=12),
            ]
    high, low = n["matrix"][2][2], n["matrix"][0][2]
    parts += [
        line([(24, 150), (492, 150)]),
        text(24, 190, "chances of the three released answers", GREY),
        text(530, 60, "Released: very happy", RED, bold=True),
        text(530, 84, f"{high:.1%} against {low:.1%}:"),
        text(530, 104, f"{high / low:.2f} times as likely"),
        text(530, 136, f"ln {high / low:.2f} = {math.log(high / low):.0f} = ε", bold=True),
    ]
    return card("ε: two probabilities side by side", 208, parts)


def guesses(n):
    """Draw guesses out of 100 against ε."""
    left, foot, wide, tall = 60, 236, 480, 190

    def at(epsilon, share):
        return left + wide * epsilon / 8, foot - tall * share

    parts = [text(24, 22, "Right guesses of 100, at most", bold=True)]
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts += [
            line([at(0, share), at(8, share)], PALE),
            text(left - 8, at(0, share)[1] + 4, f"{100 * share:.0f}", GREY, "end"),
        ]
    parts += [text(at(e, 0)[0], foot + 18, f"{e}", GREY, "middle") for e in range(0, 9, 2)]
    parts.append(text(left + wide + 14, foot + 18, "ε", GREY))
    for size, height, colour, side in (("2", 1.0, BLUE, -46), ("12", 0.91, RED, 10), ("180", 0.82, GOLD, 10)):
        shares = n["guesses"][size]
        x, y = at(4, shares[16])
        parts += [
            line([at(k / 4, share) for k, share in enumerate(shares)], colour, 2.5),
            dot(x, y, colour),
            text(x + side, y + 18, at_most(shares[16], 1), colour),
            text(556, at(8, height)[1] + 4, f"among {size} values", colour, bold=True),
        ]
    return card("Guesses out of 100 against ε", 266, parts)


def sums(n):
    """Draw right guesses between two persons against the number of perturbed variables."""
    parts = [text(24, 28, "Which of two persons is this record? Right guesses of 100, at most", bold=True)]
    for count, share in enumerate(n["sums"]):
        x, tall = 60 + 74 * count, 260 * (share - 0.5)
        parts += [
            box(x, 190 - tall, 44, tall + 2, RED if count else GREY),
            text(x + 22, 182 - tall, at_most(share, 2), anchor="middle", bold=True),
            text(x + 22, 210, f"{count}", anchor="middle"),
            text(x + 22, 228, f"ε = {count}", GREY, "middle", 12),
        ]
    parts += [line([(50, 192), (706, 192)]), text(24, 250, "variables, each perturbed by itself at ε = 1", GREY)]
    return card("Why ε adds up over variables", 264, parts)


def split(n):
    """Draw which record shows what in a split release."""
    heads, starts = ("region", "woman", "school", "work"), (24, 154, 224, 310)
    parts = [text(24, 28, "Ten released records, ε = 4", bold=True)]
    parts += [text(x, 52, head, GREY) for x, head in zip(starts, heads, strict=True)]
    for k, row in enumerate(n["shown"]):
        y = 60 + 20 * k
        cells = [row[0], {"1": "yes", "0": "no"}.get(row[1], row[1]), row[2], row[3]]
        for x, wide, cell in zip(starts, (126, 66, 82, 136), cells, strict=True):
            shown = cell != HIDDEN
            parts.append(box(x - 4, y, wide, 18, "#dce8f6" if shown else "#f4f4f4"))
            if shown:
                parts.append(text(x + 2, y + 13.5, cell or "(missing)", size=12))
    names = dict(zip(("region", "female", "educ", "workstat"), heads, strict=True))
    parts.append(text(480, 28, "What a record shows is drawn", bold=True))
    for k, (chance, variables) in enumerate(sorted(n["subsets"], reverse=True)):
        y = 56 + 26 * k
        parts += [
            text(480, y + 12, " and ".join(names[name] for name in variables)),
            box(606, y + 1, 240 * chance, 14, BLUE),
            text(612 + 240 * chance, y + 13, f"{chance:.0%}"),
        ]
    parts += [
        text(480, 236, "without looking at the record.", GREY),
        text(480, 254, "What it shows has the whole ε.", GREY),
    ]
    return card("A split release: which record shows what", 272, parts)


def worth(n):
    """Draw what ε = 8 buys three ways."""
    parts = [
        text(24, 28, f"Tables of two of 8 variables, ε = 8: {n['worth']['records']:,} released persons", bold=True)
    ]
    for k, (name, label) in enumerate(
        (("separate", "separate blocks"), ("joint", "best joint blocks"), ("split", "split release"))
    ):
        y, value = 50 + 46 * k, n["worth"][name]
        wide = 440 * value / n["worth"]["split"]
        parts += [
            text(150, y + 19, label, anchor="end"),
            box(160, y, wide, 28, BLUE if name == "split" else RED),
            text(168 + wide, y + 19, f"{value:,.0f}", bold=True),
        ]
    parts.append(text(24, 206, "worth so many unperturbed persons (harmonic mean of the 28 tables)", GREY))
    return card("What the same ε buys", 222, parts)


def informed(n):
    """Draw what an informed attacker finds."""
    return card("What an informed attacker finds", 226, _found(n, ("file", "bands", "after")))


def copies(n):
    """Draw completed files: copies, spread, interval."""
    held = n["copies"]
    value, lower, upper = held["pooled"]
    low, high = min(lower, *held["each"]), max(upper, *held["each"])

    def at(share):
        return 200 + 460 * (share - low) / (high - low)

    parts = [
        text(24, 28, "Women among persons in full-time work", bold=True),
        text(180, 70, "20 copies, one dot each", anchor="end"),
        text(180, 128, "pooled, 95% interval", anchor="end"),
        text(180, 166, "true", anchor="end"),
    ]
    for k, share in enumerate(held["each"]):
        parts.append(ring(at(share), 58 + 8 * (k % 4), BLUE))
    parts += [
        line([(at(lower), 124), (at(upper), 124)], BLUE, 3),
        dot(at(value), 124, BLUE, 5),
        text(at(lower), 146, f"{lower:.1%}", GREY, "middle"),
        text(at(value), 146, f"{value:.1%}", BLUE, "middle", bold=True),
        text(at(upper), 146, f"{upper:.1%}", GREY, "middle"),
        line([(at(held["true"]), 46), (at(held["true"]), 172)], INK, 2),
        text(at(held["true"]) + 8, 170, f"{held['true']:.1%}", bold=True),
    ]
    return card("Completed files: copies, their spread, the interval", 188, parts)


def whole(n):
    """Draw what a release does to risk and to a table."""
    found, rows = n["found"], n["workstat"]
    parts = [text(24, 28, "Risk: found by an attacker", bold=True, size=14)]
    parts.append(text(24, 46, "who knows that you are in the file", GREY))
    for k, (name, label) in enumerate((("file", "in the file"), ("after", "in the release, ε = 4"))):
        y = 60 + 146 * k
        parts += [
            people(24, y, round(PERSONS * found[name] / n["records"])),
            text(24, y + 120, f"{found[name]:,.0f} of {n['records']:,} {label}", RED, bold=True),
        ]
    parts += [text(300, 28, "A table: work, shares of persons", bold=True, size=14)]
    parts += table_rows(440, 44, rows["labels"], rows, 0.6, 260, 28)
    parts += key_of_rows(300, 330)
    return card("What a release does to risk and to a table", 350, parts)


def _found(n, names):
    labels = {
        "file": ("in the file", "school in years"),
        "bands": ("with coarser answers", "school in 5 bands"),
        "after": ("in the release", "ε = 4"),
    }
    parts = [text(24, 28, "Persons whom an informed attacker finds (a square: 15 persons)", bold=True)]
    for k, name in enumerate(names):
        x, value = 24 + 232 * k, n["found"][name]
        parts += [
            people(x, 44, round(PERSONS * value / n["records"])),
            text(x, 166, f"{value:,.0f} of {n['records']:,}", RED, bold=True, size=15),
            text(x, 186, labels[name][0]),
            text(x, 204, labels[name][1], GREY),
        ]
    return parts


PICTURES = {
    "1-file": who,
    "2-answer": answer,
    "3-correction": correction,
    "4-epsilon": two,
    "5-guesses": guesses,
    "6-sums": sums,
    "7-split": split,
    "8-worth": worth,
    "9-found": informed,
    "10-copies": copies,
    "release": whole,
}
