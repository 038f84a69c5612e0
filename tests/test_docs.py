"""The README's example runs and prints what the README says."""

import re
from typing import Any

from postrand.designers import OBJECTIVES, STRUCTURES
from postrand.designers.budget import BudgetShare
from postrand.privacy import MODELS
from tests.conftest import ROOT
from tests.guides import run_examples

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_example_prints_what_it_says():
    assert run_examples(README, "README.md") == 1


def test_the_readme_is_read_in_two_minutes():
    prose = re.sub(r"```.*?```|!\[.*?\]\(.*?\)|\]\(.*?\)", "", README, flags=re.DOTALL)
    assert len(prose.split()) <= 500


def test_every_command_of_the_readme_exists():
    from postrand.cli import main

    commands = set(re.findall(r"^postrand ([a-z]+) .* #", README, re.MULTILINE))
    assert commands
    assert commands <= set(main.commands)


def test_links_lead_to_files():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    links = [(page, link) for page in pages for link in re.findall(r"\]\((?!http)([^)#]+)", page.read_text("utf-8"))]
    assert links
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []


def test_the_index_has_every_page():
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert {name for name in pages if f"]({name})" not in index} == set()


def test_the_guide_names_models_that_exist():
    guide = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
    families: tuple[Any, ...] = (*MODELS, *OBJECTIVES, *STRUCTURES, BudgetShare)
    known = {member.name for member in families}
    named = set(re.findall(r"^\|[^|]*\| `([a-z0-9-]+)`", guide, re.MULTILINE)) | set(
        re.findall(r"^\| `([a-z0-9-]+)`", guide, re.MULTILINE)
    )
    assert named
    assert named <= known
