"""By how much clusters that were drawn multiply variances: what a release without their numbers should state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.codebook.survey_design import MOST_EFFECT, SurveyDesign
from postrand.errors import DataError, UsageError, sentence
from postrand.estimate.survey_columns import stratum_codes
from postrand.estimate.survey_sample import Sample, sample_of
from postrand.risk.data import columns_in, read_columns
from postrand.support.arrow import to_floats
from postrand.support.showing import few

MAX_CATEGORIES = 50
"""A column with more values is one of numbers, whose mean is asked, or of none."""


@dataclass(frozen=True, slots=True)
class ClusterEffects:
    """Hold, by variable, the variance with clusters over that without them, each with the weights and strata.

    Of a categorical variable it is that of all its shares together: the sum of their variances in both. ``left`` are
    columns that are neither categories nor amounts, ``same`` those that all records of a cluster share: each cluster
    counts once for them. ``lonely``: strata with one cluster, whose deviation is taken from the mean of all.
    Confidential, as the file is.
    """

    design: SurveyDesign
    clusters: int
    records: int
    shares: dict[str, float]
    means: dict[str, float]
    left: tuple[str, ...]
    same: tuple[str, ...]
    lonely: int

    @property
    def stated(self) -> float:
        """The factor that no variable exceeds, rounded up to a tenth, and 1 at least."""
        most = max((*self.shares.values(), *self.means.values(), 1.0))
        return min(math.ceil(10 * most - 1e-9) / 10, MOST_EFFECT)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "clusters": self.clusters,
            "records": self.records,
            "shares": self.shares,
            "means": self.means,
            "left_out": [*self.left],
            "same_in_clusters": [*self.same],
            "strata_with_one_cluster": self.lonely,
            "cluster_effect": self.stated,
        }

    def __str__(self) -> str:
        """Show a line for each variable, those with the largest effect first, and what a codebook can state."""
        rows = [(value, name, "shares") for name, value in self.shares.items()]
        rows += [(value, name, "mean") for name, value in self.means.items()]
        rows.sort(reverse=True)
        width = max([len("variable"), *(len(name) for _, name, _ in rows)])
        beside = " and ".join(part for part in (self.design.weights, self.design.strata) if part)
        lines = [
            f"{self.clusters:,} clusters ({self.design.psu}) of {self.records:,} records"
            + (f", with {beside}" if beside else ""),
            "Variance with the clusters over variance without them:",
            f"  {'variable':<{width}}  of its    times  standard errors",
            *(f"  {name:<{width}}  {kind:<6}  {value:>7.2f}  {_error(value)}" for value, name, kind in rows),
        ]
        if self.lonely:
            many = "1 stratum has" if self.lonely == 1 else f"{self.lonely:,} strata have"
            lines.append(f"{many} one cluster: its deviation is taken from the mean of all clusters.")
        if self.same:
            lines.append(f"The same for all records of a cluster, so that each cluster counts once: {few(self.same)}.")
        if self.left:
            lines.append(f"Left out, as they are neither categories nor amounts: {few(self.left)}.")
        lines += [
            f"Next: where {self.design.psu} is not released, state in [survey] of the codebook:",
            f'  not_released = ["psu"]\n  cluster_effect = {self.stated:g}',
            "It makes all errors as large as those of the variable with the largest effect: state a smaller one where "
            "analyses do not use that variable.",
            "These figures are internal: computed from the confidential file; the one that you state is published.",
        ]
        return "\n".join(lines)


def _error(value: float) -> str:
    """Return in words what a factor of the variance makes of standard errors."""
    return f"times {math.sqrt(value):.2f}"


def cluster_effects(
    records: Any,
    psu: str,
    weights: str | None = None,
    strata: str | None = None,
    codebook: Codebook | None = None,
    variables: Sequence[str] = (),
) -> ClusterEffects:
    """Measure ``Σ_c V_clusters(p_c) / Σ_c V_records(p_c)`` of each variable's shares, or of its mean.

    Both variances are linearised, with the same weights and strata; ``weights`` and ``strata`` are by default those of
    the survey design of ``codebook``. ``records`` is the confidential file, recoded if the codebook recodes.
    ``variables`` are by default all columns that are released, or all of a file without a codebook.

    Raises
    ------
    UsageError, DataError, EstimationError
        If a column is missing or does not fit, or no variable is left.

    Examples
    --------
    >>> held = {"school": [1, 1, 2, 2, 3, 3], "likes": ["y", "y", "n", "y", "n", "n"]}
    >>> round(cluster_effects(held, "school").shares["likes"], 3)
    1.667
    """
    recorded = None if codebook is None else codebook.survey
    if recorded is not None:
        weights, strata = weights or recorded.weights, strata or recorded.strata
    design = SurveyDesign(weights=weights, strata=strata, psu=psu, lonely="adjust")
    asked = [*variables] or _released(records, codebook)
    names = [name for name in asked if name not in design.columns]
    if not names:
        raise UsageError(sentence("no variable is left beside the clusters, weights and strata", fix="name one"))
    columns = read_columns(records, [*design.columns, *names], [*filter(None, [weights])])
    table = pa.table({name: columns[name] for name in design.columns})
    sample = sample_of(table, table.num_rows, design)
    alone = sample_of(table, table.num_rows, replace(design, psu=None))
    shares: dict[str, float] = {}
    means: dict[str, float] = {}
    left: list[str] = []
    same: list[str] = []
    coded = {name: stratum_codes(pa.table({name: columns[name]}), name) for name in names}
    several = [name for name, codes in coded.items() if not 2 <= _size(codes) <= MAX_CATEGORIES]
    numbers = read_columns(records, several, several) if several else {}
    for name in names:
        is_mean = name in numbers
        values = _amounts(numbers[name], coded[name]) if is_mean else np.eye(_size(coded[name]))[coded[name]]
        if values is None:
            left.append(name)
        elif _is_same(values, sample):
            same.append(name)
        elif (effect := _effect(values, sample, alone)) is not None:
            (means if is_mean else shares)[name] = effect
    if not (shares or means):
        raise DataError(sentence("no variable has categories or numbers that vary", got=few(names)))
    lonely = int((np.bincount(sample.stratum) == 1).sum())
    counts = len(sample.stratum), table.num_rows
    return ClusterEffects(design, *counts, shares, means, tuple(left), tuple(same), lonely)


def _released(records: Any, codebook: Codebook | None) -> list[str]:
    """Return the columns of which analysts can ask: those that are released, without numbers of persons."""
    if codebook is None:
        return [*columns_in(records)]
    return [one.name for one in codebook.with_role("key", "sensitive", "other")]


def _size(codes: NDArray[np.int64]) -> int:
    """Return how many different values a column has."""
    return int(codes.max(initial=0)) + 1


def _amounts(column: Any, codes: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Return numbers (n, 1), NaN where missing; None of what is no number, does not vary or numbers the records."""
    try:
        read = np.asarray(to_floats(column), dtype=np.float64)
    except (ValueError, TypeError, pa.ArrowException):
        return None
    numbers_records = _size(codes) == len(codes) and bool(np.all(read == np.round(read)))
    return None if _size(codes) < 2 or numbers_records else read[:, None]


def _is_same(values: NDArray[np.float64], sample: Sample) -> bool:
    """Return whether all records of each cluster have the same values."""
    first = np.zeros(sample.groups, dtype=np.int64)
    first[sample.group] = np.arange(len(values))
    return bool(np.array_equal(values, values[first[sample.group]], equal_nan=True))


def _effect(values: NDArray[np.float64], sample: Sample, alone: Sample) -> float | None:
    """Return the ratio of both variances, summed over the columns; None where nothing varies."""
    known = np.asarray(np.isfinite(values).all(axis=1))
    weight = np.where(known, sample.weight, 0.0)
    held = np.where(known[:, None], values, 0.0)
    if not weight.sum() > 0:
        return None
    influence = weight[:, None] * (held - weight @ held / weight.sum())
    with_clusters, without = (_variance(influence, one) for one in (sample, alone))
    return with_clusters / without if without > 0 else None


def _variance(influence: NDArray[np.float64], sample: Sample) -> float:
    """Return the sum of the variances of totals of ``influence`` (n, k)."""
    sums = np.zeros((sample.groups, influence.shape[1]))
    np.add.at(sums, sample.group, influence)
    return float((sample.deviations(sums, np.zeros(influence.shape[1])) ** 2).sum())
