"""The design of the records at hand: their units, and the deviations of a statistic's parts that make its variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.codebook.survey_design import SurveyDesign
from postrand.data.described import released_table
from postrand.errors import DataError, EstimationError, UsageError, raise_all, sentence
from postrand.estimate.axes import Array
from postrand.estimate.result import WHOLE
from postrand.estimate.survey_columns import as_is_problems, number_column, stratum_codes, weight_column
from postrand.mechanism import Mechanism

Index = NDArray[np.int64]
MAX_SUMS = 1 << 25
"""Sums by unit and released cell, 256 MB in float64."""
_RANK = 1e-5

ALONE = "if clusters, such as schools, were drawn, these errors are usually too small"
"""What is said of a design that has no clusters: a release may be without them."""
_GONE = "clusters were drawn and are not released, so that these errors are usually too small"


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Hold the design of all n records of a frame.

    ``weight`` (n,) are the sampling weights. Sums are taken in G groups. Without replicate weights the ``group`` (n,)
    of a record is its PSU, or with calibrated weights the part of a PSU with one row of ``margins`` (G, q);
    ``unit`` (G,) is the PSU of each, ``stratum`` (P,) the stratum of each PSU, and ``rest`` (H,) is ``1 − f``. With
    ``replicates`` (n, R) G is R, and ``factors`` (R,) multiply squares; the ``group`` of a record, its unit and its
    stratum are then those of the records with the same share drawn.
    """

    design: SurveyDesign
    weight: Array
    group: Index
    unit: Index
    stratum: Index
    rest: Array
    margins: Array | None
    replicates: Array | None
    factors: Array
    freedom: float

    @property
    def groups(self) -> int:
        """The number G of groups by which sums are taken."""
        return len(self.unit) if self.replicates is None else self.replicates.shape[1]

    @property
    def drawn(self) -> Array | None:
        """The share f of PSUs drawn in the stratum of each record, (n,); None without a finite population."""
        return None if self.design.fpc is None else self.drawn_of(self.group)

    def drawn_of(self, group: NDArray[np.integer[Any]]) -> Array:
        """Return the share f of PSUs drawn in the stratum of a group."""
        return np.asarray(1 - self.rest[self.stratum[self.unit[group]]])

    def sums(self, rows: Index, cell: Index, size: int, factor: Array | None = None) -> Array:
        """Return the sums of ``weight × factor`` of records ``rows`` by group and cell, shape (G, size)."""
        if self.groups * size > MAX_SUMS:
            what = "the design has too many units for so large a table"
            got, fix = f"{self.groups} units, {size} cells", "use fewer variables, or replicate weights"
            raise EstimationError(sentence(what, got=got, wanted=f"<= {MAX_SUMS} together", fix=fix))
        if self.replicates is None:
            weight = self.weight[rows] if factor is None else self.weight[rows] * factor
            found = np.bincount(self.group[rows] * size + cell, weights=weight, minlength=self.groups * size)
            return np.asarray(found.reshape(self.groups, size), dtype=np.float64)
        values = np.ones(len(rows)) if factor is None else factor
        onto = scipy.sparse.csr_array((values, (cell, np.arange(len(rows)))), shape=(size, len(rows)))
        return np.ascontiguousarray((onto @ self.replicates[rows]).T)

    def deviations(self, parts: Array, value: Array) -> Array:
        """Return Z (m, L) with the covariance ``ZᵀZ``.

        ``parts`` (G, L) are sums of weighted influence values by group, or the replicates of the estimates ``value``.
        """
        if self.replicates is not None:
            used = self.factors > 0
            centre = value if self.design.mse else parts[used].mean(axis=0)
            return np.asarray(np.sqrt(self.factors)[:, None] * (parts - centre))
        totals = self._residuals(parts)
        counts = np.bincount(self.stratum)
        mean = np.zeros((len(counts), totals.shape[1]))
        np.add.at(mean, self.stratum, totals)
        mean /= counts[:, None]
        scale = self.rest * counts / np.maximum(counts - 1, 1) * (self.design.cluster_effect or 1.0)
        lonely = counts == 1
        if self.design.lonely == "adjust":
            mean[lonely] = 0.0
        return np.asarray(np.sqrt(scale)[self.stratum, None] * (totals - mean[self.stratum]))

    def _residuals(self, parts: Array) -> Array:
        """Return the sums by PSU, less what the calibrated margins explain of them."""
        if self.margins is not None:
            size = np.bincount(self.group, weights=self.weight, minlength=len(self.unit))
            weighted = size[:, None] * self.margins
            slope = np.linalg.lstsq(self.margins.T @ weighted, self.margins.T @ parts, rcond=None)[0]
            parts = parts - weighted @ slope
        out = np.zeros((len(self.stratum), parts.shape[1]))
        np.add.at(out, self.unit, parts)
        return out

    def __str__(self) -> str:
        """Say what the variance rests on; WHOLE where sampling adds nothing to it."""
        if self.replicates is None and not self.rest.any():
            return WHOLE
        if self.replicates is not None:
            return f"{self.groups} replicate weights ({self.design.method}), {self.freedom:g} degrees of freedom"
        strata = f" in {len(self.rest):,} strata" if len(self.rest) > 1 else ""
        count, freedom = f"{len(self.stratum):,}", f"{self.freedom:,g} degrees of freedom"
        if self.design.psu is None:
            return f"{count} records without clusters{strata}, {freedom}; {_without(self.design)}"
        larger = f"; larger {_GONE}" if "psu" in self.design.not_released else ""
        return f"{count} primary sampling units{strata}, {freedom}{larger}"


