"""Directories that appear complete or not at all."""

from __future__ import annotations

import errno
import glob
import itertools
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from postrand.errors import ReleaseError, raise_all, sentence
from postrand.support import system
from postrand.support.refusals import DISK, MEMORY, NEXT
from postrand.support.signals import unfinished
from postrand.support.system import flush
from postrand.support.threads import spare_threads
from postrand.support.warned import warn

PUBLIC, PRIVATE = 0o777, 0o700
_FLUSHED = 8
"""Files that are flushed at a time."""
_TAKEN = dict.fromkeys(
    (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR), "another run made it in the meantime: give a new name"
)

_FAILED = "writing failed, and nothing was left behind"
_LEFT = "when the disk can be written to again, remove it: it can hold confidential records"


@contextmanager
def appearing(directory: Path, mode: int = PUBLIC) -> Iterator[Path]:
    """Yield a hidden directory beside ``directory``, and give it that name when the block ends without an error.

    See :func:`appearing_together`.
    """
    with appearing_together((directory, mode)) as (staging,):
        yield staging


@contextmanager
def appearing_together(*targets: tuple[Path, int]) -> Iterator[tuple[Path, ...]]:
    """Yield a hidden directory beside each target, and give all their names when the block ends without an error.

    Targets are directories with their modes, under the umask; until they appear nobody but their owner can read them.
    Every file is flushed to the disk before the first name appears. They appear in the order given; if one cannot
    get its name, those before it are removed. On any error or interruption the hidden directories are removed, and
    nothing is left behind.

    Raises
    ------
    ReleaseError
        If a directory exists, now or when the block ends, or the disk refuses a step of the writing.
    """
    raise_all(ReleaseError, [p for directory, _ in targets for p in target_problems(directory)])
    staged: dict[Path, Path] = {}
    held = ExitStack()
    try:
        for directory, _ in targets:
            _remove_left(directory)
        for directory, _ in targets:
            staging = _hidden(directory, _number(next(iter(staged), None)))
            staged[staging] = directory
            held.enter_context(unfinished(staging))
            staging.mkdir(PRIVATE)
            with suppress(OSError):  # a system or a file system without locks of folders
                held.enter_context(system.held(staging))
        yield tuple(staged)
        _flush_all([path for staging in staged for path in (*staging.rglob("*"), staging)])
        for staging, (_, mode) in zip(staged, targets, strict=True):
            staging.chmod(_under_umask(staging, mode))
        _rename_all(staged)
    except OSError as error:
        left = [str(staging) for staging in staged if not _removed(staging)]
        # The last target is named where the error does not tell: it is the release.
        refused = [d for staging, d in staged.items() if str(error.filename or "").startswith(str(staging))]
        raise ReleaseError(
            sentence(
                f"writing failed, and {left[0]} cannot be removed" if left else _FAILED,
                where=str([*(directory for directory, _ in targets), *refused][-1]),
                got=error.strerror or str(error),
                # Without a number it was a library that could not be loaded into memory.
                fix=_LEFT if left else (NEXT | _TAKEN).get(error.errno or 0, DISK if error.errno else MEMORY),
            )
        ) from error
    finally:
        for staging in staged:
            if not _removed(staging):
                warn(sentence("a hidden folder cannot be removed", where=str(staging), fix=_LEFT), UserWarning)
        with suppress(OSError):
            held.close()
    with suppress(OSError):  # all is whole by now; some file systems cannot flush a directory
        for parent in {directory.parent for directory in staged.values()}:
            flush(parent)


def flush_data(place: Path) -> None:
    """Flush a file, or the files of a folder; what is on the disk already is flushed at once when all appears."""
    _flush_all([*place.iterdir()] if place.is_dir() else [place])


def _flush_all(paths: Sequence[Path]) -> None:
    """Flush files and folders to the disk: many at a time, for which a file system writes its journal once."""
    threads = spare_threads(min(_FLUSHED, len(paths)))
    if threads < 2:
        for path in paths:
            flush(path)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="postrand-flush") as pool:
        for _ in pool.map(flush, paths):
            pass


def _removed(staging: Path) -> bool:
    shutil.rmtree(staging, ignore_errors=True)
    try:
        return not staging.exists()
    except OSError:  # the disk does not tell
        return False


