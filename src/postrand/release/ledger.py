"""The ledger of the releases of a population: a file with a chain of digests, so that every release is counted.

Two releases share random words only where key, content and mechanism are the same: then they are one release. So a
record that is in both is protected at the sum of their levels, ε1 + ε2, and the ledger keeps that sum in view. Every
release key has a ledger beside it; a plan can name one for a population, whatever the keys of its releases.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from postrand.certification.series import KINDS, Level, Series
from postrand.errors import PrivacyError, UsageError, nearest, raise_all, sentence
from postrand.release.ledger_lines import (
    Book,
    Entry,
    Line,
    canonical,
    header,
    line_of,
    parse,
    total_of,
    unit_totals,
)
from postrand.release.ledger_terms import Terms as Terms  # who charges states them
from postrand.release.ledger_terms import at_delta, left_of, limit_words
from postrand.support.entropy import format_lower
from postrand.support.showing import few
from postrand.support.system import flush, lock, open_plain
from postrand.support.warned import warn

_LONGEST = 1 << 26  # bytes
_NOTHING = 1e-6  # less than this is what rounding leaves


class LedgerWarning(UserWarning):
    """A release passes a limit that an earlier one of its population stated."""


@dataclass(frozen=True, slots=True)
class Charge:
    """A release that a ledger has room for: its ``line``, and what notes it when the release is complete."""

    ledger: Ledger
    entry: Entry
    terms: Terms
    line: Line

    @property
    def series(self) -> Series | None:
        """What the release's certificate states; None for the ledger of a key."""
        return None if self.terms.of_key else self.line.series

    def note(self, manifest: str = "") -> None:
        """Note the release under a lock, unless it is there already; ``manifest`` is the digest of its manifest.

        Raises
        ------
        PrivacyError
            If another release was noted meanwhile, so that what the certificate states is not true.
        UsageError
            If the file cannot be written; it is then as it was.
        """
        self.ledger.add(dataclasses.replace(self.entry, manifest=manifest), self.terms, stated=self.series)


