"""A ledger for its curator: what each release cost, what the next would, and whether the ledger is whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postrand.certification.series import Level
from postrand.errors import ReleaseError, raise_all, sentence
from postrand.release.bundle import CERTIFICATE
from postrand.release.checks import load
from postrand.release.ledger import Ledger, Outlook
from postrand.release.ledger_lines import Book, Entry, Line, total_of, unit_totals
from postrand.release.ledger_terms import Terms, at_delta, limit_words
from postrand.support.showing import capital, few

LIMITS = (
    "The digests show a line that was changed, removed or moved, but not lines removed at the end, nor a ledger that "
    "was written anew as a whole: compare the head with one that was published, as each release of the series has."
)


@dataclass(frozen=True, slots=True)
class LedgerPage:
    """What a ledger says, for its curator; internal, because it names what is protected and when it was released."""

    book: Book
    delta: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        releases = [
            {"number": line.number, **line.entry.to_dict(), "total": _data(line.total)} for line in self.book.lines
        ]
        found = {"population": self.book.population, "head": self.book.head, "releases": releases}
        each = {name: self._sums([line.entry for line in own]) for name, own in self._populations().items()}
        return {**found, **self._sums(self.book.entries), "populations": each}

    def _sums(self, entries: Sequence[Entry]) -> dict[str, Any]:
        total = total_of(entries)
        at = {} if self.delta is None else {"at_delta": {"delta": self.delta, "epsilon": total.at(self.delta)}}
        return {"total": {**_data(total), **at}, "units": unit_totals(entries)}

    def __str__(self) -> str:
        parts = self._populations()
        head = (
            "Release",
            *["Population"] * bool(self.book.population),
            "Date",
            "Name",
            "Kind",
            "Perturbed",
            "ε",
            "Total ε",
        )
        rows = [head, *(_row(line, named=bool(self.book.population)) for line in self.book.lines)]
        wide = [max(len(row[k]) for row in rows) for k in range(len(head))]
        table = ["  ".join(f"{text:<{w}}" for text, w in zip(row, wide, strict=True)).rstrip() for row in rows]
        named = few([name for name in parts if name]) if self.book.population else "a release key"
        lines = [f"Ledger of {named}", "", *table]
        for name, own in parts.items():
            lines += ["", *[_heading(name)] * (len(parts) > 1), *self._totals(own), *self._next(own)]
        if not parts:
            lines += ["", *self._totals(())]
        return "\n".join([*lines, "", f"head: {self.book.head or 'none'}"])

    def _populations(self) -> dict[str, list[Line]]:
        """Return the releases of each population."""
        found: dict[str, list[Line]] = {}
        for line in self.book.lines:
            found.setdefault(line.entry.population, []).append(line)
        return found

    def _totals(self, own: Sequence[Line]) -> Iterator[str]:
        stated = None
        for line in own if self.book.population else ():
            limit = (line.entry.limit, line.entry.limit_delta)
            if limit != stated:
                stated = limit
                why = f", raised: {line.entry.raised}" if line.entry.raised else ""
                yield f"Limit of all together, as release {line.number} stated it: {limit_words(*limit)}{why}"
        entries = [line.entry for line in own]
        total = total_of(entries)
        yield f"A record that is in all releases that it can be in: ε <= {total}"
        at = None if self.delta is None else total.at(self.delta)
        if at is not None and at != total.epsilon:
            yield f"and at δ = {self.delta:g}: ε <= {Level(at)} (zero-concentrated levels added)"
        for unit, epsilon in unit_totals(entries).items():
            yield f"A {unit} of the largest size: ε <= {Level(epsilon)}"

    def _next(self, own: Sequence[Line]) -> Iterator[str]:
        """Yield what another release of the population would cost a record that is in all releases."""
        last = own[-1].entry
        cost, after = last.level, total_of([*(line.entry for line in own), last])
        more = f"ε {cost} more, {after} together{_past(last, after)}"
        yield "What comes next, for such a record:"
        yield f"  another wave like the last: {more}"
        yield f"  a corrected file, released as the last was: {more}, because its noise is drawn anew"
        yield "  a supplement of other variables: the ε of these variables more"
        yield "  the same content, mechanism and key again: nothing"
        yield "  a release that has none of these records: nothing; the larger of the two totals counts"


def _heading(name: str) -> str:
    return f"Population {name}" if name else "Earlier releases, which name no population"


def _past(last: Entry, after: Level) -> str:
    """Return that a total passes the limit that the last release stated, to follow the total; "" where it does not."""
    terms = Terms(limit=last.limit, delta=last.limit_delta)
    if terms.allows(after):
        return ""
    return f"{at_delta(after, terms)}, which passes the limit {limit_words(last.limit, last.limit_delta)}: refused"


def _row(line: Line, *, named: bool) -> tuple[str, ...]:
    entry = line.entry
    variables = few(entry.perturbed, 3)
    kind = entry.kind + " (disjoint)" * bool(entry.disjoint)
    who = [entry.population] * named
    return str(line.number), *who, entry.at[:10], entry.release, kind, variables, str(entry.level), str(line.total)


def _data(level: Level) -> dict[str, float | None]:
    return {"epsilon": level.epsilon, "delta": level.delta, "rho": level.rho}


def outlook_lines(found: Outlook) -> tuple[str, ...]:
    """Return what a population's ledger would say of a release, before it is made, in sentences for its curator."""
    entry, terms = found.entry, found.terms
    costs = f"so far {found.before}, together {found.after}{at_delta(found.after, terms)}"
    lines = [f"The ledger of {entry.population} would charge a record ε {entry.level} for this release: {costs}."]
    for unit, epsilon in found.units.items():
        lines.append(f"A {unit} of the largest size: ε <= {Level(epsilon)} together.")
    if found.is_known:
        lines.append("The same content with the same key as a release that is listed there costs nothing.")
    if found.problems:
        return (*lines, *(f"'postrand protect' would refuse the release: {text}" for text in found.problems))
    limit = (
        "The ledger has no limit."
        if terms.limit is None
        else f"The limit, {limit_words(terms.limit, terms.delta)}, allows it."
    )
    return (*lines, limit, *(f"{capital(text)}." for text in found.passed))


