"""β-bistochastic privacy (RDF Definitions 1-3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import scipy

from postrand.errors import PrivacyError, sentence, shown
from postrand.mechanism.matrix import TransitionMatrix
from postrand.privacy.base import Finding, LinearConstraints, ModelTraits
from postrand.support.entropy import beta_lower, column_excess, entropy_rate_lower, format_lower
from postrand.support.guesses import bits_in_words
from postrand.support.inputs import finite
from postrand.support.options import Range
from postrand.support.wordings import say

_HINT = "larger protects more: the share of the greatest possible uncertainty"


@dataclass(frozen=True, slots=True)
class Bistochastic:
    """Ask that rows and columns of every block sum to 1, and that ``Σ_k H(P_k) >= β Σ_k ln S_k``.

    One block of one variable: RDF Definition 1. Several blocks: Definition 2 (conservative multivariate). One block of
    several variables perturbed jointly: Definition 3 (true multivariate).

    Raises
    ------
    PrivacyError
        If β is not a number from 0 to 1.

    Examples
    --------
    >>> M = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    >>> Bistochastic(0.8).check([M]).sentence
    'bistochastic privacy holds with β >= 0.811, it hides at least 0.811 of 1 bits'
    >>> Bistochastic(0.82).check([M]).holds
    False
    """

    name: ClassVar[str] = "bistochastic"
    traits: ClassVar[ModelTraits] = ModelTraits(
        code="claim.bistochastic",
        plain="Every released answer leaves at least the share β of the greatest possible uncertainty about the "
        "true one, and the margins of a uniform population stay as they are.",
        level="beta",
        stronger="larger",
        composition="bits",
        budget=True,
        columns_sum=True,
        linear=False,
        post_processing=False,
        structure="bistochastic",
        rank=20,
    )
    beta: float = field(metadata={"range": Range(0.05, 0.99, 0.9, "share of bits", _HINT, logarithmic=False)})

    def __post_init__(self) -> None:
        beta = finite(self.beta)
        if not 0 <= beta <= 1:
            got = shown(self.beta, repr)
            raise PrivacyError(sentence("beta is not a number from 0 to 1", got=got, wanted="0 <= beta <= 1"))
        object.__setattr__(self, "beta", beta)

    def check(self, matrices: Sequence[TransitionMatrix]) -> Finding:
        """Test column sums as integers, and compare β with a bound from below on the blocks' entropy ratio.

        ``level`` is that bound; ``worst`` the block with the smallest share of its bits, or one that is not
        bistochastic.
        """
        for position, matrix in enumerate(matrices):
            if not matrix.is_bistochastic:
                column, excess = column_excess(matrix.weights)
                text = f"column {column} does not sum to 1 (excess {float(excess):+.3g})"
                return Finding(False, 0.0, f"a matrix is not bistochastic: {text}", position, text)
        level = beta_lower([matrix.weights for matrix in matrices])
        spent = math.fsum(entropy_rate_lower(matrix.weights) for matrix in matrices) / math.log(2)
        most = math.fsum(math.log2(matrix.size) for matrix in matrices)
        shares = [matrix.beta for matrix in matrices]
        worst = shares.index(min(shares))
        figures = {"bits": min(spent, most), "most_bits": most}
        return Finding(
            holds=self.beta <= level,
            level=level,
            sentence=say("claim.bistochastic", level=level, **figures),
            worst=worst,
            where=f"β {format_lower(shares[worst])}",
            figures=figures,
        )

    def constraints(self, size: int) -> LinearConstraints:
        """Return ``Σ_i M[i,j] <= 1`` and ``-Σ_i M[i,j] <= -1`` for every column j: 2S rows.

        The entropy is not linear: see :meth:`entropy_floor`.
        """
        columns = scipy.sparse.hstack([scipy.sparse.eye_array(size)] * size)
        A = scipy.sparse.csr_array(scipy.sparse.vstack([columns, -columns]))
        return LinearConstraints(A, np.concatenate([np.ones(size), -np.ones(size)]))

    def promise(self, size: int) -> str:
        """Return what β means for guesses of one of ``size`` equally likely values, in words."""
        return bits_in_words(self.beta, max(size, 2))

    def entropy_floor(self, size: int) -> float:
        """Return the nats ``β ln S`` that the concave function ``H(P) = -(1/S) Σ P ln P`` of one block must reach."""
        return self.beta * math.log(size)