def series_of(charges: Iterable[Charge]) -> Series | None:
    """Return the place among the releases of a population that a release's certificate states; None without one."""
    return next((charge.series for charge in charges if charge.series is not None), None)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a population's ledger would say of a release: totals before and after, and why it would refuse it.

    ``units`` are the totals ε of other units, with it. ``is_known``: a release of the same mechanism is in the ledger.
    ``passed`` says which limits that earlier releases stated the total passes, and which population of a like name the
    ledger has. ``series`` is what its certificate would state of them together.
    """

    terms: Terms
    entry: Entry
    before: Level
    after: Level
    problems: tuple[str, ...]
    units: Mapping[str, float | None]
    is_known: bool
    passed: tuple[str, ...] = ()
    series: Series | None = None


@dataclass(frozen=True, slots=True)
class Ledger:
    """A ledger: lines of JSON, readable by their owner only, to which lines are only added."""

    path: Path

    @classmethod
    def beside(cls, key_file: str | Path) -> Ledger:
        """Return the ledger of the key in this file."""
        file = Path(key_file)
        return cls(file.with_name(f"{file.name}.ledger"))

    def read(self) -> Book:
        """Read the ledger and check its chain and totals; one that does not exist is empty.

        Raises
        ------
        UsageError
            If the file cannot be read, is not a ledger, or was changed.
        """
        if not os.path.lexists(self.path):
            return Book()
        with self._opened("r") as file:
            lock(file, shared=True)
            return self._parsed(file)

    def entries(self) -> tuple[Entry, ...]:
        """Return what has been released, oldest first; raises UsageError as :meth:`read`."""
        return self.read().entries

    def has_others(self, entry: Entry) -> bool:
        """Whether there is a release of other content, or by another mechanism; raises UsageError as :meth:`read`."""
        return any(not entry.same_release(old) for old in self.entries())

    def charge(self, entry: Entry, terms: Terms) -> Charge:
        """Return the release with its place in the ledger; nothing is written yet.

        Warns where the total passes a limit that an earlier release stated.

        Raises
        ------
        PrivacyError
            If the ledger has no room for it: names the total so far, the release's level, and what is left.
        UsageError
            As :meth:`read`; or if the ledger could not be written later.
        """
        self._check_place()
        book = self.read()
        made = self._charged(book, entry, terms)
        known = [old for old in book.entries if old.population == made.entry.population]
        told = _same_values(made.entry, terms) if made.entry in known else _warned(book, made.entry)
        for text in () if terms.of_key else told:
            warn(f"{self.path.name}: {text}", LedgerWarning)
        return made

    def outlook(self, entry: Entry, terms: Terms) -> Outlook:
        """Return what the ledger of a population would say of a release, as new; raises UsageError as :meth:`read`."""
        book, entry = self.read(), _stated(entry, terms)
        known = [old for old in book.entries if old.population == entry.population]
        problems = tuple(_problems(book, entry, terms, self.path))
        is_known = any(old.mechanism == entry.mechanism for old in known)
        units = unit_totals([*known, entry])
        passed = tuple(_warned(book, entry))
        series = line_of(book, entry)[0].series
        before, after = total_of(known), total_of([*known, entry])
        return Outlook(terms, entry, before, after, problems, units, is_known, passed, series)

    def add(self, entry: Entry, terms: Terms | None = None, *, stated: Series | None = None) -> None:
        """Check again and note the release; a release is noted only once. Raises as :meth:`Charge.note`.

        Warns where it is noted already with other files: unperturbed values can then be compared row by row.
        """
        terms = terms or Terms()
        with self._opened("a+") as file:
            lock(file)
            file.seek(0)
            book = self._parsed(file)
            if (old := _noted(book, entry, terms)) is not None:
                for text in _other_files(old.entry, entry):
                    warn(text, LedgerWarning)
                return
            charge = self._charged(book, entry, terms)
            if stated is not None and charge.series != stated:
                what = "another release was noted in the ledger while this one was made"
                raise PrivacyError(sentence(what, where=self.path.name, fix="run again: the total has changed"))
            if not book.head:
                first = header(terms.population or "", self._text(file))
                book = dataclasses.replace(book, population=first["population"], head=first["digest"])
                lines = canonical(first) + "\n"
            else:
                lines = ""
            self._append(file, lines + canonical(line_of(book, charge.entry)[1]) + "\n")

    def _check_place(self) -> None:
        """Raise UsageError, before any work, where a new ledger could not be made."""
        if not os.path.lexists(self.path):
            with self._opened("x"):
                pass
            self.path.unlink(missing_ok=True)

    def _text(self, file: IO[str]) -> str:
        file.seek(0)
        return file.read(_LONGEST)

    def _append(self, file: IO[str], text: str) -> None:
        """Write lines at the end and flush them to the disk; where the disk refuses, the file is as it was."""
        size, rest = os.fstat(file.fileno()).st_size, text.encode()
        try:
            while rest:  # past the buffer of ``file``, which would be written again when it is closed
                rest = rest[os.write(file.fileno(), rest) :]
            os.fsync(file.fileno())
        except BaseException:
            os.ftruncate(file.fileno(), size)
            raise
        with suppress(OSError):  # the name of a new file; some file systems cannot flush it
            flush(self.path.parent)

    def _charged(self, book: Book, entry: Entry, terms: Terms) -> Charge:
        same = _noted(book, entry, terms)
        if same is not None:
            return Charge(self, same.entry, terms, same)
        if terms.of_key:
            _check_key(book.entries, entry, terms, self.path.name)
            kind = KINDS[bool(book.lines)]
            entry = dataclasses.replace(entry, kind=kind)
        else:
            entry = _stated(entry, terms)
            raise_all(PrivacyError, _problems(book, entry, terms, self.path))
        if not book.head:
            first = header(terms.population or "", _as_text(self.path))
            book = dataclasses.replace(book, head=first["digest"])
        return Charge(self, entry, terms, line_of(book, entry)[0])

    def _parsed(self, file: IO[str]) -> Book:
        return parse(file.read(_LONGEST), self.path.name)

    @contextmanager
    def _opened(self, mode: str) -> Iterator[IO[str]]:
        try:
            with open(self.path, mode, encoding="utf-8", newline="\n", opener=_for_owner) as file:
                yield file
        except (OSError, UnicodeDecodeError) as error:
            got = getattr(error, "strerror", None) or "not text"
            fix = "put it in a folder that can be read and written; that of a key is beside the key file"
            raise UsageError(sentence("the ledger cannot be used", where=str(self.path), got=got, fix=fix)) from None


def _noted(book: Book, entry: Entry, terms: Terms) -> Line | None:
    """Return the line of the same release; one of schema 1 has no place in a chain, so a population counts it anew."""
    return next((o for o in book.lines if entry.same_release(o.entry) and (terms.of_key or o.previous)), None)


def _stated(entry: Entry, terms: Terms) -> Entry:
    """Return the entry of a population's ledger, as the curator states it."""
    return dataclasses.replace(
        entry,
        population=terms.population or "",
        kind=terms.kind or KINDS[0],
        disjoint=terms.disjoint,
        exception=terms.exception,
        raised=terms.raised,
        limit=terms.limit,
        limit_delta=terms.delta,
    )


