"""The transition matrix: the exact law of one released block."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from postrand.entropy import beta_lower, column_excess, entropy_rate_lower
from postrand.errors import EstimationError, PrivacyError, SpecificationError, sentence, shown
from postrand.exact import exp_lower, log_upper, within
from postrand.plain import finite, is_whole, real_array

UNIT = 1 << 53
"""Every row of weights sums to exactly this: one unit of probability is 2^-53."""

MAX_SIZE = 100_000
ROW_SUM_TOLERANCE = 1e-9
MAX_CONDITION = 1e12
"""Beyond this 2-norm condition number float64 solutions keep no useful digits."""


@dataclass(frozen=True, slots=True, eq=False)
class TransitionMatrix:
    """Hold ``M[i, j] = P(released = j | true = i)`` as integers in units of 2^-53.

    ``weights`` has shape (S, S): rows are the true category, columns the released one, every row sums to exactly
    ``UNIT``, so ``array = weights / 2^53`` is exact in float64. A category that is never released is a zero column.

    Raises
    ------
    SpecificationError
        If the weights are not a square integer array, are negative, or a row does not sum to 2^53.

    Examples
    --------
    >>> M = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    >>> M.array.tolist(), M.size
    ([[0.75, 0.25], [0.25, 0.75]], 2)
    >>> M.ratio, M.epsilon >= math.log(3)
    (Fraction(3, 1), True)
    """

    weights: NDArray[np.int64]

    def __post_init__(self) -> None:
        try:
            weights = np.array(self.weights)
        except (ValueError, TypeError, OverflowError):
            raise SpecificationError(sentence("weights are not an array of integers", wanted="int64")) from None
        _check_shape(weights)
        if not np.issubdtype(weights.dtype, np.integer):
            raise SpecificationError(sentence("weights are not integers", got=weights.dtype, wanted="int64"))
        if weights.min() < 0 or weights.max() > UNIT:
            raise SpecificationError(sentence("a weight is outside 0..2^53"))
        weights = np.ascontiguousarray(weights, dtype=np.int64)
        # From 2,049 categories on, sums can wrap around 2^64 to look right: the float sum tells.
        wrapped = weights.sum(axis=1, dtype=np.float64) > 2 * UNIT
        off = np.flatnonzero((weights.sum(axis=1) != UNIT) | wrapped)
        if off.size:
            raise SpecificationError(sentence(f"row {off[0]} does not sum to 2^53", fix="use from_array"))
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)

    @classmethod
    def from_array(cls, array: ArrayLike) -> TransitionMatrix:
        """Round a row-stochastic float matrix to the nearest exact law (zeros stay zero).

        ``array`` has shape (S, S), rows true, columns released, each row summing to 1 within 1e-9. A matrix that is
        already a multiple of 2^-53 with exact row sums is kept verbatim. Rounding knows no privacy model: it can move
        a matrix *outside* one by a unit; ``design`` rounds inward instead.

        Raises
        ------
        SpecificationError
            If the matrix is not square, has an entry that is no number, not finite or negative, or a row does not sum
            to 1.
        """
        given = real_array(array, "the matrix")
        _check_shape(given)
        _check_probabilities(given)
        return cls(_round_rows(given))

    @classmethod
    def identity(cls, size: int) -> TransitionMatrix:
        """Return the law that releases every category unchanged; raises SpecificationError unless ``size >= 1``."""
        check_size(size)
        return cls(np.eye(size, dtype=np.int64) * UNIT)

    @property
    def size(self) -> int:
        """The number S of categories."""
        return int(self.weights.shape[0])

    @property
    def array(self) -> NDArray[np.float64]:
        """``M`` as float64, exact, shape (S, S), rows true, columns released."""
        return self.weights / float(UNIT)

    @property
    def ratio(self) -> Fraction | None:
        """``max_j max_i M[i,j] / min_i M[i,j]`` as an exact rational; None where it is infinite.

        Columns that are zero throughout are never released and do not count.
        """
        high, low = self.weights.max(axis=0), self.weights.min(axis=0)
        used = high > 0
        if (low[used] == 0).any():
            return None
        return max(Fraction(int(a), int(b)) for a, b in zip(high[used], low[used], strict=True))

    @property
    def epsilon(self) -> float:
        """The smallest ε for which the exact law is ε-differentially private (ABC (6)), rounded up; may be inf."""
        ratio = self.ratio
        return math.inf if ratio is None else log_upper(ratio)

    @property
    def is_bistochastic(self) -> bool:
        """Whether the columns too sum to exactly 1."""
        # Sums that wrap around 2^64 cannot all come out right: the true ones add up to S 2^53.
        return bool((self.weights.sum(axis=0) == UNIT).all())

    @property
    def entropy_rate(self) -> float:
        """The mean entropy of a row, ``H(P) = -(1/S) Σ P ln P`` in nats (RDF (4)), rounded down."""
        return entropy_rate_lower(self.weights)

    @property
    def beta(self) -> float:
        """``H(P) / ln S``: the β of bistochastic privacy (RDF Definition 1), rounded down.

        Raises
        ------
        PrivacyError
            If the law is not bistochastic: no β is defined for it.
        """
        if not self.is_bistochastic:
            column, excess = column_excess(self.weights)
            raise PrivacyError(
                sentence(
                    f"column {column} does not sum to 1, so no beta is defined",
                    got=f"an excess of {float(excess):.3g}",
                    fix="round_bistochastic() makes an exact law of a nearly bistochastic array",
                )
            )
        return beta_lower([self.weights])

    @property
    def condition(self) -> float:
        """The 2-norm condition number of ``M`` (inf where singular)."""
        values = np.linalg.svd(self.array, compute_uv=False)
        return float(values[0] / values[-1]) if values[-1] > 0 else math.inf

    def inverse(self) -> NDArray[np.float64]:
        """Return ``M^-1`` in float64.

        Raises
        ------
        EstimationError
            If ``M`` is singular or its condition number exceeds 1e12: frequencies are then not identifiable.
        """
        condition = self.condition
        if not condition <= MAX_CONDITION:
            raise EstimationError(
                sentence(
                    "the transition matrix cannot be inverted in float64",
                    got=f"condition number {condition:.3g}",
                    wanted=f"<= {MAX_CONDITION:.0e}",
                    fix="design an invertible matrix, for example structure UniformOffDiagonal",
                )
            )
        return np.asarray(np.linalg.inv(self.array), dtype=np.float64)

    def digest(self) -> str:
        """Return the SHA-256 of size and weights (little-endian int64, row by row) as hexadecimal."""
        head = f"postrand-matrix {self.size}\n".encode()
        return hashlib.sha256(head + self.weights.astype("<i8").tobytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TransitionMatrix) and np.array_equal(self.weights, other.weights)

    def __hash__(self) -> int:
        return hash(self.digest())


def randomised_response(size: int, epsilon: float) -> TransitionMatrix:
    """Return k-ary randomised response at or just inside ε: ``M[i,i] = e^ε / (S-1+e^ε)``, other entries equal.

    The off-diagonal weight is rounded up, so the exact ratio is at most ``e^ε``.

    Raises
    ------
    SpecificationError
        If the size is not a whole number from 1 to 100,000.
    PrivacyError
        If ε is not positive and finite, or so large or so small that no law in units of 2^-53 holds it.

    Examples
    --------
    >>> randomised_response(2, 1.0).epsilon <= 1.0
    True
    """
    check_size(size)
    check_epsilon(epsilon, size)
    size, epsilon = int(size), finite(epsilon)
    grown = exp_lower(epsilon)
    # off >= 2^53 / (S-1+e) gives diagonal = 2^53 - (S-1) off <= e off: rounding up only moves inward.
    off = -(-UNIT * grown.denominator // (grown.numerator + (size - 1) * grown.denominator))
    diagonal = UNIT - (size - 1) * off
    if size > 1 and not within(Fraction(max(diagonal, off), min(diagonal, off)), epsilon):
        raise PrivacyError(
            sentence(
                "epsilon is smaller than an exact law can hold",
                got=f"{epsilon:g}",
                wanted=f">= {size * size / UNIT:.2g} for {size} categories (weights are multiples of 2^-53)",
                fix="choose a larger epsilon, or drop the variable: nothing of it would be left",
            )
        )
    weights = np.full((size, size), off, dtype=np.int64)
    np.fill_diagonal(weights, diagonal)
    return TransitionMatrix(weights)


def check_size(size: int) -> None:
    """Raise SpecificationError unless the number of categories is a whole number from 1 to 100,000."""
    if not (is_whole(size, 1) and size <= MAX_SIZE):
        raise SpecificationError(sentence("no number of categories", got=shown(size, repr), wanted=f"1..{MAX_SIZE}"))


def check_epsilon(epsilon: float, size: int) -> None:
    """Raise PrivacyError unless ``0 < ε <= ln(2^53 - S + 1)``, the range that exact laws of S categories hold."""
    if not finite(epsilon) > 0:
        raise PrivacyError(sentence("epsilon is not a positive number", got=shown(epsilon, repr), wanted="0 < epsilon"))
    limit = math.log(UNIT - size + 1)
    if epsilon > limit:
        raise PrivacyError(
            sentence(
                "epsilon is larger than an exact law can hold",
                got=f"{epsilon:g}",
                wanted=f"<= {limit:.4f} for {size} categories (weights are multiples of 2^-53)",
                fix="choose a smaller epsilon, or leave the variable out of the mechanism",
            )
        )


def _check_shape(array: NDArray[Any]) -> None:
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.shape[0] < 1:
        raise SpecificationError(
            sentence("a transition matrix must be square", got=f"shape {array.shape}", wanted="(S, S), S >= 1")
        )


def _check_probabilities(array: NDArray[np.float64]) -> None:
    problems = []
    if not np.isfinite(array).all():
        problems.append(sentence("the matrix has entries that are not finite"))
    elif array.min() < 0:
        i, j = (int(k) for k in np.unravel_index(array.argmin(), array.shape))
        problems.append(sentence("a probability is negative", where=f"row {i}, column {j}", got=array[i, j]))
    else:
        sums = array.sum(axis=1)
        problems += [
            sentence(f"row {i} does not sum to 1", got=repr(float(sums[i])), wanted="1 within 1e-9")
            for i in np.flatnonzero(np.abs(sums - 1) > ROW_SUM_TOLERANCE)[:10]
        ]
    if problems:
        raise SpecificationError(problems)


def _round_rows(array: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round rows to integers summing to UNIT: floor, then hand the few units left to the largest remainders."""
    scaled = array * UNIT
    verbatim = np.array([math.fsum(row) == UNIT for row in scaled])
    scaled[~verbatim] /= array[~verbatim].sum(axis=1, keepdims=True)
    weights = np.floor(scaled).astype(np.int64)
    missing = UNIT - weights.sum(axis=1)
    for i in np.flatnonzero(missing):
        if missing[i] < 0:  # float sums err by a few units; the largest entry always has room for them
            weights[i, scaled[i].argmax()] += missing[i]
            continue
        order = np.lexsort((-scaled[i], weights[i] - scaled[i]))
        order = order[scaled[i][order] > 0]
        share, rest = divmod(int(missing[i]), order.size)
        weights[i, order] += share
        weights[i, order[:rest]] += 1
    return weights
