"""The risk screen: results in, HTML out; the HTML library escapes every name and value."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from htmltools import HTML, Tag, TagList, tags

from postrand.app.exploring import MAX_SIZE, Explored, Exposed
from postrand.app.notes import without_options
from postrand.app.widgets import busy, button, cut, facts, scroll, trouble
from postrand.report import svg
from postrand.risk import RiskReport
from postrand.risk.exposure import Exposure
from postrand.risk.informed import THRESHOLD, Spread
from postrand.risk.key_parts import KeyPart, KeyParts, SizeBin
from postrand.risk.suda import KeySet, Suda
from postrand.risk.tau import Tau
from postrand.support.measure_names import keys_alone, of_records, several_of
from postrand.support.showing import capital, outward
from postrand.workflow.comparison_risk import IS_RECODED, RECODED
from postrand.workflow.dossier_risk import MEASURES

SHOWN_SETS = 5
"""Of the combinations of one size so many are shown at most."""
CONFIDENTIAL = (
    "Confidential: these are values of persons. They are on this screen only: no report, file, log or message has "
    "them, and they are not kept. Do not copy them."
)


def tau_text(tau: Tau | None) -> str:
    """Return an estimate as it is written on every screen: less its bias, to a tenth.

    >>> tau_text(Tau(1574.04, 25.5, -2.43, (956.5, 2196.5)))
    '1,576.5'
    """
    return "–" if tau is None else f"{tau.corrected:,.1f}"


def risk_view(
    counted: RiskReport | None,
    modelled: RiskReport | None,
    waiting: bool,
    recoded: bool = False,
    attacks: Exposure | None = None,
    person: str = "",
) -> TagList:
    """Return the main figures of the file before it is perturbed, and which attacker each of them is about.

    ``recoded``: some of its variables are recoded. ``attacks`` is None while what is found by those who know who is in
    the file is not known yet. ``person``: the column that says which records are one person's; the words speak of
    records then.
    """
    if counted is None:
        needed = "Choose the role key for at least one variable with categories: the risk is measured on the keys."
        return TagList(tags.p(needed, class_="soft"))
    report = modelled or counted
    taus = [_tau(one, waiting) for one in (report.tau1_estimate, report.tau2_estimate)]
    shown = facts(
        [
            ("Sample uniques", f"{report.sample_uniques:,}"),
            ("of all records", f"{100 * report.sample_uniques / max(report.records, 1):.2f}%"),
            ("k-anonymity", f"k = {report.k_anonymity.k}"),
            ("τ1, population uniques", taus[0]),
            ("τ2, correct matches", taus[1]),
        ]
    )
    said = () if waiting else report.notes
    return TagList(
        tags.p(f"All figures of this screen are those {RECODED}. {IS_RECODED}") if recoded else None,
        shown,
        busy("Fitting the log-linear model for τ1 and τ2 …") if waiting else None,
        *_attackers(report, attacks, waiting, of_records if person else str),
        *(tags.p(text) for text in keys_alone(report.key_variables)),
        tags.p(f"{capital(several_of(person))}.") if person else None,
        *(tags.p(f"{capital(note)}.", class_="soft") for note in map(without_options, said)),
        tags.details(tags.summary("The figures as a table"), measures_table([("Now", report)], "Measures of risk")),
    )


def _attackers(
    report: RiskReport, attacks: Exposure | None, waiting: bool, said: Callable[[str], str]
) -> Iterator[Tag]:
    """Yield who could look for persons, what each finds, ``said`` as counted, and which of the figures to decide by."""
    found = "computing …" if attacks is None else f"{attacks.file.anyone.expected:,.0f} of {report.records:,}"
    taus = [_expected(one, waiting) for one in (report.tau2_estimate, report.tau1_estimate)]
    rows = (
        (
            "Informed attacker: knows that the person is in the file, and the keys, as a colleague or a neighbour does",
            "records linked to the right person",
            found,
            "where somebody may know who took part. It is the largest of the three, so it is the safe choice.",
        ),
        (
            "Register attacker: has a register of the population, and does not know who is in the file",
            "correct matches of the records that are alone in the file (τ2)",
            taus[0],
            "where nobody can know who took part, as in a small sample.",
        ),
        (
            "Register attacker who wants to be certain",
            "records alone in the file that are alone in the population too (τ1)",
            taus[1],
            "with τ2, of which it is a part: it says how many of these links are certain.",
        ),
    )
    yield tags.h3("Which figure is about whom")
    yield _table(
        ("The attacker", "What is counted", "Expected", "Decide by it"),
        [
            tags.tr(
                tags.th(who, scope="row"),
                tags.td(said(what), class_="text"),
                tags.td(tags.strong(number)),
                tags.td(use, class_="text soft"),
            )
            for who, what, number, use in rows
        ],
        "Which figure is about whom",
        ("What is counted", "Decide by it"),
    )
    uniques = (
        "Sample uniques are records that nobody else in the file shares all keys with: whom an attacker can be sure of "
        "only if the person is known to be in the file. They are counted, not estimated."
    )
    yield tags.p(said(uniques), class_="soft")


def _expected(tau: Tau | None, waiting: bool) -> str:
    if waiting:
        return "computing …"
    return "not known without the share of the population" if tau is None else tau_text(tau)


def _tau(tau: Tau | None, waiting: bool) -> TagList:
    if waiting:
        return TagList("computing …")
    known = None if tau is None or tau.interval is None else tau.interval
    words = None if known is None else tags.span(f"95% interval {known[0]:,.1f} to {known[1]:,.1f}", class_="soft")
    return TagList(tau_text(tau), words)


def measures_table(reports: Sequence[tuple[str, RiskReport | None]], name: str) -> Tag:
    """Return the measures of reports side by side."""
    head = tags.tr(tags.th("Measure", scope="col", class_="text"), *(tags.th(n, scope="col") for n, _ in reports))
    rows = []
    for words, _, value in MEASURES:
        found = ["–" if r is None else value(r) for _, r in reports]
        shown = [f"{x:,}" if isinstance(x, int) else str(x) for x in found]
        rows.append(tags.tr(tags.th(words, scope="row"), *(tags.td(x) for x in shown)))
    return scroll(tags.table(tags.thead(head), tags.tbody(*rows)), name)


def explored_view(found: Explored | None, person: str = "") -> TagList:
    """Return who can be found and why: the attacker in words, class sizes, the part of each key, worst combinations.

    ``person``: as in :func:`risk_view`.
    """
    if found is None:
        return TagList()
    return TagList(
        tags.h3("An attacker who knows the keys"),
        *(tags.p(of_records(text) if person else text) for text in attacker_sentences(found.attacks)),
        trouble(found.doubt) if found.doubt else None,
        tags.h3("How many records share their values"),
        _sizes(found.parts.sizes),
        tags.h3("What each key adds"),
        *_parts(found.parts),
        tags.h3("Worst combinations of keys"),
        *_sets(found),
    )


def attacker_sentences(attacks: Exposure) -> Iterator[str]:
    """Yield what an attacker finds who knows the keys of persons and that they are in the file."""
    anyone, unique = attacks.file.anyone, attacks.file.unique
    right = f"{outward(100 * anyone.rate)} of 100"
    yield (
        f"Suppose someone knows the keys of all {anyone.persons:,} persons of this file, and links each of them to one "
        f"record with these values. {anyone.expected:,.0f} links are right on average: {right}."
    )
    if unique is None:
        yield "Nobody is alone with these values, so that no link is certain."
    else:
        words = "1 person is" if unique.persons == 1 else f"{unique.persons:,} persons are"
        yield f"{words} alone with these values: then the link is certainly right."
    some, whole = attacks.file.some_member, attacks.file.whole
    if some is not None and whole is not None:
        yield (
            f"In a household, at least one member is found with a chance of {_mean(some)} on average, all members with "
            f"a chance of {_mean(whole)}."
        )
    if attacks.joint is not None:
        yield (
            "Someone who knows the keys of all members together finds the household with a chance of "
            f"{_mean(attacks.joint)} on average; for {outward(100 * attacks.joint.above)} of 100 households the "
            f"chance is above {100 * THRESHOLD:g} of 100, a usual limit: that of one among five."
        )


def _mean(risk: Spread) -> str:
    return f"{outward(100 * risk.mean)} of 100"


def _sizes(bins: Sequence[SizeBin]) -> Tag:
    every = sum(b.records for b in bins) or 1
    rows = [
        tags.tr(
            tags.th(_range(b), scope="row"),
            tags.td(f"{b.classes:,}"),
            tags.td(f"{b.records:,}"),
            tags.td(f"{100 * b.records / every:.1f}%", HTML(str(svg.bar(b.records / every)))),
        )
        for b in bins
        if b.records
    ]
    heads = ("Records with the same values", "Combinations", "Records in them", "Of all records; bar: 0 to 100%")
    return _table(heads, rows, "Histogram of class sizes")


def _range(one: SizeBin) -> str:
    if one.low == 1:
        return "1: alone"
    return f"{one.low:,} or more" if one.high is None else _span(one.low, one.high)


def _span(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _table(heads: Sequence[str], rows: Sequence[Tag], name: str, texts: Sequence[str] = ()) -> Tag:
    head = [tags.th(h, scope="col", class_="text" if k == 0 or h in texts else None) for k, h in enumerate(heads)]
    return scroll(tags.table(tags.thead(tags.tr(*head)), tags.tbody(*rows)), name)


def _parts(found: KeyParts) -> list[Tag]:
    together = found.together
    rows = [
        tags.tr(
            tags.th("all keys", scope="row"),
            tags.td("–"),
            tags.td(f"{together.uniques:,}"),
            tags.td(f"{together.links:,}"),
            *(tags.td("–") for _ in range(3)),
            class_="same",
        )
    ]
    rows += [_part(part, together.links) for part in found.parts]
    heads = (
        "Key",
        "Categories",
        "Uniques without it",
        "Correct matches without it",
        "Correct matches it adds; bar: 0 to all",
        "Uniques, half its categories",
        "Correct matches, half its categories",
    )
    said = (
        "What dropping or recoding one key would leave, the others staying as they are. Correct matches: those of the "
        "attacker above. Half its categories: neighbours in pairs where the categories are ordered; otherwise the "
        "rarer half becomes one category."
    )
    return [_table(heads, rows, "What each key adds"), tags.p(said, class_="soft")]


def _part(part: KeyPart, links: int) -> Tag:
    added = links - part.without.links
    halved = ("–", "–") if part.halved is None else (f"{part.halved.uniques:,}", f"{part.halved.links:,}")
    return tags.tr(
        tags.th(cut(part.name), scope="row"),
        tags.td(f"{part.categories:,}"),
        tags.td(f"{part.without.uniques:,}"),
        tags.td(f"{part.without.links:,}"),
        tags.td(f"{added:,}", HTML(str(svg.bar(added / max(links, 1))))),
        *(tags.td(value) for value in halved),
    )


def _sets(found: Explored) -> list[Tag]:
    if found.search is None:
        return [tags.p(f"Combinations were not searched: {found.why}.", class_="soft")]
    search = found.search
    chosen = list(worst_sets(search))
    least = "" if search.max_size == min(MAX_SIZE, len(search.names)) else "; larger ones would take too long here"
    most = f"Searched: combinations of up to {search.max_size} of {len(search.names)} keys{least}."
    if not chosen:
        return [tags.p(f"No combination that was searched singles out a record. {most}", class_="soft")]
    rows = []
    for size, those in itertools.groupby(chosen, key=lambda one: len(one.names)):
        words = "One key" if size == 1 else f"{size} keys"
        rows.append(tags.tr(tags.th(words, colspan="3", scope="rowgroup", class_="text soft")))
        rows += [
            tags.tr(
                tags.th(" × ".join(cut(name) for name in one.names), scope="row"),
                tags.td(f"{one.records:,}"),
                tags.td(f"{one.minimal:,}"),
            )
            for one in those
        ]
    heads = ("Keys", "Records alone", "of these, not alone with one key fewer")
    said = (
        f"{most} Of each number of keys, the {SHOWN_SETS} that newly single out most records; those that single out "
        "none are left out. Recode or drop a key that is in many of them."
    )
    return [_table(heads, rows, "Worst combinations of keys"), tags.p(said, class_="soft")]


def worst_sets(search: Suda) -> Iterator[KeySet]:
    """Yield, by size, the combinations with most minimal sample uniques; those without any are left out."""
    for size in range(1, search.max_size + 1):
        held = [one for one in search.sets if len(one.names) == size and one.minimal]
        yield from sorted(held, key=lambda one: -one.minimal)[:SHOWN_SETS]


def records_view(names: Sequence[str], found: Sequence[Exposed] | None) -> TagList:
    """Return a button, or on request the most exposed records, with what must not be done with them."""
    title = tags.h3("Single records")
    if not names:
        return TagList()
    if found is None:
        said = "A short list of the most exposed records, for this screen only. It closes when the page is loaded anew."
        return TagList(title, tags.p(said, class_="soft"), button("Show the most exposed records", "records", "show"))
    rows = [
        tags.tr(
            tags.th(f"{one.number:,}", scope="row"),
            tags.td(f"{one.alike:,}"),
            tags.td(" × ".join(cut(name) for name in one.alone_on) or "–", class_="text"),
            *(tags.td(cut(value), class_="text") for value in one.values),
        )
        for one in found
    ]
    values = [cut(name) for name in names]
    heads = ("Record", "Alike", "Alone on", *values)
    table = _table(heads, rows, "The most exposed records", (*values, "Alone on"))
    said = (
        "Record: its place in the file, the first being 1. Alike: records with these values, itself included. Alone "
        "on: the fewest keys that single it out."
    )
    hide: list[Any] = [tags.p(said, class_="soft"), button("Hide the records", "records", "hide")]
    return TagList(title, tags.p(CONFIDENTIAL, class_="warning"), table, *hide)
