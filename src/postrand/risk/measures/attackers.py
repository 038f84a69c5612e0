"""The informed and the register attacker: the prosecutor, the journalist and the marketer of the literature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from postrand.risk import loglinear
from postrand.risk.cells import FloatArray
from postrand.risk.file import RiskFile, no_inclusion
from postrand.risk.measures.base import HIGH, Cost, Count, Fact, Measured, check_threshold, first, require, wildcards
from postrand.risk.readings import inverse_population, readings
from postrand.support.measure_names import BY_MODEL, OF_ESTIMATES


@dataclass(frozen=True, slots=True)
class Attackers:
    """Read the file as both attackers do; a risk above ``threshold`` is called high.

    The informed attacker is the prosecutor of El Emam and Dankar (2008), the register attacker the journalist, and the
    marketer where all records are linked. The register attacker's risk of a record is ``E(1/F | f)`` under the
    log-linear model of the file; by the weights it is that of :mod:`postrand.risk.measures.individual`.
    """

    threshold: float = HIGH

    name: ClassVar[str] = "attackers"
    title: ClassVar[str] = "Informed and register attacker"
    meaning: ClassVar[str] = (
        "The risk from an attacker who knows that a person is in the file, and from one who does not, by a model."
    )
    cost: ClassVar[Cost] = "model"
    tolerance: ClassVar[float] = 1e-4  # as the model's

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def supports(self, file: RiskFile) -> str | None:
        """Return a sentence where the share of the population is not known, or a missing key matches all."""
        return first(
            (not file.has_inclusion, lambda: no_inclusion("the risk from the register attacker")),
            (file.keys.has_wildcards, lambda: wildcards("the risk from the register attacker")),
        )

    def measure(self, file: RiskFile) -> Measured:
        """Read the file three times."""
        require(self, file)
        inverse = self._inverse(file)
        found = readings(file.frequency(), inverse, threshold=self.threshold)
        facts = []
        model = f"Register attacker, {BY_MODEL}"
        for code, who, reading, meaning in (
            ("prosecutor", "Informed attacker", found.prosecutor, "Knows that the person is in the file: 1/f."),
            ("journalist", model, found.journalist, "Does not know it, and looks for any person: E(1/F given f)."),
        ):
            if reading is not None:
                high = Count(round(reading.at_risk * file.records))
                facts += [
                    Fact(f"{code}_mean", f"{who}: mean risk", reading.average, meaning),
                    Fact(f"{code}_largest", f"{who}: largest risk", reading.highest),
                    Fact(f"{code}_high", f"{who}: records above {self.threshold:g}", high),
                ]
        share = "Expected share of correct matches when all records are linked."
        facts.append(Fact("marketer", f"{model}: share of correct matches", found.marketer, share))
        return Measured(self.name, self.title, tuple(facts), notes=(OF_ESTIMATES,), records_at=inverse)

    @staticmethod
    def _inverse(file: RiskFile) -> FloatArray:
        """Return ``E(1/F | f)`` of each record, shape (n,)."""
        found = file.modelled().inverse
        if found is not None:
            return found
        # Without sample uniques nothing was fitted yet; there is no search for a model either.
        fit = loglinear.fit(file.cells, "two-way" if file.model == "search" else file.model, forbidden=file.rules)
        inclusion = file.inclusion()
        assert inclusion is not None  # `supports` says so
        at: FloatArray = inverse_population(file.cells.counts, fit.at(file.cells.codes), inclusion)[
            file.cells.record_cell
        ]
        return at


MEASURE = Attackers
