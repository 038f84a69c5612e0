"""Linear programmes of the least-loss design: fewest changes, steepest descent, room inside, and what conflicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.designers.recognition.programme import Rows, stack
from postrand.errors import DesignError, sentence

Vector = NDArray[np.float64]

_INFEASIBLE = 2
_LARGEST_ROOM = 0.5  # records: more room than this helps nobody
_SHARE = 0.01  # of the room asked of a row that a single move has to keep from 0


class Infeasible(DesignError):
    """No point meets the rows: ``parts`` names a smallest set of them that conflict."""

    def __init__(self, parts: list[str]) -> None:
        self.parts = parts
        super().__init__(
            sentence(
                "no matrix meets these conditions together", got=" + ".join(parts), fix="drop or weaken one of them"
            )
        )


def cheapest(cost: Vector, high: Vector, parts: Mapping[str, Rows]) -> tuple[Vector, float]:
    """Return moves ``y`` (V,) that minimise ``cost @ y`` over ``0 <= y <= high`` and the named rows, and the minimum.

    Raises
    ------
    DesignError
        If no matrix meets all conditions, naming those that conflict; or HiGHS stops for another reason.
    """
    found = _solve(cost, high, parts)
    if found.status == _INFEASIBLE:
        raise Infeasible(_conflict(high, parts))
    if found.status != 0:
        raise DesignError(sentence("the linear programme was not solved", got=found.message))
    return np.asarray(found.x[: len(high)]), float(found.fun)


def roomiest(high: Vector, parts: Mapping[str, Rows], share: float = _SHARE) -> tuple[Vector, float]:
    """Return moves ``y`` (V,) that keep furthest from every inequality, and by how much (at most 0 without inside).

    The distance τ is the least slack of a row, in its unit; each move is at least ``share τ min(high, 1)``. With share
    0 the moves are a vertex: few of them.

    Raises
    ------
    DesignError
        If HiGHS does not solve it.
    """
    arguments = programme(np.zeros(len(high)), high, parts)
    size, V = len(arguments["c"]), len(high)
    above = arguments["A_ub"]
    away = scipy.sparse.csr_array((-np.ones(V), (np.arange(V), np.arange(V))), shape=(V, size))
    slack = np.concatenate([np.ones(above.shape[0]), share * np.minimum(high, 1)])
    equal = arguments["A_eq"]
    found = scipy.optimize.linprog(
        np.append(np.zeros(size), -1.0),
        A_ub=scipy.sparse.hstack([scipy.sparse.vstack([above, away]), scipy.sparse.csr_array(slack[:, None])]),
        b_ub=np.append(arguments["b_ub"], np.zeros(V)),
        A_eq=scipy.sparse.hstack([equal, scipy.sparse.csr_array((equal.shape[0], 1))]),
        b_eq=arguments["b_eq"],
        bounds=np.append(arguments["bounds"], [[-np.inf, _LARGEST_ROOM]], axis=0),
        method="highs",
    )
    if found.status != 0:
        raise DesignError(sentence("the linear programme was not solved", got=found.message))
    return np.asarray(found.x[:V]), -float(found.fun)


def programme(cost: Vector, high: Vector, parts: Mapping[str, Rows]) -> dict[str, Any]:
    """Return the arguments of ``linprog``: the rows' upper sides first, then their lower ones."""
    rows = stack(list(parts.values()), len(high))
    A = rows.A.tocsr()
    equal = rows.low == rows.high
    above, below = np.isfinite(rows.high) & ~equal, np.isfinite(rows.low) & ~equal
    low = np.concatenate([np.zeros(len(high)), rows.z_low])
    return {
        "c": np.concatenate([cost, np.zeros(len(rows.z_low))]),
        "A_ub": scipy.sparse.vstack([A[above], -A[below]]),
        "b_ub": np.concatenate([rows.high[above], -rows.low[below]]),
        "A_eq": A[equal],
        "b_eq": rows.low[equal],
        "bounds": np.stack([low, np.concatenate([high, rows.z_high])], axis=1),
    }


def _solve(cost: Vector, high: Vector, parts: Mapping[str, Rows]) -> Any:
    return scipy.optimize.linprog(**programme(cost, high, parts), method="highs")


def _conflict(high: Vector, parts: Mapping[str, Rows]) -> list[str]:
    """Return a smallest set of conditions that cannot hold together: none of them can be left out."""
    kept = dict(parts)
    for name in parts:
        rest = {other: rows for other, rows in kept.items() if other != name}
        if rest and _solve(np.zeros(len(high)), high, rest).status == _INFEASIBLE:
            kept = rest
    return list(kept)
