"""Regression of a perturbed variable on unperturbed columns, seen through the published law."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[np.float64]
ROUNDS = 5
STEPS, DECREMENT = 80, 0.02
"""Newton's decrement (twice what the log-likelihood can still gain) at which the maximum is reached."""
MOST_RECORDS = 20_000
"""Records that the curvature is computed from; gradients take all."""
SLOWEST = 0.3
"""A curvature is computed anew where a step's decrement is not below this share of the one before."""
AT_ONCE = 2_048
"""Records whose products are added in single precision."""
SLACK = 1e-9
"""A step may lower the log-likelihood by this share of it, which is rounding."""
LEAST_PRECISION, MOST_PRECISION = 0.1, 1e4
MOST_PRECISION_LINES = 10.0
"""The most of a column itself, beside its curves and products: a relation that is moderate is not to be weakened."""
MOST_SHARE = 0.02
"""The most that a number itself is pulled by in a category, as a share of what the release tells of it there.

One category of few records can differ where all others are alike: a variance that all share says that it does not.
"""
CLEAR, CLEAR_PRECISION = 1.5, 0.5
"""A source says something where its statistic is so many deviations above its mean; its precision is then small."""


@dataclass(frozen=True, slots=True, eq=False)
class Logit:
    """Hold ``P(x = s | φ) ∝ exp(φ·H_s)``: H (D, S) at the maximum, and a root of its covariance, (DS, DS)."""

    coefficients: Array
    root: Array

    def drawn(self, rng: np.random.Generator) -> Array:
        """Return the maximum, and coefficients on two opposite sides of it, drawn by their posterior, (3, D, S)."""
        noise = (self.root @ rng.normal(size=self.coefficients.size)).reshape(self.coefficients.shape)
        return np.asarray(self.coefficients + np.multiply.outer([0.0, 1.0, -1.0], noise))


def fit_logit(
    basis: NDArray[np.float32], of: NDArray[np.int64], likelihood: NDArray[np.float32], lines: int = 0
) -> Logit:
    """Fit the multinomial logit of a true category that is seen through ``likelihood`` (n, S): P(released | true).

    The posterior mode under independent normal coefficients with mean 0, whose variance is one for each source of
    columns (``of``), learned by empirical Bayes: ``τ² = (|H|² + tr Cov) / number``, some rounds of it. A column that
    says nothing of the variable is so pulled to 0, one that says much is not. The sources 1 to ``lines`` are columns
    themselves, which are pulled less than they could be; a number in no category by more than a little of what is told
    of it there.
    """
    phi = basis.astype(np.float64)
    coefficients = np.zeros((phi.shape[1], likelihood.shape[1]))
    precision = np.ones_like(coefficients)
    precision[of == 0] = LEAST_PRECISION
    itself = (of > 0) & (of <= lines)
    alone = itself & (np.bincount(of)[of] == 1)
    for turn in range(ROUNDS + 1):
        coefficients = _maximum(phi, likelihood, precision, coefficients)
        information = _information(phi, likelihood, precision, coefficients)
        values, vectors = np.linalg.eigh(information)
        root = vectors / np.sqrt(np.maximum(values, LEAST_PRECISION))
        if turn < ROUNDS - 1:
            told = np.diag(information).reshape(precision.shape) - precision
            precision = np.repeat(_precision(of, coefficients, root), precision.shape[1], axis=1)
            precision[itself] = np.minimum(precision, MOST_PRECISION_LINES)[itself]
            most = np.maximum(MOST_SHARE * told, CLEAR_PRECISION)
            precision[alone] = np.minimum(precision, most)[alone]
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


