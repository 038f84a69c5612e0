"""The transition matrix: the exact probabilities of one released block."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from postrand.errors import EstimationError, PrivacyError, SpecificationError, sentence, shown
from postrand.mechanism.matrix_storage import CONSTANT_SIZE, Constant, Dense, Factor, Form, constant_form
from postrand.mechanism.matrix_storage import UNIT as UNIT
from postrand.support import saving
from postrand.support.entropy import beta_lower, column_excess, entropy_rate_lower
from postrand.support.exact import exp_lower, log_upper, within
from postrand.support.inputs import finite, is_whole, real_array

MAX_SIZE = 100_000
ROW_SUM_TOLERANCE = 1e-9
MAX_CONDITION = 1e12
"""Beyond this condition number in the 1-norm float64 solutions keep no useful digits."""


@dataclass(frozen=True, slots=True, eq=False, init=False)
class TransitionMatrix:
    """Hold ``M[i, j] = P(released = j | true = i)`` as integers in units of 2^-53.

    ``weights`` has shape (S, S): rows are the true category, columns the released one, every row sums to exactly
    ``UNIT``, so ``array = weights / 2^53`` is exact in float64. A category that is never released is a zero column.
    A matrix of at least 64 categories that is constant off the diagonal is stored as two weights for each row
    (``form``); its ``weights`` are then computed at each access.

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

    form: Form

    def __init__(self, weights: ArrayLike) -> None:
        try:
            given = np.asarray(weights)
        except (ValueError, TypeError, OverflowError):
            raise SpecificationError(sentence("weights are not an array of integers", wanted="int64")) from None
        _check_shape(given)
        if not np.issubdtype(given.dtype, np.integer):
            raise SpecificationError(sentence("weights are not integers", got=given.dtype, wanted="int64"))
        if given.min() < 0 or given.max() > UNIT:
            raise SpecificationError(sentence("a weight is outside 0..2^53"))
        # From 2,049 categories on, a wrong sum can wrap around 2^64 and look right: the float sum detects it.
        wrapped = given.sum(axis=1, dtype=np.float64) > 2 * UNIT
        off = np.flatnonzero((given.sum(axis=1) != UNIT) | wrapped)
        if off.size:
            raise SpecificationError(sentence(f"row {off[0]} does not sum to 2^53", fix="use from_array"))
        form: Form | None = constant_form(given.astype(np.int64, copy=False))
        if form is None:
            own = np.array(given, dtype=np.int64, order="C")
            own.setflags(write=False)
            form = Dense(own)
        object.__setattr__(self, "form", form)

    @classmethod
    def constant(cls, diagonal: ArrayLike, off: ArrayLike) -> TransitionMatrix:
        """Return the matrix with ``W[i,i] = diagonal[i]`` and ``W[i,j] = off[i]`` for every other j, shapes (S,).

        Raises
        ------
        SpecificationError
            If these are not whole numbers of 0 or more, with ``diagonal + (S-1) off = 2^53`` in each row.

        Examples
        --------
        >>> M = TransitionMatrix.constant([2**52, 2**53], [2**52, 0])
        >>> M.array.tolist()
        [[0.5, 0.5], [0.0, 1.0]]
        """
        stay, move = np.asarray(diagonal), np.asarray(off)
        if stay.ndim != 1 or stay.shape != move.shape or not stay.size:
            what = "expected two weights for each row: one on the diagonal and one off it"
            raise SpecificationError(sentence(what, got=f"shapes {stay.shape} and {move.shape}"))
        if not all(np.issubdtype(a.dtype, np.integer) for a in (stay, move)):
            raise SpecificationError(sentence("weights are not integers", got=f"{stay.dtype}, {move.dtype}"))
        others = stay.size - 1
        if min(stay.min(), move.min()) < 0 or stay.max() > UNIT or move.max() > UNIT // max(others, 1):
            raise SpecificationError(sentence("a weight is too large or negative: a row must sum to 2^53"))
        held = Constant(stay.astype(np.int64), move.astype(np.int64))
        wrong = np.flatnonzero(held.diagonal + others * held.off != UNIT)
        if wrong.size:
            raise SpecificationError(sentence(f"row {wrong[0]} does not sum to 2^53"))
        if stay.size < CONSTANT_SIZE:
            return cls(held.weights)
        for array in (held.diagonal, held.off):
            array.setflags(write=False)
        made = cls.__new__(cls)
        object.__setattr__(made, "form", held)
        return made

    @classmethod
    def from_array(cls, array: ArrayLike) -> TransitionMatrix:
        """Round a row-stochastic float matrix to the nearest exact matrix (zeros stay zero).

        ``array`` has shape (S, S), rows true, columns released, each row summing to 1 within 1e-9. A matrix that is
        already a multiple of 2^-53 with exact row sums does not change. Rounding ignores privacy models: it can move
        a matrix *outside* a model by one unit; ``design`` rounds inward instead.

        Raises
        ------
        SpecificationError
            If the matrix is not square, has an entry that is not a number, not finite or negative, or a row does not
            sum to 1.
        """
        given = real_array(array, "the matrix")
        _check_shape(given)
        _check_probabilities(given)
        return cls(_round_rows(given))

    @classmethod
    def identity(cls, size: int) -> TransitionMatrix:
        """Return the matrix that releases every category unchanged; raises SpecificationError unless ``size >= 1``."""
        check_size(size)
        return cls.constant(np.full(size, UNIT), np.zeros(size, dtype=np.int64))

    def __repr__(self) -> str:
        least, most = float(self.diagonal.min()), float(self.diagonal.max())
        stays = f"{least:.4g}" if least == most else f"{least:.4g} to {most:.4g}"
        return f"TransitionMatrix({self.size} categories, stays with probability {stays}, ε = {self.epsilon:.4g})"

    @property
    def size(self) -> int:
        """The number S of categories."""
        return len(self.form.diagonal)

    @property
    def weights(self) -> NDArray[np.int64]:
        """``W``, shape (S, S), rows true, columns released; read-only."""
        return self.form.weights

    @property
    def diagonal(self) -> NDArray[np.float64]:
        """``M[i, i]``, shape (S,): the probability of staying."""
        return self.form.diagonal / float(UNIT)

    @property
    def array(self) -> NDArray[np.float64]:
        """``M`` as float64, exact, shape (S, S), rows true, columns released."""
        return self.weights / float(UNIT)

    @property
    def ratio(self) -> Fraction | None:
        """``max_j max_i M[i,j] / min_i M[i,j]`` as an exact rational; None if it is infinite.

        Columns that are zero throughout are never released and do not count.
        """
        high, low = self.form.columns()
        used = high > 0
        if (low[used] == 0).any():
            return None
        high, low = high[used], low[used]
        if (high == high[0]).all() and (low == low[0]).all():  # of randomised response: many columns, all alike
            return Fraction(int(high[0]), int(low[0]))
        return max(Fraction(a, b) for a, b in set(zip(high.tolist(), low.tolist(), strict=True)))

    @property
    def epsilon(self) -> float:
        """The smallest ε for which the exact matrix is ε-differentially private (ABC (6)), rounded up; can be inf."""
        ratio = self.ratio
        return math.inf if ratio is None else log_upper(ratio)

    @property
    def is_bistochastic(self) -> bool:
        """Whether the columns also sum to exactly 1."""
        if isinstance(self.form, Constant):  # column sums are Σ off + diagonal - off: all alike, so off is too
            return bool((self.form.off == self.form.off[0]).all())
        # Sums that wrap around 2^64 cannot all come out right: the true ones add up to S 2^53.
        return bool((self.weights.sum(axis=0) == UNIT).all())

    @property
    def entropy_rate(self) -> float:
        """The mean entropy of a row, ``H(P) = -(1/S) Σ P ln P`` in nats (RDF (4)), rounded down."""
        return entropy_rate_lower(self._rows)

    @property
    def beta(self) -> float:
        """``H(P) / ln S``: the β of bistochastic privacy (RDF Definition 1), rounded down.

        Raises
        ------
        PrivacyError
            If the matrix is not bistochastic: β is not defined for it.
        """
        if not self.is_bistochastic:
            column, excess = column_excess(self.weights)
            raise PrivacyError(
                sentence(
                    f"column {column} does not sum to 1, so no beta is defined",
                    got=f"an excess of {float(excess):.3g}",
                    fix="round_bistochastic() makes an exact matrix from a nearly bistochastic array",
                )
            )
        return beta_lower([self._rows])

    @property
    def _rows(self) -> NDArray[np.int64]:
        """Rows that represent all: one row if all have the same entries in another order (bistochastic constants)."""
        if isinstance(self.form, Constant) and self.is_bistochastic:
            return self.form.column(0)[None, :]
        return self.weights

    @property
    def condition(self) -> float:
        """The condition number of ``M`` in the 1-norm (inf if singular); see ``matrix_storage.Factor``."""
        return self.form.factor().condition

    def times(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``M x`` for x of shape (S,) or (S, n)."""
        return self.form.times(x)

    def factor(self) -> Factor:
        """Return a factorisation to solve with ``M`` and its transpose.

        Raises
        ------
        EstimationError
            If ``M`` is singular or its condition number exceeds 1e12: frequencies are then not identifiable.

        Examples
        --------
        >>> M = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
        >>> M.factor().solve_transposed(np.array([0.6, 0.4])).round(12).tolist()
        [0.7, 0.3]
        """
        factor = self.form.factor()
        condition = factor.condition
        if not condition <= MAX_CONDITION:
            raise EstimationError(
                sentence(
                    "the transition matrix cannot be inverted in float64",
                    got=f"condition number {condition:.3g}",
                    wanted=f"<= {MAX_CONDITION:.0e}",
                    fix="design an invertible matrix, for example structure UniformOffDiagonal",
                )
            )
        return factor

    def inverse(self) -> NDArray[np.float64]:
        """Return ``M^-1`` in float64, shape (S, S); raises as :meth:`factor`."""
        return self.factor().solve(np.eye(self.size))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: ``weights``, or ``diagonal`` and ``off`` if the matrix is stored as these two."""
        if isinstance(self.form, Constant):
            return {"unit": "2^-53", "diagonal": self.form.diagonal.tolist(), "off": self.form.off.tolist()}
        return {"unit": "2^-53", "orientation": "rows true, columns released", "weights": self.weights.tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TransitionMatrix:
        """Build a matrix from :meth:`to_dict`; raises SpecificationError if it is not an exact matrix."""
        if data.get("unit") != "2^-53":
            raise SpecificationError(sentence("unknown unit of the weights", got=data.get("unit"), wanted="2^-53"))
        if "off" in data:
            return cls.constant(data["diagonal"], data["off"])
        return cls(data["weights"])

    def save(self, path: str | Path, *, replace: bool = False) -> None:
        """Write the exact matrix to a file that :func:`postrand.load_matrix` reads; raises UsageError if it exists."""
        saving.save(path, "transition matrix", self.to_dict(), replace=replace)

    def digest(self) -> str:
        """Return the SHA-256 of the matrix as hexadecimal.

        Of a line ``postrand-matrix S`` and the weights (little-endian int64, row by row); of a matrix in constant form,
        of ``postrand-matrix S constant``, the diagonal, and the weights off it.
        """
        if isinstance(self.form, Constant):
            return _sha256(f"postrand-matrix {self.size} constant\n", self.form.diagonal, self.form.off)
        return _sha256(f"postrand-matrix {self.size}\n", self.weights)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TransitionMatrix):
            return False
        one, two = self.form, other.form
        if isinstance(one, Constant) and isinstance(two, Constant):
            return np.array_equal(one.diagonal, two.diagonal) and np.array_equal(one.off, two.off)
        return type(one) is type(two) and np.array_equal(one.weights, two.weights)

    def __hash__(self) -> int:
        return hash(self.digest())


def load_matrix(path: str | Path) -> TransitionMatrix:
    """Read a matrix that :meth:`TransitionMatrix.save` wrote; raises SpecificationError where it is none."""
    with saving.reading(path, "transition matrix") as data:
        return TransitionMatrix.from_dict(data)


def randomised_response(size: int, epsilon: float) -> TransitionMatrix:
    """Return k-ary randomised response at or just inside ε: ``M[i,i] = e^ε / (S-1+e^ε)``, other entries equal.

    The off-diagonal weight is rounded up, so the exact ratio is at most ``e^ε``.

    Raises
    ------
    SpecificationError
        If the size is not a whole number from 1 to 100,000.
    PrivacyError
        If ε is not positive and finite, or so large or so small that no matrix in units of 2^-53 attains it.

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
    if not within(Fraction(max(diagonal, off), min(diagonal, off)), epsilon):
        raise PrivacyError(
            sentence(
                "epsilon is too small for an exact matrix",
                got=f"{epsilon:g}",
                wanted=f">= {size * size / UNIT:.2g} for {size} categories (weights are multiples of 2^-53)",
                fix="choose a larger epsilon, or drop the variable, which would keep no information",
            )
        )
    return TransitionMatrix.constant(np.full(size, diagonal), np.full(size, off))


def check_size(size: int) -> None:
    """Raise SpecificationError unless the number of categories is a whole number from 1 to 100,000."""
    if not (is_whole(size, 1) and size <= MAX_SIZE):
        raise SpecificationError(
            sentence("the number of categories is not valid", got=shown(size, repr), wanted=f"1..{MAX_SIZE}")
        )


def check_epsilon(epsilon: float, size: int) -> None:
    """Raise PrivacyError unless ``0 < ε <= ln(2^53 - S + 1)``, the range of exact matrices with S categories."""
    if not finite(epsilon) > 0:
        raise PrivacyError(sentence("epsilon is not a positive number", got=shown(epsilon, repr), wanted="0 < epsilon"))
    limit = math.log(UNIT - size + 1)
    if epsilon > limit:
        raise PrivacyError(
            sentence(
                "epsilon is too large for an exact matrix",
                got=f"{epsilon:g}",
                wanted=f"<= {limit:.4f} for {size} categories (weights are multiples of 2^-53)",
                fix="choose a smaller epsilon: this one is no protection",
            )
        )


def _sha256(head: str, *arrays: NDArray[np.int64]) -> str:
    found = hashlib.sha256(head.encode())
    for array in arrays:
        found.update(array.astype("<i8", copy=False).data)
    return found.hexdigest()


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
