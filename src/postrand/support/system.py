"""What not every system has: locks of files, owners and modes, folders that are flushed, the processors of a process.

All other modules use only what Linux, macOS and Windows have in common (``tests/test_system.py``).
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_OPENS_FOLDERS = hasattr(os, "O_DIRECTORY")
_LOCKED_BYTE = 1 << 40
"""Where a lock of Windows lies: behind all contents, because it keeps others from reading what it covers."""


def processors() -> int:
    """Return the number of processors that this process may use, or, where the system does not say, has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def others_may(found: os.stat_result) -> bool:
    """Whether others than its owner may do anything with a file or folder.

    False where files have no owner by number: Windows has lists of rights, which modes do not show.
    """
    return hasattr(os, "getuid") and bool(stat.S_IMODE(found.st_mode) & 0o077)


def is_own(found: os.stat_result) -> bool:
    """Whether a file or folder is this person's; True where files have no owner by number."""
    return not hasattr(os, "getuid") or found.st_uid == os.getuid()


def flush(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk; where folders cannot be opened, only files.

    Raises
    ------
    OSError
        If the disk refuses, or a file system cannot flush folders.
    """
    if not _OPENS_FOLDERS and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY if _OPENS_FOLDERS else os.O_RDWR)  # Windows flushes what it may write
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_plain(path: str, flags: int, mode: int = 0o666) -> int:
    """Open a plain file, as the ``opener`` of :func:`open`; a link is followed to one.

    A pipe would be waited for, and a device can be without an end.

    Raises
    ------
    OSError
        If the file cannot be opened, or is none: a folder, a pipe, a device. Its ``strerror`` says so.
    """
    try:
        descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), mode)
    except ValueError:  # a null character, or what the file system cannot spell
        raise OSError(errno.EINVAL, "not a valid file name") from None
    found = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(found):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "a folder" if stat.S_ISDIR(found) else "a pipe or a device, not a file")
    return descriptor


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which ends with the process at the latest.

    Raises
    ------
    OSError
        If another process holds it, or the system locks no folders.
    """
    if sys.platform == "win32" or not _OPENS_FOLDERS:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    import fcntl  # not everywhere

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def is_waiting(stream: IO[str]) -> bool:
    """Return whether a line, or a key on Windows, waits to be read at a terminal: typed ahead, or pasted."""
    if sys.platform == "win32":
        import msvcrt  # only there

        return msvcrt.kbhit()
    import select  # not of files on Windows

    return bool(select.select([stream], [], [], 0)[0])


def lock(file: IO[str], *, shared: bool = False, wait: bool = True) -> bool:
    """Lock an open file until it is closed, and return whether it is locked now; False where no system does it.

    Several processes can have a ``shared`` lock; Windows has none, so that they wait for one another. Without ``wait``
    a file that another process has locked is not waited for.

    Raises
    ------
    OSError
        If the system refuses; on Windows also after ten seconds of waiting.
    """
    try:
        if sys.platform == "win32":
            import msvcrt  # only there

            here = os.lseek(file.fileno(), 0, os.SEEK_CUR)
            os.lseek(file.fileno(), _LOCKED_BYTE, os.SEEK_SET)
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
            finally:
                os.lseek(file.fileno(), here, os.SEEK_SET)
        else:
            import fcntl  # not everywhere

            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except ImportError:
        return False
    except OSError:
        if wait:
            raise
        return False
    return True
