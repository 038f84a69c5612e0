"""Projects: a finished release with its plan in a folder of a person's own choice, and such a folder opened again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from postrand import formats
from postrand.app.decisions import Decisions
from postrand.app.finished import Finished
from postrand.errors import PostrandError, UsageError, sentence
from postrand.support.system import open_plain

PROJECT = "project.json"
SCHEMA = "postrand/project/1"
_TEXTS = ("plan.toml", "codebook.toml")
_LONGEST = 1 << 26


def typed_path(text: str) -> Path:
    """Return the path that a person typed, ``~`` being their home.

    Raises
    ------
    UsageError
        If there is no text, or it is not a whole path: the workbench has no current folder that one could see.
    """
    path = Path(text.strip().strip("'\"")).expanduser()
    if not text.strip() or "\0" in text or not path.is_absolute():
        fix = "write it from the beginning, for example ~/surveys/2024"
        raise UsageError(sentence("a whole path on this machine is wanted", got=repr(text.strip()[:200]), fix=fix))
    return path


def save_project(one: Finished, target: Path, *, with_data: bool) -> Path:
    """Write plan, codebook, release and internal report to a new folder that only its owner can read; return it.

    With ``with_data`` the file goes there too, and the plan names that copy. Without, the plan names the place of the
    file; a file that was uploaded has none that lasts, so the plan names it as if it were in the folder.

    Raises
    ------
    ReleaseError
        If the folder exists, or cannot be written.
    """
    from postrand.app import documents  # not for the first screen
    from postrand.release.atomic import PRIVATE, appearing

    opened = one.decisions.opened
    assert opened is not None
    target.parent.mkdir(parents=True, exist_ok=True)
    with appearing(target, PRIVATE) as folder:
        place = formats.path_of(opened.path)
        if with_data:
            shutil.copyfile(place, folder / place.name)
        here = with_data or _is_ours(place, one)
        moved = formats.moved(opened.path, folder / place.name) if here else opened.path
        decisions = dataclasses.replace(one.decisions, opened=dataclasses.replace(opened, path=moved))
        documents.write(decisions, folder)
        for name in ("release", "dossier"):
            if (one.folder / name).is_dir():
                shutil.copytree(one.folder / name, folder / name)
        stated = {"schema": SCHEMA, "made": one.made_at, "files": {name: _digest(folder / name) for name in _TEXTS}}
        (folder / PROJECT).write_text(json.dumps(stated, indent=2) + "\n", encoding="utf-8")
    return target


def usual_folder(one: Finished) -> str:
    """Return the name that a form proposes for the folder of a release's project."""
    name = "survey" if one.decisions.opened is None else one.decisions.opened.name
    stem = re.sub(r"[^\w-]", "-", name.partition(".")[0])[:60] or "survey"
    return str(Path.home() / f"{stem}-release-{one.number}")


def takes_data(one: Finished, typed: Mapping[str, str]) -> bool:
    """Whether the confidential file is copied too: as a person chose, else if the workbench has the only copy."""
    return typed.get(f"data:{one.number}", "true" if is_uploaded(one) else "false") == "true"


def is_uploaded(one: Finished) -> bool:
    """Whether the release's file is in the workbench's own folder: it was uploaded, or is the demonstration."""
    opened = one.decisions.opened
    return opened is not None and _is_ours(formats.path_of(opened.path), one)


def _is_ours(place: Path, one: Finished) -> bool:
    """Whether a file is in the private folder of the workbench, two floors above its releases."""
    return not one.is_borrowed and one.folder.parents[1].resolve() in place.resolve().parents


def plan_of(path: Path) -> Path:
    """Return the plan of a folder, or the path as it is where it is no folder; raises UsageError without a plan."""
    if not path.is_dir():
        return path
    if not (path / "plan.toml").is_file():
        fix = "name the folder of a project, a plan.toml or a file of records"
        raise UsageError(sentence("this folder has no plan.toml", where=str(path), fix=fix))
    return path / "plan.toml"


def release_of(folder: Path, decisions: Decisions, number: int, room: Path | None = None) -> Finished | None:
    """Return the release of a project's folder with these decisions of its plan; None where it has none.

    ``room`` is where its zip is put when a person asks for it: nothing is written to the project.

    A release whose plan or codebook was edited since it was saved is not shown as that of the plan: it is None too.
    """
    from postrand import release  # not for the first screen

    try:
        stated = json.loads(_held(folder / PROJECT))
        texts = [_held(folder / name) for name in _TEXTS]
        same = [hashlib.sha256(text).hexdigest() for text in texts] == [stated["files"][name] for name in _TEXTS]
        found = release.read(folder / "release") if same else None
        made = str(stated.get("made", ""))[:40]
        plan, codebook = (text.decode("utf-8") for text in texts)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, PostrandError):
        return None
    if found is None:
        return None
    saved = str(folder)
    return Finished(number, folder, found, decisions, plan, codebook, None, made, saved, is_borrowed=True, room=room)


def _held(path: Path) -> bytes:
    """Return what a small plain file holds; ValueError where it is longer than any of a project."""
    with open(path, "rb", opener=open_plain) as file:
        held = file.read(_LONGEST + 1)
    if len(held) > _LONGEST:
        raise ValueError
    return held


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
