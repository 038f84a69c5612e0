"""One recommended plan, with its figures and reasons."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postrand.workflow.advice_choice import Trial
from postrand.workflow.comparison import PlanFigures

Asked = tuple[str, float | None, float | None, bool]
"""A limit or precision that is asked, its value before and after, and whether it is kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Advised:
    """Hold one recommended plan: its file, its trial, its figures, the reasons, and what it keeps of what is asked."""

    path: Path
    trial: Trial
    figures: PlanFigures
    reasons: tuple[str, ...]
    asked: tuple[Asked, ...]
    findings: tuple[tuple[str, str], ...] = ()  # a heading and a sentence

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: internal, because it has the risk of the file."""
        limits = [{"limit": t, "before": b, "after": a, "met": met} for t, b, a, met in self.asked]
        return {
            "plan": str(self.path),
            "way": self.trial.candidate.name,
            "chosen_with": self.trial.candidate.chosen_with,
            "reasons": list(self.reasons),
            "asked": limits,
            "findings": [text for _, text in self.findings],
            "figures": self.figures.to_dict(),
        }
