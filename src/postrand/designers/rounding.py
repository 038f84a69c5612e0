"""From a float matrix to an exact law that surely meets the privacy model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from postrand.errors import DesignError, sentence
from postrand.mechanism.matrix import UNIT, TransitionMatrix
from postrand.privacy import DifferentialPrivacy, PrivacyModel
from postrand.support.exact import exp_lower

_ROUNDING = 1e-9
_STEPS = 26  # from 2^-52 to 2^-2 in factors of four


def round_inside(array: NDArray[np.float64], privacy: PrivacyModel) -> TransitionMatrix:
    """Return an exact law close to ``array`` for which ``privacy.check`` holds.

    Each trial mixes the matrix towards its column means, ``(1-t) M + t 1 mᵀ`` with growing t, and rounds. Equal rows
    meet every convex model that allows a release independent of the truth, so mixing only moves inward.

    Raises
    ------
    DesignError
        If even a quarter of mixing does not meet the model: the matrix was not near the feasible set.
    """
    array = np.asarray(array, dtype=np.float64)
    for t in mixing_weights():
        mixed = (1 - t) * array + t * array.mean(axis=0)
        law = _inward(mixed, privacy.epsilon) if isinstance(privacy, DifferentialPrivacy) else None
        law = law or TransitionMatrix.from_array(mixed / mixed.sum(axis=1, keepdims=True))
        if privacy.check([law]).holds:
            return law
    raise DesignError(sentence("the matrix cannot be rounded inside the privacy model", got=privacy))


def mixing_weights() -> Iterator[float]:
    """Yield 0, then 2^-52, 2^-50, ... up to a quarter."""
    yield 0.0
    yield from (4.0**k * 2.0**-52 for k in range(_STEPS))


def _inward(array: NDArray[np.float64], epsilon: float) -> TransitionMatrix | None:
    """Round column by column into ``[low, floor(e^ε low)]``; the fullest column takes up what rows then lack.

    Only that column needs slack, and it has the smallest relative rounding. None where a row has no room there.
    """
    grown = exp_lower(epsilon)
    scaled = array * UNIT
    low = np.ceil(scaled.min(axis=0)).astype(np.int64)
    high = np.array([min(int(w) * grown.numerator // grown.denominator, UNIT) for w in low], dtype=np.int64)
    weights = np.clip(np.rint(scaled).astype(np.int64), low, high)
    fullest = int(low.argmax())
    weights[:, fullest] = 0
    weights[:, fullest] = UNIT - weights.sum(axis=1)
    # Clipping moves a feasible matrix by rounding alone; more means that it was not feasible, and mixing must go on.
    moved = np.abs(weights - scaled).max() / UNIT
    return TransitionMatrix(weights) if weights.min() >= 0 and moved <= _ROUNDING else None
