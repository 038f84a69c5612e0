"""Linear programmes of the least-loss design: fewest changes, steepest descent, and why nothing is feasible."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import vstack

from postrand.design.l2_programme import Rows, stack
from postrand.errors import DesignError, sentence

_INFEASIBLE = 2


def cheapest(
    cost: NDArray[np.float64], high: NDArray[np.float64], parts: Mapping[str, Rows]
) -> tuple[NDArray[np.float64], float]:
    """Return moves ``y`` (V,) that minimise ``cost @ y`` over ``0 <= y <= high`` and the named rows, and the minimum.

    Raises
    ------
    DesignError
        If no matrix meets all conditions, naming those that conflict; or HiGHS stops for another reason.
    """
    found = _solve(cost, high, parts)
    if found.status == _INFEASIBLE:
        raise DesignError(
            sentence(
                "no matrix meets these conditions together",
                got=" + ".join(_conflict(high, parts)),
                fix="drop or weaken one of them",
            )
        )
    if found.status != 0:
        raise DesignError(sentence("the linear programme was not solved", got=found.message))
    return np.asarray(found.x[: len(high)]), float(found.fun)


def _solve(cost: NDArray[np.float64], high: NDArray[np.float64], parts: Mapping[str, Rows]):  # type: ignore[no-untyped-def]
    rows = stack(list(parts.values()), len(high))
    A = rows.A.tocsr()
    equal = rows.low == rows.high
    above, below = np.isfinite(rows.high) & ~equal, np.isfinite(rows.low) & ~equal
    low = np.concatenate([np.zeros(len(high)), rows.z_low])
    return linprog(
        np.concatenate([cost, np.zeros(len(rows.z_low))]),
        A_ub=vstack([A[above], -A[below]]),
        b_ub=np.concatenate([rows.high[above], -rows.low[below]]),
        A_eq=A[equal],
        b_eq=rows.low[equal],
        bounds=np.stack([low, np.concatenate([high, rows.z_high])], axis=1),
        method="highs",
    )


def _conflict(high: NDArray[np.float64], parts: Mapping[str, Rows]) -> list[str]:
    """Return a smallest set of conditions that cannot hold together: none of them can be left out."""
    kept = dict(parts)
    for name in parts:
        rest = {other: rows for other, rows in kept.items() if other != name}
        if rest and _solve(np.zeros(len(high)), high, rest).status == _INFEASIBLE:
            kept = rest
    return list(kept)
