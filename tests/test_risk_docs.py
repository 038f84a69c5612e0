"""The page on risk: its examples run, and its commands print what it shows."""

import re

from postrand.risk.measures import kinds
from tests.conftest import ROOT
from tests.guides import blocks, run_page


def test_the_page_prints_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_page("risk.md", tmp_path) == 12
    page = (ROOT / "docs" / "risk.md").read_text("utf-8")
    commands = "".join(text for kind, text, _ in blocks(page) if kind in ("console", "shell"))
    asked = set(re.findall(r"--measure ([\w-]+)", commands))
    assert asked == set(kinds())
