"""Regression of a perturbed variable on unperturbed columns, seen through the published law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[np.float64]
STEPS = 40
ROUNDS = 5
DECREMENT = 0.02
"""Newton's decrement (twice what the log-likelihood can still gain) at which the maximum is reached."""
MOST_RECORDS = 20_000
"""Records that the curvature is computed from; gradients take all."""
SLACK = 1e-9
"""A step may lower the log-likelihood by this share of it, which is rounding."""
LEAST_PRECISION, MOST_PRECISION = 0.1, 1e4
MOST_PRECISION_LINES = 10.0
"""The most of a column itself, beside its curves and products: a relation that is moderate is not to be weakened."""
CLEAR, CLEAR_PRECISION = 1.5, 0.5
"""A source says something where its statistic is so many deviations above its mean; its precision is then small."""


@dataclass(frozen=True, slots=True, eq=False)
class Logit:
    """Hold ``P(x = s | φ) ∝ exp(φ·H_s)``: H (D, S) at the maximum, and a root of its covariance, (DS, DS)."""

    coefficients: Array
    root: Array

    def drawn(self, rng: np.random.Generator) -> Array:
        """Return coefficients drawn from their normal posterior."""
        noise = self.root @ rng.normal(size=self.coefficients.size)
        return np.asarray(self.coefficients + noise.reshape(self.coefficients.shape))


def fit_logit(
    basis: NDArray[np.float32], of: NDArray[np.int64], likelihood: NDArray[np.float32], lines: int = 0
) -> Logit:
    """Fit the multinomial logit of a true category that is seen through ``likelihood`` (n, S): P(released | true).

    The posterior mode under independent normal coefficients with mean 0, whose variance is one for each source of
    columns (``of``), learned by empirical Bayes: ``τ² = (|H|² + tr Cov) / number``, some rounds of it. A column that
    says nothing of the variable is so pulled to 0, one that says much is not. The sources 1 to ``lines`` are columns
    themselves, which are pulled less than they could be.
    """
    phi = basis.astype(np.float64)
    precision = np.full(phi.shape[1], 1.0)
    precision[of == 0] = LEAST_PRECISION
    coefficients = np.zeros((phi.shape[1], likelihood.shape[1]))
    for turn in range(ROUNDS + 1):
        coefficients, information = _maximum(phi, likelihood, precision, coefficients)
        values, vectors = np.linalg.eigh(information)
        root = vectors / np.sqrt(np.maximum(values, LEAST_PRECISION))
        if turn < ROUNDS - 1:
            precision = _precision(of, coefficients, root, precision)
            itself = (of > 0) & (of <= lines)
            precision[itself] = np.minimum(precision[itself], MOST_PRECISION_LINES)
        elif turn == ROUNDS - 1:
            precision[_clear(of, coefficients, root)] = CLEAR_PRECISION
    return Logit(coefficients, root)


def _clear(of: NDArray[np.int64], coefficients: Array, root: Array) -> NDArray[np.bool_]:
    """Return the columns of the sources that clearly say something: Wald's statistic is far above its mean.

    To pull these coefficients to 0 would take a part of a relation that is known to be there.
    """
    covariance = (root @ root.T).reshape(*coefficients.shape, *coefficients.shape)
    found = np.zeros(len(of), bool)
    for source in np.unique(of):
        at = np.flatnonzero(of == source)
        held = coefficients[at].ravel()
        block = covariance[at][:, :, at]
        wald = float(held @ np.linalg.pinv(block.reshape(held.size, held.size), rcond=1e-6, hermitian=True) @ held)
        free = len(at) * (coefficients.shape[1] - 1)
        found[at] = wald > free + CLEAR * np.sqrt(2 * free)
    return found


def _precision(of: NDArray[np.int64], coefficients: Array, root: Array, before: Array) -> Array:
    """Return the precision of each column's coefficients: the number over the expected sum of squares, by source.

    Of S coefficients S - 1 are free; what is equal for all categories keeps the variance ``before``, and is left out.
    """
    squares = coefficients**2 + (root**2).sum(axis=1).reshape(coefficients.shape)
    each = np.bincount(of, squares.sum(axis=1) - 1 / before)[of]
    number = np.bincount(of)[of] * (coefficients.shape[1] - 1)
    found = np.clip(number / np.maximum(each, 1e-12), LEAST_PRECISION, MOST_PRECISION)
    found[of == 0] = LEAST_PRECISION
    return np.asarray(found)


def _maximum(phi: Array, likelihood: NDArray[np.float32], precision: Array, start: Array) -> tuple[Array, Array]:
    """Return the mode and the information there, by Newton's method, with complete data's where not convex."""
    h, value = start, _value(phi, likelihood, precision, start)
    for _ in range(STEPS):
        prior = scipy.special.softmax(phi @ h, axis=1)
        posterior = given(prior, likelihood)
        gradient = phi.T @ (posterior - prior) - precision[:, None] * h
        complete, missing = curvature(phi, prior, precision), curvature(phi, posterior, np.zeros_like(precision))
        for share in (1.0, 0.95, 0.7, 0.0):
            try:
                factor = scipy.linalg.cho_factor(complete - share * missing)
            except scipy.linalg.LinAlgError:
                continue
            step = scipy.linalg.cho_solve(factor, gradient.ravel()).reshape(h.shape)
            reached = _value(phi, likelihood, precision, h + step)
            if reached >= value - SLACK * abs(value):
                break
        while not reached >= value - SLACK * abs(value):  # a whole step can go far past the maximum
            step = step / 2
            reached = _value(phi, likelihood, precision, h + step)
        h, value = h + step, reached
        if float((gradient * step).sum()) < DECREMENT:
            break
    return h, complete - missing


def _value(phi: Array, likelihood: NDArray[np.float32], precision: Array, h: Array) -> float:
    total = np.log(np.maximum((scipy.special.softmax(phi @ h, axis=1) * likelihood).sum(axis=1), 1e-300)).sum()
    return float(total - (precision[:, None] * h * h).sum() / 2)


def given(prior: Array, likelihood: NDArray[np.float32]) -> Array:
    """Return ``P(category | columns, released)``, (n, S)."""
    joint = prior * likelihood
    shares: Array = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
    return shares


def curvature(phi: Array, shares: Array, precision: Array) -> Array:
    """Return ``Σ_i φ_i φ_iᵀ ⊗ (diag s_i − s_i s_iᵀ)`` and the precisions on its diagonal, (DS, DS)."""
    n, columns = phi.shape
    if n > MOST_RECORDS:  # every so many records: the order of a release says nothing
        every = -(-n // MOST_RECORDS)
        part = curvature(phi[::every], shares[::every], np.zeros_like(precision)) * (n / len(phi[::every]))
        return np.asarray(part + np.diag(np.repeat(precision, shares.shape[1])))
    size = shares.shape[1]
    found = np.empty((columns, size, columns, size))
    for a in range(size):
        for b in range(a, size):
            weight = -shares[:, a] * shares[:, b] + (shares[:, a] if a == b else 0.0)
            found[:, a, :, b] = found[:, b, :, a] = (phi * weight[:, None]).T @ phi
    whole = found.reshape(columns * size, columns * size)
    return np.asarray(whole + np.diag(np.repeat(precision, size)))
