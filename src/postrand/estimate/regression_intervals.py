"""Intervals for the coefficients of corrected equations: a score test inverted, with the noise of the Jacobian.

At a value c of one coefficient, the others solved for, the equation is ``Σ_i (ζ_i − (c − c^) γ_i)`` to first order:
ζ_i is
record i's influence on the coefficient and γ_i its share of the profiled Jacobian, ``Σ γ_i = 1``. The interval holds
every c whose studentised equation is within the critical value (Fieller 1954). Where the Jacobian itself is not
significantly different from 0 the interval is the whole line, or the line without a gap: it says nothing, and is given
as (−inf, inf).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from postrand.estimate.axes import Array
from postrand.estimate.inversion import root_of


@dataclass(frozen=True, slots=True, eq=False)
class Pivot:
    """Hold ``Σζ²``, ``Σζγ``, ``Σγ²`` (centred in strata) and the degrees of freedom of each coefficient, shapes (P,).

    With no noise in the Jacobian (``mixed = slope = 0``) and infinite degrees of freedom it is the Wald interval.
    """

    variance: Array
    mixed: Array
    slope: Array
    freedom: Array

    @property
    def is_wald(self) -> bool:
        """Whether the test is that of the coefficient by its standard error: the Jacobian has no noise."""
        return not (self.mixed.any() or self.slope.any())

    def bounds(self, value: Array, level: float) -> tuple[Array, Array]:
        """Return the ends of the interval of each coefficient: all c with ``(c − c^)² <= q² Σ (ζ − (c − c^) γ)²``."""
        q = np.square(scipy.special.stdtrit(self.freedom, (1 - level) / 2))
        lead = 1 - q * self.slope
        discriminant = np.square(q * self.mixed) + lead * q * self.variance
        low, high = (
            value + root_of(lead, -q * self.mixed, discriminant, np.full_like(lead, side)) for side in (-1.0, 1.0)
        )
        return low, high

    def p_value(self, value: Array) -> Array:
        """Return two-sided p-values of the hypotheses that a coefficient is 0, from the same test."""
        spread = self.variance + 2 * value * self.mixed + value * value * self.slope
        ratio = np.abs(value) / np.sqrt(np.maximum(spread, np.finfo(float).tiny))
        return np.asarray(2 * scipy.special.stdtr(self.freedom, -ratio))


def wald(variance: Array) -> Pivot:
    """Return the pivot of the normal interval."""
    zero = np.zeros(len(variance))
    return Pivot(variance, zero, zero, np.full(len(variance), np.inf))
