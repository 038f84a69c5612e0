"""One recommended plan, with its figures and reasons."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from postrand.workflow.advice_choice import Trial
from postrand.workflow.advice_uses import Verdict
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.half_widths import Drawn
from postrand.workflow.policy_check import PolicyCheck


class Asked(NamedTuple):
    """Hold a limit or precision that is asked, its value before and after, and whether it is certainly kept.

    ``drawn``: of a precision alone, what it counts of how the records were drawn. ``alike``: its value if every
    combination were equally frequent, beside ``after``, that of the least favourable shares. Of the file, both say what
    the released weights say. ``why``: the reason where it is not known. ``bound``: what ``after`` is to be at most.
    ``is_most``: ``after`` is an upper bound.
    """

    text: str
    before: float | None
    after: float | None
    is_met: bool
    alike: float | None = None
    may_be_met: bool = False
    drawn: Drawn | None = None
    why: str = ""
    bound: float = math.inf
    is_most: bool = False

    @property
    def is_precision(self) -> bool:
        """Whether a precision is asked, and no limit."""
        return self.drawn is not None

    @property
    def is_least(self) -> bool:
        """Whether the limit is on what is to be at least so much, such as the worth of tables."""
        return " >= " in self.text

    @property
    def verdict(self) -> str:
        """Whether it is kept, in words: of a precision, perhaps for some shares only, and what is not counted."""
        if self.after is None:
            return "not known"
        apart = f", {self.drawn.not_counted}" if self.drawn is not None and self.drawn.not_counted else ""
        return f"met{apart}" if self.is_met else f"not certain{apart}" if self.may_be_met else "NOT met"


@dataclass(frozen=True, slots=True, eq=False)
class Advised:
    """Hold one recommended plan: its file, its trial, its figures, the reasons, and what it keeps of what is asked."""

    path: Path
    trial: Trial
    figures: PlanFigures
    reasons: tuple[str, ...]
    asked: tuple[Asked, ...]
    findings: tuple[tuple[str, str], ...] = ()  # a heading and a sentence
    verdicts: tuple[Verdict, ...] = ()  # whether its release answers each kind of question that is asked
    checked: PolicyCheck | None = None  # against the policy that is asked

    @property
    def unmet(self) -> int:
        """The number of rules of the policy that the plan does not meet."""
        return 0 if self.checked is None else len(self.checked.failed)

    @property
    def is_beyond(self) -> bool:
        """Whether a limit is not certainly kept."""
        return any(not (one.is_met or one.is_precision) for one in self.asked)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: internal, because it has the risk of the file."""
        limits: list[dict[str, Any]] = [
            {"limit": one.text, "before": one.before, "after": one.after, "met": one.is_met}
            | ({"why": one.why} if one.why else {})
            | ({} if one.alike is None else {"if_equally_frequent": one.alike})
            | ({} if one.drawn is None else {"kish_factor": one.drawn.effect, "not_counted": one.drawn.not_counted})
            for one in self.asked
        ]
        limits += [
            {"limit": one.what, "before": None, "after": None, "met": one.is_met}
            for one in self.verdicts
            if one.is_asked
        ]
        return {
            "plan": str(self.path),
            "way": self.trial.candidate.name,
            "chosen_with": self.trial.candidate.chosen_with,
            "reasons": list(self.reasons),
            "asked": limits,
            "findings": [text for _, text in self.findings],
            **({} if self.checked is None else {"policy": self.checked.to_dict()}),
            "figures": self.figures.to_dict(),
        }
