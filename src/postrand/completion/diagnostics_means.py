"""Compare means of unperturbed numbers by category of a perturbed variable: in the copies, and by the release alone.

A test of a whole relation adds up all categories: what is wrong in one of few records is lost among the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from postrand.completion.diagnostics_plain import number
from postrand.completion.diagnostics_tables import Seen
from postrand.completion.diagnostics_unbiased import LEAST_SHARE
from postrand.completion.related_sums import Shown, shown, true_sums
from postrand.data import frames
from postrand.support.arrow import to_floats

Array = NDArray[np.float64]
ENOUGH_OF_CATEGORY = 30.0
"""The mean of a category that is worth fewer unperturbed records by the release alone rests on the model."""
MOST_FREE = 1e9
"""More degrees of freedom than this are as good as known for certain."""


@dataclass(frozen=True, slots=True)
class CategoryMean:
    """Say how the copies' mean of an unperturbed ``column`` over a ``category`` of ``variable`` differs.

    ``scores``: of the normal scores of its ranks, not of its values. ``copies`` and ``release`` are the pooled mean and
    the unbiased one (None where the release has no such records by itself), ``pooled_error`` and ``unbiased_error``
    their standard errors for these records; ``p`` is the probability of a larger difference if the model is right.
    ``effective`` are the unperturbed records of the category that the unbiased mean is worth.
    """

    variable: str
    category: str
    column: str
    scores: bool
    copies: float
    pooled_error: float
    release: float | None
    unbiased_error: float
    effective: float
    p: float

    @property
    def on_model(self) -> bool:
        """Whether the release alone says so little of this mean that the model decides."""
        return self.effective < ENOUGH_OF_CATEGORY

    @property
    def where(self) -> str:
        """The variable and its category."""
        return f"{self.variable} {self.category}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "variable": self.variable,
            "category": self.category,
            "column": self.column,
            "of": "normal scores" if self.scores else "values",
            "copies": number(self.copies),
            "pooled_error": number(self.pooled_error),
            "release": None if self.release is None else number(self.release),
            "unbiased_error": number(self.unbiased_error),
            "effective_records": number(self.effective),
            "on_model": self.on_model,
            "p_value": number(self.p),
        }

    def __str__(self) -> str:
        what = f"the normal scores of {self.column}" if self.scores else self.column
        said = f"mean of {what} in {self.where}: {self.copies:,.4g} ± {self.pooled_error:,.2g} in the copies"
        return said if self.release is None else f"{said}, {self.release:,.4g} ± {self.unbiased_error:,.2g} released"


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """Hold unperturbed numbers ``names`` as values and as normal scores (n, 2N), 0 where missing, and which are not."""

    names: tuple[str, ...]
    values: Array
    there: Array

    @classmethod
    def of(cls, frame: Any, names: Collection[str]) -> Numbers | None:
        """Return those of the columns ``names`` of a frame that are numbers; None if there is none."""
        kept, values, there = [], [], []
        for name in names:
            column = frames.to_arrow(frame, [name]).column(name)
            if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
                continue
            own = to_floats(column)
            known = np.isfinite(own)
            if known.sum() > 1 and np.ptp(own[known]) > 0:
                kept.append(name)
                values += [np.where(known, own, 0.0), _scores(own, known)]
                there += [known, known]
        if not kept:
            return None
        return cls(tuple(kept), np.stack(values, axis=1), np.stack(there, axis=1).astype(np.float64))


def _scores(values: Array, known: NDArray[np.bool_]) -> Array:
    """Return the normal score of each value's rank; 0 where it is missing."""
    found = np.zeros(len(values))
    ranks = scipy.stats.rankdata(values[known])
    found[known] = scipy.special.ndtri((ranks - 0.5) / len(ranks))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class MeansQuestion:
    """Ask for the means of numbers in each category of one variable; ``sums`` (3, 2N, S) are those of each copy.

    They are the records where a number is there, its sum and its sum of squares.
    """

    place: int
    shows: list[Shown]
    numbers: Numbers
    sums: list[Array] = field(default_factory=list)

    def add(self, codes: NDArray[np.int32], sizes: Sequence[int]) -> None:
        """Take the sums of one copy."""
        values, there = self.numbers.values, self.numbers.there
        parts = (there, values, values**2)
        self.sums.append(np.stack([true_sums(codes, (self.place,), sizes, part) for part in parts]))