def _precision(of: NDArray[np.int64], coefficients: Array, root: Array) -> Array:
    """Return the precision of each column's coefficients (D, 1): S - 1 over the expected sum of squares, by source.

    Of S coefficients S - 1 are free: what is equal for all categories says nothing, and is left out.
    """
    apart = root.reshape(*coefficients.shape, -1)
    apart = apart - apart.mean(axis=1, keepdims=True)
    squares = ((coefficients - coefficients.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) + (apart**2).sum(axis=(1, 2))
    number = np.bincount(of)[of] * (coefficients.shape[1] - 1)
    found = np.clip(number / np.maximum(np.bincount(of, squares)[of], 1e-12), LEAST_PRECISION, MOST_PRECISION)
    found[of == 0] = LEAST_PRECISION
    return np.asarray(found)[:, None]


def _maximum(phi: Array, likelihood: NDArray[np.float32], precision: Array, start: Array) -> Array:
    """Return the mode, by Newton's method; a curvature, most of the work, serves as long as its steps gain enough."""
    h, value, curved, gain = start, _value(phi, likelihood, precision, start), None, np.inf
    for _ in range(STEPS):
        prior = scipy.special.softmax(phi @ h, axis=1)
        posterior = given(prior, likelihood)
        gradient = phi.T @ (posterior - prior) - precision * h
        before, least = gain, value - SLACK * abs(value)
        if curved is not None:
            step = scipy.linalg.cho_solve(curved, gradient.ravel()).reshape(h.shape)
            gain, reached = float((gradient * step).sum()), _value(phi, likelihood, precision, h + step)
        if curved is None or gain > SLOWEST * before or not reached >= least:
            for curved in _curved(phi, prior, posterior, precision):
                step = scipy.linalg.cho_solve(curved, gradient.ravel()).reshape(h.shape)
                gain, reached = float((gradient * step).sum()), _value(phi, likelihood, precision, h + step)
                if reached >= least:
                    break
        while not reached >= least:  # a whole step can go far past the maximum
            step = step / 2
            reached = _value(phi, likelihood, precision, h + step)
        h, value = h + step, reached
        if gain < DECREMENT:
            break
    return h


def _curved(phi: Array, prior: Array, posterior: Array, precision: Array) -> Iterator[tuple[Array, bool]]:
    """Yield the factored information, then with less of what is missing: all complete data's is positive definite."""
    complete, missing = _curvatures(phi, prior, posterior, precision)
    for share in (1.0, 0.95, 0.7, 0.0):
        try:
            yield scipy.linalg.cho_factor(complete - share * missing)
        except scipy.linalg.LinAlgError:
            continue


def _information(phi: Array, likelihood: NDArray[np.float32], precision: Array, h: Array) -> Array:
    """Return the observed information at coefficients h, (DS, DS)."""
    prior = scipy.special.softmax(phi @ h, axis=1)
    complete, missing = _curvatures(phi, prior, given(prior, likelihood), precision)
    return np.asarray(complete - missing)


def _curvatures(phi: Array, prior: Array, posterior: Array, precision: Array) -> tuple[Array, Array]:
    """Return the information of complete data, with the precisions, and what of it is missing, (DS, DS) each."""
    complete, missing = curvature(phi, (prior, posterior))
    return complete + np.diag(precision.ravel()), missing


def _value(phi: Array, likelihood: NDArray[np.float32], precision: Array, h: Array) -> float:
    total = np.log(np.maximum((scipy.special.softmax(phi @ h, axis=1) * likelihood).sum(axis=1), 1e-300)).sum()
    return float(total - (precision * h * h).sum() / 2)


def given(prior: Array, likelihood: NDArray[np.float32]) -> Array:
    """Return ``P(category | columns, released)``, (n, S)."""
    joint = prior * likelihood
    shares: Array = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
    return shares


def curvature(phi: NDArray[np.floating], shares: Sequence[NDArray[np.floating]]) -> list[Array]:
    """Return ``Σ_i φ_i φ_iᵀ ⊗ (diag s_i − s_i s_iᵀ)``, (DS, DS), for each s (n, S).

    Products of columns times products of shares are one product of matrices, in single precision for some records at
    a time; these are added in double precision.
    """
    n, columns, size = *phi.shape, shares[0].shape[1]
    every = -(-n // MOST_RECORDS)  # every so many records: the order of a release says nothing
    one, two = np.triu_indices(columns)
    left, right = np.triu_indices(size)
    sums = np.zeros((len(shares) * len(left), len(one)))
    for start in range(0, n, AT_ONCE * every):
        at = slice(start, start + AT_ONCE * every, every)
        part = phi[at].astype(np.float32)
        weights = [_variance(s[at].astype(np.float32), left, right) for s in shares]
        sums += np.concatenate(weights, axis=1).T @ (part[:, one] * part[:, two])
    found = []
    for products in np.split(sums * (n / len(range(0, n, every))), len(shares)):
        whole = np.empty((columns, size, columns, size))
        for rows, others in ((one, two), (two, one)):
            whole[rows, left[:, None], others, right[:, None]] = products
            whole[rows, right[:, None], others, left[:, None]] = products
        found.append(whole.reshape(columns * size, columns * size))
    return found


def _variance(shares: NDArray[np.float32], left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return ``diag s − s sᵀ`` of each record at the pairs of categories ``left`` and ``right``."""
    found = -shares[:, left] * shares[:, right]
    found[:, left == right] += shares
    return np.asarray(found)
