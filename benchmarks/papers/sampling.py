"""Reproduce what Shlomo and Skinner (2012, §3) say of sampling alone, after Chaudhuri and Mishra (2006).

A curator measures a random part of a file with ``postrand assess --measure sub-sample``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from postrand.errors import UsageError, sentence
from postrand.risk.cells import FloatArray
from postrand.risk.sampling import checked_counts


def rare_threshold(cells: int, epsilon: float, delta: float) -> float:
    """Return ``2 ε^-1 ln(2k/δ)``: in a good sample no cell with a smaller population count is represented.

    Examples
    --------
    >>> round(rare_threshold(2**16, 1 / 3, 1 / 3), 1)
    77.3
    """
    if cells < 1 or epsilon <= 0 or not 0 < delta < 1:
        raise UsageError(
            sentence("wanted cells >= 1, epsilon > 0 and 0 < delta < 1", got=f"{cells}, {epsilon}, {delta}")
        )
    return 2 / epsilon * math.log(2 * cells / delta)


@dataclass(frozen=True, slots=True)
class SamplingVerdict:
    """What Chaudhuri and Mishra's condition says of a population under Bernoulli sampling.

    ``bad`` is the probability that a unit of a rare cell is in the sample; probabilistic differential privacy at
    ``(ε, δ)`` needs ``bad <= δ`` and that the fraction is small. ``rare_share`` of the population is in rare cells
    and would have to
    be left out of every sample. ``epsilon_possible`` is always false: sampling alone never is ε-differentially
    private.
    """

    threshold: float
    rare_cells: int
    rare_share: float
    bad: float
    holds: bool
    epsilon_possible: bool = False

    def __str__(self) -> str:
        verdict = "may hold" if self.holds else "does not hold"
        return (
            f"sampling alone is not differentially private; probabilistic differential privacy {verdict}: cells below "
            f"{self.threshold:.1f} units are rare, {100 * self.rare_share:.1f}% of the population is in them, and a "
            f"sample has some of them with probability {self.bad:.3g}"
        )


def verdict(population: ArrayLike, fraction: float, epsilon: float, delta: float) -> SamplingVerdict:
    """Apply the threshold to the counts ``F_j`` of all k cells, shape (k,), empty ones included.

    Raises
    ------
    UsageError
        If a count is negative, or a parameter is outside its range.
    """
    counts = checked_counts(population, fraction)
    threshold = rare_threshold(counts.size, epsilon, delta)
    rare = (counts > 0) & (counts < threshold)
    units = float(counts[rare].sum())
    bad = -math.expm1(units * math.log1p(-fraction)) if fraction < 1 else float(units > 0)
    share = units / max(float(counts.sum()), 1.0)
    return SamplingVerdict(threshold, int(rare.sum()), share, bad, holds=bad <= delta)


def whole_cells_expected(population: ArrayLike, size: int) -> float:
    """Return the expected number of occupied cells with ``f_j = F_j`` in a simple random sample of ``size`` units.

    ``Σ_j C(N−F_j, n−F_j)/C(N, n)``, by (2) of SS; it bounds the probability that there is one.
    """
    counts = checked_counts(population, 1.0)
    total = counts.sum()
    if not 0 <= size <= total:
        raise UsageError(sentence("the sample is larger than the population", got=size, wanted=f"0..{total:.0f}"))
    inside = counts[(counts > 0) & (counts <= size)]
    logs = gammaln(total - inside + 1) + gammaln(size + 1) - gammaln(size - inside + 1) - gammaln(total + 1)
    return float(np.exp(logs).sum())


def unique_given_unique(expected: ArrayLike, fraction: float) -> FloatArray:
    """Return ``P(F=1 | f=1) = exp(−λ(1−π))`` for expected population counts λ: the curves of SS Figure 1."""
    return np.exp(-np.asarray(expected, dtype=np.float64) * (1 - fraction))


def figure_1(points: int = 101, largest: float = 10.0) -> dict[str, FloatArray]:
    """Return the data of SS Figure 1: λ, and the probability for sampling fractions 0.005 and 0.010."""
    expected = np.linspace(0, largest, points)
    curves = {f"{pi:.3f}": unique_given_unique(expected, pi) for pi in (0.005, 0.010)}
    return {"lambda": expected, **curves}


@dataclass(frozen=True, slots=True)
class BudgetShare:
    """A simulated proportion: the mean over samples and the standard error of that mean."""

    value: float
    standard_error: float


def whole_cell_shares(
    population: ArrayLike, size: int, samples: int, rng: np.random.Generator, largest: int = 3
) -> tuple[BudgetShare, ...]:
    """Simulate the share of cells with ``F_j = m`` among those with ``f_j = m``, for m = 1 .. ``largest``.

    Draws simple random samples of ``size`` units from the population with these counts, as SS §3 does. A sample
    without a cell of ``f_j = m`` does not enter the mean of m.
    """
    counts = checked_counts(population, 1.0).astype(np.int64)
    units = np.repeat(np.arange(counts.size), counts)
    shares: list[list[float]] = [[] for _ in range(largest)]
    for _ in range(samples):
        drawn = np.bincount(units[rng.choice(units.size, size, replace=False)], minlength=counts.size)
        for m in range(1, largest + 1):
            of_size = drawn == m
            if of_size.any():
                shares[m - 1].append(float((counts[of_size] == m).mean()))
    return tuple(_mean(values) for values in shares)


def example_population(rng: np.random.Generator, size: int = 1_000_000, variables: int = 16) -> FloatArray:
    """Return the cell counts of SS §3's example: independent Bernoulli(0.2) variables, shape (2^variables,)."""
    cell = np.zeros(size, dtype=np.int64)
    for _ in range(variables):
        cell = 2 * cell + (rng.random(size) < 0.2)
    return np.bincount(cell, minlength=1 << variables).astype(np.float64)


def _mean(values: list[float]) -> BudgetShare:
    if not values:
        return BudgetShare(0.0, 0.0)
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    return BudgetShare(float(np.mean(values)), error)
