"""Draw true records given the released ones and one draw of the parameters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from postrand.mixture.evidence import Evidence
from postrand.mixture.loops import fill
from postrand.mixture.packing import Packed, pack
from postrand.mixture.values import Draw

PART = 50_000
"""Records of one call of the loops, after which an interruption is heard."""


def complete(
    evidence: Evidence,
    draw: Draw,
    seed: tuple[int, int],
    packed: tuple[Packed, NDArray[np.int64]] | None = None,
) -> NDArray[np.int32]:
    """Return true codes (n, J): class given the record, then true cells given class and released cells.

    No record breaks a rule, but where the values that are known of it already do.
    """
    rng = np.random.default_rng(seed)
    arranged, group = pack(evidence) if packed is None else packed
    out = np.empty(evidence.exact.shape, np.int32)
    theta = np.ascontiguousarray(np.concatenate([t.T for t in draw.theta]), np.float32)
    order = np.argsort(group, kind="stable")
    for start in range(0, len(order), PART):
        fill(arranged, order[start : start + PART], group, draw.weights.astype(np.float32), theta, out, rng)
    return out
