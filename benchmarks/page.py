"""Fill the tables of docs/benchmarks.md from a run, so that no figure of the page is typed by hand.

The place of a table is a pair of comments, ``<!-- table: NAME -->`` and ``<!-- end -->``. A part that a run leaves out
keeps its table, with the sentence that says when it was measured.
"""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
_PLACE = re.compile(r"(<!-- table: (?P<name>[a-z ]+) -->\n)(?P<held>.*?)(<!-- end -->)", re.DOTALL)


def filled(text, tables, said):
    """Return the page with these tables, each below the sentence about its run; raises if one has no place."""
    places = [place["name"] for place in _PLACE.finditer(text)]
    missing = sorted(set(tables) - set(places))
    if missing:
        raise ValueError(f"docs/benchmarks.md has no place for: {', '.join(missing)}")

    def fill(place):
        if place["name"] not in tables:
            return place[0]
        lines = "\n".join(tables[place["name"]])
        return f"{place[1]}{said}\n\n{lines}\n{place[4]}"

    return _PLACE.sub(fill, text)


def fill(tables, said):
    """Write the page."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), tables, said), encoding="utf-8")
