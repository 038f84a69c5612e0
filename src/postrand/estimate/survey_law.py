"""The law of an estimate from a survey design: the covariance of its parts by unit, and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.errors import EstimationError, UsageError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.result import Law, Part


class Simple(Law, Protocol):
    """The law of a table of shares whose records are each drawn by itself."""

    def margin(self, keep: Sequence[int]) -> Simple:
        """Return the law of the table summed over all axes but ``keep``, in that order."""

    def inflated_bounds(self, value: Array, level: float, variance: Array, freedom: float) -> tuple[Array, Array]:
        """Return the ends of its intervals with another variance (L,)."""


@dataclass(frozen=True, slots=True, eq=False)
class DesignLaw:
    """Hold Z, ``deviations`` (m, L): the covariance is ``ZᵀZ``, plus what perturbs the drawn share of a population.

    ``shape`` is that of the value, and ``summable`` says whether it has margins, as shares do. ``inner`` gives the
    perturbation part, and ``drawn``, None without a finite population, that of the share of the units that was drawn:
    a finite population does not make the perturbation smaller. ``unclear`` (L,) are groups whose size cannot be told
    from zero, ``said`` the sentences on them, ``simple`` (L,) the variance of the same number of records drawn simply
    at random and not perturbed, NaN where it is not known. ``alone`` is the law of shares whose records are each drawn
    by itself: its intervals, widened to the variance of the design, hold where a cell has few records.
    """

    deviations: Array
    shape: tuple[int, ...]
    freedom: float
    inner: Law
    drawn: Law | None
    about: str
    simple: Array
    unclear: NDArray[np.bool_]
    said: tuple[str, ...] = ()
    summable: bool = True
    alone: Simple | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence on the groups of unclear size."""
        return self.said

    def covariance(self, part: Part) -> Array:
        """Return one part of the covariance, (L, L)."""
        if part == "perturbation":
            return self._open(self.inner.covariance("perturbation"))
        found = self.deviations.T @ self.deviations
        if self.drawn is not None:
            found = found + self.drawn.covariance("perturbation")
        return self._open(found if part == "total" else found - self.inner.covariance("perturbation"))

    def variance(self, part: Part) -> Array:
        """Return its diagonal, (L,)."""
        if part == "perturbation":
            return self._open(self.inner.variance("perturbation"))
        found = (self.deviations**2).sum(axis=0)
        if self.drawn is not None:
            found = found + self.drawn.variance("perturbation")
        return self._open(found if part == "total" else found - self.inner.variance("perturbation"))

    def _open(self, found: Array) -> Array:
        """Put what is not known of the groups of unclear size: an infinite variance, and no covariance."""
        away = self.unclear
        if not away.any():
            return np.asarray(found)
        if found.ndim == 1:
            return np.asarray(np.where(away, np.inf, found))
        found = np.where(away[:, None] | away, np.nan, found)
        found[away, away] = np.inf
        return np.asarray(found)

    def margin(self, keep: Sequence[int]) -> Law:
        """Return the law of the table summed over all axes but ``keep``, in that order."""
        if not self.summable:
            fix = "estimate it again with a shorter 'by'"
            raise UsageError(sentence("a statistic by group does not have a margin", fix=fix))
        rest = tuple(1 + i for i in range(len(self.shape)) if i not in keep)
        summed = self.deviations.reshape(-1, *self.shape).sum(axis=rest)
        summed = summed.transpose(0, *(1 + np.argsort(np.argsort(keep))))
        size = int(np.prod(summed.shape[1:]))
        return replace(
            self,
            deviations=summed.reshape(len(summed), size),
            shape=summed.shape[1:],
            inner=self.inner.margin(keep),
            drawn=None if self.drawn is None else self.drawn.margin(keep),
            simple=np.full(size, np.nan),
            unclear=np.zeros(size, dtype=bool),
            alone=None if self.alone is None else self.alone.margin(keep),
        )

    def bounds(self, value: Array, level: float) -> tuple[Array, Array]:
        """Return the intervals of shares that have the variance of the design; of others ``value ± t se``.

        t has the degrees of freedom of the design. (-inf, inf) where nothing is known.
        """
        if self.alone is not None:
            return self.alone.inflated_bounds(value, level, self.variance("total"), self.freedom)
        half = -scipy.special.stdtrit(self.freedom, (1 - level) / 2) * np.sqrt(np.maximum(self.variance("total"), 0.0))
        half = half.reshape(value.shape)
        return np.nan_to_num(value) - half, np.nan_to_num(value) + half

    @property
    def effect(self) -> Array:
        """The variance of drawing the records over that of as many drawn simply at random, (L,); NaN where unknown."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.variance("sampling") / self.simple)


HOUSEHOLD_DRAWS = "the variance of values that the records of a household share"


@dataclass(frozen=True, slots=True)
class Undivided:
    """Stand in for the perturbation part where it is not known: it refuses, and the total remains."""

    what: str

    def covariance(self, part: Part) -> Array:
        """Refuse."""
        raise EstimationError(
            sentence(f"{self.what} is not divided into sampling and perturbation", fix="use the total")
        )

    def variance(self, part: Part) -> Array:
        """Refuse."""
        return self.covariance(part)

    def margin(self, keep: Sequence[int]) -> Law:
        """Return itself."""
        return self

    def bounds(self, value: Array, level: float) -> tuple[Array, Array]:
        """Refuse."""
        low = self.covariance("total")
        return low, low


NOT_DIVIDED = (
    "leave out the finite population correction, and take replicate weights, if there are some, made without one: "
    "standard errors are then on the safe side"
)
"""What to do where a variance is not divided into sampling and perturbation, and a finite population needs it."""


def check_divided(drawn: Array | None, divided: bool, what: str) -> None:
    """Raise EstimationError where a finite population correction needs a division of the variance that is not known."""
    if drawn is not None and not divided:
        text = f"the variance of {what} is not divided, so that a finite population would shrink the perturbation too"
        raise EstimationError(sentence(text, fix=NOT_DIVIDED))
