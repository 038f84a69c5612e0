"""Render the internal dossier: all its tables, and the two pages on which the release is decided."""

from __future__ import annotations

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
_BESIDE, _TREATED, _USUAL = 60, 14, 6
"""Characters of a line beside the name of what is done, on the safe side; lines that there are for all of them, and
how many of them take no room from notes."""
_LAST = " (all are on the last page)"
_MOST = 12
"""Measures of risk in the longest table; where there are fewer, there is room for more notes."""
_NOTES = 11
"""Lines below the longest table: warnings come first, notes have what they leave."""
_WARNED = 4
"""Lines that these have at least, whatever else the page has."""
_SECOND, _CLAIMS, _LEAST, _WORTH = 22, 7, 5, 5
"""Lines of claims, limits and findings together on the second sheet, those that claims have at least, those that limits
have, and those of worth."""
_FOUND, _LINES = 8, 2
"""Findings that are told on the second sheet, and lines of each."""

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

    ``as_is``: in the file as it is, where ``before`` is recoded.
    """

    measure: str
    before: str
    after: str
    shares: tuple[float, float] | None = None
    as_is: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """Hold what is decided on, as sentences: what is released, its risk, what is guaranteed, and what is not.

    ``treated`` says by name what is done to the variables. ``warnings`` come before ``notes`` and have their place.
    ``is_recoded``: the figures before are of recoded keys, and those of the file as it is stand beside them.
    ``checks`` are the rules of the office's policy that are not met, or say that all are; () without a policy.
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
    is_recoded: bool = False


def decision_page(found: Decision, public: str = "", manifest: str = "") -> str:
    """Return two printed pages: what is decided and the risk on the first, claims, limits and signatures on the second.

    ``manifest`` is the SHA-256 of the release's manifest, by which the page names the release; without it, the page
    says that it is of a plan. Long lists are cut, and say how much is left out, so that there are two pages whatever
    the plan: what was found comes first, because a reader cannot infer it from the plan. Names of columns, what must be
    known of the risk, claims and limits are never left out: those for which there is no room follow on a last page, all
    of a kind together.
    """
    treated = beside(found.treated)
    below = max(_NOTES + _MOST - len(found.risks) - max(_rows(treated) - _USUAL, 0), _WARNED)
    warnings = fitted(found.warnings, below)
    notes = fitted(found.notes, below - lines_of(warnings[0]))
    told = fitted([cut(text, _LINES * _LINE) for text in found.findings[:_FOUND]], _LINES * _FOUND)[0]
    claims = fitted(found.claims, max(_SECOND - lines_of(told) - _LEAST, _CLAIMS))
    limits = fitted(found.limits, max(_SECOND - lines_of(told) - lines_of(claims[0]), _LEAST))
    return (
        environment()
        .get_template("decision.html")
        .render(
            d=found,
            public=public,
            details=DETAILS,
            treated=treated,
            annex=found.treated if treated != [*found.treated] else (),
            said=(warnings[0] + notes[0], warnings[1] + notes[1]),
            whole=in_full(
                {
                    "What must be known of the risk": ((*found.warnings, *found.notes), warnings[0] + notes[0]),
                    "What is guaranteed": (found.claims, claims[0]),
                    "What is not guaranteed": (found.limits, limits[0]),
                }
            ),
            manifest=manifest,
            claims=claims,
            limits=limits,
            findings=(told, len(found.findings) - len(told)),
            worth=fitted(found.worth, _WORTH),
            checks=fitted(found.checks, 3),
        )
    )


def in_full(lists: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> dict[str, Sequence[str]]:
    """Return by heading the lists that are not shown whole; each comes with what is shown of it.

    >>> in_full({"one": (["a", "b"], ["a"]), "two": (["c"], ["c"])})
    {'one': ['a', 'b']}
    """
    return {heading: every for heading, (every, shown) in lists.items() if [*every] != [*shown]}


def beside(treated: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return what is done to which columns: in full where there is room, else the first line of each.

    >>> beside([("Perturbed", "sex, age")])
    [('Perturbed', 'sex, age')]
    >>> [text[-40:] for _, text in beside([("Not released", "column, " * 200)])]
    ['lumn, column… (all are on the last page)']
    """
    if _rows(treated) <= _TREATED:
        return [*treated]
    rest = _BESIDE - len(_LAST)
    return [(name, text if len(text) <= 2 * _BESIDE else cut(text, rest) + _LAST) for name, text in treated]


def _rows(treated: Sequence[tuple[str, str]]) -> int:
    """Return how many printed lines it takes."""
    return sum(-(-len(text) // _BESIDE) for _, text in treated)


def lines_of(sentences: Sequence[str]) -> int:
    """Return how many printed lines sentences fill.

    >>> lines_of(["short", "long " * 60])
    5
    """
    return sum(-(-len(text) // _LINE) for text in sentences)


def fitted(sentences: Sequence[str], lines: int) -> tuple[list[str], int]:
    """Return the first sentences that fill so many printed lines at most, and the number of those left out.

    A sentence that alone is longer is cut; none is kept where there is no line.

    >>> fitted(["short", "long " * 60, "last"], 3)
    (['short'], 2)
    >>> [len(text) for text in fitted(["long " * 60], 2)[0]]
    [190]
    """
    kept: list[str] = []
    for text in sentences if lines > 0 else ():
        needed = lines_of([text])
        if kept and needed > lines:
            break
        kept.append(cut(text, lines * _LINE))
        lines -= min(needed, lines)
        if lines <= 0:
            break
    return kept, len(sentences) - len(kept)
