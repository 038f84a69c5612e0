"""ε-differential privacy of a record (ABC (6))."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from postrand.errors import PrivacyError, sentence, shown
from postrand.mechanism.matrix import UNIT, TransitionMatrix, check_epsilon, randomised_response
from postrand.privacy.base import Finding, LinearConstraints, ModelTraits, column_constraints
from postrand.support.exact import add_upper, exp_float, exp_lower, log_upper, within
from postrand.support.guesses import guesses_in_words
from postrand.support.inputs import finite, unquoted
from postrand.support.options import Range
from postrand.support.wordings import say

LEAST_EPSILON = 1e-9
"""Below it, rounding to multiples of 2^-53 decides more than the design does."""

_ROUNDING = 1e-9

EPSILON = Range(0.05, 10.0, 1.0, "nats", "smaller protects more; no answer becomes more than e^ε times as likely")
"""What a form offers for ε."""


@dataclass(frozen=True, slots=True)
class DifferentialPrivacy:
    """Ask that ``M[i,j] <= e^ε M[i',j]`` for all i, i', j: local differential privacy of each record (ABC (6)).

    A product of independent blocks has the product of the blocks' ratios, so their ε add up. Columns that are zero
    throughout are never released and do not count.

    Raises
    ------
    PrivacyError
        If ε is not a positive finite number.

    Examples
    --------
    >>> M = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    >>> DifferentialPrivacy(1.1).check([M]).holds, DifferentialPrivacy(1.0986).check([M]).holds
    (True, False)
    """

    name: ClassVar[str] = "differential"
    traits: ClassVar[ModelTraits] = ModelTraits(
        code="claim.differential",
        plain="Differential privacy: whatever the true answer, no released answer becomes more than e^ε times as "
        "likely. The budgets of a record's variables add up.",
        level="epsilon",
        composition="sum",
        budget=True,
        within_classes=True,
        mixes=True,
        rank=10,
    )
    epsilon: float = field(metadata={"range": EPSILON})

    def __post_init__(self) -> None:
        epsilon = finite(self.epsilon)
        if not epsilon > 0:
            got, wanted = shown(self.epsilon, repr), "a number above 0; usual are 0.5 to 4 for one variable"
            fix = unquoted(self.epsilon)
            raise PrivacyError(sentence("epsilon is not a positive number", got=got, wanted=wanted, fix=fix))
        object.__setattr__(self, "epsilon", epsilon)

    def check(self, matrices: Sequence[TransitionMatrix]) -> Finding:
        """Compare the product of exact ratios with a directed-rounded ``e^ε``; ``level`` is rounded up."""
        ratios = [matrix.ratio for matrix in matrices]
        known = [ratio for ratio in ratios if ratio is not None]
        infinite = len(known) < len(ratios)
        worst = ratios.index(None) if infinite else ratios.index(max(known))
        product = math.prod(known, start=Fraction(1))
        level = math.inf if infinite else log_upper(product)
        text = say("claim.differential", law_level=level)
        return Finding(
            holds=not infinite and within(product, self.epsilon),
            level=level,
            sentence="a released value excludes some true values, so there is no finite ε" if infinite else text,
            worst=worst,
            entries=_worst_entries(matrices[worst]),
        )

    def constraints(self, size: int) -> LinearConstraints:
        """Return ``M[i,j] - e^ε M[k,j] <= 0`` for every column j and ordered pair i != k: S²(S-1) rows."""
        return column_constraints(size, exp_float(self.epsilon), 0.0)

    def stays(self, size: int) -> tuple[float, float]:
        """Return ``1/(1 + (S-1) e^ε)`` and ``1/(1 + (S-1) e^-ε)`` (ABC §3.2.3)."""
        low, high = (1 / (1 + (size - 1) * math.exp(-e)) for e in (-self.epsilon, self.epsilon))
        return low, high

    def response(self, size: int) -> TransitionMatrix:
        """Return randomised response with the largest chance to keep a value."""
        return randomised_response(size, self.epsilon)

    def promise(self, size: int) -> str:
        """Return what the level means for guesses of one of ``size`` values, in words."""
        return guesses_in_words(self.epsilon, size)

    @property
    def spent(self) -> float:
        """The ε that a block takes of a record's budget."""
        return self.epsilon

    def scaled(self, factor: float) -> DifferentialPrivacy:
        """Return the model with ``factor`` times the budget."""
        return replace(self, epsilon=self.epsilon * factor)

    def with_prior(self, epsilon: float) -> DifferentialPrivacy:
        """Return the claim of a block whose prior took ``epsilon``: the sum, rounded up."""
        return replace(self, epsilon=add_upper(self.epsilon, epsilon))

    def require_size(self, size: int) -> None:
        """Raise PrivacyError if ε is too small for exact matrices of ``size`` categories."""
        check_epsilon(self.epsilon, size)
        if self.epsilon < LEAST_EPSILON:
            raise PrivacyError(
                sentence(
                    "epsilon is too small for a matrix in units of 2^-53",
                    got=self.epsilon,
                    wanted=f">= {LEAST_EPSILON:g}",
                    fix="give the variable role = 'drop': its released values would contain almost no information",
                )
            )

    def rounded(self, array: NDArray[np.float64]) -> TransitionMatrix | None:
        """Round column by column into ``[low, floor(e^ε low)]``; the fullest column takes up what rows then lack.

        Only that column needs slack, and it has the smallest relative rounding. None where a row has no room there.
        """
        grown = exp_lower(self.epsilon)
        scaled = array * UNIT
        low = np.ceil(scaled.min(axis=0)).astype(np.int64)
        high = np.array([min(int(w) * grown.numerator // grown.denominator, UNIT) for w in low], dtype=np.int64)
        weights = np.clip(np.rint(scaled).astype(np.int64), low, high)
        fullest = int(low.argmax())
        weights[:, fullest] = 0
        weights[:, fullest] = UNIT - weights.sum(axis=1)
        # Clipping moves a feasible matrix by rounding alone; more means that it was not feasible: mixing must go on.
        moved = np.abs(weights - scaled).max() / UNIT
        return TransitionMatrix(weights) if weights.min() >= 0 and moved <= _ROUNDING else None


def _worst_entries(matrix: TransitionMatrix) -> tuple[int, int, int]:
    """Return the column with the largest ratio of two entries, and the two rows."""
    high, low = matrix.form.columns()
    ratio = np.where(low > 0, high / low.clip(min=1), np.where(high > 0, np.inf, 0))
    column = int(ratio.argmax())
    entries = matrix.form.column(column)
    return column, int(entries.argmax()), int(entries.argmin())
