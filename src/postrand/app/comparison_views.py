"""The screen before and after: results in, HTML out; the HTML library escapes every name and value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from htmltools import HTML, Tag, TagList, tags

from postrand.app import charts
from postrand.app.computations import Margin
from postrand.app.decisions import Decisions
from postrand.app.notes import without_options
from postrand.app.split_views import coverage
from postrand.app.widgets import busy, cut, labelled, scroll, select, trouble
from postrand.mechanism import Split
from postrand.report import svg
from postrand.report.table_worth import TableWorth, records_of
from postrand.risk import RiskReport
from postrand.support.measure_names import KEYS_ALONE, of_records, several_of
from postrand.support.showing import capital, outward_percent
from postrand.workflow.comparison import figure
from postrand.workflow.comparison_risk import AS_IS, RECODED, RiskFigure, attackers
from postrand.workflow.dossier_risk import MEASURES

FIRST = ("correct_matches", "household_risk", "joint_household_risk")
"""The figures of the internal report that say first of all whether the release protects."""
TAUS = ("(τ1)", "(τ2)")
UNIQUES = (
    "Sample uniques can rise although the risk falls: perturbation moves records into combinations that few others "
    "have, so that a unique record of the release is often not the person it looks like. What counts is how many "
    "links are right: the rows above."
)


def table_form(decisions: Decisions) -> TagList:
    """Return the choice of a table of one or two released variables."""
    if not decisions.comparable:
        return TagList()
    first, second = decisions.pair
    named = [(str(j), cut(decisions.names[j])) for j in decisions.comparable]
    alone = [(str(first), "nothing: one variable alone"), *(pair for pair in named if pair[0] != str(first))]
    return TagList(
        labelled("Variable", select("pair", "first", str(first), named, "")),
        labelled("by", select("pair", "second", str(second), alone, "")),
        tags.p("Perturbed and unperturbed variables with categories.", class_="soft"),
    )


def compare_view(
    found: Margin | str | None,
    risks: tuple[RiskReport | None, RiskReport | None] | None,
    waiting: bool,
    split: Split | None = None,
    attacks: Sequence[RiskFigure] = (),
    recoded: bool = False,
    together: str = "",
    came: RiskReport | None = None,
    person: str = "",
) -> TagList:
    """Return the risk before and after, the correct matches first, and one table; of a split, what it can answer.

    ``together``: what the unperturbed variables single out together, in words. ``came``: the risk of the file as it
    came, where it is ``recoded`` and this is known. ``person``: the column that says which records are one person's.
    """
    before = "Before, recoded" if recoded else "Before"
    parts: list[Any] = []
    if risks is not None or attacks:
        parts += _risk(risks or (None, None), attacks, before, RECODED if recoded else AS_IS, together, came, person)
    parts += [busy("Computing …")] if waiting else []
    parts += [] if split is None else [coverage(split, split.variables)]
    if isinstance(found, str):
        parts += [tags.h3("The table"), trouble(found.split("\n"))]
    elif found is not None:
        parts += _table(found, before)
    return TagList(*parts)


def _risk(
    risks: tuple[RiskReport | None, RiskReport | None],
    attacks: Sequence[RiskFigure],
    before: str,
    which: str,
    together: str,
    came: RiskReport | None,
    person: str,
) -> Iterator[Tag]:
    yield tags.h3("Risk before and after")
    by_code = {one.code: one for one in attacks}
    matches = by_code.get("correct_matches")
    if matches is not None and matches.before is not None and matches.after is not None:
        who = "An attacker who knows the keys of all persons, and that they are in the file,"
        yield tags.p(
            f"{of_records(who) if person else who} links {figure(matches, 'before')} of them to the right record ",
            "before, and ",
            tags.strong(f"{figure(matches, 'after')} after"),
            f".{_shares(risks, matches.before, matches.after)}",
        )
        yield from (tags.p(text, class_="soft") for text in attackers(attacks))
    if person:
        yield tags.p(f"{capital(several_of(person))}.")
    yield tags.p(f"{capital(KEYS_ALONE)}." + f" {together}." * bool(together), class_="warning" if together else "soft")
    first = [] if came is None else ["–"]
    rows = [_figure(by_code[code], first) for code in FIRST if code in by_code and by_code[code].before is not None]
    known = any(report is not None for report in risks)
    files = (*risks,) if came is None else (came, *risks)
    for words, _, value in sorted(MEASURES, key=lambda measure: not measure[0].endswith(TAUS)) if known else ():
        cells = ["–" if report is None else value(report) for report in files]
        rows.append(_row(words, [f"{x:,}" if isinstance(x, int) else without_options(str(x)) for x in cells]))
    head = tags.tr(
        *(tags.th(h, scope="col", class_="text" if h == "Measure" else None) for h in _heads(before, came is not None))
    )
    yield scroll(tags.table(tags.thead(head), tags.tbody(*rows)), "Risk before and after")
    if known:
        yield tags.p(UNIQUES, class_="soft")
    yield tags.p(
        f"Before: {which}. After: the released file; correct matches are a mean over drawn releases."
        + (" File as it came: before any recode; links to it are not computed." if came is not None else ""),
        class_="soft",
    )


def _shares(risks: tuple[RiskReport | None, RiskReport | None], before: float, after: float) -> str:
    """Return the correct matches as shares of all persons, once their number is known."""
    persons = next((report.records for report in risks if report is not None), 0)
    shares = [outward_percent(value / persons) for value in (before, after)] if persons else []
    return f" These are {' and '.join(shares)} of all." if shares else ""


def _heads(before: str, has_first: bool) -> tuple[str, ...]:
    return "Measure", *(["File as it came"] if has_first else []), before, "After"


def _figure(one: RiskFigure, first: Sequence[str]) -> Tag:
    sides = {"before": one.before, "after": one.after}
    cells = ["–" if value is None else figure(one, side) for side, value in sides.items()]
    return _row(one.measure, [*first, *cells])


def _row(words: str, cells: Sequence[str]) -> Tag:
    return tags.tr(tags.th(words, scope="row"), *(tags.td(cell) for cell in cells))


def _table(found: Margin, before: str) -> Iterator[Tag]:
    yield tags.h3(" by ".join(cut(n) for n in found.names))
    if found.reason:
        yield trouble(found.reason)
    if found.showing is not None:
        words = f"{found.showing:,} records show {'both' if len(found.names) > 1 else 'it'}. Released: their "
        yield tags.p(words + "counts, in proportion to all records.", class_="soft")
    if found.warnings:
        yield trouble(found.warnings)
    if found.worth is not None:
        yield tags.p(_worth(found.worth))
    if found.concluded:
        yield tags.p(tags.strong("What an analyst would conclude"))
        yield tags.ul(*(tags.li(one.said, " ", _verdict(one.agrees), f" In the true file {one.truth}")
                        for one in found.concluded))  # fmt: skip
    yield _legend(before)
    yield charts.margins(found, before)
    if found.misses is not None and found.misses.any():
        said = "✗: the interval does not contain the count before. This is expected for about 5 in 100 intervals."
        yield tags.p(said, class_="soft")


def _worth(one: TableWorth) -> str:
    if one.effective_records is None:
        return f"Effective records of this table: not known, because {one.why}."
    poor = " That is of little use." if one.is_of_little_use else ""
    return (
        f"Effective records: this table is as precise as one of {records_of(one.effective_records, one.records)} "
        f"would be; the file has {one.records:,}.{poor}"
    )


def _verdict(agrees: bool | None) -> Tag:
    words = "The analyst cannot tell." if agrees is None else "This is right." if agrees else "This is wrong."
    return tags.strong(words)


def _legend(before: str) -> Tag:
    marks = (
        ('<path class="before" d="M10 1V17"/>', before.lower()),
        ('<circle class="ring" cx="10" cy="9" r="4"/>', "released"),
        ('<path class="line" d="M1 9H19"/><circle class="dot" cx="10" cy="9" r="3.5"/>', "corrected, 95% interval"),
    )
    drawn = '<svg class="dots mark" viewBox="0 0 20 {h}" width="20" height="{h}" aria-hidden="true">{inner}</svg>'
    items = [tags.li(HTML(drawn.format(h=svg.HEIGHT, inner=inner)), " ", words) for inner, words in marks]
    return tags.ul(*items, class_="marks")
