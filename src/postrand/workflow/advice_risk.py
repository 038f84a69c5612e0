"""The limits that need the records: each candidate's level that keeps them, and the values of the limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from postrand.codebook import Codebook
from postrand.engines.database import open_records
from postrand.errors import PostrandError
from postrand.plan import Plan
from postrand.risk.exposure import TrueFile
from postrand.risk.report import RiskReport
from postrand.support.progress import Stage, stage
from postrand.workflow.advice_choice import Trial
from postrand.workflow.advice_needs import Limit, Needs
from postrand.workflow.as_is import risks_as_is
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.comparison_risk import RiskFigure, many_alone, risk_figures
from postrand.workflow.design_blocks import design_blocks
from postrand.workflow.dossier_risk import assess
from postrand.workflow.doubted import DOUBTED, certain, certain_share
from postrand.workflow.known import Known
from postrand.workflow.plan_figures import certified, computed
from postrand.workflow.planned import mechanism_of
from postrand.workflow.unperturbed import findings

LEVELS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0)
"""The totals of ε that a search tries first; between two of them it halves the gap."""
NARROW = 0.05
"""A search ends where the next level that breaks a limit is above the one that keeps it by at most this part."""
NOT_ASKED = "no limit names it; 'postrand explain' computes it"


def values(limit: Limit, risks: Sequence[RiskFigure]) -> tuple[float | None, float | None]:
    """Return a limit's measure before and after protection; None where it is not known, or decides nothing.

    Where a share may be beyond the limit, the measure is the share that is.
    """
    found = _named(limit, risks)
    if found is None or not limit.share:
        return (None, None) if found is None else (found.before, certain(found, limit.bound))
    before = next((share for at, share, _ in found.shares if at == limit.bound), None)
    return before, certain_share(found, limit.bound, limit.share)


def why_unknown(limit: Limit, risks: Sequence[RiskFigure]) -> str:
    """Return the reason why a limit's measure is not known; "" where none is stated."""
    found = _named(limit, risks)
    if found is None:
        return ""
    return DOUBTED if not found.why and found.after is not None else found.why


def is_bound(limit: Limit, risks: Sequence[RiskFigure]) -> bool:
    """Return whether the value of a limit after protection is an upper bound of a figure that can be too low."""
    found, after = _named(limit, risks), values(limit, risks)[1]
    return found is not None and after is not None and found.after is not None and after > found.after


def _named(limit: Limit, risks: Sequence[RiskFigure]) -> RiskFigure | None:
    code = limit.measure + "_largest" * (limit.is_probability and not limit.share)
    return next((one for one in risks if one.code == code), None)


class Risks:
    """The risks of plans on one file; what does not depend on the plan is read once for each codebook.

    τ1 and τ2 take longer than all the rest: measured where a limit names one of them, and of the plans that are shown
    where so many records are alone with their keys that the register attacker's figures are doubted. The register
    attacker is measured where it is asked about, or a limit is about it.
    """

    def __init__(self, place: Any, fraction: float | None, needs: Needs) -> None:
        self.place, self.fraction = place, fraction
        self.modelled = any(limit.measure in ("tau1", "tau2") for limit in needs.limits)
        self.registers = needs.attacker == "register" or any(one.measure.startswith("register") for one in needs.limits)
        self._held: dict[Codebook, tuple[TrueFile | None, RiskReport | None]] = {}
        self._known: dict[Codebook, Known] = {}
        self._as_is: dict[Codebook, dict[str, float]] = {}
        self.shared: set[str] = set()  # the variables that all members of a household share, of plans that perturb them

    def of(self, trial: Trial) -> tuple[RiskFigure, ...]:
        """Return every measure of a trial's plan."""
        truth, report = self._file(trial.plan.codebook)
        return risk_figures(truth, report if self.modelled else None, trial.mechanism)

    def meets(self, trial: Trial, limits: Sequence[Limit]) -> bool:
        """Return whether a trial's plan keeps every limit."""
        found = self.of(trial)
        return all(limit.meets(values(limit, found)[1]) for limit in limits)

    def figures(self, plan: Plan, trial: Trial, name: str) -> tuple[PlanFigures, tuple[tuple[str, str], ...]]:
        """Return a plan's figures, as ``plan_figures.figures_of``, and the findings, each a heading and a sentence."""
        known = Known.of(plan, dossier=True, before=self._known.get(plan.codebook))
        known.check_units()  # the trial was designed from the codebook alone: protect would refuse what the file breaks
        self._known[plan.codebook] = known
        mechanism = mechanism_of(plan, design_blocks(plan, known), known) if plan.numerical else trial.mechanism
        truth, report = self._file(plan.codebook)
        found = findings(plan, mechanism, known)
        self.shared |= {one.name for one in found.shared if one.is_much}
        told = (*found.headed, *(("Decide", text) for text in found.refusals))  # protect asks for it
        certificate = certified(known, mechanism)
        if plan.codebook not in self._as_is:
            self._as_is[plan.codebook] = risks_as_is(known.source, plan.codebook, truth)
        stage(Stage.RISK)
        risks, as_is = risk_figures(truth, report, mechanism), self._as_is[plan.codebook]
        return computed(known, mechanism, certificate, risks, as_is, name=name, told=found), told

    def _file(self, book: Codebook) -> tuple[TrueFile | None, RiskReport | None]:
        if book not in self._held:
            source = open_records(self.place, book)
            truth = TrueFile.read(source, book, self.fraction)
            is_doubted = self.registers and truth is not None and many_alone(truth.keys)
            report = assess(source, book, fraction=self.fraction)[0] if self.modelled or is_doubted else None
            if truth is not None and not self.modelled:
                weights = truth.weights if self.registers else None
                truth = dataclasses.replace(truth, weights=weights, note=NOT_ASKED)
            self._held[book] = (truth, report)
        return self._held[book]


def within(
    trial: Trial, limits: Sequence[Limit], risks: Risks, again: Callable[[float], Trial | None]
) -> tuple[Trial, bool]:
    """Return the trial at the largest level up to its own that keeps the limits, and whether one does.

    The largest to within ``NARROW``. Without one, the trial of the smallest level. The risk is taken to rise with ε.
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
        return _closer(best, [*levels, trial.epsilon][low], limits, risks, again), True
    least = _made(again, levels[0]) if levels else None
    return (trial if least is None else least), False


def _closer(
    best: Trial, broken: float, limits: Sequence[Limit], risks: Risks, again: Callable[[float], Trial | None]
) -> Trial:
    """Return a trial that keeps the limits at a level from that of ``best`` to ``broken``, which breaks them."""
    while broken - best.epsilon > NARROW * best.epsilon + 1e-9:
        level = float(f"{(best.epsilon + broken) / 2:.2g}")
        if not best.epsilon < level < broken:
            break
        found = _made(again, level)
        if found is not None and risks.meets(found, limits):
            best = found
        else:
            broken = level
    return best


def _made(again: Callable[[float], Trial | None], level: float) -> Trial | None:
    try:
        return again(level)
    except PostrandError:
        return None
