"""Fill the tables of docs/benchmarks.md and docs/households.md from a run, so that no figure is typed by hand.

The place of a table is a pair of comments, ``<!-- table: NAME -->`` and ``<!-- end -->``. A part that a run leaves out
keeps its table, with the sentence that says when it was measured.
"""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
ELSEWHERE = {"households": PAGE.with_name("households.md")}
_PLACE = re.compile(r"(<!-- table: (?P<name>[a-z ]+) -->\n)(?P<held>.*?)(<!-- end -->)", re.DOTALL)


def filled(text, tables, said):
    """Return the page with these tables, each below the sentence about its run; raises if one has no place."""
    places = [place["name"] for place in _PLACE.finditer(text)]
    missing = sorted(set(tables) - set(places))
    if missing:
        raise ValueError(f"the page has no place for: {', '.join(missing)}")

    def fill(place):
        if place["name"] not in tables:
            return place[0]
        lines = "\n".join(tables[place["name"]])
        return f"{place[1]}{said}\n\n{lines}\n{place[4]}"

    return _PLACE.sub(fill, text)


def fill(tables, said):
    """Write the pages."""
    for page in (PAGE, *ELSEWHERE.values()):
        own = {name: lines for name, lines in tables.items() if ELSEWHERE.get(name, PAGE) == page}
        page.write_text(filled(page.read_text(encoding="utf-8"), own, said), encoding="utf-8")
