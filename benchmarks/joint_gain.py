"""What a joint block keeps of several variables, beside independent ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from postrand.mechanism.matrix import randomised_response
from postrand.objectives import MutualInformation
from postrand.objectives.information import entropy


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
