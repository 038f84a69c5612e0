"""ρ-zero-concentrated differential privacy of a record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from postrand.errors import PrivacyError, sentence, shown
from postrand.mechanism.matrix import TransitionMatrix
from postrand.privacy.base import Finding, LinearConstraints, ModelTraits, column_constraints, stays_inside
from postrand.privacy.levels import zcdp
from postrand.support.guesses import divergence_in_words
from postrand.support.inputs import finite
from postrand.support.options import Range
from postrand.support.wordings import fill

_HINT = "smaller protects more; ρ = ε²/2 is implied by ε"


@dataclass(frozen=True, slots=True)
class ConcentratedPrivacy:
    """Ask that the Rényi divergence of every order a > 1 is at most ``ρ a`` (Bun & Steinke 2016).

    Levels of independent blocks add up, or to less. The ρ of a law is bounded from above:
    :func:`postrand.privacy.levels.zcdp`.

    Raises
    ------
    PrivacyError
        If ρ is not a positive finite number.

    Examples
    --------
    >>> M = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    >>> ConcentratedPrivacy(0.56).check([M]).holds, ConcentratedPrivacy(0.5).check([M]).holds
    (True, False)
    """

    name: ClassVar[str] = "concentrated"
    wording: ClassVar[str] = (
        "each record's perturbed values are released under zero-concentrated differential privacy, ρ <= {level:up}"
    )
    traits: ClassVar[ModelTraits] = ModelTraits(
        code="claim.concentrated",
        plain="The release moves the odds of two true answers little on average, and large moves are rare: means of "
        "all powers are limited by one number ρ.",
        level="rho",
        composition="sum",
        mixes=True,
        linear=False,
        ends_proven=False,
        structure="symmetric",
        rank=80,
    )
    rho: float = field(metadata={"range": Range(0.001, 5.0, 0.1, "nats", _HINT)})

    def __post_init__(self) -> None:
        rho = finite(self.rho)
        if not rho > 0:
            raise PrivacyError(sentence("rho is not a positive number", got=shown(self.rho, repr), wanted="> 0"))
        object.__setattr__(self, "rho", rho)

    def promise(self, size: int) -> str:
        """Return what the level means for guesses between two values, in words; ``size`` does not matter."""
        return divergence_in_words(self.rho)

    def check(self, matrices: Sequence[TransitionMatrix]) -> Finding:
        """Compare ρ with an upper bound of the blocks' together."""
        level, each = zcdp(matrices), [matrix.epsilon for matrix in matrices]
        text = fill(self.wording, level=level)
        return Finding(level <= self.rho, level, text, each.index(max(each)), "the pair of rows that differ most")

    def constraints(self, size: int) -> LinearConstraints:
        """Return ``M[i,j] - M[k,j] <= √(ρ/2)`` for every column j and pair i != k (Pinsker): necessary, not enough."""
        return column_constraints(size, 1.0, math.sqrt(self.rho / 2))

    def stays(self, size: int) -> tuple[float, float]:
        """Return the ends of randomised response, found by bisection: inside the interval."""
        return stays_inside(self, size)
