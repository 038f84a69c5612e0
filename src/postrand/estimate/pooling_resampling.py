"""The variance of any analysis within one copy: by drawing its records again, or by leaving groups of them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from postrand.data import frames
from postrand.errors import EstimationError, UsageError, sentence
from postrand.estimate.pooling_answers import Answer, answer_of

Rows: TypeAlias = NDArray[np.int64]
"""Places of records."""
Method: TypeAlias = Literal["bootstrap", "jackknife"]


@dataclass(frozen=True, slots=True)
class Resampling:
    """Hold how the variance within a copy is found.

    ``replicates`` is the number of times that an analysis is repeated in each copy: the number of drawings of the
    bootstrap, or of groups of the jackknife. ``unit`` names the column of units that are drawn whole, for example the
    households of a sample of households; None where records were drawn one by one.
    """

    method: Method
    replicates: int
    seed: int
    unit: str | None = None

    def __post_init__(self) -> None:
        if self.method not in ("bootstrap", "jackknife"):
            wanted = "'bootstrap' or 'jackknife'"
            raise UsageError(sentence("unknown way to find a variance", got=self.method, wanted=wanted))
        if self.replicates < 2:
            raise UsageError(sentence("too few replicates for a variance", got=self.replicates, wanted=">= 2"))

    @property
    def words(self) -> str:
        """What was done, for a sentence."""
        unit = f" of {self.unit}" if self.unit else ""
        if self.method == "bootstrap":
            return f"bootstrap{unit}, {self.replicates} drawings in each copy"
        return f"jackknife{unit}, at most {self.replicates} groups in each copy"


def resampled(analysis: Callable[[Any], Any], frame: Any, how: Resampling, copy: int) -> Answer:
    """Return the answer of one copy with the covariance of its estimates over the replicates.

    Raises
    ------
    EstimationError
        If a replicate answers with other names: a category, say, is in none of its records.
    """
    found = answer_of(analysis(frame))
    rows = _rows_by_unit(frame, how.unit)
    rng = np.random.default_rng([how.seed, copy])
    values = []
    for chosen in _replicates(rows, how, rng):
        again = answer_of(analysis(frames.take(frame, chosen)))
        if again.names != found.names:
            what = "an estimate has no value in a replicate of the records"
            fix = "merge categories, or use variance='jackknife', which leaves few records out"
            raise EstimationError(sentence(what, fix=fix))
        values.append(again.value)
    centred = np.array(values) - np.mean(values, axis=0)
    groups = len(values)
    factor = (groups - 1) / groups if how.method == "jackknife" else 1 / (groups - 1)
    covariance = factor * centred.T @ centred
    return replace(found, variance=np.diag(covariance), covariance=covariance)


def _rows_by_unit(frame: Any, unit: str | None) -> list[Rows]:
    """Return the places of the records of each unit that is drawn whole."""
    if unit is None:
        return list(np.arange(len(frame))[:, None])
    codes = frames.to_arrow(frame, [unit]).column(0).combine_chunks().dictionary_encode().indices
    order = np.argsort(codes.to_numpy(zero_copy_only=False), kind="stable")
    counts = np.bincount(codes.to_numpy(zero_copy_only=False))
    return np.split(order, np.cumsum(counts)[:-1])


def _replicates(rows: list[Rows], how: Resampling, rng: np.random.Generator) -> Iterator[Rows]:
    """Yield the records of each replicate."""
    units = len(rows)
    if how.method == "bootstrap":
        for _ in range(how.replicates):
            yield np.concatenate([rows[i] for i in rng.integers(0, units, units)])
        return
    if units < 2:
        raise EstimationError(sentence("one unit cannot be left out", got=units, wanted="at least two units"))
    group = rng.permutation(np.arange(units) % min(how.replicates, units))
    for left_out in range(group.max() + 1):
        yield np.concatenate([rows[i] for i in np.flatnonzero(group != left_out)])