def outlook_data(found: Outlook) -> dict[str, Any]:
    """Return the same as plain data for JSON; ``at_delta`` is the total at the δ of the limit."""
    terms, after = found.terms, found.after
    at = {} if terms.delta is None else {"delta": terms.delta, "at_delta": after.at(terms.delta)}
    return {
        "population": found.entry.population,
        "level": _data(found.entry.level),
        "before": _data(found.before),
        "total": _data(after) | at,
        "units": dict(found.units),
        "limit": terms.limit,
        "allowed": not found.problems,
        "sentences": list(outlook_lines(found)),
    }


def verify_ledger(ledger: Ledger, heads: Sequence[str] = (), releases: Sequence[str | Path] = ()) -> Book:
    """Check chain and totals, that the ledger has every published head, and that releases state what it says.

    Raises
    ------
    UsageError
        If the ledger does not exist, is not well formed, or was changed.
    ReleaseError
        Naming each head that it does not have, and each release that does not agree with it.
    """
    book = ledger.read()
    if not ledger.path.is_file():
        raise ReleaseError(sentence("there is no ledger", where=str(ledger.path), fix="name the file of a ledger"))
    known = {book.head, *(text for line in book.lines for text in (line.previous, line.digest))} - {""}
    what, fix = "the ledger does not have this head", "it was shortened or changed: restore it from a copy"
    problems = [sentence(what, where=ledger.path.name, got=head, fix=fix) for head in heads if head not in known]
    problems += [text for folder in releases for text in _disagreement(book, Path(folder), ledger.path.name)]
    raise_all(ReleaseError, problems)
    return book


def _disagreement(book: Book, folder: Path, where: str) -> Iterator[str]:
    series = load(folder, CERTIFICATE).get("series")
    if not isinstance(series, dict):
        yield sentence("the release is of no series", where=str(folder), fix="name one whose certificate has a total")
        return
    mechanism = load(folder, CERTIFICATE).get("mechanism_sha256")
    line = next((one for one in book.lines if one.previous == series.get("previous")), None)
    if line is None or line.place != series.get("number"):
        what, fix = "the ledger does not have this release", "it was shortened or changed: restore it from a copy"
        yield sentence(what, where=f"{folder}, {where}", fix=fix)
    elif line.series.to_dict() != series or line.entry.mechanism != mechanism:
        fix = f"check {folder} with 'postrand verify'"
        yield sentence("the release does not state what the ledger says of it", where=f"{folder}, {where}", fix=fix)
