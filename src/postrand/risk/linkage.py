"""The outcome of a linkage attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from postrand.risk.cells import FloatArray

Knowledge = Literal["exact", "nearest", "matrix", "keys"]


@dataclass(frozen=True, slots=True, eq=False)
class Linkage:
    """The outcome of an attack on m targets that are in the released file.

    ``correct`` (m,) is the probability that the attacker's link of each target is right, a tie being broken at random;
    ``claimed`` (m,) what the attacker expects of it, 0 where no record is a candidate. ``rate`` and ``claimed_rate``
    are their means, ``confident`` the number of targets whose claimed probability exceeds one half and
    ``confident_correct`` the number of correct links expected among them. ``correction`` is the factor that the
    attacker's claims were multiplied by (see :func:`link`).
    """

    knowledge: Knowledge
    correct: FloatArray
    claimed: FloatArray
    correction: float = 1.0

    @property
    def rate(self) -> float:
        """The measured share of correct links."""
        return float(self.correct.mean()) if self.correct.size else 0.0

    @property
    def claimed_rate(self) -> float:
        """The share of correct links that the attacker's model predicts."""
        return float(self.claimed.mean()) if self.claimed.size else 0.0

    @property
    def confident(self) -> int:
        """The number of targets that the attacker claims with probability above one half."""
        return int((self.claimed > 0.5).sum())

    @property
    def confident_correct(self) -> float:
        """The expected number of correct links among the confident ones."""
        return float(self.correct[self.claimed > 0.5].sum())
