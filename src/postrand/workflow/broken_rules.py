"""Rules on the informed attacker that a plan meets, and that fail for one who knows a released column too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from postrand.plan.policy import Rule
from postrand.risk.finding import listed
from postrand.risk.informed import LEVELS
from postrand.support.measure_names import about
from postrand.support.showing import outward_percent
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.comparison_risk import MORE, known_too_in
from postrand.workflow.doubted import share_above

FAILS = "fails for somebody who also knows"
"""What is said of a rule that is met, before the column by which it fails."""


class Broken(NamedTuple):
    """Say that a rule fails for who also knows a column, and what is ``found`` then, in words."""

    known: str
    found: str


def broken_by(rule: Rule, figures: PlanFigures) -> tuple[Broken, ...]:
    """Return by which released columns, known too, a rule fails that is met; the one by which most is found first."""
    if rule.measure == "individual_risk":
        return _above(rule, figures)
    whole = {"correct_matches": 1, "correct_matches_share": max(figures.records, 1)}.get(rule.measure)
    found = [] if whole is None else [one for one in known_too_in(figures.risks) if one.links / whole > rule.limit]
    return tuple(
        Broken(one.name, f"about {about(one.links)} correct matches, {_percent(one.links, figures.records)}% of all")
        for one in found
    )


def _above(rule: Rule, figures: PlanFigures) -> tuple[Broken, ...]:
    """Return how many persons are above the limit for who knows a column too, of each where these are too many."""
    links, level = figures.risk("correct_matches"), LEVELS.index(rule.limit)
    own = figures.risk(rule.measure)
    without = (None if own is None else share_above(own, rule.limit)) or 0.0
    chances = {} if links is None else {one.name: one.chances.shares[level] for one in links.known_too}
    least = max(rule.share, MORE * without)  # what is hardly more may be so by chance
    above = sorted(((share, name) for name, share in chances.items() if share > least), reverse=True)
    persons = figures.words("persons")
    return tuple(
        Broken(name, f"{outward_percent(share)} of the {persons} are above the limit") for share, name in above
    )


def broken_in_words(broken: Sequence[Broken]) -> str:
    """Return for whom a rule fails that is met, and what these find; "" for nobody.

    >>> broken_in_words([Broken("pay", "about 300 correct matches, 30% of all"), Broken("town", "about 50")])
    'fails for somebody who also knows pay: about 300 correct matches, 30% of all; or town: about 50'
    """
    told = found_by(broken, alone=True)
    return f"{FAILS} {told}" if told else ""


def found_by(broken: Sequence[Broken], *, alone: bool = False) -> str:
    """Return what is found with each column, which is named where there are several, or ``alone`` too.

    >>> found_by([Broken("pay", "about 300")]), found_by([Broken("pay", "about 300"), Broken("town", "about 50")])
    ('about 300', 'pay: about 300; or town: about 50')
    """
    if len(broken) == 1 and not alone:
        return broken[0].found
    return "; or ".join(f"{one.known}: {one.found}" for one in broken)


def which_fail(rules: Iterable[Sequence[Broken]], *, all_met: bool = True) -> str:
    """Return how many rules that are met fail for whom, after a stop; "" where none does.

    >>> which_fail([[Broken("pay", ""), Broken("town", "")], [Broken("pay", "")], []])
    '; but 2 of them fail for somebody who also knows pay or town'
    """
    failing = [rule for rule in rules if rule]
    names = list(dict.fromkeys(one.known for rule in failing for one in rule))
    fails = FAILS if len(failing) == 1 else FAILS.replace("fails", "fail")
    them = "of them" if all_met else "of those met"
    return f"; but {len(failing)} {them} {fails} {listed(names, 'or')}" if failing else ""


def _percent(links: float, records: int) -> str:
    """Return a share with three digits: a limit can be nearer than two tell.

    >>> _percent(69.0, 3382)
    '2.04'
    """
    return f"{float(f'{100 * links / max(records, 1):.3g}'):g}"
