"""What looks wrong beside each other, in sentences: a risk larger after a plan, a part larger than the whole."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping

from postrand.workflow.comparison_risk import ALONE, RiskFigure

_CLASSES = (
    "classes after count released values, not persons: a released class can be smaller by chance; of a split, a class "
    "has the records that show the same keys with the same values, which can be fewer or more than before"
)
_MOVED = "a person may be easier to find than before where others were moved away"
_DISAGREE = (
    "For the register attacker two estimates contradict each other: {where} the matches among sample uniques (τ2) are "
    "more than those of all records, of which they are a part. Neither is the truth. Give a board the larger of each "
    "side alone: {larger}."
)
_UNIQUE_AFTER = " After a plan τ2 counts only links to records that are unique in what is released."
TAU_OF_COARSER = (
    "τ1 and τ2 are estimates by a model of the keys, fitted anew to each file: where they are larger for coarser keys, "
    "this is the error of the model and no true increase, because merging categories makes nobody unique."
)
_ROUNDED = (
    "{which}: larger in the recoded file than in the file as it is, because a recode made some weights smaller, and "
    "who has a smaller weight seems to stand for fewer others, or because the model is fitted anew to the recoded keys."
)
_BY_WEIGHTS = (
    "The register attacker's figures are estimates that can be much too low: many records are alone with "
    "their keys, and who is alone in the file is often alone in the population. Give a board the informed attacker's "
    "figures in their place: they take who is alone in the file as alone in the population. A limit on the register "
    "attacker's is met only if it also were where nobody outside the file had the keys of a record."
)
SEEN = 0.005
"""A risk is called larger where three digits show that it is."""
_MODEL = "after, links are followed in released values, and a record that became rare can be linked rightly"


def why_larger(figures: Iterable[RiskFigure]) -> tuple[str, ...]:
    """Return a sentence for each reason why a risk of these is larger after than before; () if none is.

    >>> why_larger([RiskFigure("tau2", "τ2", 4.0, 3.0, "records")])
    ()
    """
    return reasons(one.code for one in figures if is_larger(one))


def models_disagree(figures: Iterable[RiskFigure]) -> tuple[str, ...]:
    """Return which figure of the register attacker is the larger on each side, where τ2, a part, is above the whole.

    () where it is on no side.

    >>> models_disagree([RiskFigure("tau2", "", 4.0, 3.0, ""), RiskFigure("register_matches", "", 5.0, 3.0, "")])
    ()
    """
    held = {one.code: (one.before, one.after) for one in figures if one.code in ("tau2", "register_matches")}
    if len(held) < 2:
        return ()
    sides = zip(("before the plan", "after the plan"), held["tau2"], held["register_matches"], strict=True)
    more = {side: part > whole * (1 + 1e-9) for side, part, whole in sides if part is not None and whole is not None}
    if not any(more.values()):
        return ()
    larger = ", ".join(f"{side} {'τ2' if is_more else 'that of all records'}" for side, is_more in more.items())
    text = _DISAGREE.format(where=" and ".join(side for side, is_more in more.items() if is_more), larger=larger)
    return (text if more.get("after the plan", True) else text + _UNIQUE_AFTER,)


def by_weights(figures: Iterable[RiskFigure]) -> tuple[str, ...]:
    """Return that the register attacker's figures can be too low, where many records are alone with their keys.

    Not where τ2, a part of them by another model, is larger: :func:`models_disagree` says more then.

    >>> by_weights([RiskFigure("individual_risk", "", 0.2, 0.1, ""), RiskFigure("register_matches", "", 5.0, 3.0, "")])
    ()
    """
    before = {one.code: one.before for one in figures if one.before is not None}
    if "register_matches" not in before or before.get("individual_risk", 0.0) <= ALONE:
        return ()
    return () if before.get("tau2", 0.0) > before["register_matches"] else (_BY_WEIGHTS,)


def weights_smaller(figures: Iterable[RiskFigure], as_is: Mapping[str, float]) -> tuple[str, ...]:
    """Return why recoding made the register attacker's risk larger; () where it did not.

    ``as_is`` are the risks by their codes before recoding. Coarser keys alone make none larger: only weights do.

    >>> found = [RiskFigure("register_risk_largest", "", 0.36, 0.1, "share")]
    >>> len(weights_smaller(found, {"register_risk_largest": 0.34})), weights_smaller(found, {})
    (1, ())
    """
    held = (one for one in figures if one.code.startswith("register") and one.before is not None)
    more = [o.measure for o in held if (o.before or 0.0) > as_is.get(o.code, math.inf) * (1 + SEEN)]
    return (_ROUNDED.format(which="; ".join(more)),) if more else ()


def coarser_larger(files: Iterable[Mapping[str, float]]) -> tuple[str, ...]:
    """Return why τ1 or τ2 can be larger where keys are coarser; () where it is not.

    ``files`` have their risks unperturbed by codes. Of the same keys the coarser leave fewer records alone.

    >>> fine, coarse = {"below_2": 0.4, "tau1": 1.0}, {"below_2": 0.1, "tau1": 2.0}
    >>> len(coarser_larger([fine, coarse])), coarser_larger([fine, {**coarse, "tau1": 0.5}])
    (1, ())
    """
    more = any(
        one.get("below_2", 0.0) > two.get("below_2", 1.0) and one.get(code, math.inf) < two.get(code, 0.0)
        for one, two in itertools.permutations(files, 2)
        for code in ("tau1", "tau2")
    )
    return (TAU_OF_COARSER,) if more else ()


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
