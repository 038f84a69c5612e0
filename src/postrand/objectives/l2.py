"""L2 loss: the expected squared error of the unbiased estimate of the empirical distribution (CHR §3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from postrand.errors import DesignError, sentence, shown
from postrand.mechanism.matrix import MAX_CONDITION
from postrand.objectives.base import ObjectiveTraits
from postrand.support.inputs import finite


@dataclass(frozen=True, slots=True)
class L2Loss:
    """Cost ``l2 = (1/n) (Σ_l w_l Σ_k (M^-1[l,k])² - 1)``, ``w = pᵀM`` (CHR, end of §3; ``p = U0 / n``).

    It is ``E Σ (μ^ - μ)²`` over the draws of the perturbation alone, μ^ the unbiased estimate (CHR (4)) and μ the
    empirical distribution of the file; it does not depend on the sensitive variables. ``records`` is n; with the
    default 1 the value is n times CHR's. Invariant under a relabelling of the released categories, not convex.

    Raises
    ------
    DesignError
        If ``records`` is not a positive number.

    Examples
    --------
    >>> import numpy as np
    >>> M = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> L2Loss(records=4).value(M, np.array([0.5, 0.5]))  # per record 2 q (1-q) / (2q-1)² = 1.5
    0.375
    """

    name: ClassVar[str] = "l2"
    traits: ClassVar[ObjectiveTraits] = ObjectiveTraits(
        "Make the corrected table as close to the true one as possible, in squared error.",
        "squared shares",
        rank=60,
    )
    maximise: ClassVar[bool] = False
    records: float = 1

    def __post_init__(self) -> None:
        records = finite(self.records)
        if not records > 0:
            got = shown(self.records, repr)
            raise DesignError(sentence("records is not a positive number", got=got, wanted="the file's n"))
        object.__setattr__(self, "records", records)

    def value(self, array: NDArray[np.float64], prior: NDArray[np.float64]) -> float:
        """Return the loss; infinite where the matrix cannot be inverted in float64.

        Summed as ``Σ_i p_i Σ_l M[i,l] |M^-1[l] - e_i|²``: terms that are not negative, so that nothing cancels near
        the identity.
        """
        inverse = _inverse(array)
        if inverse is None:
            return math.inf
        squares = (inverse**2).sum(axis=1)
        # |A_l - e_i|² = |A_l|² - 2 A[l,i] + 1, formed from A - I on the diagonal to keep small digits.
        distance = squares[None, :] - 2 * inverse.T + 1
        rest = inverse - np.eye(len(inverse))
        np.fill_diagonal(distance, (rest**2).sum(axis=1))
        return float(prior @ (array * distance).sum(axis=1)) / self.records

    def gradient(self, array: NDArray[np.float64], prior: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``∂ l2 / ∂ M``, shape (S, S), of the formula above with every entry of ``M`` free.

        With ``A = M^-1``, ``D = diag(w)``, ``r_l = Σ_k A[l,k]²``: ``(p rᵀ - 2 Aᵀ D A Aᵀ) / n``. Infinite where ``M``
        cannot be inverted.
        """
        inverse = _inverse(array)
        if inverse is None:
            return np.full_like(array, np.inf)
        gram = inverse @ inverse.T
        weighted = inverse.T * (prior @ array)
        return np.asarray(np.outer(prior, gram.diagonal()) - 2 * weighted @ gram) / self.records

    def by_definition(self, array: NDArray[np.float64], prior: NDArray[np.float64]) -> float:
        """Return ``(Σ_l w_l Σ_k (M^-1[l,k])² - 1) / n``."""
        return float((prior @ array @ np.linalg.inv(array) ** 2).sum() - 1) / self.records

    def of_file(self, records: int) -> L2Loss:
        """Return the loss for a file of so many records, where this one is per record."""
        return L2Loss(records) if self.records == 1 else self


def _inverse(array: NDArray[np.float64]) -> NDArray[np.float64] | None:
    try:
        inverse = np.linalg.inv(array)
    except np.linalg.LinAlgError:
        return None
    condition = np.abs(inverse).sum(axis=1).max() * np.abs(array).sum(axis=1).max()
    return np.asarray(inverse, dtype=np.float64) if condition <= MAX_CONDITION else None
