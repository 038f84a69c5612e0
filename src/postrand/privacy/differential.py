"""ε-differential privacy of a record (ABC (6))."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy.sparse import coo_array, csr_array

from postrand.errors import PrivacyError, sentence, shown
from postrand.mechanism.matrix import TransitionMatrix
from postrand.privacy.base import Finding, LinearConstraints
from postrand.support.exact import exp_float, log_upper, within
from postrand.support.inputs import finite
from postrand.support.wordings import say


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
    epsilon: float

    def __post_init__(self) -> None:
        epsilon = finite(self.epsilon)
        if not epsilon > 0:
            got = shown(self.epsilon, repr)
            raise PrivacyError(sentence("epsilon is not a positive number", got=got, wanted="0 < epsilon < inf"))
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
            sentence="a released value excludes some true values: no finite ε holds" if infinite else text,
            worst=worst,
            where=_worst_entries(matrices[worst]),
        )

    def constraints(self, size: int) -> LinearConstraints:
        """Return ``M[i,j] - e^ε M[k,j] <= 0`` for every column j and ordered pair i != k: S²(S-1) rows."""
        i, k, j = (a.ravel() for a in np.indices((size, size, size)))
        i, k, j = (a[i != k] for a in (i, k, j))
        rows = np.arange(i.size)
        values = np.concatenate([np.ones(i.size), np.full(i.size, -exp_float(self.epsilon))])
        places = (np.concatenate([rows, rows]), np.concatenate([i * size + j, k * size + j]))
        return LinearConstraints(csr_array(coo_array((values, places), (i.size, size * size))), np.zeros(i.size))


def _worst_entries(matrix: TransitionMatrix) -> str:
    """Name the column whose largest entry exceeds its smallest most, and the two rows."""
    high, low = matrix.form.columns()
    ratio = np.where(low > 0, high / low.clip(min=1), np.where(high > 0, np.inf, 0))
    column = int(ratio.argmax())
    entries = matrix.form.column(column)
    return f"column {column}, rows {int(entries.argmax())} and {int(entries.argmin())}"
