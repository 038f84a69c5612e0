"""The forms of an exact matrix in memory: all of its weights, or two for each row.

The matrix of a large block is often constant off the diagonal: a record stays, or moves to any other category with the
same probability. Then two numbers for each row are exact, and S² or S³ steps for a dense matrix become S steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.errors import SpecificationError, sentence

UNIT = 1 << 53
"""Every row of weights sums to exactly this: one unit of probability is 2^-53."""

CONSTANT_SIZE = 64
"""From this size, a matrix that is constant off the diagonal has the form :class:`Constant`; only one form each."""

MAX_DENSE = 1 << 14
"""The largest dense matrix: at this size it takes 2 GB."""

_CANCEL = 1e7

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Factor:
    """Hold the factorisation to solve with M and Mᵀ for right sides (S,) or (S, n), and the 1-norm condition number.

    The number is exact for small and for constant matrices; otherwise LAPACK's estimate, which never exceeds the true
    one. It is inf if M is singular; then nothing can be solved.
    """

    condition: float
    solve: Callable[[Floats], Floats]
    solve_transposed: Callable[[Floats], Floats]


class Form(Protocol):
    """The queries that each form answers; the returned arrays are read-only."""

    @property
    def diagonal(self) -> Ints:
        """The weights of staying, shape (S,)."""
        ...

    @property
    def weights(self) -> Ints:
        """All weights, shape (S, S), rows true, columns released."""
        ...

    def column(self, released: int) -> Ints:
        """Return the weights of one released category, shape (S,)."""
        ...

    def columns(self) -> tuple[Ints, Ints]:
        """Return the largest and the smallest weight in each column, shapes (S,)."""
        ...

    def times(self, x: Floats) -> Floats:
        """Return ``M x`` for x of shape (S,) or (S, n)."""
        ...

    def factor(self) -> Factor:
        """Prepare to solve with M."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """Hold all weights."""

    weights: Ints

    @property
    def diagonal(self) -> Ints:
        """The weights of staying."""
        return self.weights.diagonal()

    def column(self, released: int) -> Ints:
        """Return one column."""
        return self.weights[:, released]

    def columns(self) -> tuple[Ints, Ints]:
        """Return the extremes of each column."""
        return self.weights.max(axis=0), self.weights.min(axis=0)

    def times(self, x: Floats) -> Floats:
        """Return the product."""
        return np.asarray(self.weights / float(UNIT) @ x)

    def factor(self) -> Factor:
        """Decompose M once: ``M = P L U``; a small M is inverted, since SciPy takes longer to load than that."""
        array = self.weights / float(UNIT)
        if len(array) < CONSTANT_SIZE:
            return _inverted(array)
        lapack = scipy.linalg.lapack
        norm = float(array.sum(axis=0).max())  # no entry is negative
        lu, pivots, singular = lapack.dgetrf(array, overwrite_a=True)
        reciprocal = 0.0 if singular else float(lapack.dgecon(lu, norm)[0])

        def solve(x: Floats) -> Floats:
            return np.asarray(lapack.dgetrs(lu, pivots, x)[0])

        def solve_transposed(x: Floats) -> Floats:
            return np.asarray(lapack.dgetrs(lu, pivots, x, trans=1)[0])

        return Factor(1 / reciprocal if reciprocal > 0 else math.inf, solve, solve_transposed)


def _inverted(array: Floats) -> Factor:
    """Return the inverse of a small matrix, which each use refines by one step, and the exact condition number."""
    try:
        inverse = np.linalg.inv(array)
    except np.linalg.LinAlgError:
        return Factor(math.inf, np.copy, np.copy)

    def solve(x: Floats) -> Floats:
        found = inverse @ x
        return np.asarray(found + inverse @ (x - array @ found))

    def solve_transposed(x: Floats) -> Floats:
        found = inverse.T @ x
        return np.asarray(found + inverse.T @ (x - array.T @ found))

    return Factor(float(np.linalg.norm(array, 1) * np.linalg.norm(inverse, 1)), solve, solve_transposed)


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """Hold ``W[i,i] = diagonal[i]`` and ``W[i,j] = off[i]`` for every other j, shapes (S,).

    With ``δ = diagonal - off``, ``M = diag(δ) + off 1ᵀ`` exactly, so its inverse is that of Sherman and Morrison.
    """

    diagonal: Ints
    off: Ints

    @property
    def weights(self) -> Ints:
        """All weights; raises SpecificationError beyond 16,384 categories."""
        size = len(self.off)
        if size > MAX_DENSE:
            what = "the matrix has too many categories for an operation that needs a dense matrix"
            raise SpecificationError(
                sentence(what, got=f"{size:,}", wanted=f"at most {MAX_DENSE:,}", fix="perturb fewer variables jointly")
            )
        weights = np.repeat(self.off[:, None], size, axis=1)
        np.fill_diagonal(weights, self.diagonal)
        return weights

    def column(self, released: int) -> Ints:
        """Return one column."""
        entries = self.off.copy()
        entries[released] = self.diagonal[released]
        return entries

    def columns(self) -> tuple[Ints, Ints]:
        """Return the extremes of each column: off the diagonal only the extremes of all rows, or the second ones."""
        order = np.argsort(self.off, kind="stable")
        high, low = np.full(len(order), self.off[order[-1]]), np.full(len(order), self.off[order[0]])
        high[order[-1]], low[order[0]] = self.off[order[-2]], self.off[order[1]]
        return np.maximum(high, self.diagonal), np.minimum(low, self.diagonal)

    def times(self, x: Floats) -> Floats:
        """Return ``δ x + off Σx``, rows apart."""
        stays, off = self._shares(x.ndim)
        return np.asarray(stays * x + off * x.sum(axis=0))

    def factor(self) -> Factor:
        """Return ``M^-1 = D - D off 1ᵀ D / (1 + 1ᵀ D off)``, D = diag(1/δ), with a refining step after each use.

        Rows of M sum to one, ``δ + S off = 1``, so the divisor is the mean of 1/δ. Where one |δ| is far below another,
        the terms cancel more than M's condition asks for, and M is decomposed instead.
        """
        sizes = np.abs(self.diagonal - self.off)
        if not sizes.min() * _CANCEL > sizes.max():
            return Dense(self.weights).factor()
        told, off = self._shares(1)
        inverse = 1 / told
        mean = float(inverse.mean())
        if mean == 0:
            return Factor(math.inf, np.copy, np.copy)
        left, right = inverse * off / mean, inverse

        def apply(x: Floats, u: Floats, v: Floats) -> Floats:
            return np.asarray((inverse * x.T - u * (x.T @ v)[..., None]).T)

        def solve(x: Floats) -> Floats:
            found = apply(x, left, right)
            return found + apply(x - self.times(found), left, right)

        def solve_transposed(x: Floats) -> Floats:
            found = apply(x, right, left)
            stays, moves = self._shares(x.ndim)
            return found + apply(x - stays * found - (moves * found).sum(axis=0), right, left)

        norm = float((self.diagonal - self.off + int(self.off.sum())).max()) / UNIT
        own = np.abs(inverse - left * right)
        others = (np.abs(left).sum() - np.abs(left)) * np.abs(right)
        return Factor(norm * float((own + others).max()), solve, solve_transposed)

    def _shares(self, axes: int) -> tuple[Floats, Floats]:
        """Return δ and the weights off the diagonal as probabilities, shaped to multiply rows."""
        shape = (-1, *[1] * (axes - 1))
        return ((self.diagonal - self.off) / float(UNIT)).reshape(shape), (self.off / float(UNIT)).reshape(shape)


def constant_form(weights: Ints) -> Constant | None:
    """Return the constant form of a matrix of at least 64 categories, if it has one."""
    size = len(weights)
    if size < CONSTANT_SIZE:
        return None
    off = np.concatenate([weights[:1, 1], weights[1:, 0]])
    same = int(np.count_nonzero(weights == off[:, None]))
    alike = size * (size - 1) + int(np.count_nonzero(weights.diagonal() == off))
    return Constant(weights.diagonal().copy(), off) if same == alike else None
