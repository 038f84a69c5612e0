"""Tests of hypotheses about the true table, from the released one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from postrand.errors import EstimationError, UsageError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.tally import Tally, tally
from postrand.estimate.unbiased import from_tally
from postrand.mechanism import Mechanism


@dataclass(frozen=True, slots=True)
class ChiSquared:
    """Hold a chi-squared test: statistic, degrees of freedom, p-value, and what was computed."""

    statistic: float
    degrees_of_freedom: int
    p_value: float
    method: str

    def __str__(self) -> str:
        head = f"{self.method}: chi-squared {self.statistic:.5g} on {self.degrees_of_freedom} degrees of freedom"
        return f"{head}, p-value {self.p_value:.4g}"


def independence_test(
    frame: Any, row: str, column: str, mechanism: Mechanism, weights: str | None = None, strata: str | None = None
) -> ChiSquared:
    """Test whether two true variables are independent.

    Variables of different blocks are perturbed independently, so their released versions are independent exactly
    when the true ones are (for invertible matrices), and Pearson's statistic of the *released* table is the score
    test: right size, and no test on the corrected table has more power near independence. Variables of one block,
    weights and strata need a Wald test of ``π_ij = π_i+ π_+j`` on the unbiased table.

    Raises
    ------
    EstimationError
        If a released variable takes only one value, or the corrected table is not identified.

    References
    ----------
    Rao & Scott (1981) for weights; van den Hout & van der Heijden (2002) for misclassified tables.
    """
    counted = tally(frame, [row, column], mechanism, weights, strata)
    if len(counted.layout.axes) == 2 and weights is None and strata is None and not _summed_out(counted):
        observed = counted.released
        expected = np.outer(observed.sum(axis=1), observed.sum(axis=0)) / observed.sum()
        freedom = (_occurring(expected.sum(axis=1)) - 1) * (_occurring(expected.sum(axis=0)) - 1)
        return _pearson(observed, expected, freedom, "score test of independence on the released table")
    found = from_tally(counted)
    rows, columns = found.value.shape
    pi, first, second = found.value, found.value.sum(axis=1), found.value.sum(axis=0)
    gap = (pi - np.outer(first, second))[:-1, :-1].ravel()
    slope = np.zeros((rows - 1, columns - 1, rows, columns))
    for i in range(rows - 1):
        for j in range(columns - 1):
            slope[i, j, i, j] += 1.0
            slope[i, j, i, :] -= second[j]
            slope[i, j, :, j] -= first[i]
    flat = slope.reshape(gap.size, pi.size)
    return _wald(gap, flat @ found.covariance @ flat.T, "Wald test of independence on the unbiased table")


def goodness_of_fit_test(
    frame: Any,
    variable: str,
    expected: ArrayLike,
    mechanism: Mechanism,
    weights: str | None = None,
    strata: str | None = None,
) -> ChiSquared:
    """Test whether the true distribution of a variable is ``expected``, shape (S,), in codebook order.

    Pearson's statistic of the released counts against ``Mᵀ expected`` is the score test; variables of a joint block,
    weights and strata need a Wald test on the unbiased estimate.

    Raises
    ------
    UsageError
        If ``expected`` is no distribution over the variable's categories.
    """
    counted = tally(frame, [variable], mechanism, weights, strata)
    size = counted.layout.shape[0]
    target = np.asarray(expected, dtype=np.float64)
    if target.shape != (size,) or not (target >= 0).all() or abs(target.sum() - 1) > 1e-9:
        raise UsageError(
            sentence(
                "not a distribution",
                where=variable,
                got=f"shape {target.shape}",
                wanted=f"{size} numbers >= 0 summing to 1",
            )
        )
    if weights is None and strata is None and not _summed_out(counted):
        matrix = counted.layout.axes[0].matrix
        released = target if matrix is None else matrix.array.T @ target
        return _pearson(
            counted.released,
            released * counted.total,
            _occurring(released) - 1,
            "score test of fit on the released counts",
        )
    found = from_tally(counted)
    return _wald((found.value - target)[:-1], found.covariance[:-1, :-1], "Wald test of fit on the unbiased estimate")


def _summed_out(counted: Tally) -> bool:
    """Whether a block of the table holds variables that it does not show: its counts then mix two laws."""
    return any(len(axis.kept) < len(axis.names) for axis in counted.layout.axes)


def _occurring(margin: Array) -> int:
    return int(np.count_nonzero(margin > 0))


def _pearson(observed: Array, expected: Array, freedom: int, method: str) -> ChiSquared:
    if freedom < 1:
        raise EstimationError(sentence("a released variable takes only one value", fix="choose another variable"))
    used = expected > 0
    impossible = observed[~used].any()
    statistic = np.inf if impossible else float(((observed - expected)[used] ** 2 / expected[used]).sum())
    return ChiSquared(statistic, freedom, float(stats.chi2.sf(statistic, freedom)), method)


def _wald(gap: Array, covariance: Array, method: str) -> ChiSquared:
    """Return ``gapᵀ V^-1 gap``, leaving out directions without variance (categories that never occur)."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    used = values > 1e-10 * values.max(initial=0.0)
    if not used.any():
        raise EstimationError(sentence("the table has no variance to test with", fix="choose other variables"))
    statistic = float(((vectors[:, used].T @ gap) ** 2 / values[used]).sum())
    freedom = int(used.sum())
    return ChiSquared(statistic, freedom, float(stats.chi2.sf(statistic, freedom)), method)
