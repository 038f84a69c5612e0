"""Weigh candidates of each record until sums of unperturbed columns, and tables, are those that a copy has to have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.completion.raking import Candidates, Target, counted, sweep
from postrand.completion.related_fit import AT_ONCE, curvature

Array = NDArray[np.float64]
ROUNDS = 30
FURTHEST = 0.7
"""One step of a score is not larger: candidates are few."""
CLOSE = 5e-4
"""Means of φ are met if none is off by more than this share of the records."""


@dataclass(frozen=True, slots=True, eq=False)
class Aim:
    """Name sums that are to be met: of the ``columns`` of φ, over the records of each of the codes ``rows``.

    With ``directions`` (rows, k) only these combinations of the codes are: what other aims meet is left alone.
    """

    rows: slice
    columns: NDArray[np.intp]
    directions: Array | None = None

    def of(self, sums: Array) -> Array:
        """Return these of all sums (D, rows)."""
        own: Array = sums[self.columns, self.rows]
        return own if self.directions is None else np.asarray(own @ self.directions)

    def step(self, own: Array) -> Array:
        """Return the scores of the codes, (columns, rows), from those of the combinations."""
        return own if self.directions is None else np.asarray(own @ self.directions.T)


def weigh(
    phi: NDArray[np.float32],
    drawn: Candidates,
    weights: NDArray[np.float32],
    offsets: NDArray[np.int64],
    aims: Sequence[Aim],
    wanted: Array,
    tables: Sequence[Target],
    sizes: Sequence[int],
) -> None:
    """Change the weights (n, C) of candidates until the aims of ``wanted`` (D, rows) and the tables are met.

    Weights become ``exp`` of scores that are linear in φ, found by Newton's method, times factors of the tables' cells.
    """
    from postrand.completion.related_loops import lean  # loads compiled loops

    shares = np.empty((len(phi), int(offsets[-1])), np.float32)
    none = np.zeros_like(shares)
    lean(drawn, offsets, weights, none, shares)
    factors = [_factor(phi, shares, aim) for aim in aims]
    for _ in range(ROUNDS):
        if tables:
            sweep(drawn, weights, sizes, tables, _soft, counted(drawn, weights, tables[0], sizes))
        lean(drawn, offsets, weights, none, shares)
        missing = wanted - _sums(phi, shares)
        if max(np.abs(aim.of(missing)).max() for aim in aims) < max(1.0, CLOSE * len(phi)):
            break  # the tables were met a moment ago
        for _ in range(2):
            step = _step(aims, missing, factors)
            lean(drawn, offsets, weights, phi @ step.astype(np.float32), shares)
            missing = wanted - _sums(phi, shares)


def _sums(phi: NDArray[np.float32], shares: NDArray[np.float32]) -> Array:
    """Return ``φᵀ shares`` (D, rows): in single precision for some records at a time, added in double precision."""
    total = np.zeros((phi.shape[1], shares.shape[1]))
    for start in range(0, len(phi), AT_ONCE):
        total += phi[start : start + AT_ONCE].T @ shares[start : start + AT_ONCE]
    return total


def _factor(phi: NDArray[np.float32], shares: NDArray[np.float32], aim: Aim) -> Array:
    """Return the inverse of how sums of φ answer to scores."""
    part = shares[:, aim.rows]
    (whole,) = curvature(phi[:, aim.columns], (part,))
    whole += 5.0 * np.eye(len(whole))
    if aim.directions is not None:
        turn = np.kron(np.eye(len(aim.columns)), aim.directions)
        whole = turn.T @ whole @ turn
    return np.asarray(scipy.linalg.inv(whole))


def _step(aims: Sequence[Aim], missing: Array, factors: Sequence[Array]) -> Array:
    step = np.zeros_like(missing)
    for aim, factor in zip(aims, factors, strict=True):
        own = (factor @ aim.of(missing).ravel()).reshape(len(aim.columns), -1)
        step[aim.columns, aim.rows] = aim.step(own) * min(1.0, FURTHEST / (float(np.abs(own).max()) + 1e-12))
    return step


def _soft(wanted: Array, there: Array) -> Array:
    """Return the factors of a step towards a table: small ones, since the means of φ have to be met too."""
    return np.clip((wanted + 0.3) / (there + 0.3), 1 / 3, 3.0)
