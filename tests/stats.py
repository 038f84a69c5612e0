"""Statistical acceptance with a stated error: every test here has alpha, a power, and is itself tested on mutants."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2, ncx2

ALPHA = 1e-6
"""Probability that one test rejects a right implementation. Seeds are fixed, so a pass stays a pass."""

SMALLEST_EXPECTED = 10.0
"""Cells that expect less are pooled: below, the chi-square approximation fails in the far tail."""


def p_value(counts: ArrayLike, law: ArrayLike) -> float:
    """Return the chi-square p-value of counts, shape (S,), under a law, shape (S,); 0 where the law forbids a count."""
    observed, probabilities = np.asarray(counts, dtype=float), np.asarray(law, dtype=float)
    if observed[probabilities == 0].any():
        return 0.0
    observed, expected = _pooled(observed, observed.sum() * probabilities)
    return (
        1.0 if observed.size < 2 else float(chi2.sf(((observed - expected) ** 2 / expected).sum(), observed.size - 1))
    )


def rejects(counts: ArrayLike, law: ArrayLike, alpha: float = ALPHA) -> bool:
    """Tell whether the counts contradict the law at level alpha."""
    return p_value(counts, law) < alpha


def dependent(table: ArrayLike, alpha: float = ALPHA) -> bool:
    """Tell whether a two-way table of counts contradicts independence at level alpha."""
    observed = np.asarray(table, dtype=float)
    expected = np.outer(observed.sum(axis=1), observed.sum(axis=0)) / observed.sum()
    assert expected.min() >= SMALLEST_EXPECTED, "the table is too thin for the chi-square approximation"
    degrees = (observed.shape[0] - 1) * (observed.shape[1] - 1)
    return bool(chi2.sf(((observed - expected) ** 2 / expected).sum(), degrees) < alpha)


def power(size: int, law: ArrayLike, mutant: ArrayLike, alpha: float = ALPHA) -> float:
    """Return the probability that ``size`` draws of the mutant are rejected as draws of the law."""
    right, wrong = np.asarray(law, dtype=float), np.asarray(mutant, dtype=float)
    if forbidden := wrong[right == 0].sum():
        return float(1 - (1 - forbidden) ** size)
    right, wrong = right[right > 0], wrong[right > 0]
    degrees = right.size - 1
    return float(ncx2.sf(chi2.isf(alpha, degrees), degrees, size * ((wrong - right) ** 2 / right).sum()))


def _pooled(observed: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Put the thin cells together, with the smallest of the others if they are still too thin."""
    order = np.argsort(expected)
    observed, expected = observed[order], expected[order]
    thin = int(np.searchsorted(np.cumsum(expected), SMALLEST_EXPECTED)) + 1
    if expected[0] >= SMALLEST_EXPECTED or thin >= expected.size:
        return (
            (observed, expected) if expected[0] >= SMALLEST_EXPECTED else (observed.sum()[None], expected.sum()[None])
        )
    return (
        np.concatenate(([observed[:thin].sum()], observed[thin:])),
        np.concatenate(([expected[:thin].sum()], expected[thin:])),
    )
