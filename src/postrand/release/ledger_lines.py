"""The lines of a ledger: a header and one line for each release, each with a digest over all that stands before it.

The first line names the population; every line holds the digest of the line before and its own, SHA-256 over that
digest and the canonical JSON of the rest. So a line that is changed, removed or put elsewhere breaks the chain; lines
removed at the end do not: only a digest that was published, such as that in a later release, shows that they are gone.
Lines of schema 1, which had no chain, may stand before the header, whose digest covers them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from postrand.certification.series import KINDS, Level, Series
from postrand.engines.content import Content
from postrand.errors import UsageError, raise_all, sentence

SCHEMAS = ("postrand/ledger/1", "postrand/ledger/2")
SCHEMA = SCHEMAS[-1]
"""Of the ledgers that are written."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One release: the tag of its content, the digest of its mechanism, its record-level ε (None: no finite one).

    ``delta`` and ``rho`` are the rest of the level (:class:`postrand.certification.series.Level`); ``units`` the ε of
    other units, such as households, where a release states them. ``perturbed``, ``ranked`` and ``clear`` are its
    variables. ``disjoint``: the reason why no record is in an earlier release. ``exception``: the reason why a total
    without a finite level is allowed. ``manifest``: the SHA-256 of the release's manifest. ``limit`` is the largest
    total ε that the plan stated, at ``limit_delta`` where it stated one; None without. ``raised``: the reason why the
    limits of earlier releases bind no more.
    """

    content: str
    mechanism: str
    epsilon: float | None
    release: str
    at: str
    delta: float = 0.0
    rho: float | None = None
    units: Mapping[str, float] = field(default_factory=dict)
    population: str = ""
    kind: str = KINDS[0]
    perturbed: tuple[str, ...] = ()
    ranked: tuple[str, ...] = ()
    clear: tuple[str, ...] = ()
    disjoint: str = ""
    exception: str = ""
    manifest: str = ""
    limit: float | None = None
    limit_delta: float | None = None
    raised: str = ""

    @classmethod
    def of(cls, content: Content, mechanism_digest: str, epsilon: float, release: str, **more: Any) -> Entry:
        """Return the entry of a release that is being made; ``more`` are its other fields."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        level = epsilon if math.isfinite(epsilon) else None
        return cls(content.tag().hex(), mechanism_digest, level, release, now, **more)

    @property
    def level(self) -> Level:
        """The level of a record."""
        return Level(self.epsilon, self.delta, self.rho)

    @property
    def is_finite(self) -> bool:
        """Whether a record has a finite level."""
        return self.epsilon is not None

    def same_release(self, other: Entry) -> bool:
        """Whether both draw the same words for the same records: the second reveals nothing new."""
        return (self.content, self.mechanism) == (other.content, other.mechanism)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        names = ("release", "kind", "at", "population", "content", "mechanism", "manifest", "disjoint", "exception")
        levels: dict[str, Any] = {"record": {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}}
        levels |= {unit: {"epsilon": epsilon} for unit, epsilon in self.units.items()}
        variables = {name: list(getattr(self, name)) for name in ("perturbed", "ranked", "clear")}
        stated: dict[str, Any] = (
            {} if self.limit is None else {"limit": {"epsilon": self.limit, "delta": self.limit_delta}}
        )
        stated |= {"raised": self.raised} if self.raised else {}
        return {name: getattr(self, name) for name in names} | variables | {"levels": levels} | stated


@dataclass(frozen=True, slots=True)
class Line:
    """A release in a ledger: its number there, the digest of the line before, its own, and its population's total.

    ``place`` is its number among the releases of its own population: a ledger may have several populations.
    """

    entry: Entry
    number: int
    previous: str
    digest: str
    total: Level
    place: int

    @property
    def series(self) -> Series:
        """What the certificate of the release states."""
        entry = self.entry
        return Series(entry.population, self.place, entry.kind, self.previous, entry.level, self.total, entry.disjoint)


