"""Population uniqueness of sample uniques under the Poisson model: record risks, ``τ1`` and ``τ2`` (SS §2.1)."""

from __future__ import annotations

import numpy as np

from postrand.risk.cells import FloatArray


def unique_risk(mu: FloatArray, pi: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    """Return ``P(F=1 | f=1)`` and ``E(1/F | f=1)`` of sample uniques.

    With ``λ = μ/π`` and ``x = λ(1−π)`` these are ``exp(−x)`` and ``(1 − exp(−x))/x`` (SS §2.1). ``mu`` is the expected
    *sample* frequency, ``pi`` the inclusion probability; both (m,). Where ``π = 1`` both risks are 1.

    Examples
    --------
    >>> r1, r2 = unique_risk(np.array([0.05]), 0.05)
    >>> round(float(r1[0]), 4), round(float(r2[0]), 4)
    (0.3867, 0.6456)
    """
    x = mu / pi * (1 - pi)
    return np.exp(-x), exprel(x)


def exprel(x: FloatArray) -> FloatArray:
    """Return ``(1 − e^−x)/x``, which is 1 at 0."""
    safe = np.where(x > 0, x, 1.0)
    return np.where(x > 0, -np.expm1(-safe) / safe, 1.0)
