"""Identification risk after perturbation (Shlomo and Skinner 2010)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from postrand.errors import UsageError, sentence
from postrand.matrix import TransitionMatrix
from postrand.risk.cells import CellTable, FloatArray
from postrand.risk.law import KeyLaw
from postrand.risk.loglinear import LogLinearFit
from postrand.risk.tau import unique_risk


def match_probability(population: FloatArray, matrix: TransitionMatrix, pi: float) -> FloatArray:
    """Return, for each cell j, the probability that a link to the one record released there is correct, shape (K,).

    ``[M[j,j]/(1−π M[j,j])] / Σ_k F_k M[k,j]/(1−π M[k,j])`` (Shlomo and Skinner 2010, (5)): given that Bernoulli
    sampling with probability π and then perturbation leave exactly one record in j, the chance that it is a given
    one of the ``F_j`` population units whose true cell is j. ``population`` (K,) holds F. Cells that nothing can
    reach get 0.

    Raises
    ------
    UsageError
        If the sizes differ, or π is outside (0, 1].

    Examples
    --------
    >>> match_probability(np.array([4.0, 1.0]), TransitionMatrix.identity(2), 0.1).tolist()
    [0.25, 1.0]
    """
    if population.shape != (matrix.size,) or not 0 < pi <= 1:
        raise UsageError(sentence("the population and the matrix differ in size, or pi is not in (0, 1]"))
    M = matrix.array
    odds = M / np.maximum(1 - pi * M, 1e-15)  # π = 1 and a row that surely moves to j: the limit
    total = population @ odds
    own: FloatArray = np.divide(odds.diagonal(), total, out=np.zeros(matrix.size), where=total > 0)
    return own


def file_risk(
    fit: LogLinearFit, cells: CellTable, pi: FloatArray | float, law: KeyLaw
) -> dict[Literal["tau1", "tau2"], float]:
    """Return ``τ1`` and ``τ2`` of a released file, without their errors.

    ``fit`` and ``cells`` are those of the *released* file. ``τ2 = Σ_{f~_j=1} M[j,j] E(1/F~_j | f~_j=1)``, F~ being the
    population counts if all units were perturbed: the small-π form of :func:`match_probability`. ``τ1`` has
    ``P(F~_j=1 | f~_j=1)`` in place of the expectation. Both err on the safe side: a cell counts even where nobody truly
    has its keys. ``attack.link`` measures what an attacker gets right.
    """
    codes = cells.codes[cells.uniques]
    stay = law.diagonal(codes)
    r1, r2 = unique_risk(fit.at(codes), pi)
    return {"tau1": float((stay * r1).sum()), "tau2": float((stay * r2).sum())}
