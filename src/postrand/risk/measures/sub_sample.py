"""A random part of the file: what would be left of the risk if only that were released."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from postrand.errors import UsageError, sentence
from postrand.risk.file import RiskFile
from postrand.risk.measures.base import Cost, Fact, Measured, require, wildcards
from postrand.risk.sampling import whole_cell_probability
from postrand.support.inputs import finite

NEVER = "sampling alone is never differentially private: a record that is drawn is shown as it is"


@dataclass(frozen=True, slots=True)
class SubSample:
    """Measure the release of each record with probability ``share`` and nothing changed (Shlomo and Skinner 2012, §3).

    This file is the population, and the attacker has all of it as a register. With F records in a class and share π a
    record is drawn and alone with probability ``π (1−π)^(F−1)``, and its link is then right with ``1/F``.
    """

    share: float = 0.1

    name: ClassVar[str] = "sub-sample"
    title: ClassVar[str] = "A random part of the file"
    meaning: ClassVar[str] = "How much risk remains if only a random part of the file is released."
    cost: ClassVar[Cost] = "counts"
    tolerance: ClassVar[float] = 1e-9

    def __post_init__(self) -> None:
        if not 0 < finite(self.share) <= 1:
            raise UsageError(sentence("the share is outside its range", got=repr(self.share), wanted="(0, 1]"))

    def supports(self, file: RiskFile) -> str | None:
        """Return a sentence where a missing key matches all."""
        return wildcards("the risk of a sub-sample") if file.keys.has_wildcards else None

    def measure(self, file: RiskFile) -> Measured:
        """Sum over the classes of the file, all in closed form."""
        require(self, file)
        counts = file.cells.counts.astype(np.float64)
        alone = self.share * np.power(1 - self.share, counts - 1)
        facts = (
            Fact("share", "Share of the file that is released", float(self.share)),
            Fact("uniques", "Expected uniques of the part", float((counts * alone).sum())),
            Fact(
                "right",
                "Expected correct matches, attacker with the file",
                float(alone.sum()),
                "When each unique of the part is linked once with this file.",
            ),
            Fact(
                "whole_uniques",
                "Expected uniques of the part that are unique in the file",
                self.share * float((counts == 1).sum()),
            ),
            Fact(
                "whole_class",
                "Probability that some class is drawn whole",
                whole_cell_probability(counts, self.share) if counts.size else 0.0,
                "Then a file without one of these records could not produce the part.",
            ),
        )
        of_record = (alone / counts)[file.cells.record_cell]
        return Measured(self.name, self.title, facts, notes=(NEVER,), records_at=of_record)


MEASURE = SubSample
