"""Open a file: what the first screen shows of it, from one pass over its records."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from postrand import formats
from postrand.app.decisions import Opened
from postrand.app.first_look import FirstLook
from postrand.plan.infer import infer


def demo_file(folder: Path) -> tuple[Path, dict[str, str]]:
    """Write the demonstration survey into ``folder``; return its path and the roles of its variables."""
    from postrand.workflow import demo  # not at the top: a file of one's own needs none of it

    path = folder / "gss.parquet"
    if not path.exists():
        pq.write_table(demo.survey(), path)
    return path, dict.fromkeys(demo.KEYS, "key") | dict.fromkeys(demo.SENSITIVE, "sensitive")


def open_file(path: Path, name: str = "", is_demo: bool = False, given: formats.ReadSettings | None = None) -> Opened:
    """Read a file: drafts of its columns, and its numbers of records and of missing values.

    ``given``: what a person chose of how it is read; the file tells the rest.
    """
    place = formats.place_of(path, given or formats.ReadSettings())
    source = formats.read(place)
    look = FirstLook.of(source)
    drafts = look.with_texts(infer(source, seen=look.add))
    return Opened(place, name or path.name, look.rows, drafts, tuple(look.missing.values()), is_demo)