def _without(design: SurveyDesign) -> str:
    """Say what the errors of a design without clusters are."""
    if design.cluster_effect is not None:
        return f"variances times {design.cluster_effect:g} for clusters that are not released"
    if "psu" in design.not_released:
        return _GONE
    return ALONE


def read_sample(frame: Any, mechanism: Mechanism, design: SurveyDesign) -> Sample:
    """Read the columns of a design.

    Raises
    ------
    UsageError
        Naming every column that the mechanism perturbs.
    DataError
        If a column is missing, or its values do not fit or are missing.
    EstimationError
        If a stratum has one PSU and ``lonely`` is ``refuse``, or no degree of freedom is left.
    """
    check_unperturbed(design, mechanism)
    table = released_table(frame, [*design.columns], mechanism) if design.columns else None
    return sample_of(table, len(frame) if table is None else table.num_rows, design)


def sample_of(table: Any, n: int, design: SurveyDesign) -> Sample:
    """Return the design of ``n`` records; ``table`` holds the columns that it names, and can be None if it names none.

    Raises
    ------
    DataError, EstimationError
        As :func:`read_sample`.
    """
    assert table is not None or not design.columns
    _check_known(table, [name for name in (design.strata, design.psu, *design.calibrated) if name is not None])
    weight = np.ones(n) if design.weights is None else weight_column(table, design.weights)
    if design.replicates:
        columns = np.stack([weight_column(table, name) for name in design.replicates], axis=1)
        values = np.linalg.svd(columns / columns.max(), compute_uv=False)
        freedom = float((values > _RANK * values[0]).sum() - 1)
        share, group = _shares(table, design.fpc, n)
        of, factors = np.arange(share.size, dtype=np.int64), np.array(design.factors)
        sample = Sample(design, weight, group, of, of, 1 - share, None, columns, factors, freedom)
        _check_freedom(sample)
        return sample
    h = np.zeros(n, dtype=np.int64) if design.strata is None else stratum_codes(table, design.strata)
    own = np.arange(n, dtype=np.int64) if design.psu is None else stratum_codes(table, design.psu)
    _, first, unit = np.unique(h * (int(own.max(initial=0)) + 1) + own, return_index=True, return_inverse=True)
    stratum = h[first]
    counts = np.bincount(stratum)
    if design.lonely == "refuse" and (counts == 1).any():
        what = "a stratum has only one primary sampling unit, so that its variance is not known"
        got = f"{int((counts == 1).sum())} such strata of {len(counts)}"
        fix = "merge strata, or say how such a stratum counts: adjust or certainty"
        raise EstimationError(sentence(what, where=f"column {design.strata!r}", got=got, fix=fix))
    rest = np.ones(len(counts)) if design.fpc is None else 1 - _fraction(table, design.fpc, h, counts)
    group, of, margins = unit.astype(np.int64), np.arange(len(stratum), dtype=np.int64), None
    if design.calibrated:
        group, of, margins = _by_margins(table, design, group)
    freedom = float(len(stratum) - len(counts))
    sample = Sample(design, weight, group, of, stratum, rest, margins, None, np.zeros(0), freedom)
    _check_freedom(sample)
    return sample


