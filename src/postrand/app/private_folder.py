"""The private folder of a running workbench: uploads and releases; the next start removes those of ended processes."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "postrand-app-"
OWNER = "owner.json"
_FRESH = 60.0
"""Seconds in which a folder without a note of its process is taken for one that is being made."""


@contextmanager
def private_folder() -> Iterator[Path]:
    """Yield a folder that only this person can read, and make it the place of all temporary files of this process.

    First the folders of workbenches that were killed are removed, and at the end this one, with everything in it.
    """
    remove_left(Path(tempfile.gettempdir()))
    folder, before = Path(tempfile.mkdtemp(prefix=PREFIX)), tempfile.tempdir
    try:
        owner = {"process": os.getpid(), "started": started(os.getpid())}
        (folder / f".{OWNER}").write_text(json.dumps(owner), encoding="utf-8")
        (folder / f".{OWNER}").replace(folder / OWNER)  # another start never reads a part of it
        (folder / "temporary").mkdir(mode=0o700)
        tempfile.tempdir = str(folder / "temporary")  # uploads too: they are written before they reach the workbench
        yield folder
    finally:
        tempfile.tempdir = before
        shutil.rmtree(folder, ignore_errors=True)


def remove_left(place: Path) -> list[Path]:
    """Remove the private folders of workbenches that no longer run, and return them; never those of other people."""
    removed = []
    for folder in sorted(place.glob(f"{PREFIX}*")):
        if _is_left(folder):
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder)
    return removed


def _is_left(folder: Path) -> bool:
    """Whether a folder is this person's own, and its process has ended."""
    try:
        found = folder.lstat()
    except OSError:  # another start has removed it
        return False
    try:
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            return False
        owner = json.loads((folder / OWNER).read_text("utf-8"))
        process, since = int(owner["process"]), str(owner["started"])
    except (OSError, ValueError, KeyError, TypeError):  # killed before the note was written, or just about to write it
        return folder.is_dir() and time.time() - found.st_mtime > _FRESH
    return not is_running(process) or (bool(since) and started(process) != since)


def is_running(process: int) -> bool:
    """Whether a process of this number exists."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OverflowError:
        return False
    except PermissionError:
        return True  # it is another person's
    return True


def started(process: int) -> str:
    """Return when a process began, in the words of the system; an empty text where it does not say.

    Numbers of processes are given again after some time: a number with another beginning is another process.
    """
    try:
        fields = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
        return f"{boot} {fields[19]}"
    except (OSError, IndexError):
        pass
    try:
        asked = ["ps", "-o", "lstart=", "-p", str(process)]
        return subprocess.run(asked, capture_output=True, text=True, timeout=5, check=False).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
