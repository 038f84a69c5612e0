"""One recommended plan, with its figures and reasons."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from postrand.codebook.coding import category_numbers
from postrand.codebook.variable import Variable
from postrand.support.column_wordings import NUMBERED_BANDS
from postrand.support.showing import few
from postrand.workflow.advice_choice import Trial
from postrand.workflow.advice_refusals import RELEASED
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.half_widths import Drawn

_NUMBERS = ("int", "uint", "float", "double", "halffloat", "decimal")


class Asked(NamedTuple):
    """Hold a limit or precision that is asked, its value before and after, and whether it is certainly kept.

    ``drawn``: of a precision alone, what it counts of how the records were drawn. ``alike``: its value if every
    combination were equally frequent, beside ``after``, that of the least favourable shares. Of the file, both say what
    the released weights say. ``why``: the reason where it is not known.
    """

    text: str
    before: float | None
    after: float | None
    is_met: bool
    alike: float | None = None
    may_be_met: bool = False
    drawn: Drawn | None = None
    why: str = ""

    @property
    def is_precision(self) -> bool:
        """Whether a precision is asked, and no limit."""
        return self.drawn is not None

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
    uses: tuple[str, ...] = ()

    @property
    def no_means(self) -> tuple[str, ...]:
        """The numbers of which means are asked and refused: the plan moves or averages their values."""
        return tuple(name for one in self.trial.plan.numerical for name in one.variables)

    @property
    def with_means(self) -> tuple[str, ...]:
        """The released variables that have numbers, or categories that are numbers and no codes with labels."""
        book = self.trial.plan.codebook
        found = (v.name for v in book.with_role(*RELEASED) if _has_numbers(v))
        return tuple(name for name in found if name not in self.no_means)

    @property
    def means(self) -> str:
        """Whether means, where they are asked, can be had from the plan's release; "" where they are not asked."""
        if "means" not in self.uses:
            return ""
        if not self.with_means and not self.no_means:
            return f"means: NOT met (no variable that is released has numbers; give one {NUMBERED_BANDS})"
        if not self.no_means:
            return f"means: met (of {few(self.with_means)}; no number is moved or averaged)"
        why = f"means by group and weighted means of {', '.join(self.no_means)} are refused: the values move"
        return f"means: NOT met ({why}; give the variable categories by a recode to perturb it, or release it as it is)"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: internal, because it has the risk of the file."""
        limits: list[dict[str, Any]] = [
            {"limit": one.text, "before": one.before, "after": one.after, "met": one.is_met}
            | ({"why": one.why} if one.why else {})
            | ({} if one.alike is None else {"if_equally_frequent": one.alike})
            | ({} if one.drawn is None else {"kish_factor": one.drawn.effect, "not_counted": one.drawn.not_counted})
            for one in self.asked
        ]
        if self.means:
            is_met = bool(self.with_means) and not self.no_means
            limits.append({"limit": "means", "before": None, "after": None, "met": is_met})
        return {
            "plan": str(self.path),
            "way": self.trial.candidate.name,
            "chosen_with": self.trial.candidate.chosen_with,
            "reasons": list(self.reasons),
            "asked": limits,
            "findings": [text for _, text in self.findings],
            "figures": self.figures.to_dict(),
        }


def _has_numbers(variable: Variable) -> bool:
    """Return whether means of a variable make sense: it has numbers, or categories that are and are no codes."""
    if variable.is_categorical:
        return not variable.labels and variable.type != "bool" and bool(category_numbers(variable))
    return variable.type.startswith(_NUMBERS)
