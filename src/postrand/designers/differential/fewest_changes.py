"""The ε-DP matrix with the fewest expected changes: a small linear programme."""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.errors import DesignError, sentence


def most_agreement(prior: NDArray[np.float64], epsilon: float) -> tuple[NDArray[np.float64], float]:
    """Return the matrix (S, S) that maximises ``Σ p_i M[i,i]`` under ε-DP, and a lower bound of the changes.

    With ``l_j`` the smallest entry of column j, row i can be completed if ``d_i = M[i,i] <= e^ε l_i``,
    ``d_i <= 1 - Σ_{j≠i} l_j`` and ``d_i + e^ε Σ_{j≠i} l_j >= 1``. Raising ``d_i`` only helps the last, so the programme
    has ``d``, ``l`` and their total L as variables and 3S + 1 rows. The bound is the dual value.

    Raises
    ------
    DesignError
        If the linear programme fails.
    """
    size, grown = prior.size, math.exp(epsilon)
    eye, one = scipy.sparse.diags_array(np.ones(size)), np.ones((size, 1))
    rows = scipy.sparse.block_array(
        [
            [eye, -grown * eye, scipy.sparse.csr_array((size, 1))],
            [eye, -eye, scipy.sparse.csr_array(one)],
            [-eye, grown * eye, scipy.sparse.csr_array(-grown * one)],
        ]
    )
    limits = np.concatenate([np.zeros(size), np.ones(size), -np.ones(size)])
    total = scipy.sparse.csr_array(np.concatenate([np.zeros(size), np.ones(size), [-1.0]])[None])
    cost = np.concatenate([-prior, np.zeros(size + 1)])
    answer = scipy.optimize.linprog(cost, A_ub=rows, b_ub=limits, A_eq=total, b_eq=[0.0], method="highs-ds")
    if answer.status != 0:
        raise DesignError(sentence("the linear programme failed", got=answer.message))
    same, least = answer.x[:size], np.maximum(answer.x[size:-1], 0)
    array = _complete(same, least, grown)
    dual = float(limits @ answer.ineqlin.marginals)
    return array, min(1 + dual, 1 + float(answer.fun)) - 1e-12


def _complete(same: NDArray[np.float64], least: NDArray[np.float64], grown: float) -> NDArray[np.float64]:
    """Spread what each row lacks over its other columns, in proportion to their smallest entries."""
    others = np.broadcast_to(least, (least.size, least.size)) * (1 - np.eye(least.size))
    totals = others.sum(axis=1)
    factor = np.divide(1 - same, totals, out=np.zeros_like(totals), where=totals > 0)
    array = others * np.clip(factor, 1, grown)[:, None]
    np.fill_diagonal(array, same)
    scaled: NDArray[np.float64] = array / array.sum(axis=1, keepdims=True)
    return scaled