def questions_of(numbers: Numbers | None, places: Sequence[int], seen: Seen) -> list[MeansQuestion]:
    """Return what to ask of each perturbed variable that the release shows; nothing without numbers."""
    if numbers is None:
        return []
    return [MeansQuestion(place, parts, numbers) for place in places if (parts := shown(seen, (place,)))]


def means_of(asked: MeansQuestion, variable: str, labels: Sequence[str]) -> Iterator[CategoryMean]:
    """Yield the mean of each number in each category that copies have and the release does not show as it is."""
    sums = np.array(asked.sums)
    for place, category in enumerate(labels):
        own = sums[..., place]
        held, first, second = own.mean(axis=0)
        held = np.maximum(held, 1e-9)
        middle = first / held
        total, count, square, free = _unbiased(asked, place, middle)
        within = np.maximum(second / held - middle**2, 0.0)
        apart = own[:, 1] - middle * own[:, 0]
        given = square - held * within
        for d, name in enumerate(np.repeat(asked.numbers.names, 2)):
            if held[d] < 1 or given[d] <= 1e-9 * square[d]:
                continue  # the copies have next to none of these records, or the release shows them as they are
            records, spread = float(held[d]), float(within[d])
            yield CategoryMean(
                variable,
                category,
                str(name),
                bool(d % 2),
                float(middle[d]),
                float(np.sqrt((1 + 1 / len(own)) * np.var(apart[:, d], ddof=1)) / records),
                float(middle[d] + total[d] / count[d]) if count[d] > 1 else None,
                float(np.sqrt(given[d]) / records),
                records / (1 + float(given[d]) / max(records * spread, 1e-300)),
                p_value(float(total[d] - apart[:, d].mean()) ** 2, apart[:, d], float(given[d]), float(free[d])),
            )


def _unbiased(asked: MeansQuestion, place: int, middle: Array) -> tuple[Array, Array, Array, Array]:
    """Return the unbiased sums of deviations from ``middle``, and records; what has the variance, and its freedom.

    ``Σ z² c²``, less the sum of z² over the records of the category, is the variance given the true records. That sum
    is as certain as its terms are many and alike: ``2 (Σ w)²/Σ w²`` degrees of freedom, w = z² c².
    """
    numbers, found = asked.numbers, np.zeros((4, len(middle)))
    away = (numbers.values - middle) * numbers.there
    for part in asked.shows:
        weights = part.values[:, place]
        for k, (columns, power) in enumerate(((away, 1), (numbers.there, 1), (away**2, 2), (away**4, 4))):
            found[k] += weights**power @ part.summed(columns)
    total, count, square, fourth = found
    return total, count, square, 2 * square**2 / np.maximum(fourth, 1e-300)


def p_value(far: float, apart: Array, own: float, free: float) -> float:
    """Return the probability of a squared difference larger than ``far``, of a right model, from copies' deviations.

    It has variance ``V − B (1 − 1/m)``, V of the unbiased sum given the true records and B of the copies' sums, known
    to some degrees of freedom each; or no more than V + B/m, for copies so few that they do not tell B. The p-value is
    twice the less.
    """
    m, between = len(apart), float(apart.var(ddof=1))
    known = 1 - 1 / m
    near = max(own - between * known, LEAST_SHARE * own)
    loose = min((m - 1) * near**2 / max((known * between) ** 2, 1e-300), MOST_FREE)
    p = 2 * min(
        scipy.stats.f.sf(far / near, 1, 1 / (1 / free + 1 / loose)),
        scipy.stats.f.sf(far / (own + between / m), 1, free),
    )
    return min(1.0, float(p))
