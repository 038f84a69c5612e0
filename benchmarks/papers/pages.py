"""Where the pages of the papers are."""

from pathlib import Path

PAGES = Path(__file__).resolve().parents[2] / "docs" / "papers"
PAPERS = ("abc", "rdf", "chr", "ss")
