"""Run the blocks of a page as its reader would, and hold what it shows against what they print."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from postrand.cli import main
from tests.conftest import ROOT

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BELOW = re.compile(r"\s*(prints)?\s*")
ENTRY = r"(?ms)^{name} = (\[.*?\]|[^\n]*)$"
QUICK = ("--copies", "2", "--sweeps", "50", "--chains", "1", "--classes", "4", "--seed", "1")


def run_page(name: str, folder: Path, *, secret: Path | None = None) -> int:
    """Run a page's commands, edits and Python in ``folder``, the current one, and return how many blocks that were.

    A session has its commands behind ``$``. With ``secret``, releases are drawn with this release key, so that their
    figures are those of the page. Completed files are made with a small model.
    """
    variables: dict[str, Any] = {}
    printed, held = "", 0
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    for kind, block, below in blocks(text):
        if kind == "python":
            printed = executed(block, name, variables)
        elif kind == "toml" and block.startswith("# in "):
            edited(folder, block)
        elif kind == "toml" and block.startswith(("# new file ", "# add to ")):
            place, _, lines = block.partition("\n")
            with (folder / place.split()[3]).open("w" if "new" in place else "a", encoding="utf-8") as file:
                file.write(lines if "new" in place else f"\n{lines}")
        elif block.startswith("$ "):
            asked = re.findall(r"^\$ (.*)$", block, re.MULTILINE)
            assert "".join(f"$ {line}\n{command(line, secret)}" for line in asked) == block, name
        elif kind in ("sh", "shell") or (not kind and block.startswith("postrand ")):
            printed = "".join(command(line, secret) for line in block.strip().splitlines())
        elif kind == "text" or (not kind and below):
            for part in block.split("…"):
                assert part.strip("\n") in printed, f"{name}:\n{part}\nis not part of\n{printed}"
        held += kind in ("python", "sh", "shell", "text", "console", "")
    return held


def run_examples(text: str, where: str, variables: dict[str, Any] | None = None, same: Any = str.__eq__) -> int:
    """Run the Python of a page or a part of one, without its commands, and return how many blocks that were.

    What is shown below a block, in a block of text or after the word "prints", is all that it prints.
    """
    names: dict[str, Any] = {} if variables is None else variables
    printed, held = "", 0
    for kind, block, below in blocks(text):
        if kind == "python":
            printed = executed(block, where, names)
            held += 1
        elif below and kind in ("text", "") and not block.startswith(("$ ", "postrand ")):
            assert same(printed, block), f"{where}:\n{printed}\nis not what is shown:\n{block}"
    return held


def blocks(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the kind and the text of each block, and whether it shows what the block of Python above it prints."""
    end, before = 0, ""
    for found in BLOCK.finditer(text):
        yield found[1], found[2], before == "python" and BELOW.fullmatch(text[end : found.start()]) is not None
        end, before = found.end(), found[1]


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


def executed(code: str, name: str, variables: dict[str, Any]) -> str:
    """Return what a block of Python prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, name, "exec"), variables)
    return out.getvalue()
