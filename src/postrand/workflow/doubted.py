"""Limits on figures that can be much too low: what decides whether one is kept."""

from __future__ import annotations

from postrand.workflow.comparison_risk import RiskFigure

DOUBTED = (
    "it is an estimate that can be much too low, because many records are alone with their keys, and its upper bound, "
    "as if nobody outside the file had the keys of a record, is above the limit"
)
"""Why a limit on a figure that can be too low is neither met nor broken."""


def certain(one: RiskFigure, limit: float) -> float | None:
    """Return the figure after a plan that decides about a limit: the upper bound where the figure can be too low.

    The figure itself, where it breaks the limit anyway; None where it keeps it, and the bound does not.

    >>> low = RiskFigure("register_matches", "", 9.0, 3.0, "records")
    >>> most = RiskFigure("register_matches", "", 9.0, 7.0, "records")
    >>> doubted = RiskFigure("register_matches", "", 9.0, 3.0, "records", bound=most)
    >>> certain(low, 5.0), certain(doubted, 5.0), certain(doubted, 8.0), certain(doubted, 2.0)
    (3.0, None, 7.0, 3.0)
    """
    if one.bound is None or one.bound.after is None or one.after is None:
        return one.after
    return _between(one.after, one.bound.after, limit)


def certain_share(one: RiskFigure, level: float, limit: float) -> float | None:
    """Return the share above a level after a plan that decides about a limit, as :func:`certain`; of a known one."""
    share, most = share_above(one, level), None if one.bound is None else share_above(one.bound, level)
    return share if share is None or most is None else _between(share, most, limit)


def _between(least: float, most: float, limit: float) -> float | None:
    """Return the one of two sides of a figure that decides about a limit; None where neither does."""
    if least > limit:
        return least
    return max(least, most) if most <= limit else None


def share_above(one: RiskFigure, level: float) -> float | None:
    """Return the share of persons or households above a level after a plan; None where it is not known."""
    return next((after for at, _, after in one.shares if at == level), None)