def _as_text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _check_key(before: tuple[Entry, ...], entry: Entry, terms: Terms, where: str) -> None:
    """Refuse other content under a key, unless it is asked for; raises PrivacyError."""
    if terms.again or not before:
        return
    total = total_of([*before, entry])
    what = "this release key was already used for other content, or with another mechanism"
    got = f"{before[-1].release} on {before[-1].at[:10]}" + f", and {len(before) - 1} more" * (len(before) > 1)
    fix = "use a new key for other people; or use --again (again=True) to release these records again"
    cost = f"a record that is in all releases is then protected only at ε <= {total}"
    raise PrivacyError(sentence(what, where=where, got=f"{got}; {cost}", fix=fix))


def _problems(book: Book, entry: Entry, terms: Terms, path: Path) -> Iterator[str]:
    """Yield why a population's ledger has no room for a release."""
    where = path.name
    known = [old for old in book.entries if old.population == entry.population]
    before, after = total_of(known), total_of([*known, entry])
    costs = f"ε so far {before}, of this release {entry.level}, together {after}"
    if known and entry.kind == KINDS[0]:
        file = f"file = {json.dumps(str(path.resolve()), ensure_ascii=False)}"
        fix = (
            'say in the plan what this one is: kind = "wave" (or "corrected", or "supplement") below [ledger]; where '
            f"the plan has no [ledger] yet, write that line too, and {file} below it"
        )
        yield sentence("the population has releases already", where=where, got=costs, fix=fix)
    others = populations(book)
    if not known and entry.kind != KINDS[0]:
        hint = nearest(entry.population, others)
        what = f"no earlier release of the population {entry.population!r}{hint} is in the ledger"
        fix = f"name its ledger, or the population as the ledger has it; or set kind = {json.dumps(KINDS[0])}"
        yield sentence(what, where=where, got=f"kind {entry.kind!r}", wanted=few(others) or None, fix=fix)
    elif not known and others and not terms.kind:
        fix = (
            "write the name of the population as the ledger has it; or, if these are other persons than those of its "
            f"releases, say in the plan that their account is new: kind = {json.dumps(KINDS[0])} below [ledger]"
        )
        yield sentence(stranger(book, entry.population), where=where, wanted=few(others), fix=fix)
    twice = sorted(
        {*entry.perturbed, *entry.ranked} & {name for old in known for name in (*old.perturbed, *old.ranked)}
    )
    if entry.kind == "supplement" and twice:
        what = "a supplement has variables that an earlier release perturbed"
        yield sentence(what, where=where, got=", ".join(twice), fix='leave them out, or set kind = "wave"')
    if not terms.exception and after.epsilon is None and (before.epsilon is not None or not entry.is_finite):
        fix = 'perturb what has no finite level, or state why: allow_infinite = "reason" in [ledger]'
        yield sentence("with this release there is no finite level of all together", where=where, got=costs, fix=fix)
    if not terms.allows(after):
        left = left_of(Level(0.0, 0.0, 0.0) if entry.disjoint else before, terms)
        held = f"at most ε = {format_lower(left)}" if left >= _NOTHING else "nothing"  # levels are rounded up
        fix = f"{held} is left for a release of these records"
        what = "the release would pass the limit of the ledger"
        wanted = f"at most {limit_words(terms.limit, terms.delta)}"
        yield sentence(what, where=where, got=costs + at_delta(after, terms), wanted=wanted, fix=fix)
    for told in () if terms.raised else _passed(known, entry):
        fix = 'perturb less, or say in the plan why that limit binds no more: raise_limit = "reason" below [ledger]'
        yield sentence(told, where=where, fix=fix)


