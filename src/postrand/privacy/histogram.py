"""Differentially private histograms, for priors: exact discrete noise by OpenDP."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from postrand.errors import PrivacyError, sentence, shown
from postrand.support.extras import require
from postrand.support.inputs import finite

_WIDEST = 2.0**52
"""Noise of this scale and more is not told from one count to the next in float64."""
CHANGED = 2
"""One record that changes its cell moves two counts by one: the sum of changes (the L1 sensitivity)."""


def noisy_counts(counts: NDArray[np.int64], epsilon: float) -> NDArray[np.int64]:
    """Return counts (K,) with discrete Laplace noise of scale ``2/ε``: ε-differentially private if a record changes.

    The number of records is taken as public, as it is in the release. Noise comes from the operating system's
    generator; the privacy map of OpenDP's measurement is checked to be at most ε.

    Raises
    ------
    PrivacyError
        If ε is not a positive finite number, or no scale close to ``2/ε`` meets it.
    UsageError
        If OpenDP is not installed.
    """
    if not finite(epsilon) > 0:
        what = "the epsilon of a prior is not a positive number"
        raise PrivacyError(sentence(what, got=shown(epsilon, repr), wanted="> 0"))
    epsilon = finite(epsilon)
    require("opendp", "a differentially private prior needs", "set prior = 'uniform'")
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"), size=len(counts))
    scale = CHANGED / epsilon
    for _ in range(8 if scale < _WIDEST else 0):
        measurement = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)
        if measurement.map(CHANGED) <= epsilon:  # type: ignore[no-untyped-call]
            return np.array(measurement([int(c) for c in counts]), dtype=np.int64)
        scale = math.nextafter(scale * (1 + 2**-40), math.inf)
    raise PrivacyError(sentence("no scale of the noise meets the epsilon of the prior", got=epsilon))
