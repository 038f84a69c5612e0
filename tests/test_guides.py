"""The guides: every command and example of the tutorial, the cookbook and the page for users of other tools runs."""

import re
import shlex
import warnings
from typing import Any

import pytest
from click.testing import CliRunner

from postrand.cli import main
from tests.conftest import ROOT

PAGES = ("tutorial.md", "cookbook.md", "other-tools.md")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def edited(folder, text):
    """Write the lines of an example into the file that its first line names, in place of the entries of these names.

    A line ``categories = ...`` replaces the first entry of this name; a list over several lines is one entry.
    """
    place, *lines = text.strip().splitlines()
    path = folder / place.removeprefix("# in ").strip()
    held = path.read_text(encoding="utf-8")
    for line in lines:
        name = line.partition(" =")[0]
        held, found = re.subn(rf"(?ms)^{name} = (\[.*?\]|[^\n]*)$", line.replace("\\", r"\\"), held, count=1)
        assert found, f"{place}: no {name}"
    path.write_text(held, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_what_a_guide_shows_runs(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    variables: dict[str, Any] = {}
    for kind, text in BLOCK.findall((ROOT / "docs" / name).read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(text, name, "exec"), variables)
        elif kind == "toml" and text.startswith("# in "):
            edited(tmp_path, text)
        elif kind == "sh":
            for line in text.strip().splitlines():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    told = CliRunner().invoke(main, shlex.split(line, comments=True)[1:])
                assert told.exit_code == 0, (line, told.output)


def test_the_tutorial_s_figures_are_those_that_the_commands_print(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    blocks = BLOCK.findall(page)
    exec(compile(blocks[0][1], "tutorial.md", "exec"), {})
    line = next(line for _, text in blocks for line in text.splitlines() if line.startswith("postrand assess survey"))
    told = CliRunner().invoke(main, shlex.split(line)[1:])
    assert "sample uniques        579" in told.output
    assert "15.0" in told.output
    assert "579 of 4,000" in page


@pytest.mark.slow
def test_the_commands_of_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"stands in for your file.*?\n\n```\n(.*?)```", readme, re.DOTALL)
    lines = [line for line in block.splitlines() if line.startswith("postrand ")]
    assert len(lines) == 7
    for line in lines:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            told = CliRunner().invoke(main, shlex.split(line, comments=True)[1:])
        assert told.exit_code == 0, (line, told.output)


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
