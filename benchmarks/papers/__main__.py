"""Recompute the printed values of the papers: ``python -m benchmarks.papers [abc] [rdf] [chr] [ss]``.

Writes the tables of docs/papers/<paper>.md and its plots beside it, and the counts of all into docs/papers/README.md.
"""

import sys
import time
from importlib import import_module

from benchmarks.page import filled
from benchmarks.papers.items import row, table
from benchmarks.papers.pages import PAGES, PAPERS, counts

SAID = "Recomputed by `make papers`."


def main(papers):
    for name in papers or PAPERS:
        start = time.process_time()
        paper = import_module(f"benchmarks.papers.{name}")
        lines = table([row(item) for item in paper.ITEMS])
        page = PAGES / f"{name}.md"
        tables = {"printed values": lines}
        tables |= {name: [*head, *(one.line() for one in rows)] for name, (head, rows) in paper.TABLES.items()}
        page.write_text(filled(page.read_text(encoding="utf-8"), tables, SAID), encoding="utf-8")
        for figure, (draw, _) in paper.FIGURES.items():
            (PAGES / f"{name}-{figure}.svg").write_text(draw(), encoding="utf-8")
        print(f"{name}: {lines[0]} {len(paper.FIGURES)} figures. {time.process_time() - start:.0f} s", flush=True)
    index = PAGES / "README.md"
    index.write_text(filled(index.read_text(encoding="utf-8"), {"counts": counts()}, SAID), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