def _rename_all(staged: Mapping[Path, Path]) -> None:
    """Rename all directories or none: after a refusal or an interruption, those before it are renamed back."""
    try:
        for staging, directory in staged.items():
            # rename(2) refuses a target that exists, unless it is an empty directory: a race can destroy nothing.
            staging.rename(directory)
    except BaseException:
        for staging, directory in staged.items():
            if not staging.exists():  # so the directory is the one that was staged
                directory.rename(staging)
        raise


def _hidden(directory: Path, number: int = 0) -> Path:
    """Return a name beside the directory, short enough for any name that the directory can have.

    It is a new one, or says the number of the folder that is to appear with this one.
    """
    return directory.parent / f".{directory.name[:40]}.{number or secrets.randbits(64):016x}.partial"


def _number(folder: Path | None) -> int:
    """Return the number by which the file system knows a folder whatever its name; 0 where it has none."""
    return 0 if folder is None else folder.stat().st_ino & (1 << 64) - 1


def take_back(first: Path, last: Path) -> None:
    """Remove the first of two directories if a run was killed between their names: the last is hidden still.

    Its hidden name says the number of the first. A run that is not killed holds a lock on it, and one that is over has
    taken that name away: so nothing goes that is complete. Where no folder can be locked, nothing is removed.
    """
    with suppress(OSError, ValueError):  # no such folder, or a name that none can have: who makes them says so
        left = _hidden(last, _number(first))
        with system.held(left):
            if any(left.iterdir()) and not first.is_symlink():
                hidden = _hidden(first)
                first.rename(hidden)
                shutil.rmtree(hidden)


def _remove_left(directory: Path) -> None:
    """Remove what runs that were killed have left beside a directory: they can hold confidential records.

    A run holds a lock on its hidden directory, which ends with its process. One that is empty may just be made. Where
    no folder can be locked, nothing is removed.
    """
    pattern = f".{glob.escape(directory.name[:40])}.{'[0-9a-f]' * 16}.partial"
    for left in directory.parent.glob(pattern):
        with suppress(OSError), system.held(left):
            if any(left.iterdir()):
                shutil.rmtree(left)


def _under_umask(folder: Path, mode: int) -> int:
    """Return the mode that a new directory gets there, from a test, because the umask cannot be read safely."""
    probe = folder / ".mode"
    probe.mkdir(mode)
    found = stat.S_IMODE(probe.stat().st_mode)
    probe.rmdir()
    return found


def target_problems(directory: Path) -> list[str]:
    """Return a sentence for each reason why a directory of this name cannot be made."""
    where, parent = str(directory), directory.parent
    try:
        directory.lstat()
        return [sentence("the output directory exists", where=where, fix="give a new name, or remove it")]
    except FileNotFoundError:
        if not parent.is_dir():
            return [sentence("the parent folder does not exist", where=where, fix=f"create {parent}")]
        return _parent_problems(directory)
    except (OSError, ValueError) as error:
        got = getattr(error, "strerror", None) or "a name that a directory cannot have"
        return [sentence("the output directory cannot be made", where=where, got=got, fix="give another name")]


def _parent_problems(directory: Path) -> list[str]:
    """Return a sentence where the parent takes no folder: found by making one, because rights alone do not tell."""
    probe = _hidden(directory)
    try:
        probe.mkdir(PRIVATE)
        probe.rmdir()
    except OSError as error:
        _removed(probe)
        what, where = "the parent folder cannot be written to", str(directory)
        return [sentence(what, where=where, got=error.strerror, fix=NEXT.get(error.errno or 0, "give another folder"))]
    return []


def nesting_problems(*directories: Path) -> list[str]:
    """Return a sentence for each two directories that are the same, or one inside the other."""
    return [
        sentence(
            "one output directory lies inside another",
            where=f"{one} and {other}",
            fix="keep the internal dossier apart from the public release",
        )
        for one, other in itertools.combinations(directories, 2)
        if _inside(one, other) or _inside(other, one)
    ]


def _inside(inner: Path, outer: Path) -> bool:
    return Path(os.path.realpath(inner)).is_relative_to(os.path.realpath(outer))
