"""Rules on the informed attacker that a plan meets, and that an attacker who knows one released column more breaks."""

from __future__ import annotations

from postrand.plan.policy import Rule
from postrand.risk.informed import LEVELS
from postrand.support.measure_names import about
from postrand.support.showing import outward_percent
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.comparison_risk import MORE, known_too_in
from postrand.workflow.doubted import share_above

NO_MORE = "only for attackers who know no more than the keys"
"""What a rule that is met is told with, where who knows one more column breaks it."""


def broken_by(rule: Rule, figures: PlanFigures) -> str:
    """Return who breaks a rule that is met by knowing another released column too, and by how much; "" if nobody."""
    if rule.measure == "individual_risk":
        return _above(rule, figures)
    whole = {"correct_matches": 1, "correct_matches_share": max(figures.records, 1)}.get(rule.measure)
    found = [] if whole is None else [one for one in known_too_in(figures.risks) if one.links / whole > rule.limit]
    if not found:
        return ""
    of_all = [(one.name, about(one.links), _percent(one.links, figures.records)) for one in found]
    (name, links, share), *others = of_all
    more = "".join(f", {other} {own} ({part}%)" for other, own, part in others)
    return (
        f"{NO_MORE}; who knows {name} too finds about {links} right links ({share}% of all){more}, more than it allows"
    )


def _above(rule: Rule, figures: PlanFigures) -> str:
    """Return how many persons are above the limit for who knows a column too, of each where these are too many."""
    links, level = figures.risk("correct_matches"), LEVELS.index(rule.limit)
    own = figures.risk(rule.measure)
    without = (None if own is None else share_above(own, rule.limit)) or 0.0
    chances = {} if links is None else {one.name: one.chances.shares[level] for one in links.known_too}
    least = max(rule.share, MORE * without)  # what is hardly more may be so by chance
    above = sorted(((share, name) for name, share in chances.items() if share > least), reverse=True)
    if not above:
        return ""
    (share, name), *others = ((outward_percent(share), name) for share, name in above)
    more = "".join(f", {other} {own}" for own, other in others)
    told = f"{share} of the {figures.words('persons')} are above the limit{more}, which breaks it"
    return f"{NO_MORE}; for who knows {name} too, {told}"


def _percent(links: float, records: int) -> str:
    """Return a share with three digits: a limit can be nearer than two tell.

    >>> _percent(69.0, 3382)
    '2.04'
    """
    return f"{float(f'{100 * links / max(records, 1):.3g}'):g}"
