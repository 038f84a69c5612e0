"""Why a risk can be larger after a plan than before it: a sentence for each kind of measure."""

from __future__ import annotations

from collections.abc import Iterable

from postrand.workflow.comparison_risk import RiskFigure

_CLASSES = "a released class is smaller by chance: classes after count released values, not persons"
_MOVED = "a person may be easier to find than before where others were moved away"
_MODEL = "after, links are followed in released values, and a record that became rare can be linked rightly"


def why_larger(figures: Iterable[RiskFigure]) -> tuple[str, ...]:
    """Return a sentence for each reason why a risk of these is larger after than before; () if none is.

    >>> why_larger([RiskFigure("tau2", "τ2", 4.0, 3.0, "records")])
    ()
    """
    return reasons(one.code for one in figures if is_larger(one))


def reasons(codes: Iterable[str]) -> tuple[str, ...]:
    """Return the sentences for measures by their codes, each once."""
    return tuple(dict.fromkeys(f"Where a risk is larger after than before: {_reason(code)}." for code in codes))


def is_larger(one: RiskFigure) -> bool:
    """Whether a risk is larger after than before; of class sizes, whether they are smaller."""
    if one.before is None or one.after is None:
        return False
    near = 1e-9 * max(abs(one.before), abs(one.after))
    return one.after < one.before - near if one.code == "k" else one.after > one.before + near


def _reason(code: str) -> str:
    if code == "k" or code.startswith("below_"):
        return _CLASSES
    return _MODEL if code in ("tau1", "tau2") else _MOVED
