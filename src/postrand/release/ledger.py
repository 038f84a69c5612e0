"""The list of releases of one release key: a file beside the key, so that other content is not released by mistake.

Two releases under one key share random words only where content and mechanism are the same: then they are one release.
So a record that is in both is protected at the sum of their levels, ε1 + ε2, and the ledger keeps that sum in view.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from postrand.certification.account import add_upper
from postrand.engines.content import Content
from postrand.errors import PrivacyError, UsageError, raise_all, sentence
from postrand.support.exact import format_upper

SCHEMA = "postrand/ledger/1"
_LONGEST = 1 << 24  # bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """One release: the tag of its content, the digest of its mechanism, its record-level ε (None: no finite one)."""

    content: str
    mechanism: str
    epsilon: float | None
    release: str
    at: str

    @classmethod
    def of(cls, content: Content, mechanism_digest: str, epsilon: float, release: str) -> Entry:
        """Return the entry of a release that is being made."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        level = epsilon if math.isfinite(epsilon) else None
        return cls(content.tag().hex(), mechanism_digest, level, release, now)

    def same_release(self, other: Entry) -> bool:
        """Whether both draw the same words for the same records: the second reveals nothing new."""
        return (self.content, self.mechanism) == (other.content, other.mechanism)


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger of one release key: lines of JSON, readable by their owner only."""

    path: Path

    @classmethod
    def beside(cls, key_file: str | Path) -> Ledger:
        """Return the ledger of the key in this file."""
        file = Path(key_file)
        return cls(file.with_name(f"{file.name}.ledger"))

    def entries(self) -> tuple[Entry, ...]:
        """Return what has been released, oldest first.

        Raises
        ------
        UsageError
            If the file cannot be read, or is not a ledger.
        """
        if not os.path.lexists(self.path):
            return ()
        with self._opened("r") as file:
            return self._parsed(file.read(_LONGEST))

    def has_others(self, entry: Entry) -> bool:
        """Whether the key made a release of other content, or by another mechanism.

        Raises
        ------
        UsageError
            As :meth:`entries`.
        """
        return any(not entry.same_release(old) for old in self.entries())

    def check(self, entry: Entry, *, again: bool = False) -> None:
        """Refuse a release of other content, or by another mechanism, unless ``again`` is true.

        Raises
        ------
        PrivacyError
            Names the earlier release and the ε of both together.
        """
        self._check(self.entries(), entry, again)

    def add(self, entry: Entry, *, again: bool = False) -> None:
        """Check again and note the release; a release is noted only once.

        Raises
        ------
        PrivacyError
            As :meth:`check`.
        UsageError
            If the file cannot be written.
        """
        with self._opened("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            before = self._parsed(file.read(_LONGEST))
            self._check(before, entry, again)
            if not any(entry.same_release(old) for old in before):
                file.write(json.dumps({"schema": SCHEMA, **asdict(entry)}) + "\n")
                file.flush()
                os.fsync(file.fileno())

    def noting(self, entry: Entry, write: Callable[[Path], None], *, again: bool = False) -> Callable[[Path], None]:
        """Check the entry now, and return ``write`` extended: it notes the release when its data are written.

        The note comes before the release appears: a noted release may never appear, but none appears without a note.
        """
        self.check(entry, again=again)

        def write_and_note(path: Path) -> None:
            write(path)
            self.add(entry, again=again)

        return write_and_note

    def _check(self, before: tuple[Entry, ...], entry: Entry, again: bool) -> None:
        others = [old for old in before if not entry.same_release(old)]
        if again or not others or len(others) < len(before):
            return
        levels = [old.epsilon for old in (*others, entry)]
        total = format_upper(add_upper(*(e for e in levels if e is not None))) if None not in levels else "infinity"
        what = "this release key was already used for other content, or with another mechanism"
        got = f"{others[-1].release} on {others[-1].at[:10]}" + f", and {len(others) - 1} more" * (len(others) > 1)
        fix = "use a new key for other people; or use --again (again=True) to release these records again"
        cost = f"a record that is in all releases is then protected only at ε <= {total}"
        raise PrivacyError(sentence(what, where=self.path.name, got=f"{got}; {cost}", fix=fix))

    def _parsed(self, text: str) -> tuple[Entry, ...]:
        found, problems = [], []
        for number, line in enumerate(text.splitlines(), 1):
            try:
                found.append(_entry(json.loads(line)))
            except (ValueError, TypeError, RecursionError):
                fix = "restore the ledger, or move key and ledger away and use a new key"
                problems.append(
                    sentence("invalid line in the ledger", where=f"{self.path.name}, line {number}", fix=fix)
                )
        raise_all(UsageError, problems)
        return tuple(found)

    @contextmanager
    def _opened(self, mode: str) -> Iterator[IO[str]]:
        try:
            with open(self.path, mode, encoding="utf-8", opener=_for_owner) as file:
                yield file
        except (OSError, UnicodeDecodeError) as error:
            got = getattr(error, "strerror", None) or "not text"
            fix = "the ledger is beside the key file: put the key in a folder that can be read and written"
            raise UsageError(sentence("the ledger cannot be used", where=str(self.path), got=got, fix=fix)) from None


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _entry(data: Mapping[str, object]) -> Entry:
    if not isinstance(data, dict) or data.pop("schema", None) != SCHEMA:
        raise ValueError
    entry = Entry(**data)  # whose types are checked next
    texts = (entry.content, entry.mechanism, entry.release, entry.at)
    if not all(isinstance(text, str) for text in texts) or not isinstance(entry.epsilon, float | int | None):
        raise ValueError
    return entry
