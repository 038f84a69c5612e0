"""Render the internal dossier: all its tables, and the two pages on which the release is decided."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from postrand.certification.certificate import Certificate
from postrand.engines.summary import Summary
from postrand.mechanism import Mechanism
from postrand.report.html import environment
from postrand.report.text import cut

DECISION, DETAILS = "decision.html", "dossier.html"
"""The two pages to sign, and the whole dossier: files of one folder, which refer to each other."""
_LINE = 96
"""Characters of a line of the printed sheet, on the safe side."""
_BESIDE, _TREATED = 60, 13
"""Characters of a line beside the name of what is done, on the safe side; lines that there are for all of them."""
_LAST, _FULL = " (all are from page 3 on)", " (page 3 on)"
_FIRST, _FEWEST, _EACH, _NOT_PRIVATE = 41, 12, 4, 3
"""Lines of the first sheet, on the smaller of A4 and US Letter, for the table of risk, what is done, and sentences;
those that sentences have at least, those that lists which come later keep, and those of a release not private."""
_CHECKS = 5
"""Lines that rules which are not met have on the first sheet, more where others leave them; all are on the second."""
_SECOND, _CLAIMS, _LEAST, _WORTH = 22, 7, 7, 8
"""Lines of claims, limits and rules together on the second sheet, those that claims have at least, those that limits
have, and those of worth, which it leaves to the others where it needs less."""
_CELLS, _RULES, _HEAD = (34, 23, 18, 20), 12, 2
"""Characters of a line of each cell of a rule but its result; lines that rules have at least; lines of their two
headings."""

Sections = Mapping[str, Sequence[Mapping[str, object]]]
"""Tables by title: each a sequence of rows, each row its cells by column name."""


def internal_report(
    mechanism: Mechanism,
    certificate: Certificate,
    summary: Summary,
    data_name: str,
    sections: Sections,
    pictures: Mapping[str, str] | None = None,
    captions: Mapping[str, Sequence[str]] | None = None,
    *,
    public: str = "",
) -> str:
    """Return the page of tables for authorised staff, such as risk values; every printed page says that it is internal.

    What the public report says is not said again: ``public`` is its address, to which the page links. ``pictures`` are
    SVG texts by the title of the section whose table they draw; they are not escaped. ``captions`` are paragraphs above
    the table of a section, by its title.
    """
    drawn = pictures or {}
    return (
        environment()
        .get_template("dossier.html")
        .render(
            data_name=data_name,
            records=summary.records,
            names=mechanism.require_codebook().names,
            perturbed=len(mechanism.variables),
            claims=len(certificate.claims),
            stated=certificate.further,
            key_is_private=certificate.facts.key_is_private,
            digest=certificate.mechanism_digest,
            public=public,
            decision=DECISION,
            sections=sections,
            pictures=drawn,
            captions=captions or {},
            places={title: place for place, title in enumerate(sections, 1)},
            nothing=[title for title, rows in sections.items() if not rows and title not in drawn],
        )
    )


@dataclass(frozen=True, slots=True)
class RiskRow:
    """Say one measure of risk in plain words, before and after; ``shares`` are its bars, of 1, where it has some.

    ``attacker``: whose chance it is. ``as_is``: in the file as it is, where ``before`` is recoded.
    """

    measure: str
    attacker: str
    before: str
    after: str
    shares: tuple[float, float] | None = None
    as_is: str = ""

    @property
    def named(self) -> str:
        """The measure with its attacker, where it stands alone."""
        return f"{self.measure}, {self.attacker}"


@dataclass(frozen=True, slots=True)
class Decision:
    """Hold what is decided on, as sentences: what is released, its risk, what is guaranteed, and what is not.

    ``treated`` says by name what is done to the variables. ``warnings`` come before ``notes`` and have their place.
    ``is_recoded``: the figures before are of recoded keys, and those of the file as it is stand beside them.
    ``checks`` are the rules of the office's policy that are not met, or say that all are; () without a policy.
    ``shown``: how many of the ``records`` show values, where not every one does.
    ``made``: on which day, by which version and with which mechanism.
    ``rules`` are all of them as rows of a table: what is measured, its limit, before, after, and whether it is met.
    """

    source: str
    records: int
    is_private: bool
    treated: tuple[tuple[str, str], ...]
    risks: tuple[RiskRow, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    claims: tuple[str, ...]
    limits: tuple[str, ...]
    findings: tuple[str, ...]
    worth: tuple[str, ...]
    checks: tuple[str, ...] = ()
    rules: tuple[tuple[str, ...], ...] = ()
    is_recoded: bool = False
    made: str = ""
    shown: str = ""


def decision_page(found: Decision, public: str = "", manifest: str = "") -> str:
    """Return two printed pages: what is decided, its risk and findings; then claims, limits, rules and signatures.

    ``manifest`` is the SHA-256 of the release's manifest, by which the page names the release; without it, the page
    says that it is of a plan. Whatever the plan, there are two pages: what must be known before signing has a line each
    on the first one, where there is room for so many, and is whole on a last page where it is cut. Names of columns,
    claims, limits and rules for which there is no room follow there too, all of a kind together. Lines that one list
    does not need are left to the others of its page.
    """
    treated = beside(found.treated)
    rows = len(found.risks) + len({row.attacker for row in found.risks})
    rows += bool(found.shown)  # beside the number of records it takes a second line
    lines = max(_FIRST - rows - _rows(treated), _FEWEST) - (0 if found.is_private else _NOT_PRIVATE)
    held = bool(found.notes)  # a line for the notes, or for how many of them are left out
    asked = [row[1] for row in found.rules]
    first = max(_CHECKS, lines - lines_of((*found.findings, *found.warnings, *found.notes)))
    (checks, told, warned), lines = briefly((found.checks, found.findings, found.warnings), lines - held, first, asked)
    notes = fitted(found.notes, lines + held, whole=True)
    worth = fitted(found.worth, _WORTH)
    second = _SECOND + _WORTH - lines_of(worth[0]) - bool(worth[1])
    rules, taken = fitted_rows(found.rules, max(_RULES, second - _HEAD - lines_of((*found.claims, *found.limits))))
    second -= taken + _HEAD * bool(rules)
    claims = fitted(found.claims, max(second - min(lines_of(found.limits), _LEAST), _CLAIMS))
    limits = fitted(found.limits, max(second - lines_of(claims[0]) - bool(claims[1]), _LEAST), whole=True)
    return (
        environment()
        .get_template("decision.html")
        .render(
            d=found,
            public=public,
            details=DETAILS,
            treated=treated,
            annex=found.treated if treated != [*found.treated] else (),
            said=(warned + notes[0], len(found.warnings) - len(warned) + notes[1]),
            whole=in_full(
                {
                    "The office's policy": (found.checks, checks),
                    "What must be known of the risk": ((*found.warnings, *found.notes), warned + notes[0]),
                    "What was found in the file": (found.findings, told),
                    "What is guaranteed": (found.claims, claims[0]),
                    "What is not guaranteed": (found.limits, limits[0]),
                    "What the release is worth": (found.worth, worth[0]),
                }
            ),
            manifest=manifest,
            claims=claims,
            limits=limits,
            findings=(told, len(found.findings) - len(told)),
            worth=worth,
            checks=(checks, len(found.checks) - len(checks)),
            rules=(rules, len(found.rules) - len(rules)),
            every_rule=found.rules if rules != [*found.rules] else (),
        )
    )


def briefly(
    lists: Sequence[Sequence[str]], lines: int, first: int = 0, whole: Sequence[str] = ()
) -> tuple[list[list[str]], int]:
    """Return what so many printed lines show of each list, one line for a text at least, and the lines that are left.

    Texts that come first are whole as long as there is room; others are cut, and say where they are whole. A list that
    is not shown whole leaves a line to say so; the first one has ``first`` lines at most, 0 for any number. A text is
    not cut within a part of ``whole`` (:func:`cut_around`).

    >>> briefly((["short", "long " * 40], ["last"]), 3)[0][0][1][-22:]
    'long long… (page 3 on)'
    >>> briefly((["a", "b", "c"],), 2)
    ([['a']], 0)
    """
    kept: list[list[str]] = []
    for place, texts in enumerate(lists):
        room = max(lines - sum(min(len(later), _EACH) for later in lists[place + 1 :]), 0)
        room = min(room, first) if first and not place else room
        kept.append([*texts[: len(texts) if len(texts) <= room else max(room - 1, 0)]])
        lines -= min(len(texts), room)
    for texts in kept:
        for place, text in enumerate(texts):
            needed = lines_of([text])
            given = min(needed, 1 + lines)
            texts[place] = text if given == needed else cut_around(text, given * _LINE - len(_FULL), whole) + _FULL
            lines -= given - 1
    return kept, lines


def cut_around(text: str, length: int, whole: Sequence[str]) -> str:
    """Return ``cut``, before a part of ``whole`` that would be cut in its middle: a limit that is cut is another one.

    >>> cut_around("Not met: risk; at most 1 for all but 5%, before 2", 35, ["at most 1 for all but 5%"])
    'Not met: risk…'
    """
    shown = cut(text, length)
    for part in whole if shown != text else ():
        start = text.find(f"; {part}, ")
        if 0 <= start < len(shown) - 1 < start + 2 + len(part):
            return text[:start] + "…"
    return shown


def fitted_rows(rows: Sequence[tuple[str, ...]], lines: int) -> tuple[list[tuple[str, ...]], int]:
    """Return the first rows of a table for so many printed lines, with cells of three lines at most; and lines taken.

    A limit, the second cell, is not cut: one that is longer is on the last page alone.

    >>> fitted_rows([("epsilon", "at most 2", "none", "3", "not met"), ("k " * 99, "at least 3", "1", "2", "met")], 2)
    ([('epsilon', 'at most 2', 'none', '3', 'not met')], 1)
    """
    kept: list[tuple[str, ...]] = []
    taken = 0
    for row in rows:
        cells = [cut(text, 3 * width) for text, width in zip(row, _CELLS, strict=False)]
        cells[1] = row[1] if cells[1] == row[1] else _FULL.strip()
        taken += (needed := max(-(-len(text) // width) for text, width in zip(cells, _CELLS, strict=True)) or 1)
        if taken > lines:
            return kept, taken - needed
        kept.append((*cells, *row[len(cells) :]))
    return kept, taken


def in_full(lists: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> dict[str, Sequence[str]]:
    """Return by heading the lists that are not shown whole; each comes with what is shown of it.

    >>> in_full({"one": (["a", "b"], ["a"]), "two": (["c"], ["c"])})
    {'one': ['a', 'b']}
    """
    return {heading: every for heading, (every, shown) in lists.items() if [*every] != [*shown]}


def beside(treated: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return what is done to which columns: in full where there is room, else the first line of the longest ones.

    >>> beside([("Perturbed", "sex, age")])
    [('Perturbed', 'sex, age')]
    >>> [text[-40:] for _, text in beside([("Not released", "column, " * 200)])]
    ['column, column… (all are from page 3 on)']
    """
    shown = [*treated]
    while _rows(shown) > _TREATED:
        place, (name, text) = max(enumerate(shown), key=lambda one: len(one[1][1]))
        if len(text) <= _BESIDE:
            break
        shown[place] = (name, cut(text, _BESIDE - len(_LAST)) + _LAST)
    return shown


