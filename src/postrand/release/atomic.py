"""Directories that appear whole or not at all."""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from postrand.errors import ReleaseError, raise_all, sentence

PUBLIC, PRIVATE = 0o777, 0o700


@contextmanager
def appearing(directory: Path, mode: int = PUBLIC) -> Iterator[Path]:
    """Yield a hidden directory beside ``directory``, and give it that name when the block ends without an error.

    Every file is flushed to the disk before the name appears. ``mode`` is that of the directory, under the umask. On
    any error or interruption the hidden directory is removed, and nothing is left behind.

    Raises
    ------
    ReleaseError
        If ``directory`` exists, now or when the block ends, or the disk refuses a step of the writing.
    """
    raise_all(ReleaseError, target_problems(directory))
    staging = directory.parent / f".{directory.name}.{secrets.token_hex(8)}.partial"
    try:
        staging.mkdir(mode)
        yield staging
        for path in staging.rglob("*"):
            _flush(path)
        _flush(staging)
        # rename(2) refuses a target that exists, unless it is an empty directory: a race can destroy nothing.
        staging.rename(directory)
    except OSError as error:
        raise ReleaseError(
            sentence(
                "writing failed, and nothing was left behind",
                where=str(directory),
                got=error.strerror or str(error),
                fix="check free space and permissions, then run again",
            )
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    with suppress(OSError):  # the release is whole by now; some file systems cannot flush a directory
        _flush(directory.parent)


def target_problems(directory: Path) -> list[str]:
    """Return a sentence for what keeps a directory of this name from being made."""
    if os.path.lexists(directory):
        return [sentence("the output directory exists", where=str(directory), fix="name a new one, or remove it")]
    if not directory.parent.is_dir():
        fix = f"create {directory.parent}"
        return [sentence("the parent folder does not exist", where=str(directory), fix=fix)]
    return []


def nesting_problems(*directories: Path) -> list[str]:
    """Return a sentence for each two directories of which one is, or lies inside, the other."""
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


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
