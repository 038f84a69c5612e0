"""What looks wrong beside each other, in sentences: a risk larger after a plan, a part larger than the whole."""

from __future__ import annotations

from collections.abc import Iterable

from postrand.workflow.comparison_risk import RiskFigure

_CLASSES = (
    "classes after count released values, not persons: a released class is smaller by chance; in a split all classes "
    "are smaller, because records that show other keys are counted apart"
)
_MOVED = "a person may be easier to find than before where others were moved away"
MODELS_DISAGREE = (
    "For the register attacker, the matches among sample uniques (τ2) are more than those of all records: two models "
    "disagree. All records are computed from weights or the sampling fraction alone, sample uniques by a log-linear "
    "model of the keys. Give the data protection officer the larger figure, τ2."
)
_MODEL = "after, links are followed in released values, and a record that became rare can be linked rightly"


def why_larger(figures: Iterable[RiskFigure]) -> tuple[str, ...]:
    """Return a sentence for each reason why a risk of these is larger after than before; () if none is.

    >>> why_larger([RiskFigure("tau2", "τ2", 4.0, 3.0, "records")])
    ()
    """
    return reasons(one.code for one in figures if is_larger(one))


def models_disagree(figures: Iterable[RiskFigure]) -> tuple[str, ...]:
    """Return a sentence where a part, τ2, is more than the whole, the register attacker's matches; () where it is not.

    >>> models_disagree([RiskFigure("tau2", "", 4.0, 3.0, ""), RiskFigure("register_matches", "", 5.0, 3.0, "")])
    ()
    """
    held = {one.code: (one.before, one.after) for one in figures if one.code in ("tau2", "register_matches")}
    sides = zip(held.get("tau2", ()), held.get("register_matches", ()), strict=False)
    more = any(part is not None and whole is not None and part > whole * (1 + 1e-9) for part, whole in sides)
    return (MODELS_DISAGREE,) if more else ()


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