def _rows(treated: Sequence[tuple[str, str]]) -> int:
    """Return how many printed lines it takes."""
    return sum(len(textwrap.wrap(text, _BESIDE)) for _, text in treated)


def lines_of(sentences: Sequence[str]) -> int:
    """Return how many printed lines sentences fill.

    >>> lines_of(["short", "long " * 60])
    5
    """
    return sum(-(-len(text) // _LINE) for text in sentences)


def fitted(sentences: Sequence[str], lines: int, *, whole: bool = False) -> tuple[list[str], int]:
    """Return the first sentences that fill so many printed lines at most, and the number of those left out.

    That number has a line of its own. A sentence that alone is longer is cut; none is kept where there is no line.
    ``whole``: none is cut, and one for which there is no room is left out, not those that follow.

    >>> fitted(["short", "long " * 60, "last"], 3)
    (['short'], 2)
    >>> [len(text) for text in fitted(["long " * 60], 2)[0]]
    [190]
    >>> fitted(["long " * 60, "last"], 2, whole=True)
    (['last'], 1)
    """
    kept: list[str] = []
    lines -= len(sentences) > 1 and lines_of(sentences) > lines
    for text in sentences if lines > 0 else ():
        needed = lines_of([text])
        if whole and needed > lines:
            continue
        if kept and needed > lines:
            break
        kept.append(cut(text, lines * _LINE))
        lines -= min(needed, lines)
        if lines <= 0:
            break
    return kept, len(sentences) - len(kept)
