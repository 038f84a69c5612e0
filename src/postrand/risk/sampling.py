"""What a sample shows of the cells of its population (Shlomo and Skinner 2012, §3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from postrand.errors import UsageError, raise_all, sentence
from postrand.risk.cells import FloatArray


def whole_cell_probability(population: ArrayLike, fraction: float) -> float:
    """Return ``P(f_j = F_j for some occupied j) = 1 − Π (1 − π^F_j)`` under Bernoulli sampling.

    Where that happens (1) of SS fails: a neighbouring population cannot give the sample.
    """
    counts = checked_counts(population, fraction)
    with np.errstate(divide="ignore"):
        return float(-np.expm1(np.log1p(-(fraction ** counts[counts > 0])).sum()))


def checked_counts(population: ArrayLike, fraction: float) -> FloatArray:
    """Return population counts as float64; raises UsageError unless they, and the sampling fraction, can be meant."""
    counts = np.asarray(population, dtype=np.float64)
    problems = []
    if counts.ndim != 1 or not counts.size or not np.isfinite(counts).all() or (counts < 0).any():
        problems.append(sentence("population counts must be numbers >= 0, one for each cell"))
    if not 0 < fraction <= 1:
        problems.append(sentence("the sampling fraction is outside its range", got=fraction, wanted="(0, 1]"))
    raise_all(UsageError, problems)
    return counts
