"""Designs that look at more than one variable: the whole record in the objective, and joint blocks.

When only some variables X are perturbed and the others C are released as they are, the information between the whole
record and its release is ``I(X,C; Z,C) = H(C) + I(X; Z | C)``. So the whole record asks for the matrix that keeps most
about X *beyond what C already tells* (the last direction of ABC §5); the usual objective ``I(X; Z)`` agrees where X and
C are independent, and may choose another matrix where they are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from postrand.design.feasible import FeasibleSet
from postrand.errors import DesignError, sentence
from postrand.matrix import randomised_response
from postrand.objectives import MutualInformation
from postrand.objectives.information import entropy

Floats = NDArray[np.float64]

MAX_SIZE = 12
"""Every vertex of the uniform off-diagonal family is tried: about 2^S."""


@dataclass(frozen=True, slots=True, eq=False)
class WholeRecord:
    """Hold the matrix (S, S) that keeps most of the whole record, and what the marginal optimum keeps; in nats.

    ``value`` and ``marginal_value`` are ``I(X; Z | C)`` of the two; ``value >= marginal_value``. ``differs`` tells
    whether the two matrices are different.
    """

    array: Floats
    value: float
    marginal_array: Floats
    marginal_value: float

    @property
    def differs(self) -> bool:
        """Whether the marginal optimum is another matrix."""
        return not np.allclose(self.array, self.marginal_array, atol=1e-9)


def conditional_information(array: Floats, joint: ArrayLike) -> float:
    """Return ``I(X; Z | C)`` in nats for ``joint`` (S, C), the probability of each X = row with each C = column.

    Examples
    --------
    >>> joint = np.outer([0.5, 0.5], [0.25, 0.75])
    >>> M = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> bool(abs(conditional_information(M, joint) - MutualInformation().value(M, joint.sum(axis=1))) < 1e-15)
    True
    """
    table = np.asarray(joint, dtype=np.float64)
    mass = table.sum(axis=0)
    used = mass > 0
    return float(
        sum(
            m * MutualInformation().value(array, column / m)
            for m, column in zip(mass[used], table.T[used], strict=True)
        )
    )


def whole_record(joint: ArrayLike, epsilon: float) -> WholeRecord:
    """Return the best matrix of the uniform off-diagonal family for ``I(X; Z | C)``: the global optimum.

    A mean of convex functions is convex, so a vertex of the family is best; all of them are tried.

    Parameters
    ----------
    joint
        Shape (S, C): how often X is the row's and C the column's category; scaled to sum to 1.

    Raises
    ------
    DesignError
        If X has more than 12 categories, or the table is not one of frequencies.
    """
    table = np.asarray(joint, dtype=np.float64)
    if table.ndim != 2 or not np.isfinite(table).all() or table.min() < 0 or not table.sum() > 0:
        raise DesignError(
            sentence("not a table of frequencies", got=f"shape {table.shape}", wanted="(S, C), not negative")
        )
    if table.shape[0] > MAX_SIZE:
        fix = "group its categories, or take the marginal optimum"
        raise DesignError(sentence("too many categories", got=table.shape[0], wanted=f"<= {MAX_SIZE}", fix=fix))
    table = table / table.sum()
    arrays = [_family(q) for q in FeasibleSet(len(table), epsilon).vertices()]
    values = [conditional_information(array, table) for array in arrays]
    marginals = [MutualInformation().value(array, table.sum(axis=1)) for array in arrays]
    best, usual = int(np.argmax(values)), int(np.argmax(marginals))
    return WholeRecord(arrays[best], values[best], arrays[usual], values[usual])


def joint_gain(table: ArrayLike, epsilons: Sequence[float]) -> tuple[float, float]:
    """Return the information (nats) that a joint and independent randomised response keep of a dependent table.

    ``table`` (S_1, ..., S_J): frequencies; cells of frequency 0 are taken as infeasible, and the joint block acts on
    the others with ``Σ_j ε_j``. Independent blocks act on each variable with its ``ε_j``, and may release any cell.

    Examples
    --------
    >>> joint, independent = joint_gain([[0.5, 0.0], [0.0, 0.5]], [0.5, 0.5])
    >>> joint > independent
    True
    """
    p = np.asarray(table, dtype=np.float64)
    p = p / p.sum()
    cells = p[p > 0]
    together = MutualInformation().value(randomised_response(cells.size, sum(epsilons)).array, cells)
    released = p
    for axis, epsilon in enumerate(epsilons):
        law = randomised_response(p.shape[axis], epsilon).array
        released = np.moveaxis(np.tensordot(released, law, axes=(axis, 0)), -1, axis)
    lost = 0.0  # H(Z | X) of independent blocks: the mean of the rows' entropies, added up
    for axis, epsilon in enumerate(epsilons):
        size = p.shape[axis]
        lost += entropy(randomised_response(size, epsilon).array[0])
    return together, entropy(released.ravel()) - lost


def _family(q: Floats) -> Floats:
    size = q.size
    array: Floats = np.repeat(((1 - q) / (size - 1))[:, None], size, axis=1)
    np.fill_diagonal(array, q)
    return array
