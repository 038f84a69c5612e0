"""Where the pages of the papers are, and what they say together."""

from collections import Counter
from pathlib import Path

from benchmarks.papers.items import AGREES, COUNTED, EXPLAINED, MISSING, OPEN, WITHIN, headed

PAGES = Path(__file__).resolve().parents[2] / "docs" / "papers"
PAPERS = ("abc", "rdf", "chr", "ss")
VERDICTS = (AGREES, WITHIN, EXPLAINED, OPEN, MISSING)


def place(text: str, name: str) -> list[str]:
    """Return the rows of a table of a page."""
    held = text.split(f"<!-- table: {name} -->")[1].split("<!-- end -->")[0]
    return [line for line in held.splitlines() if line.startswith("|")]


def counts() -> list[str]:
    """Return the table of the index: how many values of each page have which verdict."""
    lines, total = headed(("paper", "values", *(COUNTED[v] for v in VERDICTS), "plots")), Counter[str]()
    for name in PAPERS:
        text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
        said = [row.rstrip(" |").rpartition("| ")[2].partition(":")[0] for row in place(text, "printed values")[2:]]
        found = Counter(verdict for verdict in said if verdict in VERDICTS)
        found["plots"] = text.count(f"({name}-figure-")
        total += found
        lines.append(cells(f"[{name.upper()}]({name}.md)", found))
    return [*lines, cells("all", total)]


def cells(first: str, found: Counter[str]) -> str:
    """Return one row."""
    numbers = [sum(found[v] for v in VERDICTS), *(found[v] for v in VERDICTS), found["plots"]]
    return f"| {first} | {' | '.join(map(str, numbers))} |"
