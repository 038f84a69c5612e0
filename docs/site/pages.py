"""Put the sources of the site together: `python -m docs.site.pages FOLDER`.

The pages stay as they are in docs/. What is added follows from them: docs/README.md, one page for each of its readers,
is the navigation; tests/api_page.py says which public names have an entry in the reference of Python.
"""

import importlib
import inspect
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tests import api_page

ROOT = Path(__file__).resolve().parents[2]
LOOSE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
SPLIT = re.compile(r"^## (.+)\n", re.MULTILINE)
KINDS = re.compile(r"^### (.+)\n", re.MULTILINE)
ERRORS = "postrand.errors"


def slug(title: str) -> str:
    """Return the name of a reader's page."""
    return "-".join(re.findall(r"\w+", title.lower()))


def linked(text: str) -> list[str]:
    """Return the pages that the first cells of the tables of a text link to, in order."""
    cells = re.findall(r"^\|(.*?)\|", text, re.MULTILINE)
    return [link for cell in cells for link in re.findall(r"\]\(([^)#]+)\.md\)", cell)]


def toctree(pages: list[str], caption: str = "") -> str:
    """Return the entry of the navigation that lists these pages; nothing of it is shown on the page itself."""
    head = "```{toctree}\n:hidden:\n" + (f":caption: {caption}\n" if caption else "")
    return "\n" + head + "\n" + "\n".join(pages) + "\n```\n"


def sections(text: str, at: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield each heading with the text below it."""
    parts = at.split(text)
    yield from zip(parts[1::2], parts[2::2], strict=True)


def readers(into: Path) -> Iterator[tuple[str, str]]:
    """Write the page of each reader, and yield its name and the line that says who that is."""
    for title, text in sections((ROOT / "docs" / "README.md").read_text("utf-8"), SPLIT):
        below = [toctree(linked(part), kind) for kind, part in sections(text, KINDS)]
        name = slug(title)
        deeper = KINDS.sub(r"## \1\n", text)
        (into / "docs" / f"{name}.md").write_text(f"# {title}\n{deeper}{''.join(below)}", "utf-8")
        yield name, f"- [{title}](docs/{name}.md): {text.strip().partition(chr(10))[0]}"


def front(into: Path) -> None:
    """Write the first page: the README, which names its readers before anything else."""
    head, more, rest = (ROOT / "README.md").read_text("utf-8").partition("\n## ")
    names, lines = zip(*readers(into), strict=True)
    text = head + "\n\n## Where to go\n\n" + "\n".join(lines) + "\n" + more + rest
    text = text.replace("](docs/README.md)", "](#where-to-go)")
    (into / "index.md").write_text(text + toctree([f"docs/{name}" for name in names]), "utf-8")


def public(room: str) -> dict[str, str]:
    """Return the public names of a room that have an entry, each with the room of the package that makes it."""
    module = importlib.import_module(room)
    names = re.findall(r"^\| `(\w+)\(", "\n".join(api_page.lines_of(room)), re.MULTILINE)
    return {name: getattr(module, name).__module__ for name in names}


def entries(room: str) -> Iterator[str]:
    """Yield the reference of one room: what its docstrings say, grouped by where it is made."""
    whole = "   :members:\n   :exclude-members: PostrandError\n   :show-inheritance:\n" if room == ERRORS else ""
    yield f"{room}\n{'=' * len(room)}\n\n.. automodule:: {room}\n{whole}"
    if whole:
        return
    module, made = importlib.import_module(room), public(room)
    groups = {name: where.split(".")[1] if room == "postrand" else "" for name, where in made.items()}
    for group in sorted(set(groups.values())):
        if group:
            yield f"\n{group.capitalize()}\n{'-' * len(group)}\n"
        for name in (name for name, held in groups.items() if held == group):
            kind = "class" if inspect.isclass(getattr(module, name)) else "function"
            yield f"\n.. auto{kind}:: {room}.{name}\n" + ("   :members:\n" if kind == "class" else "")


def reference(into: Path) -> None:
    """Write the reference of Python, and let the list of names lead to it."""
    folder, listed = into / "docs" / "api", into / "docs" / "api.md"
    folder.mkdir()
    rooms = (*api_page.ROOMS, ERRORS)
    for room in rooms:
        (folder / f"{room}.rst").write_text("\n".join(entries(room)), "utf-8")
    text, room = "", ""
    for line in listed.read_text("utf-8").splitlines():
        room = line.strip("#` ") if line.startswith("## ") else room
        text += re.sub(r"^\| `(\w+)(\(.*?\))` \|", rf"| {{py:obj}}`\1 <{room}.\1>`<code>\2</code> |", line) + "\n"
    listed.write_text(text + toctree([f"api/{room}" for room in rooms]), "utf-8")


def assemble(into: Path) -> None:
    """Write all sources of the site into a folder, which is emptied first."""
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(ROOT / "docs", into / "docs", ignore=shutil.ignore_patterns("site", "__pycache__"))
    for name in LOOSE:
        shutil.copy2(ROOT / name, into)
    (into / "docs" / "README.md").unlink()
    front(into)
    reference(into)
    decisions = into / "docs" / "decisions" / "README.md"
    decisions.write_text(decisions.read_text("utf-8") + toctree(linked(decisions.read_text("utf-8"))), "utf-8")


if __name__ == "__main__":
    assemble(Path(sys.argv[1]))
