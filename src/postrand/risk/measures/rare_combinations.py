"""Rare combinations: which few keys together leave small cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from postrand.errors import UsageError, sentence
from postrand.risk.counts import adding, risky_combinations
from postrand.risk.file import RiskFile
from postrand.risk.measures.base import Cost, Count, Fact, Measured, first, require, wildcards
from postrand.support.inputs import is_whole

MOST = 2_000
"""Combinations of keys that are tried at most."""
NOTHING_NEW = "not in the table: combinations with the rare cells of a part of them, where a key follows from others"


@dataclass(frozen=True, slots=True)
class RareCombinations:
    """Count, for every combination of up to ``size`` keys, the cells with fewer than ``threshold`` records.

    The table leaves out a combination that adds nothing to a part of it: a key in it follows from the others.
    """

    size: int = 3
    threshold: int = 3

    name: ClassVar[str] = "rare-combinations"
    title: ClassVar[str] = "Rare combinations of keys"
    meaning: ClassVar[str] = "Which one, two or three keys together have values that few records share."
    cost: ClassVar[Cost] = "counts"
    tolerance: ClassVar[float] = 1e-9

    def __post_init__(self) -> None:
        if not is_whole(self.size, 1) or not is_whole(self.threshold, 1):
            got = f"size {self.size!r}, threshold {self.threshold!r}"
            raise UsageError(sentence("size or threshold is outside its range", got=got, wanted="whole numbers >= 1"))

    def supports(self, file: RiskFile) -> str | None:
        """Return a sentence where a missing key matches all, or there are too many combinations."""
        keys = len(file.keys.names)
        tried = sum(math.comb(keys, k) for k in range(1, min(self.size, keys) + 1))
        fix = f"set a smaller size: --set {self.name}.size=2"
        return first(
            (file.keys.has_wildcards, lambda: wildcards("the search for rare combinations")),
            (tried > MOST, lambda: sentence("too many combinations of keys", got=tried, wanted=f"<= {MOST}", fix=fix)),
        )

    def measure(self, file: RiskFile) -> Measured:
        """Count the cells of every combination; those with most records in rare cells come first."""
        require(self, file)
        found = risky_combinations(file.keys, self.size, self.threshold)
        rare = [c for c in found if c.cells]
        told = [c for c in adding(found) if c.cells]
        table = tuple(
            {
                "Keys": " x ".join(c.variables),
                f"Cells below {self.threshold}": Count(c.cells),
                "Records in them": Count(c.records),
            }
            for c in told
        )
        facts = (
            Fact("combinations", "Combinations of keys tried", len(found)),
            Fact("with_rare", "Combinations with a rare cell", len(rare)),
        )
        return Measured(self.name, self.title, facts, table, notes=(NOTHING_NEW,) if len(told) < len(rare) else ())


MEASURE = RareCombinations
