"""The risk of households: the chance that a member is found, who gives the others away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from postrand.errors import sentence
from postrand.risk.file import RiskFile, no_inclusion
from postrand.risk.joint_households import register_joint_risk
from postrand.risk.measures.base import (
    HIGH,
    Cost,
    Count,
    Fact,
    Histogram,
    Measured,
    check_threshold,
    first,
    require,
    spread,
    wildcards,
)
from postrand.risk.weights import household_risk, whole_household_risk
from postrand.support.measure_names import BY_WEIGHTS


@dataclass(frozen=True, slots=True)
class HouseholdRisk:
    """Measure ``1 − Π (1 − r_i)`` and ``Π r_i`` of each household, r being the risk of its persons.

    Members count as independent, as in sdcMicro (Templ, Kowarik and Meindl 2015). A risk above ``threshold`` is
    called high. To an attacker who knows the keys of all members, a household is found with ``E(1/F | f)``, F and f
    counting households of population and file with its size and its members' keys, or as one of its members is, if
    that is more: such an attacker can look for each by itself. A record without a household
    number is a household of its own. The risk of a record is that of its household.
    """

    threshold: float = HIGH

    name: ClassVar[str] = "households"
    title: ClassVar[str] = f"Risk of households, {BY_WEIGHTS}"
    meaning: ClassVar[str] = "The probability that at least one member of a household is found, and that all are."
    cost: ClassVar[Cost] = "counts"
    tolerance: ClassVar[float] = 1e-9

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def supports(self, file: RiskFile) -> str | None:
        """Return a sentence where households or the share of the population are not known."""
        fix = "name the column of household numbers: --household H"
        return first(
            (file.household is None, lambda: sentence("no column of household numbers is named", fix=fix)),
            (not file.has_inclusion, lambda: no_inclusion("the risk of households")),
            (file.keys.has_wildcards, lambda: wildcards("the risk of households")),
        )

    def measure(self, file: RiskFile) -> Measured:
        """Measure every household."""
        require(self, file)
        assert file.household is not None  # `supports` says so
        risk = file.individual()
        _, one_of = np.unique(file.household, return_index=True)
        of_record = household_risk(risk, file.household)
        some, whole = of_record[one_of], whole_household_risk(risk, file.household)[one_of]
        linked = register_joint_risk(file.keys, file.inclusion_weights(), file.household)
        joint = np.maximum(linked, some)  # who knows all members can look for each by itself
        facts = (
            Fact("households", "Households", Count(one_of.size)),
            Fact("expected", "Expected households with a member found", float(some.sum())),
            Fact(
                "expected_persons",
                "Expected persons in them",
                float(of_record.sum()),
                "If one member is found, all members of the household count as found.",
            ),
            *spread(some, "households", self.threshold),
            Fact("whole_expected", "Expected households with all members found", float(whole.sum())),
            Fact("joint_expected", "Expected households found, the keys of all members known", float(joint.sum())),
            Fact("joint_largest", "Largest risk, the keys of all members known", float(joint.max(initial=0.0))),
            Fact("whole_largest", "Largest risk that all members are found", float(whole.max(initial=0.0))),
        )
        drawn = Histogram.of(some, "households")
        return Measured(self.name, self.title, facts, histogram=drawn, records_at=of_record)


MEASURE = HouseholdRisk
