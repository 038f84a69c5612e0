"""k-anonymity and sample uniques: how many records stand alone, or nearly, in the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from postrand.risk.counts import k_anonymity
from postrand.risk.file import RiskFile
from postrand.risk.measures.base import Cost, Count, Fact, Measured, require


@dataclass(frozen=True, slots=True)
class KAnonymity:
    """Count the records of small classes; a class is all records with one combination of key values.

    The risk of a record is ``1/f``, f being the size of its class (Sweeney 2002).
    """

    name: ClassVar[str] = "k-anonymity"
    title: ClassVar[str] = "Sample uniques and k-anonymity"
    meaning: ClassVar[str] = "How many records share their key values with few others, or with none."
    cost: ClassVar[Cost] = "counts"
    tolerance: ClassVar[float] = 1e-9

    def supports(self, file: RiskFile) -> str | None:
        """Return None: every file has classes."""
        return None

    def measure(self, file: RiskFile) -> Measured:
        """Count classes and records."""
        require(self, file)
        frequency = file.frequency()
        found = k_anonymity(file.keys)
        below = (
            Fact(f"records_below_{k}", f"Records in classes below {k}", Count(n))
            for k, n in found.records_below.items()
        )
        facts = (
            Fact("records", "Records", file.records),
            Fact("occupied_cells", "Combinations of key values that occur", int(file.cells.counts.size)),
            Fact(
                "sample_uniques",
                "Sample uniques",
                Count((frequency == 1).sum()),
                "Records with a combination of key values that no other record has.",
            ),
            Fact("k", "Smallest class (k)", found.k, "The file is k-anonymous for this k."),
            *below,
        )
        return Measured(self.name, self.title, facts, records_at=1 / np.maximum(frequency, 1))


MEASURE = KAnonymity
