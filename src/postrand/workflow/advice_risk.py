"""The limits that need the records: each candidate's level that keeps them, and the values of the limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from postrand.codebook import Codebook
from postrand.engines.database import open_records
from postrand.errors import PostrandError
from postrand.risk.exposure import TrueFile
from postrand.risk.report import RiskReport
from postrand.workflow.advice_choice import Trial, designed
from postrand.workflow.advice_needs import Limit
from postrand.workflow.comparison_risk import RiskFigure, risk_figures
from postrand.workflow.dossier_risk import assess

LEVELS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0)
"""The totals of ε that a search tries."""
CODES = {
    "k": "individual_risk_largest",
    "tau1": "tau1",
    "tau2": "tau2",
    "correct matches": "correct_matches",
    "individual": "individual_risk_largest",
    "household": "household_risk_largest",
}
"""The figure of each measure of a limit; that of k is one over it."""


def values(limit: Limit, risks: Sequence[RiskFigure]) -> tuple[float | None, float | None]:
    """Return a limit's measure before and after protection; None where it is not known."""
    found = next((one for one in risks if one.code == CODES[limit.measure]), None)
    sides = (None, None) if found is None else (found.before, found.after)
    if limit.measure != "k":
        return sides
    return tuple(None if side is None else 1 / side if side > 0 else float("inf") for side in sides)  # type: ignore[return-value]  # two of them


class Risks:
    """The risks of mechanisms on one file; what does not depend on the mechanism is read once for each codebook."""

    def __init__(self, place: Any, fraction: float | None) -> None:
        self.place, self.fraction = place, fraction
        self._held: dict[int, tuple[Codebook, TrueFile | None, RiskReport | None]] = {}

    def of(self, trial: Trial) -> tuple[RiskFigure, ...]:
        """Return every measure of a trial's plan."""
        book = trial.plan.codebook
        if id(trial.candidate.book) not in self._held:
            source = open_records(self.place, book)
            report, _ = assess(source, book, fraction=self.fraction)
            self._held[id(trial.candidate.book)] = (book, TrueFile.read(source, book, self.fraction), report)
        _, truth, report = self._held[id(trial.candidate.book)]
        return risk_figures(truth, report, designed(trial.plan))

    def meets(self, trial: Trial, limits: Sequence[Limit]) -> bool:
        """Return whether a trial's plan keeps every limit."""
        found = self.of(trial)
        return all(limit.meets(values(limit, found)[1]) for limit in limits)


def within(
    trial: Trial, limits: Sequence[Limit], risks: Risks, again: Callable[[float], Trial | None]
) -> tuple[Trial, bool]:
    """Return the trial at the largest level up to its own that keeps the limits, and whether one does.

    Without one, the trial of the smallest level. The risk is taken to rise with ε.
    """
    if risks.meets(trial, limits):
        return trial, True
    if not trial.candidate.has_epsilon:
        return trial, False
    levels = [level for level in LEVELS if level < trial.epsilon]
    best: Trial | None = None
    low, high = 0, len(levels)
    while low < high:
        middle = (low + high) // 2
        found = _made(again, levels[middle])
        if found is not None and risks.meets(found, limits):
            best, low = found, middle + 1
        else:
            high = middle
    if best is not None:
        return best, True
    least = _made(again, levels[0]) if levels else None
    return (trial if least is None else least), False


def _made(again: Callable[[float], Trial | None], level: float) -> Trial | None:
    try:
        return again(level)
    except PostrandError:
        return None