@dataclass(frozen=True, slots=True)
class Book:
    """Hold what a ledger says; ``head`` is the digest of its last line, "" where it has no header yet."""

    lines: tuple[Line, ...] = ()
    population: str = ""
    head: str = ""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The releases, oldest first."""
        return tuple(line.entry for line in self.lines)


def total_of(entries: Sequence[Entry]) -> Level:
    """Return the level of a record in the worst set of releases that it can be in.

    Levels add up within a population; the largest of several populations counts. Of a release that is disjoint from
    all earlier ones, a record is in that and later ones only.

    >>> one, two = (Entry(tag, "m", 1.0, "r", "", disjoint=reason) for tag, reason in (("a", ""), ("b", "new persons")))
    >>> total_of([one, one]).epsilon, total_of([one, two]).epsilon, total_of([one, two, one]).epsilon
    (2.0, 1.0, 2.0)
    """
    found: Level | None = None
    for population in dict.fromkeys(entry.population for entry in entries):
        own = [entry for entry in entries if entry.population == population]
        starts = [0, *(k for k, entry in enumerate(own) if entry.disjoint)]
        for start in starts:
            inside = [e for k, e in enumerate(own) if k >= start and (not e.disjoint or k == start)]
            total = Level(0.0, 0.0, 0.0)
            for entry in inside:
                total += entry.level
            found = total if found is None else found.largest(total)
    return Level(0.0, 0.0, 0.0) if found is None else found


def unit_totals(entries: Sequence[Entry]) -> dict[str, float | None]:
    """Return the total ε of other units than records, which every release states."""
    named = set.intersection(*({*entry.units} for entry in entries)) if entries else set()
    of = {unit: [replace(e, epsilon=e.units[unit], delta=0.0, rho=None) for e in entries] for unit in sorted(named)}
    return {unit: total_of(held).epsilon for unit, held in of.items()}


def _total_with(book: Book, entry: Entry) -> Level:
    return total_of([*(old for old in book.entries if old.population == entry.population), entry])


def _place(book: Book, entry: Entry) -> int:
    return 1 + sum(old.population == entry.population for old in book.entries)


def digest_of(previous: str, data: Mapping[str, Any]) -> str:
    """Return the digest of a line that stands after the line with the digest ``previous``."""
    return hashlib.sha256((previous + canonical(data)).encode()).hexdigest()


def canonical(data: Mapping[str, Any]) -> str:
    """Return the one text of plain data: sorted names, no spaces."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def header(population: str, earlier: str) -> dict[str, Any]:
    """Return the first line; ``earlier`` are the lines of schema 1 that stand before it."""
    covered = hashlib.sha256(earlier.encode()).hexdigest() if earlier else ""
    data = {"schema": SCHEMA, "population": population, "earlier": covered}
    return {**data, "digest": digest_of("", data)}


def line_of(book: Book, entry: Entry) -> tuple[Line, dict[str, Any]]:
    """Return the next line of a ledger that has a header, as a value and as plain data."""
    total, number = _total_with(book, entry), len(book.lines) + 1
    data = {
        "number": number,
        "previous": book.head,
        **entry.to_dict(),
        "total": {"epsilon": total.epsilon, "delta": total.delta},
    }
    digest = digest_of(book.head, data)
    return Line(entry, number, book.head, digest, total, _place(book, entry)), {**data, "digest": digest}


def parse(text: str, where: str) -> Book:
    """Read a ledger and check its chain and its totals.

    Raises
    ------
    UsageError
        Naming every line that is not well formed; or the first that does not follow from those before it.
    """
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        fix = "a run was interrupted before its release appeared: remove this line, or restore the ledger"
        raise UsageError(sentence("the last line of the ledger is incomplete", where=where, fix=fix))
    problems, read = [], []
    for number, line in enumerate(lines, 1):
        try:
            read.append((number, _plain(line)))
        except (ValueError, TypeError, KeyError, RecursionError):
            problems.append(_invalid(where, number))
    if problems and not read:
        fix = "name the ledger of the population, or of the key; if this was one, restore it from a copy"
        raise UsageError(sentence("this is not a ledger: no line of it is an entry", where=where, fix=fix))
    raise_all(UsageError, problems)
    return _chained(read, lines, where)


