"""Rényi differential privacy of a record, at one order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from postrand.errors import PrivacyError, raise_all, sentence, shown
from postrand.mechanism.matrix import TransitionMatrix
from postrand.privacy.base import Finding, LinearConstraints, ModelTraits, column_constraints, stays_inside
from postrand.privacy.levels import renyi
from postrand.support.guesses import divergence_in_words
from postrand.support.inputs import finite
from postrand.support.options import Range
from postrand.support.wordings import fill

_HINT = "smaller protects more: the Rényi divergence at this order"


@dataclass(frozen=True, slots=True)
class RenyiPrivacy:
    """Ask that the Rényi divergence of order a between any two true records is at most ``level`` (Mironov 2017).

    ``max_{i,k} ln(Σ_j M[i,j]^a M[k,j]^(1-a)) / (a-1)``; levels of independent blocks add up at one order.

    Raises
    ------
    PrivacyError
        If the order is not above 1 and finite, or the level is not a positive finite number.

    Examples
    --------
    >>> M = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    >>> RenyiPrivacy(0.85, order=2.0).check([M]).holds, RenyiPrivacy(0.84, order=2.0).check([M]).holds
    (True, False)
    """

    name: ClassVar[str] = "renyi"
    wording: ClassVar[str] = (
        "each record's perturbed values are released under Rényi differential privacy of order {order}, level <= "
        "{level:up}"
    )
    traits: ClassVar[ModelTraits] = ModelTraits(
        code="claim.renyi",
        plain="The release moves the odds of two true answers little on average: a mean of powers of how much more "
        "likely an answer becomes is limited. Rare answers may move them more.",
        level="level",
        composition="sum",
        mixes=True,
        linear=False,
        ends_proven=False,
        structure="symmetric",
        rank=70,
    )
    level: float = field(metadata={"range": Range(0.01, 10.0, 0.5, "nats", _HINT)})
    order: float = 2.0

    def __post_init__(self) -> None:
        level, order = finite(self.level), finite(self.order)
        problems = []
        if not level > 0:
            got = shown(self.level, repr)
            problems.append(sentence("the level is not a positive number", got=got, wanted="0 < level < inf"))
        if not order > 1:
            got = shown(self.order, repr)
            problems.append(sentence("the Rényi order is not above 1", got=got, wanted="1 < order < inf"))
        raise_all(PrivacyError, problems)
        object.__setattr__(self, "level", level)
        object.__setattr__(self, "order", order)

    def promise(self, size: int) -> str:
        """Return what the level means for guesses between two values, in words; ``size`` does not matter."""
        return divergence_in_words(self.level)

    def check(self, matrices: Sequence[TransitionMatrix]) -> Finding:
        """Compare the level with the blocks' own, rounded up and summed."""
        each = [renyi(matrix, self.order) for matrix in matrices]
        level = renyi(matrices, self.order)
        text = fill(self.wording, order=self.order, level=level)
        return Finding(level <= self.level, level, text, each.index(max(each)), "the pair of rows that differ most")

    def constraints(self, size: int) -> LinearConstraints:
        """Return ``M[i,j] - M[k,j] <= √(level/2)`` for every column j and pair i != k (Pinsker): necessary."""
        return column_constraints(size, 1.0, math.sqrt(self.level / 2))

    def stays(self, size: int) -> tuple[float, float]:
        """Return the ends of randomised response, found by bisection: inside the interval."""
        return stays_inside(self, size)
