"""The page on recoding: its commands print what it shows, and its examples and table are those of the kinds."""

import contextlib
import io
import re
import shlex
import tomllib

import pytest
from click.testing import CliRunner

from postrand import cli
from postrand.recoding import Recode
from postrand.recoding.base import kinds
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "recoding.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def outputs(tmp_path, monkeypatch):
    """What the commands and the code of the page print, beside what it shows."""
    monkeypatch.chdir(tmp_path)
    found = []
    for language, text in BLOCKS:
        command, _, shown = text.partition("\n")
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, "recoding.md", "exec"), {})
            printed = out.getvalue()
        elif command.startswith("$ postrand "):
            made = CliRunner().invoke(cli.main, shlex.split(command)[2:])
            found.append((made.output, shown))
        elif command.startswith("postrand "):
            codes = [CliRunner().invoke(cli.main, shlex.split(line)[1:]).exit_code for line in text.splitlines()]
            found.append((str(codes), str([0] * len(codes))))
        elif not language:
            found.append((printed, text))
    return found


def test_the_page_shows_what_is_printed(outputs, tmp_path):
    assert len(outputs) == 4
    for printed, shown in outputs:
        assert printed.splitlines() == shown.splitlines()
    stated = next(text for language, text in BLOCKS if language == "toml")
    assert stated in (tmp_path / "codebook.toml").read_text("utf-8")


def test_every_example_of_the_page_is_a_recode(tmp_path):
    (tmp_path / "regions.csv").write_text("A1;North\n")
    entries = [entry for language, text in BLOCKS if language == "toml" for entry in tomllib.loads(text)["recodes"]]
    made = [Recode.from_dict(entry, folder=tmp_path) for entry in entries]
    assert [recode.variable for recode in made] == [
        "age",
        "decade",
        "region",
        "job",
        "pay",
        "marital",
        "period",
        "occupation",
    ]


def test_the_table_names_every_kind():
    named = re.findall(r"^\| ([^|]+) \| .*\|$", PAGE, re.MULTILINE)[2:]
    assert set(named) == {kind.name for kind in kinds()}
