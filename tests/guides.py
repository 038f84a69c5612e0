"""Run the blocks of a page as its reader would, and hold what it shows against what they print."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from postrand.cli import main
from tests.conftest import ROOT

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ENTRY = r"(?ms)^{name} = (\[.*?\]|[^\n]*)$"
QUICK = ("--copies", "2", "--sweeps", "50", "--chains", "1", "--classes", "4", "--seed", "1")


def run_page(name: str, folder: Path, *, secret: Path | None = None) -> int:
    """Run a page's commands, edits and Python in ``folder``, the current one, and return how many blocks that were.

    ``text`` after a block is what it prints, ``…`` for what it leaves out. With ``secret``, releases are drawn
    with this release key, so that their figures are those of the page. Completed files are made with a small model.
    """
    variables: dict[str, Any] = {}
    printed, held = "", 0
    for kind, text in BLOCK.findall((ROOT / "docs" / name).read_text(encoding="utf-8")):
        if kind == "python":
            printed = _executed(text, name, variables)
        elif kind == "toml" and text.startswith("# in "):
            edited(folder, text)
        elif kind == "toml" and text.startswith("# new file "):
            place, _, lines = text.partition("\n")
            (folder / place.removeprefix("# new file ")).write_text(lines, encoding="utf-8")
        elif kind == "sh":
            printed = "".join(command(line, secret) for line in text.strip().splitlines())
        elif kind == "text":
            for part in text.split("…"):
                assert part.strip("\n") in printed, f"{name}:\n{part}\nis not part of\n{printed}"
        held += kind in ("python", "sh", "text")
    return held


def command(line: str, secret: Path | None = None) -> str:
    """Return what a line of a page prints; it must end well."""
    program, *words = shlex.split(line, comments=True)
    if program == "cat":
        return Path(words[0]).read_text(encoding="utf-8")
    if program == "python3":
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, encoding="utf-8")
        assert done.returncode == 0, (line, done.stderr)
        return done.stdout
    if words[0] == "complete":
        words = [word for word in words if word not in ("--copies", "20")] + [*QUICK]
    if words[0] == "protect" and secret:
        words += ["--key-file", str(secret)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = CliRunner().invoke(main, words)
    # 10: a small model of completed files may fail its tests
    assert told.exit_code in ((0, 10) if words[0] == "complete" else (0,)), (line, told.output)
    return told.stdout


def edited(folder: Path, text: str) -> None:
    """Write the lines of an example into the file that its first line names, in place of the entries of these names.

    After ``# in FILE`` a line ``categories = ...`` replaces the first entry of this name, after ``# in FILE, VARIABLE``
    that of the variable, or adds one; a list over several lines is one entry.
    """
    place, *lines = text.strip().splitlines()
    named, _, variable = place.removeprefix("# in ").strip().partition(", ")
    path = folder / named
    held = path.read_text(encoding="utf-8")
    start = held.index(f'\nname = "{variable}"\n') + 1 if variable else 0
    end = min(place for place in (held.find("\n\n", start), len(held)) if place >= 0) if variable else len(held)
    part = held[start:end]
    for line in lines:
        name = line.partition(" =")[0]
        part, found = re.subn(ENTRY.format(name=name), line.replace("\\", r"\\"), part, count=1)
        assert found or variable, f"{place}: no {name}"
        part += "" if found else f"\n{line}"
    path.write_text(held[:start] + part + held[end:], encoding="utf-8")


def _executed(code: str, name: str, variables: dict[str, Any]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, name, "exec"), variables)
    return out.getvalue()