def check_unperturbed(design: SurveyDesign, mechanism: Mechanism) -> None:
    """Raise UsageError naming every column of a design that is not released as it is."""
    mechanism.require_shown(design.columns)
    single = [(part, getattr(design, part)) for part in ("weights", "strata", "psu")]
    single += [("fpc", design.fpc)] if isinstance(design.fpc, str) else []
    several = [(part, name) for part in ("replicates", "calibrated") for name in getattr(design, part)]
    problems = [*as_is_problems(mechanism, [*single, *several])]
    book = mechanism.codebook
    for name in design.columns:
        if book is not None and name in book and book[name].role in ("drop", "record_key"):
            fix = "ask the office for replicate weights"
            problems.append(sentence("a column of the survey design is not released", got=repr(name), fix=fix))
    raise_all(UsageError, problems)


def _check_known(table: Any, names: Sequence[str]) -> None:
    """Raise DataError naming the columns with missing values: a record without a unit is in no unit."""
    raise_all(
        DataError,
        (
            sentence("the survey design is missing for some records", where=f"column {name!r}", fix="fill it in")
            for name in names
            if table.column(name).null_count
        ),
    )


def _check_freedom(sample: Sample) -> None:
    if sample.freedom < 1:
        what = "the design leaves no degree of freedom for a variance"
        raise EstimationError(sentence(what, got=str(sample), fix="merge strata, or use more clusters"))


def _fraction(table: Any, name: str | float, stratum: Index, counts: Index) -> Array:
    """Return the share of PSUs that was drawn in each stratum, (H,); ``name`` can be the share itself."""
    if not isinstance(name, str):
        return np.full(len(counts), float(name))
    values = number_column(table, name, "finite population corrections")
    where = f"column {name!r}"
    held = np.zeros(len(counts))
    held[stratum] = values
    if not np.isfinite(values).all() or (values <= 0).any() or not np.array_equal(held[stratum], values):
        what = "the finite population correction is not one positive number for each stratum"
        fix = "give the number of primary sampling units in the population of the stratum"
        raise DataError(sentence(what, where=where, fix=fix))
    share = held if (held <= 1).all() else counts / held
    if (share > 1).any():
        what = "a stratum has more primary sampling units in the sample than in the population"
        raise DataError(sentence(what, where=where, fix="give numbers of units, not of persons, or shares up to 1"))
    return np.asarray(share)


def _shares(table: Any, name: str | float | None, n: int) -> tuple[Array, Index]:
    """Return the different shares of units that were drawn, and which one each record has, (n,)."""
    if not isinstance(name, str):
        return np.array([name or 0.0]), np.zeros(n, dtype=np.int64)
    values = number_column(table, name, "finite population corrections")
    if not (np.isfinite(values).all() and (values > 0).all() and (values <= 1).all()):
        what = "the finite population correction of replicate weights is not a share"
        fix = "give the share of the units of the stratum that was drawn: they do not say how many a stratum has"
        raise DataError(sentence(what, where=f"column {name!r}", wanted="above 0, and 1 at most", fix=fix))
    share, group = np.unique(values, return_inverse=True)
    return share, group.astype(np.int64)


def _by_margins(table: Any, design: SurveyDesign, unit: Index) -> tuple[Index, Index, Array]:
    """Return the records' parts of PSUs with the same calibrated categories, the PSU of each, and its categories."""
    codes = [stratum_codes(table, name) for name in design.calibrated]
    key = unit.copy()
    for column in codes:
        key = np.unique(key * (int(column.max()) + 1) + column, return_inverse=True)[1].astype(np.int64)
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    margins = np.concatenate([np.eye(int(c.max()) + 1)[c[first]] for c in codes], axis=1)
    return group.astype(np.int64), unit[first], margins
