"""The page on files: its example prints what it shows, and its tables say what the formats say of themselves."""

import re
import shlex

from click.testing import CliRunner

from postrand import cli, formats, load_plan
from tests.conftest import ROOT
from tests.guides import run_examples

PAGE = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = re.search(r"```\n\$ postrand (.*?)\n(.*?)```", PAGE, re.DOTALL)
    stated = re.search(r"```toml\n(\[source\].*?)```", PAGE, re.DOTALL)
    again = re.search(r"```\npostrand (init.*?)\n```", PAGE, re.DOTALL)
    assert run_examples(PAGE, "files.md") == 1
    told = CliRunner().invoke(cli.main, shlex.split(shown.group(1)))
    assert told.output == shown.group(2)
    assert stated.group(1) in (tmp_path / "plan.toml").read_text("utf-8")
    repeated = CliRunner().invoke(cli.main, [*shlex.split(again.group(1)), "--out", "again"])
    assert repeated.exit_code == 0, repeated.output
    book = tmp_path / "codebook.toml"
    book.write_text(re.sub(r'role = "" #.*', 'role = "drop"', book.read_text("utf-8")), "utf-8")
    assert load_plan("plan.toml").source.name == "survey.csv"
    done = CliRunner().invoke(cli.main, ["protect", "--plan", "plan.toml", "--out", "release"])
    assert done.exit_code == 0, done.output


def test_the_table_names_every_suffix_and_every_option():
    rows = re.findall(r"^\| [^|]*\| ((?:`\.[a-z0-9.]+` ?)+)\|", PAGE, re.MULTILINE)
    listed = {suffix for row in rows for suffix in re.findall(r"`([^`]+)`", row)}
    assert listed == {suffix for entry in formats.formats() for suffix in entry.suffixes}
    options = {option for entry in formats.formats() for option in entry.settings}
    assert options == {*formats.SETTINGS}
    assert all(f"`--{option}`" in PAGE for option in options)
    assert all(entry.detect is not None or not entry.settings or entry.name == "SAS" for entry in formats.formats())