def _same_values(old: Entry, terms: Terms) -> Iterator[str]:
    """Yield that what a release is stated to be has no effect, where its perturbed values are those of ``old``."""
    if terms.kind and terms.kind != old.kind:
        yield (
            f'kind = "{terms.kind}" has no effect: true values of the perturbed variables, mechanism and key are those '
            f"of {old.release} ({old.kind}), so that its perturbed values are released again; it costs no ε, and is "
            "not noted"
        )


def _other_files(old: Entry, new: Entry) -> Iterator[str]:
    """Yield what two releases of the same perturbed values tell together, where their files are not the same."""
    if new.clear and old.manifest and new.manifest and old.manifest != new.manifest:
        yield (
            f"this release has the perturbed values of {old.release}, in the same order of records, and other files: "
            f"whoever has both reads row by row what differs in unperturbed columns ({few(new.clear)}), and what only "
            "one of them has, such as numbers of the records; publish one of them, or make this one with another key, "
            "which costs its ε; the same records in files of another kind tell nothing more"
        )


def populations(book: Book) -> tuple[str, ...]:
    """Return the names of the populations that a ledger has, in its order; none for that of a release key."""
    return tuple(name for name in dict.fromkeys(old.population for old in book.entries) if name)


def stranger(book: Book, population: str) -> str:
    """Return what is said of a population that is not among those of a ledger, with the one of the nearest name."""
    return f"the ledger has no population {population!r}{nearest(population, populations(book))}"


def _warned(book: Book, entry: Entry) -> Iterator[str]:
    """Yield what does not forbid a release, but must not pass without a word."""
    known = [old for old in book.entries if old.population == entry.population]
    if not known and nearest(entry.population, populations(book)):
        yield f"{stranger(book, entry.population)}; its account begins at zero, as kind = {json.dumps(KINDS[0])} says"
    yield from _passed(known, entry)  # refused without a reason


def _passed(known: Sequence[Entry], entry: Entry) -> Iterator[str]:
    """Yield which limits of earlier releases, other than that of this one, the total with it passes.

    A release that raised the limits left those before it without effect.
    """
    after = total_of([*known, entry])
    known = known[max((k for k, old in enumerate(known) if old.raised), default=0) :]
    seen: set[tuple[float | None, float | None]] = {(entry.limit, entry.limit_delta)}
    for old in known:
        stated = (old.limit, old.limit_delta)
        if stated not in seen and not Terms(limit=old.limit, delta=old.limit_delta).allows(after):
            seen.add(stated)
            now = limit_words(entry.limit, entry.limit_delta)
            yield (
                f"{old.release} stated the limit {limit_words(*stated)}, and all together have ε = {after}; "
                f"the limit of this plan is {now}"
            )


def _for_owner(path: str, flags: int) -> int:
    return open_plain(path, flags, 0o600)
