"""From a float matrix to an exact matrix that is certain to meet the privacy model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from postrand.errors import DesignError, sentence
from postrand.mechanism.matrix import TransitionMatrix
from postrand.privacy import PrivacyModel, rounded

_STEPS = 26  # from 2^-52 to 2^-2 in factors of four


def round_inside(array: NDArray[np.float64], privacy: PrivacyModel) -> TransitionMatrix:
    """Return an exact matrix close to ``array`` for which ``privacy.check`` is met.

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
        law = rounded(privacy, mixed) or TransitionMatrix.from_array(mixed / mixed.sum(axis=1, keepdims=True))
        if privacy.check([law]).holds:
            return law
    raise DesignError(sentence("the matrix cannot be rounded inside the privacy model", got=privacy))


def mixing_weights() -> Iterator[float]:
    """Yield 0, then 2^-52, 2^-50, ... up to a quarter."""
    yield 0.0
    yield from (4.0**k * 2.0**-52 for k in range(_STEPS))
