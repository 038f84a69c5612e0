"""SUDA scores: the small sets of keys that make a record stand alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from postrand.errors import UsageError, sentence
from postrand.risk.file import RiskFile
from postrand.risk.measures.base import Cost, Count, Fact, Measured, require
from postrand.risk.suda import problem, suda
from postrand.support.inputs import is_whole

SCORE = "A record that few keys single out has a high score: look at it first."
INVOLVES = "Share of all scores in which it takes part"
ADD_UP = "a set of several keys counts for each of them, so the shares of the keys can add up to more than 1"


@dataclass(frozen=True, slots=True)
class SudaScores:
    """Find the minimal sample uniques of up to ``max_size`` keys, all sizes where None (Elliot, Manning and Ford 2002).

    The risk of a record is its score, which has no upper end.
    """

    max_size: int | None = None

    name: ClassVar[str] = "suda"
    title: ClassVar[str] = "Minimal sample uniques and SUDA scores"
    meaning: ClassVar[str] = "Which small sets of keys single out a record, and which keys contribute most."
    cost: ClassVar[Cost] = "counts"
    tolerance: ClassVar[float] = 1e-9

    def __post_init__(self) -> None:
        if self.max_size is not None and not is_whole(self.max_size, 1):
            what = "max_size is outside its range"
            raise UsageError(sentence(what, got=repr(self.max_size), wanted="a whole number >= 1"))

    def supports(self, file: RiskFile) -> str | None:
        """Return a sentence where a missing key matches all, or there are too many sets of keys."""
        return problem(file.keys, self._largest(file))

    def measure(self, file: RiskFile) -> Measured:
        """Search the sets of keys by size, and score the records."""
        require(self, file)
        found = suda(file.keys, self._largest(file))
        alone = found.found > 0
        facts = [
            Fact("records", "Records with a minimal sample unique", Count(alone.sum())),
            Fact("largest_score", "Largest score", float(found.score.max(initial=0.0)), SCORE),
            Fact("mean_score", "Mean score of all records", float(found.score.mean()) if file.records else 0.0),
        ]
        for size in range(1, found.max_size + 1):
            words = f"Records singled out by {size} {'key' if size == 1 else 'keys'}, not by fewer"
            facts.append(Fact(f"smallest_{size}", words, Count((found.smallest == size).sum())))
        order = np.argsort(-found.contribution, kind="stable")
        table = tuple({"Key": found.names[j], INVOLVES: float(found.contribution[j])} for j in order)
        return Measured(self.name, self.title, tuple(facts), table, notes=(ADD_UP,), records_at=found.score)

    def _largest(self, file: RiskFile) -> int:
        return len(file.keys.names) if self.max_size is None else min(self.max_size, len(file.keys.names))


MEASURE = SudaScores
