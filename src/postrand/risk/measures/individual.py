"""The risk of each person: the chance that a link to their record is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from postrand.risk.file import RiskFile, no_inclusion
from postrand.risk.measures.base import (
    HIGH,
    Cost,
    Fact,
    Histogram,
    Measured,
    check_threshold,
    first,
    require,
    spread,
    wildcards,
)
from postrand.support.measure_names import BY_WEIGHTS


@dataclass(frozen=True, slots=True)
class IndividualRisk:
    """Measure ``r = E(1/F | f)`` of each record, exact (Benedetti and Franconi 1998; Polettini 2003).

    Given the size f of a record's class, F persons of the population have its key values: F is negative binomial with
    ``p = f / Σ weights`` of the class. A risk above ``threshold`` is called high.
    """

    threshold: float = HIGH

    name: ClassVar[str] = "individual"
    title: ClassVar[str] = f"Risk of persons, {BY_WEIGHTS}"
    meaning: ClassVar[str] = "The probability that a link of a record to a person of the population is correct."
    cost: ClassVar[Cost] = "counts"
    tolerance: ClassVar[float] = 1e-9

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def supports(self, file: RiskFile) -> str | None:
        """Return a sentence where the share of the population is not known, or a missing key matches all."""
        return first(
            (not file.has_inclusion, lambda: no_inclusion("the risk of persons")),
            (file.keys.has_wildcards, lambda: wildcards("the risk of persons")),
        )

    def measure(self, file: RiskFile) -> Measured:
        """Measure every record."""
        require(self, file)
        risk = file.individual()
        expected = Fact(
            "expected",
            f"Expected correct matches, register attacker, {BY_WEIGHTS}",
            float(risk.sum()),
            "When each record is linked with a person of the population that has its key values: the sum of the risks.",
        )
        facts = (expected, *spread(risk, "persons", self.threshold))
        return Measured(self.name, self.title, facts, histogram=Histogram.of(risk, "persons"), records_at=risk)


MEASURE = IndividualRisk