def _chained(read: Sequence[tuple[int, dict[str, Any]]], lines: Sequence[str], where: str) -> Book:
    book = Book()
    for number, data in read:
        if data.get("schema") == SCHEMAS[0] and not book.head:
            entry = Entry(**{name: value for name, value in data.items() if name != "schema"})
            made = Line(entry, len(book.lines) + 1, "", "", _total_with(book, entry), _place(book, entry))
            book = Book((*book.lines, made), book.population)
        elif "schema" in data:
            if book.head or data != header(data["population"], "".join(lines[: number - 1])):
                raise _broken(where, number)
            book = Book(book.lines, data["population"], data["digest"])
        else:
            made, wanted = line_of(book, _entry(data))
            if not book.head or data != wanted:
                raise _broken(where, number)
            book = Book((*book.lines, made), book.population, made.digest)
    return book


def _invalid(where: str, number: int) -> str:
    fix = "restore the ledger, or move key and ledger away and use a new key"
    return sentence("invalid line in the ledger", where=f"{where}, line {number}", fix=fix)


def _broken(where: str, number: int) -> UsageError:
    what = "the ledger was changed: this line does not follow from those before it"
    return UsageError(sentence(what, where=f"{where}, line {number}", fix="restore the ledger from a copy"))


def _plain(line: str) -> dict[str, Any]:
    """Return the data of a line that has the fields of one of the schemas; raises ValueError, TypeError or KeyError."""
    data = json.loads(line)
    if not isinstance(data, dict):
        raise TypeError
    if data.get("schema") == SCHEMAS[0]:
        _of_first_schema(data)
    elif "schema" in data:
        if data["schema"] != SCHEMA or not isinstance(data["population"], str) or line != canonical(data) + "\n":
            raise ValueError
    elif line != canonical(data) + "\n" or set(data) != {*line_of(Book(), _entry(data))[1]}:
        raise ValueError
    return data


def _of_first_schema(data: Mapping[str, Any]) -> None:
    """Raise an error unless the line is one of schema 1."""
    if set(data) != {"schema", "content", "mechanism", "epsilon", "release", "at"}:
        raise ValueError
    if not all(isinstance(data[name], str) for name in ("content", "mechanism", "release", "at")):
        raise TypeError
    _checked([data["epsilon"]])


def _entry(data: Mapping[str, Any]) -> Entry:
    """Return the entry of a line; raises ValueError, TypeError or KeyError where it is not well formed."""
    levels = dict(data["levels"])
    record = levels.pop("record")
    units = {unit: level["epsilon"] for unit, level in levels.items()}
    limit = data.get("limit", {"epsilon": None, "delta": None})
    _checked([record["epsilon"], record["rho"], record["delta"], *units.values(), limit["epsilon"], limit["delta"]])
    lists = ("perturbed", "ranked", "clear")
    texts = ("content", "mechanism", "release", "at", "population", "kind", "disjoint", "exception", "manifest")
    raised = data.get("raised", "")
    held = [raised, *(data[name] for name in texts)] + [one for name in lists for one in data[name]]
    if not all(isinstance(text, str) for text in held):
        raise TypeError
    if data["kind"] not in KINDS:
        raise ValueError
    fields: dict[str, Any] = {name: data[name] for name in texts} | {name: tuple(data[name]) for name in lists}
    fields |= {"limit": limit["epsilon"], "limit_delta": limit["delta"], "raised": raised}
    return Entry(epsilon=record["epsilon"], delta=record["delta"], rho=record["rho"], units=units, **fields)


def _checked(numbers: Sequence[Any]) -> None:
    for number in numbers:
        if number is not None and (isinstance(number, bool) or not isinstance(number, float | int) or not number >= 0):
            raise ValueError
