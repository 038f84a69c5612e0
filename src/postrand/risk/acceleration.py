"""Squared extrapolation of proportional fitting (SQUAREM; Varadhan and Roland 2008)."""

from __future__ import annotations

import numpy as np

from postrand.risk.cells import FloatArray, IntArray

SMALLEST = 1e-300


class Accelerator:
    """Extrapolate ``log μ`` from three successive sweeps, and take the step back where the likelihood fell.

    A sweep adds margin terms to ``log μ``, so that every extrapolation stays in the model; sweeps after it restore the
    margins. ``place`` are the positions of the occupied cells within ``μ``, ``counts`` their frequencies.
    """

    def __init__(self, place: IntArray, counts: FloatArray) -> None:
        self._place, self._counts = place, counts
        self._past: list[FloatArray] = []
        self._longest = 4.0
        self._saved: FloatArray | None = None

    def after_sweep(self, mu: FloatArray) -> bool:
        """Look at ``mu`` after a sweep, and change it in place or not; returns whether it did."""
        if self._saved is not None:
            saved, self._saved = self._saved, None
            if not self._likelihood(mu) >= self._likelihood(saved):
                mu[:] = saved
                self._past = [np.log(np.maximum(mu, SMALLEST))]
                self._longest = max(self._longest / 4, 1.5)
                return True
            self._longest *= 4
            self._past = []
        self._past.append(np.log(np.maximum(mu, SMALLEST)))
        if len(self._past) < 3:
            return False
        first, second, third = self._past
        change, bend = second - first, third - 2 * second + first
        size = float((mu * bend**2).sum())
        step = min(np.sqrt(float((mu * change**2).sum()) / size), self._longest) if size > 0 else 1.0
        self._past = []
        if step <= 1.0:
            return False
        self._saved = mu.copy()
        mu[:] = np.exp(np.minimum(first + 2 * step * change + step**2 * bend, 700.0))
        return True

    def _likelihood(self, mu: FloatArray) -> float:
        """Return ``Σ f log μ``; after a sweep ``Σ μ`` is the number of records for every ``mu``."""
        return float((self._counts * np.log(np.maximum(mu[self._place], SMALLEST))).sum())
