"""The guides: every command and example of the tutorials, the cookbook and the page for users of other tools runs."""

import contextlib
import re
import shlex

import pytest
from click.testing import CliRunner

from postrand.cli import main
from tests.conftest import ROOT
from tests.docs_pictures import KEY, NAMES
from tests.guides import command, run_page

ROLES = ("tutorial-analyst.md", "tutorial-officer.md")
PICTURES = ROOT / "docs" / "pictures"


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A folder in which the curator's tutorial was run; each page of the others goes on from it."""
    folder = tmp_path_factory.mktemp("curator")
    secret = folder / "release.key"
    secret.write_text(KEY)
    secret.chmod(0o600)
    with contextlib.chdir(folder):
        assert run_page("tutorial.md", folder, secret=secret)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ROLES)
def test_each_role_finds_what_its_tutorial_shows(released, monkeypatch, name):
    monkeypatch.chdir(released)
    assert run_page(name, released)


@pytest.mark.slow
def test_the_risks_of_the_officer_s_tutorial_are_those_of_the_dossier(released):
    page = (ROOT / "docs" / "tutorial-officer.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:correct matches|largest).*? \| ([\d.]+).*? \| ([\d.]+)", page, re.MULTILINE)
    dossier = (released / "internal" / "dossier.html").read_text(encoding="utf-8")
    assert len(rows) == 3
    assert {
        figure for row in rows for figure in row if not re.search(rf"[> ]{re.escape(figure)}[ ;<]", dossier)
    } == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cookbook.md", "other-tools.md"])
def test_what_a_guide_shows_runs(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert run_page(name, tmp_path)


def test_every_page_with_python_is_run_by_a_test():
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("test_*.py"))
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    named = {page.name for page in pages if "```python" in page.read_text(encoding="utf-8")}
    assert len(named) > 15
    assert {name for name in named if f'"{name}"' not in tests} == set()


def test_every_picture_is_made_by_the_script_and_shown_on_a_page():
    shown = set()
    for page in (ROOT / "docs").glob("*.md"):
        shown |= set(re.findall(r"!\[.{20,}?\]\(pictures/([\w-]+\.png)\)", page.read_text(encoding="utf-8")))
    held = {path.name: path.stat().st_size for path in PICTURES.glob("*.png")}
    assert shown == set(held) == {f"{name}.png" for name in NAMES}
    assert max(held.values()) < 150_000


@pytest.mark.slow
def test_the_commands_of_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"stands in for your file.*?\n\n```\n(.*?)```", readme, re.DOTALL)
    assert all(command(line) for line in block.splitlines() if shlex.split(line, comments=True))


def test_advice_says_what_to_do_about_a_limit_that_is_not_met(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"{n % 2},{n % 3},{n % 5}" for n in range(300))
    (tmp_path / "s.csv").write_text(f"sex,area,job\n{rows}\n")
    for limit, wanted in (("correct matches <= 1", True), ("epsilon <= 2", False)):
        words = ["advise", "s.csv", "--keys", "sex,area,job", "--limit", limit, "--out", f"advice-{wanted}"]
        told = CliRunner().invoke(main, words)
        assert told.exit_code == 0, told.output
        assert ("Next: for a limit on risk that is not met" in told.output) == wanted


def test_advice_names_the_columns_that_protect_asks_a_decision_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"{n % 2},{n % 3},{80 + n / 10}" for n in range(300))
    (tmp_path / "s.csv").write_text(f"sex,area,weight\n{rows}\n")
    told = CliRunner().invoke(main, ["advise", "s.csv", "--keys", "sex,area", "--weight", "weight"])
    assert told.exit_code == 0, told.output
    assert 'Next: name each in [release] as_is = ["weight"]' in told.output
    refused = CliRunner().invoke(main, ["protect", "--plan", "advice/plan-1.toml", "--out", "release"])
    assert 'as_is = ["weight"]' in refused.output
