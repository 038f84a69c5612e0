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
from postrand.release.ledger_lines import Book, Line, total_of, unit_totals
from postrand.release.ledger_terms import at_delta, limit_words
from postrand.support.showing import capital

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
        total = total_of(self.book.entries)
        found = {"population": self.book.population, "head": self.book.head, "releases": releases}
        at = {} if self.delta is None else {"at_delta": {"delta": self.delta, "epsilon": total.at(self.delta)}}
        return {**found, "total": {**_data(total), **at}, "units": unit_totals(self.book.entries)}

    def __str__(self) -> str:
        head = ("Release", "Date", "Name", "Kind", "Perturbed", "ε", "Total ε")
        rows = [head, *map(_row, self.book.lines)]
        wide = [max(len(row[k]) for row in rows) for k in range(len(head))]
        table = ["  ".join(f"{text:<{w}}" for text, w in zip(row, wide, strict=True)).rstrip() for row in rows]
        named = f"Ledger of {self.book.population}" if self.book.population else "Ledger of a release key"
        lines = [named, "", *table, "", *self._totals(), *self._next(), "", f"head: {self.book.head or 'none'}"]
        return "\n".join(lines)

    def _totals(self) -> Iterator[str]:
        stated = [(line.number, line.entry) for line in self.book.lines if self.book.population]
        for number, entry in stated:
            limit = (entry.limit, entry.limit_delta)
            if number == 1 or limit != (stated[number - 2][1].limit, stated[number - 2][1].limit_delta):
                yield f"Limit of all together, as release {number} stated it: {limit_words(*limit)}"
        total = total_of(self.book.entries)
        yield f"A record that is in all releases that it can be in: ε <= {total}"
        at = None if self.delta is None else total.at(self.delta)
        if at is not None and at != total.epsilon:
            yield f"and at δ = {self.delta:g}: ε <= {Level(at)} (zero-concentrated levels added)"
        for unit, epsilon in unit_totals(self.book.entries).items():
            yield f"A {unit} of the largest size: ε <= {Level(epsilon)}"

    def _next(self) -> Iterator[str]:
        """Yield what another release would cost a record that is in all releases."""
        if not self.book.lines:
            return
        last = self.book.lines[-1].entry
        of_all = [*self.book.entries, last]
        cost, after = last.level, total_of(of_all)
        yield "What comes next, for such a record:"
        yield f"  another wave like the last: ε {cost} more, {after} together"
        why = "because its noise is drawn anew"
        yield f"  a corrected file, released as the last was: ε {cost} more, {after} together, {why}"
        yield "  a supplement of other variables: the ε of these variables more"
        yield "  the same content, mechanism and key again: nothing"
        yield "  a release that has none of these records: nothing; the larger of the two totals counts"


def _row(line: Line) -> tuple[str, ...]:
    entry = line.entry
    named = ", ".join(entry.perturbed[:3]) + f" and {len(entry.perturbed) - 3} more" * (len(entry.perturbed) > 3)
    kind = entry.kind + " (disjoint)" * bool(entry.disjoint)
    return str(line.number), entry.at[:10], entry.release, kind, named, str(entry.level), str(line.total)


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
