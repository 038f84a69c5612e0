"""Parameterised bistochastic laws (RDF (3), (6), (7)), exact, and the parameter that reaches a wanted β.

Expression (2), ε-differential privacy, is ``postrand.randomised_response``: symmetric, hence bistochastic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from postrand.errors import PrivacyError, SpecificationError, raise_all, sentence, shown
from postrand.mechanism.matrix import UNIT, TransitionMatrix
from postrand.privacy.bistochastic import Bistochastic
from postrand.support.inputs import is_whole, listed, real_array


def blocks(sizes: Sequence[int]) -> TransitionMatrix:
    """Return the block-diagonal law with uniform blocks ``1/n_l`` of the given sizes: k-anonymity (RDF (3)).

    Entries within a block differ by at most one unit of 2^-53.

    Raises
    ------
    SpecificationError
        If a size is not a positive integer.

    Examples
    --------
    >>> blocks([2, 1]).array.tolist()
    [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """
    if not (listed(sizes) and all(is_whole(n, 1) for n in sizes)):
        raise SpecificationError(sentence("a class size is not a positive integer", got=shown(sizes), wanted=">= 1"))
    return TransitionMatrix(scipy.linalg.block_diag(*(_circulant(_shares(np.ones(n))) for n in sizes)))


def circulant(first_row: ArrayLike) -> TransitionMatrix:
    """Return the circulant law whose row u is ``first_row`` moved u places to the right (RDF (6)).

    ``first_row`` has shape (S,), is not negative and sums to 1 within 1e-9.

    Raises
    ------
    SpecificationError
        If it is not a probability distribution.

    Examples
    --------
    >>> circulant([0.5, 0.25, 0.25]).array.tolist()
    [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]
    """
    row = real_array(first_row, "the first row")
    if row.ndim != 1 or not row.size or not np.isfinite(row).all() or row.min() < 0 or abs(row.sum() - 1) > 1e-9:
        raise SpecificationError(
            sentence("the first row is not a probability distribution", wanted="finite, not negative, sum 1")
        )
    return TransitionMatrix(_circulant(_shares(row)))


def tridiagonal(alpha: ArrayLike) -> TransitionMatrix:
    """Return the symmetric tridiagonal law with ``M[i,i+1] = M[i+1,i] = alpha[i]`` (RDF (7)).

    ``alpha`` has shape (S-1,). RDF prints one α more than an S x S matrix has places beside its diagonal.

    Raises
    ------
    SpecificationError
        For every α outside [0, 1] and every pair of neighbours with a sum above 1.

    Examples
    --------
    >>> tridiagonal([0.5, 0.25]).array.tolist()
    [[0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.0, 0.25, 0.75]]
    """
    a = real_array(alpha, "alpha")
    if a.ndim != 1 or not np.isfinite(a).all():
        raise SpecificationError(sentence("alpha is not a list of finite numbers", got=f"shape {a.shape}"))
    problems = [sentence(f"alpha[{i}] is outside [0, 1]", got=float(a[i])) for i in np.flatnonzero((a < 0) | (a > 1))]
    pairs = np.rint(a[:-1] * UNIT) + np.rint(a[1:] * UNIT)
    problems += [
        sentence(f"alpha[{i}] + alpha[{i + 1}] exceeds 1", got=float(a[i] + a[i + 1]), fix="make one of them smaller")
        for i in np.flatnonzero(pairs > UNIT)
    ]
    raise_all(SpecificationError, problems)
    off = np.rint(a * UNIT).astype(np.int64)
    weights = np.diag(off, 1) + np.diag(off, -1)
    return TransitionMatrix(weights + np.diag(UNIT - weights.sum(axis=1)))


def reach_beta(law: Callable[[float], TransitionMatrix], start: float, end: float, beta: float) -> float:
    """Return the parameter nearest to ``start``, on the way to ``end``, whose law has at least ``beta``.

    ``law(start)`` has too low a β and ``law(end)`` one that is high enough; β grows along the way. The parameter
    found is on the feasible side of a bracket as narrow as floats allow.

    Raises
    ------
    PrivacyError
        If ``law(end)`` does not reach ``beta``, or β is not a number from 0 to 1.

    Examples
    --------
    >>> from postrand.mechanism.matrix import randomised_response
    >>> epsilon = reach_beta(lambda e: randomised_response(12, e), 30.0, 0.001, 0.6)
    >>> round(epsilon, 4), randomised_response(12, epsilon).beta >= 0.6
    (3.0108, True)
    """
    Bistochastic(beta)  # refuses what is no β
    if law(start).beta >= beta:
        return start
    attained = law(end).beta
    if not attained >= beta:
        raise PrivacyError(sentence("no parameter reaches this beta", got=beta, wanted=f"<= {attained:.6g}"))
    while True:
        middle = (start + end) / 2
        if middle in (start, end):
            return end
        if law(middle).beta >= beta:
            end = middle
        else:
            start = middle


def _shares(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return integers in proportion to ``weights`` that sum to 2^53; zeros stay zero."""
    rounded: NDArray[np.int64] = np.floor(weights / weights.sum() * (UNIT - weights.size)).astype(np.int64)
    used = np.flatnonzero(weights)
    order = used[np.argsort(-weights[used], kind="stable")]
    share, rest = divmod(UNIT - int(rounded.sum()), order.size)
    rounded[order] += share
    rounded[order[:rest]] += 1
    return rounded


def _circulant(row: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(scipy.linalg.circulant(row).T)
