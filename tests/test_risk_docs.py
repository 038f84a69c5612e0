"""The page on risk: its examples run, and its commands print what it shows."""

import contextlib
import io
import re
import shlex

from click.testing import CliRunner

from postrand.cli import main
from postrand.risk.measures import kinds
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "risk.md"


def blocks() -> list[tuple[str, str]]:
    """The language and text of each block, in the order of the page."""
    return re.findall(r"^```(python|console|shell)\n(.*?)^```", PAGE.read_text("utf-8"), re.S | re.M)


def answer(line: str) -> str:
    program, *arguments = shlex.split(line)
    assert program == "postrand"
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def session(text: str) -> str:
    """Return the commands of a console block with what they print now."""
    return "".join(f"$ {line}\n{answer(line)}" for line in re.findall(r"^\$ (.*)$", text, re.M))


def test_the_page_prints_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    commands = []
    for language, text in blocks():
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(text, str(PAGE), "exec"), names)
        elif language == "console":
            commands.append((text, session(text)))
        else:  # simulated: the last digits are the machine's
            commands.append((text, "".join(line + "\n" for line in text.splitlines() if answer(line))))
    assert [shown for shown, _ in commands] == [printed for _, printed in commands]
    asked = set(re.findall(r"--measure ([\w-]+)", "".join(shown for shown, _ in commands)))
    assert asked == set(kinds())
