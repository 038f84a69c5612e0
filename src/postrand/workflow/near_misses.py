"""Rules that a plan misses by less than the simulated releases can tell: it is said, and they stay not met."""

from __future__ import annotations

from postrand.plan.policy import Rule
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.comparison_risk import RiskFigure

MISSED = "above the limit by less than "
"""The beginning of what is said of such a rule."""
BY_ERROR = f"{MISSED}simulated releases can tell"
ALLOWS = {
    BY_ERROR: "a slightly larger limit, if the office agrees",
    f"{MISSED}one": "a slightly larger {share}, which allows it",
}
"""What allows it, by the words that are said of it; ``share`` is the option of the rule."""


def near_share(rule: Rule, found: RiskFigure, share: float, figures: PlanFigures) -> str:
    """Return that a share of records or households is above what a rule allows by less than one of them; "" else.

    A whole number of them is no mean over releases, and nothing is said of it.
    """
    is_of_households = bool(found.households)
    many = found.households or figures.records
    if not (0 < (share - rule.share) * many < 1) or abs(share * many - round(share * many)) < 1e-6:
        return ""
    unit = figures.words("household") if is_of_households else "record"
    return f"{MISSED}one {unit}, on average over the simulated releases: a release has none or some of them, by chance"


def near_mean(limit: float, found: RiskFigure, value: float) -> str:
    """Return that a mean over simulated links is above a limit by less than their error; "" else.

    >>> near_mean(5.0, RiskFigure("correct_matches", "", 9.0, 5.2, "records", error=0.11), 5.2).partition(", ")[2]
    'twice the standard error of their mean: 0.22'
    >>> near_mean(5.0, RiskFigure("correct_matches", "", 9.0, 5.2, "records", error=0.09), 5.2)
    ''
    """
    if not 0 < value - limit < 2 * found.error:
        return ""
    return f"{BY_ERROR}, twice the standard error of their mean: {2 * found.error:.2g}"
