"""The file that a new tab opens, read while the browser is still on its way to the first screen."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from postrand.app import opening
from postrand.app.decisions import Opened
from postrand.app.projects import plan_of
from postrand.errors import PostrandError
from postrand.support.memory import give_back

PATIENCE = 0.3
"""Seconds that the first screen waits for a file that is being read; if it takes longer, it says so."""


@dataclass(slots=True, eq=False)
class Start:
    """The file of the command line, which every new tab opens; otherwise they open the demonstration survey.

    What ``prepare`` read is for the first tab: the file may be another one when the next tab opens it.
    """

    file: Path | None = None
    _read: Opened | None = None
    _is_taken: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def prepare(self) -> None:
        """Read the file, unless it is a plan or a tab has asked; a tab that opens it says what is wrong with it."""
        if self.file is None or plan_of(self.file).suffix == ".toml":
            return
        with self._lock, suppress(PostrandError, OSError, MemoryError):
            if not self._is_taken:
                self._read = opening.open_file(self.file)
        give_back()

    def take(self, patience: float | None = PATIENCE) -> Opened | None:
        """Return what was read, once; None where nothing was, or where it takes longer than ``patience`` seconds."""
        if not self._lock.acquire(timeout=-1 if patience is None else patience):
            return None
        try:
            found, self._read, self._is_taken = self._read, None, True
            return found
        finally:
            self._lock.release()
