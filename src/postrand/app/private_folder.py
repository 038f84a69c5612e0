"""The private folder of a running workbench: uploads and releases; the next start removes those of ended processes."""

from __future__ import annotations

import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from postrand.support.system import is_own, lock

PREFIX = "postrand-app-"
OWNER = "in-use"
"""A file that the workbench has locked while it runs: the system ends the lock with the process, however that ends."""
_FRESH = 60.0
"""Seconds in which a folder without a complete file of this name is taken for one that is being made."""


@contextmanager
def private_folder() -> Iterator[Path]:
    """Yield a folder that only this person can read, and make it the place of all temporary files of this process.

    First the folders of workbenches that were killed are removed, and at the end this one, with everything in it.
    """
    remove_left(Path(tempfile.gettempdir()))
    folder, before = Path(tempfile.mkdtemp(prefix=PREFIX)), tempfile.tempdir
    try:
        with (folder / OWNER).open("w", encoding="utf-8") as held:
            with suppress(OSError):  # a file system without locks: nobody else gets one, and the folder stays
                lock(held)
            held.write("locked")  # from here on the lock counts
            held.flush()
            (folder / "temporary").mkdir(mode=0o700)
            tempfile.tempdir = str(folder / "temporary")  # of uploads too, before they reach the workbench
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
        if not stat.S_ISDIR(found.st_mode) or not is_own(found):
            return False
        is_fresh = time.time() - found.st_mtime < _FRESH
    except OSError:  # another start has removed it
        return False
    try:
        with (folder / OWNER).open("r+", encoding="utf-8") as held:
            return lock(held, wait=False) and (bool(held.read(1)) or not is_fresh)
    except OSError:  # killed before the file was made, or just about to make it
        return not is_fresh
