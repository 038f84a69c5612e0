"""τ1 and τ2: population uniques and correct matches among the sample uniques, by a log-linear model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from postrand.risk.file import RiskFile, no_inclusion
from postrand.risk.measures.base import Cost, Count, Fact, Least, Measured, first, require, wildcards
from postrand.risk.tau import Tau, is_told_by_estimates

INTERVAL = "From the population given the model, the fitted parameters, and an allowance for the model's own error."


@dataclass(frozen=True, slots=True)
class PopulationUniques:
    """Estimate ``τ1 = Σ P(F=1 | f=1)`` and ``τ2 = Σ E(1/F | f=1)`` over sample uniques (Shlomo and Skinner 2012, §2).

    The model is the file's: see :func:`postrand.risk.assess`.
    """

    name: ClassVar[str] = "tau"
    title: ClassVar[str] = "Population uniques (tau1) and correct matches (tau2)"
    meaning: ClassVar[str] = (
        "How many sample uniques are unique in the population, and how many links would be correct."
    )
    cost: ClassVar[Cost] = "model"
    tolerance: ClassVar[float] = 1e-4  # two fits stop at margins within 1e-6 of the same data

    def supports(self, file: RiskFile) -> str | None:
        """Return a sentence where the share of the population is not known, or a missing key matches all."""
        return first(
            (not file.has_inclusion, lambda: no_inclusion("the estimate of population uniques")),
            (file.keys.has_wildcards, lambda: wildcards("the estimate of population uniques")),
        )

    def measure(self, file: RiskFile) -> Measured:
        """Fit the model and estimate both."""
        require(self, file)
        found = file.modelled()
        uniques = Count(file.cells.uniques.sum())
        facts = [Fact("sample_uniques", "Sample uniques", uniques)]
        if found.tau1 is not None and found.tau2 is not None:
            facts += tau_facts(found.tau1, found.tau2, uniques)
        facts += [
            Fact("model", "Model", str(found.model or "none")),
            Fact("status", "Status", found.status),
        ]
        return Measured(self.name, self.title, tuple(facts), notes=found.notes, records_at=found.risk2)


def tau_facts(tau1: Tau, tau2: Tau, uniques: Count) -> list[Fact]:
    """Return both estimates, less their bias, with the ends of their intervals.

    Of fewer than 5 sample ``uniques`` their number stands in their place, as in
    :class:`postrand.risk.report.RiskReport`: the estimates, which can be no more, would tell it.
    """
    facts = []
    for name, tau, label, meaning in (
        ("tau1", tau1, "Population uniques (tau1)", "Expected sample uniques that are unique in the population."),
        ("tau2", tau2, "Correct matches (tau2)", "Expected correct matches when each sample unique is linked once."),
    ):
        if is_told_by_estimates(uniques):
            facts.append(Fact(name, label, uniques, meaning))
            continue
        facts.append(Fact(name, label, tau.corrected, meaning))
        if tau.interval is not None:
            facts.append(Fact(f"{name}_low", f"{name}, lower end of 95% interval", Least(tau.interval[0]), INTERVAL))
            facts.append(Fact(f"{name}_high", f"{name}, upper end of 95% interval", tau.interval[1], INTERVAL))
    return facts


MEASURE = PopulationUniques
