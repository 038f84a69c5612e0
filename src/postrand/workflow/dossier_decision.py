"""The two pages of the dossier on which the release is decided: its figures in sentences for a person who signs."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from postrand import __version__
from postrand.certification.certificate import Certificate
from postrand.privacy.words import TOO_LARGE, unit_in_plain_words
from postrand.release.bundle import REPORT
from postrand.report.internal import Decision, RiskRow
from postrand.report.table_worth import shown, worth_line
from postrand.report.text import cut
from postrand.risk.finding import listed
from postrand.risk.findings import Findings
from postrand.risk.informed import THRESHOLD
from postrand.support.column_wordings import taken_for_public
from postrand.support.guesses import of_hundred
from postrand.support.measure_names import HOW_MUCH, KNOWN_TO_IT, LEARNS, UNKNOWN_TO_IT
from postrand.support.series_words import together
from postrand.support.showing import ORDERS, capital, few, outward, outward_percent
from postrand.support.unit_wordings import shown_by_members
from postrand.support.worth_basis import BASES
from postrand.workflow.broken_rules import FAILS, found_by, which_fail
from postrand.workflow.column_ways import in_words
from postrand.workflow.comparison import PlanFigures, figure
from postrand.workflow.comparison_risk import AS_IS, NO_HOUSEHOLD, RiskFigure, facts_in, is_everybody
from postrand.workflow.larger import why_larger
from postrand.workflow.policy_check import PolicyCheck
from postrand.workflow.series import limits_of

_FEW = 0.01
"""Of expected persons fewer are not told apart."""
_HIGH = f"{100 * THRESHOLD:g}%"
MEASURES = {
    "correct_matches": "Correct matches: persons found",
    "individual_risk_largest": "Largest chance that a person is found",
    "individual_risk_above": f"Persons whose chance is above {_HIGH}",
    "household_risk": "Households with a member found rightly",
    "household_risk_above": f"Households with a member whose chance is above {_HIGH}",
    "joint_household_risk": "Households found rightly",
    "joint_household_risk_largest": "Largest chance that a household is found",
    "joint_household_risk_above": f"Households whose chance is above {_HIGH}",
    "register_matches": "Correct matches: persons found",
    "register_risk_largest": "Largest chance that a person is found",
    "tau1": "Records unique in the file and the population (τ1)",
    "tau2": "Records unique in the file and found rightly (τ2)",
}
"""The measures of the first page by their codes, in order, each in the words of that page, below its attacker."""
ONE = "informed attacker, who knows the keys of each person, and looks for one at a time"
MEMBERS = "informed attacker, who knows the keys of all members of a household together"
GUESSING = "right guesses of 100 persons by who knows their records, and how frequent values are"
GUESSING_KEYS = "right guesses of 100 persons by who knows their records, and their keys"
MOST_GUESSED, MOST_ROWS, _NAME = 3, 9, 20
"""Confidential variables whose guesses stand on the first page, rows with these, and characters of a name."""
REGISTERED = frozenset(("register_matches", "register_risk_largest", "tau1", "tau2"))
WORSE = tuple(code for code in MEASURES if code != "tau1")
RISK_ALONE = (
    "These figures are of this release alone. Who also has the earlier releases of the same persons finds more: "
    "unperturbed columns that both have link the records of a person. How many can be linked is not measured."
)
NOTHING = Findings()
NOT_ENFORCED = "The policy is not enforced (enforce = false): else no release would be made that does not meet a rule."
NOT_ALL = "a record shows only some of the perturbed variables: what no record shows together has no table"
BELOW = "–"
"""What the row of somebody for whom a rule fails begins with, below the rule."""
_TABLE = "each with its limit: on the second page"


def decision_of(
    figures: PlanFigures,
    policy: PolicyCheck | None,
    certificate: Certificate,
    found: Findings = NOTHING,
) -> Decision:
    """Return what is decided on: plain sentences and rounded figures of a plan that is designed and certified."""
    return Decision(
        source=figures.name,
        records=figures.records,
        shown=figures.words(shown_by_members(figures.shown)),
        is_private=certificate.facts.key_is_private,
        treated=tuple(_treated(figures, certificate)),
        risks=tuple(risk_rows(figures)),
        warnings=tuple(risk_warnings(figures)),
        notes=tuple(risk_notes(figures)),
        is_recoded=bool(figures.as_is),
        claims=_claims(figures),
        limits=(*limits_of(certificate), *taken_for_public(figures.unstated)),
        findings=tuple(map(_sentence, found.brief)),
        worth=tuple(_sentence(text) for text in _worth(figures)),
        checks=tuple(_checks(policy)),
        rules=tuple(_rules(policy)),
        made=_made(certificate),
    )


def _made(certificate: Certificate) -> str:
    """Return of which day, version and plan a page is: the plan by the start of the digest of its mechanism."""
    made = f"Made on {datetime.now(UTC).date().isoformat()} (UTC) by postrand {__version__}"
    return f"{made}; mechanism_sha256 of the plan's certificate: {certificate.mechanism_digest[:16]}…."


def address(page: str | Path, of: str | Path) -> str:
    """Return the address of the public report in the folder ``of``, as a link of a page in the folder ``page``.

    >>> address("work/internal", "work/the release")
    '../the%20release/report.html'
    """
    return quote(Path(os.path.relpath(Path(of) / REPORT, page)).as_posix())


def _treated(figures: PlanFigures, certificate: Certificate) -> Iterator[tuple[str, str]]:
    yield from in_words(figures.ways)
    yield "Order of the records", ORDERS[certificate.facts.order_is_shuffled]
    if figures.levels:
        yield "Guarantee", "; ".join(figures.levels)
    if certificate.series is not None:
        yield "Together", together(certificate.series.to_dict())


def _claims(figures: PlanFigures) -> tuple[str, ...]:
    """Return the claims, that on whole households first; where it is little protection, behind the first on records."""
    whole = tuple(_of_household(figures))
    head = 1 if any(TOO_LARGE in text for text in whole) else 0
    return tuple(dict.fromkeys((*figures.claims[:head], *whole, *figures.claims)))


def _of_household(figures: PlanFigures) -> Iterator[str]:
    """Yield what the claims on records mean for a whole household, short enough to stand before them."""
    level, most = figures.unit_epsilon.get("household", math.inf), figures.unit_records.get("household", 0)
    if most and math.isfinite(level):
        yield unit_in_plain_words(figures.words("household"), most, level)
    elif figures.levels:
        yield f"{'; '.join(figures.levels)}."


def risk_rows(figures: PlanFigures) -> Iterator[RiskRow]:
    """Yield the measures of risk that are known before, in plain words, and guesses, if there is room for them."""
    measures = list(_measure_rows(figures))
    yield from measures
    yield from _guess_rows(figures, min(max(MOST_ROWS - len(measures), 0), MOST_GUESSED))


def _measure_rows(figures: PlanFigures) -> Iterator[RiskRow]:
    for code, words in MEASURES.items():
        one = figures.risk(code)
        if one is None or one.before is None:
            continue
        whole = 1.0 if one.unit == "share" else max(figures.records, 1)
        shares = None if one.after is None else (one.before / whole, one.after / whole)
        first = dataclasses.replace(one, before=figures.as_is.get(code))
        as_is = "not computed" if first.before is None else _shown(first, "before", figures.records)
        before = _shown(one, "before", figures.records)
        after = _shown(one, "after", figures.records)
        after = f"at most {after}" if one.after is not None and figures.is_bound(code) else after
        said = figures.words
        yield RiskRow(said(words), said(_attacker(code, is_everybody(figures.risks))), before, after, shares, as_is)


def _guess_rows(figures: PlanFigures, most: int) -> Iterator[RiskRow]:
    """Yield of confidential variables how often they are guessed rightly: always, before anything is perturbed.

    What the record adds most to comes first; of the persons whose keys do not tell it, where it adds more to these.
    """
    who = figures.words(GUESSING_KEYS if facts_in(figures.risks) else GUESSING)
    shown, rest = figures.guesses[:most], [cut(one.name, _NAME) for one in figures.guesses[most:]]
    for one in shown:
        right, without, of = one.right, one.without, ""
        if one.open is not None and one.is_of_open:
            share, right, without = one.open
            of = f" of the {of_hundred(share)} of 100 whose keys do not tell it"
        measure = f"{cut(one.name, _NAME)}{of} ({of_hundred(without)} without the record)"
        measure += f"; of {few(rest)}: in the sentences" * (bool(rest) and one is shown[-1])
        yield RiskRow(measure, who, "100", of_hundred(right), (1.0, right), "100" * bool(figures.as_is))


def _attacker(code: str, is_whole: bool) -> str:
    """Return whose chance a measure is; ``is_whole``: the file is the whole population."""
    return (
        (KNOWN_TO_IT if is_whole else UNKNOWN_TO_IT)
        if code in REGISTERED
        else MEMBERS
        if code.startswith("joint_")
        else ONE
    )


def _shown(one: RiskFigure, side: str, records: int) -> str:
    """Return a number with its share, of records or of households, and another share as it is; rounded up.

    >>> _shown(RiskFigure("joint_household_risk", "", 0.99, 0.0843, "share", households=3200), "after", 7130)
    '270 (8.43%)'
    """
    value, text = getattr(one, side), figure(one, side)
    if value is not None and one.households:
        return f"{_found(value * one.households)} ({text})"
    if value is None or one.unit == "share" or not records:
        return text
    if 0 < value < _FEW:
        return f"fewer than {_FEW:g}"
    return f"{text} ({outward_percent(float(text.replace(',', '')) / records)})" if value >= 1 else text


def _found(expected: float) -> str:
    """Return how many households are expected to be found, rounded up."""
    return f"fewer than {_FEW:g}" if 0 < expected < _FEW else outward(expected)


def _percent(share: float) -> str:
    """Return a share in per cent with two digits and no exponent: 100%, 3%."""
    return f"{float(f'{100 * share:.2g}'):g}%"


def risk_warnings(figures: PlanFigures) -> Iterator[str]:
    """Yield what the officer must know of the figures, what to give on first."""
    if figures.series is not None and figures.series.number > 1 and not figures.series.disjoint:
        yield RISK_ALONE
    yield from figures.known_too
    yield from (text.replace(HOW_MUCH, "") for text in figures.only_keys)  # a page to sign names no command
    yield from (_sentence(text) for text in reversed(figures.warnings))
    yield from why_larger(one for one in figures.risks if one.before is not None and one.code in WORSE)
    for why in dict.fromkeys(one.why for one in figures.risks if one.why and one.code in MEASURES):
        if why == NO_HOUSEHOLD and (figures.may_link or figures.neighbours):  # a warning says more
            continue
        lacking = dict.fromkeys(_kind(o.code) for o in figures.risks if o.code in MEASURES and o.why == why)
        yield f"Not known, {' and '.join(lacking)}: {why}."


def risk_notes(figures: PlanFigures) -> Iterator[str]:
    """Yield what explains the figures."""
    codes = {one.code for one in figures.risks if one.before is not None}
    yield from figures.guessed
    if "correct_matches" in codes:
        yield from figures.knowledge or (LEARNS,)
    alone = figures.risk("below_2")
    if alone is not None and alone.before is not None:
        share = _percent(alone.before)
        where = "In the recoded file" if figures.as_is else f"Before means {figures.before_is}: there,"
        yield f"{where} {share} of the records are alone with their keys."


def _kind(code: str) -> str:
    """Return what a measure is about in a few words."""
    if "household" in code:
        return "the risk of households"
    return "the risk from the register attacker" if code in REGISTERED else "the risk of persons"


def _worth(figures: PlanFigures) -> Iterator[str]:
    yield from figures.named_briefly
    yield from (NOT_ALL,) * bool(figures.of_three)
    yield from figures.lacking
    yield from worth_line("tables of one perturbed variable", figures.one_way)
    yield from worth_line("tables of two", figures.pairs)
    least = [one for one in map(figures.least_own, (figures.one_way, figures.pairs)) if one is not None]
    if least:
        worth = " and ".join(f"{one.name} {shown(one.effective_records)}" for one in least)
        yield f"{capital(BASES['file'])} the least useful of each: {worth} records"


def _checks(policy: PolicyCheck | None) -> Iterator[str]:
    """Yield whether the policy is met, each rule that is not, with its limit, and what no rule is about."""
    if policy is None:
        return
    apart = f"; {'but' if policy.is_met else 'and'} {policy.apart}" * bool(policy.apart)
    but = which_fail((one.broken for one in policy.verdicts), all_met=policy.is_met)
    failing = [f"{one.rule}: {found_by(one.broken)}" for one in policy.verdicts if one.broken]
    but += f" ({'; '.join(failing)}): decide whether somebody can know this" * bool(failing)
    if policy.is_met:
        told = [(one.rule, one.why) for one in policy.verdicts if one.why]
        of_these = "; of these, " * bool(told) + "; ".join(f"{rule}: {why}" for rule, why in told)
        yield f"The office's policy: all {len(policy.verdicts)} rules are met ({_TABLE}){of_these}{apart}{but}."
    else:
        many = f"{len(policy.failed)} of {len(policy.verdicts)} rules"
        are = "is" if len(policy.failed) == 1 else "are"
        yield f"The office's policy: {many} {are} not met ({_TABLE}){apart}{but}."
        yield from [NOT_ENFORCED] * (not policy.enforce)
    for one in policy.failed:
        reason = f" ({one.why})" if one.why else ""
        before = "before" if policy.before_is == AS_IS else f"before ({policy.before_is})"
        yield f"Not met: {one.rule}; {one.limit}, {before} {one.before}, after {one.after}{reason}."
    if policy.not_ruled:
        yield policy.not_ruled


def _rules(policy: PolicyCheck | None) -> Iterator[tuple[str, ...]]:
    """Yield every rule as a row, those not met first; below one that is met, one for whom it fails."""
    for one in () if policy is None else sorted(policy.verdicts, key=lambda one: one.is_met):
        yield one.rule, one.limit, one.before or "–", one.after, "met" if one.is_met else "not met"
        if one.broken:
            names = listed([broken.known for broken in one.broken], "or")
            first = f"{one.broken[0].known}: " * (len(one.broken) > 1)
            yield f"{BELOW} {FAILS} {names}", "the same", "–", f"{first}{one.broken[0].found}", "fails"


def _sentence(text: str) -> str:
    return capital(text) + ("" if text.endswith(".") else ".")
