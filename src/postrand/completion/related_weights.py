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
Weights = NDArray[np.float32]
ROUNDS, STEPS = 8, 15
"""Rounds of the tables and of the sums in turn, and steps for the sums in each."""
CLOSE = 5e-4
"""A sum of φ is met if it is off by no more than this share of the records."""


@dataclass(frozen=True, slots=True, eq=False)
class Aim:
    """Name sums that are to be met: of the ``columns`` of φ, over the records of each of the codes ``rows``.

    With ``directions`` (rows, k) only these combinations of the codes are: what other aims meet is left alone.
    """

    rows: slice
    columns: NDArray[np.intp]
    directions: Array | None = None

    def of(self, sums: Array) -> Array:
        """Return these of all sums (D, rows), flat."""
        own: Array = sums[self.columns, self.rows]
        return (own if self.directions is None else own @ self.directions).ravel()

    def add(self, own: Array, scores: Array) -> None:
        """Add the scores of these sums, flat, to those of all columns and codes (D, rows)."""
        each = own.reshape(len(self.columns), -1)
        scores[self.columns, self.rows] += each if self.directions is None else each @ self.directions.T

    def curvature(self, phi: NDArray[np.float32], shares: NDArray[np.float32]) -> Array:
        """Return how these sums answer to their scores, where the records' codes have these shares (n, rows)."""
        (whole,) = curvature(phi[:, self.columns], (shares[:, self.rows],))
        if self.directions is None:
            return whole
        turn = np.kron(np.eye(len(self.columns)), self.directions)
        return np.asarray(turn.T @ whole @ turn)


def weigh(
    phi: NDArray[np.float32],
    drawn: Candidates,
    weights: Weights,
    offsets: NDArray[np.int64],
    aims: Sequence[Aim],
    wanted: Array,
    tables: Sequence[Target],
    sizes: Sequence[int],
) -> None:
    """Change the weights (n, C) of candidates until the aims of ``wanted`` (D, rows) and the tables are met.

    Weights become ``exp`` of scores λ that are linear in φ, times factors of the tables' cells. In turn the tables are
    met, and λ is the maximum of ``λ·wanted − Σ_i log Σ_c w_ic exp(φ_i·λ[x_ic]) − ρ|λ|²/2``: it is concave, and its
    slope is what is missing, less ρλ. A score of 1 leaves as much missing as counts as met, so sums that no weights
    have are approached as far as few records can, and spoil no others.
    """
    close = met(len(phi))
    dual = _Dual.of(phi, drawn, offsets, aims, wanted, close, weights)
    found = np.zeros(sum(map(len, dual.roots)))
    for _ in range(ROUNDS):
        if tables:
            sweep(drawn, weights, sizes, tables, _soft, counted(drawn, weights, tables[0], sizes))
        had, base = dual.scores(found), weights.copy()
        _, slopes = dual.at(found, had, base, weights)
        if max(np.abs(slope).max() for slope in slopes) < close:
            break  # the tables were met a moment ago
        more = {"maxiter": STEPS, "maxfun": STEPS + 4, "maxls": 6}
        best = scipy.optimize.minimize(dual.falling, found, (had, base, weights), "L-BFGS-B", jac=True, options=more)
        found = best.x
        dual.at(found, had, base, weights)


@dataclass(frozen=True, slots=True, eq=False)
class _Dual:
    """Hold the concave function whose maximum are the scores of the aims, and its coordinates.

    For an aim with curvature ``L Lᵀ`` at the start, ``roots`` L, they are ``Lᵀλ``; those of all aims are joined.
    """

    phi: NDArray[np.float32]
    drawn: Candidates
    offsets: NDArray[np.int64]
    aims: Sequence[Aim]
    wanted: Array
    ridge: float
    roots: Sequence[Array]
    shares: NDArray[np.float32]

    @classmethod
    def of(
        cls,
        phi: NDArray[np.float32],
        drawn: Candidates,
        offsets: NDArray[np.int64],
        aims: Sequence[Aim],
        wanted: Array,
        ridge: float,
        weights: Weights,
    ) -> _Dual:
        """Return the function for candidates that have these weights, which stay as they are."""
        from postrand.completion.related_loops import lean  # loads compiled loops

        shares = np.empty((len(phi), int(offsets[-1])), np.float32)
        lean(drawn, offsets, weights, np.zeros_like(shares), np.empty_like(weights), shares)
        curved = [aim.curvature(phi, shares) for aim in aims]
        roots = [scipy.linalg.cholesky(one + ridge * np.eye(len(one)), lower=True) for one in curved]
        return cls(phi, drawn, offsets, aims, wanted, ridge, roots, shares)

    def scores(self, coordinates: Array) -> Array:
        """Return the scores of all columns and codes, (D, rows)."""
        scores = np.zeros_like(self.wanted)
        for aim, own in zip(self.aims, self._own(coordinates), strict=True):
            aim.add(own, scores)
        return scores

    def at(self, coordinates: Array, had: Array, base: Weights, weights: Weights) -> tuple[float, list[Array]]:
        """Return the value and the slope of each aim's scores, and set the weights; those of ``base`` have ``had``."""
        from postrand.completion.related_loops import lean  # loads compiled loops

        scores, own = self.scores(coordinates), self._own(coordinates)
        tilt = self.phi @ (scores - had).astype(np.float32)
        logarithms = lean(self.drawn, self.offsets, base, tilt, weights, self.shares)
        missing = self.wanted - sums_of(self.phi, self.shares)
        value = float((scores * self.wanted).sum()) - logarithms - self.ridge * sum(one @ one for one in own) / 2
        return value, [aim.of(missing) - self.ridge * one for aim, one in zip(self.aims, own, strict=True)]

    def falling(self, coordinates: Array, had: Array, base: Weights, weights: Weights) -> tuple[float, Array]:
        """Return the value and the slope with the sign turned, for a programme that looks for a minimum."""
        value, slopes = self.at(coordinates, had, base, weights)
        turned = [scipy.linalg.solve_triangular(r, s, lower=True) for r, s in zip(self.roots, slopes, strict=True)]
        return -value, -np.concatenate(turned)

    def _own(self, coordinates: Array) -> list[Array]:
        parts = np.split(coordinates, np.cumsum([len(root) for root in self.roots])[:-1])
        pairs = zip(self.roots, parts, strict=True)
        return [scipy.linalg.solve_triangular(root, part, lower=True, trans="T") for root, part in pairs]


def met(records: int) -> float:
    """Return by how much a sum over so many records may be off and count as met."""
    return max(1.0, CLOSE * records)


def sums_of(phi: NDArray[np.float32], shares: NDArray[np.float32]) -> Array:
    """Return ``φᵀ shares`` (D, rows): in single precision for some records at a time, added in double precision."""
    total = np.zeros((phi.shape[1], shares.shape[1]))
    for start in range(0, len(phi), AT_ONCE):
        total += phi[start : start + AT_ONCE].T @ shares[start : start + AT_ONCE]
    return total


def _soft(wanted: Array, there: Array) -> Array:
    """Return the factors of a step towards a table: small ones, since the means of φ have to be met too."""
    return np.clip((wanted + 0.3) / (there + 0.3), 1 / 3, 3.0)
