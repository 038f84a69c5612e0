"""Recompute the printed values of the papers: ``python -m benchmarks.papers [abc] [rdf] [chr] [ss]``.

Writes the table of docs/papers/<paper>.md and its plots beside it, and prints the counts.
"""

import sys
import time
from importlib import import_module

from benchmarks.page import filled
from benchmarks.papers.items import row, table
from benchmarks.papers.pages import PAGES, PAPERS


def main(papers):
    for name in papers or PAPERS:
        start = time.process_time()
        paper = import_module(f"benchmarks.papers.{name}")
        lines = table([row(item) for item in paper.ITEMS])
        page = PAGES / f"{name}.md"
        said = "Recomputed by `make papers`."
        page.write_text(filled(page.read_text(encoding="utf-8"), {"printed values": lines}, said), encoding="utf-8")
        for figure, (draw, _) in paper.FIGURES.items():
            (PAGES / f"{name}-{figure}.svg").write_text(draw(), encoding="utf-8")
        print(f"{name}: {lines[0]} {len(paper.FIGURES)} figures. {time.process_time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
