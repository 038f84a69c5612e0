"""(ε, δ)-differential privacy of a record: ε, but for a part δ of what may happen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from postrand.errors import PrivacyError, raise_all, sentence, shown
from postrand.mechanism.matrix import TransitionMatrix
from postrand.privacy.base import Finding, LinearConstraints, ModelTraits, column_constraints
from postrand.privacy.composition import delta_upper
from postrand.privacy.differential import EPSILON
from postrand.support.exact import exp_float
from postrand.support.guesses import guesses_in_words
from postrand.support.inputs import finite
from postrand.support.options import Range
from postrand.support.wordings import fill

_HINT = "smaller protects more: the part of what may happen that ε does not cover; keep it far below 1 / records"


@dataclass(frozen=True, slots=True)
class ApproximateDifferentialPrivacy:
    """Ask that ``Σ_j max(0, M[i,j] - e^ε M[k,j]) <= δ`` for all i, k, of the record's blocks together.

    Of many blocks it is more than the sum of their ε says: twenty at ε = 0.5 are 10, and (8, 0.001) too. δ is summed
    exactly or bounded from above: :func:`postrand.privacy.composition.delta_upper`.

    Raises
    ------
    PrivacyError
        If ε is not a positive finite number, or δ not in (0, 1).

    Examples
    --------
    >>> from postrand.mechanism.matrix import randomised_response
    >>> laws = [randomised_response(2, 0.5)] * 20
    >>> [ApproximateDifferentialPrivacy(8.0, d).check(laws).holds for d in (1e-3, 1e-4)]
    [True, False]
    """

    name: ClassVar[str] = "approximate"
    wording: ClassVar[str] = (
        "each record's perturbed values are released under (ε, δ)-differential privacy, "
        "ε = {epsilon} and δ <= {level:up}"
    )
    traits: ClassVar[ModelTraits] = ModelTraits(
        code="claim.approximate",
        plain="Differential privacy with an exception: but for a chance of δ, no released answer becomes more than e^ε "
        "times as likely, whatever the true answer.",
        level="delta",
        mixes=True,
        linear=False,
        structure="symmetric",
        rank=60,
    )
    epsilon: float = field(metadata={"range": EPSILON})
    delta: float = field(metadata={"range": Range(1e-12, 1e-2, 1e-6, "probability", _HINT)})

    def __post_init__(self) -> None:
        epsilon, delta = finite(self.epsilon), finite(self.delta)
        problems = []
        if not epsilon > 0:
            got = shown(self.epsilon, repr)
            problems.append(sentence("epsilon is not a positive number", got=got, wanted="0 < epsilon < inf"))
        if not 0 < delta < 1:
            got = shown(self.delta, repr)
            problems.append(sentence("delta is not a probability", got=got, wanted="0 < delta < 1"))
        raise_all(PrivacyError, problems)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)

    def check(self, matrices: Sequence[TransitionMatrix]) -> Finding:
        """Compare δ with an upper bound of δ(ε); ``level`` is that bound."""
        level = delta_upper(matrices, self.epsilon)
        text = fill(self.wording, epsilon=self.epsilon, level=level)
        ratios = [math.inf if matrix.ratio is None else matrix.ratio for matrix in matrices]
        return Finding(level <= self.delta, level, text, ratios.index(max(ratios)), "the pair of rows that differ most")

    def constraints(self, size: int) -> LinearConstraints:
        """Return ``M[i,j] - e^ε M[k,j] <= δ`` for every column j and ordered pair i != k: necessary."""
        return column_constraints(size, exp_float(self.epsilon), self.delta)

    def stays(self, size: int) -> tuple[float, float]:
        """Return the ends of randomised response: with probability δ the truth, else randomised response at ε.

        The largest chance is ``δ + (1-δ) e^ε / (S-1+e^ε)``, and the least ``(1 - δ(S-1)) / (1 + (S-1) e^ε)`` or 0.
        """
        others = size - 1
        low = max(0.0, (1 - self.delta * others) / (1 + others * math.exp(self.epsilon)))
        return low, self.delta + (1 - self.delta) / (1 + others * math.exp(-self.epsilon))

    def promise(self, size: int) -> str:
        """Return what the level means for guesses of one of ``size`` values, in words."""
        return guesses_in_words(self.epsilon, size, self.delta)
