"""τ1 and τ2 by a latent class model, which needs no choice of interactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from postrand.errors import UsageError, raise_all, sentence
from postrand.risk import latent_class
from postrand.risk.file import RiskFile, no_inclusion
from postrand.risk.measures.base import Cost, Count, Fact, Measured, first, require, wildcards
from postrand.risk.measures.tau import tau_facts
from postrand.support.inputs import is_whole
from postrand.support.warned import heard

AVERAGE = "the model uses one inclusion probability for all records, from the average weight"


@dataclass(frozen=True, slots=True)
class LatentClasses:
    """Sample the posterior of ``τ1`` and ``τ2`` (Manrique-Vallier and Reiter 2014); random, with a fixed seed."""

    classes: int = 40
    sweeps: int = 1000
    chains: int = 4
    seed: int = 0

    name: ClassVar[str] = "latent-classes"
    title: ClassVar[str] = "Population uniques by latent classes"
    meaning: ClassVar[str] = "The same as tau, by a model that needs no choice of interactions but more time."
    cost: ClassVar[Cost] = "long"
    tolerance: ClassVar[float] = 0.1

    def __post_init__(self) -> None:
        least = {"classes": 2, "sweeps": 16, "chains": 1, "seed": 0}
        raise_all(
            UsageError,
            [
                sentence(
                    f"{name} is outside its range", got=repr(getattr(self, name)), wanted=f"a whole number >= {low}"
                )
                for name, low in least.items()
                if not is_whole(getattr(self, name), low)
            ],
        )

    def supports(self, file: RiskFile) -> str | None:
        """Return a sentence where the share of the population is not known, or a missing key matches all."""
        return first(
            (not file.has_inclusion, lambda: no_inclusion("the latent class model")),
            (file.keys.has_wildcards, lambda: wildcards("the latent class model")),
        )

    def measure(self, file: RiskFile) -> Measured:
        """Run the chains; ``status`` says whether they converged."""
        require(self, file)
        uniques = Count(file.cells.uniques.sum())
        facts = [Fact("sample_uniques", "Sample uniques", uniques)]
        notes = (AVERAGE,) if file.weights is not None else ()
        if not uniques:
            facts += [Fact("tau1", "Population uniques (tau1)", 0.0), Fact("tau2", "Correct matches (tau2)", 0.0)]
            return Measured(self.name, self.title, tuple(facts), notes=("no sample uniques: tau1 and tau2 are 0",))
        fraction = file.records / float(file.inclusion_weights().sum())
        with heard():  # the status below says it
            found = latent_class.fit(
                file.cells,
                min(fraction, 1.0),
                forbidden=file.rules,
                classes=self.classes,
                sweeps=self.sweeps,
                chains=self.chains,
                seed=self.seed,
            )
        facts += [
            *tau_facts(found.tau1, found.tau2, uniques),
            Fact("converged", "Converged", "yes" if found.converged else "no"),
            Fact("status", "Status", found.status),
        ]
        return Measured(self.name, self.title, tuple(facts), notes=notes)


MEASURE = LatentClasses
