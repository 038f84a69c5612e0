"""The records of a release in memory: read once, and read again only where the files are other ones."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa

MAX_KEPT_BYTES = 1 << 28
"""A larger table (256 MB) is shared only for as long as its reader holds it."""
State = tuple[tuple[str, int, int, int, int], ...]


class KeptFrame:
    """Hold the table that was read last, and the state of the files that it was read from.

    Threads that ask at once wait for one reading. A copy, and what is unpickled, starts empty.
    """

    __slots__ = ("_lock", "_shared", "_state", "_table")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: State = ()
        self._table: pa.Table | None = None
        self._shared: Callable[[], pa.Table | None] = lambda: None

    def __reduce__(self) -> tuple[type[KeptFrame], tuple[()]]:
        return KeptFrame, ()

    def get(self, data: Path, read: Callable[[], pa.Table]) -> pa.Table:
        """Return the table of the files at ``data``, by ``read`` if they are not those of the last reading."""
        with self._lock:
            before, table = state_of(data), self._shared()
            if before and before == self._state and table is not None:
                return table
            self._table, self._state = None, ()  # the old records need not lie beside the new ones
            table = read()
            if before == state_of(data):  # else the files changed meanwhile, and what was read may be mixed
                self._state, self._shared = before, weakref.ref(table)
                self._table = table if table.get_total_buffer_size() <= MAX_KEPT_BYTES else None
            return table


def state_of(data: Path) -> State:
    """Return name, size, place and times of a file, or of each file of a folder; empty where they cannot be read.

    Whoever writes to a file changes its times, so equal states are the same bytes, but for clocks that were set back.
    """
    try:
        return states_of(sorted(data.iterdir()) if data.is_dir() else [data])
    except OSError:
        return ()


def states_of(files: Iterable[Path]) -> State:
    """Return the state of each file, as :func:`state_of`; empty where one cannot be read."""
    try:
        found = [(path.name, os.stat(path)) for path in files]
    except OSError:
        return ()
    return tuple((name, s.st_size, s.st_ino, s.st_mtime_ns, s.st_ctime_ns) for name, s in found)
