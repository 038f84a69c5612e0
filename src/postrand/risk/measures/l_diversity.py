"""l-diversity: what a class of records says of a sensitive variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from postrand.errors import PostrandError, sentence
from postrand.risk import counts
from postrand.risk.file import RiskFile
from postrand.risk.measures.base import Cost, Fact, Least, Measured, require, wildcards


@dataclass(frozen=True, slots=True)
class LDiversity:
    """Find the least diversity of each sensitive variable over the classes (Machanavajjhala et al. 2007)."""

    name: ClassVar[str] = "l-diversity"
    title: ClassVar[str] = "l-diversity"
    meaning: ClassVar[str] = "How many values of a sensitive variable occur in the least diverse class of records."
    cost: ClassVar[Cost] = "counts"
    tolerance: ClassVar[float] = 1e-9

    def supports(self, file: RiskFile) -> str | None:
        """Return a sentence where no sensitive variable is named, or cannot be read."""
        if not file.sensitive:
            fix = "name one: --sensitive S"
            return sentence("l-diversity needs a sensitive variable, but none is named", fix=fix)
        if file.keys.has_wildcards:
            return wildcards("l-diversity")
        try:
            for name in file.sensitive:
                file.columns[name]
        except PostrandError as error:
            return error.problems[0]
        return None

    def measure(self, file: RiskFile) -> Measured:
        """Find the least distinct and entropy diversity of each sensitive variable."""
        require(self, file)
        facts = []
        for name in file.sensitive:
            column = file.columns[name]
            codes = np.where(column.codes < 0, column.missing, column.codes)
            found = counts.l_diversity(file.keys, codes, column.size + 1, file.cells)
            even = "The file is entropy l-diverse for this l. 1 is the worst value: a class has one value only."
            few = "Fewest values in a class. 1: anyone who finds the class knows the value."
            facts += [
                Fact(f"{name}_distinct", f"{name}: distinct values, least", found.distinct, few),
                Fact(f"{name}_entropy", f"{name}: exp(entropy), least", Least(found.entropy), even),
            ]
        return Measured(self.name, self.title, tuple(facts))


MEASURE = LDiversity
